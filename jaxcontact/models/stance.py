"""A stance phase under prescribed motion: what the ground does to a given sole (Foot, Figs 8-10).

The motion is that of `gait.Gait`, made once so that the reference sole (the layout as it is, with the default laws and
shape) carries a walking body. It does not change with the parameters: another stiffness, shape or layout meets the same
motion and answers with other forces.
"""

from collections.abc import Mapping
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np

from jaxcontact.integrate.machine import BAD_VALUE, FINISHED, NON_FINITE, STATUS_NAMES, Machine
from jaxcontact.integrate.settings import Settings
from jaxcontact.models import sole
from jaxcontact.models.foot import BODY_PARAMETERS, SOURCE
from jaxcontact.models.gait import Gait, motion_at
from jaxcontact.models.layout import Elements, Layout
from jaxcontact.models.layouts import NINE_SPHERES
from jaxcontact.models.model import Model, Parameter, Params, Quantity, within_bounds
from jaxcontact.models.prescribed import Prescribed, SagittalMotion, evaluate, sagittal_feet
from jaxcontact.models.shape import SHAPE_PARAMETERS, shaped
from jaxcontact.models.strike import lanes

GAIT = Gait()
FRAMES = 201  # of the motion that outcomes are taken from
LOADED = 50.0  # N: below this the centre of pressure is not told

# Parts of stance that outcomes are means over, as fractions of it.
PHASES = {"heel": (0.0, 0.17), "mid": (0.17, 0.45), "rise": (0.45, 0.65), "off": (0.65, 1.0)}
_PHASE_WORDS = {"heel": "heel contact", "mid": "mid-stance", "rise": "heel rise", "off": "push-off"}

_LAWS = sole.law_parameters(
    8e4,
    4e4,
    0.8,
    "ours: under a body Foot's 40 kN/m lets the ball touch too at 10 % of stance; with this, its spheres 1 to 3 do",
)
_PLACES = tuple(p for p in BODY_PARAMETERS if p.name in ("toe_joint.x", "toe_joint.z", "toes.x", "toes.z"))
_POSE = (
    Parameter("pose.height", "m", 0.0, -0.05, 0.05, "added to the height of the foot", "ours"),
    Parameter("pose.pitch", "deg", 0.0, -20.0, 20.0, "added to the pitch of the foot, clockwise: heel up", "ours"),
)
OUTCOMES = (
    *(Quantity(f"F_z_{name}", "N", f"mean vertical force in {_PHASE_WORDS[name]}") for name in PHASES),
    Quantity("F_z_peak", "N", "largest vertical force"),
    Quantity("F_x_braking", "N", "largest shear backwards"),
    Quantity("F_x_push", "N", "largest shear forwards"),
    Quantity("impulse", "N s", "of the vertical force"),
    Quantity("cop_travel", "m", "way of the centre of pressure while the load carries it"),
    Quantity("most_down", "1", "largest number of elements in the ground at a time"),
    Quantity("status", "1", "how the run ended", STATUS_NAMES),
    Quantity("n_steps", "1", "integration steps: none"),
)
CURVES = (
    Quantity("t", "s", "time since touch-down of the reference sole"),
    Quantity("pitch", "rad", "main foot, clockwise: heel up"),
    Quantity("F_x", "N", "shear, positive forward"),
    Quantity("F_z", "N", "vertical force"),
    Quantity("cop_x", "m", "centre of pressure, forward; NaN where the load does not carry it"),
    Quantity("down", "1", "elements in the ground, one bit each: the first has value 1, the second 2, ..."),
)


def shaped_elements(layout: Layout, params: Params) -> Elements:
    """The layout's elements with the shape of the sole, in the layout's order."""
    elements, toes = layout.elements(params), params["toe_joint.x"] + params["toes.x"]
    on_toes = jnp.asarray([segment == "toes" for segment in layout.segments])
    return shaped(elements, jnp.where(on_toes.reshape(-1, *(1,) * jnp.ndim(toes)), toes, 0.0), params)


@lru_cache(maxsize=16)
def _reference(layout: Layout, choices: tuple[tuple[str, str], ...], frames: int, number: str) -> SagittalMotion:
    """The motion for a layout with default numbers; made once, outside of any compiled function."""
    defaults = {p.name: p.default for p in (*_LAWS, *_PLACES, *layout.parameters())}
    phase = np.linspace(0.0, 1.0, frames)
    with jax.ensure_compile_time_eval():  # numbers go in as arguments: what is constant would be computed bit by bit
        motion = jax.jit(lambda phase, params: motion_at(phase, GAIT, layout, params, dict(choices)))(phase, defaults)
    return SagittalMotion(*(np.asarray(values) for values in motion))


def reference_motion(layout: Layout, choices: Mapping[str, str], frames: int = FRAMES) -> SagittalMotion:
    """The motion under which `layout`, with default laws and shape, carries a walking body: arrays (frames,)."""
    return _reference(layout, tuple(sorted(choices.items())), frames, str(jnp.result_type(float)))


