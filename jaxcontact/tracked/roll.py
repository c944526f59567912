"""A rolling surface under a measured stance: the centre of pressure as a function of the foot's pitch (Rolling eq. 1).

Frame and sign are those of `contact.rolling` and of a measured stance: the pitch is 0 at foot flat and positive with
the heel up; the CoP is along the foot, from the place of the heel marker at foot flat. A surface predicts the CoP from
the pitch alone: nothing is integrated, and how fast or how loaded the foot is does not count. `origin` is where its
footprint centre C* lies on the ground, `flat_pitch` the measured pitch at which it stands flat.

While the foot is flat the pitch changes by 2 degrees either way and the CoP by 0.10 to 0.15 m, so that errors of the
pitch weigh heavily there. The pitch is smoothed as `measured.foot_motion` does (local cubics over `window` seconds).

Two families:

- `roll:1`, `roll:2`: one or two terms a side whose amplitudes may be negative, and the radius of a circle beside them,
  0 unless it is asked for. rho jumps at foot flat, where the two sides meet.
- `roll:constrained`: `contact.rolling.constrained_side` on both sides, with one rho, of slope 0, at foot flat: five
  free numbers a side and that rho. Where its constraints have no solution the lane ends with the status bad_value.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxcontact.contact import rolling
from jaxcontact.contact.rolling import Side, Surface, Term
from jaxcontact.errors import InputError, unknown
from jaxcontact.integrate.machine import BAD_VALUE, FINISHED, STATUS_NAMES, Machine
from jaxcontact.integrate.settings import Settings
from jaxcontact.measured.motion import WINDOW, foot_motion, load_at
from jaxcontact.measured.stance import Stance
from jaxcontact.models.model import Model, Parameter, Params, Quantity, within_bounds
from jaxcontact.models.rollover import SOURCE
from jaxcontact.models.strike import lanes
from jaxcontact.tracked.tracked import Target, Tracked

FRAMES = 201
LOADED = 100.0  # N: with less load the CoP of a force plate is noise
COP_SD = 0.005  # m: ours, about what plates and markers agree to, and what a sole's padding moves
TILTS = 181  # at which the curvature's least value is looked for
SIDES = ("front", "rear")

_OURS = "ours: middle of fits to seven measured stances"
_PAPER = "Rolling, p. 2"
_PLACE = (
    Parameter("origin", "m", 0.13, -1.0, 1.0, "footprint centre C*, in front of the heel marker", _OURS),
    Parameter("flat_pitch", "deg", 0.5, -20.0, 20.0, "measured pitch at which the surface stands flat", _OURS),
)
# By number of terms: amplitudes and rates of the front and of the rear side.
_TERMS = {
    1: {"front": ((0.085, 1.0),), "rear": ((0.15, 12.0),)},
    2: {"front": ((0.09, 1.0), (0.05, 18.0)), "rear": ((0.06, 3.0), (0.06, 40.0))},
}
_FAMILY = {"front": ((60.0, 25.0, 1.0, 16.0), 0.026), "rear": ((80.0, 35.0, 2.0, 35.0), 0.026)}
_FLAT_CURVATURE = Parameter("curvature", "m", 2.5, -50.0, 200.0, "radius of curvature rho at foot flat", _OURS)

OUTCOMES = (
    Quantity("cop_travel", "m", "way of the CoP over the loaded stance"),
    Quantity("curvature_front", "m", "radius of curvature at foot flat, from in front"),
    Quantity("curvature_rear", "m", "radius of curvature at foot flat, from behind"),
    Quantity("curvature_least", "m", "least radius of curvature over the loaded stance: below 0 is not convex"),
    Quantity("status", "1", "how the run ended", STATUS_NAMES),
    Quantity("n_steps", "1", "integration steps: none"),
)
CURVES = (
    Quantity("t", "s", "time since touch-down"),
    Quantity("pitch", "rad", "measured pitch of the foot, smoothed; + heel up"),
    Quantity("cop_x", "m", "centre of pressure along the foot, in front of the heel marker's place at foot flat"),
    Quantity("curvature", "m", "radius of curvature rho at the contact"),
)


class _Shape(NamedTuple):
    """How parameters make a surface: their table, the whole surface, and the terms that count at given tilts.

    `surface(params)` also says whether there is one, per lane. `side_at(params, ahead, a)` gives, for tilts of size a
    on the front side (`ahead`) or the rear one, a side of which the tilt sees nothing but what the surface has there.
    """

    name: str
    summary: str
    parameters: tuple[Parameter, ...]
    surface: Callable[[Params], tuple[Surface, Any]]
    side_at: Callable[[Params, Any, Any], Side]


class _Motion(NamedTuple):
    """A measured pitch (rad) at evenly spaced times (s), and where the load carries a CoP."""

    time: np.ndarray
    pitch: np.ndarray
    loaded: np.ndarray


def roll_surface(params: Params, terms: int = 1, constrained: bool = False) -> tuple[Surface, Any]:
    """The surface that a model's parameters (SI) mean, and whether its constraints could be solved (per lane)."""
    return _shape(terms, constrained).surface(params)


