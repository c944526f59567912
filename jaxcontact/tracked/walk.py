"""A sole under the measured motion of a foot: what the ground does to it, held against what a force plate saw.

Nothing is integrated: forces are a pure function of pose, layout and laws, and so are their derivatives.

Frame of pose and targets: that of `foot_pose`, in which a left foot is told as if it were the right one.

No marker tells how the toes bend: they take back the share `toes.flat` of the main foot's pitch once the heel is up.
"""

from collections.abc import Mapping
from functools import lru_cache

import jax.numpy as jnp
import numpy as np

from jaxcontact.contact.geometry import Body
from jaxcontact.errors import InputError
from jaxcontact.integrate.machine import BAD_VALUE, FINISHED, NON_FINITE, STATUS_NAMES, Machine
from jaxcontact.integrate.settings import Settings
from jaxcontact.measured.motion import load_at
from jaxcontact.measured.stance import Stance
from jaxcontact.models import sole
from jaxcontact.models.foot import BODY_PARAMETERS
from jaxcontact.models.layout import Layout
from jaxcontact.models.layouts import NINE_SPHERES
from jaxcontact.models.model import DEGREE, Model, Parameter, Params, Quantity, within_bounds
from jaxcontact.models.prescribed import Feet, Prescribed, evaluate, with_toes
from jaxcontact.models.shape import SHAPE_PARAMETERS
from jaxcontact.models.stance import shaped_elements
from jaxcontact.models.strike import lanes
from jaxcontact.safemath import sine_and_cosine
from jaxcontact.tracked.foot_pose import WINDOW, Pose, Track, along, corrected, pose_at, track_of
from jaxcontact.tracked.pose_correction import check_counts, correction_parameters, shift_of
from jaxcontact.tracked.tracked import Target, Tracked
from jaxcontact.vectors import about_y, add, compose, cross, rotate, scale

FRAMES = 121
LOADED = 20.0  # N: below this the computed centre of pressure is not told
CARRIES = 100.0  # N: below this the measured one does not count; it errs by centimetres there
CORRECTION = {"forward": 8, "side": 8, "height": 8, "pitch": 4}
# Standard deviations of the targets (Lopes eq. 3): shares of body weight, m, N m. They say how much of each channel is
# beyond a sole of some spheres, not how well a plate measures: half of the misfit that is aimed at.
SD = {"F_x": 0.015, "F_y": 0.015, "F_z": 0.025, "cop_x": 0.005, "cop_y": 0.005, "free_moment": 1.0}

_KNEE_OF_THE_TOES = 3.0 * DEGREE  # over which pitch they begin to take it back
_LAWS = sole.law_parameters(4e5, 2e5, 0.8, "ours: a bare sole gives way by some millimetres under the body")
_PLACES = tuple(p for p in BODY_PARAMETERS if p.name in ("toe_joint.x", "toe_joint.z", "toes.x", "toes.z"))
_TOES = Parameter(
    "toes.flat", "1", 0.9, 0.0, 1.5, "share of the main foot's pitch, heel up, that toes take back", "ours"
)
_HEEL_TO_CENTRE = 0.139  # m: the marker sits 5 mm behind the sole's outline
_SUNK = 0.005  # m: how deep the lowest element of the default sole is at foot-flat

OUTCOMES = (
    Quantity("F_z_peak", "N", "largest vertical force"),
    Quantity("F_x_braking", "N", "largest shear backwards"),
    Quantity("F_x_push", "N", "largest shear forwards"),
    Quantity("impulse", "N s", "of the vertical force"),
    Quantity("most_down", "1", "largest number of elements in the ground at a time"),
    Quantity("status", "1", "how the run ended", STATUS_NAMES),
    Quantity("n_steps", "1", "integration steps: none"),
)
CURVES = (
    Quantity("t", "s", "time since touch-down"),
    Quantity("F_x", "N", "shear along the foot, positive forward"),
    Quantity("F_y", "N", "shear towards the side of the big toe"),
    Quantity("F_z", "N", "vertical force"),
    Quantity("cop_x", "m", "centre of pressure in front of the heel marker's place; NaN where no load carries it"),
    Quantity("cop_y", "m", "centre of pressure to the side of the big toe; NaN where no load carries it"),
    Quantity("free_moment", "N m", "about the vertical through the centre of pressure; NaN where no load carries it"),
)


# ---------------------------------------------------------------- the foot that follows it


