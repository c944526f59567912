"""Rolling surfaces against quadrature, brute geometry, closed motions of wheels, and their own no-slip condition."""

from functools import partial

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

# Convex feet, with and without switches; rho is a metre or two at foot flat, as measured feet have it.
PLAIN = Surface(Side((Term(0.05, 30.0), Term(0.08, 8.0)), 0.15), Side((Term(0.03, 20.0),), 0.05))
SWITCHED = Surface(
    Side((Term(0.05, 30.0, None, 0.026), Term(0.06, 12.0), Term(0.09, 5.0, 0.026, 0.3)), 0.1),
    Side((Term(0.03, 20.0, 0.01), Term(0.01, 60.0, None, 0.01)), 0.05),
)
FAMILY = rolling.constrained_side(2.0, (10.0, 25.0, 4.0, 15.0), 0.026).side
CONSTRAINED = Surface(FAMILY._replace(circle=0.1), Side((Term(0.05, 20.0),), 0.1))  # rho is 2.1 m from both sides
SURFACES = {"plain": PLAIN, "switched": SWITCHED, "constrained": CONSTRAINED}
TILTS = np.concatenate([np.linspace(-0.6, 0.9, 61), [0.0, 0.026, -0.01, 0.3, 0.025, 0.027, 1e-300, -1e-300, 5e-9]])

FUNCTIONS = {
    name: jax.jit(getattr(rolling, name))
    for name in (
        "radius",
        "radius_slope",
        "roll_distance",
        "centre_of_pressure",
        "centre_height",
        "curvature_radius",
        "contour",
        "printed_radius",
        "roll",
    )
}
every_surface = pytest.mark.parametrize("surface", SURFACES.values(), ids=SURFACES.keys())


@partial(jax.jit, static_argnums=0)
def slope_of(function, surface, tilts):
    """Derivative by tilt, lane by lane."""
    return jax.jvp(lambda t: function(surface, t), (tilts,), (jnp.ones_like(tilts),))[1]


# --- the formulas of the paper ---


@pytest.mark.parametrize("C", [0.3, 5.0, 20.0, 100.0])
@pytest.mark.parametrize("alpha", [-1.2, -0.3, -0.02, 1e-4, 0.026, 0.5, 1.4])
def test_roll_distance_and_cop_are_eq_1_on_both_sides(C, alpha):
    A = 0.2
    surface = Surface(Side((Term(A, C),)), Side((Term(A, C),)))

    def slope(x):  # r' of A (1 - exp(-C |x|))
        return A * C * np.sign(x) * np.exp(-C * abs(x))

    distance, _ = quad(lambda x: slope(x) * np.cos(x), 0, alpha, epsabs=1e-15, epsrel=1e-13, limit=200)
    assert FUNCTIONS["roll_distance"](surface, alpha) == pytest.approx(distance, rel=1e-12)
    assert FUNCTIONS["radius"](surface, alpha) == pytest.approx(A * (1 - np.exp(-C * abs(alpha))), rel=1e-12)
    assert FUNCTIONS["radius_slope"](surface, alpha) == pytest.approx(slope(alpha), rel=1e-12)
    cop = np.sign(alpha) * (distance + slope(alpha) * np.sin(alpha))
    assert FUNCTIONS["centre_of_pressure"](surface, alpha) == pytest.approx(cop, rel=1e-12)
    # The printed closed form holds ahead only; behind, its sin alpha has to be sin |alpha|.
    decay = np.exp(-C * abs(alpha))
    for sine, holds in ((np.sin(alpha), alpha >= 0), (np.sin(abs(alpha)), True)):
        printed = A * C / (1 + C**2) * (sine * decay + C * (1 - np.cos(alpha) * decay))
        assert (abs(printed - distance) < 1e-12) == (holds or 2 * A * C / (1 + C**2) * abs(sine) * decay < 1e-12)


