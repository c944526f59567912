"""Joints between bodies in space: how they move, which equations hold them together, and springs in them. No masses.

Frame: x forward, y left, z up. A joint joins a frame fixed in one body to a frame fixed in another. It turns about the
y axis of these frames (flexion, for a joint of the leg); its angle is 0 where the frames coincide and positive where z
turns towards x. Equations of a joint (Foot eq. 19) are, of

    point   origin of the child's frame - origin of the parent's frame                        = 0    3 equations, m
    axis    x of the parent . y of the child,  z of the parent . y of the child               = 0    2, sines (rad)
    angle   (x of the parent, turned by the angle wanted about its y) . z of the child        = 0    1, sine (rad)

those that its kind holds. They are independent in any position (unless the axes stand at right angles), so that a
revolute joint has exactly five. Each equation comes as a jet: its value, its rate, and its bend, the part of its second
derivative that is there without any acceleration. With them eq. (21)'s gamma is -bend: products of jets take care of
all its terms, also of those by time alone where the ground's end of a joint, or an angle, is driven.
All numbers are lane-wide: shape () or any shape that the lanes have.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import pi
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxcontact.bodies.linkage import stack
from jaxcontact.errors import InputError, unknown
from jaxcontact.safemath import sine_and_cosine
from jaxcontact.vectors import (
    NO_TURN,
    ZERO,
    Quaternion,
    Rotation,
    Vector,
    add,
    chain_turns,
    compose,
    cross,
    dot,
    of_quaternion,
    opposite_turn,
    rotate,
    rotate_back,
    scale,
    subtract,
    transpose,
    turn_about_y,
)

GROUND = -1


class Motion(NamedTuple):
    """How a body lies and moves.

    `position` of the centre of mass (m) and its `velocity` (m/s) in space; `quaternion` (w, x, y, z) from the body's
    frame to space, of any length; `spin`, the angular velocity (rad/s) in the body's own frame, where the inertias are
    constant. `rotation` and `turning` are what follows from them: the matrix, and the angular velocity in space.
    """

    position: Vector
    quaternion: Quaternion
    velocity: Vector
    spin: Vector
    rotation: Rotation
    turning: Vector


def motion(position: Vector, quaternion: Quaternion, velocity: Vector = ZERO, spin: Vector = ZERO) -> Motion:
    """A body's motion from its state."""
    rotation = of_quaternion(quaternion)
    return Motion(position, quaternion, velocity, spin, rotation, rotate(rotation, spin))


class Jet(NamedTuple):
    """A number or vector, its rate, and its bend: what its second derivative is without accelerations of bodies."""

    value: Any
    rate: Any
    bend: Any


def jet(function: Callable[[Any], Any], t) -> Jet:
    """Value, first and second derivative of a function of time (a number or a vector): the drive of a joint."""
    one = jnp.ones_like(t)
    rate, bend = jax.jvp(lambda t: jax.jvp(function, (t,), (one,))[1], (t,), (one,))
    return Jet(function(t), rate, bend)


class Frame(NamedTuple):
    """A frame fixed in a body: its `origin` from the centre of mass (m, body's frame), and its `turn` from the body's.

    In the ground (GROUND) the origin is a place in space. `vectors.turn_from_y_to` makes the turn for a given axis.
    """

    origin: Vector = ZERO
    turn: Quaternion = NO_TURN


class Kind(NamedTuple):
    """Which equations a kind of joint holds."""

    point: bool
    axis: bool
    angle: bool


KINDS: dict[str, Kind] = {
    "spherical": Kind(True, False, False),
    "revolute": Kind(True, True, False),
    "fixed": Kind(True, True, True),  # a revolute joint with a given angle, constant or driven
    "parallel": Kind(False, True, False),  # the y axes stay parallel, for instance a body that stays sagittal
}


@partial(
    jax.tree_util.register_dataclass,
    data_fields=("parent_frame", "child_frame", "path", "angle"),
    meta_fields=("parent", "child", "kind"),
)
@dataclass(frozen=True)
class Joint:
    """A joint from body `parent` (its number, or GROUND) to body `child`, of one of the KINDS.

    `path` (a Jet of vectors, m) drives the ground's origin through space in place of that of `parent_frame`. `angle`
    (rad, a number or a Jet) is the angle that a fixed joint keeps or is driven through; None is 0.
    """

    parent: int
    child: int
    kind: str = "revolute"
    parent_frame: Frame = Frame()
    child_frame: Frame = Frame()
    path: Jet | None = None
    angle: Any = None

    def __post_init__(self) -> None:
        """Refuse joints that make no sense, before anything is computed."""
        if self.kind not in KINDS:
            raise unknown("kind of joint", self.kind, KINDS)
        if not GROUND <= self.parent < self.child:
            raise InputError(
                f"joint from body {self.parent} to body {self.child}: a parent has a smaller number than its child, "
                f"and the ground is {GROUND}"
            )
        if self.angle is not None and not KINDS[self.kind].angle:
            raise InputError(f"joint to body {self.child} ({self.kind}): only a fixed joint has a given angle")
        if self.path is not None and (self.parent != GROUND or not KINDS[self.kind].point):
            raise InputError(
                f"joint to body {self.child} ({self.kind}): only a joint that holds a point to the ground (parent "
                f"{GROUND}) can be driven along a path"
            )


