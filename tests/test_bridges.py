"""Bridges to other tools: conversions by equal forces over random states, and the tools' forces by their manuals."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from jaxcontact.contact import bridges, friction, normal
from jaxcontact.contact.bridges import Contact, Material, Mujoco, SmoothSphere
from jaxcontact.errors import InputError

COUNT = 2000
rng = np.random.default_rng(11)
DEPTH = np.where(rng.random(COUNT) < 0.2, -1.0, 1.0) * 10.0 ** rng.uniform(-6, -1.5, COUNT)
RATE = rng.choice([-1.0, 1.0], COUNT) * 10.0 ** rng.uniform(-3, 0.5, COUNT)
SLIP = np.where(rng.random(COUNT) < 0.05, 0.0, 10.0 ** rng.uniform(-6, 1, COUNT))


def some(low, high):
    return 10.0 ** rng.uniform(np.log10(low), np.log10(high), COUNT)


SPHERE = Material(some(1e4, 1e8), some(0.01, 10.0), some(0.3, 1.0), some(0.1, 0.3), some(0.01, 1.0))
GROUND = Material(some(1e5, 1e9), some(0.01, 10.0), some(0.3, 1.0), some(0.1, 0.3), some(0.01, 1.0))
RADIUS, TRANSITION = some(0.01, 0.05), some(1e-3, 0.2)
OURS = Contact(some(1e4, 1e8), some(1e3, 1e8), some(0.3, 1.0), some(0.1, 0.3), some(0.01, 1.0), TRANSITION)


def equal(a, b, rtol=1e-12):
    np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-12 * float(np.max(np.abs(b))) * rtol)


def by_the_manual(a, b):
    """Normal force before the cut and pair friction coefficients, in the words of Simbody's HuntCrossleyForce.h."""
    s1 = b.stiffness ** (2 / 3) / (a.stiffness ** (2 / 3) + b.stiffness ** (2 / 3))
    E = (s1 * a.stiffness ** (2 / 3)) ** 1.5
    c = a.dissipation * s1 + b.dissipation * (1 - s1)
    k = 4 / 3 * np.sqrt(RADIUS) * E
    f = np.where(DEPTH > 0, k * np.maximum(DEPTH, 0) ** 1.5 * (1 + 1.5 * c * RATE), 0.0)
    return f, [2 * x * y / (x + y) for x, y in zip(a[2:], b[2:], strict=True)]


def test_hunt_crossley_force_is_what_its_manual_says():
    f, (us, ud, uv) = by_the_manual(SPHERE, GROUND)
    F_n, drag = bridges.hunt_crossley_force(DEPTH, RATE, SLIP**2, bridges.combine(SPHERE, GROUND), RADIUS, TRANSITION)
    equal(F_n, np.maximum(f, 0.0))
    s = SLIP / TRANSITION
    equal(drag * SLIP, f * (np.minimum(s, 1.0) * (ud + 2 * (us - ud) / (1 + s**2)) + uv * SLIP))


def test_our_contact_of_opensim_materials_has_the_same_forces():
    pair = bridges.combine(SPHERE, GROUND)
    theirs = bridges.hunt_crossley_force(DEPTH, RATE, SLIP**2, pair, RADIUS, TRANSITION)
    ours = bridges.contact_force(bridges.contact_of_materials(SPHERE, GROUND, RADIUS, TRANSITION), DEPTH, RATE, SLIP**2)
    equal(ours[0], theirs[0])
    # Their friction does not know that the normal force was cut to zero; ours ends with it.
    torn = (DEPTH > 0) & (theirs[0] == 0)
    assert 50 < np.sum(torn) and np.all(ours[1][torn] == 0) and np.all(theirs[1][torn] <= 0)
    equal(ours[1][~torn], theirs[1][~torn])


