"""TRC files: marker positions over time, with blank cells where a marker was not seen."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from jaxcontact.errors import InputError
from jaxcontact.measured.textfile import Rows, check_time, even_clock, numbers, read_lines

LENGTHS = {"mm": 1e-3, "cm": 1e-2, "m": 1.0, "meters": 1.0}


@dataclass(frozen=True)
class Trc:
    """Camera clock (s) and markers (m, in the file's axes), NaN where a marker was not seen."""

    path: Path
    time: np.ndarray
    markers: dict[str, np.ndarray]


def read_trc(path: Path) -> Trc:
    """Read a TRC file; one with fewer or more frames or markers than its header says is refused."""
    lines = read_lines(path)
    if len(lines) < 6:
        raise InputError(f"{path}: {len(lines)} lines; the file is cut short in its header")
    header = dict(zip((key.lower() for key in lines[1].split()), lines[2].split(), strict=False))
    names = _marker_names(path, lines[3])
    columns = ["Frame#", "Time", *(f"{name} {c}" for name in names for c in "XYZ")]
    found = [(i + 1, line) for i, line in enumerate(lines) if i > 4 and line.strip()]
    whole = lines[-1].strip() == "" or _ends_with_newline(path)
    cells = tuple(_cells(line, len(columns), whole or i < len(found) - 1) for i, (_, line) in enumerate(found))
    rows = Rows(path, tuple(columns), cells, tuple(number for number, _ in found))
    for row, line in zip(cells, rows.lines, strict=True):
        if len(row) != len(columns):
            cut = ": the file seems to be cut short" if line == rows.lines[-1] else ""
            raise InputError(
                f"{path}, line {line}: {len(row)} cells, but {len(names)} markers need {len(columns)}{cut}"
            )
    _check_count(path, header, "numframes", len(cells), "frames")
    _check_count(path, header, "nummarkers", len(names), "markers")
    unit = header.get("units", "")
    if unit.lower() not in LENGTHS:
        raise InputError(f"{path}: unit of length {unit!r} is not known\nallowed: {', '.join(LENGTHS)}")
    values = numbers(rows)
    check_time(values[:, 1], rows.lines, path)
    rate = _rate(header)
    time = even_clock(values[:, 1], [row[1] for row in cells], rate)
    places = values[:, 2:].reshape(len(values), len(names), 3) * LENGTHS[unit.lower()]
    lost = np.any(np.isnan(places), axis=2) | np.all(places == 0, axis=2)  # many programs write 0, 0, 0 for a gap
    places[lost] = np.nan
    return Trc(path, time, {name: places[:, i] for i, name in enumerate(names)})


def _marker_names(path: Path, line: str) -> list[str]:
    cells = [cell.strip() for cell in line.split("\t")]
    if not cells or not cells[0].lower().startswith("frame"):
        raise InputError(f"{path}, line 4: the marker names must stand here, after 'Frame#' and 'Time'")
    names = [cell for cell in cells[2:] if cell]
    if double := {name for name in names if names.count(name) > 1}:
        raise InputError(f"{path}, line 4: the marker '{sorted(double)[0]}' is there more than once")
    if not names:
        raise InputError(f"{path}, line 4: there are no markers")
    return names


def _cells(line: str, width: int, complete: bool) -> tuple[str, ...]:
    """Return the cells of a line. Editors drop tabs at its end, which stood for markers that were not seen."""
    cells = line.split("\t") if "\t" in line else line.split()
    while len(cells) > width and not cells[-1].strip():
        cells.pop()
    short = width - len(cells)
    if complete and 0 < short and short % 3 == 0 and len(cells) >= 2:
        cells += [""] * short
    return tuple(cells)


def _ends_with_newline(path: Path) -> bool:
    return path.read_bytes()[-1:] in (b"\n", b"\r")


def _check_count(path: Path, header: dict[str, str], key: str, count: int, what: str) -> None:
    said = header.get(key, "")
    if said.isdigit() and int(said) != count:
        cut = "; the file seems to be cut short" if count < int(said) else ""
        raise InputError(f"{path}: the header says {said} {what}, but there are {count}{cut}")


def _rate(header: dict[str, str]) -> float | None:
    try:
        rate = float(header.get("datarate", ""))
    except ValueError:
        return None
    return rate if rate > 0 else None