class End(NamedTuple):
    """One end of a joint: `arm` from the body's centre of mass to the origin, the origin, the axes x, y, z (space)."""

    arm: Vector
    origin: Jet
    axes: tuple[Vector, Vector, Vector]
    turning: Vector


def end(body: Motion, frame: Frame) -> End:
    """A frame that a body carries along."""
    arm = rotate(body.rotation, frame.origin)
    swirl = cross(body.turning, arm)
    origin = Jet(add(body.position, arm), add(body.velocity, swirl), cross(body.turning, swirl))
    plain = frame.turn is NO_TURN  # most frames are: spares their composition
    axes = body.rotation if plain else compose(body.rotation, of_quaternion(frame.turn))
    return End(arm, origin, transpose(axes), body.turning)


def point_motion(body: Motion, point: Vector) -> tuple[Vector, Vector]:
    """Position (m) and velocity (m/s) of a point of a body, given from its centre of mass in its own frame."""
    origin = end(body, Frame(point)).origin
    return origin.value, origin.rate


def ends(joint: Joint, motions: Sequence[Motion]) -> tuple[End, End]:
    """Both ends of a joint: the parent's and the child's."""
    return _parent_end(joint, motions), end(motions[joint.child], joint.child_frame)


def _parent_end(joint: Joint, motions: Sequence[Motion]) -> End:
    if joint.parent != GROUND:
        return end(motions[joint.parent], joint.parent_frame)
    origin = Jet(joint.parent_frame.origin, ZERO, ZERO) if joint.path is None else joint.path
    return End(ZERO, origin, transpose(of_quaternion(joint.parent_frame.turn)), ZERO)


def _carried(direction: Vector, turning: Vector) -> Jet:
    """A direction that turns with a body, or rests in the ground."""
    if turning is ZERO:
        return Jet(direction, ZERO, ZERO)
    rate = cross(turning, direction)
    return Jet(direction, rate, cross(turning, rate))


def _dot(a: Jet, b: Jet) -> Jet:
    if a.rate is ZERO:
        return Jet(*(dot(a.value, part) for part in b))
    return Jet(
        dot(a.value, b.value),
        dot(a.rate, b.value) + dot(a.value, b.rate),
        dot(a.bend, b.value) + 2.0 * dot(a.rate, b.rate) + dot(a.value, b.bend),
    )


def _driven(angle) -> Jet:
    return angle if isinstance(angle, Jet) else Jet(0.0 if angle is None else angle, 0.0, 0.0)


def _pointer(parent: End, angle) -> Jet:
    """The parent's x axis, turned about its y axis by an angle that may be driven."""
    angle = _driven(angle)
    x, y, z = parent.axes
    sine, cosine = sine_and_cosine(jnp.asarray(angle.value))
    pointer = subtract(scale(cosine, x), scale(sine, z))
    turning = add(parent.turning, scale(angle.rate, y))
    growing = add(scale(angle.bend, y), scale(angle.rate, cross(parent.turning, y)))
    rate = cross(turning, pointer)
    return Jet(pointer, rate, add(cross(growing, pointer), cross(turning, rate)))


class Equations(NamedTuple):
    """The equations of a joint as jets that should be zero: a vector, two numbers, a number; None: not held."""

    point: Jet | None
    axis: tuple[Jet, Jet] | None
    angle: Jet | None


def equations(joint: Joint, parent: End, child: End) -> Equations:
    """What a joint holds (eq. 19), with rates and bends: see the top of this file."""
    kind = KINDS[joint.kind]
    point = axis = angle = None
    if kind.point:
        point = Jet(*(subtract(b, a) for a, b in zip(parent.origin, child.origin, strict=True)))
    if kind.axis:
        y = _carried(child.axes[1], child.turning)
        axis = (
            _dot(_carried(parent.axes[0], parent.turning), y),
            _dot(_carried(parent.axes[2], parent.turning), y),
        )
    if kind.angle:
        angle = _dot(_pointer(parent, joint.angle), _carried(child.axes[2], child.turning))
    return Equations(point, axis, angle)


class Baumgarte(NamedTuple):
    """Feedback of violations of position and velocity (1/s, Foot eq. 22): they obey E'' + 2 alpha E' + beta^2 E = 0.

    With alpha = beta they die out fastest without swinging, like (1 + beta t) exp(-beta t). The paper prints no
    numbers; ours let them fade within a tenth of a second. Zeros leave eq. (20) as it is, and the violations to grow.
    """

    alpha: Any = 50.0
    beta: Any = 50.0


FEEDBACK = Baumgarte()


class Demand(NamedTuple):
    """What the equations of a joint ask of accelerations, apart from the directions that it leaves free.

    The child's origin accelerates by `shift` more than the parent's (m/s^2), and the child turns by `twist` more than
    the parent (rad/s^2): both from angular accelerations alone, the centripetal parts are in here already.
    """

    shift: Vector
    twist: Vector


