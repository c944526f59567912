"""Shares of variance over a space of configurations: Sobol indices of outcomes and of curves, through the sweep store.

S1 is the share of an outcome's variance that goes when a parameter is known, ST the share that stays while it alone is
unknown, S2 what a pair has together beyond its members. Curves are analysed point by point, at fixed fractions of each
run. With `out`, all runs stream to a store that can be gone on with, and only what is analysed is read from it, a block
at a time: memory does not grow with the number of runs, but for a few bytes each.
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
    blocks_of_groups,
    check_count,
    labelled,
    need_sample,
    read_groups,
    read_status,
    used_variables,
)
from jaxcontact.study.sensitivity.estimators import SobolSums, Spread
from jaxcontact.study.sensitivity.resampling import Resampling, check_bootstrap
from jaxcontact.study.sensitivity.slopes import Progress
from jaxcontact.study.space import Saltelli
from jaxcontact.study.sweep import run

LEAST = 16  # base points below which an index is a guess

MEANINGS = {
    "S1": "first-order index: share of the variance that goes when the parameter is known",
    "ST": "total index: share of the variance that stays while the parameter alone is unknown",
    "S2": "second-order index: share of the variance that a pair has beyond its members",
}


def sobol(
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
    """Run a study over [sample] method = "saltelli" and return Sobol indices with bootstrap confidence intervals.

    `S1`, `ST` (outcome, parameter) and `S2` (outcome, parameter, parameter_2), each with the half-width of its interval
    in `*_conf`; for curves the same with `_curve` and a dimension `fraction`. A base point with a run that did not
    finish is dropped with all its rows; attribute `dropped` says how many and why, and `used` how many base points an
    outcome rests on. Attribute `constant` names outcomes that do not vary: their indices are 0.
    """
    study, chosen = prepare(study, outcomes=outcomes, curves=curves, resamples=resamples, confidence=confidence)
    where = {"out": out, "fresh": fresh, "chunk": chunk, "executor": executor, "progress": progress, "notice": notice}
    return analyse_rows(run(study, **where), study, chosen, resamples=resamples, confidence=confidence)


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
    space = need_sample(study, Saltelli, "a Sobol analysis", '[sample] method = "saltelli", count = base points')
    check_count(space, LEAST, "base points")
    return choose(study, outcomes, curves)


def analyse_rows(results: xr.Dataset, study: Study, chosen: Chosen, *, resamples: int, confidence: float) -> xr.Dataset:
    """Sobol indices from the results of a Saltelli design, one outcome or curve after the other."""
    space = study.space
    assert isinstance(space, Saltelli)
    kept = Kept.of(bad_groups(read_status(results), space.group), "base points", LEAST)
    scalars = [_one(results, name, space, kept.mask, 1, resamples, confidence) for name in chosen.outcomes]
    points = study.output.points
    curves = [_one(results, name, space, kept.mask, points, resamples, confidence) for name in chosen.curves]
    names = (*chosen.outcomes, *chosen.curves)
    constant = [name for name, one in zip(names, (*scalars, *curves), strict=True) if np.all(one["constant"])]
    variables: dict[str, Any] = {}
    for kind, found in (("outcome", scalars), ("curve", curves)):
        for key in found[0] if found else ():
            if key not in ("constant", "used"):
                variables[f"{key}{'' if kind == 'outcome' else '_curve'}"] = _variable(
                    key, [one[key] for one in found], kind
                )
    variables |= used_variables("base points", [one["used"] for one in scalars], [one["used"] for one in curves])
    attrs = {
        "sensitivity": "sobol",
        "dropped": kept.words,
        "base_points": int(kept.mask.sum()),
        "bootstrap": json.dumps({"resamples": resamples, "confidence": confidence}),
    }
    return labelled(study, chosen, space.factors, variables, attrs, constant)


def _one(
    results: xr.Dataset, name: str, space: Saltelli, mask: np.ndarray, points: int, resamples: int, confidence: float
) -> dict[str, np.ndarray]:
    """Read a variable twice, block by block: for its spread, then for sums of products; arrays end with its points."""
    blocks = blocks_of_groups(space.count, max(space.group * points, 1 + resamples))

    def read(block: slice) -> np.ndarray:
        return read_groups(results, name, block, space.group)[mask[block]]

    spread = Spread(points)
    for block in blocks:
        spread.add(read(block))
    resampling = Resampling([int(mask[block].sum()) for block in blocks], resamples, space.seed)
    sums = SobolSums(spread, len(space.factors), resampling.samples, second_order=space.second_order)
    for number, block in enumerate(blocks):
        sums.add(read(block), resampling.weights(number))
    defined = spread.groups >= LEAST
    found = sums.indices(confidence, LEAST)
    found |= {"mean": np.where(defined, spread.mean, np.nan), "std": np.where(defined, spread.std, np.nan)}
    return found | {"constant": spread.constant & defined, "used": spread.groups}


def _variable(key: str, each: list[np.ndarray], first: str) -> tuple[tuple[str, ...], np.ndarray, dict[str, str]]:
    base = key.removesuffix("_conf")
    along = () if base in ("mean", "std") else ("parameter", "parameter_2") if base == "S2" else ("parameter",)
    dims = (first, *along, *(("fraction",) if first == "curve" else ()))
    values = np.stack([values if first == "curve" else values[..., 0] for values in each])
    if base in ("mean", "std"):
        words = {"mean": "mean over the space", "std": "standard deviation over the space"}[base]
        return dims, values, {"units": f"see {first}_unit", "long_name": words}
    words = MEANINGS[base] if key == base else f"half-width of the confidence interval of {base}"
    return dims, values, {"units": "1", "long_name": words}
