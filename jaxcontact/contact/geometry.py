"""Where an element of a body meets a plane, in space: a point, a sphere, an ellipsoid or a superellipsoid.

Sign and frame: everything is in space (x forward, y left, z up) but for an element's own shape; the normal has unit
length and points out of the ground; the gap (m) is the signed distance between the nearest points, negative where the
element is in the ground; velocities (m/s) are the body's relative to the plane, positive along the normal while they
part. A number is one for all or one for each lane; elements, frames and configurations may all be lanes.

A convex element reaches farthest into the ground at the point whose outward normal is the plane's inward one. That
point is the gradient of the support function h(d) = max x.d of its shape, and h itself gives the gap: nothing has to be
searched for. For a superellipsoid h is two norms, one in the other: with q_i = 2 / (2 - eps_i),

    h(d) = ((|a d_x|^q1 + |b d_y|^q1)^(q2/q1) + |c d_z|^q2)^(1/q2),

whose gradient is the closest point of Lopes, appendix A.3, without its angles, branches and 0/0 at the poles.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxcontact.errors import InputError
from jaxcontact.vectors import (
    IDENTITY,
    UP,
    ZERO,
    Rotation,
    Vector,
    add,
    cross,
    dot,
    rotate,
    rotate_back,
    scale,
    subtract,
)


class Plane(NamedTuple):
    """A plane that may move, such as a treadmill or a tilting board; the ground is on the far side of its normal."""

    point: Vector  # any point of it, m
    normal: Vector  # of unit length, out of the ground; derivatives are meant for changes that keep it so
    velocity: Vector = ZERO  # of the material at `point`, m/s
    spin: Vector = ZERO  # angular velocity, rad/s


GROUND = Plane(ZERO, UP)


class Body(NamedTuple):
    """Pose and motion of the frame that elements are given in."""

    position: Vector  # of the frame's origin, m
    rotation: Rotation  # from the frame to space
    velocity: Vector = ZERO  # of the frame's origin, m/s
    spin: Vector = ZERO  # angular velocity, rad/s


class Touch(NamedTuple):
    """How an element is to the plane: the nearest points and how the material at them moves, by numbers that broadcast.

    A component that no lane changes may be one number.
    """

    gap: Any  # m, negative in contact
    on_body: Vector  # the element's point that is lowest along the normal, m
    on_plane: Vector  # its foot on the plane, m
    normal: Vector  # the plane's
    v_n: Any  # m/s along the normal, positive while parting: the rate of the gap
    v_t: Vector  # m/s within the plane


# --- Shapes, each in its own frame: the surface's point that lies farthest along a direction ---


def point_support(direction: Vector) -> Vector:
    """The point itself, whatever the direction."""
    return scale(0.0, direction)


def sphere_support(radius, direction: Vector) -> Vector:
    """Farthest point of a sphere: radius times the unit direction; the direction (not zero) may have any length."""
    return ellipsoid_support((radius, radius, radius), direction)


def ellipsoid_support(semi_axes: Vector, direction: Vector) -> Vector:
    """Farthest point of an ellipsoid with semi-axes (a, b, c) (m): a_i^2 d_i / h, h = |(a d_x, b d_y, c d_z)|.

    The direction may have any length. A direction of length zero, or an ellipsoid without extent along it, gives 0
    with derivative 0.
    """
    return _ellipsoid(semi_axes, direction)[1]


def superellipsoid_support(semi_axes: Vector, exponents: tuple[Any, Any], direction: Vector) -> Vector:
    """Farthest point of a superellipsoid with semi-axes (a, b, c) (m) and exponents (eps1, eps2), 0 < eps < 2.

    The direction may have any length but zero. Lopes eq. A.1: eps1 rounds the outline in x-y and eps2 the profile over
    z; 1 is an ellipsoid, towards 0 a box, towards 2 an octahedron.

    Where a component of the direction is zero (a face, an edge or a pole) the point lies in that plane of symmetry.
    Its derivative by that component is exact for eps >= 1. For eps < 1 the surface is flat there and the true slope
    infinite: the derivative is 0 at zero, and beside it the true one, which grows without bound. (Below 1e-154 of the
    largest component, 1e-19 in single precision, it is 0 too, so that its square stays finite.) At a pole with
    eps2 = 1 and eps1 != 1 the point follows each way of tilting differently; the derivative is right along x and
    along y. All other derivatives are exact everywhere.
    """
    return _superellipsoid(semi_axes, exponents, direction)[1]


def superellipsoid_extent(semi_axes: Vector, exponents: tuple[Any, Any], direction: Vector):
    """How far a superellipsoid reaches along a direction of unit length (m); in proportion for another length, not 0.

    All derivatives are finite and exact everywhere; by the direction it is the farthest point.
    """
    return _superellipsoid(semi_axes, exponents, direction)[0]


def inside_outside(semi_axes: Vector, exponents: tuple[Any, Any], local_point: Vector):
    """Inside-outside function F of a superellipsoid (Lopes eq. A.1): 1 on the surface, less inside, more outside.

    F is a power of the gauge, the norm that the surface is the unit sphere of. That is the support function of the
    dual shape, with exponents 2 - eps and semi-axes 1/a, so derivatives are finite and exact here too (0 at the
    centre).
    """
    eps1, eps2 = exponents
    scaled = tuple(x / a for x, a in zip(local_point, semi_axes, strict=True))
    gauge = _nested_norm(*_same_type(*scaled, 2.0 - eps1, 2.0 - eps2))[0]
    centre = gauge == 0
    return jnp.where(centre, 0.0, jnp.where(centre, 1.0, gauge) ** (2.0 / eps2))


def check_superellipsoid(semi_axes: Vector, exponents: tuple[Any, Any]) -> None:
    """Refuse a shape, given in plain numbers, that has no extent or is not strictly convex."""
    for name, values, limit in (("semi-axis", semi_axes, np.inf), ("exponent", exponents, 2.0)):
        for value in values:
            if not np.all((np.asarray(value) > 0) & (np.asarray(value) < limit)):
                allowed = "0 < eps < 2" if limit == 2.0 else "positive, in m"
                raise InputError(f"{name} of a superellipsoid is {value}; allowed: {allowed}")


# --- Elements of a body against a plane; `centre` and `orientation` are the element's in the body's frame ---


def touch_point(body: Body, centre: Vector, plane: Plane = GROUND) -> Touch:
    """A point of the body against the plane."""
    return _touch(body, plane, centre, ZERO, 0.0)


def touch_sphere(body: Body, centre: Vector, radius, plane: Plane = GROUND) -> Touch:
    """A sphere of `radius` (m) against the plane."""
    return _touch(body, plane, centre, scale(-radius, plane.normal), radius)


def touch_ellipsoid(
    body: Body, centre: Vector, semi_axes: Vector, plane: Plane = GROUND, orientation: Rotation = IDENTITY
) -> Touch:
    """An ellipsoid with semi-axes (m) along the axes of `orientation` against the plane."""
    extent, reach = _ellipsoid(semi_axes, _inward(body, plane, orientation))
    return _touch(body, plane, centre, _outward(body, reach, orientation), extent)


def touch_superellipsoid(
    body: Body,
    centre: Vector,
    semi_axes: Vector,
    exponents: tuple[Any, Any],
    plane: Plane = GROUND,
    orientation: Rotation = IDENTITY,
) -> Touch:
    """A superellipsoid (see `superellipsoid_support`) along the axes of `orientation` against the plane.

    Gap and v_n vary smoothly with the pose. The contact point, and v_t with it, runs over a flat face (eps < 1) within
    a tiny tilt, see there: for eps = 0.1 a tilt of 1e-16 already moves it by a seventh of the semi-axis.
    """
    extent, reach = _superellipsoid(semi_axes, exponents, _inward(body, plane, orientation))
    return _touch(body, plane, centre, _outward(body, reach, orientation), extent)


def _touch(body: Body, plane: Plane, centre: Vector, reach: Vector, extent) -> Touch:
    """Assemble a touch from the element's centre (body's frame), and from there its lowest point and extent (space)."""
    to_centre = rotate(body.rotation, centre)
    arm = add(to_centre, reach)
    # The extent gives the gap, not the lowest point: its derivative is exact where the point's has a convention.
    gap = dot(plane.normal, subtract(add(body.position, to_centre), plane.point)) - extent
    on_body = add(body.position, arm)
    # Velocities are those of the material, not of the contact point that wanders over it.
    of_body = add(body.velocity, cross(body.spin, arm))
    if plane.normal is UP:  # on level ground nothing but the height lies along the normal
        on_plane = on_body[0], on_body[1], plane.point[2]
    else:
        on_plane = subtract(on_body, scale(gap, plane.normal))
    of_plane = add(plane.velocity, cross(plane.spin, subtract(on_plane, plane.point)))
    velocity = subtract(of_body, of_plane)
    v_n = dot(plane.normal, velocity)
    v_t = (velocity[0], velocity[1], 0.0) if plane.normal is UP else subtract(velocity, scale(v_n, plane.normal))
    return Touch(gap, on_body, on_plane, plane.normal, v_n, v_t)


def _inward(body: Body, plane: Plane, orientation: Rotation) -> Vector:
    """The direction into the ground, in the element's frame."""
    direction = rotate_back(body.rotation, scale(-1.0, plane.normal))
    return direction if orientation is IDENTITY else rotate_back(orientation, direction)


