"""Exact derivatives and elasticities of outcomes and of whole curves, at a point or over a sweep, labelled.

For a scalar outcome f and a parameter p, in its stated unit: `d_f` = df/dp and `elasticity_f` = d log|f| / d log p, the
change of f in percent for one percent of p. It is NaN where p is 0, or f is 0 to the solver's absolute tolerance: there
is no percentage of nothing, such as the slip of a tip that sticks. For a curve c: `d_c` = dc/dp and `dlog_c` =
dc / d log p = p dc/dp, which unlike an elasticity exists where a curve is zero.

Curves are recorded at fractions of each run, and a run's length depends on the parameters as well. So `d_c` is either

    at = "fraction"   the change at a fixed fraction of the run, exact
    at = "time"       the change at a fixed time: dc/dp - (dc/dt) (dt/dp), where dt/dp at that fraction is exact, and
                      dc/dt is a difference of fourth order along the curve. Within two points of a jump (F_t where
                      sliding turns into sticking) it has no meaning; next to the ends differences are one-sided.
"""

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from jaxcontact.errors import InputError, unknown
from jaxcontact.integrate.machine import CANNOT_TOUCH, EXCLUDED, FINISHED, MOVING_UP, STATUS, STATUS_NAMES
from jaxcontact.models.model import Quantity
from jaxcontact.study.definition import Study
from jaxcontact.study.execute import LocalExecutor
from jaxcontact.study.labelled import layout
from jaxcontact.study.sensitivity.chosen import TIME, Chosen, choose
from jaxcontact.study.sensitivity.slopes import Part, Progress, names_to_derive_by, stream_slopes
from jaxcontact.study.units import unit_label

AT = ("fraction", "time")
MOST_BYTES = 4 * 2**30


def local(
    study: Study,
    by: Sequence[str] | None = None,
    *,
    outcomes: Sequence[str] | None = None,
    curves: bool | None = None,
    at: str = "fraction",
    executor: LocalExecutor | None = None,
    progress: Progress | None = None,
) -> xr.Dataset:
    """Differentiate outcomes (and curves) by the named parameters, in every configuration of the study.

    `by` may name parameters of the model and free names that [derive] uses; its default is what varies, or every
    parameter where nothing does. Dimensions are the study's, `parameter` and, for curves, `fraction`. A configuration
    that failed is NaN and keeps its `status`. A parameter that the chosen laws do not use has derivatives that are 0
    everywhere: attribute `unused` names it.
    """
    if at not in AT:
        raise unknown("choice", at, AT, "[sensitivity] at")
    names = names_to_derive_by(study, by)
    study, chosen = choose(study, outcomes, curves)
    if at == "time" and chosen.curves and TIME not in {q.name for q in study.model.curve_outcomes}:
        raise InputError(f'[sensitivity] at = "time": {study.model.name} records no time\nallowed: at = "fraction"')
    kept = _Kept(study, names, chosen, at)
    for part in stream_slopes(study, names, chosen, executor=executor, progress=progress):
        if study.space.dims == ():
            _raise_if_impossible(study, int(part.status[0]))
        kept.write(part)
    return kept.dataset()


