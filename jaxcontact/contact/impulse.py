"""Impact of one point as algebra: regimes, impulses and work without time (Crutch section 3).

During an impact the posture is frozen, so all that the mechanism offers to the ground is the response of the struck
point to an impulse: v = v0 + G P, with the 2 x 2 inverse inertia G = A M^-1 A^T (1/kg), rows and columns (n, t). `n`
is along the outward normal, `t` forward. In a plane the tangential impulse follows the normal one with at most two
constant slopes dP_t/dP_n: one before the slip stops and one after. Every regime of Table 2, and the evolution along
P_n, is a case of these two phases.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp

from jaxcontact.safemath import divide, rounding, sign

REGIMES = (
    "none",
    "permanent_sticking",
    "sliding_sticking",
    "permanent_sliding",
    "immediate_sliding",
    "sliding_reversal",
)
NONE, PERMANENT_STICKING, SLIDING_STICKING, PERMANENT_SLIDING, IMMEDIATE_SLIDING, SLIDING_REVERSAL = range(6)


class PointResponse(NamedTuple):
    """Response of the struck point to impulses: G = A M^-1 A^T in 1/kg."""

    nn: Any
    nt: Any
    tt: Any


class TwoPhases(NamedTuple):
    """An impact: normal impulse up to the end of the first phase and in all (N s), and dP_t/dP_n in each phase."""

    first: Any
    total: Any
    slope_first: Any
    slope_second: Any
    regime: Any


class ImpactPoint(NamedTuple):
    """The struck point after a given normal impulse: velocities (m/s), impulses (N s) and work done on the body (J)."""

    v_n: Any
    v_t: Any
    P_n: Any
    P_t: Any
    W_n: Any
    W_t: Any


def has_slip(v_t):
    """Whether a velocity (m/s, of walking) is a slip at all, in Table 2's sense, or zero but for rounding."""
    return jnp.abs(v_t) > rounding(v_t)


def critical_friction(response: PointResponse):
    """Friction above which a point that does not slip goes on sticking: mu_c = |G_tn / G_tt| (Crutch eq. 8)."""
    return jnp.abs(response.nt / response.tt)


def solve_impact(response: PointResponse, v_n, v_t, mu) -> TwoPhases:
    """Find the regime and the two phases of the impact that ends at v_n = 0 (Crutch eq. 3, Table 2).

    `v_n` < 0 and `v_t` are the velocities before impact. While sliding with direction sigma the normal velocity grows
    by s_n = G_nn - mu sigma G_nt per unit of P_n. If s_n <= 0 the tip jams: eq. 22 would give a negative impulse, but
    the friction that holds v_n down also brakes the slip (G is positive definite), so the impact goes on until
    sliding stops.
    """
    slips = has_slip(v_t)
    sticks = mu >= critical_friction(response)
    # Without slip, too little friction lets the point slide the way the normal impulse pushes it.
    sigma = jnp.where(slips, sign(v_t), sign(response.nt))
    slide = -mu * sigma  # dP_t/dP_n (eq. 19)
    stick = -response.nt / response.tt  # (eq. 17)

    normal_gain = response.nn + slide * response.nt
    slip_gain = response.nt + slide * response.tt
    to_compression_end = jnp.where(normal_gain > 0, divide(-v_n, normal_gain, jnp.inf), jnp.inf)  # (eq. 22)
    to_slip_end = jnp.where(sigma * slip_gain < 0, divide(-v_t, slip_gain, jnp.inf), jnp.inf)  # (eq. 28)
    slip_stops = slips & (to_slip_end < to_compression_end)

    # The first phase ends with the slip if that comes first; a point that starts at rest has no first phase.
    first = jnp.where(slip_stops, jnp.where(slip_stops, to_slip_end, 0.0), 0.0)
    first = jnp.where(slips & ~slip_stops, jnp.where(slip_stops, 0.0, to_compression_end), first)
    slope_second = jnp.where(sticks, stick, jnp.where(slips, -slide, slide))
    gain_second = response.nn + slope_second * response.nt  # always positive: see the module's tests
    v_n_between = v_n + normal_gain * first
    rest = jnp.where(slips & ~slip_stops, 0.0, -v_n_between / gain_second)  # (eqs 10, 29)

    regime = jnp.where(
        slips,
        jnp.where(slip_stops, jnp.where(sticks, SLIDING_STICKING, SLIDING_REVERSAL), PERMANENT_SLIDING),
        jnp.where(sticks, PERMANENT_STICKING, IMMEDIATE_SLIDING),
    )
    return TwoPhases(first, first + rest, slide, slope_second, regime)


def evolve(response: PointResponse, v_n, v_t, phases: TwoPhases, P_n) -> ImpactPoint:
    """The struck point after normal impulse `P_n` <= phases.total: the integrative method (3.2) in closed form.

    Velocities are linear and work is quadratic in P_n within a phase, so integrating eqs 4, 15 and 16 leaves no step
    error.
    """
    first = jnp.minimum(P_n, phases.first)
    second = P_n - first

    def through(v_n, v_t, slope, impulse):
        dv_n = (response.nn + slope * response.nt) * impulse
        dv_t = (response.nt + slope * response.tt) * impulse
        # Work is impulse times mean velocity, which is exact while the velocity is linear in the impulse (eqs 24, 25,
        # 31, 32).
        return v_n + dv_n, v_t + dv_t, (v_n + 0.5 * dv_n) * impulse, (v_t + 0.5 * dv_t) * slope * impulse

    v_n1, v_t1, W_n1, W_t1 = through(v_n, v_t, phases.slope_first, first)
    v_n2, v_t2, W_n2, W_t2 = through(v_n1, v_t1, phases.slope_second, second)
    P_t = phases.slope_first * first + phases.slope_second * second
    return ImpactPoint(v_n2, v_t2, P_n, P_t, W_n1 + W_n2, W_t1 + W_t2)


def point_response(inverse_mass, jacobian) -> PointResponse:
    """G of a point from M^-1 (n x n) and its Jacobian A (2 x n, rows n and t)."""
    gain = jacobian @ inverse_mass @ jacobian.T
    return PointResponse(gain[0, 0], gain[0, 1], gain[1, 1])


def constrained_projector(inverse_mass, jacobian):
    """H_c = M^-1 A^T (A M^-1 A^T)^-1 A: the part of the velocities that sticking takes away (Crutch eq. 12)."""
    reach = inverse_mass @ jacobian.T
    return reach @ jnp.linalg.solve(jacobian @ reach, jacobian)


def admissible_projector(inverse_mass, jacobian):
    """H_a = I - H_c: the velocities that sticking leaves (Crutch eqs 13, 14)."""
    return jnp.eye(inverse_mass.shape[0]) - constrained_projector(inverse_mass, jacobian)