def _outward(body: Body, local: Vector, orientation: Rotation) -> Vector:
    """A vector of the element's frame, in space."""
    return rotate(body.rotation, local if orientation is IDENTITY else rotate(orientation, local))


# --- Support functions: the extent along a direction, and its gradient, the farthest point ---


def _ellipsoid(semi_axes: Vector, direction: Vector) -> tuple[Any, Vector]:
    a, b, c = semi_axes
    scaled = a * direction[0], b * direction[1], c * direction[2]
    squared = dot(scaled, scaled)
    inverse = jnp.where(squared > 0, 1.0 / jnp.sqrt(jnp.where(squared > 0, squared, 1.0)), 0.0)
    return squared * inverse, (a * scaled[0] * inverse, b * scaled[1] * inverse, c * scaled[2] * inverse)


def _superellipsoid(semi_axes: Vector, exponents: tuple[Any, Any], direction: Vector) -> tuple[Any, Vector]:
    scaled = tuple(a * d for a, d in zip(semi_axes, direction, strict=True))
    extent, gradient = _nested_norm(*_same_type(*scaled, *exponents))
    return extent, (semi_axes[0] * gradient[0], semi_axes[1] * gradient[1], semi_axes[2] * gradient[2])


def _same_type(*numbers):
    """The numbers as floats of one type, which a hand-written derivative needs."""
    dtype = jnp.result_type(float, *numbers)
    return [jnp.asarray(number, dtype) for number in numbers]


