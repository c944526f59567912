"""The layouts of the papers by name, and those that users bring in a file."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jaxcontact.errors import InputError, unknown
from jaxcontact.models.layout import KINDS, OPTIONAL, Layout, fields_of, make_layout

# ---------------------------------------------------------------- layouts of the papers

# Foot Table 2: segment, x and z of the centre, radius (mm); all on the midline.
_NINE = (
    ("foot", -94.70, -15.34, 30.81),
    ("foot", -94.70, -15.89, 39.53),
    ("foot", -75.20, -22.89, 31.10),
    ("foot", 0.00, -25.89, 15.10),
    ("foot", 26.97, -32.36, 12.94),
    ("foot", 56.09, -34.52, 15.10),
    ("toes", -22.70, -15.10, 12.94),
    ("toes", 0.00, -17.26, 10.78),
    ("toes", 21.60, -12.94, 10.79),
)
NINE_SPHERES = make_layout(
    "nine_spheres",
    "sphere",
    "Foot Table 2",
    [{"segment": s, "x": x / 1e3, "z": z / 1e3, "radius": r / 1e3} for s, x, z, r in _NINE],
)

# Where the joint of the toes and the centre of mass of the toes lie, from the centre of mass of the main foot (m). Not
# printed; chosen so that the foot is 0.258 m long (0.152 of a height of 1.70 m, Winter 1990), and flat under ball and
# toes.
TOE_JOINT = (0.070, -0.027)
TOE_CENTRE = (0.022, 0.005)  # from the joint of the toes

# The sole's outline in the neutral foot: x and z (mm) from the centre of mass of the main foot. It joins the lowest
# points of the nine spheres and rounds off heel and tip.
_SOLE = (
    (-134.0, -20.0),
    (-130.0, -34.0),
    (-118.0, -48.0),
    (-95.0, -55.4),
    (-75.0, -54.0),
    (-35.0, -46.0),
    (0.0, -41.0),
    (27.0, -45.3),
    (56.0, -49.6),
    (69.3, -50.0),
    (92.0, -50.0),
    (113.6, -45.7),
    (121.2, -42.6),
    (124.0, -37.8),
)


def sole_height(x: float) -> float:
    """Height (m) of the neutral sole at x (m), from the main foot's centre of mass: straight between given places."""
    for (x0, z0), (x1, z1) in zip(_SOLE, _SOLE[1:], strict=False):
        if x * 1e3 <= x1:
            return (z0 + (z1 - z0) * (x * 1e3 - x0) / (x1 - x0)) / 1e3
    return _SOLE[-1][1] / 1e3


def _under_the_sole(x: float) -> dict[str, Any]:
    """Segment and place of a point of the sole."""
    toes = (TOE_JOINT[0] + TOE_CENTRE[0], TOE_JOINT[1] + TOE_CENTRE[1])
    if x > TOE_JOINT[0]:
        return {"segment": "toes", "x": x - toes[0], "z": sole_height(x) - toes[1]}
    return {"segment": "foot", "x": x, "z": sole_height(x)}


_POINTS = 31
_LENGTH = (_SOLE[0][0] / 1e3, _SOLE[-1][0] / 1e3)
POINTS_31 = make_layout(
    "points_31",
    "point",
    "ours: 31 points along the sole (Lopes section 2.4; their places are not printed)",
    [
        _under_the_sole(_LENGTH[0] + (_LENGTH[1] - _LENGTH[0]) * i / (_POINTS - 1)) | {"weight": 9.0 / _POINTS}
        for i in range(_POINTS)
    ],
)

# Six ellipsoids inside the sole, two of them at the heel (Lopes section 2.4, Fig. 2b; sizes and places are not
# printed): x of the centre, semi-axes along and upwards (mm). Half the width of the foot each way.
_SIX = (
    (-99.0, 35.0, 32.0),
    (-72.0, 32.0, 24.0),
    (0.0, 40.0, 14.0),
    (35.0, 26.0, 14.0),
    (60.0, 22.0, 14.0),
    (94.0, 28.0, 12.0),
)


def _ellipsoid(x: float, a: float, c: float) -> dict[str, Any]:
    place = _under_the_sole(x / 1e3)
    return place | {"z": place["z"] + c / 1e3, "a": a / 1e3, "b": 0.03, "c": c / 1e3, "weight": 1.5}


ELLIPSOIDS_6 = make_layout(
    "ellipsoids_6",
    "ellipsoid",
    "ours: six ellipsoids inside the sole (Lopes section 2.4; sizes and places are not printed)",
    [_ellipsoid(*each) for each in _SIX],
)