def roll_model(
    stance: Stance,
    terms: int = 1,
    constrained: bool = False,
    *,
    frames: int = FRAMES,
    window: float = WINDOW,
    loaded: float = LOADED,
    sd: float = COP_SD,
) -> Tracked:
    """A rolling surface of `terms` terms a side (or of the constrained family) that follows a stance.

    The target is the CoP along the foot at `frames` moments spread evenly over the stance. It counts where it is valid
    and the vertical force is above `loaded` (N). `window` (s) is that of the pitch's smoothing, 0 for none.
    """
    if not loaded >= 0 or not np.isfinite(loaded):
        raise InputError(f"loaded = {loaded:g} N: a load of at least 0 is needed")
    shape = _shape(terms, constrained)

    @lru_cache(maxsize=4)
    def motion(count: int) -> _Motion:
        moved, load = foot_motion(stance, count, window=window), load_at(stance, count)
        return _Motion(moved.time, moved.pitch, load.cop_valid & (load.force[:, 2] > loaded))

    counts = motion(frames).loaded
    if not np.any(counts):
        raise InputError(f"stance {stance.name}: no frame has a valid CoP and a load above {loaded:g} N")
    along = (load_at(stance, frames).cop - stance.flat.heel) @ stance.flat.forward
    target = Target(np.where(counts, along, 0.0), counts, float(sd), "m")
    smoothing = foot_motion(stance, 2, window=window).smoothing
    source = {"stance": stance.described(), "pitch_smoothing": smoothing, "loaded_N": loaded}
    return Tracked(_model(shape, motion, frames), {"cop_x": target}, frames, stance.body_weight, source)


# ---------------------------------------------------------------- shapes


def _shape(terms: int, constrained: bool) -> _Shape:
    if constrained:
        return _constrained()
    if terms not in _TERMS:
        raise unknown("number of terms a side", str(terms), [str(count) for count in _TERMS], "rolling surface")
    return _free(terms)


def _free(terms: int) -> _Shape:
    """Terms without constraints or switches."""
    parameters = list(_PLACE)
    for side in SIDES:
        for i, (A, C) in enumerate(_TERMS[terms][side], start=1):
            parameters += [
                Parameter(f"{side}.A{i}", "m", A, -20.0, 20.0, f"amplitude of term {i} of the {side} side", _OURS),
                Parameter(f"{side}.C{i}", "1/rad", C, 1e-3, 1e4, f"rate of term {i} of the {side} side", _OURS),
            ]
        meaning = f"circle added to the {side} side"
        parameters.append(Parameter(f"{side}.circle", "m", 0.0, -5.0, 5.0, meaning, "Rolling: no circle"))

    def made(pick: Callable[[str], Any]) -> Side:
        return Side(tuple(Term(pick(f"A{i}"), pick(f"C{i}")) for i in range(1, terms + 1)), pick("circle"))

    def surface(params: Params):
        return Surface(*(made(lambda name, side=side: params[f"{side}.{name}"]) for side in SIDES)), True

    def side_at(params: Params, ahead, _a) -> Side:
        return made(lambda name: jnp.where(ahead, params[f"front.{name}"], params[f"rear.{name}"]))

    words = "one exponential term" if terms == 1 else f"{terms} exponential terms"
    return _Shape(f"roll:{terms}", f"a rolling surface of {words} a side", tuple(parameters), surface, side_at)


