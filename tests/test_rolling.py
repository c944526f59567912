"""Rolling surfaces against quadrature, brute geometry, closed motions of wheels, and their own no-slip condition."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.integrate import quad
from scipy.optimize import brentq, least_squares

from jaxcontact.bodies import linkage
from jaxcontact.contact import rolling
from jaxcontact.contact.rolling import Side, Surface, Term


def numbers(surface):
    """The same surface with arrays for its numbers, so that surfaces of one structure share compiled functions."""
    return jax.tree.map(jnp.asarray, surface)


# Convex feet; rho is one to four metres at foot flat, as measured feet have it.
PLAIN = Surface(Side((Term(0.05, 30.0), Term(0.08, 8.0)), 0.15), Side((Term(0.03, 20.0),), 0.05))
SWITCHED = numbers(
    Surface(
        Side(
            (Term(0.05, 30.0, None, 0.026), Term(0.06, 12.0, None, 0.5), Term(0.09, 5.0, 0.026), Term(0.03, 4.0, 0.1)),
            0.1,
        ),
        Side((Term(0.03, 20.0),), 0.05),
    )
)
# The constrained family, with rho = 2.1 m from both sides of foot flat.
FAMILY = rolling.constrained_side(2.0, (10.0, 25.0, 4.0, 15.0), 0.026).side
CONSTRAINED = numbers(Surface(FAMILY._replace(circle=0.1), Side((Term(0.05, 20.0),), 0.1)))
every_surface = pytest.mark.parametrize("surface", [SWITCHED, CONSTRAINED], ids=["switched", "constrained"])
TILTS = np.concatenate([np.linspace(-0.6, 0.9, 61), [0.0, 0.026, 0.1, 0.5, 0.025, 0.027, 1e-300, -1e-300, 5e-9]])
NAMES = (
    "radius",
    "radius_slope",
    "roll_distance",
    "centre_of_pressure",
    "centre_height",
    "curvature_radius",
    "contour",
    "printed_radius",
)


@jax.jit
def look(surface, tilts):
    """Every function of the surface, by name."""
    return {name: getattr(rolling, name)(surface, tilts) for name in NAMES}


@partial(jax.jit, static_argnums=2)
def slopes(surface, tilts, names=NAMES):
    """Their derivatives by tilt, lane by lane."""
    return jax.jvp(
        lambda t: {name: getattr(rolling, name)(surface, t) for name in names},
        (jnp.asarray(tilts),),
        (jnp.ones(jnp.shape(tilts)),),
    )[1]


roll = jax.jit(rolling.roll)
constraint = jax.jit(rolling.constraint)


# --- the formulas of the paper ---


def test_roll_distance_and_cop_are_eq_1_on_both_sides():
    A = 0.2
    C, alpha = (x.ravel() for x in np.meshgrid([0.3, 5.0, 20.0, 100.0], [-1.2, -0.3, -0.02, 1e-4, 0.026, 0.5, 1.4]))

    def slope(x, C):  # r' of A (1 - exp(-C |x|))
        return A * C * np.sign(x) * np.exp(-C * np.abs(x))

    def integral(alpha, C):
        return quad(lambda x: slope(x, C) * np.cos(x), 0, alpha, epsabs=1e-15, epsrel=1e-13, limit=200)[0]

    distance = np.array([integral(*x) for x in zip(alpha, C, strict=True)])
    side = Side((Term(A, C),))
    seen = look(Surface(side, side), alpha)
    np.testing.assert_allclose(seen["roll_distance"], distance, rtol=1e-12)
    np.testing.assert_allclose(seen["radius"], A * (1 - np.exp(-C * np.abs(alpha))), rtol=1e-12)
    np.testing.assert_allclose(seen["radius_slope"], slope(alpha, C), rtol=1e-12)
    cop = np.sign(alpha) * (distance + slope(alpha, C) * np.sin(alpha))
    np.testing.assert_allclose(seen["centre_of_pressure"], cop, rtol=1e-12)
    # The printed closed form is right ahead; behind, its sin alpha has to be sin |alpha|.
    decay = np.exp(-C * np.abs(alpha))
    printed = A * C / (1 + C**2) * (np.sin(alpha) * decay + C * (1 - np.cos(alpha) * decay))
    lacking = np.where(alpha < 0, 2 * A * C / (1 + C**2) * np.sin(-alpha) * decay, 0.0)
    np.testing.assert_allclose(printed + lacking, distance, atol=1e-14)


def test_the_sides_are_mirror_images_and_each_has_its_own_terms():
    tilts = TILTS[TILTS != 0]
    seen, mirrored = look(SWITCHED, tilts), look(Surface(SWITCHED.rear, SWITCHED.front), -tilts)
    for name in ("radius", "roll_distance", "centre_height", "curvature_radius"):
        np.testing.assert_allclose(mirrored[name], seen[name])
    for name in ("radius_slope", "centre_of_pressure"):
        np.testing.assert_allclose(mirrored[name], -seen[name])
    np.testing.assert_allclose(mirrored["contour"][0], -seen["contour"][0])
    np.testing.assert_allclose(mirrored["contour"][1], seen["contour"][1])


def test_foot_flat_touches_the_centre_with_twice_the_slope_of_radius_as_curvature():
    seen = look(PLAIN, np.array([0.0, -1e-14]))
    for name in ("radius", "roll_distance", "centre_of_pressure", "centre_height"):
        assert seen[name][0] == 0.0
    front, rear = 0.15 / 2 + 0.05 * 30 + 0.08 * 8, 0.05 / 2 + 0.03 * 20
    np.testing.assert_allclose(seen["radius_slope"], [front, -rear])
    np.testing.assert_allclose(seen["curvature_radius"], [2 * front, 2 * rear])


@every_surface
def test_support_function_gives_the_paper_and_rolls_without_slip(surface):
    a, s = np.abs(TILTS), np.where(TILTS >= 0, 1.0, -1.0)
    seen, slope = look(surface, TILTS), slopes(surface, TILTS)
    r, r_slope, rho = seen["radius"], seen["radius_slope"], seen["curvature_radius"]
    cop, distance, height = seen["centre_of_pressure"], seen["roll_distance"], seen["centre_height"]
    np.testing.assert_allclose(height, r * np.sin(a), atol=1e-16)
    np.testing.assert_allclose(cop, s * (distance + r_slope * np.sin(TILTS)), atol=1e-15)  # eq. 1
    # Derivatives by tilt, with everything that was written in closed form: also at 0 and at the switches.
    np.testing.assert_allclose(slope["radius"], r_slope, atol=1e-12)
    np.testing.assert_allclose(slope["roll_distance"], r_slope * np.cos(a), atol=1e-12)
    np.testing.assert_allclose(slope["centre_of_pressure"], rho, atol=1e-12)
    # A contour touches where its support function has its slope: h' = r' sin a + r cos a on the front side.
    centre = cop - slope["centre_height"]
    np.testing.assert_allclose(centre, s * (distance - r * np.cos(a)), atol=1e-15)
    # h + h'' = rho: h' = r' sin alpha + s r cos alpha is differentiated once more.
    bend = slope["radius_slope"] * np.sin(TILTS) * s + 2 * s * r_slope * np.cos(a) - r * np.sin(a)
    np.testing.assert_allclose(height + bend, rho, atol=1e-11)


def test_cop_advances_by_the_curvature_for_any_terms():
    rng = np.random.default_rng(1)
    A, B = rng.uniform(0.05, 0.3, 500), rng.uniform(-0.2, 0.3, 500)
    C, D = np.exp(rng.uniform(0.0, np.log(100.0), (2, 500)))
    tilts = rng.uniform(-1.2, 1.2, 500) * np.exp(rng.uniform(-6, 0, 500))
    side = Side((Term(A, C), Term(B, D)))
    slope = slopes(Surface(side, side), tilts, ("centre_of_pressure",))["centre_of_pressure"]
    rho = look(Surface(side, side), tilts)["curvature_radius"]
    assert np.all(np.abs(slope - rho) < 1e-14 * (A * C * C + np.abs(B) * D * D + 1))
    # It starts from twice the slope of the radius, and changes by less than its largest slope allows.
    start = 2 * (A * C + B * D)
    assert np.all(np.abs(rho - start) < 5 * (A * C * (C + 1) + np.abs(B) * D * (D + 1)) * np.abs(tilts))


def test_a_single_term_turns_back_where_its_tilt_is_two_over_its_rate():
    # rho = A C exp(-C a) (2 cos a - C sin a); with u = C a the CoP is A (1 + exp(-2)) at u = 2, and A far beyond.
    A, C = 0.1, 200.0
    turn = np.arctan2(2.0, C)
    seen = look(Surface(Side((Term(A, C),)), Side()), np.array([0.99 * turn, turn, 1.01 * turn, 0.5]))
    rho = seen["curvature_radius"]
    assert rho[2] < 0 < rho[0] and rho[1] == pytest.approx(0.0, abs=1e-13)
    np.testing.assert_allclose(seen["centre_of_pressure"][jnp.array([1, 3])], [A * (1 + np.exp(-2)), A], rtol=1e-4)


def test_small_angles_keep_their_digits():
    # For a -> 0: r = r* = A C a, x_cop = 2 A C a, h = A C a^2, to first order in C a = 2e-12.
    a = np.array([1e-13, 1e-13, 1e-13, -1e-13])
    seen = look(Surface(Side((Term(0.2, 20.0),)), Side()), a)
    for name, value in (
        ("radius", 4e-13),
        ("roll_distance", 4e-13),
        ("centre_of_pressure", 8e-13),
        ("centre_height", 4e-26),
    ):
        np.testing.assert_allclose(seen[name], [value, value, value, 0.0], rtol=1e-11)


# --- switches ---


def literal_curvature(terms, a):
    """Radius of curvature of eq. 2, with the terms that are on at a."""
    on = [(A, C) for A, C, lo, hi in terms if lo <= a < hi]
    return sum(A * C * np.exp(-C * a) * 2 * np.cos(a) - A * C**2 * np.exp(-C * a) * np.sin(a) for A, C in on)


def test_switched_sums_integrate_the_curvature_of_the_terms_that_are_on():
    terms = [(0.05, 30.0, 0.0, 0.026), (0.06, 12.0, 0.0, 0.5), (0.09, 5.0, 0.026, 9.0), (0.03, 4.0, 0.1, 9.0)]
    angles = [0.01, 0.026, 0.07, 0.1, 0.2, 0.5, 0.7]
    seen = look(SWITCHED, np.resize(angles, len(TILTS)))

    def rho(x):
        return 0.1 + literal_curvature(terms, x)

    for i, a in enumerate(angles):
        kinks = [k for k in (0.026, 0.1, 0.5) if k < a] or None
        assert seen["curvature_radius"][i] == pytest.approx(rho(a), rel=1e-12)
        assert seen["centre_of_pressure"][i] == pytest.approx(quad(rho, 0, a, points=kinks, epsabs=1e-14)[0], rel=1e-11)
        # h + h'' = rho from rest at foot flat: h = int rho(b) sin(a - b) db.
        height = quad(lambda x, a=a: rho(x) * np.sin(a - x), 0, a, points=kinks, epsabs=1e-14)[0]
        assert seen["centre_height"][i] == pytest.approx(height, rel=1e-11)


def test_lengths_are_continuous_at_a_switch_and_the_printed_radius_is_not():
    switches = np.array([0.026, 0.1, 0.5])
    below, at, above = (look(SWITCHED, np.resize(switches + x, len(TILTS))) for x in (-1e-13, 0.0, 1e-13))
    for name in ("radius", "radius_slope", "roll_distance", "centre_of_pressure", "centre_height"):
        np.testing.assert_allclose(below[name], above[name], atol=1e-10)
        np.testing.assert_allclose(at[name], above[name], atol=1e-10)
    # At the switch the terms after it count.
    jump = -0.05 * (1 - np.exp(-0.78)) + 0.09 * (1 - np.exp(-0.13))
    assert above["printed_radius"][0] - below["printed_radius"][0] == pytest.approx(jump, abs=1e-11)
    assert at["printed_radius"][0] == pytest.approx(float(above["printed_radius"][0]), abs=1e-11)
    plain = look(PLAIN, TILTS)
    np.testing.assert_allclose(plain["printed_radius"], plain["radius"], atol=1e-16)


def test_a_term_between_two_switches_is_the_later_part_less_the_part_after_it():
    window, late, later = Term(0.09, 5.0, 0.026, 0.3), Term(0.09, 5.0, 0.026), Term(0.09, 5.0, 0.3)
    tilts = np.array([-0.4, -0.3, -0.1, 0.0, 0.02, 0.026, 0.2, 0.3, 0.7])
    of = {t: look(Surface(Side((t,)), Side((t,))), tilts) for t in (window, late, later)}
    for name in NAMES:
        a, b, c = (np.asarray(of[t][name]) for t in (window, late, later))
        np.testing.assert_allclose(a, b - c, atol=1e-15)


# --- the contour as a body ---


@every_surface
def test_the_contour_is_a_curve_with_this_tangent_and_length(surface):
    along, up = slopes(surface, TILTS)["contour"]
    rho = look(surface, TILTS)["curvature_radius"]
    # At tilt alpha the tangent lies along the ground, whose direction in the foot's frame is (cos, sin) alpha.
    np.testing.assert_allclose(along, rho * np.cos(TILTS), atol=1e-11)
    np.testing.assert_allclose(up, rho * np.sin(TILTS), atol=1e-11)


@every_surface
def test_the_foot_rests_on_the_lowest_point_of_its_contour(surface):
    every = np.linspace(-0.7, 1.0, 17_001)
    seen = {name: np.asarray(jax.jit(getattr(rolling, name))(surface, every)) for name in NAMES[4:7]}
    assert np.all(seen["curvature_radius"] > 0)  # a convex foot
    along, up = seen["contour"]
    for i in (2000, 6900, 7000, 7260, 9000, 15_000):
        heights = -along * np.sin(every[i]) + up * np.cos(every[i])
        assert np.argmin(heights) == pytest.approx(i, abs=1)
        assert seen["centre_height"][i] == pytest.approx(-heights.min(), abs=1e-15)


# --- the constrained family ---


def pair_at(terms, a):
    """Eq. 1 and its curvature for a sum of (A, C), each from its own zero."""
    rho = sum(A * C * np.exp(-C * a) * (2 * np.cos(a) - C * np.sin(a)) for A, C in terms)
    r_star = sum(
        A * C / (1 + C**2) * (np.sin(a) * np.exp(-C * a) + C * (1 - np.cos(a) * np.exp(-C * a))) for A, C in terms
    )
    return rho, r_star + sum(A * C * np.exp(-C * a) for A, C in terms) * np.sin(a)


def test_the_family_keeps_its_four_constraints():
    rng, n = np.random.default_rng(2), 300
    rho0, slope0, switch = rng.uniform(0.2, 3.0, n), rng.uniform(-5.0, 5.0, n), rng.uniform(0.01, 0.08, n)
    C1, C3 = rng.uniform(2.0, 20.0, (2, n))
    rates = (C1, C1 * rng.uniform(1.2, 5.0, n), C3, C3 * rng.uniform(1.2, 5.0, n))
    made = jax.jit(rolling.constrained_side)(rho0, rates, switch, slope0)
    assert np.all(made.solvable)
    terms = made.side.terms
    surface = Surface(made.side, Side())
    scale = sum(np.abs(t.amplitude * t.rate) for t in terms)  # what rounding acts on: amplitudes may cancel

    def holds(computed, wanted, tolerance):
        assert np.all(np.abs(computed - wanted) < tolerance * scale)

    holds(look(surface, np.zeros(n))["curvature_radius"], rho0, 1e-14)
    holds(slopes(surface, np.zeros(n), ("curvature_radius",))["curvature_radius"], slope0, 1e-12)
    before, after = ([(np.asarray(t.amplitude), np.asarray(t.rate)) for t in terms[k : k + 2]] for k in (0, 2))
    for left, right in zip(pair_at(before, switch), pair_at(after, switch), strict=True):
        holds(left, right, 1e-12)
    # So rho is continuous, and terms 3 and 4 alone, by eq. 1 from their own zero, give the CoP after the switch.
    left, right = (look(surface, switch * x)["curvature_radius"] for x in (1 - 1e-14, 1))
    holds(left, right, 1e-11)
    later = switch + rng.uniform(0.0, 0.5, n)
    holds(look(surface, later)["centre_of_pressure"], pair_at(after, later)[1], 1e-12)


def test_the_family_is_the_solution_of_the_four_equations_and_so_are_its_derivatives():
    def amplitudes(free):  # all four constraints as one linear system in A1..A4
        C, a = free[:4], free[4]
        unit = [pair_at([(1.0, c)], a) for c in C]
        rows = [
            [2 * C[0], 2 * C[1], 0, 0],
            [-3 * C[0] ** 2, -3 * C[1] ** 2, 0, 0],
            [unit[0][0], unit[1][0], -unit[2][0], -unit[3][0]],
            [unit[0][1], unit[1][1], -unit[2][1], -unit[3][1]],
        ]
        return np.linalg.solve(np.array(rows, float), [2.0, 0.0, 0.0, 0.0])

    def ours(free):
        return jnp.stack([t.amplitude for t in rolling.constrained_side(2.0, free[:4], free[4]).side.terms])

    free = np.array([10.0, 25.0, 4.0, 15.0, 0.026])
    np.testing.assert_allclose(ours(free), amplitudes(free), rtol=1e-12)
    steps = 1e-5 * free
    difference = [(amplitudes(free + d) - amplitudes(free - d)) / (2 * d.sum()) for d in np.diag(steps)]
    for derivative in (jax.jacfwd, jax.jacrev):
        np.testing.assert_allclose(jax.jit(derivative(ours))(jnp.asarray(free)).T, difference, rtol=1e-6, atol=1e-9)


def test_a_singular_family_is_flagged_lane_by_lane_and_stays_finite():
    def same(C):  # two rates with equal rho / x_cop at the switch, both turned back before it
        return np.divide(*pair_at([(1.0, C)], 0.026)) - np.divide(*pair_at([(1.0, 110.0)], 0.026))

    twin = brentq(same, 140.0, 400.0, xtol=1e-13)
    rates = (
        jnp.array([10.0, 10.0, 10.0, 10.0, 0.0]),
        jnp.array([25.0, 10.0, 25.0, 25.0, 25.0]),
        jnp.array([4.0, 4.0, 15.0, 110.0, 4.0]),
        jnp.array([15.0, 15.0, 15.0, twin, 15.0]),
    )
    made = jax.jit(rolling.constrained_side)(2.0, rates, 0.026)
    np.testing.assert_array_equal(made.solvable, [True, False, False, False, False])

    def total(rates, switch):
        side = rolling.constrained_side(2.0, rates, switch).side
        return jnp.sum(rolling.centre_of_pressure(Surface(side, Side()), jnp.full(5, 0.2)))

    gradient = jax.jit(jax.grad(total, argnums=(0, 1)))(rates, 0.026)
    assert all(np.all(np.isfinite(s)) for s in jax.tree.leaves(gradient))


# --- derivatives, lanes, precision ---


UNRAVEL = ravel_pytree(SWITCHED)[1]


def outcome(flat, tilts):
    p = rolling.roll(UNRAVEL(flat), tilts, (0.1, 0.07))
    return jnp.stack([*p.position, *p.bend])  # r, r*, x_cop and rho are all in these


outcomes = jax.jit(jax.vmap(outcome, (0, None)))
by_forward_mode = jax.jit(jax.jacfwd(outcome))
by_reverse_mode = jax.jit(jax.grad(lambda flat, tilts, weights: jnp.sum(weights * outcome(flat, tilts))))


@every_surface
def test_every_number_has_its_derivative_in_both_modes(surface):
    flat = ravel_pytree(surface)[0]
    tilts = jnp.array([0.2, 0.0255, 0.0265, -1e-3, -0.4, 0.6, 0.0, 0.026, 0.1, 1e-300, -1e-300])
    forward = by_forward_mode(flat, tilts)
    for seed in range(5):
        weights = np.random.default_rng(seed).normal(size=forward.shape[:2])
        reverse = by_reverse_mode(flat, tilts, weights)
        np.testing.assert_allclose(np.einsum("it,itp->p", weights, forward), reverse, atol=1e-12)  # at kinks, too
    steps = 1e-5 * np.maximum(np.abs(flat), 1e-2)
    up, down = (outcomes(flat + sign * np.diag(steps), tilts) for sign in (1, -1))
    difference = np.moveaxis((up - down) / (2 * steps)[:, None, None], 0, -1)
    smooth = np.arange(len(tilts)) < 6
    np.testing.assert_allclose(forward[:, smooth], difference[:, smooth], rtol=1e-5, atol=1e-6)
    # The front's numbers do not matter behind, nor the rear's ahead.
    front = np.arange(len(flat)) < len(ravel_pytree(surface.front)[0])
    behind = np.asarray(tilts) < 0
    assert np.all(forward[:, behind][:, :, front] == 0) and np.all(forward[:, ~behind][:, :, ~front] == 0)


def test_lanes_are_independent_and_scalars_stay_scalars():
    n = len(TILTS)
    scale = np.linspace(0.5, 1.5, n)
    many = roll(jax.tree.map(lambda x: x * scale, SWITCHED), TILTS)
    for lane in (0, 20, 40, 62, 65):
        alone = roll(jax.tree.map(lambda x, lane=lane: x * scale[lane], SWITCHED), np.full(n, TILTS[lane]))
        for a, b in zip(jax.tree.leaves(many), jax.tree.leaves(alone), strict=True):
            assert a[lane] == pytest.approx(float(b[0]), rel=1e-12, abs=1e-15)
    assert {jnp.shape(x) for x in jax.tree.leaves(look(PLAIN, 0.1))} == {()}


def test_single_precision_is_right_to_a_micrometre():
    tilts = TILTS.astype(np.float32)
    single = roll(jax.tree.map(lambda x: x.astype(np.float32), SWITCHED), tilts)
    double = roll(SWITCHED, tilts.astype(float))
    assert {x.dtype for x in jax.tree.leaves(single)} == {np.dtype(np.float32)}
    np.testing.assert_allclose(single.position, double.position, atol=1e-6)
    np.testing.assert_allclose(single.slope, double.slope, atol=1e-6)


def test_shapes_can_be_fitted_to_cop_over_pitch_by_gradients():
    truth = Surface(Side((Term(0.11, 25.0),), 0.2), Side((Term(0.05, 40.0),), 0.1))
    pitch = np.linspace(-0.3, 0.5, 161)
    cop = rolling.cop_from_pitch(truth, pitch, 0.07, 0.015)
    np.testing.assert_allclose(cop, 0.07 + rolling.centre_of_pressure(truth, pitch - 0.015), atol=1e-15)
    start, unravel = ravel_pytree((Surface(Side((Term(0.08, 15.0),), 0.1), Side((Term(0.08, 20.0),), 0.05)), 0.0, 0.0))

    def misfit(x):
        surface, origin, flat = unravel(x)
        return rolling.cop_from_pitch(surface, pitch, origin, flat) - cop

    slope: Any = jax.jit(jax.jacfwd(misfit))
    found = least_squares(jax.jit(misfit), start, jac=slope, x_scale="jac", xtol=1e-14, gtol=1e-14)
    np.testing.assert_allclose(found.x, ravel_pytree((truth, 0.07, 0.015))[0], rtol=1e-6)


# --- the joint ---


@jax.jit
def derived(surface, tilts, point, origin):
    """First and second derivative by tilt of where a point of the foot is."""
    ones = jnp.ones_like(tilts)

    def slope(t):
        return jax.jvp(lambda t: rolling.roll(surface, t, point, origin).position, (t,), (ones,))[1]

    return jax.jvp(slope, (tilts,), (ones,))


@every_surface
def test_the_joint_moves_every_point_about_the_contact(surface):
    point = tuple(np.full(len(TILTS), x) for x in (0.12, 0.08))
    rolled, seen = roll(surface, TILTS, point, 0.4), look(surface, TILTS)
    slope, bend = derived(surface, jnp.asarray(TILTS), point, 0.4)
    np.testing.assert_allclose(rolled.slope, slope, atol=1e-12)
    np.testing.assert_allclose(rolled.bend, bend, atol=1e-11)
    # The material point of the foot that is at the CoP: on the ground, there, and still.
    contact = roll(surface, TILTS, seen["contour"], 0.4)
    np.testing.assert_allclose(contact.position[1], 0.0, atol=1e-15)
    np.testing.assert_allclose(contact.position[0], 0.4 + seen["centre_of_pressure"], atol=1e-15)
    np.testing.assert_allclose(rolling.velocity(contact, 3.0), 0.0, atol=1e-14)
    # Its acceleration is upwards, rho alpha_dot^2, as for any rolling wheel.
    sideways, upwards = rolling.acceleration(contact, 3.0, 5.0)
    np.testing.assert_allclose(sideways, 0.0, atol=1e-13)
    np.testing.assert_allclose(upwards, 9.0 * seen["curvature_radius"], atol=1e-12)


def test_a_circle_rolls_as_a_wheel():
    R = 0.3
    wheel = Surface(Side(circle=R), Side(circle=R))
    tilts = np.linspace(-3.0, 3.0, 31)
    seen = look(wheel, tilts)
    np.testing.assert_allclose(seen["centre_of_pressure"], R * tilts, atol=1e-14)
    np.testing.assert_allclose(seen["curvature_radius"], R)
    hub = roll(wheel, tilts, (0.0, R))
    np.testing.assert_allclose(hub.position, [R * tilts, np.full(31, R)], atol=1e-14)
    # A point of the rim draws a cycloid.
    rim = roll(wheel, tilts, (0.0, 2 * R))
    np.testing.assert_allclose(rim.position, [R * (tilts + np.sin(tilts)), R * (1 + np.cos(tilts))], atol=1e-14)


def test_a_foot_link_turns_as_linkages_do():
    # Linkage angles are clockwise from vertical: with the sole's normal along the link, tilt is the angle itself.
    links = [linkage.Link(-1, 1.0, 0.1, 0.0)]
    spot = linkage.point(links, 0, 0.07, 0.12)  # 0.07 along the link (up), 0.12 across it (forward)
    base = roll(PLAIN, 0.2, (0.0, 0.0), 0.4)
    sines, cosines = linkage.directions([0.2])
    expected = linkage.position(spot, base.position, sines, cosines)
    rolled = roll(PLAIN, 0.2, (0.12, 0.07), 0.4)
    np.testing.assert_allclose(rolled.position, expected, rtol=1e-14)
    moving = linkage.velocity(spot, rolling.velocity(base, 3.0), [3.0], sines, cosines)
    np.testing.assert_allclose(rolling.velocity(rolled, 3.0), moving, rtol=1e-13)


@jax.jit
def along_a_path(surface, q, v, a, point, origin):
    """Rate and acceleration of the constraint's gap on a path with this velocity and acceleration."""

    def rate(time):
        def gap(t):
            return jnp.stack(rolling.constraint(surface, q + t * v + 0.5 * t * t * a, v, point, origin).gap)

        return jax.jvp(gap, (time,), (1.0,))[1]

    return jax.jvp(rate, (0.0,), (1.0,))


