"""What analyses over a space share: which runs count, outcomes read a block at a time, and the labels of what is found.

Failed runs. An analysis needs whole groups of runs: for Sobol indices all rows of a base point, for Morris a whole
trajectory, for derivatives one row. A group with a run that did not finish (failed, or excluded by [require]) is
dropped whole; how many, and why, is part of the result. A group in which an outcome, or a point of a curve, is not a
number although all runs finished is dropped for that alone; variable `used` says how many groups each one rests on.
What is left is then no longer a box, so that inputs are not quite independent: with many dropped, indices are those of
the part of the space that runs.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from jaxcontact.errors import InputError
from jaxcontact.integrate.machine import FINISHED, STATUS_NAMES
from jaxcontact.study.definition import Study
from jaxcontact.study.labelled import layout
from jaxcontact.study.sensitivity.chosen import Chosen
from jaxcontact.study.space import Sample
from jaxcontact.study.units import unit_label

BLOCK_BYTES = 2**26  # of a variable, or of the weights of its bootstrap, that are in memory at a time


@dataclass(frozen=True)
class Kept:
    """Which groups count: a mask over all of them, and in words how many do not, and why."""

    mask: np.ndarray
    words: str

    @classmethod
    def of(cls, bad: np.ndarray, what: str, least: int) -> "Kept":
        """Judge groups by `bad`: -1, or the status of the first run that did not finish."""
        codes, counts = np.unique(bad[bad >= 0], return_counts=True)
        reasons = [f"{count:,} {STATUS_NAMES[code]}" for code, count in zip(codes, counts, strict=True)]
        words = f"{int(counts.sum()):,} of {len(bad):,} {what} dropped" + (f": {', '.join(reasons)}" if reasons else "")
        left = int(np.sum(bad < 0))
        if left < least:
            raise InputError(
                f"{words}; {left} are left, which is too few\nneeded: {least} or more that run to their end"
            )
        return cls(bad < 0, words)


def bad_groups(status: np.ndarray, group: int) -> np.ndarray:
    """For each group of rows -1 if all finished, otherwise the status of the first that did not."""
    rows = status.reshape(-1, group)
    wrong = rows != FINISHED
    first = rows[np.arange(len(rows)), np.argmax(wrong, axis=1)].astype(np.int8)
    return np.where(wrong.any(axis=1), first, np.int8(-1))


def blocks_of_groups(groups: int, numbers: int) -> list[slice]:
    """Cut groups into blocks that fit in memory, where so many numbers belong to each."""
    size = max(1, BLOCK_BYTES // (8 * numbers))
    return [slice(start, min(start + size, groups)) for start in range(0, groups, size)]


def read_groups(results: xr.Dataset, name: str, groups: slice, group: int) -> np.ndarray:
    """Read some groups of an outcome or a curve: (groups, rows of each, outputs). Nothing else is read."""
    rows = results.variables[name][groups.start * group : groups.stop * group].values
    return np.asarray(rows, np.float64).reshape(groups.stop - groups.start, group, -1)


def read_status(results: xr.Dataset) -> np.ndarray:
    """Read how every run ended: a byte each."""
    return results.variables["status"].values.astype(np.int8)


def label_of(space: Sample, factor: str) -> str:
    """A factor's name, with what moves with it."""
    linked = [name for name, other in space.links.items() if other == factor]
    return f"{factor} (with {', '.join(linked)})" if linked else factor


def labelled(
    study: Study,
    chosen: Chosen,
    factors: Sequence[str],
    found: Mapping[str, tuple[tuple[str, ...], np.ndarray, dict[str, Any]]],
    attrs: Mapping[str, Any],
    constant: Sequence[str] = (),
) -> xr.Dataset:
    """Put an analysis together: every array lies along outcomes or curves, parameters, and fractions of the run."""
    space = study.space
    assert isinstance(space, Sample)

    def quantities(dim: str, named: Mapping[str, Any]) -> dict[str, Any]:
        units = [unit_label(quantity.unit) for quantity in named.values()]
        meanings = [quantity.meaning for quantity in named.values()]
        return {dim: (dim, list(named)), f"{dim}_unit": (dim, units), f"{dim}_meaning": (dim, meanings)}

    ranges = [space.intervals[name] for name in factors]
    coordinates: dict[str, Any] = {
        "parameter": ("parameter", list(factors), {"long_name": "what varies"}),
        "parameter_label": ("parameter", [label_of(space, name) for name in factors]),
        "parameter_unit": ("parameter", [study.units_of(name) for name in factors]),
        "low": ("parameter", [interval.low for interval in ranges], {"long_name": "lower end of the range"}),
        "high": ("parameter", [interval.high for interval in ranges], {"long_name": "upper end of the range"}),
        "scale": ("parameter", [interval.scale for interval in ranges], {"long_name": "in what the range is uniform"}),
    }
    if any("parameter_2" in dims for dims, _, _ in found.values()):
        coordinates["parameter_2"] = ("parameter_2", list(factors), {"long_name": "the other parameter of a pair"})
    coordinates |= quantities("outcome", chosen.outcomes) if chosen.outcomes else {}
    if chosen.curves:
        fractions = np.linspace(0.0, 1.0, study.output.points)
        coordinates |= quantities("curve", chosen.curves)
        coordinates["fraction"] = ("fraction", fractions, {"units": "1", "long_name": "fraction of the run"})
    noted = {"constant": json.dumps(list(constant))}
    return xr.Dataset(dict(found), coordinates, attrs={**layout(study).attrs, **attrs, **noted})


def used_variables(what: str, scalars: Sequence[Any], curves: Sequence[Any]) -> dict[str, Any]:
    """How many groups each outcome, and each point of a curve, rests on: arrays () and (points,) -> variables."""
    attrs = {"units": "1", "long_name": f"{what} that the result rests on"}
    found: dict[str, Any] = {}
    if len(scalars):
        found["used"] = (("outcome",), np.array(scalars, np.int64).reshape(-1), attrs)
    if len(curves):
        found["used_curve"] = (("curve", "fraction"), np.array(curves, np.int64), attrs)
    return found


def check_count(space: Sample, least: int, what: str) -> None:
    """Refuse, before anything is run, a design from which nothing could be told."""
    if space.count < least:
        raise InputError(f"[sample] count = {space.count}: at least {least} {what} are needed to tell anything")


def need_sample(study: Study, kind: type[Sample], analysis: str, written: str) -> Sample:
    """Return the study's space if it is the design that an analysis needs."""
    if isinstance(study.space, Sample) and type(study.space) is kind:
        return study.space
    has = {"case": "[cases] lists configurations by hand", "sample": "[sample] has another method"}
    here = has.get("".join(study.space.dims), "[vary] alone is a grid")
    raise InputError(f"{analysis} needs a design of its own, but {here}\nallowed: ranges in [vary], and {written}")
