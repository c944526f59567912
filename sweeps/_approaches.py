"""One impact solved in several ways: the results side by side, and how far apart they lie."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from jaxcontact.contact.impulse import REGIMES
from jaxcontact.study import run, study
from jaxcontact.study.failures import describe_failures
from jaxcontact.study.sweep import Progress

BOTH: Mapping[str, Mapping[str, Any]] = {"compliant": {"method": "compliant"}, "impulsive": {"method": "impulsive"}}


def run_approaches(
    model: str, *, progress: Progress, approaches: Mapping[str, Mapping[str, Any]] = BOTH, **tables: Any
) -> xr.Dataset:
    """Run the same study once per approach; the results share a first dimension `approach`."""
    return side_by_side(
        {name: run(study(model, **tables, **choice), progress=progress) for name, choice in approaches.items()}
    )


def side_by_side(found: Mapping[Any, xr.Dataset], dim: str = "approach") -> xr.Dataset:
    """Join datasets of the same shape along a new dimension; what their records do not share is kept by name."""
    joined = xr.concat(
        list(found.values()),
        xr.Variable(dim, list(found)),
        data_vars="all",
        coords="minimal",
        compat="override",
        join="exact",
        combine_attrs="drop_conflicts",
    )
    for key in next(iter(found.values())).attrs:
        if key not in joined.attrs:
            joined.attrs[key] = " | ".join(f"{name}: {dataset.attrs[key]}" for name, dataset in found.items())
    return joined


def gap(results: xr.Dataset, name: str) -> xr.DataArray:
    """Return the distance between the two approaches."""
    return abs(results[name].sel(approach="compliant") - results[name].sel(approach="impulsive"))


def gap_table(results: xr.Dataset, names: tuple[str, ...]) -> str:
    """Return an aligned table: the largest distance between the approaches, also in % of the largest value."""
    lines = ["           largest gap between the approaches    of the largest value"]
    for name in names:
        apart = float(gap(results, name).max())
        largest = float(np.abs(results[name].sel(approach="impulsive")).max())
        lines.append(f"{name:9}  {apart:22.4f} {results[name].attrs['units']:13}  {100 * apart / largest:18.1f} %")
    return "\n".join(lines)


def regime_names(results: xr.Dataset) -> np.ndarray:
    """Return the regimes by name, as in Crutch Table 2."""
    return np.array(REGIMES)[results["regime"].values]


def share(claim: xr.DataArray, among: xr.DataArray | None = None) -> str:
    """Return in how many cases a claim holds, in words."""
    counted = xr.ones_like(claim, bool) if among is None else among
    true, total = int((claim & counted).sum()), int(counted.sum())
    return f"in all {total} cases" if true == total else f"in {true} of {total} cases"


def failures(results: xr.Dataset) -> list[str]:
    """Return what did not finish, in words; nothing if all did."""
    return [words] if (words := describe_failures(results)) else []