def test_the_sides_are_mirror_images_and_each_has_its_own_terms():
    mirrored = Surface(SWITCHED.rear, SWITCHED.front)
    tilts = TILTS[TILTS != 0]
    for name, sign in (("radius", 1), ("roll_distance", 1), ("centre_height", 1), ("curvature_radius", 1)):
        np.testing.assert_allclose(FUNCTIONS[name](mirrored, -tilts), sign * FUNCTIONS[name](SWITCHED, tilts))
    for name in ("radius_slope", "centre_of_pressure"):
        np.testing.assert_allclose(FUNCTIONS[name](mirrored, -tilts), -FUNCTIONS[name](SWITCHED, tilts))
    along, up = FUNCTIONS["contour"](SWITCHED, tilts)
    behind, up_behind = FUNCTIONS["contour"](mirrored, -tilts)
    np.testing.assert_allclose(behind, -along)
    np.testing.assert_allclose(up_behind, up)


def test_foot_flat_touches_the_centre_with_twice_the_slope_of_radius_as_curvature():
    for name in ("radius", "roll_distance", "centre_of_pressure", "centre_height"):
        assert FUNCTIONS[name](PLAIN, 0.0) == 0.0
    front = 0.15 / 2 + 0.05 * 30 + 0.08 * 8
    rear = 0.05 / 2 + 0.03 * 20
    assert FUNCTIONS["radius_slope"](PLAIN, 0.0) == pytest.approx(front)
    assert FUNCTIONS["radius_slope"](PLAIN, -1e-14) == pytest.approx(-rear)
    assert FUNCTIONS["curvature_radius"](PLAIN, 0.0) == pytest.approx(2 * front)
    assert FUNCTIONS["curvature_radius"](PLAIN, -1e-14) == pytest.approx(2 * rear)


@every_surface
def test_support_function_gives_the_paper_and_rolls_without_slip(surface):
    a, s = np.abs(TILTS), np.where(TILTS >= 0, 1.0, -1.0)
    r, height = FUNCTIONS["radius"](surface, TILTS), FUNCTIONS["centre_height"](surface, TILTS)
    r_slope, rho = FUNCTIONS["radius_slope"](surface, TILTS), FUNCTIONS["curvature_radius"](surface, TILTS)
    cop, distance = FUNCTIONS["centre_of_pressure"](surface, TILTS), FUNCTIONS["roll_distance"](surface, TILTS)
    np.testing.assert_allclose(height, r * np.sin(a), atol=1e-16)
    np.testing.assert_allclose(cop, s * (distance + r_slope * np.sin(TILTS)), atol=1e-15)
    # Derivatives by tilt, with everything that was written in closed form: also at 0 and at the switches.
    np.testing.assert_allclose(slope_of(rolling.radius, surface, TILTS), r_slope, atol=1e-12)
    np.testing.assert_allclose(slope_of(rolling.roll_distance, surface, TILTS), r_slope * np.cos(a), atol=1e-12)
    np.testing.assert_allclose(slope_of(rolling.centre_of_pressure, surface, TILTS), rho, atol=1e-12)

    height_slope = partial(slope_of, rolling.centre_height)
    np.testing.assert_allclose(height + slope_of(height_slope, surface, TILTS), rho, atol=1e-11)
    centre = cop - height_slope(surface, TILTS)  # a contour touches where h has its slope
    np.testing.assert_allclose(centre, s * (distance - r * np.cos(a)), atol=1e-15)


def test_cop_advances_by_the_curvature_for_any_terms():
    rng = np.random.default_rng(1)
    A, B = rng.uniform(0.05, 0.3, 500), rng.uniform(-0.2, 0.3, 500)
    C, D = np.exp(rng.uniform(0.0, np.log(100.0), (2, 500)))
    tilts = rng.uniform(-1.2, 1.2, 500) * np.exp(rng.uniform(-6, 0, 500))
    side = Side((Term(A, C), Term(B, D)))
    slope = slope_of(rolling.centre_of_pressure, Surface(side, side), tilts)
    rho = FUNCTIONS["curvature_radius"](Surface(side, side), tilts)
    assert np.all(np.abs(slope - rho) < 1e-14 * (A * C * C + np.abs(B) * D * D + 1))
    # It starts from twice the slope of the radius, and changes by less than its largest slope allows.
    start = 2 * (A * C + B * D)
    assert np.all(np.abs(rho - start) < 5 * (A * C * (C + 1) + np.abs(B) * D * (D + 1)) * np.abs(tilts))


