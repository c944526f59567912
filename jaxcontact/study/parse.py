"""What a person wrote about a space ([vary], [sample], [cases], [set]) -> checked spaces and fixed values.

Every check raises InputError with the name, the value and what is allowed, before anything is simulated.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxcontact.errors import InputError, unknown
from jaxcontact.study.cases import read_cases, unit_labels
from jaxcontact.study.checks import (
    FreeName,
    Names,
    check_keys,
    checked_table,
    dotted,
    factor_of,
    find,
    is_list,
    listed_numbers,
    one_number,
    plain,
    whole_number,
)
from jaxcontact.study.sampling import SAMPLERS, SOBOL_BITS
from jaxcontact.study.space import SCALES, Axis, Grid, Interval, ListAxis, Morris, RangeAxis, Saltelli, Sample, Space

if TYPE_CHECKING:
    from jaxcontact.models.model import Parameter

_DESIGN_KEYS = {"saltelli": ("second_order",), "morris": ("levels",)}  # what designs for sensitivity have besides
MOST_VALUES = 10**8  # on one axis: they are all written to the result


class Described(NamedTuple):
    """A space, the values set by hand (stated units), and the units written beside free names."""

    space: Space
    fixed: dict[str, float]
    labels: dict[str, str]


def parse_space(
    parameters: "Iterable[Parameter]",
    *,
    vary: Mapping[str, Any] | None = None,
    fixed: Mapping[str, Any] | None = None,
    sample: Mapping[str, Any] | None = None,
    cases: Mapping[str, Any] | None = None,
    folder: Path = Path(),
    free: Mapping[str, str] | None = None,
    derived: Iterable[str] = (),
) -> Described:
    """Return what the tables describe. CSV paths start at `folder`.

    `free` has the names that only expressions know, each with the place that uses it; every one must be given a number.
    `derived` has the names that are computed from others; none may be given one.
    """
    free, derived = dict(free or {}), tuple(derived)
    known: Names = {name: FreeName(name) for name in (*free, *derived)} | {p.name: p for p in parameters}
    varied = dotted(known, checked_table(vary, "[vary]"), "[vary]")
    settled = dotted(known, checked_table(fixed, "[set]"), "[set]")
    values = {name: _fixed_value(find(known, name, "[set]"), spec) for name, spec in settled.items()}
    labels = unit_labels(known, varied | settled)
    if cases is not None:
        if varied or sample is not None:
            raise InputError("[cases] lists whole configurations: it cannot be combined with [vary] or [sample]")
        space, more = read_cases(known, checked_table(cases, "[cases]"), folder)
        labels |= more
    elif sample is not None:
        space = _sample(known, checked_table(sample, "[sample]"), varied)
    else:
        space = _grid(known, varied)
    _check_each_is_given_once(space, values, free, derived, known)
    return Described(space, values, labels)


def _check_each_is_given_once(
    space: Space, values: Mapping[str, float], free: Mapping[str, str], derived: tuple[str, ...], known: Names
) -> None:
    for name in (*space.names, *values):
        if name in derived:
            where = "[set]" if name in values else "[cases]" if "case" in space.dims else "[vary]"
            raise InputError(f"{name} is derived in [derive] and also given in {where}: keep one of them")
        if name in space.names and name in values:
            raise InputError(f"{name} is both varied and given in [set]: keep one of them")
    for name, where in free.items():
        if name not in space.names and name not in values:
            others = [other for other in known if other not in free or other in space.names or other in values]
            error = unknown("name", name, others, where)
            raise InputError(f"{error}; or a name of your own with a number in [vary], [set] or [cases]")
    if space.total >= 2**62:
        raise InputError(f"the space has {space.total:.3g} configurations: fewer than 2^62 can be numbered")


# ---------------------------------------------------------------- [set]


def _fixed_value(named: "Parameter | FreeName", spec: Any) -> float:
    """Read a number in the stated unit, or {value, unit}."""
    where = f"[set] {named.name}"
    spec = plain(spec)
    if not isinstance(spec, Mapping):
        if is_list(spec):
            raise InputError(f"{where}: one number is needed; a list of values belongs in [vary]")
        return one_number(spec, 1.0, named)
    check_keys(spec, ("value", "unit"), where)
    if "value" not in spec:
        usual = getattr(named, "default", 1.0)
        raise InputError(f"{where}: 'value' is missing, as in {{ value = {usual:g}, unit = ... }}")
    return one_number(spec["value"], factor_of(spec, named), named)


# ---------------------------------------------------------------- [vary]: axes


def _grid(known: Names, vary: Mapping[str, Any]) -> Grid:
    links = _links(vary)
    axes = {n: _axis(find(known, n, "[vary]"), spec) for n, spec in vary.items() if n not in links}
    for axis in axes.values():
        _check_no_repeats(axis)
    linked = {n: _linked_axis(find(known, n, "[vary]"), vary[n], axes[other]) for n, other in links.items()}
    return Grid(tuple((axes | linked)[name] for name in vary), links)


def _links(vary: Mapping[str, Any]) -> dict[str, str]:
    """Find the names that move with another: name -> the other, which must have an axis or range of its own."""
    links = {name: spec["with"] for name, spec in vary.items() if isinstance(spec, Mapping) and "with" in spec}
    for name, other in links.items():
        where = f"[vary] {name}: with = {other!r}"
        if name == other:
            raise InputError(f"{where} is {name} itself: name another parameter of [vary], with which it moves")
        if not isinstance(other, str) or other not in vary:
            raise unknown("axis", other, (n for n in vary if n not in links), f"[vary] {name}: with")
        if other in links:
            raise InputError(f"{where} moves with {links[other]!r} itself: write with = {links[other]!r} in both")
    return links


def _axis(named: "Parameter | FreeName", spec: Any) -> Axis:
    """Read a list, { values, unit }, or { from, to, count, scale, unit }."""
    where = f"[vary] {named.name}"
    spec = plain(spec)
    if is_list(spec):
        return ListAxis(named.name, listed_numbers(named, spec, 1.0))
    if not isinstance(spec, Mapping):
        raise InputError(
            f"{where} = {spec!r}: a list of values or {{ from, to, count }} is needed; a fixed number belongs in [set]"
        )
    if "values" in spec:
        check_keys(spec, ("values", "unit"), where)
        return ListAxis(named.name, listed_numbers(named, spec["values"], factor_of(spec, named)))
    check_keys(spec, ("from", "to", "count", "scale", "unit", "values", "with"), where)
    interval = _interval(named, spec, where)
    if "count" not in spec:
        raise InputError(f"{where}: 'count' is missing: how many values, both ends included?")
    count = whole_number(spec["count"], f"{where}: count", least=1)
    if count > MOST_VALUES:
        raise InputError(f"{where}: count = {count:,}: at most {MOST_VALUES:,} values are allowed on one axis")
    return RangeAxis(named.name, interval, count)


def _linked_axis(named: "Parameter | FreeName", spec: Mapping[str, Any], leader: Axis) -> Axis:
    """Read { with, values, unit } or { with, from, to, scale, unit }: as many values as the leading axis has."""
    where = f"[vary] {named.name}"
    _check_no_count(spec, leader.name, where)
    if "values" not in spec:
        check_keys(spec, ("with", "from", "to", "scale", "unit", "values"), where)
        return RangeAxis(named.name, _interval(named, spec, where), leader.count)
    check_keys(spec, ("with", "values", "unit"), where)
    values = listed_numbers(named, spec["values"], factor_of(spec, named))
    if len(values) != leader.count:
        raise InputError(
            f"{where}: {len(values)} values, but {leader.name}, with which it moves, has {leader.count}\n"
            f"allowed: {leader.count} values, or a range {{ from, to }}"
        )
    return ListAxis(named.name, values)


def _check_no_count(spec: Mapping[str, Any], leader: str, where: str) -> None:
    if "count" in spec:
        raise InputError(f"{where}: 'count' belongs to {leader}, with which it moves: leave it out here")


def _check_no_repeats(axis: Axis) -> None:
    """An axis labels its results by value, so each value may stand on it once."""
    repeated = []
    if isinstance(axis, ListAxis):
        repeated = [value for value, times in Counter(axis.values).items() if times > 1]
    elif axis.count > 1 and axis.interval.low == axis.interval.high:
        repeated = [axis.interval.low]
    if repeated:
        raise InputError(f"[vary] {axis.name}: {repeated[0]:g} stands on this axis more than once")


def _interval(named: "Parameter | FreeName", spec: Mapping[str, Any], where: str) -> Interval:
    for end in ("from", "to"):
        if end not in spec:
            low, high = (0, 1) if isinstance(named, FreeName) else (named.low, named.high)
            raise InputError(f"{where}: '{end}' is missing, as in {{ from = {low:g}, to = {high:g} }}")
    scale = spec.get("scale", "linear")
    if scale not in SCALES:
        raise unknown("scale", scale, SCALES, where)
    factor = factor_of(spec, named)
    low, high = (one_number(spec[end], factor, named) for end in ("from", "to"))
    if scale == "log" and not (low > 0 and high > 0):
        raise InputError(f'{where}: scale = "log" needs both ends above 0, not {low:g} and {high:g}')
    if not math.isfinite(high - low):
        raise InputError(f"{where}: from {low:g} to {high:g} is too far: their difference must be finite")
    return Interval(low, high, scale)


# ---------------------------------------------------------------- [sample]


def _sample(known: Names, table: Mapping[str, Any], vary: Mapping[str, Any]) -> Sample:
    method = table.get("method", "sobol")
    check_keys(table, ("count", "seed", "method", *_DESIGN_KEYS.get(str(method), ())), "[sample]")
    if "count" not in table:
        raise InputError("[sample]: 'count' is missing: how many points?")
    count = whole_number(table["count"], "[sample] count", least=1)
    seed = whole_number(table.get("seed", 0), "[sample] seed", least=0)
    if method not in (*SAMPLERS, *_DESIGN_KEYS):
        raise unknown("method", method, (*SAMPLERS, *_DESIGN_KEYS), "[sample]")
    if method in ("sobol", "saltelli") and count > 2**SOBOL_BITS:
        raise InputError(
            f'[sample] count = {count}: method "{method}" has at most 2^{SOBOL_BITS} points; "random" has no such limit'
        )
    if not vary:
        raise InputError("[sample] needs ranges in [vary], as in mu = { from = 0.5, to = 1.0 }")
    links, intervals = _links(vary), {}
    for name, spec in vary.items():
        named, where = find(known, name, "[vary]"), f"[vary] {name}"
        if not isinstance(spec, Mapping) or "values" in spec:
            raise InputError(f"{where} = {spec!r}: a sample needs a range {{ from, to }}")
        if name in links:
            _check_no_count(spec, links[name], where)
        if "count" in spec:
            raise InputError(f"{where}: 'count' belongs in [sample] when the space is a sample")
        check_keys(spec, ("from", "to", "scale", "unit", "with"), where)
        intervals[name] = _interval(named, spec, where)
    if method == "saltelli":
        second_order = table.get("second_order", True)
        if not isinstance(second_order, bool):
            raise InputError(f"[sample] second_order = {second_order!r}: true or false is needed")
        return Saltelli(intervals, count, seed, method, links, second_order)
    if method == "morris":
        return Morris(intervals, count, seed, method, links, _levels(table.get("levels", Morris.levels)))
    return Sample(intervals, count, seed, method, links)


def _levels(value: Any) -> int:
    levels = whole_number(value, "[sample] levels", least=2)
    if levels % 2:
        raise InputError(f"[sample] levels = {levels}: an even number is needed, so that steps of half the range fit")
    return levels
