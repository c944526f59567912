"""What a person wrote about a space ([vary], [sample], [cases], [set]) -> checked spaces and fixed values.

Every check raises InputError with the name, the value and what is allowed, before anything is simulated.
"""

import csv
import math
import re
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxcontact.errors import InputError, unknown
from jaxcontact.study.space import (
    SAMPLERS,
    SCALES,
    SOBOL_BITS,
    Cases,
    Grid,
    Interval,
    ListAxis,
    RangeAxis,
    Sample,
    Space,
)
from jaxcontact.study.units import to_stated, unit_label

if TYPE_CHECKING:
    from jaxcontact.models.model import Parameter

    Parameters = Mapping[str, Parameter]

SPEC_KEYS = {"from", "to", "count", "scale", "unit", "values", "value"}


def parse_space(
    parameters: "Iterable[Parameter]",
    *,
    vary: Mapping[str, Any] | None = None,
    fixed: Mapping[str, Any] | None = None,
    sample: Mapping[str, Any] | None = None,
    cases: Mapping[str, Any] | None = None,
    folder: Path = Path(),
) -> tuple[Space, dict[str, float]]:
    """Return the space and fixed values (stated units) that the tables describe. CSV paths start at `folder`."""
    known = {parameter.name: parameter for parameter in parameters}
    vary = _dotted(known, _table(vary, "[vary]"), "[vary]")
    fixed = _dotted(known, _table(fixed, "[set]"), "[set]")
    values = {name: _fixed_value(_find(known, name, "[set]"), spec) for name, spec in fixed.items()}
    if cases is not None:
        if vary or sample is not None:
            raise InputError("[cases] lists whole configurations: it cannot be combined with [vary] or [sample]")
        space: Space = _cases(known, _table(cases, "[cases]"), folder)
    elif sample is not None:
        space = _sample(known, _table(sample, "[sample]"), vary)
    else:
        space = Grid(tuple(_without_repeats(_axis(_find(known, name, "[vary]"), spec)) for name, spec in vary.items()))
    for name in space.names:
        if name in values:
            raise InputError(f"{name} is both varied and given in [set]: keep one of them")
    if space.total >= 2**62:
        raise InputError(f"the grid has {space.total:.3g} configurations: fewer than 2^62 can be numbered")
    return space, values


def check_keys(table: Mapping[str, Any], allowed: Iterable[str], where: str) -> None:
    """Refuse a key that means nothing, and offer the nearest one that does."""
    allowed = tuple(allowed)
    for key in table:
        if key not in allowed:
            raise unknown("key", key, allowed, where)


def whole_number(value: Any, what: str, *, least: int) -> int:
    """Return `value` as an int, refused unless it is a whole number of at least `least`."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise InputError(f"{what} = {value!r}: a whole number of at least {least} is needed")
    return int(value)


def _table(table: Any, where: str) -> Mapping[str, Any]:
    if table is None:
        return {}
    if not isinstance(table, Mapping):
        raise InputError(f"{where}: a table is needed, not {table!r}")
    return table


def _dotted(known: "Parameters", table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Join names that TOML took apart: leg.mass = 3 arrives as { leg = { mass = 3 } }."""
    flat: dict[str, Any] = {}
    for key, spec in table.items():
        deeper = key not in known and isinstance(spec, Mapping) and spec and not SPEC_KEYS & set(spec)
        inner = {f"{key}.{rest}": value for rest, value in spec.items()} if deeper else {}
        for name, value in (_dotted(known, inner, where) if deeper else {key: spec}).items():
            if name in flat:
                raise InputError(f"{name} is given twice in {where}")
            flat[name] = value
    return flat


def _find(known: "Parameters", name: str, where: str) -> "Parameter":
    if name not in known:
        raise unknown("parameter", name, known, where)
    return known[name]


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


def _bounded(value: float, parameter: "Parameter", where: str = "") -> float:
    # The slack is rounding: 7 cm is 0.07000000000000001 m.
    low = parameter.low - 1e-12 * abs(parameter.low)
    high = parameter.high + 1e-12 * abs(parameter.high)
    if not low <= value <= high:
        unit = unit_label(parameter.unit)
        place = f" ({where})" if where else ""
        raise InputError(
            f"{parameter.name} = {value:.10g} {unit}{place} is out of bounds\n"
            f"allowed: {parameter.low:g} to {parameter.high:g} {unit}"
        )
    return value


