"""Two small tables about the heel: windows of force and compression after heel strike, and energy lost in heel pads."""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from jaxcontact.errors import InputError
from jaxcontact.measured.textfile import Rows, check_kind, check_time, check_widths, numbers, read_lines

_LABELS = ("subject", "trial", "speed", "mass_kg")
_SERIES = ("t", "Fx", "Fy", "Fz", "CoPx", "CoPy", "heel_x", "heel_y", "heel_z", "heel_vz")
_SERIES += ("compression", "compression_10N", "shank_pitch")


@dataclass(frozen=True, eq=False)
class HeelStrike:
    """The first moments of one heel strike. Axes as for a stance; NaN nowhere.

    `compression` of the heel counts from t = 0 and `compression_10n` from the moment when the load reaches 10 N, both
    positive when it is squeezed; foot and ankle are in it too, so it describes the heel for 20 to 30 ms only.
    """

    subject: str
    trial: str
    speed: str
    mass: float  # kg
    time: np.ndarray  # s, since contact
    force: np.ndarray  # N, (rows, 3)
    cop: np.ndarray  # m, (rows, 2); 0 where not valid
    cop_valid: np.ndarray
    heel: np.ndarray  # m, (rows, 3)
    heel_rise: np.ndarray  # m/s, upwards
    compression: np.ndarray  # m
    compression_10n: np.ndarray  # m
    shank_pitch: np.ndarray  # rad


@dataclass(frozen=True, eq=False)
class HeelPads:
    """Energy lost in an impact on the heel pad (J), and its greatest compression (m), one pair an impact."""

    energy_loss: np.ndarray
    compression: np.ndarray


def read_heel_strikes(path: Path) -> list[HeelStrike]:
    """Read windows after heel strike, one for each subject and trial."""
    rows = _table(path, (*_LABELS, *_SERIES))
    places: dict[tuple[str, ...], list[int]] = {}
    for i, row in enumerate(rows.cells):
        places.setdefault(tuple(row[rows.names.index(label)].strip() for label in _LABELS), []).append(i)
    values = numbers(rows, [rows.names.index(name) for name in _SERIES])
    masses = numbers(rows, [rows.names.index("mass_kg")])[:, 0]
    found = []
    for (subject, trial, speed, _), chosen in places.items():
        column = dict(zip(_SERIES, values[chosen].T, strict=True))
        lines = [rows.lines[i] for i in chosen]
        check_time(column["t"], lines, path)
        for name in _SERIES:
            if not name.startswith("CoP") and np.any(np.isnan(column[name])):
                raise InputError(f"{path}, line {lines[int(np.argmax(np.isnan(column[name])))]}: {name} is blank")
        cop = np.stack([column["CoPx"], column["CoPy"]], axis=1)
        valid = np.all(np.isfinite(cop), axis=1)
        found.append(
            HeelStrike(
                subject=subject,
                trial=trial,
                speed=speed,
                mass=float(masses[chosen[0]]),
                time=column["t"],
                force=np.stack([column[name] for name in ("Fx", "Fy", "Fz")], axis=1),
                cop=np.where(valid[:, None], cop, 0.0),
                cop_valid=valid,
                heel=np.stack([column[name] for name in ("heel_x", "heel_y", "heel_z")], axis=1),
                heel_rise=column["heel_vz"],
                compression=column["compression"],
                compression_10n=column["compression_10N"],
                shank_pitch=column["shank_pitch"],
            )
        )
    return found


def read_heel_pads(path: Path) -> HeelPads:
    """Read pairs of energy loss and greatest compression."""
    names = ("energy_loss_J", "max_compression_m")
    rows = _table(path, names)
    values = numbers(rows, [rows.names.index(name) for name in names])
    if np.any(np.isnan(values)):
        raise InputError(f"{path}, line {rows.lines[int(np.argwhere(np.isnan(values))[0, 0])]}: a number is missing")
    return HeelPads(values[:, 0], values[:, 1])


def _table(path: Path, needed: tuple[str, ...]) -> Rows:
    check_kind(path)
    found = [(i + 1, row) for i, row in enumerate(csv.reader(read_lines(path))) if any(cell.strip() for cell in row)]
    names = tuple(cell.strip() for cell in found[0][1])
    if missing := [name for name in needed if name not in names]:
        raise InputError(f"{path}: columns are missing: {', '.join(missing)}\nthe columns are: {', '.join(names)}")
    if len(found) < 2:
        raise InputError(f"{path}: there are no rows below the column names")
    rows = Rows(path, names, tuple(tuple(row) for _, row in found[1:]), tuple(line for line, _ in found[1:]))
    check_widths(rows)
    return rows
