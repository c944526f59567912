"""Layouts: which contact elements lie under a foot, and where. Data, not code.

An element belongs to the main foot or to the toes. Its centre is given in that segment's frame, whose origin is the
segment's centre of mass (Foot Table 2): x forward, y left, z up in the neutral foot, in metres. `weight` is its
stiffness relative to that of the law (Lopes calls it area), `damping` and `friction` multiply the law's own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxcontact.errors import InputError, unknown
from jaxcontact.models.model import Parameter, Params

SEGMENTS = ("foot", "toes")
KINDS = ("point", "sphere", "ellipsoid", "superellipsoid")  # each is a special case of the next

# What an element of each kind has besides its place: name in a file and of the parameter, unit, bounds, meaning.
_PLACE = (
    ("x", "m", -0.5, 0.5, "centre, forward of its segment's centre of mass"),
    ("y", "m", -0.5, 0.5, "centre, left of its segment's centre of mass"),
    ("z", "m", -0.5, 0.5, "centre, above its segment's centre of mass"),
)
_AXES = (
    ("a", "m", 1e-4, 0.5, "semi-axis along the foot"),
    ("b", "m", 1e-4, 0.5, "semi-axis across the foot"),
    ("c", "m", 1e-4, 0.5, "semi-axis upwards"),
)
_EXPONENTS = (
    ("e1", "1", 0.05, 1.95, "exponent in the plane of the sole: 1 an ellipse, towards 0 a rectangle"),
    ("e2", "1", 0.05, 1.95, "exponent upwards: 1 an ellipse, towards 0 a rectangle"),
)
_SIZE = {
    "point": (),
    "sphere": (("radius", "m", 0.0, 0.5, "radius"),),
    "ellipsoid": _AXES,
    "superellipsoid": (*_AXES, *_EXPONENTS),
}
_SHARES = (
    ("weight", "1", 0.0, 1e5, "stiffness relative to that of the law"),
    ("damping", "1", 0.0, 1e3, "damping relative to that of the law, per stiffness"),
    ("friction", "1", 0.0, 1e3, "friction coefficient relative to that of the law"),
)
_LETTER = {"point": "p", "sphere": "s", "ellipsoid": "e", "superellipsoid": "e"}
# What a description of an element may leave out.
OPTIONAL = {"y": 0.0, "weight": 1.0, "damping": 1.0, "friction": 1.0, "e1": 1.0, "e2": 1.0}


class Elements(NamedTuple):
    """The numbers of all elements: arrays (element, *lanes). A number that the kind lacks is None."""

    x: Any
    y: Any
    z: Any
    weight: Any
    damping: Any
    friction: Any
    radius: Any = None
    a: Any = None
    b: Any = None
    c: Any = None
    e1: Any = None
    e2: Any = None

    def over(self, lanes: int) -> "Elements":
        """The same with as many axes after the first as there are axes of lanes, see `over_lanes`."""
        return Elements(*(None if numbers is None else over_lanes(numbers, lanes) for numbers in self))

    def take(self, chosen: Sequence[int]) -> "Elements":
        """Some of the elements."""
        index = jnp.asarray(chosen, int)
        return Elements(*(None if numbers is None else jnp.asarray(numbers)[index] for numbers in self))


def over_lanes(numbers: Any, lanes: int):
    """Numbers (element, *lanes) with as many axes of lanes as said; missing ones are put before those that there are.

    So elements that no lane varies, or that all points of a curve share, meet lane-wide numbers.
    """
    shape = jnp.shape(numbers)
    return jnp.reshape(numbers, (shape[0], *(1,) * (lanes + 1 - len(shape)), *shape[1:]))


@dataclass(frozen=True)
class Layout:
    """A named set of elements of one kind. `segments[i]` says which segment carries element i."""

    name: str
    kind: str
    source: str
    segments: tuple[str, ...]
    values: Mapping[str, tuple[float, ...]] = dataclass_field(hash=False)  # by field, one number per element

    def __post_init__(self) -> None:
        """Refuse what no foot could stand on."""
        if self.kind not in KINDS:
            raise unknown("kind of element", self.kind, KINDS, f"layout {self.name}")
        if not self.segments:
            raise InputError(f"layout {self.name} has no elements")
        for segment in self.segments:
            if segment not in SEGMENTS:
                raise unknown("segment", segment, SEGMENTS, f"layout {self.name}")
        for field, unit, low, high, _ in fields_of(self.kind):
            if len(self.values.get(field, ())) != len(self.segments):
                raise InputError(f"layout {self.name}: {field} is needed for each of {len(self.segments)} elements")
            for number, value in enumerate(self.values[field], 1):
                if not low <= value <= high:
                    allowed = f"{low:g} to {high:g}{'' if unit == '1' else ' ' + unit}"
                    raise InputError(f"layout {self.name}: {field} = {value!r} of element {number}\nallowed: {allowed}")

    def __len__(self) -> int:
        return len(self.segments)

    def on(self, segment: str) -> tuple[int, ...]:
        """Which elements that segment carries."""
        return tuple(i for i, name in enumerate(self.segments) if name == segment)

    def names(self) -> tuple[str, ...]:
        """The elements' names: s1, s2, ... for spheres, p for points, e for ellipsoids."""
        return tuple(f"{_LETTER[self.kind]}{i}" for i in range(1, len(self) + 1))

    def parameters(self) -> tuple[Parameter, ...]:
        """Every number of every element as a parameter of a model: s1.x, s1.radius, ..."""
        return tuple(
            Parameter(
                f"{name}.{field}", unit, self.values[field][i], low, high, f"{name} ({segment}): {what}", self.source
            )
            for i, (name, segment) in enumerate(zip(self.names(), self.segments, strict=True))
            for field, unit, low, high, what in fields_of(self.kind)
        )

    def elements(self, params: Params | None = None) -> Elements:
        """The elements' numbers as arrays (element, *lanes), out of a model's parameters; without them, as printed.

        What is printed is known when a program is made: arrays of numpy, so that it can become part of it.
        """
        if params is None:
            return Elements(**{field: np.asarray(self.values[field]) for field, *_ in fields_of(self.kind)})
        shape = jnp.broadcast_shapes(
            *(jnp.shape(params[f"{name}.{field}"]) for name in self.names() for field, *_ in fields_of(self.kind))
        )
        return Elements(
            **{
                field: jnp.stack([jnp.broadcast_to(params[f"{name}.{field}"], shape) for name in self.names()])
                for field, *_ in fields_of(self.kind)
            }
        )


def fields_of(kind: str) -> tuple[tuple[str, str, float, float, str], ...]:
    """What an element of that kind is described by: (field, unit, least, most, meaning)."""
    return (*_PLACE, *_SIZE[kind], *_SHARES)


def make_layout(name: str, kind: str, source: str, rows: Sequence[Mapping[str, Any]]) -> Layout:
    """Make a layout from one mapping per element: segment, x, z, the kind's sizes; y and the shares have defaults."""
    if kind not in KINDS:
        raise unknown("kind of element", kind, KINDS, f"layout {name}")
    values = {
        field: tuple(float(_value(row, field, name, i)) for i, row in enumerate(rows, 1))
        for field, *_ in fields_of(kind)
    }
    return Layout(name, kind, source, tuple(str(row.get("segment", "foot")) for row in rows), values)


def _value(row: Mapping[str, Any], field: str, name: str, number: int) -> Any:
    if field in row:
        return row[field]
    if field not in OPTIONAL:
        raise InputError(f"layout {name}: element {number} has no {field}")
    return OPTIONAL[field]
