"""What a model tells the rest of the program about itself: parameters and outcomes with units, and how to run it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import pi
from types import MappingProxyType

import jax

from jaxcontact.integrate.machine import Machine
from jaxcontact.integrate.settings import Settings

DEGREE = pi / 180.0

Params = Mapping[str, jax.Array | float]  # name -> number in SI units, shape () or (lanes,)


@dataclass(frozen=True)
class Parameter:
    """One named number of a model. `default`, `low` and `high` are in `unit`; only "deg" differs from SI inside."""

    name: str
    unit: str
    default: float
    low: float
    high: float
    meaning: str
    source: str

    @property
    def si(self) -> float:
        """Factor from the stated unit to the one used inside."""
        return DEGREE if self.unit == "deg" else 1.0


@dataclass(frozen=True)
class Quantity:
    """One named result, a scalar or a curve. `labels` names the values of an integer code: labels[code]."""

    name: str
    unit: str
    meaning: str
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Model:
    """A system that can be simulated: its numbers, its results, its choices of law, and its machines.

    `machine(method, choices, settings)` gives the pausable simulation of the scalar outcomes. `recorder(method,
    choices, settings, count)` gives one that ends with {"outcomes": the same, "curves": {name: array (count, *lanes)}},
    time histories at `count` evenly spaced fractions of the run, 0 and 1 included.
    """

    name: str
    summary: str
    source: str
    parameters: tuple[Parameter, ...]
    outcomes: tuple[Quantity, ...]
    curve_outcomes: tuple[Quantity, ...]
    machine: Callable[[str, Mapping[str, str], Settings], Machine]
    recorder: Callable[[str, Mapping[str, str], Settings, int], Machine]
    methods: tuple[str, ...] = ("compliant", "impulsive")
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))  # first is the default


def default_params(model: Model) -> dict[str, float]:
    """Every parameter at its default, in SI units."""
    return {p.name: p.default * p.si for p in model.parameters}


def within_bounds(parameters: tuple[Parameter, ...], params: Params):
    """Lane-wide: every parameter is finite and inside its bounds (float32 rounding beyond them is forgiven)."""
    ok = True
    for p in parameters:
        low, high = (bound * p.si for bound in (p.low, p.high))
        ok = ok & (params[p.name] >= low - 1e-6 * abs(low)) & (params[p.name] <= high + 1e-6 * abs(high))
    return ok
