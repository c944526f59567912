"""Forces under a prescribed motion: a pure function of the pose, for thousands of layouts and a whole stance at once.

Nothing is integrated, so derivatives by every number of layout, law and pose are those of the formulas. Space: x
forward, y left, z up; the ground is z = 0 unless a plane is given. Frames (or lanes) are worked through one at a time:
memory grows with the results, not with frames times elements times layouts.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxcontact.contact.geometry import GROUND, Body, Plane
from jaxcontact.models import sole
from jaxcontact.models.frames import Numbers, along_motion, lanes_of, one_loop, rows
from jaxcontact.models.layout import Elements, Layout
from jaxcontact.models.model import Params
from jaxcontact.safemath import sine_and_cosine
from jaxcontact.vectors import Vector, about_y, add, compose, cross, rotate


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
    foot = Body(
        (frame.x, 0.0, frame.z + height),
        about_y(*sine_and_cosine(frame.pitch + pitch)),
        (frame.v_x, 0.0, frame.v_z),
        (0.0, frame.pitch_rate, 0.0),
    )
    joint = params["toe_joint.x"], 0.0, params["toe_joint.z"]
    return with_toes(foot, joint, (params["toes.x"], 0.0, params["toes.z"]), frame.bend, frame.bend_rate)


def segment_contacts(
    feet: Feet, layout: Layout, elements: Elements, laws: Params, choices: Mapping[str, str], plane: Plane = GROUND
) -> tuple[sole.Contacts, ...]:
    """What the ground does to the elements of each segment that has any, main foot first."""
    return tuple(
        sole.contact_forces(body, layout.kind, rows(elements, layout.on(segment)), laws, choices, plane)
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
    threshold: Any = 0.0,
    lanes: tuple[int, ...] = (),
) -> Prescribed:
    """Forces on all elements of a layout along a motion, for one layout or for many.

    `motion` is a tree of arrays (frames, ...) and `feet(frame)` says where the foot is in one of them; the pose may be
    lane-wide too. `elements` holds arrays (element, *lanes) in the layout's order (shaped, if a shape is wanted) and
    `laws` lane-wide numbers by name. The centre of pressure is told where the vertical load is above `threshold` (N).
    Results have at least the shape `lanes`, also where nothing that varies enters them.

    An exponent `m` that is the number 1.5 of Python costs a root only; as an array it costs a logarithm.
    """
    numbers = Numbers.of(elements, laws, plane, threshold)

    def seen(pose: Feet, numbers: Numbers) -> tuple[Any, ...]:
        # Truth values stay outside: with one among the results, LLVM makes poor vectors of the whole loop.
        force, F_n, cop, free_moment = one_loop(partial(seen_by_a_plate, layout, choices, plane), pose, numbers)
        return force, cop, free_moment, F_n > numbers.threshold, down_in(layout, plane, pose, numbers)

    return Prescribed(*along_motion(seen, motion, feet, numbers, lanes))


def seen_by_a_plate(layout: Layout, choices: Mapping[str, str], plane: Plane, pose: Feet, numbers: Numbers):
    """What a plate sees in one frame: sums over all elements, of one lane or of many."""
    shape, plane = lanes_of((pose, numbers)), numbers.plane or plane
    contacts = segment_contacts(pose, layout, numbers.stacked(shape), numbers.laws, choices, plane)
    found = sole.reaction(contacts, plane, numbers.threshold)
    return jax.tree.map(
        lambda part: jnp.broadcast_to(part, shape), (found.force, found.F_n, found.cop, found.free_moment)
    )


def down_in(layout: Layout, plane: Plane, pose: Feet, numbers: Numbers):
    """Which elements are in the ground, in the layout's order; no derivatives are wanted of that."""
    pose, numbers = jax.lax.stop_gradient((pose, numbers))
    shape = lanes_of((pose, numbers))
    elements = numbers.stacked(shape)
    below: list[Any] = [None] * len(layout)
    for segment, body in pose._asdict().items():
        chosen = layout.on(segment)
        if chosen:
            touch = sole.touch_elements(body, layout.kind, rows(elements, chosen), numbers.plane or plane)
            for place, gap in zip(chosen, jnp.broadcast_to(touch.gap, (len(chosen), *shape)), strict=True):
                below[place] = gap < 0
    return jnp.stack(below)
