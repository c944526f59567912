"""Listed configurations ([cases]): a CSV file, or a table of lists -> checked columns, and what they are called."""

import csv
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxcontact.errors import InputError
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
    unit_factor,
    whole_number,
)
from jaxcontact.study.space import Cases
from jaxcontact.study.units import base_unit

INDEX = "index"  # the column that is not a parameter but what the person calls each case


def read_cases(known: Names, table: Mapping[str, Any], folder: Path) -> tuple[Cases, dict[str, str]]:
    """Return the cases, and the units written beside free names. The path of a CSV file starts at `folder`."""
    check_keys(table, ("file", "values"), "[cases]")
    if len(table) != 1:
        raise InputError("[cases]: give either 'file' (a CSV file) or 'values' (a table of lists), and not both")
    if "values" in table:
        return _from_lists(known, checked_table(table["values"], "[cases] values"))
    if not isinstance(table["file"], (str, Path)):
        raise InputError(f"[cases] file = {table['file']!r}: a path is needed")
    return _from_csv(known, folder / table["file"])


def unit_labels(known: Names, specs: Mapping[str, Any]) -> dict[str, str]:
    """Return the units of free names that have one written beside them, as their numbers are kept."""
    free = {name: spec for name, spec in specs.items() if isinstance(known.get(name), FreeName)}
    written = {name: spec["unit"] for name, spec in free.items() if isinstance(spec, Mapping) and "unit" in spec}
    return {name: base_unit(unit, name=name)[0] for name, unit in written.items()}


def _from_lists(known: Names, table: Mapping[str, Any]) -> tuple[Cases, dict[str, str]]:
    specs = dotted((*known, INDEX), table, "[cases] values")
    numbers = plain(specs.pop(INDEX, None))
    columns = {}
    for name, spec in specs.items():
        named = find(known, name, "[cases]")
        if isinstance(spec, Mapping):
            check_keys(spec, ("values", "unit"), f"[cases] {name}")
            values = listed_numbers(named, spec.get("values", ()), factor_of(spec, named))
        else:
            values = listed_numbers(named, spec, 1.0)
        columns[name] = np.array(values, dtype=np.float64)
    if not columns:
        raise InputError("[cases] values: at least one parameter is needed")
    if numbers is not None and not is_list(numbers):
        raise InputError(f"[cases] index = {numbers!r}: a list of whole numbers is needed")
    index = None if numbers is None else _index((number, "[cases]") for number in numbers)
    lengths = {name: len(values) for name, values in columns.items()} | ({} if index is None else {INDEX: len(index)})
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise InputError(f"[cases] values: every list must be of one length, not {shown}")
    return Cases(columns, index), unit_labels(known, specs)


def _index(cells: Iterable[tuple[Any, str]]) -> np.ndarray:
    """Check the numbers of the cases, each given with the place where it stands."""
    seen: dict[int, str] = {}
    for value, where in cells:
        number = whole_number(value, f"{where} index", least=0)
        if number in seen:
            raise InputError(f"{where} index = {number} stands there more than once: every case needs its own")
        if number >= 2**63:
            raise InputError(f"{where} index = {number}: a number below 2^63 is needed")
        seen[number] = where
    return np.array(list(seen), dtype=np.int64)


class _Column(NamedTuple):
    """A column of a CSV file: its name, the unit as written, and the factor from that to the stated unit."""

    name: str
    unit: str | None
    factor: float


def _from_csv(known: Names, path: Path) -> tuple[Cases, dict[str, str]]:
    """Read one column per name; a header cell is a name in its stated unit, or `name [unit]`."""
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
    if len(header) == 1 and ";" in header[0]:
        raise InputError(f"{path}, line {header_line}: columns must be separated by commas, not semicolons")
    columns = _header(known, header, f"{path}, line {header_line}")
    for line, row in body:
        if len(row) != len(columns):
            raise InputError(f"{path}, line {line}: {len(row)} cells, but the header has {len(columns)}")
    found, index = {}, None
    for i, column in enumerate(columns):
        cells = [(_cell(row[i]), f"{path}, line {line}") for line, row in body]
        if column.name == INDEX:
            index = _index(cells)
        else:
            named = known[column.name]
            found[column.name] = np.array([one_number(value, column.factor, named, where) for value, where in cells])
    written = {column.name: {"unit": column.unit} for column in columns if column.unit is not None}
    return Cases(found, index), unit_labels(known, written)


def _header(known: Names, header: list[str], where: str) -> list[_Column]:
    columns = []
    for cell in header:
        match = re.fullmatch(r"\s*(.*?)\s*(?:\[(.*)\])?\s*", cell)
        name, unit = match.groups() if match else (cell, None)
        unit = None if unit is None else unit.strip()
        if name == INDEX and unit is not None:
            raise InputError(f"{where}: column index counts the cases and has no unit, not [{unit}]")
        named = None if name == INDEX else find(known, name, where)
        columns.append(_Column(name, unit, 1.0 if named is None or unit is None else unit_factor(unit, named, where)))
    names = [column.name for column in columns]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{where}: column {name} is given more than once")
    if set(names) == {INDEX}:
        raise InputError(f"{where}: at least one column besides index is needed")
    return columns


def _cell(text: str) -> int | float | str:
    """Read a number; anything else is left as written, so that the check of numbers can name it."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text.strip()