def _constrained() -> _Shape:
    """The paper's family on both sides."""
    parameters = [*_PLACE, _FLAT_CURVATURE]
    for side in SIDES:
        rates, switch = _FAMILY[side]
        for i, C in enumerate(rates, start=1):
            meaning = f"rate of term {i} of the {side} side, {'before' if i < 3 else 'after'} its switch"
            parameters.append(Parameter(f"{side}.C{i}", "1/rad", C, 1e-3, 1e4, meaning, _OURS))
        meaning = f"tilt alpha* at which terms 3, 4 of the {side} side take over from 1, 2"
        parameters.append(Parameter(f"{side}.switch", "rad", switch, 1e-4, 1.5, meaning, _PAPER))

    def sides(params: Params):
        return [
            rolling.constrained_side(
                params["curvature"], tuple(params[f"{side}.C{i}"] for i in range(1, 5)), params[f"{side}.switch"]
            )
            for side in SIDES
        ]

    def surface(params: Params):
        made = sides(params)
        return Surface(*(each.side for each in made)), made[0].solvable & made[1].solvable

    def side_at(params: Params, ahead, a) -> Side:
        """By constraint (2) rho and CoP beyond a switch are those of terms 3, 4 alone, as if on from foot flat."""
        front, rear = (each.side.terms for each in sides(params))
        over = a >= jnp.where(ahead, params["front.switch"], params["rear.switch"])

        def pick(number: int, name: str):
            now, then = (
                jnp.where(ahead, getattr(front[i], name), getattr(rear[i], name)) for i in (number, number + 2)
            )
            return jnp.where(over, then, now)

        return Side(tuple(Term(pick(i, "amplitude"), pick(i, "rate")) for i in (0, 1)))

    return _Shape("roll:constrained", "the constrained family of rolling surfaces", tuple(parameters), surface, side_at)


# ---------------------------------------------------------------- the model


def _model(shape: _Shape, motion: Callable[[int], _Motion], frames: int) -> Model:
    def begin(params: Params):
        """Every lane is done when it starts: nothing is integrated, and within bounds every number is finite."""
        fine = within_bounds(shape.parameters, params) & shape.surface(params)[1]
        return jnp.broadcast_to(jnp.where(fine, FINISHED, BAD_VALUE), lanes(params))

    def machine(_method: str, _choices: Mapping[str, str], _settings: Settings) -> Machine:
        def finish(params, status):
            return _outcomes(shape, params, motion(frames), status)

        return Machine(begin, lambda params, status: status, lambda status: status == status, finish)

    def recorder(method: str, choices: Mapping[str, str], settings: Settings, count: int) -> Machine:
        whole = machine(method, choices, settings)

        def finish(params, status):
            curves = _curves(shape, params, motion(count), status)
            return {"outcomes": whole.finish(params, status), "curves": curves}

        return whole._replace(finish=finish)

    return Model(
        name=shape.name,
        summary=f"{shape.summary}, under a measured pitch",
        source=SOURCE,
        parameters=shape.parameters,
        outcomes=OUTCOMES,
        curve_outcomes=CURVES,
        machine=machine,
        recorder=recorder,
        methods=("prescribed",),
    )


def _along(values: np.ndarray, params: Params):
    """Numbers of the motion, moments first, in front of the lanes."""
    return jnp.asarray(values).reshape(-1, *(1,) * len(lanes(params)))


def _rolled(shape: _Shape, params: Params, tilt):
    """CoP in front of C* (m) and rho (m) at tilts: one side, of which the rear is the mirror image, serves for both."""
    ahead = tilt >= 0
    a = jnp.where(ahead, tilt, -tilt)
    moved = rolling.roll(Surface(shape.side_at(params, ahead, a), Side()), a)
    cop, rho = moved.slope[1] + moved.position[0], moved.bend[1] + moved.position[1]
    return jnp.where(ahead, cop, -cop), rho


def _outcomes(shape: _Shape, params: Params, motion: _Motion, status):
    used = motion.pitch[motion.loaded]
    looked = np.concatenate([used, np.linspace(used.min(), used.max(), TILTS)])
    measured = _along(looked, params) - params["flat_pitch"]
    flat = jnp.zeros((2, *measured.shape[1:]), measured.dtype).at[1].set(-jnp.finfo(measured.dtype).tiny)
    cop, rho = _rolled(shape, params, jnp.concatenate([measured, flat]))
    cop, rho, at_flat = cop[: len(used)], rho[len(used) : -2], rho[-2:]
    numbers = {
        "cop_travel": jnp.max(cop, axis=0) - jnp.min(cop, axis=0),
        "curvature_front": at_flat[0],
        "curvature_rear": at_flat[1],
        "curvature_least": jnp.min(rho, axis=0),
    }
    return _told(numbers, status) | {"status": status, "n_steps": jnp.zeros_like(status)}


def _curves(shape: _Shape, params: Params, motion: _Motion, status):
    pitch = _along(motion.pitch, params)
    cop, rho = _rolled(shape, params, pitch - params["flat_pitch"])
    curves = {
        "t": jnp.broadcast_to(_along(motion.time, params), cop.shape),
        "pitch": jnp.broadcast_to(pitch, cop.shape),
        "cop_x": params["origin"] + cop,
        "curvature": rho,
    }
    return _told(curves, status)


def _told(numbers: Mapping[str, Any], status) -> dict[str, Any]:
    """NaN for lanes that did not finish."""
    return {name: jnp.where(status == FINISHED, value, jnp.nan) for name, value in numbers.items()}
