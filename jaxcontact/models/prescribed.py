"""Forces under a prescribed motion: a pure function of the pose, for thousands of layouts and a whole stance at once.

Nothing is integrated, so derivatives by every number of layout, law and pose are those of the formulas. Space: x
forward, y left, z up; the ground is z = 0 unless a plane is given. Frames are worked through a few at a time: memory
grows with the results, not with frames times elements times layouts.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxcontact.contact.geometry import GROUND, Body, Plane
from jaxcontact.models import sole
from jaxcontact.models.layout import Elements, Layout
from jaxcontact.models.model import Params
from jaxcontact.safemath import sine_and_cosine
from jaxcontact.vectors import Vector, about_y, add, compose, cross, rotate

_AT_A_TIME = 2**16  # elements of all layouts, in the frames worked on together: their arrays stay in a core's cache


class SagittalMotion(NamedTuple):
    """Frames of a foot that moves in the sagittal plane: arrays (frames,). Angles in rad, clockwise (heel up)."""

    time: Any  # s
    x: Any  # centre of mass of the main foot, m
    z: Any
    pitch: Any  # of the main foot
    bend: Any  # of the toes against it
    v_x: Any  # and their rates, m/s, rad/s
    v_z: Any
    pitch_rate: Any
    bend_rate: Any


class Feet(NamedTuple):
    """Main foot and toes as bodies in space, in the frames of their centres of mass."""

    foot: Body
    toes: Body


class Prescribed(NamedTuple):
    """Forces along a motion: arrays (frames, *lanes); `down` is (frames, elements, *lanes), in the layout's order."""

    force: Vector  # the ground's on the foot, N
    cop: Vector  # centre of pressure, m; 0 where not `loaded`
    free_moment: Any  # about the vertical at the centre of pressure, N m
    loaded: Any  # whether the load carries a centre of pressure
    down: Any  # which elements are in the ground


def with_toes(foot: Body, joint: Vector, centre: Vector, bend, bend_rate) -> Feet:
    """Give a main foot its toes, turned by `bend` (rad, clockwise: toes down) against it about their joint.

    `joint` is seen from the main foot's centre of mass and `centre`, that of the toes, from the joint, in metres.
    """
    turn = about_y(*sine_and_cosine(bend))
    arm = rotate(foot.rotation, joint)
    rotation = compose(foot.rotation, turn)
    reach = rotate(rotation, centre)
    spin = add(foot.spin, rotate(foot.rotation, (0.0, bend_rate, 0.0)))
    at_joint = add(foot.velocity, cross(foot.spin, arm))
    toes = Body(
        position=add(add(foot.position, arm), reach),
        rotation=rotation,
        velocity=add(at_joint, cross(spin, reach)),
        spin=spin,
    )
    return Feet(foot, toes)


def sagittal_feet(frame: SagittalMotion, params: Params, height: Any = 0.0, pitch: Any = 0.0) -> Feet:
    """Main foot and toes at a frame, or at all of them; moved up by `height` (m) and turned by `pitch` (rad).

    `params` holds where the joint and the centre of the toes are: toe_joint.x, toe_joint.z, toes.x, toes.z.
    """
    zero = jnp.zeros_like(frame.x)
    foot = Body(
        (frame.x, zero, frame.z + height),
        about_y(*sine_and_cosine(frame.pitch + pitch)),
        (frame.v_x, zero, frame.v_z),
        (zero, frame.pitch_rate, zero),
    )
    joint = params["toe_joint.x"], 0.0, params["toe_joint.z"]
    return with_toes(foot, joint, (params["toes.x"], 0.0, params["toes.z"]), frame.bend, frame.bend_rate)


def segment_contacts(
    feet: Feet, layout: Layout, elements: Elements, laws: Params, choices: Mapping[str, str], plane: Plane = GROUND
) -> tuple[sole.Contacts, ...]:
    """What the ground does to the elements of each segment that has any, main foot first."""
    return tuple(
        sole.contact_forces(body, layout.kind, elements.take(layout.on(segment)), laws, choices, plane)
        for segment, body in feet._asdict().items()
        if layout.on(segment)
    )


def evaluate(
    motion: Any,
    feet: Callable[[Any], Feet],
    layout: Layout,
    elements: Elements,
    laws: Params,
    choices: Mapping[str, str],
    *,
    plane: Plane = GROUND,
    threshold: float = 0.0,
    lanes: tuple[int, ...] = (),
) -> Prescribed:
    """Forces on all elements of a layout along a motion, for one layout or for many.

    `motion` is a tree of arrays (frames, ...) and `feet(frame)` says where the foot is in one of them; the pose may be
    lane-wide too. `elements` holds arrays (element, *lanes) in the layout's order (shaped, if a shape is wanted) and
    `laws` lane-wide numbers by name. The centre of pressure is told where the vertical load is above `threshold` (N).
    Results have at least the shape `lanes`, also where nothing that varies enters them.
    """
    order = [*layout.on("foot"), *layout.on("toes")]
    back = jnp.asarray([order.index(i) for i in range(len(layout))])
    lanes = jnp.broadcast_shapes(lanes, *(jnp.shape(value)[1:] for value in elements if value is not None))
    wide = elements.over(len(lanes))

    def one_frame(frame: Any) -> Prescribed:
        contacts = segment_contacts(feet(frame), layout, wide, laws, choices, plane)
        seen = sole.reaction(contacts, plane, threshold)
        down = jnp.concatenate([each.touch.gap < 0 for each in contacts])[back]
        shape = jnp.broadcast_shapes(lanes, jnp.shape(down)[1:], *(jnp.shape(part) for part in (seen.F_n, *seen.force)))
        force, cop, free_moment, loaded = jax.tree.map(
            lambda value: jnp.broadcast_to(value, shape), (seen.force, seen.cop, seen.free_moment, seen.loaded)
        )
        return Prescribed(force, cop, free_moment, loaded, jnp.broadcast_to(down, (len(layout), *shape)))

    return _over_frames(one_frame, motion, _AT_A_TIME // (len(layout) * math.prod(lanes)))


def _over_frames(function: Callable[[Any], Any], motion: Any, together: int) -> Any:
    """Apply a function of one frame to all, about `together` of them at a time.

    All batches have one size, so that the function is compiled once; what the last one lacks is filled with its frame.
    """
    motion = jax.tree.map(jnp.asarray, motion)
    frames = jax.tree.leaves(motion)[0].shape[0]
    if together >= frames:
        return jax.vmap(function)(motion)
    batches = -(-frames // max(1, together))
    each = -(-frames // batches)

    def batched(values):
        last = jnp.broadcast_to(values[-1:], (batches * each - frames, *values.shape[1:]))
        return jnp.concatenate([values, last]).reshape(batches, each, *values.shape[1:])

    found = jax.lax.map(jax.vmap(function), jax.tree.map(batched, motion))
    return jax.tree.map(lambda values: values.reshape(batches * each, *values.shape[2:])[:frames], found)
