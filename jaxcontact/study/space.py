"""Spaces of configurations, described lazily: a grid, a sample or a list of cases. 10^8 points cost nothing until run.

A space has `dims` and `sizes` (the shape of a result), `names` (the parameters that vary), `total`, and
`rows(start, stop)`: the values of configurations start ... stop - 1, by parameter, in stated units.
"""

import hashlib
import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

SCALES = ("linear", "log")
SAMPLERS = ("sobol", "latin", "random")
SOBOL_BITS = 30  # scipy's engine: 2^30 points at most, each coordinate on a lattice of 2^-30


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
        return np.asarray(self.values, dtype=np.float64)[index]

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


@dataclass(frozen=True)
class Grid:
    """Every combination of its axes, the last axis varying fastest. Without axes it is one configuration."""

    axes: tuple[ListAxis | RangeAxis, ...] = ()

    @property
    def dims(self) -> tuple[str, ...]:
        """One dimension per axis, in the order given."""
        return tuple(axis.name for axis in self.axes)

    names = dims

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of values along each dimension."""
        return tuple(axis.count for axis in self.axes)

    @property
    def total(self) -> int:
        """The number of configurations."""
        return math.prod(self.sizes)

    def rows(self, start: int, stop: int) -> dict[str, np.ndarray]:
        """Return configurations start ... stop - 1, in stated units."""
        rest = np.arange(start, stop)
        columns = {}
        for axis in reversed(self.axes):
            rest, index = np.divmod(rest, axis.count)
            columns[axis.name] = axis.at(index)
        return {name: columns[name] for name in self.names}

    def describe(self) -> dict[str, Any]:
        """Return the record of this space."""
        return {"kind": "grid", "axes": [axis.describe() for axis in self.axes]}


@dataclass(frozen=True)
class Sample:
    """`count` points over a box of intervals, along one dimension `sample`. A seed always gives the same points."""

    intervals: dict[str, Interval]
    count: int
    seed: int = 0
    method: str = "sobol"

    dims = ("sample",)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of points."""
        return (self.count,)

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters that vary."""
        return tuple(self.intervals)

    @property
    def total(self) -> int:
        """The number of configurations."""
        return self.count

    def rows(self, start: int, stop: int) -> dict[str, np.ndarray]:
        """Return configurations start ... stop - 1, in stated units."""
        unit = {"sobol": self._sobol, "latin": self._latin, "random": self._random}[self.method](start, stop)
        return {name: interval.at(unit[:, i]) for i, (name, interval) in enumerate(self.intervals.items())}

    def describe(self) -> dict[str, Any]:
        """Return the record of this space."""
        ranges = [{"name": name, **interval.describe()} for name, interval in self.intervals.items()]
        return {"kind": "sample", "method": self.method, "count": self.count, "seed": self.seed, "ranges": ranges}

    def _sobol(self, start: int, stop: int) -> np.ndarray:
        """Draw Sobol points under a random digital shift: still a (t, m, s)-net, and any slice of it costs only itself.

        The shift is ours and not scipy's scrambling, so that a seed means the same points whatever the scipy version.
        """
        from scipy.stats import qmc  # slow to import, and only needed here

        engine = qmc.Sobol(len(self.intervals), scramble=False, bits=SOBOL_BITS)
        # Ask for one point first: scipy warns when the first request is not a power of two, which a slice need not be.
        first = engine.random(1) if start == 0 else engine.fast_forward(start).random(1)
        points = np.concatenate([first, engine.random(stop - start - 1)]) if stop - start > 1 else first
        lattice = np.round(points * 2.0**SOBOL_BITS).astype(np.int64)
        shift = np.random.default_rng(self.seed).integers(0, 2**SOBOL_BITS, len(self.intervals), dtype=np.int64)
        return ((lattice ^ shift) + 0.5) / 2.0**SOBOL_BITS  # the middle of each cell: never on an end

    def _random(self, start: int, stop: int) -> np.ndarray:
        generator = np.random.PCG64(self.seed)
        generator.advance(start * len(self.intervals))  # one draw per number, so a slice can be reached directly
        return np.random.Generator(generator).random((stop - start, len(self.intervals)))

    def _latin(self, start: int, stop: int) -> np.ndarray:
        return self._latin_points[start:stop]

    @cached_property
    def _latin_points(self) -> np.ndarray:
        """Draw one point in each of `count` slices of every interval, shuffled (McKay, Beckman and Conover 1979)."""
        draw = np.random.default_rng(self.seed)
        slices = np.stack([draw.permutation(self.count) for _ in self.intervals], axis=1)
        return (slices + draw.random(slices.shape)) / self.count


@dataclass(frozen=True, eq=False)
class Cases:
    """Listed configurations along one dimension `case`: one array of values per parameter, all of one length."""

    columns: dict[str, np.ndarray] = field(repr=False)

    dims = ("case",)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of cases."""
        return (self.total,)

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters that vary."""
        return tuple(self.columns)

    @property
    def total(self) -> int:
        """The number of configurations."""
        return len(next(iter(self.columns.values())))

    def rows(self, start: int, stop: int) -> dict[str, np.ndarray]:
        """Return configurations start ... stop - 1, in stated units."""
        return {name: values[start:stop] for name, values in self.columns.items()}

    def describe(self) -> dict[str, Any]:
        """Return the record of this space; the values by their checksum, since there may be many."""
        digests = {n: hashlib.sha256(v.astype("<f8").tobytes()).hexdigest() for n, v in self.columns.items()}
        return {"kind": "cases", "count": self.total, "columns": [{"name": n, "sha256": d} for n, d in digests.items()]}
