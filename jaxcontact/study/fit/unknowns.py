"""What a fit looks for: leaves of a model with bounds, a scale, a start and perhaps a prior.

Three coordinates of the same number: its *value* in the parameter's stated unit; its *size* on its scale, the value
itself ("linear") or its natural logarithm ("log"), in which priors, intervals and correlations are told; and the
optimiser's *turn* u, which no bound limits:

    size = middle + half sin(u),    value = size or exp(size)

(the transform of MINUIT). It is smooth, reaches a bound at a finite u, and its slope vanishes there, so that an unknown
which is pressed against a bound rests on it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from jaxcontact.errors import InputError, unknown
from jaxcontact.models.model import Model, Parameter
from jaxcontact.study.sampling import sobol
from jaxcontact.study.space import SCALES

NEAR_BOUND = 1e-3  # of the range: closer than this, a bound is active
_ON_BOUND = 0.5  # a step that leaves less than this of the distance to a bound leads to it
_INSIDE = 0.02  # of the range: starts keep this far from a bound, where the transform is flat


@dataclass(frozen=True)
class Unknown:
    """One leaf to be found, between `low` and `high` in its parameter's stated unit.

    `prior` is (mean, sd): the mean in the stated unit; the sd in the same unit on a linear scale, and of the natural
    logarithm on a log scale (0.5: about 50 % either way). Without a start it begins at the prior's mean, or at the
    parameter's default, or where that is out of the range in its middle.
    """

    name: str
    low: float
    high: float
    scale: str = "linear"
    start: float | None = None
    prior: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        """Refuse a range that holds nothing."""
        if self.scale not in SCALES:
            raise unknown("scale", self.scale, SCALES, f"[unknown] {self.name}")
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise InputError(f"[unknown] {self.name}: from {self.low:g} to {self.high:g} is no range")
        if self.scale == "log" and self.low <= 0:
            raise InputError(f'[unknown] {self.name}: scale = "log" needs both ends above 0, not {self.low:g}')
        if self.start is not None and not self.low <= self.start <= self.high:
            raise InputError(
                f"[unknown] {self.name}: start = {self.start:g} is out of its range\n"
                f"allowed: {self.low:g} to {self.high:g}"
            )
        if self.prior is not None:
            mean, sd = self.prior
            if not (math.isfinite(mean) and math.isfinite(sd) and sd > 0) or (self.scale == "log" and mean <= 0):
                raise InputError(f"[unknown] {self.name}: prior mean = {mean:g}, sd = {sd:g}: an sd above 0 is needed")

    def size(self, value):
        """The value on its scale."""
        return jnp.log(value) if self.scale == "log" else value

    @property
    def ends(self) -> tuple[float, float]:
        """The bounds on the scale."""
        return (math.log(self.low), math.log(self.high)) if self.scale == "log" else (self.low, self.high)

    def value_at(self, u):
        """The value (stated unit) at the optimiser's coordinate."""
        low, high = self.ends
        size = 0.5 * (low + high) + 0.5 * (high - low) * jnp.sin(u)
        return jnp.exp(size) if self.scale == "log" else size

    def turn_of(self, value: float) -> float:
        """The optimiser's coordinate of a value, kept a little inside of the bounds."""
        low, high = self.ends
        size = math.log(value) if self.scale == "log" else value
        part = min(max((size - low) / (high - low), _INSIDE), 1.0 - _INSIDE)
        return math.asin(2.0 * part - 1.0)

    def bound_at(self, value: float, step: float = 0.0) -> str:
        """Which bound is active: "low", "high" or "". It is near, and the step (on the scale) does not lead away.

        `step` is the one to the lowest cost with all others held: a value that is small in a wide range, but the best
        one, is not held by its bound.
        """
        low, high = self.ends
        part = ((math.log(value) if self.scale == "log" else value) - low) / (high - low)
        after = part + step / (high - low)
        if part < NEAR_BOUND and after <= max(0.0, part * _ON_BOUND):
            return "low"
        return "high" if part > 1.0 - NEAR_BOUND and after >= min(1.0, 1.0 - (1.0 - part) * _ON_BOUND) else ""

    def first_value(self, parameter: Parameter) -> float:
        """Where the fit begins."""
        if self.start is not None:
            return self.start
        usual = self.prior[0] if self.prior else parameter.default
        low, high = self.ends
        middle = 0.5 * (low + high)
        if self.low < usual < self.high:
            return usual
        return math.exp(middle) if self.scale == "log" else middle


def check_unknowns(model: Model, unknowns: Sequence[Unknown]) -> None:
    """Refuse names that the model does not have, or that come twice, and ranges beyond a parameter's bounds."""
    known = {parameter.name: parameter for parameter in model.parameters}
    if not unknowns:
        raise InputError("[unknown] is empty: which parameters are to be found?")
    seen = set()
    for each in unknowns:
        if each.name not in known:
            raise unknown("parameter", each.name, known, "[unknown]")
        if each.name in seen:
            raise InputError(f"[unknown] {each.name} is given twice")
        seen.add(each.name)
        parameter = known[each.name]
        slack = 1e-12 * max(abs(parameter.low), abs(parameter.high))
        if each.low < parameter.low - slack or each.high > parameter.high + slack:
            raise InputError(
                f"[unknown] {each.name}: from {each.low:g} to {each.high:g} goes beyond the bounds of the model\n"
                f"allowed: {parameter.low:g} to {parameter.high:g} {parameter.unit}"
            )


def starting_turns(model: Model, unknowns: Sequence[Unknown], count: int, seed: int) -> np.ndarray:
    """Where the starts begin, as turns (count, unknowns): the first at the given values, the others spread (Sobol).

    With a prior the spread is three of its sd about its mean, as far as the range allows: a start far outside of what
    the prior allows finds what the prior forbids.
    """
    known = {parameter.name: parameter for parameter in model.parameters}
    first = [each.turn_of(each.first_value(known[each.name])) for each in unknowns]
    if count == 1:
        return np.array([first])
    parts = sobol(0, count - 1, len(unknowns), count - 1, seed)
    columns = []
    for each, part in zip(unknowns, parts.T, strict=True):
        low, high = each.ends
        if each.prior is not None:
            mean = math.log(each.prior[0]) if each.scale == "log" else each.prior[0]
            low, high = max(low, mean - 3 * each.prior[1]), min(high, mean + 3 * each.prior[1])
            if low >= high:
                low, high = each.ends
        size = low + (high - low) * part
        columns.append([each.turn_of(math.exp(s) if each.scale == "log" else s) for s in size])
    return np.concatenate([[first], np.array(columns).T])
