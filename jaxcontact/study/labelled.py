"""What a sweep finds, labelled: named dimensions, units, meanings and the record of its making.

The same layout serves a dataset in memory and a store on disk. Most variables are filled chunk by chunk; the values
along a grid's axes are known beforehand.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from jaxcontact.errors import InputError
from jaxcontact.integrate.machine import EXCLUDED
from jaxcontact.models.model import Quantity
from jaxcontact.study.chunks import Chunk, Cut
from jaxcontact.study.definition import Configurations, Study
from jaxcontact.study.execute import Found, job_of, result_types
from jaxcontact.study.space import Cases, Grid, Sample
from jaxcontact.study.units import unit_label
from jaxcontact.study.version import package_version


@dataclass(frozen=True, eq=False)
class Variable:
    """One array of a result. `in_chunks`: filled chunk by chunk; otherwise it lies along one axis and is known."""

    name: str
    dims: tuple[str, ...]
    sizes: tuple[int, ...]
    dtype: np.dtype
    attrs: dict[str, Any]
    coordinate: bool = False
    in_chunks: bool = True


@dataclass(frozen=True, eq=False)
class Layout:
    """Every array of a study's result, coordinates last, and the attributes of the whole."""

    variables: tuple[Variable, ...]
    attrs: dict[str, Any]


def layout(study: Study) -> Layout:
    """Lay out the result of a study; nothing is run."""
    types = result_types(job_of(study))
    floats = [t for kind in types.values() for t in kind.values() if np.issubdtype(t, np.floating)]
    number = np.result_type(np.float32, *floats)
    variables = [
        *(_quantity(study, q, types["outcomes"], number) for q in study.model.outcomes),
        *(_quantity(study, q, types["curves"], number, curve=True) for q in _curves(study)),
        *(_derived(study, name) for name in study.derived),
        *_coordinates(study),
    ]
    return Layout(tuple(variables), {**_record(study), "dtype": str(number)})


def chunk_values(study: Study, chunk: Chunk, numbers: Configurations, found: Found) -> dict[str, np.ndarray]:
    """Return one chunk of every variable that is filled chunk by chunk, in the shape of its block."""
    outcomes, curves = found["outcomes"], found["curves"]
    excluded = outcomes["status"] == EXCLUDED
    values: dict[str, np.ndarray] = {}
    for quantity in study.model.outcomes:
        array = outcomes.get(quantity.name)
        if array is None:  # this method has no such result; the layout says so
            array = np.full(chunk.size, -1 if quantity.labels else np.nan)
        if quantity.labels and quantity.name != "status":
            array = np.where(excluded, -1, array)
        values[quantity.name] = array.reshape(chunk.shape)
    for quantity in _curves(study):
        array = curves.get(quantity.name, np.full((study.output.points, chunk.size), np.nan))
        values[curve_name(study, quantity)] = array.T.reshape(*chunk.shape, -1)
    values |= {name: array.reshape(chunk.shape) for name, array in numbers.derived.items()}
    if not isinstance(study.space, Grid):
        values |= numbers.rows
        if isinstance(study.space, Cases) and study.space.index is not None:
            values["index"] = study.space.index[chunk.start : chunk.stop]
    return values


def axis_values(study: Study, variable: Variable, start: int, stop: int) -> np.ndarray:
    """Return part of the values along an axis."""
    if variable.name == "fraction":
        return np.linspace(0.0, 1.0, study.output.points)[start:stop]
    return study.space.values(variable.name, start, stop)


class InMemory:
    """A result that is filled chunk by chunk, in memory."""

    configurations_done = failed = 0  # at the start there is nothing

    def __init__(self, study: Study, cut: Cut) -> None:
        self.cut, self._layout = cut, layout(study)
        try:
            self._arrays = {v.name: np.empty(v.sizes, v.dtype) for v in self._layout.variables}
        except (MemoryError, ValueError):  # numpy's words for too much, and for far too much
            raise InputError(
                f"{study.space.total:,} configurations do not fit in memory\nallowed: fewer, or out = a directory"
            ) from None
        for variable in self._layout.variables:
            if not variable.in_chunks:
                self._arrays[variable.name][:] = axis_values(study, variable, 0, variable.sizes[0])

    def missing(self) -> Iterator[Chunk]:
        """Return all chunks, in order."""
        return self.cut.chunks()

    def write(self, chunk: Chunk, values: Mapping[str, np.ndarray]) -> None:
        """Put a chunk in its place."""
        for name, block in values.items():
            self._arrays[name][chunk.where] = block

    def dataset(self) -> xr.Dataset:
        """Return the labelled dataset."""

        def chosen(coordinate: bool) -> dict[str, tuple]:
            return {
                v.name: (v.dims, self._arrays[v.name], v.attrs)
                for v in self._layout.variables
                if v.coordinate == coordinate
            }

        return xr.Dataset(chosen(False), chosen(True), attrs=self._layout.attrs)


