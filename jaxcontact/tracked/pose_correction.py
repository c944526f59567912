"""A small correction of a measured pose: markers err by millimetres, skin slides, soles compress.

Each direction has its own smooth curve over the stance, a sum of cubic B-splines whose coefficients are parameters of
the model (`correct.height.1`, ...). B-splines are positive and add up to 1, so that a coefficient is the size of the
correction about its own moment, and a bound or a prior on it is one on the correction. The rates that belong to the
curves are the splines' own derivatives: corrected places and velocities are those of one motion.

A fit holds the coefficients small by priors of mean 0 (`PRIOR_SD`); left at 0 they change nothing.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy.interpolate import BSpline

from jaxcontact.errors import InputError, unknown
from jaxcontact.models.model import Parameter, Params

# Direction: unit, largest coefficient, meaning. Turns are about the ball of the foot.
DIRECTIONS = {
    "forward": ("m", 0.05, "forward, along the foot's heading"),
    "side": ("m", 0.05, "to the side of the big toe of a right foot: left; of a left foot: right"),
    "height": ("m", 0.05, "upwards"),
    "roll": ("deg", 20.0, "about the foot's long axis, big toe up"),
    "pitch": ("deg", 20.0, "heel up"),
    "yaw": ("deg", 20.0, "about the vertical, tip of the foot towards the side of the big toe"),
}
# Standard deviations of a coefficient: m for places, deg for turns. Ours: skin moves over the bones of a foot by some
# millimetres (Leardini et al. 2005), and a bare sole gives way by as much; 2 mm over the 0.19 m from heel to ball are
# about half a degree.
PRIOR_SD = {"forward": 0.002, "side": 0.002, "height": 0.002, "roll": 0.5, "pitch": 0.5, "yaw": 0.5}
_CUBIC = 3


class Shift(NamedTuple):
    """How far a pose is moved: arrays (frames, *lanes) by direction, m and rad, and their rates, m/s and rad/s."""

    value: Mapping[str, Any]
    rate: Mapping[str, Any]


def check_counts(counts: Mapping[str, int]) -> dict[str, int]:
    """Return how many coefficients each direction has, those without left out; refuse what is none."""
    for direction, count in counts.items():
        if direction not in DIRECTIONS:
            raise unknown("direction", direction, DIRECTIONS, "the correction of a pose")
        if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 0:
            raise InputError(f"correction {direction} = {count!r}: a whole number of coefficients is needed, 0 or more")
    return {direction: int(counts.get(direction, 0)) for direction in DIRECTIONS if counts.get(direction, 0)}


def coefficient_names(counts: Mapping[str, int]) -> tuple[str, ...]:
    """Names of all coefficients: correct.height.1, ..."""
    return tuple(f"correct.{direction}.{i}" for direction, count in counts.items() for i in range(1, count + 1))


def correction_parameters(counts: Mapping[str, int]) -> tuple[Parameter, ...]:
    """The coefficients as parameters of a model, 0 by default."""
    found = []
    for direction, count in counts.items():
        unit, most, meaning = DIRECTIONS[direction]
        for i in range(1, count + 1):
            about = f"about {100 * (i - 1) / max(count - 1, 1):.0f} % of stance" if count > 1 else "throughout"
            words = f"correction of the measured pose {about}: {meaning}"
            found.append(Parameter(f"correct.{direction}.{i}", unit, 0.0, -most, most, words, "ours"))
    return tuple(found)


def prior_sd(name: str) -> float:
    """Standard deviation of a coefficient's prior, in its stated unit."""
    return PRIOR_SD[name.split(".")[1]]


def spline_basis(phase: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """B-splines and their derivatives by phase: arrays (frames, count), at phases from 0 to 1.

    Knots are even, and the first and last spline reach 1 at the ends. With fewer than four coefficients the degree is
    one less than their number: a constant, a line, a parabola.
    """
    degree = min(_CUBIC, count - 1)
    inner = np.linspace(0.0, 1.0, count - degree + 1)
    knots = np.concatenate([np.zeros(degree), inner, np.ones(degree)])
    spline = BSpline(knots, np.eye(count), degree)
    slope = spline.derivative()(phase) if degree else np.zeros((len(phase), count))
    return spline(phase), slope


def shift_of(params: Params, counts: Mapping[str, int], phase: np.ndarray, duration: float) -> Shift:
    """The correction at the frames of a stance of `duration` (s); directions without coefficients are left out."""
    value, rate = {}, {}
    for direction, count in counts.items():
        basis, slope = spline_basis(phase, count)
        given = [params[name] for name in coefficient_names({direction: count})]
        lanes = jnp.broadcast_shapes(*(jnp.shape(each) for each in given))
        coefficients = jnp.stack([jnp.broadcast_to(each, lanes) for each in given])
        value[direction] = jnp.tensordot(jnp.asarray(basis, coefficients.dtype), coefficients, 1)
        rate[direction] = jnp.tensordot(jnp.asarray(slope / duration, coefficients.dtype), coefficients, 1)
    return Shift(value, rate)


def size_of(stated: Mapping[str, float], counts: Mapping[str, int]) -> dict[str, tuple[float, float, str]]:
    """How large a correction is in each direction: rms and largest over the stance, in mm or deg.

    `stated` holds the coefficients by name in their stated units (m, deg).
    """
    phase, found = np.linspace(0.0, 1.0, 201), {}
    for direction, count in counts.items():
        basis, _ = spline_basis(phase, count)
        curve = basis @ np.array([float(stated[name]) for name in coefficient_names({direction: count})])
        scale, unit = (1e3, "mm") if DIRECTIONS[direction][0] == "m" else (1.0, "deg")
        found[direction] = (scale * float(np.sqrt(np.mean(curve**2))), scale * float(np.abs(curve).max()), unit)
    return found