@pytest.mark.parametrize("ground_factor", [None, 1.5, 1e6])
def test_opensim_materials_of_our_contact_have_the_same_forces(ground_factor):
    modulus = OURS.stiffness / (4 / 3 * np.sqrt(RADIUS))
    ground = None if ground_factor is None else ground_factor * modulus
    materials = bridges.materials_of_contact(OURS, RADIUS, ground)
    f, mus = by_the_manual(*materials)  # not by our own evaluation of their law
    F_n, drag = bridges.contact_force(OURS, DEPTH, RATE, SLIP**2)
    equal(F_n, np.maximum(f, 0.0))
    equal(drag, friction.hollars_drag(np.maximum(f, 0.0), SLIP**2, *mus, TRANSITION))
    back = bridges.contact_of_materials(*materials, RADIUS, TRANSITION)
    for a, b in zip(back, OURS, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9 if ground_factor else 1e-12)  # a hard ground leaves small remainders


def test_two_equal_materials_and_a_rigid_ground():
    one = Material(1e6, 2.0, 0.8, 0.6, 0.5)
    pair = bridges.combine(one, one)
    assert pair.stiffness == pytest.approx(1e6 / 2**1.5) and pair.dissipation == pytest.approx(2.0)
    assert pair[2:] == pytest.approx((0.8, 0.6, 0.5))
    rigid = bridges.combine(one, Material(1e30, 0.0, 0.8, 0.6, 0.5))
    assert rigid.stiffness == pytest.approx(1e6, rel=1e-12) and rigid.dissipation == pytest.approx(2.0)
    # Only against a rigid ground does Simbody's rule meet Hertz's theory with Young's modulus and Poisson's ratio.
    hertz = normal.effective_modulus(9e5, 0.3, 1e30, 0.3)
    assert bridges.plane_strain_modulus(9e5, 0.3) == pytest.approx(hertz)
    assert bridges.combine(one, Material(1e6)).static_friction == 0  # one surface without friction: none


def test_compliant_contact_of_simbody_has_the_same_forces_with_stribeck_friction():
    contact = bridges.contact_of_materials(SPHERE, GROUND, RADIUS, TRANSITION)
    theirs = bridges.compliant_contact_force(DEPTH, RATE, SLIP**2, bridges.combine(SPHERE, GROUND), RADIUS, TRANSITION)
    ours = bridges.contact_force(contact, DEPTH, RATE, SLIP**2, friction.stribeck_drag)
    equal(ours[0], theirs[0])
    equal(ours[1], theirs[1])
    # The manual's curve, branch by branch.
    f, (us, ud, uv) = by_the_manual(SPHERE, GROUND)
    v = SLIP / TRANSITION

    def step5(x):
        return x**3 * (10 + x * (6 * x - 15))

    between = us - (us - ud) * step5(np.clip((v - 1) / 2, 0, 1))
    dry = np.where(v >= 3, ud, np.where(v >= 1, between, us * step5(np.minimum(v, 1))))
    equal(theirs[1] * SLIP, np.maximum(f, 0.0) * (dry + uv * SLIP), rtol=1e-11)


def test_dissipation_is_the_slope_of_restitution_by_hunt_and_crossley():
    # Simbody's calcDissipationFromObservedRestitution: c = (1 - e)/v.
    e, v, k_n = 0.93, 0.4, 3e5
    chi = normal.restitution_to_damping(e, v, k_n, "hunt_crossley")
    sphere, _ = bridges.materials_of_contact(Contact(k_n, chi), 0.03)
    assert sphere.dissipation == pytest.approx((1 - e) / v)


