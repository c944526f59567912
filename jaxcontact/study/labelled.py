"""Plain arrays of a sweep -> an xarray dataset with named dimensions, units, meanings and the record of its making."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from jaxcontact.models.model import Quantity
from jaxcontact.study.definition import Study
from jaxcontact.study.space import Grid, Sample
from jaxcontact.study.units import unit_label
from jaxcontact.study.version import package_version


def to_dataset(study: Study, outcomes: Mapping[str, np.ndarray], curves: Mapping[str, np.ndarray]) -> xr.Dataset:
    """Label the outcomes, each of shape (total,), and the curves, each of shape (total, points)."""
    space, model = study.space, study.model
    found = [*outcomes.values(), *curves.values()]
    dtype = np.result_type(np.float32, *(v.dtype for v in found if np.issubdtype(v.dtype, np.floating)))
    coordinates = _coordinates(study)
    variables = {q.name: _variable(study, q, outcomes, space.dims, space.sizes, dtype) for q in model.outcomes}
    if study.output.curves:
        dims, sizes = (*space.dims, "fraction"), (*space.sizes, study.output.points)
        variables |= {
            curve_name(study, q): _variable(study, q, curves, dims, sizes, dtype) for q in model.curve_outcomes
        }
        fraction = np.linspace(0.0, 1.0, study.output.points)
        coordinates["fraction"] = ("fraction", fraction, {"units": "1", "long_name": "fraction of the run"})
    return xr.Dataset(variables, coordinates, attrs={**_record(study), "dtype": str(dtype)})


def curve_name(study: Study, quantity: Quantity) -> str:
    """Return the curve's name in the dataset, which has one variable per name: outcomes and parameters keep theirs."""
    taken = quantity.name in {named.name for named in (*study.model.outcomes, *study.model.parameters)}
    return f"{quantity.name}_curve" if taken else quantity.name


def _variable(study: Study, quantity: Quantity, found: Mapping, dims: tuple, sizes: tuple, dtype: np.dtype) -> tuple:
    """Dimensions, values and attributes of one variable."""
    values = found.get(quantity.name)
    attrs: dict[str, Any] = {"units": unit_label(quantity.unit), "long_name": quantity.meaning}
    if values is None:  # this method has no such result: say so, rather than leave a hole in the dataset
        attrs["comment"] = f"not defined by the {study.method} method"
        values = np.full(sizes, -1 if quantity.labels else np.nan, dtype)
    if quantity.labels:  # a code: CF flags, so that any reader can name the values
        values = values.astype(np.int8)
        attrs["flag_values"] = np.arange(len(quantity.labels), dtype=np.int8)
        attrs["flag_meanings"] = " ".join(label.replace(" ", "_") for label in quantity.labels)
    return dims, values.reshape(sizes), attrs


def _coordinates(study: Study) -> dict[str, tuple]:
    """Along a grid each axis by its own values; along samples and cases every varied parameter's value."""
    by_name = {p.name: p for p in study.model.parameters}
    space = study.space
    if isinstance(space, Grid):
        columns = {axis.name: (axis.name, axis.at(np.arange(axis.count))) for axis in space.axes}
    else:
        (dim,) = space.dims
        columns = {name: (dim, values) for name, values in space.rows(0, space.total).items()}
    labelled: dict[str, tuple] = {
        name: (dim, values, {"units": unit_label(by_name[name].unit), "long_name": by_name[name].meaning})
        for name, (dim, values) in columns.items()
    }
    if not isinstance(space, Grid):
        labelled[space.dims[0]] = (space.dims[0], np.arange(space.total), {"long_name": f"{space.dims[0]} number"})
    return labelled


def _record(study: Study) -> dict[str, Any]:
    """Gather everything needed to make the result again, in attributes that any reader can show."""
    space = study.space
    units = {p.name: unit_label(p.unit) for p in study.model.parameters}
    constants = study.constants()

    def readable(values: Mapping[str, float]) -> str:
        return "; ".join(f"{name} = {value:.12g} {units[name]}" for name, value in values.items())

    return {
        "title": study.title or f"{study.model.name}, {study.method}",
        "source": f"jaxcontact {package_version()}, model {study.model.name}: {study.model.source}",
        "jaxcontact_version": package_version(),
        "model": study.model.name,
        "method": study.method,
        "laws": json.dumps(dict(study.choices)),
        "solver": json.dumps(study.settings.as_dict()),
        "space": json.dumps(space.describe()),
        "seed": space.seed if isinstance(space, Sample) else "none: no random numbers",
        "parameters": json.dumps(constants),
        "parameters_text": readable(constants),
        "set": readable(study.fixed) or "nothing: defaults only",
        "fingerprint": study.fingerprint(),
    }
