"""OpenSim storage files (.mot, .sto) that hold ground reaction forces: force, point of application and torque.

The header is `name`, then `key=value` or `key value` lines up to `endheader`; the columns follow. Directions are
OpenSim's: x forward, y up, z right, in N, m and N m; `recording.AXES` turns them into ours.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from jaxcontact.errors import InputError
from jaxcontact.measured.recording import PlateSignal
from jaxcontact.measured.textfile import Rows, check_time, check_widths, even_clock, numbers, read_lines

SCHEMES = "ground_force_r_vx, ground_force_vx, 1_ground_force_vx or ground_force_1_vx"
_FORCE = re.compile(r"^(.*)force(.*?)_?v([xyz])$", re.IGNORECASE)
_POINT = re.compile(r"^(.*)force(.*?)_?p([xyz])$", re.IGNORECASE)
_TORQUE = re.compile(r"^(.*)(?:torque|moment)(.*?)_?m?([xyz])$", re.IGNORECASE)
FAR_FROM_COP = 5e-3  # m
_ROWS, _COLUMNS = ("nrows", "datarows"), ("ncolumns", "datacolumns")


@dataclass(frozen=True)
class Storage:
    """A storage file: its clock (s) and its other columns by name."""

    path: Path
    time: np.ndarray
    columns: dict[str, np.ndarray]


def read_storage(path: Path) -> Storage:
    """Read a storage file; one with fewer or more rows or columns than its header says is refused."""
    lines = read_lines(path)
    end = next((i for i, line in enumerate(lines) if line.strip().lower() == "endheader"), None)
    if end is None or end + 1 >= len(lines):
        raise InputError(f"{path}: there is nothing below 'endheader'; the file is cut short, or no OpenSim storage")
    header = _header(lines[:end])
    if header.get("datatype", "double").lower() not in ("double", ""):
        raise InputError(f"{path}: columns of {header['datatype']} are not read; export it with one number a column")
    names = tuple(cell.strip() for cell in lines[end + 1].split("\t" if "\t" in lines[end + 1] else None))
    while names and not names[-1]:
        names = names[:-1]
    found = [(i + 1, line) for i, line in enumerate(lines) if i > end + 1 and line.strip()]
    cells = tuple(_cells(line, len(names)) for _, line in found)
    rows = Rows(path, names, cells, tuple(number for number, _ in found))
    _check_header(path, header, rows)
    check_widths(rows)
    if not names or names[0].lower() != "time":
        raise InputError(f"{path}: the first column must be 'time', not '{names[0] if names else ''}'")
    values = numbers(rows)
    check_time(values[:, 0], rows.lines, path)
    time = even_clock(values[:, 0], [row[0] for row in cells])
    return Storage(path, time, {name: values[:, i] for i, name in enumerate(names) if i > 0})


def _header(lines: list[str]) -> dict[str, str]:
    """Return what the header says, by key in small letters; the first line is a name."""
    found = {}
    for line in lines:
        parts = re.split(r"[=\s]+", line.strip(), maxsplit=1)
        if len(parts) == 2:
            found[parts[0].lower()] = parts[1].strip()
    return found


def _cells(line: str, width: int) -> tuple[str, ...]:
    """Return the cells of a line: between tabs, where blanks count, or between spaces."""
    cells = line.split("\t") if "\t" in line else line.split()
    while len(cells) > width and not cells[-1].strip():
        cells.pop()
    return tuple(cells)


def _check_header(path: Path, header: dict[str, str], rows: Rows) -> None:
    for keys, count, what in ((_ROWS, len(rows.cells), "rows"), (_COLUMNS, len(rows.names), "columns")):
        said = next((header[key] for key in keys if key in header), None)
        if said is None:
            continue
        if not said.isdigit():
            raise InputError(f"{path}: the header says {said!r} {what}; a whole number is needed")
        if int(said) != count:
            cut = "; the file seems to be cut short" if count < int(said) else ""
            raise InputError(f"{path}: the header says {said} {what}, but there are {count}{cut}")


# ---------------------------------------------------------------- forces


def plate_signals(storage: Storage, turn: np.ndarray) -> tuple[PlateSignal, ...]:
    """Return the forces on each foot or plate, turned by the 3 x 3 matrix `turn` from the file's axes to ours.

    A point of application is trusted only under load, so that zeros, NaN and huge values without load do no harm.
    """
    groups = _groups(tuple(storage.columns))
    if not groups:
        raise InputError(
            f"{storage.path}: no ground forces found; columns like {SCHEMES} are needed\n"
            f"the columns are: {', '.join(storage.columns)}"
        )
    return tuple(_plate(storage, stem, columns, turn) for stem, columns in groups.items())


def torque_notes(storage: Storage, turn: np.ndarray, load: float) -> tuple[str, ...]:
    """Say where a point of application is not the CoP: a torque about an axis in the floor acts under load (N)."""
    notes = []
    for stem, columns in _groups(tuple(storage.columns)).items():
        if not all(kind + letter in columns for kind in "vt" for letter in "xyz"):
            continue
        force, torque = (
            np.stack([storage.columns[columns[kind + letter]] for letter in "xyz"], axis=1) @ turn.T for kind in "vt"
        )
        loaded = force[:, 2] >= load
        aside = np.linalg.norm(torque[loaded, :2], axis=1) / force[loaded, 2]  # m, from there to the CoP
        if len(aside) and np.nanmax(aside) > FAR_FROM_COP:
            share = 100 * np.mean(aside > FAR_FROM_COP)
            notes.append(
                f"{stem.replace('*', 'force').strip('_')}: the file's torques put the CoP up to "
                f"{1e3 * np.nanmax(aside):.0f} mm from its point of application ({share:.0f} % of the loaded samples "
                "are off by more than 5 mm); the point is taken as the CoP"
            )
    return tuple(notes)


def _groups(names: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """Return, for each force, the columns that belong to it by 'vx' ... 'pz', 'tx' ... 'tz'."""
    groups: dict[str, dict[str, str]] = {}
    for pattern, kind in ((_FORCE, "v"), (_POINT, "p"), (_TORQUE, "t")):
        for name in names:
            if match := pattern.match(name):
                stem = f"{match[1]}*{match[2]}".lower()
                groups.setdefault(stem, {})[kind + match[3].lower()] = name
    return {stem: found for stem, found in groups.items() if {"vx", "vy", "vz"} & found.keys()}


def _plate(storage: Storage, stem: str, columns: dict[str, str], turn: np.ndarray) -> PlateSignal:
    label = stem.replace("*", "force")
    needed = ["vx", "vy", "vz", "px", "py", "pz"]
    if missing := [key for key in needed if key not in columns]:
        kinds = {"v": "force", "p": "point of application"}
        words = ", ".join(f"{kinds[key[0]]} {key[1]}" for key in missing)
        raise InputError(f"{storage.path}: '{label}' has no column for: {words}")

    def vector(kind: str) -> np.ndarray:
        zero = np.zeros(len(storage.time))
        parts = [storage.columns[columns[kind + c]] if kind + c in columns else zero for c in "xyz"]
        return np.stack(parts, axis=1) @ turn.T

    free = vector("t")[:, 2]
    return PlateSignal(
        name=label.strip("_"),
        side=_side(stem),
        force=vector("v"),
        cop=vector("p"),
        free_moment=np.where(np.isnan(free), 0.0, free),
    )


def _side(stem: str) -> str:
    words = re.split(r"[_*.\s]+", stem)
    for side, spellings in (("R", {"r", "right"}), ("L", {"l", "left"})):
        if spellings & set(words):
            return side
    return ""