def test_a_single_term_turns_back_where_its_tilt_is_two_over_its_rate():
    # rho = A C exp(-C a) (2 cos a - C sin a); with u = C a it is A (1 + exp(-2)) at u = 2, and A far beyond.
    A, C = 0.1, 200.0
    surface = Surface(Side((Term(A, C),)), Side())
    turn = np.arctan2(2.0, C)
    assert FUNCTIONS["curvature_radius"](surface, turn) == pytest.approx(0.0, abs=1e-13)
    assert FUNCTIONS["curvature_radius"](surface, 1.01 * turn) < 0 < FUNCTIONS["curvature_radius"](surface, 0.99 * turn)
    assert FUNCTIONS["centre_of_pressure"](surface, turn) == pytest.approx(A * (1 + np.exp(-2)), rel=1e-4)
    assert FUNCTIONS["centre_of_pressure"](surface, 0.5) == pytest.approx(A, rel=1e-4)


def test_small_angles_keep_their_digits():
    # For a -> 0: r = A C a, r* the same, x_cop = 2 A C a, h = A C a^2, to first order in C a = 2e-12.
    surface, a = Surface(Side((Term(0.2, 20.0),)), Side()), 1e-13
    for name, value in (("radius", 4 * a), ("roll_distance", 4 * a), ("centre_of_pressure", 8 * a)):
        assert FUNCTIONS[name](surface, a) == pytest.approx(value, rel=1e-11)
    assert FUNCTIONS["centre_height"](surface, a) == pytest.approx(4 * a * a, rel=1e-11)


# --- switches ---


def literal_curvature(terms, a):
    """Radius of curvature of eq. 2, with the terms that are on at a."""
    on = [(A, C) for A, C, lo, hi in terms if lo <= a < hi]
    return sum(A * C * np.exp(-C * a) * 2 * np.cos(a) - A * C**2 * np.exp(-C * a) * np.sin(a) for A, C in on)


def test_switched_sums_integrate_the_curvature_of_the_terms_that_are_on():
    terms = [(0.05, 30.0, 0.0, 0.026), (0.06, 12.0, 0.0, 9.0), (0.09, 5.0, 0.026, 0.3)]
    for a in (0.01, 0.026, 0.1, 0.3, 0.7):
        kinks = [k for k in (0.026, 0.3) if k < a]
        rho = 0.1 + literal_curvature(terms, a)
        assert FUNCTIONS["curvature_radius"](SWITCHED, a) == pytest.approx(rho, rel=1e-12)
        cop = quad(lambda x: 0.1 + literal_curvature(terms, x), 0, a, points=kinks or None, epsabs=1e-14)[0]
        assert FUNCTIONS["centre_of_pressure"](SWITCHED, a) == pytest.approx(cop, rel=1e-11)
        # h + h'' = rho from rest at foot flat: h = int rho(b) sin(a - b) db.
        height = quad(
            lambda x, a=a: (0.1 + literal_curvature(terms, x)) * np.sin(a - x), 0, a, points=kinks or None, epsabs=1e-14
        )[0]
        assert FUNCTIONS["centre_height"](SWITCHED, a) == pytest.approx(height, rel=1e-11)


def test_lengths_are_continuous_at_a_switch_and_the_printed_radius_is_not():
    near = np.array([-1e-13, 1e-13])
    for switch in (0.026, 0.3, -0.01):
        for name in ("radius", "radius_slope", "roll_distance", "centre_of_pressure", "centre_height"):
            low, high = FUNCTIONS[name](SWITCHED, switch + near)
            assert high == pytest.approx(float(low), abs=1e-10), name
    low, high = FUNCTIONS["printed_radius"](SWITCHED, 0.026 + near)
    assert high - low == pytest.approx(-0.05 * (1 - np.exp(-0.78)) + 0.09 * (1 - np.exp(-0.13)), abs=1e-11)
    # At the switch the terms after it count.
    assert FUNCTIONS["printed_radius"](SWITCHED, 0.026) == pytest.approx(float(high), abs=1e-11)
    np.testing.assert_allclose(FUNCTIONS["printed_radius"](PLAIN, TILTS), FUNCTIONS["radius"](PLAIN, TILTS), atol=1e-16)


# --- the contour as a body ---