@pytest.mark.parametrize("sharpness", [1.0, 1e2, 1e6])
def test_smooth_sphere_differs_from_ours_by_the_factors_of_its_smoothing(sharpness):
    cf, b_d, b_v = 1e-5 / sharpness**2, 300.0 * sharpness, 50.0 * sharpness  # 1: OpenSim's defaults
    smooth = bridges.smooth_sphere_of_contact(OURS, RADIUS, cf, b_d, b_v)
    theirs, their_drag = (np.asarray(x) for x in bridges.smooth_sphere_force(DEPTH, RATE, SLIP**2, smooth, RADIUS))
    ours, our_drag = (np.asarray(x) for x in bridges.contact_force(OURS, DEPTH, RATE, SLIP**2))
    c = smooth.dissipation
    beyond = RATE + 2 / (3 * c)  # above the rate of parting at which ours is cut
    hertz = OURS.stiffness * (DEPTH**2 + cf) ** 0.75
    pressed = (DEPTH > 0) & (1.5 * c * beyond > 1e-3)
    factor = (1 + cf / DEPTH**2) ** 0.75 * expit(2 * b_d * DEPTH) * expit(2 * b_v * beyond)
    equal(theirs[pressed], (ours * factor)[pressed], rtol=1e-11)
    # Where ours is cut it pulls, by no more than 0.209 c/b_v of its Hertz force.
    assert (sharpness > 1 or np.any(theirs < 0)) and np.all(theirs >= -0.2089 * c / b_v * hertz)
    # Out of contact it pushes, by no more than its step allows.
    away = DEPTH < 0
    bound = hertz * expit(2 * b_d * DEPTH) * np.maximum(1 + 1.5 * c * RATE, 0)
    assert np.all(theirs[away] <= bound[away] * (1 + 1e-12))
    # Its friction is ours of that normal force with the slip raised by sqrt(cf): less drag, never more.
    share = np.divide(theirs, ours, out=np.ones(COUNT), where=ours > 0)
    assert np.all(their_drag[pressed] <= (our_drag * share)[pressed] * (1 + 1e-12))
    if sharpness == 1e6:
        same = pressed & (DEPTH > 1e-3) & (SLIP > 1e-3) & (beyond > 1e-3)
        assert np.sum(same) > 100
        equal(theirs[same], ours[same], rtol=1e-10)
        equal(their_drag[same], our_drag[same], rtol=1e-10)


def test_smooth_sphere_takes_one_stiffness_for_both_surfaces_and_no_dissipation():
    material = Material(3e6, 0.0, 0.8, 0.6, 0.5)
    smooth = SmoothSphere(*material, constant_contact_force=0.0, hertz_smoothing=1e9)
    theirs = bridges.smooth_sphere_force(0.01, -0.5, 0.04, smooth, 0.03)
    pair = bridges.combine(material, material)
    np.testing.assert_allclose(theirs, bridges.hunt_crossley_force(0.01, -0.5, 0.04, pair, 0.03), rtol=1e-12)
    by_dissipation = jax.grad(
        lambda c: bridges.smooth_sphere_force(0.01, -0.5, 0.04, smooth._replace(dissipation=c), 0.03)[0]
    )
    assert np.isfinite(by_dissipation(0.0)) and np.isfinite(by_dissipation(0.3))


def test_friction_of_the_foot_laws_stays_within_the_stated_bound():
    mu, scale = 0.8, 0.01
    contact = bridges.contact_of_foot_laws(3e5, 2e5, mu, scale)
    F_n, drag = bridges.contact_force(contact, DEPTH, RATE, SLIP**2)
    equal(F_n, normal.power_hunt_crossley(DEPTH, RATE, 3e5, 1.5, 2e5))
    foot = friction.coulomb_viscous_drag(F_n, SLIP**2, mu, 0.0, scale, DEPTH > 0)
    bound = mu * F_n * np.minimum(1 - np.sqrt(0.5), 0.5 * scale**2 / np.maximum(SLIP, 1e-30) ** 2)
    assert np.all(np.abs(drag - foot) * SLIP <= bound * (1 + 1e-9))
    equal(
        *(
            law(1.0, 0.0)
            for law in (lambda F, s: mu * F / scale, lambda F, s: friction.hollars_drag(F, s, *contact[2:]))
        )
    )


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("impedance", [1e-4, 0.5, 0.95])
def test_mujoco_of_our_kelvin_voigt_has_the_same_forces(impedance, direct):
    k, c, mass = some(1e3, 1e6), some(1.0, 1e3), some(0.1, 80.0)
    contact = bridges.mujoco_of_kelvin_voigt(k, c, mass, impedance=impedance, direct=direct)
    F_n, drag = bridges.mujoco_force(DEPTH, RATE, SLIP**2, 0.0, mass, contact)
    equal(F_n, normal.kelvin_voigt(DEPTH, RATE, k, c), rtol=1e-11)
    assert np.all(drag == 0)
    back = bridges.kelvin_voigt_of_mujoco(contact, mass)
    np.testing.assert_allclose(back, (k, c), rtol=1e-12)
    # A load is carried by the spring but for the share that the impedance takes.
    loaded, _ = bridges.mujoco_force(DEPTH, RATE, SLIP**2, -9.81, mass, contact)
    spring = k * DEPTH + c * RATE + impedance * mass * 9.81
    equal(loaded, np.where(DEPTH > 0, np.maximum(spring, 0.0), 0.0), rtol=1e-10)


