"""Spaces of configurations, described lazily: a grid, a sample or a list of cases. 10^8 points cost nothing until run.

A space has `dims` and `sizes` (the shape of a result), `names` (what varies, linked names included), `total`, and
`rows(start, stop)`: the values of configurations start ... stop - 1, by name, in stated units. `along(name)` is the
dimension along which a name changes, and `values(name, start, stop)` its values at positions start ... stop - 1 there.
"""

import hashlib
import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from jaxcontact.study.sampling import SAMPLERS, morris_levels, saltelli

SCALES = ("linear", "log")


class Space(Protocol):
    """What a sweep needs to know about a space."""

    @property
    def dims(self) -> tuple[str, ...]: ...  # noqa: D102

    @property
    def sizes(self) -> tuple[int, ...]: ...  # noqa: D102

    @property
    def names(self) -> tuple[str, ...]: ...  # noqa: D102

    @property
    def total(self) -> int: ...  # noqa: D102

    def along(self, name: str) -> str: ...  # noqa: D102

    def values(self, name: str, start: int, stop: int) -> np.ndarray: ...  # noqa: D102

    def rows(self, start: int, stop: int) -> dict[str, np.ndarray]: ...  # noqa: D102

    def describe(self) -> dict[str, Any]: ...  # noqa: D102


@dataclass(frozen=True)
class Interval:
    """The numbers from `low` to `high`, even in the value ("linear") or in its logarithm ("log")."""

    low: float
    high: float
    scale: str = "linear"

    def at(self, part: np.ndarray) -> np.ndarray:
        """Return the values at fractions `part` of the way, 0 at `low` and 1 at `high`, both ends exact."""
        if self.scale == "log":
            exponent = math.log10(self.low) + (math.log10(self.high) - math.log10(self.low)) * part
            inner = np.power(10.0, exponent)
        else:
            inner = self.low + (self.high - self.low) * part
        return np.where(part <= 0.0, self.low, np.where(part >= 1.0, self.high, inner))

    def describe(self) -> dict[str, Any]:
        """Return the record of this interval, for fingerprints and results."""
        return {"from": self.low, "to": self.high, "scale": self.scale}


@dataclass(frozen=True)
class ListAxis:
    """A grid axis of listed values."""

    name: str
    values: tuple[float, ...]

    @property
    def count(self) -> int:
        """How many values the axis has."""
        return len(self.values)

    def at(self, index: np.ndarray) -> np.ndarray:
        """Return the values at positions `index`."""
        return self._array[index]

    @cached_property
    def _array(self) -> np.ndarray:
        return np.asarray(self.values, dtype=np.float64)

    def describe(self) -> dict[str, Any]:
        """Return the record of this axis."""
        return {"name": self.name, "values": list(self.values)}


@dataclass(frozen=True)
class RangeAxis:
    """A grid axis of `count` evenly spaced values, both ends included; a count of 1 gives the first, as in numpy."""

    name: str
    interval: Interval
    count: int

    def at(self, index: np.ndarray) -> np.ndarray:
        """Return the values at positions `index`."""
        return self.interval.at(np.asarray(index) / max(self.count - 1, 1))

    def describe(self) -> dict[str, Any]:
        """Return the record of this axis."""
        return {"name": self.name, "count": self.count, **self.interval.describe()}


Axis = ListAxis | RangeAxis


