"""The columns of the tidy table of stances: their meaning and unit, and the units that a file may use instead."""

import re
from collections.abc import Mapping

from jaxcontact.errors import InputError

# What a table of one's own needs; a foot needs markers for its ball too: mtp, or mt1 and mt5, or mt2, or toe.
NEEDED = ("time", "Fx", "Fy", "Fz", "CoPx", "CoPy", "heel_x", "heel_y", "heel_z")
BALL = "mtp_x, mtp_y, mtp_z (or mt1_* with mt5_*, or mt2_*, or toe_*)"
FLAGS = ("in_stance", "marker_frame", "cop_valid")
TEXTS = ("stance", "side")
ROLE_ORDER = ("heel", "mtp", "mt1", "mt2", "mt5", "toe", "ankle", "midlat", "midsup")

# name -> unit, meaning
QUANTITIES: Mapping[str, tuple[str, str]] = {
    "time": ("s", "time"),
    "t_stance": ("s", "time since touch-down"),
    "phase": ("1", "phase of stance"),
    "in_stance": ("1", "load above the threshold"),
    "marker_frame": ("1", "a camera frame falls here"),
    "foot_pitch": ("rad", "foot pitch, 0 at foot-flat, + heel up"),
    "foot_pitch_raw": ("rad", "pitch of heel to mtp below the horizontal"),
    "Fx": ("N", "force of the ground, forward"),
    "Fy": ("N", "force of the ground, to the left"),
    "Fz": ("N", "force of the ground, up"),
    "CoPx": ("m", "centre of pressure, forward"),
    "CoPy": ("m", "centre of pressure, to the left"),
    "CoPz": ("m", "centre of pressure, up"),
    "Tz": ("N m", "free moment"),
    "cop_valid": ("1", "load that carries a centre of pressure"),
    "cop_along": ("m", "CoP in front of the heel marker's foot-flat place"),
    "cop_lat": ("m", "CoP to the left of the heel marker's foot-flat place"),
    "cop_foot_x": ("m", "CoP along the foot, in its pitching frame"),
    "cop_foot_z": ("m", "CoP above the heel marker, in the foot's pitching frame"),
}

_FACTORS: Mapping[str, Mapping[str, float]] = {
    "s": {"s": 1.0, "ms": 1e-3},
    "m": {"m": 1.0, "cm": 1e-2, "mm": 1e-3},
    "N": {"N": 1.0, "kN": 1e3},
    "N m": {"N m": 1.0, "Nm": 1.0, "N cm": 1e-2, "N mm": 1e-3, "Nmm": 1e-3},
    "rad": {"rad": 1.0, "deg": 0.017453292519943295},
    "1": {"1": 1.0},
}
_HEADING = re.compile(r"^\s*([^\[]+?)\s*(?:\[([^\]]*)\])?\s*$")
_MARKER = re.compile(r"^(.+)_([xyz])$")


def split_heading(text: str, where: str) -> tuple[str, float]:
    """Return the name and the factor to SI of a heading like "heel_x [mm]"; without a unit it is in SI."""
    match = _HEADING.match(text)
    if match is None:
        raise InputError(f"{where}: the column name {text!r} is not understood; NAME or NAME[unit] is needed")
    name, unit = match[1], match[2]
    if unit is None or name in TEXTS:
        return name, 1.0
    known = _FACTORS[unit_of(name)]
    if unit.strip() not in known:
        raise InputError(f"{where}, column '{name}': unit {unit!r} is not known here\nallowed: {', '.join(known)}")
    return name, known[unit.strip()]


def unit_of(name: str) -> str:
    """Return the SI unit of a column; all others than the known ones are places of markers, or pure numbers."""
    if name in QUANTITIES:
        return QUANTITIES[name][0]
    return "m" if _MARKER.match(name) else "1"


def marker_roles(names: list[str], where: str) -> list[str]:
    """Return the roles that have columns, and refuse one that lacks a direction."""
    found: dict[str, set[str]] = {}
    for name in names:
        match = _MARKER.match(name)
        if match and name not in QUANTITIES:
            found.setdefault(match[1], set()).add(match[2])
    for role, letters in found.items():
        if missing := sorted({"x", "y", "z"} - letters):
            raise InputError(f"{where}: column '{role}_{missing[0]}' is missing beside the other directions of {role}")
    return list(found)