@every_surface
def test_the_constraint_is_its_own_derivative_and_does_no_work(surface):
    n = len(TILTS)
    point = tuple(np.full(n, x) for x in (0.12, 0.3))
    q, v, a = np.random.default_rng(0).normal(0, 0.3, (3, 3, n))
    held = constraint(surface, q, v, point, 0.4)
    jacobian = np.array(held.jacobian)
    first, second = along_a_path(surface, q, v, a, point, 0.4)
    np.testing.assert_allclose(np.einsum("ijn,jn->in", jacobian, v), first, atol=1e-13)
    np.testing.assert_allclose(held.rate, first, atol=1e-13)
    np.testing.assert_allclose(np.einsum("ijn,jn->in", jacobian, a) + held.drift, second, atol=1e-11)
    # The multiplier is the ground's force at the CoP: same force, same clockwise moment about the body's point.
    force = np.array([3.0, 7.0])
    rolled = roll(surface, q[2], point, 0.4)
    lever = 0.4 + look(surface, q[2])["centre_of_pressure"] - rolled.position[0], -rolled.position[1]
    general = np.einsum("ijn,i->jn", jacobian, force)
    np.testing.assert_allclose(general[:2], np.outer(force, np.ones(n)))
    np.testing.assert_allclose(general[2], -(lever[0] * force[1] - lever[1] * force[0]), atol=1e-13)
    # No power in any motion that the constraint allows.
    allowed = np.stack([*rolling.velocity(rolled, v[2]), v[2]])
    np.testing.assert_allclose(np.sum(general * allowed, axis=0), 0.0, atol=1e-13)