def feet_at(frame: Pose, ball: tuple[float, float, float], params: Params) -> Feet:
    """Main foot and toes in one frame of a pose; `ball` is where the ball is seen from the heel marker at foot-flat."""
    roll, pitch, yaw = frame.turn
    turned = compose(_about_z(*sine_and_cosine(yaw)), about_y(*sine_and_cosine(pitch)))
    rotation = compose(turned, _about_x(*sine_and_cosine(roll)))
    roll_rate, pitch_rate, yaw_rate = frame.turn_rate
    # Rates of the turns are about the vertical, the axis across after yaw, and the long axis after yaw and pitch.
    spin = add((0.0, 0.0, yaw_rate), scale(pitch_rate, tuple(row[1] for row in turned)))
    spin = add(spin, scale(roll_rate, tuple(row[0] for row in turned)))
    arm = rotate(rotation, (params["mount.x"] - ball[0], params["mount.y"] - ball[1], params["mount.z"] - ball[2]))
    foot = Body(
        add(frame.place, arm),
        compose(rotation, about_y(*sine_and_cosine(params["mount.pitch"]))),
        add(frame.velocity, cross(spin, arm)),
        spin,
    )
    up = pitch + params["mount.pitch"]
    length = jnp.sqrt(up**2 + _KNEE_OF_THE_TOES**2)
    bend = -0.5 * params["toes.flat"] * (up + length)
    bend_rate = -0.5 * params["toes.flat"] * (1.0 + up / length) * pitch_rate
    joint = params["toe_joint.x"], 0.0, params["toe_joint.z"]
    return with_toes(foot, joint, (params["toes.x"], 0.0, params["toes.z"]), bend, bend_rate)


def _about_x(sine, cosine):
    one, zero = jnp.ones_like(cosine), jnp.zeros_like(cosine)
    return (one, zero, zero), (zero, cosine, -sine), (zero, sine, cosine)


def _about_z(sine, cosine):
    one, zero = jnp.ones_like(cosine), jnp.zeros_like(cosine)
    return (cosine, -sine, zero), (sine, cosine, zero), (zero, zero, one)


def _mount_parameters(layout: Layout, heel_height: float) -> tuple[Parameter, ...]:
    """Where the layout's origin is seen from the heel marker at foot-flat; its sole then is a little in the ground."""
    elements = layout.elements()
    size = elements.radius if elements.radius is not None else elements.c if elements.c is not None else 0.0
    toes = np.array([segment == "toes" for segment in layout.segments])
    joint = {p.name: p.default for p in _PLACES}
    raised = np.where(toes, joint["toe_joint.z"] + joint["toes.z"], 0.0)
    lowest = float(np.min(np.asarray(elements.z - size) + raised))
    what = "centre of mass of the main foot, {} the heel marker at foot-flat"
    return (
        Parameter("mount.x", "m", _HEEL_TO_CENTRE, -0.5, 0.5, what.format("in front of"), "ours: Foot Table 2's sole"),
        Parameter("mount.y", "m", 0.0, -0.5, 0.5, what.format("to the side of the big toe of"), "ours"),
        Parameter("mount.z", "m", round(-_SUNK - lowest - heel_height, 6), -0.5, 0.5, what.format("above"), "ours"),
        Parameter("mount.pitch", "deg", 0.0, -20.0, 20.0, "of the main foot at foot-flat, heel up", "ours"),
    )


# ---------------------------------------------------------------- the model


