"""A space -> the tables of a study file that describe it: what `parse` reads, written."""

from collections.abc import Mapping
from typing import Any

from jaxcontact.study.cases import INDEX
from jaxcontact.study.space import Cases, Grid, Interval, ListAxis, Morris, Saltelli, Sample, Space


def space_tables(space: Space, labels: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return [vary], [sample] and [cases], as far as the space needs them. `labels` has the units of free names."""
    match space:
        case Grid():
            specs = {axis.name: _axis_table(axis) for axis in space.axes}
            return {"vary": _linked(specs, space.links, labels)}
        case Sample():
            specs = {name: _interval_table(interval) for name, interval in space.intervals.items()}
            sample = {"count": space.count, "seed": space.seed, "method": space.method}
            if isinstance(space, Saltelli):
                sample["second_order"] = space.second_order
            elif isinstance(space, Morris):
                sample["levels"] = space.levels
            return {"vary": _linked(specs, space.links, labels), "sample": sample}
        case Cases():
            index = {} if space.index is None else {INDEX: space.index.tolist()}
            columns = {n: with_unit("values", v.tolist(), labels.get(n)) for n, v in space.columns.items()}
            return {"cases": {"values": index | columns}}
    raise TypeError(f"no tables describe a {type(space).__name__}")


def with_unit(key: str, value: Any, unit: str | None) -> Any:
    """Return `value` as it may be written: alone in its stated unit, or in a table with the unit beside it."""
    return value if unit is None else {key: value, "unit": unit}


def _axis_table(axis: Any) -> dict[str, Any]:
    if isinstance(axis, ListAxis):
        return {"values": list(axis.values)}
    return {**_interval_table(axis.interval), "count": axis.count}


def _interval_table(interval: Interval) -> dict[str, Any]:
    return {"from": interval.low, "to": interval.high, "scale": interval.scale}


def _linked(specs: dict[str, dict], links: Mapping[str, str], labels: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Add to each name what it moves with, whose count it then has, and its unit."""
    for name, spec in specs.items():
        if name in links:
            spec.pop("count", None)
            spec["with"] = links[name]
        if name in labels:
            spec["unit"] = labels[name]
    return specs