MASS, INERTIA, G = 60.0, 4.0, 9.81


def by_coordinate(surface, point, state):
    """Tilt as the one coordinate: (m p'.p' + I) alpha_ddot = -m p'.p'' alpha_dot^2 - m g p'_y."""
    tilt, spin = state
    p = rolling.roll(surface, tilt, point)
    inertia = MASS * (p.slope[0] ** 2 + p.slope[1] ** 2) + INERTIA
    drag = MASS * (p.slope[0] * p.bend[0] + p.slope[1] * p.bend[1]) * spin**2
    return jnp.stack([spin, -(drag + MASS * G * p.slope[1]) / inertia])


def by_multipliers(surface, point, state):
    """The free body with the constraint's forces: M q_ddot = Q + J^T force, J q_ddot = stabilised."""
    q, v = state[:3], state[3:]
    held = rolling.constraint(surface, q, v, point)
    J, M = jnp.array(held.jacobian), jnp.diag(jnp.array([MASS, MASS, INERTIA]))
    Q = jnp.array([0.0, -MASS * G, 0.0])
    system = jnp.block([[M, -J.T], [J, jnp.zeros((2, 2))]])
    solution = jnp.linalg.solve(system, jnp.concatenate([Q, jnp.stack(rolling.stabilised(held, 20.0))]))
    return jnp.concatenate([v, solution[:3]])