@every_surface
def test_the_contour_is_a_curve_with_this_tangent_and_length(surface):
    along, up = jax.jvp(lambda t: rolling.contour(surface, t), (jnp.asarray(TILTS),), (jnp.ones(len(TILTS)),))[1]
    rho = FUNCTIONS["curvature_radius"](surface, TILTS)
    # At tilt alpha the tangent lies along the ground, whose direction in the foot's frame is (cos, sin) alpha.
    np.testing.assert_allclose(along, rho * np.cos(TILTS), atol=1e-11)
    np.testing.assert_allclose(up, rho * np.sin(TILTS), atol=1e-11)


@every_surface
def test_the_foot_rests_on_the_lowest_point_of_its_contour(surface):
    every = np.linspace(-0.7, 1.0, 20_001)
    assert np.all(FUNCTIONS["curvature_radius"](surface, every) > 0)  # a convex foot
    along, up = (np.asarray(x) for x in FUNCTIONS["contour"](surface, every))
    for tilt in (-0.5, -0.01, 0.0, 0.026, 0.2, 0.8):
        heights = -along * np.sin(tilt) + up * np.cos(tilt)
        lowest = np.argmin(heights)
        assert FUNCTIONS["centre_height"](surface, tilt) == pytest.approx(-heights[lowest], abs=2e-8)
        assert every[lowest] == pytest.approx(tilt, abs=1e-4)


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

    holds(FUNCTIONS["curvature_radius"](surface, np.zeros(n)), rho0, 1e-14)
    holds(slope_of(rolling.curvature_radius, surface, np.zeros(n)), slope0, 1e-12)
    before, after = ([(t.amplitude, t.rate) for t in terms[k : k + 2]] for k in (0, 2))
    for left, right in zip(pair_at(before, switch), pair_at(after, switch), strict=True):
        holds(left, right, 1e-12)
    # So rho is continuous, and terms 3 and 4 alone, by eq. 1 from their own zero, give the CoP after the switch.
    holds(*(FUNCTIONS["curvature_radius"](surface, switch * x) for x in (1 - 1e-14, 1)), 1e-11)
    later = switch + rng.uniform(0.0, 0.5, n)
    holds(FUNCTIONS["centre_of_pressure"](surface, later), pair_at(after, later)[1], 1e-12)


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
        np.testing.assert_allclose(derivative(ours)(jnp.asarray(free)).T, difference, rtol=1e-6, atol=1e-9)


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
    made = rolling.constrained_side(2.0, rates, 0.026)
    np.testing.assert_array_equal(made.solvable, [True, False, False, False, False])

    def total(rates, switch):
        side = rolling.constrained_side(2.0, rates, switch).side
        return jnp.sum(rolling.centre_of_pressure(Surface(side, side), jnp.full(5, 0.2)))

    slopes = jax.grad(total, argnums=(0, 1))(rates, 0.026)
    assert all(np.all(np.isfinite(s)) for s in jax.tree.leaves(slopes))


# --- derivatives, lanes, precision ---


@every_surface
def test_every_parameter_has_its_derivative_in_both_modes(surface):
    flat, unravel = ravel_pytree(surface)
    tilts = jnp.array([0.1, 0.0255, 0.0265, -0.0099, -0.0101, -0.4, 0.5])

    def outcome(x, tilt):
        s = unravel(x)
        p = rolling.roll(s, tilt, (0.1, 0.07))
        return jnp.stack([*p.position, p.slope[1]])  # with x, the last one holds the CoP

    outcomes = jax.jit(jax.vmap(outcome, (0, None)))
    forward = jax.jit(jax.jacfwd(outcome))(flat, tilts)
    np.testing.assert_allclose(forward, jax.jit(jax.jacrev(outcome))(flat, tilts), atol=1e-13)
    steps = 1e-5 * np.maximum(np.abs(flat), 1e-2)
    up, down = (outcomes(flat + sign * np.diag(steps), tilts) for sign in (1, -1))
    difference = (up - down) / (2 * steps)[:, None, None]
    np.testing.assert_allclose(np.moveaxis(forward, -1, 0), difference, rtol=1e-5, atol=1e-7)