class _Kept:
    """Results in memory, filled chunk by chunk."""

    def __init__(self, study: Study, names: list[str], chosen: Chosen, at: str) -> None:
        self._study, self._names, self._chosen, self._at = study, names, chosen, at
        sizes, points = study.space.sizes, study.output.points
        scalars, curves = len(chosen.outcomes), len(chosen.curves)
        numbers = (1 + 2 * len(names)) * (scalars + curves * points) * math.prod(sizes)
        if 8 * numbers > MOST_BYTES:
            raise InputError(
                f"derivatives of {study.space.total:,} configurations would take {8e-9 * numbers:.1f} GB of memory\n"
                f"allowed: {MOST_BYTES / 1e9:.1f} GB; name fewer outcomes or parameters, or take fewer configurations"
            )
        self._status = np.zeros(sizes, np.int8)
        self._given = np.full((*sizes, len(names)), np.nan)
        self._values = {n: np.full(sizes, np.nan) for n in chosen.outcomes}
        self._slopes = {n: np.full((*sizes, len(names)), np.nan) for n in chosen.outcomes}
        self._values |= {n: np.full((*sizes, points), np.nan) for n in chosen.curves}
        self._slopes |= {n: np.full((*sizes, len(names), points), np.nan) for n in chosen.curves}

    def write(self, part: Part) -> None:
        """Put a chunk in its place: configurations come first here, and last in what the lanes bring."""
        where, shape = part.chunk.where, part.chunk.shape

        def put(target: np.ndarray, values: np.ndarray) -> None:
            target[where] = np.moveaxis(values, -1, 0).reshape((*shape, *values.shape[:-1]))

        put(self._status, part.status)
        put(self._given, part.numbers)
        for name in self._chosen.outcomes:
            put(self._values[name], part.outcomes[name])
            put(self._slopes[name], part.outcome_slopes[name])
        for name in self._chosen.curves:
            slopes = part.curve_slopes[name]
            if self._at == "time":
                slopes = at_fixed_time(slopes, part.curves[name], part.curves[TIME], part.curve_slopes[TIME])
            put(self._values[name], part.curves[name])
            put(self._slopes[name], slopes)

    def dataset(self) -> xr.Dataset:
        """Label everything."""
        study, chosen = self._study, self._chosen
        dims, found = study.space.dims, {}
        for name, quantity in chosen.outcomes.items():
            found |= self._outcome(name, quantity, dims)
        for name, quantity in chosen.curves.items():
            found |= self._curve(name, quantity, dims)
        flags = {"flag_values": np.arange(len(STATUS), dtype=np.int8), "flag_meanings": " ".join(STATUS_NAMES)}
        found["status"] = (dims, self._status, {"units": "1", "long_name": "how the run ended", **flags})
        given = {"units": "see parameter_unit", "long_name": "value of the parameter"}
        found["parameter_value"] = ((*dims, "parameter"), self._given, given)
        return xr.Dataset(found, self._coordinates(), attrs=self._attrs())

    def _outcome(self, name: str, quantity: Quantity, dims: tuple[str, ...]) -> dict[str, Any]:
        values, slopes = self._values[name], self._slopes[name]
        with np.errstate(all="ignore"):
            relative = slopes * self._given / values[..., None]
        defined = (np.abs(values[..., None]) > self._study.settings.atol) & (self._given != 0)
        elasticity = np.where(defined, relative, np.nan)
        along = (*dims, "parameter")
        percent = {"units": "1", "long_name": f"elasticity of {quantity.meaning}: d log |{name}| / d log parameter"}
        return {
            name: (dims, values, {"units": unit_label(quantity.unit), "long_name": quantity.meaning}),
            f"d_{name}": (along, slopes, self._slope_attrs(name, quantity, "derivative")),
            f"elasticity_{name}": (along, elasticity, percent),
        }

    def _curve(self, name: str, quantity: Quantity, dims: tuple[str, ...]) -> dict[str, Any]:
        values, slopes, fixed = self._values[name], self._slopes[name], f"at a fixed {self._at_words()}"
        along = (*dims, "parameter", "fraction")
        unit = unit_label(quantity.unit)
        per_log = {"units": unit, "long_name": f"d {name} / d log parameter, {fixed}"}
        return {
            name: ((*dims, "fraction"), values, {"units": unit, "long_name": quantity.meaning}),
            f"d_{name}": (along, slopes, self._slope_attrs(name, quantity, f"derivative, {fixed}")),
            f"dlog_{name}": (along, slopes * self._given[..., None], per_log),
        }

    def _at_words(self) -> str:
        return "time" if self._at == "time" else "fraction of the run"

    def _slope_attrs(self, name: str, quantity: Quantity, what: str) -> dict[str, str]:
        units = {n: per(unit_label(quantity.unit), self._study.units_of(n)) for n in self._names}
        return {
            "units": next(iter(units.values())) if len(set(units.values())) == 1 else "see units_by_parameter",
            "units_by_parameter": json.dumps(units),
            "long_name": f"{what} of {quantity.meaning}",
        }

    def _coordinates(self) -> dict[str, Any]:
        study, space = self._study, self._study.space
        length = dict(zip(space.dims, space.sizes, strict=True))
        found: dict[str, Any] = {}
        for name in space.names:
            dim, attrs = space.along(name), {"units": study.units_of(name), "long_name": study.meaning_of(name)}
            found[name] = (dim, space.values(name, 0, length[dim]), attrs)
        found["parameter"] = ("parameter", self._names, {"long_name": "by what the derivative is taken"})
        units = [study.units_of(name) for name in self._names]
        found["parameter_unit"] = ("parameter", units, {"long_name": "stated unit of the parameter"})
        if self._chosen.curves:
            fractions = np.linspace(0.0, 1.0, study.output.points)
            found["fraction"] = ("fraction", fractions, {"units": "1", "long_name": "fraction of the run"})
        return found

    def _attrs(self) -> dict[str, Any]:
        finished = self._status == FINISHED
        unused = [
            name
            for i, name in enumerate(self._names)
            if finished.any() and all(_is_zero(self._slopes[n], i, n in self._chosen.curves) for n in self._slopes)
        ]
        codes, counts = np.unique(self._status[~finished], return_counts=True)
        words = ", ".join(f"{count} {STATUS_NAMES[code]}" for code, count in zip(codes, counts, strict=True))
        return {
            **layout(self._study).attrs,
            "sensitivity": "local",
            "at": self._at,
            "unused": json.dumps(unused),
            "not_finished": f"{int((~finished).sum())} of {self._status.size}" + (f": {words}" if words else ""),
        }


