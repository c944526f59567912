"""Rolling surfaces: a foot that rolls without slip on a contour given by exponential radius terms (Rolling eqs 1-2).

Frame and sign. Sagittal plane, x forward, y up, ground at y = 0; SI, radians. The tilt `alpha` is the foot's rotation
clockwise from foot flat, as angles are in `bodies.linkage`: alpha > 0 is heel up (rolling over the toes, contact
*ahead* of the footprint centre C*), alpha < 0 is toe up (after heel strike, contact *behind* C*). Each sign has a side
of its own, front and rear, written in a = |alpha|. The foot's frame has its axes along the ground's when it is flat
and its origin in the virtual centre D, the point of the sole that lies on C* at alpha = 0. Valid for |alpha| < pi.

The derivation (front side; the rear is its mirror image). D is fixed in the foot, and its height is the support
function of the contour seen from D:

    h(a) = r(a) sin a                                   height z_a of D: the disk's rim reaches the ground at P
    x_D = x_cop - h'(a)                                 a body touches where the height of D has its slope
    rho = h + h'' = 2 r' cos a + r'' sin a              radius of curvature of the contour
    x_cop = int_0^a rho                                 no slip: as much ground as contour

The paper says the same in other words. Its P is at r* = x_D + r cos a, so that r*' = rho - h'' + r' cos a - r sin a,
which is r' cos a since rho - h'' = h = r sin a: its "projection of dr on the ground" is rolling without slip. And
x_cop = x_D + h' = r* + r' sin a is eq. 1. In the foot's frame the contact is at (r + r' sin a cos a, r' sin^2 a). A
circle of radius R is r = R tan(a/2) (rho = R, x_cop = R a): no sum of exponentials, so each side may have one besides.

A term r = A (1 - exp(-C a)) has rho = A C exp(-C a) (2 cos a - C sin a): 2 A C at foot flat, and *negative* beyond
tan a = 2/C, where x_cop turns back from about 1.135 A towards A (for C >> 1). No convex foot does that. Sums with a
circle, or with terms that are switched off before, need not; look at `curvature_radius` over the range in use.

Switches. Eq. 2 turns terms on and off at angles. Taken at its word r jumps there, and the foot with it. What is
switched here is the terms' share of rho; r, r*, x_cop and h follow by integration and stay continuous, D stays the same
point of the foot and all of the above holds for any switches. Without switches that is eq. 2. With them r is eq. 2
plus p + q cot a, all that rho cannot see. A term that its switch froze at m < a contributes, in closed form,

    r: r_m + r'_m sin m sin(a - m) / sin a      r': r'_m sin^2 m / sin^2 a      x_cop: r*_m + r'_m sin m

Kinks. At alpha = 0: r = r* = x_cop = h = 0; derivatives by alpha are the front side's (r has slope A C, from behind it
is -A C; x_cop has slope rho(0)). At a switch the terms that come after it count, and derivatives by alpha are those
from beyond it; rho, and so p'' of `roll`, jumps there and at 0 unless the shape says otherwise (`constrained_side`).
"""

from typing import Any, NamedTuple

import jax.numpy as jnp

from jaxcontact.safemath import divide, rounding, sine_and_cosine


class Term(NamedTuple):
    """One radius A (1 - exp(-C a)): `amplitude` A (m), `rate` C (1/rad), on for on <= a < off (rad, both > 0).

    None means no switch: from foot flat, or for good. (Not 0 and infinity: a fit would take them for unknowns.) With
    off < on the term counts negative between them.
    """

    amplitude: Any
    rate: Any
    on: Any = None
    off: Any = None


class Side(NamedTuple):
    """One side of a surface: a sum of terms, and the radius (m) of a circle that is added to the contour."""

    terms: tuple[Term, ...] = ()
    circle: Any = 0.0


class Surface(NamedTuple):
    """A rolling surface: `front` for alpha >= 0 (heel up), `rear` for alpha < 0 (toe up)."""

    front: Side
    rear: Side


class _Disk(NamedTuple):
    """One side at the angle a >= 0: r, dr/da, r* and rho, all distances outwards."""

    radius: Any
    slope: Any
    distance: Any
    curvature: Any
    sine: Any
    cosine: Any