# Rolling Table 2: heel, metatarsus and tip of the toes. Radii, stiffness, restitution and friction are printed; places
# follow from its foot of 0.182 m and toe of 0.05 m, laid under our sole. Weight, damping and friction are relative to
# the heel's: k 6.5e5 and 1e9, 1 - e 0.6 and 0.8, mu 0.5 and 0.9.
_STIFFER, _LOSSIER, _GRIPPIER = 1.0e9 / 6.5e5, 0.8 / 0.6, 0.9 / 0.5


def _sphere(x: float, radius: float, **shares: float) -> dict[str, Any]:
    place = _under_the_sole(x)
    return place | {"z": place["z"] + radius, "radius": radius, **shares}


THREE_SPHERES = make_layout(
    "three_spheres",
    "sphere",
    "Rolling Table 2; places ours",
    [
        _sphere(-0.095, 0.025),
        _sphere(0.062, 0.029, weight=_STIFFER, damping=_LOSSIER, friction=_GRIPPIER),
        _sphere(0.101, 0.023, weight=_STIFFER, damping=_LOSSIER, friction=_GRIPPIER),
    ],
)

LAYOUTS: dict[str, Layout] = {each.name: each for each in (NINE_SPHERES, POINTS_31, ELLIPSOIDS_6, THREE_SPHERES)}


# ---------------------------------------------------------------- layouts of users


def get_layout(name: str) -> Layout:
    """The layout of that name, or, if it ends in .csv, in that file."""
    if name.endswith(".csv"):
        return read_layout(name)
    if name not in LAYOUTS:
        raise unknown("layout", name, [*LAYOUTS, "or a file whose name ends in .csv"])
    return LAYOUTS[name]


def read_layout(path: str | Path) -> Layout:
    """Read a layout from CSV: a header, then a line per element.

    Columns: x, z, and for spheres radius, for ellipsoids a, b, c, for superellipsoids also e1, e2; segment (foot, toes)
    if not all are under the main foot; y, weight, damping, friction if they differ from 0, 1, 1, 1. Metres, unless the
    header says `x [mm]` or `x [cm]`. The columns tell the kind.
    """
    path = Path(path)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            lines = [(reader.line_num, line) for line in reader if any(cell.strip() for cell in line)]
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    if len(lines) < 2:
        raise InputError(f"{path}: a header and at least one element are needed")
    columns = [_column(cell, path) for cell in lines[0][1]]
    kind = _kind([name for name, _ in columns], path)
    rows = [_row(columns, line, path, number) for number, line in lines[1:]]
    return make_layout(str(path), kind, f"file {path.name}", rows)


def _kind(names: Sequence[str], path: Path) -> str:
    """The kind that has these columns: none doubled, none missing, none that the kind does not have."""
    telling = {"e1": "superellipsoid", "e2": "superellipsoid", "a": "ellipsoid", "b": "ellipsoid", "c": "ellipsoid"}
    kind = next((kind for column, kind in (telling | {"radius": "sphere"}).items() if column in names), "point")
    fields = [field for field, *_ in fields_of(kind)]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{path}: column {name} is there twice")
        if name != "segment" and name not in fields:
            raise unknown("column", name, ["segment", *fields], f"{path}, which describes {kind}s")
    for needed in fields:
        if needed not in names and needed not in OPTIONAL:
            raise InputError(
                f"{path}: column {needed} is missing for a layout of {kind}s\nthere are: {', '.join(names)}"
            )
    return kind


def _column(cell: str, path: Path) -> tuple[str, float]:
    """Name of a column, and its factor to metres or to a number without unit."""
    name, _, unit = cell.strip().partition("[")
    name, unit = name.strip(), unit.rstrip("] ")
    units = {field: unit for kind in KINDS for field, unit, *_ in fields_of(kind)} | {"segment": ""}
    if name not in units:
        raise unknown("column", name, units, str(path))
    factors = {"m": 1.0, "cm": 1e-2, "mm": 1e-3} if units[name] == "m" else {"1": 1.0}
    if unit and unit not in factors:
        raise unknown("unit", unit, factors, f"{path}, column {name}")
    return name, factors.get(unit, 1.0)


def _row(columns: Sequence[tuple[str, float]], line: Sequence[str], path: Path, number: int) -> dict[str, Any]:
    if len(line) != len(columns):
        raise InputError(f"{path}, line {number}: {len(line)} values for {len(columns)} columns")
    row: dict[str, Any] = {}
    for (name, factor), cell in zip(columns, line, strict=True):
        if name == "segment":
            row[name] = cell.strip()
            continue
        try:
            row[name] = float(cell) * factor
        except ValueError:
            raise InputError(f"{path}, line {number}: {name} = {cell.strip()!r} is not a number") from None
    return row
