"""A fit's question: a model, what is unknown in it, and what was measured. As a function: residuals of the unknowns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxcontact.errors import InputError, unknown
from jaxcontact.integrate.machine import FINISHED, Machine, simulate
from jaxcontact.integrate.settings import Settings
from jaxcontact.models import get_model
from jaxcontact.models.model import Model
from jaxcontact.study.checks import check_keys
from jaxcontact.study.definition import Study
from jaxcontact.study.expressions import Expression, read_formula
from jaxcontact.study.fit.channels import Channel, make_channel, predicted, residuals
from jaxcontact.study.fit.unknowns import Unknown, check_unknowns
from jaxcontact.study.units import to_si
from jaxcontact.tracked.tracked import Tracked

POINTS = 101  # of the curves that a simulated model is held against measured times with


@dataclass(frozen=True, eq=False)
class Problem:
    """A checked question. Make one with `Problem.of_model` or, under a measured motion, `Problem.of_tracked`.

    Values are in stated units where a person sees them (`unknowns`, `fixed`, `tied`) and SI inside.
    """

    model: Model
    method: str
    choices: Mapping[str, str]
    settings: Settings
    unknowns: tuple[Unknown, ...]
    fixed: Mapping[str, float]  # what was set by hand, stated units
    tied: Mapping[str, Expression]  # parameters that follow from others by a formula, stated units
    channels: tuple[Channel, ...]
    points: int
    body_weight: float | None = None  # N
    source: Mapping[str, Any] = field(default_factory=dict)  # where the data come from
    title: str = ""

    @classmethod
    def of_model(
        cls,
        model: str | Model,
        *,
        unknowns: Sequence[Unknown],
        channels: Sequence[Channel],
        method: str | None = None,
        fixed: Mapping[str, Any] | None = None,
        tied: Mapping[str, str] | None = None,
        laws: Mapping[str, str] | None = None,
        solver: Mapping[str, Any] | None = None,
        points: int = POINTS,
        body_weight: float | None = None,
        source: Mapping[str, Any] | None = None,
        title: str = "",
    ) -> "Problem":
        """Ask which unknowns of a model explain the channels. `fixed`, `laws`, `solver`: as in a study's file.

        `tied` gives a parameter as a formula of others: {"s2.radius": "s1.radius"}. `points` is how finely a simulated
        run is recorded where curves are held against times.
        """
        model = get_model(model) if isinstance(model, str) else model
        check_unknowns(model, unknowns)
        head = {"model": model} | ({} if method is None else {"method": method})
        tables = {"study": head, "set": fixed or {}, "laws": laws or {}, "solver": solver or {}}
        study = Study.from_dict(tables)
        names = [each.name for each in unknowns]
        if both := [name for name in names if name in study.fixed]:
            raise InputError(f"{both[0]} is both unknown and given in [set]: keep one of them")
        _check_channels(channels, points)
        return cls(
            model=model,
            method=study.method,
            choices=study.choices,
            settings=study.settings,
            unknowns=tuple(unknowns),
            fixed=study.fixed,
            tied=_ties(model, tied or {}, names, study.fixed),
            channels=tuple(channels),
            points=points,
            body_weight=body_weight,
            source=source or {},
            title=title,
        )

    @classmethod
    def of_tracked(
        cls,
        tracked: Tracked,
        *,
        unknowns: Sequence[Unknown],
        channels: Mapping[str, Mapping[str, Any]] | None = None,
        fixed: Mapping[str, Any] | None = None,
        tied: Mapping[str, str] | None = None,
        laws: Mapping[str, str] | None = None,
        title: str = "",
    ) -> "Problem":
        """Ask which unknowns of a model under a measured motion explain what was measured along it.

        `channels` names the curves to fit, each with {"sd": ..., "weight": ..., "from_load": ...} where it should
        differ from the target's own; `from_load` (N) leaves out samples with less measured vertical force. A scalar
        outcome of the model, such as an impulse or a peak force, comes with {"value": ..., "sd": ...}. Without
        `channels` all targets count.
        """
        wanted = channels if channels is not None else {name: {} for name in tracked.targets}
        return cls.of_model(
            tracked.model,
            unknowns=unknowns,
            channels=[_of_target(tracked, name, options) for name, options in wanted.items()],
            fixed=fixed,
            tied=tied,
            laws=laws,
            points=tracked.frames,
            body_weight=tracked.body_weight,
            source=tracked.source,
            title=title,
        )

    # ---------------------------------------------------------------- as a function

    @property
    def names(self) -> tuple[str, ...]:
        """The unknowns' names."""
        return tuple(each.name for each in self.unknowns)

    @cached_property
    def sample_count(self) -> int:
        """How many measured samples count."""
        return sum(channel.count for channel in self.channels)

    @property
    def simulated(self) -> bool:
        """Whether a run is integrated in time, so that derivatives go forward only."""
        return self.method not in ("prescribed", "impulsive")

    @cached_property
    def machine(self) -> Machine:
        """What gives the model's predictions: with curves, if a channel needs them."""
        if all(channel.kind == "outcome" for channel in self.channels):
            plain = self.model.machine(self.method, self.choices, self.settings)
            return plain._replace(finish=lambda params, state: {"outcomes": plain.finish(params, state), "curves": {}})
        return self.model.recorder(self.method, self.choices, self.settings, self.points)

    def values_at(self, u):
        """The unknowns' values (stated units), an array (unknowns,), at the optimiser's coordinates u."""
        return jnp.stack([each.value_at(u[i]) for i, each in enumerate(self.unknowns)])

    def stated(self, values) -> dict[str, Any]:
        """Every parameter of the model in its stated unit, for values of the unknowns (unknowns,)."""
        numbers: dict[str, Any] = {p.name: p.default for p in self.model.parameters} | dict(self.fixed)
        numbers |= {name: values[i] for i, name in enumerate(self.names)}
        for name, formula in self.tied.items():
            numbers[name] = formula.traced(numbers)
        return numbers

    def predict(self, values) -> tuple[dict[str, Any], dict[str, Any], Any]:
        """Outcomes, curves and whether the run finished, for values of the unknowns (stated units)."""
        numbers = self.stated(values)
        params = {p.name: jnp.asarray(numbers[p.name] * to_si(p.unit)) for p in self.model.parameters}
        if self.simulated:
            found = simulate(self.machine, params)
        else:  # done when it starts: without a loop, reverse mode works too
            found = self.machine.finish(params, self.machine.init(params))
        return found["outcomes"], found["curves"], found["outcomes"]["status"] == FINISHED

    def residuals(self, values, noise=None):
        """Whitened differences of all samples (Lopes eq. 3), then those of the priors: (samples + priors,).

        `noise` (samples + priors,) in standard deviations is added to what was measured, and to the priors' means.
        """
        return self.compared(values, noise)[0]

    def compared(self, values, noise=None) -> tuple[Any, list[Any]]:
        """Residuals, and what the model says about the samples of every channel; NaN where it says nothing."""
        outcomes, curves, finished = self.predict(values)
        found = residuals(self.channels, outcomes, curves, finished, noise)
        said = [predicted(channel, outcomes, curves) for channel in self.channels]
        priors = [
            (each.size(values[i]) - each.size(jnp.asarray(each.prior[0]))) / each.prior[1]
            for i, each in enumerate(self.unknowns)
            if each.prior is not None
        ]
        if not priors:
            return found, said
        extra = jnp.stack(priors)
        return jnp.concatenate([found, extra if noise is None else extra - noise[self.sample_count :]]), said

    @property
    def residual_count(self) -> int:
        """How many residuals there are: samples that count, and priors."""
        return self.sample_count + sum(each.prior is not None for each in self.unknowns)

    def channel_predictions(self, values) -> list[Any]:
        """What the model says about the samples of every channel, in their order; NaN where it says nothing."""
        return self.compared(values)[1]

    def of_sizes(self, sizes):
        """The unknowns' values (stated units) from their sizes on their scales."""
        pairs = zip(sizes, self.unknowns, strict=True)
        return jnp.stack([jnp.exp(size) if each.scale == "log" else size for size, each in pairs])

    def sizes_of(self, values):
        """The other way round."""
        return jnp.stack([jnp.asarray(each.size(v)) for v, each in zip(values, self.unknowns, strict=True)])

    def turns(self, values: Mapping[str, float]) -> np.ndarray:
        """The optimiser's coordinates of values in stated units, clipped a little inside of the bounds."""
        return np.array([each.turn_of(values[each.name]) for each in self.unknowns])