def _plain(term: Term, m, sine, cosine):
    """Radius, slope, roll distance (eq. 1) and rho of a term without switches at the angle m >= 0."""
    A, C = term.amplitude, term.rate
    decay, grown = jnp.exp(-C * m), -jnp.expm1(-C * m)
    slope = A * C * decay
    # 1 - cos m exp(-C m), and 1 - cos m in it, without cancellation at small angles.
    rest = grown + decay * sine * sine / (1.0 + cosine)
    distance = A * C / (1.0 + C * C) * (sine * decay + C * rest)
    return A * grown, slope, distance, slope * (2.0 * cosine - C * sine)


def _until(term: Term, switch, a, sine, cosine):
    """The same for a term that lasts until the angle `switch` and leaves its contour frozen from there on."""
    if switch is None:
        return _plain(term, a, sine, cosine)
    over = (a >= switch) & (a > 0)
    m = jnp.where(over, switch, a)
    sine_m, cosine_m = sine_and_cosine(m)
    radius, slope, distance, curvature = _plain(term, m, sine_m, cosine_m)
    # Exactly 1, with derivative 0, as long as m is a: also at a = 0.
    ratio = jnp.where(over, sine_m / jnp.where(over, sine, 1.0), 1.0)
    turned = jnp.where(over, sine * cosine_m - cosine * sine_m, 0.0)  # sin(a - m)
    return (
        radius + slope * ratio * turned,
        slope * ratio**2,
        distance + slope * sine_m * (1.0 - ratio),
        jnp.where(over, 0.0, curvature),
    )


def _disk(side: Side, a, sine, cosine) -> _Disk:
    """Everything about one side at the angle a >= 0, of which sine and cosine are given."""
    # The circle: R tan(a/2), and its roll distance R (a - tan(a/2)).
    slope = side.circle / (1.0 + cosine)
    radius = slope * sine
    total = [radius, slope, side.circle * a - radius, side.circle + jnp.zeros_like(a)]
    for term in side.terms:
        # All until it is turned off, less what it would have done until it is turned on.
        total = [x + y for x, y in zip(total, _until(term, term.off, a, sine, cosine), strict=True)]
        if term.on is not None:
            total = [x - y for x, y in zip(total, _until(term, term.on, a, sine, cosine), strict=True)]
    radius, slope, distance, curvature = total
    return _Disk(radius, slope, distance, curvature, sine, cosine)


def _sides(surface: Surface, tilt) -> tuple[Any, _Disk, _Disk]:
    """Whether the tilt is on the front side, and both sides, the other one at angle 0, where its lengths vanish."""
    ahead = tilt >= 0
    sine, cosine = sine_and_cosine(tilt)
    front = [jnp.where(ahead, x, at_0) for x, at_0 in ((tilt, 0.0), (sine, 0.0), (cosine, 1.0))]
    rear = [jnp.where(ahead, at_0, x) for x, at_0 in ((-tilt, 0.0), (-sine, 0.0), (cosine, 1.0))]
    return ahead, _disk(surface.front, *front), _disk(surface.rear, *rear)


def radius(surface: Surface, tilt):
    """Radius r (m) of the virtual disk: distance, along the sole, of its rim's lowest point P from its centre D."""
    _, front, rear = _sides(surface, tilt)
    return front.radius + rear.radius


def printed_radius(surface: Surface, tilt):
    """Rolling eq. 2 as printed (m): the terms that are on, each from its own zero, so with a jump at each switch."""
    ahead = tilt >= 0

    def of(side, a):
        sine, cosine = sine_and_cosine(a)
        total = side.circle * sine / (1.0 + cosine)
        for term in side.terms:
            on = (True if term.on is None else a >= term.on) & (True if term.off is None else a < term.off)
            total = total - jnp.where(on, term.amplitude, 0.0) * jnp.expm1(-term.rate * a)
        return total

    return of(surface.front, jnp.where(ahead, tilt, 0.0)) + of(surface.rear, jnp.where(ahead, 0.0, -tilt))


def radius_slope(surface: Surface, tilt):
    """Slope r' = dr/dalpha (m/rad): negative for alpha < 0 on a common shape, and the front side's at alpha = 0."""
    ahead, front, rear = _sides(surface, tilt)
    return jnp.where(ahead, front.slope, -rear.slope)


def roll_distance(surface: Surface, tilt):
    """Distance r* (m) of P from C*, the same sign on both sides (eq. 1, with sin |alpha| for its sin alpha)."""
    _, front, rear = _sides(surface, tilt)
    return front.distance + rear.distance


def centre_of_pressure(surface: Surface, tilt):
    """Position x_cop (m) of the rolling point on the ground, from C*: positive ahead, negative behind.

    Its distance is eq. 1's r* + r' sin alpha. The slope by alpha is `curvature_radius`.
    """
    _, front, rear = _sides(surface, tilt)
    return _cop(front) - _cop(rear)