def walk_model(
    stance: Stance,
    layout: Layout = NINE_SPHERES,
    frames: int = FRAMES,
    *,
    correction: Mapping[str, int] | None = None,
    window: float = WINDOW,
) -> Tracked:
    """A sole of this layout under the motion of a measured stance, and the plate's signals as targets.

    `correction` says how many coefficients the correction of the pose has in each direction (see pose_correction);
    without it `CORRECTION`; {} for none. `window` (s) is how far poses are smoothed.
    """
    if frames < 2:
        raise InputError(f"frames = {frames}: at least 2 moments are needed")
    track, counts = track_of(stance, window), check_counts(CORRECTION if correction is None else correction)
    mount = _mount_parameters(layout, float(track.heel[2]))
    parameters = (
        *mount,
        _TOES,
        *_LAWS,
        *SHAPE_PARAMETERS,
        *_PLACES,
        *layout.parameters(),
        *correction_parameters(counts),
    )

    @lru_cache(maxsize=8)
    def measured_at(count: int) -> Pose:
        return pose_at(track, np.linspace(0.0, stance.duration, count))

    def forces(params: Params, choices: Mapping[str, str], count: int) -> Prescribed:
        wide = lanes(params)
        shift = shift_of(params, counts, np.linspace(0.0, 1.0, count), stance.duration)
        return evaluate(
            corrected(measured_at(count), shift),
            lambda frame: feet_at(frame, track.ball, params),
            layout,
            shaped_elements(layout, params),
            params,
            choices,
            threshold=LOADED,
            lanes=wide,
        )

    def machine(_method: str, choices: Mapping[str, str], settings: Settings) -> Machine:
        def init(params):
            return jnp.broadcast_to(jnp.where(within_bounds(parameters, params), FINISHED, BAD_VALUE), lanes(params))

        def finish(params, status):
            return _outcomes(forces(params, choices, frames), status, stance.duration)

        return Machine(init, lambda params, status: status, lambda status: status == status, finish)

    def recorder(method: str, choices: Mapping[str, str], settings: Settings, count: int) -> Machine:
        def finish(params, status):
            found = forces(params, choices, frames)
            outcomes = _outcomes(found, status, stance.duration)
            found = found if count == frames else forces(params, choices, count)
            return {"outcomes": outcomes, "curves": _curves(found, stance.duration, outcomes["status"])}

        return machine(method, choices, settings)._replace(finish=finish)

    model = Model(
        name=f"walk:{layout.name}",
        summary=f"stance {stance.name} under its measured motion; {len(layout)} {layout.kind}s",
        source="measured: " + ", ".join(stance.provenance.files),
        parameters=parameters,
        outcomes=OUTCOMES,
        curve_outcomes=CURVES,
        machine=machine,
        recorder=recorder,
        methods=("prescribed",),
        choices=sole.CHOICES,
    )
    described = stance.described() | {
        "ball": " + ".join(track.outermost),
        "heading": track.heading,
        "mirrored": track.side < 0,
        "pose_smoothing": f"local cubics over {window:g} s" if window > 0 else "none",
    }
    return Tracked(model, _targets(stance, track, frames), frames, stance.body_weight, described)


def _targets(stance: Stance, track: Track, frames: int) -> dict[str, Target]:
    """The plate's signals in the ground's frame; without a known weight, shares are of the largest load."""
    load = load_at(stance, frames)
    force = track.seen(load.force)
    cop = track.seen(load.cop - track.heel[:2])
    carried = load.cop_valid & (load.force[:, 2] > CARRIES)
    weight = stance.body_weight or float(np.max(load.force[:, 2]))
    everywhere = np.ones(frames, bool)
    curves = {
        **{f"F_{letter}": (force[:, i], everywhere, weight, "N") for i, letter in enumerate("xyz")},
        **{f"cop_{letter}": (cop[:, i], carried, 1.0, "m") for i, letter in enumerate("xy")},
        "free_moment": (track.side * load.free_moment, carried, 1.0, "N m"),
    }
    return {
        name: Target(np.where(valid, values, 0.0), valid, SD[name] * unit_sd, unit)
        for name, (values, valid, unit_sd, unit) in curves.items()
    }


def _outcomes(found: Prescribed, status, duration: float):
    """Scalars of a stance; NaN where it could not be computed."""
    F_x, _, F_z = found.force
    numbers = {
        "F_z_peak": jnp.max(F_z, axis=0),
        "F_x_braking": jnp.max(-F_x, axis=0),
        "F_x_push": jnp.max(F_x, axis=0),
        "impulse": jnp.sum(0.5 * (F_z[1:] + F_z[:-1]), axis=0) * (duration / (F_z.shape[0] - 1)),
        "most_down": jnp.max(jnp.sum(found.down, axis=1), axis=0).astype(F_z.dtype),
    }
    sound = jnp.ones(jnp.shape(status), bool)
    for value in numbers.values():
        sound = sound & jnp.isfinite(value)
    status = jnp.where((status == FINISHED) & ~sound, NON_FINITE, status)
    numbers = {name: jnp.where(status == FINISHED, value, jnp.nan) for name, value in numbers.items()}
    return numbers | {"status": status, "n_steps": jnp.zeros_like(status)}


def _curves(found: Prescribed, duration: float, status):
    F_x, F_y, F_z = found.force
    time = jnp.linspace(0.0, duration, F_z.shape[0], dtype=F_z.dtype)
    curves = {"t": jnp.broadcast_to(along(time, F_z), F_z.shape), "F_x": F_x, "F_y": F_y, "F_z": F_z}
    told = {"cop_x": found.cop[0], "cop_y": found.cop[1], "free_moment": found.free_moment}
    curves |= {name: jnp.where(found.loaded, values, jnp.nan) for name, values in told.items()}
    return {name: jnp.where(status == FINISHED, value, jnp.nan) for name, value in curves.items()}
