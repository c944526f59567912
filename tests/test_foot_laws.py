"""Laws of the foot: closed forms, properties over random inputs, derivatives at kinks, restitution by simulation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from jaxcontact import safemath
from jaxcontact.contact import friction, normal
from jaxcontact.errors import InputError

SHOE = (0.4, 8e5, 1.6, 2e4, 0.7)  # area, c1 ... c4: of the size of a shoe's, not published values
# name: (the law of (depth, rate), its elastic part alone)
NORMAL_LAWS = {
    "hertz_power": (lambda d, v: normal.hertz_power(d, 4e4, 1.3), lambda d: 4e4 * d**1.3),
    "power_kelvin_voigt": (lambda d, v: normal.power_kelvin_voigt(d, v, 4e4, 1.5, 300.0), lambda d: 4e4 * d**1.5),
    "power_hunt_crossley": (lambda d, v: normal.power_hunt_crossley(d, v, 5e5, 1.7, 4e5), lambda d: 5e5 * d**1.7),
    "shoe": (lambda d, v: normal.shoe(d, v, *SHOE), lambda d: 0.4 * 8e5 * d**1.6),
    "shoe_c5": (lambda d, v: normal.shoe(d, v, *SHOE, jnp.asarray(1.3)), lambda d: 0.4 * 8e5 * d**1.6),
}
# name: (drag of (F_n, speed_squared), cone coefficient, viscous force of (F_n, speed))
DRAG_LAWS = {
    "coulomb_viscous": (
        lambda F, s2: friction.coulomb_viscous_drag(F, s2, 0.8, 3.0, 0.01, F > 0),
        0.8,
        lambda F, s: 3.0 * s,
    ),
    "shoe": (lambda F, s2: friction.shoe_drag(F, s2, 0.4, 2e3, 0.8), 0.8, lambda F, s: 0.0 * s),
    "hollars": (lambda F, s2: friction.hollars_drag(F, s2, 0.9, 0.6, 0.2, 0.05), 0.9, lambda F, s: 0.2 * F * s),
    "stribeck": (lambda F, s2: friction.stribeck_drag(F, s2, 0.9, 0.6, 0.2, 0.05), 0.9, lambda F, s: 0.2 * F * s),
}


def random_states(count=20_000):
    rng = np.random.default_rng(3)
    depth = rng.choice([-1.0, 1.0], count, p=[0.3, 0.7]) * 10.0 ** rng.uniform(-7, -1.5, count)
    depth[:3] = 0.0
    rate = rng.choice([-1.0, 1.0], count) * 10.0 ** rng.uniform(-4, 1, count)
    return depth, rate


@pytest.mark.parametrize("name", NORMAL_LAWS)
def test_normal_force_never_pulls_needs_contact_and_never_feeds_energy(name):
    law, elastic = NORMAL_LAWS[name]
    depth, rate = random_states()
    force = np.asarray(jax.jit(law)(depth, rate))
    assert np.all(force >= 0)
    assert np.all(force[depth <= 0] == 0)
    stored = elastic(np.maximum(depth, 0.0))
    # What is not elastic takes energy from the body at every instant, also where the force is cut to zero.
    assert np.all((force - stored)[depth > 0] * rate[depth > 0] >= -1e-12 * stored[depth > 0] * np.abs(rate[depth > 0]))


@pytest.mark.parametrize("name", NORMAL_LAWS)
def test_work_over_a_closed_cycle_is_not_positive(name):
    phase = np.linspace(0, 2 * np.pi, 4001)
    depth, rate = 4e-3 * (0.7 - np.cos(phase)), 4e-3 * np.sin(phase) * 100.0  # in and out of contact, at 100 rad/s
    work = -np.trapezoid(np.asarray(NORMAL_LAWS[name][0](depth, rate)) * rate, phase / 100.0)
    assert work < 1e-9 if name != "hertz_power" else abs(work) < 1e-6


@pytest.mark.parametrize("name", DRAG_LAWS)
def test_friction_opposes_slip_within_the_cone_and_its_viscous_part(name):
    drag_law, mu, viscous = DRAG_LAWS[name]
    rng = np.random.default_rng(4)
    F_n = np.where(rng.random(20_000) < 0.2, 0.0, 10.0 ** rng.uniform(-3, 4, 20_000))
    v_t = 10.0 ** rng.uniform(-9, 1, 20_000) * np.exp(
        2j * np.pi * rng.random(20_000)
    )  # two directions along the ground
    v_t[:50] = 0.0
    drag = np.asarray(jax.jit(drag_law)(F_n, np.abs(v_t) ** 2))
    assert np.all(drag >= 0)  # so that its power, -drag |v_t|^2, is never positive
    assert np.all(drag[F_n == 0] == 0)
    assert np.all(drag * np.abs(v_t) <= (mu * F_n + viscous(F_n, np.abs(v_t))) * (1 + 1e-12))
    assert np.all(np.isfinite(drag))


def test_normal_laws_are_the_printed_equations():
    depth, rate = random_states(500)
    depth = np.abs(depth) + 1e-8
    K, m, c = 4e4, 1.37, 300.0
    for force, printed in (
        (normal.hertz_power(depth, K, m), K * depth**m),  # Foot eq. 10
        (normal.power_kelvin_voigt(depth, rate, K, m, c), np.maximum(K * depth**m + c * rate, 0)),  # eq. 11
        (normal.power_hunt_crossley(depth, rate, K, m, c), np.maximum((K + c * rate) * depth**m, 0)),  # eqs 11 and 13
        (
            normal.shoe(depth, rate, *SHOE),  # Lopes eq. 1
            np.maximum(0.0, 0.4 * (8e5 * depth**1.6 + 2e4 * depth**0.7 * rate)),
        ),
    ):
        np.testing.assert_allclose(force, printed, rtol=1e-12)


def test_exponent_three_halves_is_the_law_of_the_crutch():
    depth, rate = random_states(500)
    old = normal.hunt_crossley(depth, rate, 3e7, 1e7)
    np.testing.assert_array_equal(normal.power_hunt_crossley(depth, rate, 3e7, 1.5, 1e7), old)
    np.testing.assert_allclose(normal.power_hunt_crossley(depth, rate, 3e7, jnp.asarray(1.5), 1e7), old, rtol=1e-13)
    linear = normal.power_kelvin_voigt(depth, rate, 2e6, 1.0, 500.0)
    np.testing.assert_allclose(linear, normal.kelvin_voigt(depth, rate, 2e6, 500.0), rtol=1e-12, atol=1e-9)


def test_the_rate_of_the_shoe_law_may_have_a_power():
    depth, rate = random_states(500)
    traced = normal.shoe(depth, rate, *SHOE, jnp.asarray(1.0))
    np.testing.assert_allclose(normal.shoe(depth, rate, *SHOE), traced, rtol=1e-12, atol=1e-12)
    deep = np.full(500, 0.01)
    expected = np.maximum(0.4 * (8e5 * deep**1.6 + 2e4 * deep**0.7 * np.sign(rate) * np.abs(rate) ** 1.4), 0.0)
    np.testing.assert_allclose(normal.shoe(deep, rate, *SHOE, 1.4), expected, rtol=1e-12)


def test_sphere_stiffness_is_the_printed_one_to_its_rounding():
    # Foot eq. 12 with the paper's 0.424; 0.424 pi is 1.33204, 0.1 % below 4/3.
    E_i, nu_i, E_j, nu_j, R = 2e6, 0.45, 3e10, 0.2, 0.0308
    printed = 0.424 * np.sqrt(R) / ((1 - nu_i**2) / (np.pi * E_i) + (1 - nu_j**2) / (np.pi * E_j))
    exact = normal.sphere_stiffness(E_i, nu_i, E_j, nu_j, R)
    assert exact == pytest.approx(printed, rel=1.1e-3)
    assert exact == pytest.approx(printed * (4 / 3) / (0.424 * np.pi), rel=1e-12)


def test_friction_laws_are_the_printed_equations():
    F_n, speed = 700.0, np.array([0.0, 1e-3, 0.049, 0.05, 0.08, 0.3, 2.0])
    # Foot eq. 14 with its direction smoothed over 1e-7 m/s, which is nothing at these speeds.
    coulomb = friction.coulomb_viscous_drag(F_n, speed**2, 0.8, 3.0, 1e-7, True)
    np.testing.assert_allclose(coulomb * speed, np.where(speed > 0, 0.8 * F_n + 3.0 * speed, 0.0), rtol=1e-8)
    # Lopes eq. 2: viscous up to the cone, which it meets at c7 F_n/(area c6) = 0.7 m/s.
    shoe = friction.shoe_drag(F_n, speed**2, 0.4, 2e3, 0.8)
    np.testing.assert_allclose(shoe * speed, np.where(speed < 0.7, 0.4 * 2e3 * speed, 0.8 * F_n), rtol=1e-12)
    # Hollars: the peak is static friction, at the transition velocity.
    hollars = friction.hollars_drag(F_n, speed**2, 0.9, 0.6, 0.2, 0.05) * speed
    s = speed / 0.05
    np.testing.assert_allclose(hollars, F_n * (np.minimum(s, 1) * (0.6 + 0.6 / (1 + s**2)) + 0.2 * speed), rtol=1e-12)
    assert hollars[3] == pytest.approx(F_n * (0.9 + 0.2 * 0.05), rel=1e-12)
    # Stribeck: static at one, dynamic from three transition velocities on, half way between at two.
    stribeck = friction.stribeck_drag(F_n, np.array([0.05, 0.1, 0.15, 1.0]) ** 2, 0.9, 0.6, 0.0, 0.05)
    np.testing.assert_allclose(stribeck * np.array([0.05, 0.1, 0.15, 1.0]), F_n * np.array([0.9, 0.75, 0.6, 0.6]))


def always_in_contact(F_n, speed_squared, mu, viscous, slip_scale):
    return friction.coulomb_viscous_drag(F_n, speed_squared, mu, viscous, slip_scale, True)


@pytest.mark.parametrize(
    ("law", "points"),
    [
        (normal.hertz_power, [(2e-3, 4e4, 1.3)]),
        (normal.power_kelvin_voigt, [(2e-3, -0.004, 4e4, 1.3, 300.0)]),
        (normal.power_hunt_crossley, [(2e-3, -0.3, 4e4, 1.7, 3e4)]),
        (normal.shoe, [(5e-3, -0.2, 0.4, 8e5, 1.6, 2e4, 0.7, 1.2)]),
        (always_in_contact, [(700.0, 4e-4, 0.8, 3.0, 0.01)]),
        (friction.shoe_drag, [(700.0, 0.25, 0.4, 2e3, 0.8), (700.0, 4.0, 0.4, 2e3, 0.8)]),  # below and on the cone
        (friction.hollars_drag, [(700.0, 1e-3, 0.9, 0.6, 0.2, 0.05), (700.0, 9e-3, 0.9, 0.6, 0.2, 0.05)]),
        (friction.stribeck_drag, [(700.0, 1e-3, 0.9, 0.6, 0.2, 0.05), (700.0, 9e-3, 0.9, 0.6, 0.2, 0.05)]),
        (normal.restitution_to_damping, [(0.4, 1.3, 5e5), (0.03, 1.3, 5e5), (0.999, 1.3, 5e5)]),
    ],
)
def test_derivatives_in_both_modes_agree_with_differences(law, points):
    x = np.array(points).T  # arguments first, points in the lanes
    n = len(x)

    @jax.jit
    def all_at_once(x, steps):
        moved = x[:, None, :] + steps  # one argument at a time, all in the same call
        reverse = jax.grad(lambda x: jnp.sum(law(*x)))(x)
        forward = [jax.jvp(lambda x: law(*x), (x,), (jnp.zeros_like(x).at[i].set(1.0),))[1] for i in range(n)]
        return law(*moved), reverse, jnp.stack(forward), law(*x)

    steps = np.eye(n)[:, :, None] * 1e-6 * np.abs(x)[:, None, :]
    up, reverse, forward, value = all_at_once(x, steps)
    down = all_at_once(x, -steps)[0]
    expected = (up - down) / (2e-6 * np.abs(x))
    for derivative in (reverse, forward):
        np.testing.assert_allclose(derivative, expected, rtol=2e-6, atol=float(1e-7 * np.max(np.abs(value))))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", [*NORMAL_LAWS, "traced exponents"])
def test_derivatives_at_and_around_touch_in_a_mixed_batch(name, dtype):
    depth = np.array([-1e-3, -1e-30, 0.0, 1e-37, 1e-12, 1e-3], dtype)
    rate = np.array([1.0, -5.0, 1.0, -5.0, 0.0, -5.0], dtype)

    def total(depth, rate, exponent):
        if name in NORMAL_LAWS:
            return jnp.sum(NORMAL_LAWS[name][0](depth, rate))
        return jnp.sum(normal.shoe(depth, rate, 0.4, 8e5, exponent, 2e4, exponent - 0.9, exponent - 0.6))

    arguments = (depth, rate, jnp.asarray(1.6, dtype))
    for gradient in (jax.jit(jax.grad(total, (0, 1, 2))), jax.jit(jax.jacfwd(total, (0, 1, 2)))):
        by_depth, by_rate, by_exponent = gradient(*arguments)
        assert all(np.all(np.isfinite(g)) for g in (by_depth, by_rate, by_exponent))
        assert np.all(by_depth[:3] == 0) and np.all(by_rate[:3] == 0)  # out of contact: exactly 0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", DRAG_LAWS)
def test_derivatives_of_the_friction_force_at_rest_and_without_contact(name, dtype):
    F_n = np.array([0.0, 0.0, 5.0, 5.0, 5.0, 500.0], dtype)
    v_x = np.array([0.0, 0.3, 0.0, 1e-12, 0.05, 2.0], dtype)

    def total(F_n, v_x, v_y):
        drag = DRAG_LAWS[name][0](F_n, v_x**2 + v_y**2)
        return jnp.sum(drag * v_x) + jnp.sum(drag * v_y)

    for gradient in (jax.jit(jax.grad(total, (0, 1, 2))), jax.jit(jax.jacfwd(total, (0, 1, 2)))):
        by_force, by_x, by_y = gradient(F_n, v_x, jnp.zeros_like(v_x))
        assert all(np.all(np.isfinite(g)) for g in (by_force, by_x, by_y))
        assert np.all(by_x[:2] == 0) and np.all(by_y[:2] == 0)
        np.testing.assert_allclose(by_x[2], DRAG_LAWS[name][0](F_n[2], dtype(0.0)), rtol=1e-6)  # at rest: the drag


def test_the_shoe_keeps_its_value_and_mean_slope_at_the_kink():
    area, c6, c7, F_n = 0.5, 1000.0, 0.8, 625.0  # the cone is met at exactly 1 m/s

    def force(v):
        return friction.shoe_drag(F_n, v**2, area, c6, c7) * v

    assert force(1.0) == pytest.approx(500.0)
    inside, outside = jax.grad(force)(1.0 - 1e-9), jax.grad(force)(1.0 + 1e-9)
    assert inside == pytest.approx(500.0) and outside == pytest.approx(0.0, abs=1e-6)
    assert jax.grad(force)(1.0) == pytest.approx(250.0)


def bounce(exponent, stiffness, damping, mass, speed):
    """Ratio of rebound to approach speed of a free mass, from the equation of motion alone."""

    def right_hand_side(_, y):
        return y[1], -normal_force(y[0], y[1]) / mass

    def normal_force(depth, rate):
        return max(depth, 0.0) ** exponent * max(stiffness + damping * rate, 0.0)

    def leaves(_, y):
        return y[0]

    leaves.terminal, leaves.direction = True, -1
    scale = (mass * speed**2 / stiffness) ** (1.0 / (exponent + 1.0))  # how deep it goes, about
    run = solve_ivp(
        right_hand_side,
        (0.0, 1e4 * scale / speed),
        (1e-9 * scale, speed),
        events=leaves,
        rtol=1e-10,
        atol=1e-13,
        method="LSODA",
    )
    return -run.y_events[0][0][1] / speed


@pytest.mark.parametrize(("restitution", "exponent"), [(0.2, 1.5), (0.4, 1.0), (0.4, 1.5), (0.7, 2.2), (0.98, 1.5)])
def test_the_exact_rule_returns_the_restitution(restitution, exponent):
    damping = float(normal.restitution_to_damping(restitution, 0.8, 5e5))
    assert bounce(exponent, 5e5, damping, 3.0, 0.8) == pytest.approx(restitution, abs=1e-6)


def test_restitution_rules_agree_near_one_and_only_there():
    loss = np.array([1e-1, 1e-2, 1e-3, 1e-4])
    exact, hunt, lankarani = (
        np.asarray(normal.restitution_to_damping(1.0 - loss, 1.0, 1.0, rule)) for rule in normal.RESTITUTION_RULES
    )
    # Exact: 3/2 (1 - e) + 3/2 (1 - e)^2 + ...; the other two have the first term.
    np.testing.assert_allclose(exact / loss - 1.5, 1.5 * loss, rtol=0.2)
    np.testing.assert_allclose(hunt, 1.5 * loss, rtol=1e-10)
    np.testing.assert_allclose(lankarani, 1.5 * loss - 0.75 * loss**2, rtol=1e-10)
    # Rolling's spheres (Table 2) have e = 0.4 and 0.2: there the rules for small losses damp far too little.
    for e in (0.4, 0.2):
        too_little = float(normal.restitution_to_damping(e, 0.8, 5e5, "lankarani_nikravesh"))
        assert bounce(1.5, 5e5, too_little, 3.0, 0.8) > e + 0.2


def test_restitution_is_differentiable_up_to_one_and_in_batches():
    slope = jax.jit(jax.vmap(jax.grad(lambda e: normal.restitution_to_damping(e, 1.0, 1.0))))(
        jnp.array([1.0, 1.0 - 1e-9, 0.5])
    )
    assert slope[0] == pytest.approx(-1.5) and slope[1] == pytest.approx(-1.5) and np.isfinite(slope[2])
    single = normal.restitution_to_damping(np.float32(0.4), np.float32(1.0), np.float32(1.0))
    assert single.dtype == np.float32
    assert single == pytest.approx(float(normal.restitution_to_damping(0.4, 1.0, 1.0)), rel=1e-5)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0.0, 1.0, 1.0), "restitution is 0.0; allowed: above 0"),
        ((1.2, 1.0, 1.0), "restitution is 1.2"),
        ((0.5, 0.0, 1.0), "approach_speed is 0.0; allowed: above 0"),
        ((0.5, 1.0, 1.0, "exakt"), "Did you mean 'exact'"),
    ],
)
def test_bad_restitution_is_refused(arguments, words):
    with pytest.raises(InputError, match=words):
        normal.restitution_to_damping(*arguments)


def test_powers_at_their_kinks():
    x = jnp.array([-1.0, 0.0, 1e-300, 0.3, 4.0])
    for m in (1.5, jnp.asarray(1.5), 0.7, 3.0):
        np.testing.assert_allclose(safemath.positive_power(x, m)[3:], np.asarray(x[3:]) ** float(m), rtol=1e-14)
        by_x, by_m = jax.grad(lambda x, m: jnp.sum(safemath.positive_power(x, m)), (0, 1))(x, jnp.asarray(m))
        assert np.all(by_x[:2] == 0) and np.all(np.isfinite(by_x)) and np.isfinite(by_m)
        np.testing.assert_allclose(by_m, np.sum(np.asarray(x[3:]) ** float(m) * np.log(x[3:])), rtol=1e-12)
    assert safemath.positive_power(jnp.asarray(0.0), 1.5) == 0 and safemath.positive_power(-2.0, 2.0) == 0
    np.testing.assert_allclose(safemath.signed_power(jnp.array([-2.0, 0.0, 3.0]), 2.0), [-4.0, 0.0, 9.0], rtol=1e-14)
    for m, slope in ((1.0, 1.0), (2.0, 0.0), (jnp.asarray(1.0), 1.0)):
        assert jax.grad(safemath.signed_power)(0.0, m) == pytest.approx(slope, abs=1e-12)