def at_fixed_time(slopes: np.ndarray, curve: np.ndarray, time: np.ndarray, time_slopes: np.ndarray) -> np.ndarray:
    """From dc/dp at a fixed fraction of the run (by, points, n) to that at a fixed time; curve, time: (points, n)."""
    rate, pace = along_the_curve(curve), along_the_curve(time)
    moving = pace > 0
    return slopes - np.where(moving, rate / np.where(moving, pace, 1.0), 0.0) * time_slopes


def along_the_curve(values: np.ndarray) -> np.ndarray:
    """Change per point along the first axis: central differences of fourth order, lower next to the ends."""
    slope = np.gradient(values, axis=0, edge_order=2 if len(values) > 2 else 1)
    if len(values) > 4:
        slope[2:-2] = (8 * (values[3:-1] - values[1:-3]) - (values[4:] - values[:-4])) / 12
    return slope


def per(unit: str, parameter: str) -> str:
    """The unit of a derivative: "N s" by "deg" is "N s/deg", "N" by "N s/m" is "N/(N s/m)"."""
    if parameter == "1":
        return unit
    return f"{unit}/({parameter})" if any(sign in parameter for sign in " /") else f"{unit}/{parameter}"


def _is_zero(slopes: np.ndarray, number: int, curve: bool) -> bool:
    chosen = slopes[..., number, :] if curve else slopes[..., number]
    return not np.any(np.nan_to_num(chosen, nan=0.0))


def _raise_if_impossible(study: Study, status: int) -> None:
    """For one configuration alone, a run that gives nothing is bad input; in a sweep it is one lane's status."""
    if status in (FINISHED, EXCLUDED):
        return
    name, sentence = STATUS[status]
    start = " from the start" if status in (CANNOT_TOUCH, MOVING_UP) else ""
    raise InputError(f"{study.model.name}: no derivative{start}: {sentence} ({name})")