def test_mujoco_rests_where_its_manual_says():
    # doc/modeling.rst: depth at rest g (1 - d) timeconst^2 dampratio^2, or g (1 - d)/stiffness in the direct format.
    mass, g, d = 7.0, 9.81, 0.9
    flat = (d, d, 0.001, 0.5, 2.0)
    for solref, depth in (((0.03, 1.2), g * (1 - d) * (0.03 * 1.2) ** 2), ((-4e3, -50.0), g * (1 - d) / 4e3)):
        force, _ = bridges.mujoco_force(depth, 0.0, 0.0, -g, mass, Mujoco(solref, flat))
        assert force == pytest.approx(mass * g, rel=1e-12)
    # A dampratio of 1 is damping = 2 sqrt(stiffness).
    k, c = bridges.kelvin_voigt_of_mujoco(Mujoco((0.02, 1.0), flat), 1.0)
    assert c == pytest.approx(2 * np.sqrt(k))


def test_mujoco_impedance_is_its_sigmoid():
    solimp = (0.3, 0.9, 0.004, 0.25, 3.0)
    at = np.array([-1.0, 0.0, 0.001, 0.004, 0.1])
    np.testing.assert_allclose(bridges.mujoco_impedance(at, solimp), [0.3, 0.3, 0.3 + 0.25 * 0.6, 0.9, 0.9], rtol=1e-12)
    slope = jax.jit(jax.grad(lambda r: bridges.mujoco_impedance(r, solimp)))
    assert slope(0.001 - 1e-9) == pytest.approx(float(slope(0.001 + 1e-9)), rel=1e-4)  # its halves meet smoothly
    assert slope(0.001) == pytest.approx(3.0 * 0.6 / 0.004, rel=1e-9)  # power times the chord
    linear = bridges.mujoco_impedance(0.001, (0.3, 0.9, 0.004, 0.7, 1.0))
    assert linear == pytest.approx(0.3 + 0.6 / 4)
    assert bridges.mujoco_impedance(0.001, (0.3, 0.9, 0.0, 0.2, 2.0)) == pytest.approx(0.6)
    assert bridges.mujoco_impedance(0.001, (0.0, 0.0, 0.01, 0.5, 2.0)) == pytest.approx(1e-4)


