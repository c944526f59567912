"""Derivative-based global sensitivity measures (DGSM): mean squares of exact derivatives over a space.

They measure over the whole range of a parameter, uniform in its value or, with scale = "log", in its logarithm. Curves
are taken point by point, at fixed fractions of each run.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from jaxcontact.errors import InputError, unknown
from jaxcontact.integrate.machine import FINISHED
from jaxcontact.study.definition import Study
from jaxcontact.study.execute import LocalExecutor
from jaxcontact.study.sensitivity.chosen import choose, names_listed
from jaxcontact.study.sensitivity.common import Kept, check_count, labelled, need_sample, used_variables
from jaxcontact.study.sensitivity.estimators import Spread
from jaxcontact.study.sensitivity.resampling import Resampling, check_bootstrap, half_width
from jaxcontact.study.sensitivity.slopes import Progress, chunks_of_slopes, names_to_derive_by, stream_slopes
from jaxcontact.study.space import Sample

LEAST = 16  # rows below which a mean is a guess

_WORDS = {
    "nu": "mean square of the derivative by the parameter, or by its logarithm where the scale is log",
    "nu_range": "mean square of the derivative by the fraction of the range",
    "bound": "upper bound of the total Sobol index, nu_range / (pi^2 variance)",
}


def dgsm(
    study: Study,
    by: Sequence[str] | None = None,
    *,
    outcomes: Sequence[str] | None = None,
    curves: bool | None = None,
    resamples: int = 100,
    confidence: float = 0.95,
    executor: LocalExecutor | None = None,
    progress: Progress | None = None,
) -> xr.Dataset:
    """Return nu = E[(df/dx)^2] from exact derivatives over a [sample], and the bound on total Sobol indices.

    x is the parameter in its stated unit or, for scale = "log", its natural logarithm; it is uniform from a to b.
    `nu_range` = (b - a)^2 nu has the outcome's unit squared and compares parameters. `bound` = nu_range / (pi^2 V),
    V the outcome's variance, is never less than the total index ST (Sobol and Kucherenko 2009), if the outcome is
    continuous in x: a jump has no derivative that could show it. Half-widths of bootstrap intervals are in `*_conf`.

    A run that did not finish is dropped; attribute `dropped` says how many and why, and `used` how many runs an outcome
    rests on. Nothing is kept of single runs: memory does not grow with their number, but for a few bytes each.
    """
    resamples, confidence = check_bootstrap(resamples, confidence)
    space = need_sample(study, Sample, "a derivative-based measure", '[sample] count = points (method "sobol")')
    check_count(space, LEAST, "rows")
    factors = _factors(space, by)
    study, chosen = choose(study, outcomes, curves)
    names = names_to_derive_by(study, [n for n in space.names if space.links.get(n, n) in factors])
    sizes = [chunk.size for chunk in chunks_of_slopes(study, chosen)]
    resampling = Resampling(sizes, resamples, space.seed)
    sums = {("outcome", name): _Sums(1, len(factors), resampling.samples) for name in chosen.outcomes}
    points = study.output.points
    sums |= {("curve", name): _Sums(points, len(factors), resampling.samples) for name in chosen.curves}
    bad = np.full(space.total, -1, np.int8)
    for part in stream_slopes(study, names, chosen, executor=executor, progress=progress):
        good = part.status == FINISHED
        bad[part.chunk.start : part.chunk.stop] = np.where(good, -1, part.status)
        weights = resampling.weights(part.chunk.number)[:, good]
        members = _members(space, factors, names, part.numbers[:, good])
        found = {("outcome", n): (part.outcomes[n][None], part.outcome_slopes[n][:, None]) for n in chosen.outcomes}
        found |= {("curve", n): (part.curves[n], part.curve_slopes[n]) for n in chosen.curves}
        for key, (values, slopes) in found.items():
            per_range = np.einsum("f b n, b p n -> f p n", members, slopes[..., good])
            sums[key].add(values[:, good], per_range, weights)
    kept = Kept.of(bad, "rows", LEAST)
    spans = np.array([_span(space, name) for name in factors])
    measures = {key: one.measures(spans, confidence) for key, one in sums.items()}
    attrs = {
        "sensitivity": "dgsm",
        "dropped": kept.words,
        "rows": int(kept.mask.sum()),
        "bootstrap": json.dumps({"resamples": resamples, "confidence": confidence}),
    }
    constant = [name for (_, name), one in measures.items() if np.all(one["constant"])]
    return labelled(study, chosen, factors, _variables(measures), attrs, constant)


class _Sums:
    """Weighted sums over runs as they come, for each output; in the first row of the weights every run counts once."""

    def __init__(self, outputs: int, factors: int, samples: int) -> None:
        self._spread = Spread(outputs)
        self._shift = np.zeros(outputs)  # squares of what lies far from zero would lose digits
        self._weight = np.zeros((samples, outputs))
        self._first, self._squares = np.zeros((samples, outputs)), np.zeros((samples, outputs))
        self._nu = np.zeros((samples, factors, outputs))

    def add(self, values: np.ndarray, slopes: np.ndarray, weights: np.ndarray) -> None:
        """Add runs: values (outputs, n), slopes per whole range (factors, outputs, n), weights (samples, n)."""
        if not values.shape[-1]:
            return
        counts = np.isfinite(values) & np.isfinite(slopes).all(axis=0)
        values = np.where(counts, values, np.nan)
        if not self._spread.groups.any():
            self._spread.add(values.T[:, None])
            self._shift = self._spread.mean.copy()
        else:
            self._spread.add(values.T[:, None])
        off = np.where(counts, values - self._shift[:, None], 0.0)
        self._weight += weights @ counts.T
        self._first += weights @ off.T
        self._squares += weights @ (off**2).T
        self._nu += np.einsum("s n, f p n -> s f p", weights, np.where(counts, slopes, 0.0) ** 2, optimize=True)

    def measures(self, spans: np.ndarray, confidence: float) -> dict[str, np.ndarray]:
        """Means over the runs, and from the other rows of weights how far they may be off."""
        weight = np.maximum(self._weight, 1.0)
        variance = self._squares / weight - (self._first / weight) ** 2
        varies = ~self._spread.constant & (variance > 0)
        nu_range = self._nu / weight[:, None]
        nu_range[..., self._spread.groups < LEAST] = np.nan
        of_all = {
            "nu": nu_range / spans[:, None] ** 2,
            "nu_range": nu_range,
            "bound": nu_range / (np.pi**2 * np.where(varies, variance, np.inf))[:, None],
        }
        defined = self._spread.groups >= LEAST
        found = {key: values[0] for key, values in of_all.items()}
        found |= {f"{key}_conf": half_width(values[1:], confidence) for key, values in of_all.items()}
        found["std"] = np.where(defined, self._spread.std, np.nan)
        return found | {"constant": self._spread.constant & defined, "used": self._spread.groups}


def _factors(space: Sample, by: Sequence[str] | None) -> list[str]:
    factors = list(space.factors) if by is None else names_listed(by, "by")
    for name in factors:
        if name in space.links:
            raise InputError(
                f"[sensitivity] by: {name} moves with {space.links[name]}: name {space.links[name]} instead"
            )
        if name not in space.factors:
            raise unknown("parameter", name, space.factors, "[sensitivity] by")
    return factors


def _members(space: Sample, factors: list[str], names: list[str], numbers: np.ndarray) -> np.ndarray:
    """By how much each name changes per whole range of a factor, in stated units: (factor, name, n)."""
    members = np.zeros((len(factors), *numbers.shape))
    for i, name in enumerate(names):
        factor = factors.index(space.links.get(name, name))
        members[factor, i] = _span(space, name) * (numbers[i] if space.intervals[name].scale == "log" else 1.0)
    return members


def _span(space: Sample, name: str) -> float:
    """Length of the range, in the stated unit or in natural logarithms."""
    interval = space.intervals[name]
    return float(np.log(interval.high / interval.low)) if interval.scale == "log" else interval.high - interval.low


def _variables(measures: dict[tuple[str, str], dict[str, np.ndarray]]) -> dict[str, Any]:
    variables: dict[str, Any] = {}
    used: dict[str, list] = {"outcome": [], "curve": []}
    for kind, ending, last in (("outcome", "", ()), ("curve", "_curve", ("fraction",))):
        each = [one for (of, _), one in measures.items() if of == kind]
        used[kind] = [one["used"] for one in each]
        for key in each[0] if each else ():
            if key in ("constant", "used"):
                continue
            dims = (kind, *(() if key == "std" else ("parameter",)), *last)
            values = np.stack([one[key] if last else one[key][..., 0] for one in each])
            variables[f"{key}{ending}"] = (dims, values, _attrs(key, kind))
    return variables | used_variables("runs", used["outcome"], used["curve"])


def _attrs(key: str, kind: str) -> dict[str, str]:
    if key == "std":
        return {"units": f"see {kind}_unit", "long_name": "standard deviation over the space"}
    base = key.removesuffix("_conf")
    unit = {
        "nu": f"({kind}_unit / parameter_unit)^2; scale log: ({kind}_unit)^2",
        "nu_range": f"({kind}_unit)^2",
        "bound": "1",
    }[base]
    words = _WORDS[base] if key == base else f"half-width of the confidence interval of {base}"
    return {"units": unit, "long_name": words}
