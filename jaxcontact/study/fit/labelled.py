"""A fit as a labelled dataset: unknowns with intervals and correlations, all starts, measured and computed samples."""

import json

import numpy as np
import xarray as xr

from jaxcontact.study.fit.fitting import Fit
from jaxcontact.study.fit.solvers import REASON_NAMES
from jaxcontact.study.units import unit_label
from jaxcontact.study.version import package_version


def fit_dataset(fit: Fit) -> xr.Dataset:
    """Return everything that was found. Values of unknowns are in stated units, samples in the channels' (SI)."""
    problem, told = fit.problem, fit.diagnosis
    names, units = list(problem.names), {p.name: unit_label(p.unit) for p in problem.model.parameters}
    values = np.array([fit.values[name] for name in names])
    intervals = np.array([told.intervals[name] for name in names])
    places = np.asarray(
        [[float(each.value_at(u)) for each, u in zip(problem.unknowns, row, strict=True)] for row in fit.starts.last]
    )
    data: dict[str, tuple] = {
        "value": ("unknown", values, {"long_name": "answer, in the unit of each unknown"}),
        "low": ("unknown", intervals[:, 0], {"long_name": "95 % interval, from"}),
        "high": ("unknown", intervals[:, 1], {"long_name": "95 % interval, to"}),
        "sd": (
            "unknown",
            told.sd,
            {"long_name": "standard deviation of the value, or of its logarithm on a log scale"},
        ),
        "correlation": (("unknown", "other"), told.correlation),
        "start_value": (("start", "unknown"), places, {"long_name": "where each start ended"}),
        "cost": ("start", fit.starts.cost, {"units": "1", "long_name": "cost at the end (Lopes eq. 3)"}),
        "first_cost": ("start", fit.starts.first_cost, {"units": "1", "long_name": "cost at the beginning"}),
        "steps": ("start", fit.starts.steps, {"units": "1", "long_name": "steps of the last stage"}),
        "reason": (
            "start",
            fit.starts.reason,
            {"flag_values": np.arange(len(REASON_NAMES)), "flag_meanings": " ".join(REASON_NAMES)},
        ),
    }
    for channel in problem.channels:
        along, about = f"sample_{channel.name}", {"units": unit_label(channel.unit)}
        measured = np.where(channel.valid, channel.values, np.nan)
        data[f"{channel.name}_measured"] = (along, measured, about)
        data[f"{channel.name}_computed"] = (along, fit.predictions[channel.name], about)
    return xr.Dataset(
        data,
        coords={
            "unknown": names,
            "other": names,
            "unit": ("unknown", [units[name] for name in names]),
            "scale": ("unknown", [each.scale for each in problem.unknowns]),
        },
        attrs={
            "title": problem.title or f"fit of {problem.model.name}",
            "model": problem.model.name,
            "method": problem.method,
            "laws": json.dumps(dict(problem.choices)),
            "set": json.dumps(dict(problem.fixed)),
            "findings": "\n".join(told.findings),
            "data": json.dumps(dict(problem.source), default=str),
            "source": f"jaxcontact {package_version()}",
        },
    )