@jax.custom_jvp
def _nested_norm(x, y, z, eps1, eps2):
    """Support function h of the module's text, for a direction already scaled by the semi-axes; and its gradient.

    The derivative is written out because that makes it exact and cheap: h's is the gradient, already there, and the
    gradient's has no 0 * inf at faces and poles (their conventions are in `superellipsoid_support`).
    """
    outline = _join(x, y, eps1)
    whole = _join(outline.length, z, eps2)
    up = jnp.where(whole.length < 0, -1.0, 1.0)  # the length has its larger part's sign; the extent has none
    across = up * whole.by_first
    return up * whole.length, (across * outline.by_first, across * outline.by_second, up * whole.by_second)


@_nested_norm.defjvp
def _nested_norm_jvp(primals, tangents):
    x, y, z, eps1, eps2 = primals
    dx, dy, dz, deps1, deps2 = tangents
    outline = _join(x, y, eps1)
    whole = _join(outline.length, z, eps2)
    up = jnp.where(whole.length < 0, -1.0, 1.0)
    value = _nested_norm(*primals)

    by_exponents = whole.by_first * _by_exponent(outline, eps1) * deps1 + _by_exponent(whole, eps2) * deps2
    dextent = dot(value[1], (dx, dy, dz)) + up * by_exponents

    doutline = outline.by_first * dx + outline.by_second * dy + _by_exponent(outline, eps1) * deps1
    turn_x, turn_y = _turns(outline, eps1, dx, dy, deps1)
    turn_across, turn_z = _turns(whole, eps2, doutline, dz, deps2)
    # A turn is a slope's derivative times the length. The outline's length is 0 at a pole, but so is the slope by it,
    # and their quotient is known.
    per_whole = up / _nonzero(whole.length)
    per_outline = up * _slope_over_first(whole, eps2)
    dacross = per_whole * turn_across
    dgradient = (
        dacross * outline.by_first + per_outline * turn_x,
        dacross * outline.by_second + per_outline * turn_y,
        per_whole * turn_z,
    )
    return value, (dextent, dgradient)