@every_surface
def test_no_derivative_is_undefined_in_a_batch_that_mixes_all_sides(surface):
    def total(surface, tilts):
        p = rolling.roll(surface, tilts, (0.1, 0.07))
        return sum(jnp.sum(x) for x in [*p.position, *p.slope, *p.bend, rolling.radius_slope(surface, tilts)])

    tilts = jnp.asarray(TILTS)
    slopes = jax.jit(jax.grad(total, argnums=(0, 1)))(surface, tilts)
    assert all(np.all(np.isfinite(s)) for s in jax.tree.leaves(slopes))
    # The front's numbers do not matter behind.
    behind = jax.jit(jax.grad(total))(surface, jnp.array([-0.3, -1e-300]))
    assert all(np.all(s == 0) for s in jax.tree.leaves(behind.front))


def test_lanes_are_independent_and_scalars_stay_scalars():
    amplitudes = jnp.linspace(0.02, 0.08, len(TILTS))
    term = SWITCHED.front.terms[0]._replace(amplitude=amplitudes)
    swept = SWITCHED._replace(front=Side((term, *SWITCHED.front.terms[1:]), 0.1))
    many = FUNCTIONS["roll"](swept, TILTS, (0.1, 0.07), 0.3)
    for lane in (0, 20, 40, 62, 65):
        one = SWITCHED._replace(front=Side((term._replace(amplitude=amplitudes[lane]), *SWITCHED.front.terms[1:]), 0.1))
        alone = FUNCTIONS["roll"](one, TILTS[lane], (0.1, 0.07), 0.3)
        for a, b in zip(jax.tree.leaves(many), jax.tree.leaves(alone), strict=True):
            assert a[lane] == pytest.approx(float(b), rel=1e-13, abs=1e-15)
    assert jnp.shape(rolling.centre_of_pressure(SWITCHED, 0.1)) == ()


def test_single_precision_is_right_to_a_micrometre():
    single = jax.tree.map(lambda x: np.float32(x), SWITCHED)
    tilts = TILTS.astype(np.float32)
    for name in ("radius", "roll_distance", "centre_of_pressure", "centre_height"):
        value = FUNCTIONS[name](single, tilts)
        assert value.dtype == np.float32
        np.testing.assert_allclose(value, FUNCTIONS[name](SWITCHED, tilts.astype(float)), atol=1e-6)


def test_shapes_can_be_fitted_to_cop_over_pitch_by_gradients():
    truth = Surface(Side((Term(0.11, 25.0),), 0.2), Side((Term(0.05, 40.0),), 0.1))
    pitch = np.linspace(-0.3, 0.5, 161)
    cop = rolling.cop_from_pitch(truth, pitch, 0.07, 0.015)
    np.testing.assert_allclose(cop, 0.07 + FUNCTIONS["centre_of_pressure"](truth, pitch - 0.015), atol=1e-15)
    start, unravel = ravel_pytree((Surface(Side((Term(0.08, 15.0),), 0.1), Side((Term(0.08, 20.0),), 0.05)), 0.0, 0.0))

    def misfit(x):
        surface, origin, flat = unravel(x)
        return rolling.cop_from_pitch(surface, pitch, origin, flat) - cop

    found = least_squares(
        jax.jit(misfit), start, jac=jax.jit(jax.jacfwd(misfit)), x_scale="jac", xtol=1e-14, gtol=1e-14
    )  # pyright: ignore
    np.testing.assert_allclose(found.x, ravel_pytree((truth, 0.07, 0.015))[0], rtol=1e-6)


# --- the joint ---