def stance_model(layout: Layout = NINE_SPHERES, motion_of: Layout | None = None) -> Model:
    """The stance of a sole with this layout, under the motion made for `motion_of` (by default for itself)."""
    parameters = (*_POSE, *_LAWS, *SHAPE_PARAMETERS, *_PLACES, *layout.parameters())
    reference = motion_of or layout

    def forces(params: Params, choices: Mapping[str, str], frames: int) -> tuple[SagittalMotion, Prescribed]:
        motion = reference_motion(reference, choices, frames)
        found = evaluate(
            motion,
            lambda frame: sagittal_feet(frame, params, params["pose.height"], params["pose.pitch"]),
            layout,
            shaped_elements(layout, params),
            params,
            choices,
            threshold=LOADED,
            lanes=lanes(params),
        )
        return motion, found

    def machine(_method: str, choices: Mapping[str, str], settings: Settings) -> Machine:
        def finish(params, status):
            _, found = forces(params, choices, FRAMES)
            return _outcomes(found, status)

        return Machine(_starter(parameters), lambda params, status: status, lambda status: status == status, finish)

    def recorder(method: str, choices: Mapping[str, str], settings: Settings, count: int) -> Machine:
        whole = machine(method, choices, settings)

        def finish(params, status):
            motion, found = forces(params, choices, FRAMES)
            outcomes = _outcomes(found, status)
            if count != FRAMES:
                motion, found = forces(params, choices, count)
            return {"outcomes": outcomes, "curves": _curves(motion, found, outcomes["status"])}

        return whole._replace(finish=finish)

    return Model(
        name="stance" if layout is NINE_SPHERES and reference is layout else f"stance:{layout.name}",
        summary=f"a stance phase of walking under prescribed motion; {len(layout)} {layout.kind}s",
        source=SOURCE,
        parameters=parameters,
        outcomes=OUTCOMES,
        curve_outcomes=CURVES,
        machine=machine,
        recorder=recorder,
        methods=("prescribed",),
        choices=sole.CHOICES,
    )


def _starter(parameters):
    """Every lane is done when it starts: nothing is integrated."""

    def init(params):
        return jnp.broadcast_to(jnp.where(within_bounds(parameters, params), FINISHED, BAD_VALUE), lanes(params))

    return init


def _outcomes(found: Prescribed, status):
    """Scalars of a stance; NaN where it could not be computed."""
    F_x, _, F_z = found.force
    phase = np.linspace(0.0, 1.0, FRAMES)
    step = GAIT.duration / (FRAMES - 1)
    loaded = found.loaded
    cop = found.cop[0]
    farthest = jnp.max(jnp.where(loaded, cop, -jnp.inf), axis=0)
    nearest = jnp.min(jnp.where(loaded, cop, jnp.inf), axis=0)
    numbers = {
        **{
            f"F_z_{name}": jnp.mean(F_z[(phase >= begin) & (phase < end)], axis=0)
            for name, (begin, end) in PHASES.items()
        },
        "F_z_peak": jnp.max(F_z, axis=0),
        "F_x_braking": jnp.max(-F_x, axis=0),
        "F_x_push": jnp.max(F_x, axis=0),
        "impulse": jnp.sum(0.5 * (F_z[1:] + F_z[:-1]), axis=0) * step,
        "cop_travel": jnp.where(jnp.any(loaded, axis=0), farthest - nearest, 0.0),
        "most_down": jnp.max(jnp.sum(found.down, axis=1), axis=0).astype(F_z.dtype),
    }
    sound = jnp.ones(jnp.shape(status), bool)
    for value in numbers.values():
        sound = sound & jnp.isfinite(value)
    status = jnp.where((status == FINISHED) & ~sound, NON_FINITE, status)
    numbers = {name: jnp.where(status == FINISHED, value, jnp.nan) for name, value in numbers.items()}
    return numbers | {"status": status, "n_steps": jnp.zeros_like(status)}


def _curves(motion: SagittalMotion, found: Prescribed, status):
    F_x, _, F_z = found.force
    along = (-1, *(1,) * (F_z.ndim - 1))
    bits = 2.0 ** np.arange(found.down.shape[1]).reshape(1, *along)
    curves = {
        "t": jnp.broadcast_to(jnp.reshape(motion.time, along), F_z.shape),
        "pitch": jnp.broadcast_to(jnp.reshape(motion.pitch, along), F_z.shape),
        "F_x": F_x,
        "F_z": F_z,
        "cop_x": jnp.where(found.loaded, found.cop[0], jnp.nan),
        "down": jnp.sum(found.down * bits, axis=1),
    }
    return {name: jnp.where(status == FINISHED, value, jnp.nan) for name, value in curves.items()}