STEPS, H = 1200, 1e-3
TIME = H * np.arange(1, STEPS + 1)


@partial(jax.jit, static_argnums=0)
def motion(flow, surface, point, start):
    """The classical Runge-Kutta method; its four stages are a scan so that the flow is compiled once."""

    def stage(carry, c):
        y, slope, total = carry
        slope = flow(surface, point, y + c[0] * H * slope)
        return (y, slope, total + c[1] * slope), None

    def step(y, _):
        table = jnp.array([[0.0, 1 / 6], [0.5, 1 / 3], [0.5, 1 / 3], [1.0, 1 / 6]])
        y = y + H * jax.lax.scan(stage, (y, jnp.zeros_like(y), jnp.zeros_like(y)), table)[0][2]
        return y, y

    return jax.lax.scan(step, jnp.asarray(start), None, length=STEPS)[1]


def test_both_forms_give_the_same_motion_and_keep_the_energy():
    surface, point = CONSTRAINED, (0.03, 0.9)
    start = [-0.08, 0.9]
    p0 = roll(surface, start[0], point)
    tilt, spin = motion(by_coordinate, surface, point, jnp.array(start)).T
    free = motion(
        by_multipliers, surface, point, jnp.array([*p0.position, start[0], *rolling.velocity(p0, start[1]), start[1]])
    )
    assert tilt.min() < -0.05 and tilt.max() > 0.5  # from the heel through foot flat and the switch to the toes
    # rho has corners there: the method is not at its best in the steps across them.
    np.testing.assert_allclose(free[:, 2], tilt, atol=1e-7)
    np.testing.assert_allclose(free[:, 5], spin, atol=1e-6)

    p = roll(surface, tilt, point)
    vx, vy = rolling.velocity(p, spin)
    energy = 0.5 * MASS * (vx**2 + vy**2) + 0.5 * INERTIA * spin**2 + MASS * G * p.position[1]
    np.testing.assert_allclose(energy, energy[0], rtol=1e-8)
    gap = constraint(surface, free[:, :3].T, free[:, 3:].T, point).gap
    np.testing.assert_allclose(gap, 0.0, atol=5e-8)


