"""Text files of numbers: read them whole, and say the line and the column of whatever is wrong in them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from jaxcontact.errors import InputError

# What a file of each ending holds, in words for a person.
KINDS = {
    ".csv": "a comma-separated table",
    ".mot": "an OpenSim storage file",
    ".sto": "an OpenSim storage file",
    ".trc": "a marker file of the TRC format",
    ".c3d": "a C3D file",
}


@dataclass(frozen=True)
class Rows:
    """The cells of a table below its heading, and the number of the line on which each row stands."""

    path: Path
    names: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    lines: tuple[int, ...]


def check_kind(path: Path) -> str:
    """Return the ending of a file that exists and whose contents are what its ending says."""
    ending = path.suffix.lower()
    if ending not in KINDS:
        raise InputError(f"{path}: the kind of a file is told by its ending\nallowed: {', '.join(KINDS)}")
    if not path.exists():
        raise InputError(f"there is no file {path}")
    if not path.is_file():
        raise InputError(f"{path} is not a file")
    with path.open("rb") as stream:
        start = stream.read(4096)
    if not start:
        raise InputError(f"{path} is empty")
    found = _kind_of(start)
    if found != KINDS[ending] and not (found == "" and ending == ".csv"):
        looks = f"looks like {found}" if found else f"does not begin like {KINDS[ending]}"
        raise InputError(f"{path} is named {ending} but {looks}: is it misnamed, or cut at the front?")
    return ending


def _kind_of(start: bytes) -> str:
    """Return what the first bytes say. A table of one's own has no mark, so nothing is said of it."""
    if len(start) > 1 and start[1] == 0x50 and start[0] < 0x20:
        return KINDS[".c3d"]  # the second byte is the key of the format, the first a block number
    if start.lstrip().startswith(b"PathFileType"):
        return KINDS[".trc"]
    if b"endheader" in start.lower():
        return KINDS[".mot"]
    if b"\0" in start:
        return "a binary file"
    return ""


def read_lines(path: Path) -> list[str]:
    """Return the lines of a text file, in UTF-8 or, for old exports, Latin-1."""
    data = path.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return text.splitlines()


def numbers(rows: Rows, columns: Sequence[int] | None = None) -> np.ndarray:
    """Return the cells of chosen columns as numbers, shape (rows, columns); a blank cell is NaN."""
    chosen = range(len(rows.names)) if columns is None else columns
    texts = [[row[i].strip() or "nan" for i in chosen] for row in rows.cells]
    try:
        values = np.array(texts, dtype=float).reshape(len(texts), len(chosen))
    except ValueError:
        raise _not_a_number(rows, chosen) from None
    if np.any(np.isinf(values)):
        row, column = np.argwhere(np.isinf(values))[0]
        raise InputError(_place(rows, int(row), chosen[int(column)]) + ": the value is infinite")
    return values


def check_widths(rows: Rows) -> None:
    """Refuse rows that are longer or shorter than the heading; a short last row is a file that was cut short."""
    for place, (row, line) in enumerate(zip(rows.cells, rows.lines, strict=True)):
        if len(row) != len(rows.names):
            cut = ": the file seems to be cut short" if place == len(rows.cells) - 1 else ""
            raise InputError(f"{rows.path}, line {line}: {len(row)} cells under {len(rows.names)} column names{cut}")


def check_time(time: np.ndarray, lines: Sequence[int], path: Path) -> None:
    """Refuse a clock that is blank, stands still or runs backwards, and one with a single tick."""
    if len(time) < 2:
        raise InputError(f"{path}: {len(time)} rows of numbers; a movement needs at least two")
    if np.any(np.isnan(time)):
        raise InputError(f"{path}, line {lines[int(np.argmax(np.isnan(time)))]}: the time is blank")
    if np.any(np.diff(time) <= 0):
        place = int(np.argmax(np.diff(time) <= 0)) + 1
        raise InputError(
            f"{path}, line {lines[place]}: time {time[place]:g} s does not come after {time[place - 1]:g} s"
        )


def even_clock(time: np.ndarray, texts: Sequence[str], rate: float | None = None) -> np.ndarray:
    """Return the evenly spaced clock of which `time` is the rounded print, or `time` itself if it is no such thing.

    A 600 Hz clock printed to 0.1 ms ticks by 1.6 and 1.7 ms; velocities from that would be wrong by 2 %. A clock is
    replaced only if every printed value is within its own last digit of the even one.
    """
    digits = max((len(text.strip().partition(".")[2].rstrip("0")) for text in texts), default=0)  # 0.017000 has 3
    count = np.arange(len(time))
    step, start = np.polyfit(count, time, 1)
    last_digit = 10.0**-digits
    if digits > 6 or any("e" in text.lower() for text in texts) or last_digit > 0.3 * step:
        return time  # written in full, or so coarse that a lost frame would look like rounding
    likely = [rate] if rate else []
    likely += [each for each in (round(1 / step), round(1 / step, 2), 1 / step) if each > 0]
    for each in likely:
        for begin in (time[0], start):  # the second for programs that cut digits off instead of rounding
            even = begin + count / each
            if np.max(np.abs(even - time)) < 1e-9:
                return time  # as even as it can be written
            if np.max(np.abs(even - time)) <= 0.55 * last_digit:
                return even
    return time


def _not_a_number(rows: Rows, chosen: Sequence[int]) -> InputError:
    for place, row in enumerate(rows.cells):
        for column in chosen:
            try:
                float(row[column].strip() or "nan")
            except ValueError:
                return InputError(_place(rows, place, column) + f": {row[column].strip()!r} is not a number")
    raise AssertionError("every cell is a number")


def _place(rows: Rows, row: int, column: int) -> str:
    return f"{rows.path}, line {rows.lines[row]}, column '{rows.names[column]}'"
