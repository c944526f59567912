"""Results as text: a CSV file with every digit, or an aligned table for a person. Read and written slice by slice."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, TextIO

import numpy as np
import xarray as xr

from jaxcontact.errors import InputError
from jaxcontact.study.chunks import Cut
from jaxcontact.study.parts import (
    CURVE,
    check_outcomes,
    curve_names,
    dimensions,
    flag_names,
    outcome_names,
    parameter_names,
    select_nearest,
    sharing,
    values_in,
)

SLICE = 2**16  # rows at a time: some ten megabytes, whatever the size of the study


def write_csv(
    dataset: xr.Dataset,
    stream: TextIO,
    *,
    outcomes: Sequence[str] = (),
    select: Mapping[str, float | str] = {},
    curves: bool = False,
) -> None:
    """Write one row per configuration: the parameters that vary or are held by `select`, then the outcomes.

    A header cell is `name [unit]`, as in a file of cases; pure numbers have no unit. Numbers have all the digits that
    they need to be read back exactly, codes are written by name (empty where the method defines none), what a failed
    run does not have is nan. Time histories are left out, unless `curves` asks for them: then there is one row per
    configuration and fraction of the run, and `outcomes` left empty means all curves.
    """
    part = select_nearest(sharing(dataset, outcomes), select)
    names = _curve_columns(part, outcomes) if curves else _outcome_columns(part, outcomes)
    dims = (*dimensions(part), CURVE) if curves else dimensions(part)
    columns = [*parameter_names(part), *([CURVE] if curves else []), *names]
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([_heading(part[name]) for name in columns])
    for chunk in Cut.into(tuple(part.sizes[dim] for dim in dims), SLICE).chunks():
        cut = dict(zip(dims, chunk.where, strict=True))
        writer.writerows(zip(*(_exact(part[name], cut) for name in columns), strict=True))


def print_table(
    dataset: xr.Dataset,
    stream: TextIO,
    *,
    outcomes: Sequence[str] = (),
    select: Mapping[str, float | str] = {},
    limit: int = 20,
    width: int | None = None,
) -> None:
    """Print the first `limit` configurations, aligned, to 5 digits, under their units, and say how many more there are.

    Columns beyond `width` characters are left out and named below. Time histories are left out, and so are outcomes
    that the method does not define, unless they are named. One configuration is printed a line per number, with its
    meaning.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InputError(f"limit = {limit!r}: a whole number of at least 1 is needed")
    part = select_nearest(sharing(dataset, outcomes), select)
    names = _outcome_columns(part, outcomes)
    if not outcomes:
        names = [name for name in names if "comment" not in part[name].attrs]
    columns = [*parameter_names(part), *names]
    dims = dimensions(part)
    if not dims:
        stream.writelines(f"{line}\n" for line in _one_configuration(part, columns))
        return

    sizes = [part.sizes[dim] for dim in dims]
    regions = (dict(zip(dims, chunk.where, strict=True)) for chunk in Cut.into(tuple(sizes), limit).chunks())
    rows = chain.from_iterable(zip(*(_shown(part[name], cut) for name in columns), strict=True) for cut in regions)
    head = [columns, [_unit(part[name]) for name in columns]]
    cells = list(zip(*head, *islice(rows, limit), strict=True))  # a tuple of texts per column
    fitting = _fitting(cells, width, least=len(columns) - len(names) + 1)
    for row in zip(*(_aligned(part[columns[i]], cells[i]) for i in range(fitting)), strict=True):
        stream.write("  ".join(row).rstrip() + "\n")
    total = int(np.prod(sizes))
    if total > limit:
        many = "row" if total == limit + 1 else "rows"
        stream.write(f"... and {total - limit} more {many}: `jaxcontact table DIR --csv` prints all\n")
    if fitting < len(columns):
        stream.write(f"left out, to fit {width} characters: {', '.join(columns[fitting:])}\n")


# ---------------------------------------------------------------- columns


def _outcome_columns(part: xr.Dataset, outcomes: Sequence[str]) -> list[str]:
    for name in set(outcomes) & set(curve_names(part)):
        raise InputError(
            f"outcome '{name}' is a time history: a table has one row per configuration, so ask for curves"
        )
    known = outcome_names(part)
    return check_outcomes(outcomes, known) or known


def _curve_columns(part: xr.Dataset, outcomes: Sequence[str]) -> list[str]:
    """A named outcome without fractions may be among them; its value is repeated."""
    known = curve_names(part)
    if not known:
        raise InputError("there are no curves in these results; [output] curves = true in the study keeps them")
    return check_outcomes(outcomes, [*known, *outcome_names(part)]) or known


def _heading(variable: xr.DataArray) -> str:
    unit = _unit(variable)
    return f"{variable.name} [{unit}]" if unit else str(variable.name)


def _unit(variable: xr.DataArray) -> str:
    unit = str(variable.attrs.get("units", "1"))
    return "" if unit == "1" else unit


# ---------------------------------------------------------------- slices


def _exact(variable: xr.DataArray, cut: Mapping[str, slice]) -> list:
    """The cells of a column with every digit: csv writes a float by its repr, the shortest text that reads back."""
    values = values_in(variable, cut)
    if names := flag_names(variable):
        return [names.get(code, "") for code in values.tolist()]
    # A float32 is exact in fewer digits than the float of Python that it would become.
    return values.astype(str).tolist() if values.dtype == np.float32 else values.tolist()


def _shown(variable: xr.DataArray, cut: Mapping[str, slice]) -> list[str]:
    """The cells of a column, to 5 digits."""
    return [_text(value, flag_names(variable), 5) for value in values_in(variable, cut).tolist()]


def _text(value: Any, names: Mapping[int, str], digits: int) -> str:
    if names:
        return names.get(value, "-")
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


# ---------------------------------------------------------------- layout


def _one_configuration(part: xr.Dataset, columns: Sequence[str]) -> Iterator[str]:
    """A line per number: name, value, unit, meaning."""
    variables = [part[name] for name in columns]
    rows = [
        (name, _text(v.item(), flag_names(v), 8), str(v.attrs.get("units", "1")), str(v.attrs.get("long_name", "")))
        for name, v in zip(columns, variables, strict=True)
    ]
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(3)]
    for *cells, meaning in rows:
        yield "  ".join([*(c.ljust(w) for c, w in zip(cells, widths, strict=True)), meaning]).rstrip()


def _fitting(cells: Sequence[Sequence[str]], width: int | None, least: int) -> int:
    """How many columns fit; the parameters and one outcome always do."""
    if width is None:
        return len(cells)
    ends = np.cumsum([max(map(len, column)) + 2 for column in cells]) - 2
    return max(int(np.count_nonzero(ends <= width)), min(least, len(cells)))


def _aligned(variable: xr.DataArray, cells: Sequence[str]) -> list[str]:
    """Pad a column: numbers to the right, names to the left."""
    width = max(map(len, cells))
    number = np.issubdtype(variable.dtype, np.number) and not flag_names(variable)
    return [cell.rjust(width) if number else cell.ljust(width) for cell in cells]
