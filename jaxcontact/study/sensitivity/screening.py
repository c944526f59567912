"""Which parameters matter at all: Morris's elementary effects, by SALib.

An effect is measured over the whole range of a parameter, uniform in its value or, with scale = "log", in its
logarithm. Curves are taken point by point, at fixed fractions of each run.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from jaxcontact.study.definition import Study
from jaxcontact.study.execute import Executor
from jaxcontact.study.sensitivity.chosen import Chosen, choose
from jaxcontact.study.sensitivity.common import (
    Kept,
    bad_groups,
    check_count,
    labelled,
    need_sample,
    read_groups,
    read_status,
    used_variables,
)
from jaxcontact.study.sensitivity.estimators import Spread, is_defined
from jaxcontact.study.sensitivity.resampling import check_bootstrap
from jaxcontact.study.sensitivity.slopes import Progress
from jaxcontact.study.space import Morris
from jaxcontact.study.sweep import run

LEAST = 4  # trajectories below which a mean is a guess

_EFFECTS = {
    "mu": "mean elementary effect over the whole range",
    "mu_star": "mean absolute elementary effect over the whole range",
    "sigma": "standard deviation of the elementary effects",
    "mu_star_conf": "half-width of the confidence interval of mu_star",
}


def morris(
    study: Study,
    *,
    outcomes: Sequence[str] | None = None,
    curves: bool | None = None,
    resamples: int = 100,
    confidence: float = 0.95,
    out: str | Path | None = None,
    fresh: bool = False,
    chunk: int | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
    notice: Callable[[str], None] = lambda text: None,
) -> xr.Dataset:
    """Run a study over [sample] method = "morris" and return `mu`, `mu_star`, `sigma`, `mu_star_conf` (SALib's).

    An elementary effect is the change of an outcome per step of a parameter, scaled to the whole range: its unit is the
    outcome's. A trajectory with a run that did not finish is dropped whole; attribute `dropped` says how many and why,
    and `used` how many trajectories an outcome rests on.
    """
    study, chosen = prepare(study, outcomes=outcomes, curves=curves, resamples=resamples, confidence=confidence)
    space = study.space
    assert isinstance(space, Morris)
    where = {"out": out, "fresh": fresh, "chunk": chunk, "executor": executor, "progress": progress, "notice": notice}
    results = run(study, **where)
    kept = Kept.of(bad_groups(read_status(results), space.group), "trajectories", LEAST)
    effects = _Effects(space, kept.mask, resamples, confidence)
    scalars = [effects.of(results, name) for name in chosen.outcomes]
    curves_found = [effects.of(results, name) for name in chosen.curves]
    names = (*chosen.outcomes, *chosen.curves)
    constant = [name for name, one in zip(names, (*scalars, *curves_found), strict=True) if np.all(one["constant"])]
    variables: dict[str, Any] = {}
    for key, words in _EFFECTS.items():
        if scalars:
            attrs = {"units": "see outcome_unit", "long_name": words}
            variables[key] = (("outcome", "parameter"), np.stack([each[key][:, 0] for each in scalars]), attrs)
        if curves_found:
            attrs = {"units": "see curve_unit", "long_name": words}
            values = np.stack([each[key] for each in curves_found])
            variables[f"{key}_curve"] = (("curve", "parameter", "fraction"), values, attrs)
    used = [one["used"] for one in scalars], [one["used"] for one in curves_found]
    attrs = {
        "sensitivity": "morris",
        "dropped": kept.words,
        "trajectories": int(kept.mask.sum()),
        "bootstrap": json.dumps({"resamples": resamples, "confidence": confidence}),
    }
    return labelled(study, chosen, space.factors, variables | used_variables("trajectories", *used), attrs, constant)


def prepare(
    study: Study,
    *,
    outcomes: Sequence[str] | None = None,
    curves: bool | None = None,
    resamples: int = 100,
    confidence: float = 0.95,
) -> tuple[Study, Chosen]:
    """Check what is asked, and return the study to run and what of it is analysed; nothing is run."""
    check_bootstrap(resamples, confidence)
    space = need_sample(study, Morris, "Morris screening", '[sample] method = "morris", count = trajectories')
    check_count(space, LEAST, "trajectories")
    return choose(study, outcomes, curves)


class _Effects:
    """SALib's analysis of one output after the other, each by the trajectories in which it is a number throughout."""

    def __init__(self, space: Morris, mask: np.ndarray, resamples: int, confidence: float) -> None:
        names = list(space.factors)
        self._space, self._mask = space, mask
        self._inputs = space.unit(0, space.total).reshape(space.count, space.group, -1)[mask]
        self._problem = {"num_vars": len(names), "names": names, "bounds": [[0.0, 1.0]] * len(names)}
        self._options = {"num_resamples": resamples, "conf_level": confidence, "num_levels": space.levels}

    def of(self, results: xr.Dataset, name: str) -> dict[str, np.ndarray]:
        """Effects (factors, outputs), which outputs are constant, and how many trajectories each rests on."""
        values = read_groups(results, name, slice(0, self._space.count), self._space.group)[self._mask]
        spread, defined = Spread(values.shape[-1]), is_defined(values)
        spread.add(values)
        each = [self._one(values[defined[:, i], :, i], self._inputs[defined[:, i]]) for i in range(values.shape[-1])]
        found = {key: np.stack([one[key] for one in each], axis=-1) for key in _EFFECTS}
        return found | {"constant": spread.constant & (spread.groups >= LEAST), "used": spread.groups}

    def _one(self, values: np.ndarray, inputs: np.ndarray) -> dict[str, np.ndarray]:
        from SALib.analyze.morris import analyze  # slow to import

        if len(values) < LEAST:
            return {key: np.full(inputs.shape[-1], np.nan) for key in _EFFECTS}
        rows = np.ascontiguousarray(values.reshape(-1), float), inputs.reshape(-1, inputs.shape[-1])
        found = analyze(self._problem, rows[1], rows[0], **self._options, seed=self._space.seed)
        return {key: np.asarray(found[key], float) for key in _EFFECTS}