def demand(joint: Joint, parent: End, child: End, feedback: Baumgarte) -> Demand:
    """Solve the equations of one joint for the relative acceleration of its ends (eqs. 21 and 22).

    For the axis, e . y with e = x, z of the parent has the rate (y x e) . (relative turning). Its two equations leave
    the relative angular acceleration free along the child's y exactly, and fix it across; the cosine of the angle
    between the axes, by which they divide, is 1 in a joint that holds.
    """
    held = equations(joint, parent, child)

    def wanted(value, rate, bend):
        return -bend - 2.0 * feedback.alpha * rate - feedback.beta**2 * value

    shift, twist = ZERO, ZERO
    if held.point is not None:
        shift = tuple(map(wanted, *held.point))
    if held.axis is not None:
        by_x, by_z = (wanted(*equation) for equation in held.axis)
        aligned = dot(parent.axes[1], child.axes[1])
        twist = subtract(scale(by_z / aligned, parent.axes[0]), scale(by_x / aligned, parent.axes[2]))
    if held.angle is not None:
        across = cross(child.axes[2], _pointer(parent, joint.angle).value)
        missing = (wanted(*held.angle) - dot(across, twist)) / dot(across, child.axes[1])
        twist = add(twist, scale(missing, child.axes[1]))
    return Demand(shift, twist)


def joint_angle(parent: End, child: End, rest: Any = 0.0, near: Any = None) -> tuple[Any, Any]:
    """Angle of a joint about its axis from `rest` (rad), within half a turn either way, and its rate (rad/s).

    It runs smoothly through a quarter turn and more; it jumps, from pi to -pi, only half a turn from `rest`. With
    `near` (rad from `rest`) it is told within half a turn of that, and so runs on through any number of turns where
    `near` follows it. Where the axes point opposite ways there is no angle: it is 0 there, with derivative 0.
    """
    (x, y, z), (x_child, _, z_child) = parent.axes, child.axes
    sine, cosine = dot(z_child, x) - dot(x_child, z), dot(z_child, z) + dot(x_child, x)
    rest_sine, rest_cosine = sine_and_cosine(jnp.asarray(rest))
    sine, cosine = sine * rest_cosine - cosine * rest_sine, cosine * rest_cosine + sine * rest_sine
    defined = (sine != 0) | (cosine != 0)
    angle = jnp.arctan2(jnp.where(defined, sine, 0.0), jnp.where(defined, cosine, 1.0))
    if near is not None:
        angle = angle + 2 * pi * jnp.round((near - angle) / (2 * pi))
    return angle, dot(y, subtract(child.turning, parent.turning))


def attached(joint: Joint, motions: Sequence[Motion], turn: Quaternion = NO_TURN, spin: Vector = ZERO) -> Motion:
    """Where the child of a joint must lie, and how it must move, for the joint to hold.

    `turn` takes the parent's frame of the joint to the child's and `spin` is the child's angular velocity relative to
    the parent's (rad/s, parent's frame). For a revolute joint these are `turn_about_y(angle)` and (0, rate, 0); a
    fixed joint takes both from its `angle`. The parent must be among `motions` already. A joint that holds no point
    lets both origins coincide and move alike.
    """
    if KINDS[joint.kind].angle:
        angle = _driven(joint.angle)
        turn, spin = turn_about_y(angle.value), (0.0, angle.rate, 0.0)
    parent = _parent_end(joint, motions)
    before = NO_TURN if joint.parent == GROUND else motions[joint.parent].quaternion
    to_parent_frame = chain_turns(before, joint.parent_frame.turn)
    quaternion = chain_turns(to_parent_frame, chain_turns(turn, opposite_turn(joint.child_frame.turn)))
    rotation = of_quaternion(quaternion)
    turning = add(parent.turning, rotate(transpose(parent.axes), spin))
    arm = rotate(rotation, joint.child_frame.origin)
    return Motion(
        position=subtract(parent.origin.value, arm),
        quaternion=quaternion,
        velocity=subtract(parent.origin.rate, cross(turning, arm)),
        spin=rotate_back(rotation, turning),
        rotation=rotation,
        turning=turning,
    )


class Violation(NamedTuple):
    """By how much joints fail to hold, at worst: of points (m, m/s) and of axes and angles (rad, rad/s)."""

    position: Any
    angle: Any
    velocity: Any
    rate: Any


def violation(joints: Sequence[Joint], motions: Sequence[Motion]) -> Violation:
    """The largest violation among the equations of all joints, and among their rates."""
    points, angles = [], []
    for joint in joints:
        held = equations(joint, *ends(joint, motions))
        if held.point is not None:
            points += list(zip(held.point.value, held.point.rate, strict=True))
        angles += [equation[:2] for equation in (*(held.axis or ()), held.angle) if equation is not None]

    def largest(pairs, part):
        return jnp.max(jnp.abs(stack([0.0, *(pair[part] for pair in pairs)])), axis=0)

    return Violation(largest(points, 0), largest(angles, 0), largest(points, 1), largest(angles, 1))