@dataclass(frozen=True)
class Grid:
    """Every combination of its axes, the last axis varying fastest. Without axes it is one configuration.

    `links` says which axes have no dimension of their own: name -> the axis that it moves along, of the same count.
    """

    axes: tuple[Axis, ...] = ()
    links: dict[str, str] = field(default_factory=dict)

    @property
    def dims(self) -> tuple[str, ...]:
        """One dimension per axis that is not linked to another, in the order given."""
        return tuple(axis.name for axis in self.axes if axis.name not in self.links)

    @property
    def names(self) -> tuple[str, ...]:
        """What varies, in the order given."""
        return tuple(axis.name for axis in self.axes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of values along each dimension."""
        return tuple(self._by_name[name].count for name in self.dims)

    @property
    def total(self) -> int:
        """The number of configurations."""
        return math.prod(self.sizes)

    def along(self, name: str) -> str:
        """Return the dimension along which `name` changes."""
        return self.links.get(name, self._by_name[name].name)

    def values(self, name: str, start: int, stop: int) -> np.ndarray:
        """Return the values of `name` at positions start ... stop - 1 of its dimension."""
        return self._by_name[name].at(np.arange(start, stop))

    def rows(self, start: int, stop: int) -> dict[str, np.ndarray]:
        """Return configurations start ... stop - 1, in stated units."""
        rest = np.arange(start, stop)
        position = {}
        for dim, size in zip(reversed(self.dims), reversed(self.sizes), strict=True):
            rest, position[dim] = np.divmod(rest, size)
        return {axis.name: axis.at(position[self.along(axis.name)]) for axis in self.axes}

    def describe(self) -> dict[str, Any]:
        """Return the record of this space."""
        return {"kind": "grid", "axes": [axis.describe() | _with(self.links, axis.name) for axis in self.axes]}

    @cached_property
    def _by_name(self) -> dict[str, Axis]:
        return {axis.name: axis for axis in self.axes}


@dataclass(frozen=True)
class Sample:
    """`count` points over a box of intervals, along one dimension `sample`. A seed always gives the same points.

    `links` says which names have no coordinate of their own: name -> the one whose fraction of the way it shares.
    """

    intervals: dict[str, Interval]
    count: int
    seed: int = 0
    method: str = "sobol"
    links: dict[str, str] = field(default_factory=dict)

    dims = ("sample",)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of points."""
        return (self.count,)

    @property
    def names(self) -> tuple[str, ...]:
        """What varies, in the order given."""
        return tuple(self.intervals)

    @property
    def total(self) -> int:
        """The number of configurations."""
        return self.count

    def along(self, name: str) -> str:
        """Return the dimension along which `name` changes: there is only one."""
        return _only_dimension(self, name)

    def values(self, name: str, start: int, stop: int) -> np.ndarray:
        """Return the values of `name` at positions start ... stop - 1 of its dimension."""
        return self.rows(start, stop)[name]

    def rows(self, start: int, stop: int) -> dict[str, np.ndarray]:
        """Return configurations start ... stop - 1, in stated units."""
        part = dict(zip(self.factors, self.unit(start, stop).T, strict=True))
        return {name: interval.at(part[self.links.get(name, name)]) for name, interval in self.intervals.items()}

    @property
    def factors(self) -> tuple[str, ...]:
        """What varies independently: the names with a coordinate of their own."""
        return tuple(name for name in self.intervals if name not in self.links)

    def unit(self, start: int, stop: int) -> np.ndarray:
        """Return configurations start ... stop - 1 as points of the unit cube, (stop - start, factors)."""
        return SAMPLERS[self.method](start, stop, len(self.factors), self.count, self.seed)

    def describe(self) -> dict[str, Any]:
        """Return the record of this space."""
        ranges = [{"name": n, **interval.describe(), **_with(self.links, n)} for n, interval in self.intervals.items()]
        return {"kind": "sample", "method": self.method, "count": self.count, "seed": self.seed, "ranges": ranges}


@dataclass(frozen=True)
class Saltelli(Sample):
    """The design for Sobol indices: `count` pairs of points (A, B), and each with one coordinate from the other.

    A group of rows belongs to each pair, in SALib's order: A, AB_1 ... AB_D, (BA_1 ... BA_D), B, where AB_i is A with
    coordinate i from B. The BA rows are for indices of second order and are left out without them.
    """

    second_order: bool = True

    @property
    def group(self) -> int:
        """How many rows a base point has."""
        return (2 if self.second_order else 1) * len(self.factors) + 2

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of rows."""
        return (self.total,)

    @property
    def total(self) -> int:
        """The number of configurations."""
        return self.count * self.group

    def unit(self, start: int, stop: int) -> np.ndarray:
        """Return rows start ... stop - 1 as points of the unit cube, (stop - start, factors)."""
        return saltelli(start, stop, len(self.factors), self.count, self.seed, second_order=self.second_order)

    def describe(self) -> dict[str, Any]:
        """Return the record of this space."""
        return super().describe() | {"second_order": self.second_order}


@dataclass(frozen=True)
class Morris(Sample):
    """The design for Morris screening: `count` trajectories on a grid of `levels`, one factor changed at each step."""

    levels: int = 4

    @property
    def group(self) -> int:
        """How many rows a trajectory has."""
        return len(self.factors) + 1

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of rows."""
        return (self.total,)

    @property
    def total(self) -> int:
        """The number of configurations."""
        return self.count * self.group

    def unit(self, start: int, stop: int) -> np.ndarray:
        """Return rows start ... stop - 1 as points of the unit cube, (stop - start, factors)."""
        return morris_levels(len(self.factors), self.count, self.levels, self.seed)[start:stop]

    def describe(self) -> dict[str, Any]:
        """Return the record of this space; SALib draws the points, so their checksum is part of it."""
        return super().describe() | {"levels": self.levels, "sha256": _checksum(self.unit(0, self.total))}


@dataclass(frozen=True, eq=False)
class Cases:
    """Listed configurations along one dimension `case`: one array of values per name, all of one length.

    `index` is what the person calls them, whole numbers without repeats; without it they have none but their position.
    """

    columns: dict[str, np.ndarray] = field(repr=False)
    index: np.ndarray | None = field(default=None, repr=False)

    dims = ("case",)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of cases."""
        return (self.total,)

    @property
    def names(self) -> tuple[str, ...]:
        """What varies, in the order given."""
        return tuple(self.columns)

    @property
    def total(self) -> int:
        """The number of configurations."""
        return len(next(iter(self.columns.values())))

    def along(self, name: str) -> str:
        """Return the dimension along which `name` changes: there is only one."""
        return _only_dimension(self, name)

    def values(self, name: str, start: int, stop: int) -> np.ndarray:
        """Return the values of `name` at positions start ... stop - 1 of its dimension."""
        return self.columns[name][start:stop]

    def rows(self, start: int, stop: int) -> dict[str, np.ndarray]:
        """Return configurations start ... stop - 1, in stated units."""
        return {name: values[start:stop] for name, values in self.columns.items()}

    def describe(self) -> dict[str, Any]:
        """Return the record of this space; the values by their checksum, since there may be many."""
        columns = [{"name": name, "sha256": _checksum(v.astype("<f8"))} for name, v in self.columns.items()]
        index = {} if self.index is None else {"index": _checksum(self.index.astype("<i8"))}
        return {"kind": "cases", "count": self.total, "columns": columns, **index}


def _only_dimension(space: Sample | Cases, name: str) -> str:
    if name not in space.names:
        raise KeyError(name)
    return space.dims[0]


def _with(links: dict[str, str], name: str) -> dict[str, str]:
    """Return the part of a name's record that says what it moves with, in the word of the study file."""
    return {"with": links[name]} if name in links else {}


def _checksum(values: np.ndarray) -> str:
    return hashlib.sha256(values.tobytes()).hexdigest()