def _cop(disk: _Disk):
    return disk.distance + disk.slope * disk.sine


def centre_height(surface: Surface, tilt):
    """Height z_a = r sin |alpha| (m) of the virtual centre D above the ground: the contour's support function."""
    _, front, rear = _sides(surface, tilt)
    return front.radius * front.sine + rear.radius * rear.sine


def curvature_radius(surface: Surface, tilt):
    """Radius of curvature rho (m) of the contour at the contact; a convex foot has rho > 0 at every tilt in use."""
    ahead, front, rear = _sides(surface, tilt)
    return jnp.where(ahead, front.curvature, rear.curvature)


def contour(surface: Surface, tilt) -> tuple[Any, Any]:
    """The rolling point in the foot's frame (m): the contour as a curve, and the CoP along the foot."""
    _, front, rear = _sides(surface, tilt)
    along = [d.radius + d.slope * d.sine * d.cosine for d in (front, rear)]
    return along[0] - along[1], front.slope * front.sine**2 + rear.slope * rear.sine**2


def cop_from_pitch(surface: Surface, pitch, origin=0.0, flat_pitch=0.0):
    """CoP on the ground (m) from a measured pitch (rad): `origin` is C*, `flat_pitch` the pitch of foot flat."""
    return origin + centre_of_pressure(surface, pitch - flat_pitch)


class ConstrainedSide(NamedTuple):
    """A side of the constrained family, and whether its constraints could be solved (per lane).

    Where they could not, the amplitudes in question are 0 with derivative 0: the arithmetic stays finite, the shape
    is meaningless, and the lane must be flagged.
    """

    side: Side
    solvable: Any


def constrained_side(curvature, rates, switch, curvature_slope=0.0) -> ConstrainedSide:
    """The family of Rolling, p. 1: terms 1, 2 before `switch` (alpha* > 0, rad) and 3, 4 after it.

    Nine parameters, A1..A4, C1..C4 and alpha*, and four constraints: (1) rho = `curvature` (m) and its slope =
    `curvature_slope` (m/rad, the paper's 0) at foot flat, (2) equal rho and equal rolling distance of the two pairs
    at alpha*. The constraints are linear in the amplitudes, so the free five are `rates` (C1, C2, C3, C4; 1/rad)
    and `switch`. The rolling distance is read as the CoP's, the abscissa of the paper's curve of rho: after alpha*
    eq. 1 of terms 3, 4 alone, from their own zero, then gives the CoP. (Equal r* would leave a step in it.)

    Not solvable where a rate is 0, C1 = C2, C3 = C4, or terms 3 and 4 have the same rho / x_cop at alpha*; that last
    happens only if both turn back before it (tan alpha* > 2/C).
    """
    C1, C2, C3, C4 = rates
    # rho(0) = 2 sum A C and drho/dalpha(0) = -3 sum A C^2.
    first, fine_first = _two_by_two((C1, C2, 0.5 * curvature), (C1 * C1, C2 * C2, -curvature_slope / 3.0))
    before = [Term(A, C, None, switch) for A, C in zip(first, (C1, C2), strict=True)]
    units = [_at_switch(Term(1.0, C), switch) for C in (C3, C4)]
    ends = [_at_switch(Term(t.amplitude, t.rate), switch) for t in before]
    rho, cop = (x + y for x, y in zip(*ends, strict=True))
    second, fine_second = _two_by_two((units[0][0], units[1][0], rho), (units[0][1], units[1][1], cop))
    after = [Term(A, C, switch, None) for A, C in zip(second, (C3, C4), strict=True)]
    return ConstrainedSide(Side((*before, *after)), fine_first & fine_second)


def _at_switch(term: Term, switch):
    """Radius of curvature and CoP of one term alone."""
    disk = _disk(Side((term,)), switch, *sine_and_cosine(switch))
    return disk.curvature, _cop(disk)


def _two_by_two(first, second):
    """Solve a x + b y = c for two rows (a, b, c), and say whether the determinant is more than rounding."""
    (a, b, c), (d, e, f) = first, second
    determinant = a * e - b * d
    solvable = jnp.abs(determinant) > rounding(determinant) * (jnp.abs(a * e) + jnp.abs(b * d))
    safe = jnp.where(solvable, determinant, 0.0)
    return (divide(c * e - b * f, safe), divide(a * f - c * d, safe)), solvable