def test_mujoco_force_solves_its_convex_problem():
    contact = Mujoco((0.02, 0.7), (0.3, 0.9, 0.004, 0.5, 2.0), 0.6, 3.0)
    mass, free = 4.0, -9.81
    kinds = set()
    for depth, rate, slip in zip(DEPTH[DEPTH > 1e-4][:30], RATE, SLIP + 1e-3, strict=False):
        d = float(bridges.mujoco_impedance(depth, contact.solimp))
        K, B = 1 / (0.9 * 0.02 * 0.7) ** 2, 2 / (0.9 * 0.02)
        A, R = 1 / mass, (1 - d) / d / mass
        push = np.array([B * rate + K * d * depth - free, -B * slip])
        weight = np.array([A + R, A + R / 3.0])
        scale = np.max(np.abs(push / weight)) + 1e-9
        best = minimize(
            lambda f, p=push / weight / scale, w=weight / weight[0]: 0.5 * np.sum(w * (f - p) ** 2),
            np.array([1.0, 0.0]),
            constraints=[
                {"type": "ineq", "fun": lambda f: 0.6 * f[0] - f[1]},
                {"type": "ineq", "fun": lambda f: 0.6 * f[0] + f[1]},
            ],
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 200},
        )
        F_n, drag = bridges.mujoco_force(depth, rate, slip**2, free, mass, contact)
        np.testing.assert_allclose([F_n, -drag * slip], best.x * scale, atol=1e-5 * scale)
        assert drag * slip <= 0.6 * F_n * (1 + 1e-12)  # the same cone as ours
        kinds.add("apart" if F_n == 0 else "slides" if drag * slip > 0.6 * F_n * (1 - 1e-12) else "sticks")
    assert kinds == {"apart", "slides", "sticks"}


def test_linear_equivalent_has_the_same_force_at_its_depth_at_every_rate():
    depth, k, chi, m = np.abs(DEPTH), some(1e4, 1e7), some(1e3, 1e6), rng.uniform(1.0, 2.5, COUNT)
    linear = bridges.linear_equivalent(depth, k, chi, m)
    equal(normal.kelvin_voigt(depth, RATE, *linear), normal.power_hunt_crossley(depth, RATE, k, m, chi), rtol=1e-9)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: bridges.contact_of_foot_laws(4e4, 0.0, 0.8, 0.01, exponent=1.0), "exponent is 1.0; .*: 1.5"),
        (lambda: bridges.contact_of_foot_laws(4e4, 0.0, 0.8, 0.01, viscous=3.0), "viscous is 3.0 N s/m; allowed: 0"),
        (lambda: bridges.materials_of_contact(Contact(1e6), 0.03, 1e5), "ground_stiffness is 100000.0 Pa; allowed"),
        (lambda: bridges.kelvin_voigt_of_mujoco(Mujoco(), 1.0), "allowed: d_0 = d_width"),
        (lambda: bridges.kelvin_voigt_of_mujoco(Mujoco((0.02, -1.0), (0.9, 0.9, 0, 0, 1)), 1.0), "solref is"),
        (lambda: bridges.mujoco_of_kelvin_voigt(1e4, 10.0, 1.0, impedance=1.0), "impedance is 1.0; allowed: 0.0001"),
        (lambda: bridges.mujoco_of_kelvin_voigt(1e4, 0.0, 1.0, direct=False), "Take the direct format"),
    ],
)
def test_what_has_no_equivalent_is_refused(call, words):
    with pytest.raises(InputError, match=words):
        call()


def test_conversions_can_be_traced_and_differentiated():
    def force(k_n, chi, exponent):
        contact = bridges.contact_of_foot_laws(k_n, chi, 0.8, 0.01, exponent)
        materials = bridges.materials_of_contact(contact, 0.03, 1e9)
        pair = bridges.combine(*materials)
        return bridges.hunt_crossley_force(0.004, -0.1, 0.0, pair, 0.03)[0]

    slopes = jax.jit(jax.grad(force, (0, 1, 2)))(3e5, 2e5, jnp.asarray(1.5))
    np.testing.assert_allclose(slopes, (0.004**1.5, -0.1 * 0.004**1.5, 0.0), rtol=1e-9)


def test_every_law_and_bridge_is_in_the_table():
    text = (Path(bridges.__file__).parent / "LAWS.md").read_text()
    for module in (normal, friction, bridges):
        for name, thing in vars(module).items():
            if callable(thing) and not name.startswith("_") and getattr(thing, "__module__", "") == module.__name__:
                assert f"`{name}`" in text, f"LAWS.md does not mention {name}"
