"""Vectors and rotations in space, over lanes: three lane-wide numbers instead of an array with an axis for them.

A vector is a tuple (x, y, z) of numbers of shape () or of any shape that the lanes have; a rotation is a tuple of three
rows, each a vector, that turns components of a body's own frame into those of space. Written out like this everything
is elementwise over the lanes, so that a compiler makes one loop of it; an axis of three in front would be cut into
pieces and put together again at every product.

A component that is plainly 0.0 or 1.0, a number of Python, costs nothing: products with it and sums with 0.0 are left
out here, because a compiler may not do so (0 times infinity is no 0). On level ground and in the sagittal plane that is
half of all arithmetic.
"""

from typing import Any

import jax.numpy as jnp

from jaxcontact.safemath import sine_and_cosine

Vector = tuple[Any, Any, Any]
Rotation = tuple[Vector, Vector, Vector]

ZERO: Vector = (0.0, 0.0, 0.0)
UP: Vector = (0.0, 0.0, 1.0)
IDENTITY: Rotation = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


def _is(a: Any, number: float) -> bool:
    return isinstance(a, float) and a == number


def _plus(a: Any, b: Any) -> Any:
    return b if _is(a, 0.0) else a if _is(b, 0.0) else a + b


def _minus(a: Any, b: Any) -> Any:
    return a if _is(b, 0.0) else -b if _is(a, 0.0) else a - b


def _times(a: Any, b: Any) -> Any:
    if _is(a, 0.0) or _is(b, 0.0):
        return 0.0
    return b if _is(a, 1.0) else a if _is(b, 1.0) else a * b


def add(a: Vector, b: Vector) -> Vector:
    """Sum of two vectors."""
    return _plus(a[0], b[0]), _plus(a[1], b[1]), _plus(a[2], b[2])


def subtract(a: Vector, b: Vector) -> Vector:
    """The vector from b to a."""
    return _minus(a[0], b[0]), _minus(a[1], b[1]), _minus(a[2], b[2])


def scale(factor: Any, a: Vector) -> Vector:
    """A vector times a number."""
    return _times(factor, a[0]), _times(factor, a[1]), _times(factor, a[2])


def dot(a: Vector, b: Vector) -> Any:
    """Inner product."""
    return _plus(_plus(_times(a[0], b[0]), _times(a[1], b[1])), _times(a[2], b[2]))


def cross(a: Vector, b: Vector) -> Vector:
    """Vector product: a x b is perpendicular to both, right-handed."""
    return (
        _minus(_times(a[1], b[2]), _times(a[2], b[1])),
        _minus(_times(a[2], b[0]), _times(a[0], b[2])),
        _minus(_times(a[0], b[1]), _times(a[1], b[0])),
    )


def rotate(rotation: Rotation, a: Vector) -> Vector:
    """Components in space of a vector that is given in the body's frame."""
    return dot(rotation[0], a), dot(rotation[1], a), dot(rotation[2], a)


def rotate_back(rotation: Rotation, a: Vector) -> Vector:
    """Components in the body's frame of a vector that is given in space."""
    return rotate(transpose(rotation), a)


def transpose(rotation: Rotation) -> Rotation:
    """The opposite rotation."""
    (a, b, c), (d, e, f), (g, h, i) = rotation
    return (a, d, g), (b, e, h), (c, f, i)


def compose(outer: Rotation, inner: Rotation) -> Rotation:
    """The rotation that turns by `inner` first and by `outer` after it."""
    columns = transpose(inner)
    return tuple(tuple(dot(row, column) for column in columns) for row in outer)  # type: ignore[return-value]


def about_y(sine: Any, cosine: Any) -> Rotation:
    """Rotation about y by an angle with this sine and cosine; positive turns z towards x (a foot's toe goes down)."""
    return (cosine, 0.0, sine), (0.0, 1.0, 0.0), (-sine, 0.0, cosine)


def of_quaternion(q: tuple[Any, Any, Any, Any]) -> Rotation:
    """Rotation of a quaternion (w, x, y, z), which need not have unit length: it is divided by its square."""
    w, x, y, z = q
    s = 2.0 / (w * w + x * x + y * y + z * z)
    return (
        (1.0 - s * (y * y + z * z), s * (x * y - w * z), s * (x * z + w * y)),
        (s * (x * y + w * z), 1.0 - s * (x * x + z * z), s * (y * z - w * x)),
        (s * (x * z - w * y), s * (y * z + w * x), 1.0 - s * (x * x + y * y)),
    )


# A turn is a quaternion (w, x, y, z) of any length but zero: only its direction matters, as in `of_quaternion`.
Quaternion = tuple[Any, Any, Any, Any]

NO_TURN: Quaternion = (1.0, 0.0, 0.0, 0.0)


def turn_about_y(angle: Any) -> Quaternion:
    """Turn about y by an angle (rad); positive turns z towards x, as in `about_y`."""
    sine, cosine = sine_and_cosine(0.5 * jnp.asarray(angle))
    return cosine, jnp.zeros_like(cosine), sine, jnp.zeros_like(cosine)


def turn_from_y_to(axis: Vector) -> Quaternion:
    """The shortest turn that takes y to `axis` (a unit vector).

    At `axis` = -y every half turn across y is as short: there it is the one about x, with derivative 0.
    """
    x, y, z = axis
    opposite = y <= -1.0
    return (
        jnp.where(opposite, 0.0, 1.0 + y),
        jnp.where(opposite, 1.0, z),
        jnp.zeros_like(1.0 * y),
        jnp.where(opposite, 0.0, -x),
    )


def chain_turns(outer: Quaternion, inner: Quaternion) -> Quaternion:
    """The turn by `inner` first and by `outer` after it (Hamilton's product)."""
    a, u = outer[0], outer[1:]
    b, v = inner[0], inner[1:]
    return (a * b - dot(u, v), *add(add(scale(a, v), scale(b, u)), cross(u, v)))


def opposite_turn(q: Quaternion) -> Quaternion:
    """The turn back."""
    return q[0], -q[1], -q[2], -q[3]


def quaternion_rate(q: Quaternion, spin: Vector) -> Quaternion:
    """Rate of a body's quaternion at angular velocity `spin` (rad/s, in the body's own frame): half q times (0, spin).

    It is linear in q and keeps the length of q, so that a length other than 1 neither harms nor grows.
    """
    w, u = q[0], q[1:]
    return (-0.5 * dot(u, spin), *scale(0.5, add(scale(w, spin), cross(u, spin))))