def _one(value: Any, factor: float, parameter: "Parameter", where: str = "") -> float:
    return _bounded(
        _number(value, f"{parameter.name} ({where})" if where else parameter.name) * factor, parameter, where
    )


def _factor(spec: Mapping[str, Any], parameter: "Parameter") -> float:
    return to_stated(spec["unit"], parameter.unit, name=parameter.name) if "unit" in spec else 1.0


def _plain(spec: Any) -> Any:
    """Turn arrays of numpy or jax into lists and numbers of Python; leave anything else as it is."""
    return np.asarray(spec).tolist() if hasattr(spec, "__array__") else spec


def _is_list(spec: Any) -> bool:
    return isinstance(spec, (list, tuple, range))


def _fixed_value(parameter: "Parameter", spec: Any) -> float:
    """Read a number in the stated unit, or {value, unit}."""
    where = f"[set] {parameter.name}"
    spec = _plain(spec)
    if not isinstance(spec, Mapping):
        if _is_list(spec):
            raise InputError(f"{where}: one number is needed; a list of values belongs in [vary]")
        return _one(spec, 1.0, parameter)
    check_keys(spec, ("value", "unit"), where)
    if "value" not in spec:
        raise InputError(f"{where}: 'value' is missing, as in {{ value = {parameter.default:g}, unit = ... }}")
    return _one(spec["value"], _factor(spec, parameter), parameter)


def _listed(parameter: "Parameter", spec: Any, factor: float) -> tuple[float, ...]:
    spec = _plain(spec)
    if not _is_list(spec):
        raise InputError(f"{parameter.name}: a list of numbers is needed, not {spec!r}")
    if len(spec) == 0:
        raise InputError(f"{parameter.name}: the list of values is empty; at least one is needed")
    return tuple(_one(value, factor, parameter) for value in spec)


def _without_repeats(axis: ListAxis | RangeAxis) -> ListAxis | RangeAxis:
    """An axis labels its results by value, so each value may stand on it once."""
    values = axis.values if isinstance(axis, ListAxis) else ()
    repeated = [value for value in values if values.count(value) > 1]
    if isinstance(axis, RangeAxis) and axis.count > 1 and axis.interval.low == axis.interval.high:
        repeated = [axis.interval.low]
    if repeated:
        raise InputError(f"[vary] {axis.name}: {repeated[0]:g} stands on this axis more than once")
    return axis


def _axis(parameter: "Parameter", spec: Any) -> ListAxis | RangeAxis:
    """Read a list, { values, unit }, or { from, to, count, scale, unit }."""
    where = f"[vary] {parameter.name}"
    spec = _plain(spec)
    if _is_list(spec):
        return ListAxis(parameter.name, _listed(parameter, spec, 1.0))
    if not isinstance(spec, Mapping):
        raise InputError(
            f"{where} = {spec!r}: a list of values or {{ from, to, count }} is needed; a fixed number belongs in [set]"
        )
    if "values" in spec:
        check_keys(spec, ("values", "unit"), where)
        return ListAxis(parameter.name, _listed(parameter, spec["values"], _factor(spec, parameter)))
    check_keys(spec, ("from", "to", "count", "scale", "unit", "values"), where)
    interval = _interval(parameter, spec, where)
    if "count" not in spec:
        raise InputError(f"{where}: 'count' is missing: how many values, both ends included?")
    return RangeAxis(parameter.name, interval, whole_number(spec["count"], f"{where}: count", least=1))


def _interval(parameter: "Parameter", spec: Mapping[str, Any], where: str) -> Interval:
    for end in ("from", "to"):
        if end not in spec:
            raise InputError(
                f"{where}: '{end}' is missing, as in {{ from = {parameter.low:g}, to = {parameter.high:g} }}"
            )
    scale = spec.get("scale", "linear")
    if scale not in SCALES:
        raise unknown("scale", scale, SCALES, where)
    factor = _factor(spec, parameter)
    low, high = (_one(spec[end], factor, parameter) for end in ("from", "to"))
    if scale == "log" and not (low > 0 and high > 0):
        raise InputError(f'{where}: scale = "log" needs both ends above 0, not {low:g} and {high:g}')
    return Interval(low, high, scale)


