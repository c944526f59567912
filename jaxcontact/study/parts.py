"""A dataset of results, read: which outcomes, curves and parameters it holds, in which order, and slices by value.

Nothing here loads a whole outcome: results may be far larger than memory, so parts are cut first and read afterwards.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from jaxcontact.errors import InputError, unknown

ROWS = ("sample", "case")  # dimensions along which every varied parameter is a coordinate
CURVE = "fraction"  # the dimension of time histories


# ---------------------------------------------------------------- what there is


def dimensions(dataset: xr.Dataset) -> tuple[str, ...]:
    """Return the dimensions of the configurations, in the study's order."""
    widest = max((variable.dims for variable in dataset.data_vars.values()), key=len, default=())
    return tuple(str(dim) for dim in widest if dim != CURVE)


def outcome_names(dataset: xr.Dataset) -> list[str]:
    """Return the outcomes, one number per configuration, in the model's order."""
    return _ordered(dataset, [str(name) for name, v in dataset.data_vars.items() if CURVE not in v.dims])


def curve_names(dataset: xr.Dataset) -> list[str]:
    """Return the time histories, in the model's order."""
    return _ordered(dataset, [str(name) for name, v in dataset.data_vars.items() if CURVE in v.dims])


def parameter_names(dataset: xr.Dataset) -> list[str]:
    """Return what varies: what was held first, then each dimension's own parameter and the ones linked with it.

    The number of a sample or a case is no parameter; it is listed only where nothing else tells the rows apart.
    """
    held = [str(name) for name, coordinate in dataset.coords.items() if coordinate.ndim == 0 and name not in ROWS]
    names = _recorded(dataset, held)
    for dim in dimensions(dataset):
        along = linked_names(dataset, dim)
        names += along if dim in ROWS and along else [dim, *along]
    return names


def linked_names(dataset: xr.Dataset, dim: str) -> list[str]:
    """Return the other parameters that vary along a dimension."""
    return _recorded(dataset, [str(n) for n, c in dataset.coords.items() if c.dims == (dim,) and n != dim])


def flag_names(variable: xr.DataArray) -> dict[int, str]:
    """Return the names of an integer code by value; empty for a quantity."""
    names = str(variable.attrs.get("flag_meanings", "")).split()
    values = np.atleast_1d(variable.attrs.get("flag_values", np.arange(len(names))))
    return {int(value): name for value, name in zip(values, names, strict=False)}


def status_codes(dataset: xr.Dataset) -> tuple[int | None, int | None]:
    """Return the codes of "running", which in results means not run yet, and "finished"; None if there is no status."""
    names = flag_names(dataset["status"]) if "status" in dataset else {}
    codes = {name: code for code, name in names.items()}
    return codes.get("running"), codes.get("finished")


def check_outcomes(names: Iterable[str], allowed: Iterable[str]) -> list[str]:
    """Return the names as a list if the results have them all."""
    names, allowed = list(names), list(allowed)
    for name in names:
        if name not in allowed:
            raise unknown("outcome", name, allowed)
    return names


def value_text(variable: xr.DataArray, value: Any = None) -> str:
    """Return "name = value unit", the value to 5 digits; without a value, that of a scalar."""
    value = variable.item() if value is None else value
    shown = f"{value:.5g}" if isinstance(value, int | float | np.number) else str(value)
    unit = variable.attrs.get("units", "1")
    return f"{variable.name} = {shown}" + ("" if unit in ("", "1") else f" {unit}")


# ---------------------------------------------------------------- slices


def sharing(dataset: xr.Dataset, outcomes: Sequence[str]) -> xr.Dataset:
    """Keep what varies along the same dimensions as the named outcomes; without names, as the first of the widest.

    A study has all its outcomes along the same dimensions, but a published dataset may join several studies.
    """
    names = check_outcomes(outcomes, [*outcome_names(dataset), *curve_names(dataset)])
    along = {str(name): {*variable.dims} - {CURVE} for name, variable in dataset.data_vars.items()}
    widest = max(names or along, key=lambda name: len(along[name]), default=None)
    if widest is None:
        raise InputError("these results hold no outcome")
    for name in names:
        if not along[name] <= along[widest]:
            raise InputError(f"outcomes {widest} and {name} vary along different dimensions: name one of them")
    return dataset[[name for name, dims in along.items() if dims <= along[widest]]]


def select_nearest(dataset: xr.Dataset, select: Mapping[str, float | str]) -> xr.Dataset:
    """Hold dimensions at the value nearest to the one given, which must lie within the axis.

    A grid's dimension may also be held by a parameter linked with it; one of names, such as `approach`, by name.
    """
    for name, value in select.items():
        dims = dimensions(dataset)
        linked = [other for dim in dims if dim not in ROWS for other in linked_names(dataset, dim)]
        if name not in (*dims, *linked):
            raise unknown("dimension", name, [*dims, *linked], "select")
        axis = dataset[name]
        dataset = dataset.isel({axis.dims[0]: _nearest(axis, value)})
    return dataset


def values_in(variable: xr.DataArray, box: Mapping[str, slice]) -> np.ndarray:
    """Read one variable's values in a box, in row order, also where it does not vary along every dimension."""
    dims = [dim for dim in box if dim in variable.dims]
    values = variable.isel({dim: box[dim] for dim in dims}).transpose(*dims).values
    here = [part.stop - part.start for part in box.values()]
    own = [size if dim in dims else 1 for dim, size in zip(box, here, strict=True)]
    return np.broadcast_to(values.reshape(own), here).ravel()


def _nearest(axis: xr.DataArray, value: Any) -> int:
    values = axis.values
    if not np.issubdtype(values.dtype, np.number):
        if str(value) not in values.astype(str):
            raise unknown(str(axis.name), str(value), values.astype(str), "select")
        return int(np.argmax(values.astype(str) == str(value)))
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"select {axis.name} = {value!r}: a number is needed") from None
    low, high = values.min(), values.max()
    slack = 1e-9 * max(abs(low), abs(high))  # a printed value may be rounded just beyond the end
    if not low - slack <= number <= high + slack:
        unit = axis.attrs.get("units", "1")
        unit = "" if unit == "1" else f" {unit}"
        raise InputError(f"select {axis.name} = {number:g}: outside its axis\nallowed: {low:g} to {high:g}{unit}")
    return int(np.argmin(np.abs(values - number)))


# ---------------------------------------------------------------- order


def _ordered(dataset: xr.Dataset, names: list[str]) -> list[str]:
    """Put names into the model's order: a Zarr store lists them by the alphabet."""
    from jaxcontact.models import get_model  # imports jax

    try:
        model = get_model(str(dataset.attrs.get("model")))
    except InputError:
        return names  # a model that is not ours, or several models in one dataset
    listed = [q.name for q in model.outcomes] + [n for q in model.curve_outcomes for n in (q.name, f"{q.name}_curve")]
    place = {name: number for number, name in reversed(list(enumerate(listed)))}
    return sorted(names, key=lambda name: place.get(name, len(listed)))


def _recorded(dataset: xr.Dataset, names: list[str]) -> list[str]:
    """Put parameters into the study's order, as far as the record of its space tells."""
    text = str(dataset.attrs.get("space", ""))
    return sorted(names, key=lambda name: text.find(json.dumps(name)) if json.dumps(name) in text else len(text))


def space_record(dataset: xr.Dataset) -> dict[str, Any]:
    """Return the record of the study's space, or nothing if the results do not have one."""
    try:
        record = json.loads(dataset.attrs.get("space", ""))
    except (TypeError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}