class _Joined(NamedTuple):
    """Norm of two parts, (|first|^q + |second|^q)^(1/q), with the sign of the larger; its slopes; what led there."""

    length: Any
    by_first: Any
    by_second: Any
    swapped: Any  # whether the second part is the larger one
    larger: Any
    ratio: Any  # smaller / larger, -1 to 1
    log_ratio: Any
    power: Any  # sign(ratio) |ratio|^(q - 1)
    total: Any  # 1 + |ratio|^q, 1 to 2
    log_total: Any
    by_larger: Any


def _join(first, second, eps) -> _Joined:
    """Norm of two parts with q = 2 / (2 - eps): only the ratio, at most 1, is raised to a power, so none overflows.

    Two logarithms and two exponentials; powers would cost more, and the derivatives need the logarithms.
    """
    swapped = jnp.abs(second) > jnp.abs(first)
    larger, smaller = jnp.where(swapped, second, first), jnp.where(swapped, first, second)
    ratio = smaller / _nonzero(larger)
    log_ratio = jnp.log(jnp.maximum(jnp.abs(ratio), _smallest(ratio)))
    power = jnp.sign(ratio) * jnp.exp(eps / (2.0 - eps) * log_ratio)
    total = 1.0 + ratio * power
    log_total = jnp.log(total)
    by_larger = jnp.exp(-0.5 * eps * log_total)
    by_smaller = power * by_larger
    by_first, by_second = jnp.where(swapped, by_smaller, by_larger), jnp.where(swapped, by_larger, by_smaller)
    length = larger * total * by_larger
    return _Joined(length, by_first, by_second, swapped, larger, ratio, log_ratio, power, total, log_total, by_larger)


def _by_exponent(joined: _Joined, eps):
    """Derivative of the length by eps; x^q log x is 0 at 0."""
    return 0.5 * joined.length * (_lean(joined, eps) - joined.log_total)


def _turns(joined: _Joined, eps, dfirst, dsecond, deps):
    """Derivatives of both slopes, times the length, so that they stay finite where that is 0."""
    _, _, _, swapped, larger, ratio, log_ratio, power, _, log_total, by_larger = joined
    dlarger, dsmaller = jnp.where(swapped, dsecond, dfirst), jnp.where(swapped, dfirst, dsecond)
    q = 2.0 / (2.0 - eps)
    # By the parts: slopes turn with the ratio, by |ratio|^(q - 2). Two parts of zero have no ratio: 1 lets each of them
    # move the point along its own axis.
    bend = jnp.where(larger == 0, 1.0, (q - 1.0) * by_larger * by_larger * _steepness(joined, eps))
    turn = bend * (dsmaller - ratio * dlarger)
    by_eps = -0.5 * by_larger * (log_total + (q - 1.0) * _lean(joined, eps))
    stretch = joined.length * deps
    turn_larger = by_eps * stretch - ratio * turn
    turn_smaller = power * (by_eps + 0.5 * q * q * log_ratio * by_larger) * stretch + turn
    return jnp.where(swapped, turn_smaller, turn_larger), jnp.where(swapped, turn_larger, turn_smaller)


def _lean(joined: _Joined, eps):
    """Derivative of log(total) by q, times q: 0 where the parts are equal and where one is 0."""
    return 2.0 / (2.0 - eps) * joined.log_ratio * joined.ratio * joined.power / joined.total


def _slope_over_first(joined: _Joined, eps):
    """by_first / first, also where both are 0."""
    per_larger = joined.by_larger / _nonzero(joined.larger)
    return per_larger * jnp.where(joined.swapped, _steepness(joined, eps), 1.0)


def _steepness(joined: _Joined, eps):
    """|ratio|^(q - 2), from the power already there; at ratio 0: 1 for eps = 1, else 0 (infinite for eps < 1)."""
    size, floor = jnp.abs(joined.ratio), _smallest(joined.ratio) ** 0.5
    return jnp.where(size > floor, jnp.abs(joined.power) / jnp.maximum(size, floor), jnp.where(eps == 1.0, 1.0, 0.0))


def _smallest(x) -> float:
    return float(jnp.finfo(jnp.result_type(x)).tiny)


def _nonzero(x):
    return jnp.where(x == 0, 1.0, x)