def _check_channels(channels: Sequence[Channel], points: int) -> None:
    if not channels:
        raise InputError("there is nothing to fit to: no channel was given")
    if points < 5 and any(channel.kind == "time" for channel in channels):
        raise InputError(f"points = {points}: at least 5 are needed to record a curve")
    names = [channel.name for channel in channels]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(f"channel {twice[0]} is given twice: keep one, with all its samples")
    for channel in channels:
        if channel.kind == "frames" and len(channel.values) != points:
            raise InputError(
                f"channel {channel.name}: {len(channel.values)} samples do not fit the {points} moments of the run"
            )


def _of_target(tracked: Tracked, name: str, options: Mapping[str, Any]) -> Channel:
    scalars = [quantity.name for quantity in tracked.model.outcomes if not quantity.labels]
    if name not in (*tracked.targets, *scalars):
        raise unknown("measured curve or outcome", name, (*tracked.targets, *scalars), "[residual]")
    where, scalar = f"[residual] {name}", name not in tracked.targets
    if not isinstance(options, Mapping):
        raise InputError(f"{where} = {options!r}: a table is needed, as in {{ sd = 5.0 }}")
    check_keys(options, ("value", "sd", "weight") if scalar else ("sd", "weight", "from_load"), where)
    for key, value in options.items():
        if isinstance(value, bool | str | Mapping):
            raise InputError(f"{where} {key} = {value!r}: a number is needed")
    if scalar:
        if not {"value", "sd"} <= {*options}:
            raise InputError(f"{where}: an outcome needs what was measured, as in {{ value = 560.0, sd = 10.0 }}")
        weight = options.get("weight", 1.0)
        return make_channel(tracked.model, name, "outcome", options["value"], options["sd"], weight=weight)
    target = tracked.targets[name]
    valid = np.asarray(target.valid, bool)
    if "from_load" in options:
        if "F_z" not in tracked.targets:
            raise InputError(f"{where}: from_load needs the vertical force F_z, which was not measured here")
        valid = valid & (np.asarray(tracked.targets["F_z"].values) > options["from_load"])
    return make_channel(
        tracked.model,
        name,
        "frames",
        target.values,
        options.get("sd", target.sd),
        valid=valid,
        weight=options.get("weight", 1.0),
    )


def _ties(model: Model, tied: Mapping[str, str], unknowns: Sequence[str], fixed: Mapping[str, float]):
    """Read the formulas, in an order in which each finds what it needs."""
    known = [p.name for p in model.parameters]
    waiting = {}
    for name, text in tied.items():
        if name not in known:
            raise unknown("parameter", name, known, "[tie]")
        if name in unknowns or name in fixed:
            place = "[unknown]" if name in unknowns else "[set]"
            raise InputError(f"{name} is tied in [tie] and also given in {place}: keep one of them")
        waiting[name] = read_formula(text, f"[tie] {name}")
        for needed in waiting[name].names:
            if needed not in known:
                raise unknown("parameter", needed, known, f"[tie] {name}")
    ordered: dict[str, Expression] = {}
    while waiting:
        ready = [name for name, formula in waiting.items() if waiting.keys().isdisjoint(formula.names)]
        if not ready:
            raise InputError(f"[tie] {', '.join(waiting)}: these formulas need each other")
        ordered |= {name: waiting.pop(name) for name in ready}
    return ordered