def test_stabilisation_pulls_a_foot_back_onto_its_surface():
    surface, point = CONSTRAINED, (0.0, 0.2)
    x, y = roll(surface, 0.1, point).position
    path = motion(by_multipliers, surface, point, jnp.array([x + 1e-3, y - 2e-3, 0.1, 0.0, 0.0, 0.0]))
    gap = constraint(surface, path[:, :3].T, path[:, 3:].T, point).gap
    np.testing.assert_allclose(gap, np.outer([1e-3, -2e-3], (1 + 20 * TIME) * np.exp(-20 * TIME)), atol=1e-7)


def test_a_rocking_foot_has_the_frequency_of_its_curvature():
    # Small rocking about foot flat: (I + m y^2) alpha_ddot = -m g (rho0 - y) alpha for a centre of mass at height y.
    omega = np.sqrt(MASS * G * (2.1 - 0.9) / (INERTIA + MASS * 0.9**2))
    tilt, _ = motion(by_coordinate, CONSTRAINED, (0.0, 0.9), jnp.array([1e-6, 0.0])).T
    np.testing.assert_allclose(tilt, 1e-6 * np.cos(omega * TIME), atol=1e-10)


def test_a_pulled_wheel_accelerates_as_textbooks_say():
    R, pull = 0.3, 50.0
    wheel = Surface(Side(circle=R), Side(circle=R))
    v = np.array([R * 2.0, 0.0, 2.0])
    held = constraint(wheel, (R * 0.7, R, 0.7), v, (0.0, R))
    J = np.array(held.jacobian)
    system = np.block([[np.diag([MASS, MASS, INERTIA]), -J.T], [J, np.zeros((2, 2))]])
    solution = np.linalg.solve(system, [pull, -MASS * G, 0.0, *rolling.stabilised(held, 0.0)])
    a = pull / (MASS + INERTIA / R**2)
    np.testing.assert_allclose(solution, [a, 0.0, a / R, -INERTIA * a / R**2, MASS * G], atol=1e-9)