def _sample(known: "Parameters", table: Mapping[str, Any], vary: Mapping[str, Any]) -> Sample:
    check_keys(table, ("count", "seed", "method"), "[sample]")
    if "count" not in table:
        raise InputError("[sample]: 'count' is missing: how many points?")
    count = whole_number(table["count"], "[sample] count", least=1)
    seed = whole_number(table.get("seed", 0), "[sample] seed", least=0)
    method = table.get("method", "sobol")
    if method not in SAMPLERS:
        raise unknown("method", method, SAMPLERS, "[sample]")
    if method == "sobol" and count > 2**SOBOL_BITS:
        raise InputError(
            f'[sample] count = {count}: method "sobol" has at most 2^{SOBOL_BITS} points; "random" has no limit'
        )
    if not vary:
        raise InputError("[sample] needs ranges in [vary], as in mu = { from = 0.5, to = 1.0 }")
    intervals = {}
    for name, spec in vary.items():
        parameter, where = _find(known, name, "[vary]"), f"[vary] {name}"
        if not isinstance(spec, Mapping):
            raise InputError(f"{where} = {spec!r}: a sample needs a range {{ from, to }}")
        if "count" in spec:
            raise InputError(f"{where}: 'count' belongs in [sample] when the space is a sample")
        check_keys(spec, ("from", "to", "scale", "unit"), where)
        intervals[name] = _interval(parameter, spec, where)
    return Sample(intervals, count, seed, method)


def _cases(known: "Parameters", table: Mapping[str, Any], folder: Path) -> Cases:
    """Read the columns of a CSV file, or of a table `values` with one list per parameter."""
    check_keys(table, ("file", "values"), "[cases]")
    if len(table) != 1:
        raise InputError("[cases]: give either 'file' (a CSV file) or 'values' (a table of lists), and not both")
    if "file" in table:
        if not isinstance(table["file"], (str, Path)):
            raise InputError(f"[cases] file = {table['file']!r}: a path is needed")
        return Cases(_read_csv(known, folder / table["file"]))
    columns = {}
    for name, spec in _dotted(known, _table(table["values"], "[cases] values"), "[cases] values").items():
        parameter = _find(known, name, "[cases]")
        if isinstance(spec, Mapping):
            check_keys(spec, ("values", "unit"), f"[cases] {name}")
            values = _listed(parameter, spec.get("values", ()), _factor(spec, parameter))
        else:
            values = _listed(parameter, spec, 1.0)
        columns[name] = np.array(values, dtype=np.float64)
    lengths = {name: len(values) for name, values in columns.items()}
    if not columns:
        raise InputError("[cases] values: at least one parameter is needed")
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise InputError(f"[cases] values: every list must be of one length, not {shown}")
    return Cases(columns)


def _read_csv(known: "Parameters", path: Path) -> dict[str, np.ndarray]:
    """Read one column per parameter; a header cell is a name in its stated unit, or `name [unit]`."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            rows = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except FileNotFoundError:
        raise InputError(f"[cases] file: there is no file {path}") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"[cases] file: {path} cannot be read as CSV ({error})") from None
    if len(rows) < 2:
        raise InputError(f"{path}: a header with parameter names and at least one row of numbers are needed")

    (header_line, header), *body = rows
    columns = [_csv_column(known, cell, f"{path}, line {header_line}") for cell in header]
    names = [parameter.name for parameter, _ in columns]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{path}, line {header_line}: column {name} is given more than once")
    values = np.empty((len(columns), len(body)))
    for j, (line, row) in enumerate(body):
        where = f"{path}, line {line}"
        if len(row) != len(columns):
            raise InputError(f"{where}: {len(row)} cells, but the header has {len(columns)}")
        for i, (cell, (parameter, factor)) in enumerate(zip(row, columns, strict=True)):
            values[i, j] = _one(_cell(cell), factor, parameter, where)
    return dict(zip(names, values, strict=True))


def _csv_column(known: "Parameters", cell: str, where: str) -> "tuple[Parameter, float]":
    match = re.fullmatch(r"\s*(.*?)\s*(?:\[(.*)\])?\s*", cell)
    name, unit = match.groups() if match else (cell, None)
    parameter = _find(known, name, where)
    return parameter, 1.0 if unit is None else to_stated(unit.strip(), parameter.unit, name=f"{where}: {name}")


def _cell(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text.strip()  # the number check then names it as it was written