@every_surface
def test_the_joint_moves_every_point_about_the_contact(surface):
    point, tilts, ones = (0.12, 0.08), jnp.asarray(TILTS), jnp.ones(len(TILTS))
    rolled = rolling.roll(surface, tilts, point, 0.4)

    def position(t):
        return rolling.roll(surface, t, point, 0.4).position

    def slope(t):
        return jax.jvp(position, (t,), (ones,))[1]

    np.testing.assert_allclose(rolled.slope, slope(tilts), atol=1e-12)
    np.testing.assert_allclose(rolled.bend, jax.jvp(slope, (tilts,), (ones,))[1], atol=1e-11)
    # The material point of the foot that is at the CoP: on the ground, there, and still.
    contact = rolling.roll(surface, tilts, rolling.contour(surface, tilts), 0.4)
    np.testing.assert_allclose(contact.position[1], 0.0, atol=1e-15)
    np.testing.assert_allclose(contact.position[0], 0.4 + FUNCTIONS["centre_of_pressure"](surface, tilts), atol=1e-15)
    np.testing.assert_allclose(rolling.velocity(contact, 3.0), 0.0, atol=1e-14)
    # Its acceleration is upwards, rho alpha_dot^2, as for any rolling wheel.
    np.testing.assert_allclose(rolling.acceleration(contact, 3.0, 5.0)[0], 0.0, atol=1e-13)
    np.testing.assert_allclose(
        rolling.acceleration(contact, 3.0, 5.0)[1], 9.0 * FUNCTIONS["curvature_radius"](surface, tilts), atol=1e-12
    )


def test_a_circle_rolls_as_a_wheel():
    R = 0.3
    wheel = Surface(Side(circle=R), Side(circle=R))
    tilts = np.linspace(-3.0, 3.0, 31)
    np.testing.assert_allclose(FUNCTIONS["centre_of_pressure"](wheel, tilts), R * tilts, atol=1e-14)
    np.testing.assert_allclose(FUNCTIONS["curvature_radius"](wheel, tilts), R)
    hub = FUNCTIONS["roll"](wheel, tilts, (0.0, R))
    np.testing.assert_allclose(hub.position, [R * tilts, np.full(31, R)], atol=1e-14)
    # A point of the rim draws a cycloid.
    rim = FUNCTIONS["roll"](wheel, tilts, (0.0, 2 * R))
    np.testing.assert_allclose(rim.position, [R * (tilts + np.sin(tilts)), R * (1 + np.cos(tilts))], atol=1e-14)


def test_a_foot_link_turns_as_linkages_do():
    # Linkage angles are clockwise from vertical: with the sole's normal along the link, tilt is the angle itself.
    links = [linkage.Link(-1, 1.0, 0.1, 0.0)]
    spot = linkage.point(links, 0, 0.07, 0.12)  # 0.07 along the link (up), 0.12 across it (forward)
    base = FUNCTIONS["roll"](CONSTRAINED, 0.2, (0.0, 0.0), 0.4)
    sines, cosines = linkage.directions([0.2])
    expected = linkage.position(spot, base.position, sines, cosines)
    rolled = FUNCTIONS["roll"](CONSTRAINED, 0.2, (0.12, 0.07), 0.4)
    np.testing.assert_allclose(rolled.position, expected, rtol=1e-14)
    moving = linkage.velocity(spot, rolling.velocity(base, 3.0), [3.0], sines, cosines)
    np.testing.assert_allclose(rolling.velocity(rolled, 3.0), moving, rtol=1e-13)


@every_surface
def test_the_constraint_is_its_own_derivative_and_does_no_work(surface):
    point, n = (0.12, 0.3), 40
    q, v, a = np.random.default_rng(0).normal(0, 0.3, (3, 3, n))
    held = rolling.constraint(surface, q, v, point, 0.4)

    def rate(time):  # of Phi along a path with this velocity and acceleration
        def gap(t):
            return jnp.stack(rolling.constraint(surface, q + t * v + 0.5 * t * t * a, v, point, 0.4).gap)

        return jax.jvp(gap, (time,), (1.0,))[1]

    first, second = jax.jit(lambda t: jax.jvp(rate, (t,), (1.0,)))(0.0)
    jacobian = np.array(held.jacobian)
    np.testing.assert_allclose(np.einsum("ijn,jn->in", jacobian, v), first, atol=1e-13)
    np.testing.assert_allclose(held.rate, first, atol=1e-13)
    np.testing.assert_allclose(np.einsum("ijn,jn->in", jacobian, a) + held.drift, second, atol=1e-11)
    # The multiplier is the ground's force at the CoP: same force, same clockwise moment about the body's point.
    force = np.array([3.0, 7.0])
    rolled = FUNCTIONS["roll"](surface, q[2], point)
    lever = FUNCTIONS["centre_of_pressure"](surface, q[2]) - rolled.position[0], -rolled.position[1]
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


