"""Checks of what a person wrote: tables, names, numbers and units. Each raises InputError with what is allowed."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxcontact.errors import InputError, unknown
from jaxcontact.study.units import base_unit, to_stated, unit_label

if TYPE_CHECKING:
    from jaxcontact.models.model import Parameter

SPEC_KEYS = {"from", "to", "count", "scale", "unit", "values", "value", "with"}


@dataclass(frozen=True)
class FreeName:
    """A name that no model knows, used in an expression of the study: any finite number will do.

    A unit written beside it is converted to the one of its kind that models state (m, kg, Pa, ...) and kept for the
    record: expressions see numbers in those units.
    """

    name: str
    unit: str = ""
    low: float = -math.inf
    high: float = math.inf


Names = Mapping[str, "Parameter | FreeName"]


def check_keys(table: Mapping[str, Any], allowed: Iterable[str], where: str) -> None:
    """Refuse a key that means nothing, and offer the nearest one that does."""
    allowed = tuple(allowed)
    for key in table:
        if key not in allowed:
            raise unknown("key", key, allowed, where)


def checked_table(table: Any, where: str) -> Mapping[str, Any]:
    """Return `table`, or an empty one for None."""
    if table is None:
        return {}
    if not isinstance(table, Mapping):
        raise InputError(f"{where}: a table is needed, not {table!r}")
    return table


def dotted(known: Iterable[str], table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Join names that TOML took apart: leg.mass = 3 arrives as { leg = { mass = 3 } }."""
    flat: dict[str, Any] = {}
    for key, spec in table.items():
        deeper = key not in known and isinstance(spec, Mapping) and spec and not SPEC_KEYS & set(spec)
        inner = {f"{key}.{rest}": value for rest, value in spec.items()} if deeper else {}
        for name, value in (dotted(known, inner, where) if deeper else {key: spec}).items():
            if name in flat:
                raise InputError(f"{name} is given twice in {where}")
            flat[name] = value
    return flat


def find(known: Names, name: str, where: str) -> "Parameter | FreeName":
    """Return the parameter or free name called `name`."""
    if name not in known:
        raise unknown("parameter", name, known, where)
    return known[name]


def whole_number(value: Any, what: str, *, least: int) -> int:
    """Return `value` as an int, refused unless it is a whole number of at least `least`."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise InputError(f"{what} = {value!r}: a whole number of at least {least} is needed")
    return int(value)


def plain(spec: Any) -> Any:
    """Turn arrays of numpy or jax into lists and numbers of Python; leave anything else as it is."""
    return np.asarray(spec).tolist() if hasattr(spec, "__array__") else spec


def is_list(spec: Any) -> bool:
    """Whether it is a list of anything. A text is not."""
    return isinstance(spec, (list, tuple, range))


def one_number(value: Any, factor: float, named: "Parameter | FreeName", where: str = "") -> float:
    """Return `value` in the stated unit, refused unless it is a finite number within the bounds."""
    return _bounded(_number(value, f"{named.name} ({where})" if where else named.name) * factor, named, where)


def listed_numbers(named: "Parameter | FreeName", spec: Any, factor: float) -> tuple[float, ...]:
    """Return a list of at least one number, each checked, in the stated unit."""
    spec = plain(spec)
    if not is_list(spec):
        raise InputError(f"{named.name}: a list of numbers is needed, not {spec!r}")
    if len(spec) == 0:
        raise InputError(f"{named.name}: the list of values is empty; at least one is needed")
    return tuple(one_number(value, factor, named) for value in spec)


def unit_factor(unit: Any, named: "Parameter | FreeName", where: str = "") -> float:
    """Return the factor from `unit` as written to the stated unit; for a free name, to the one of its kind."""
    name = f"{where}: {named.name}" if where else named.name
    if not isinstance(named, FreeName):
        return to_stated(unit, named.unit, name=name)
    if not isinstance(unit, str):
        raise InputError(f"{name}: unit = {unit!r}: a text is needed")
    return base_unit(unit, name=name)[1]


def factor_of(spec: Mapping[str, Any], named: "Parameter | FreeName") -> float:
    """Return the factor from the unit that `spec` may name to the stated unit."""
    return unit_factor(spec["unit"], named) if "unit" in spec else 1.0


def _number(value: Any, name: str) -> float:
    """Check that it is a finite number. True and "3" are not numbers, whatever Python says of the first."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise InputError(f"{name}: {value!r} is not a number")
    try:
        number = float(value)
    except OverflowError:  # an integer beyond 1e308
        number = math.inf
    if not math.isfinite(number):
        raise InputError(f"{name}: {number!r} is not a finite number")
    return number


def _bounded(value: float, named: "Parameter | FreeName", where: str = "") -> float:
    # The slack is rounding: 7 cm is 0.07000000000000001 m.
    low = named.low - 1e-12 * abs(named.low)
    high = named.high + 1e-12 * abs(named.high)
    if not low <= value <= high:
        unit = "" if unit_label(named.unit) == "1" else f" {named.unit}"
        place = f" ({where})" if where else ""
        raise InputError(
            f"{named.name} = {value:.10g}{unit}{place} is out of bounds\nallowed: {named.low:g} to {named.high:g}{unit}"
        )
    return value