def curve_name(study: Study, quantity: Quantity) -> str:
    """Return the curve's name in the dataset, which has one variable per name: outcomes and parameters keep theirs."""
    taken = quantity.name in {named.name for named in (*study.model.outcomes, *study.model.parameters)}
    return f"{quantity.name}_curve" if taken else quantity.name


def _curves(study: Study) -> tuple[Quantity, ...]:
    return study.model.curve_outcomes if study.output.curves else ()


def _quantity(study: Study, quantity: Quantity, types: Mapping, number: np.dtype, *, curve: bool = False) -> Variable:
    """Lay out an outcome or a curve."""
    attrs: dict[str, Any] = {"units": unit_label(quantity.unit), "long_name": quantity.meaning}
    if quantity.name not in types:  # say so, rather than leave a hole in the dataset
        attrs["comment"] = f"not defined by the {study.method} method"
    dtype = types.get(quantity.name, number)
    if quantity.labels:  # a code: CF flags, so that any reader can name the values
        dtype = np.dtype(np.int8)
        attrs["flag_values"] = np.arange(len(quantity.labels), dtype=np.int8)
        attrs["flag_meanings"] = " ".join(label.replace(" ", "_") for label in quantity.labels)
    dims, sizes = study.space.dims, study.space.sizes
    if curve:
        dims, sizes = (*dims, "fraction"), (*sizes, study.output.points)
    return Variable(curve_name(study, quantity) if curve else quantity.name, dims, sizes, dtype, attrs)


def _derived(study: Study, name: str) -> Variable:
    attrs = {**_attrs(study, name), "comment": f"derived: {study.derived[name].text}"}
    return Variable(name, study.space.dims, study.space.sizes, np.dtype(float), attrs)


def _coordinates(study: Study) -> list[Variable]:
    """Along a grid each axis by its own values; along samples and cases every varied parameter's value."""
    space, grid = study.space, isinstance(study.space, Grid)
    length = dict(zip(space.dims, space.sizes, strict=True))
    real = np.dtype(float)

    def along(name: str, dim: str, dtype: np.dtype, attrs: dict[str, Any], in_chunks: bool) -> Variable:
        size = length[dim] if dim in length else study.output.points
        return Variable(name, (dim,), (size,), dtype, attrs, coordinate=True, in_chunks=in_chunks)

    found = [along(name, space.along(name), real, _attrs(study, name), not grid) for name in space.names]
    # Samples and cases have no coordinate of their own: all who open the result would read those numbers whole.
    if isinstance(space, Cases) and space.index is not None:
        attrs = {"long_name": "number in the study that this case is from"}
        found.append(along("index", "case", np.dtype(np.int64), attrs, True))
    if study.output.curves:
        found.append(along("fraction", "fraction", real, {"units": "1", "long_name": "fraction of the run"}, False))
    return found


def _attrs(study: Study, name: str) -> dict[str, Any]:
    return {"units": study.units_of(name), "long_name": study.meaning_of(name)}


def _record(study: Study) -> dict[str, Any]:
    """Gather everything needed to make the result again, in attributes that any reader can show."""
    space, constants = study.space, {**study.constants(), **study.free_constants()}

    def readable(values: Mapping[str, float]) -> str:
        return "; ".join(f"{name} = {value:.12g} {study.units_of(name)}" for name, value in values.items())

    return {
        "title": study.title or f"{study.model.name}, {study.method}",
        "source": f"jaxcontact {package_version()}, model {study.model.name}: {study.model.source}",
        "jaxcontact_version": package_version(),
        "model": study.model.name,
        "method": study.method,
        "laws": json.dumps(dict(study.choices)),
        "solver": json.dumps(study.settings.as_dict()),
        "space": json.dumps(space.describe()),
        "derive": json.dumps({name: expression.text for name, expression in study.derived.items()}),
        "require": json.dumps([condition.text for condition in study.requirements]),
        "seed": space.seed if isinstance(space, Sample) else "none: no random numbers",
        "parameters": json.dumps(constants),
        "parameters_text": readable(constants),
        "set": readable({**study.fixed, **study.free_constants()}) or "nothing: defaults only",
        "fingerprint": study.fingerprint(),
    }