class Rolling(NamedTuple):
    """A point of the rolling foot as a function of the tilt: p, dp/dalpha and d2p/dalpha2, each (x, y)."""

    position: tuple[Any, Any]
    slope: tuple[Any, Any]
    bend: tuple[Any, Any]


def roll(surface: Surface, tilt, point=(0.0, 0.0), origin=0.0) -> Rolling:
    """The joint, with the tilt as its one coordinate: where the foot's `point` (m, foot's frame) is, and how it moves.

    `origin` (m) is C* on the ground. The foot turns about the contact, so no differentiation is needed:
    p' = (p_y, x_cop - p_x) and p'' = (x_cop - p_x, rho - p_y). The point's velocity is p' alpha_dot and its
    acceleration p' alpha_ddot + p'' alpha_dot^2 (`velocity`, `acceleration`).
    """
    ahead, front, rear = _sides(surface, tilt)
    sine, cosine = front.sine - rear.sine, jnp.where(ahead, front.cosine, rear.cosine)
    x_centre = (front.distance - front.radius * front.cosine) - (rear.distance - rear.radius * rear.cosine)
    x = origin + x_centre + point[0] * cosine + point[1] * sine
    y = front.radius * front.sine + rear.radius * rear.sine - point[0] * sine + point[1] * cosine
    to_contact = origin + _cop(front) - _cop(rear) - x
    rho = jnp.where(ahead, front.curvature, rear.curvature)
    return Rolling((x, y), (y, to_contact), (to_contact, rho - y))


def velocity(rolling: Rolling, spin) -> tuple[Any, Any]:
    """Velocity (m/s) of the point of `roll` when the foot turns at `spin` = alpha_dot (rad/s)."""
    return rolling.slope[0] * spin, rolling.slope[1] * spin


def acceleration(rolling: Rolling, spin, spin_rate) -> tuple[Any, Any]:
    """Acceleration (m/s^2) of the point of `roll` at `spin` (rad/s) and `spin_rate` = alpha_ddot (rad/s^2)."""
    ax, ay = (p * spin_rate + b * spin * spin for p, b in zip(rolling.slope, rolling.bend, strict=True))
    return ax, ay


class Constraint(NamedTuple):
    """Rolling as a constraint on a free body with coordinates q = (x, y, alpha): two rows, Phi(q) = 0.

    `gap` Phi (m), `rate` dPhi/dt (m/s), `jacobian` dPhi/dq as two rows of three, and `drift` (m/s^2), the part of
    d2Phi/dt2 = J q_ddot + drift that is there without acceleration. With multipliers the body's equations are
    M q_ddot = Q + J^T force, Q with a clockwise moment; `force` (N) is the ground's on the body, acting at the CoP.
    """

    gap: tuple[Any, Any]
    rate: tuple[Any, Any]
    jacobian: tuple[tuple[Any, Any, Any], tuple[Any, Any, Any]]
    drift: tuple[Any, Any]


def constraint(surface: Surface, q, q_dot, point=(0.0, 0.0), origin=0.0) -> Constraint:
    """Rolling without slip as Phi = (x, y) - p(alpha): (x, y) is the body's `point` (m, foot's frame), `origin` C*.

    In the plane rolling is a constraint on positions: the path to a tilt does not matter. It pulls as well as
    pushes, and holds without slip: a simulation checks the sign of the normal force and the friction cone itself.
    """
    rolled = roll(surface, q[2], point, origin)
    (x, y), (slope_x, slope_y), (bend_x, bend_y) = rolled
    moving_x, moving_y = velocity(rolled, q_dot[2])
    one, zero = jnp.ones_like(slope_x), jnp.zeros_like(slope_x)
    return Constraint(
        gap=(q[0] - x, q[1] - y),
        rate=(q_dot[0] - moving_x, q_dot[1] - moving_y),
        jacobian=((one, zero, -slope_x), (zero, one, -slope_y)),
        drift=(-bend_x * q_dot[2] ** 2, -bend_y * q_dot[2] ** 2),
    )


def stabilised(held: Constraint, decay_rate) -> tuple[Any, Any]:
    """What J q_ddot has to be (m/s^2) so that an error dies as exp(-`decay_rate` t) (1/s), critically damped.

    Baumgarte's Phi_ddot + 2 b Phi_dot + b^2 Phi = 0; with b = 0 the plain constraint on accelerations.
    """
    b = decay_rate
    right_x, right_y = (-d - 2.0 * b * v - b * b * g for g, v, d in zip(held.gap, held.rate, held.drift, strict=True))
    return right_x, right_y