def motion(flow, surface, point, start, time, steps):
    h = time / steps

    def step(y, _):
        k1 = flow(surface, point, y)
        k2 = flow(surface, point, y + h / 2 * k1)
        k3 = flow(surface, point, y + h / 2 * k2)
        k4 = flow(surface, point, y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return y, y

    return jax.jit(lambda y: jax.lax.scan(step, y, None, length=steps)[1])(jnp.asarray(start))


def test_both_forms_give_the_same_motion_and_keep_the_energy():
    surface, point = CONSTRAINED, (0.03, 0.9)  # top-heavy: it rocks about foot flat, from heel to toe and over
    start = jnp.array([-0.08, 0.9])
    tilt, spin = motion(by_coordinate, surface, point, start, 1.2, 1200).T
    p0 = rolling.roll(surface, start[0], point)
    free = motion(
        by_multipliers,
        surface,
        point,
        [*p0.position, start[0], *rolling.velocity(p0, start[1]), start[1]],
        1.2,
        1200,
    )
    assert tilt.min() < -0.05 and tilt.max() > 0.15  # through foot flat and the switch
    np.testing.assert_allclose(free[:, 2], tilt, atol=1e-7)
    np.testing.assert_allclose(free[:, 5], spin, atol=1e-6)  # rho has corners: the steps across them are not smooth

    def energy(tilt, spin):
        p = rolling.roll(surface, tilt, point)
        vx, vy = rolling.velocity(p, spin)
        return 0.5 * MASS * (vx**2 + vy**2) + 0.5 * INERTIA * spin**2 + MASS * G * p.position[1]

    np.testing.assert_allclose(energy(tilt, spin), energy(*start), rtol=1e-8)
    gap = rolling.constraint(surface, free[:, :3].T, free[:, 3:].T, point).gap
    np.testing.assert_allclose(gap, 0.0, atol=5e-8)


def test_stabilisation_pulls_a_foot_back_onto_its_surface():
    p0 = rolling.roll(CONSTRAINED, 0.1, (0.0, 0.2))
    off = [p0.position[0] + 1e-3, p0.position[1] - 2e-3, 0.1, 0.0, 0.0, 0.0]
    path = motion(by_multipliers, CONSTRAINED, (0.0, 0.2), off, 0.5, 500)
    gap = np.array(rolling.constraint(CONSTRAINED, path[:, :3].T, path[:, 3:].T, (0.0, 0.2)).gap)
    t = np.arange(1, 501) * 1e-3
    np.testing.assert_allclose(gap, np.outer([1e-3, -2e-3], (1 + 20 * t) * np.exp(-20 * t)), atol=1e-7)


def test_a_rocking_foot_has_the_frequency_of_its_curvature():
    # Small rocking about foot flat: (I + m y^2) alpha_ddot = -m g (rho0 - y) alpha for a centre of mass at height y.
    side = rolling.constrained_side(2.0, (10.0, 25.0, 4.0, 15.0), 0.026).side
    omega = np.sqrt(MASS * G * (2.0 - 0.9) / (INERTIA + MASS * 0.9**2))
    tilt, _ = motion(by_coordinate, Surface(side, side), (0.0, 0.9), [1e-4, 0.0], 2.0, 2000).T
    np.testing.assert_allclose(tilt, 1e-4 * np.cos(omega * np.arange(1, 2001) * 1e-3), atol=1e-8)


def test_a_pulled_wheel_accelerates_as_textbooks_say():
    R, pull = 0.3, 50.0
    wheel = Surface(Side(circle=R), Side(circle=R))
    v = np.array([R * 2.0, 0.0, 2.0])
    held = rolling.constraint(wheel, (R * 0.7, R, 0.7), v, (0.0, R))
    J = np.array(held.jacobian)
    system = np.block([[np.diag([MASS, MASS, INERTIA]), -J.T], [J, np.zeros((2, 2))]])
    solution = np.linalg.solve(system, [pull, -MASS * G, 0.0, *rolling.stabilised(held, 0.0)])
    a = pull / (MASS + INERTIA / R**2)
    np.testing.assert_allclose(solution, [a, 0.0, a / R, -INERTIA * a / R**2, MASS * G], atol=1e-9)
