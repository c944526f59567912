"""What every reader hands on: forces on plates and places of markers over a whole trial, z up, in SI units.

Forward may still point anywhere: `assemble` turns the trial so that x is forward, and cuts stances out of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from jaxcontact.errors import InputError

OPENSIM_AXES = "x,-z,y"  # ours in terms of the file's, whose y is up and z to the right
OUR_AXES = "x,y,z"


@dataclass(frozen=True, eq=False)
class PlateSignal:
    """What one plate, or the one foot on it, measured: force of the ground on the foot (N), CoP (m), free moment (N m).

    `side` is R, L or empty where the file does not say. `corners` (4, 3) are there if the file says where the plate is.
    """

    name: str
    side: str
    force: np.ndarray
    cop: np.ndarray
    free_moment: np.ndarray
    corners: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Recording:
    """One trial: plates on their clock, markers on that of the cameras, NaN where a marker was not seen.

    `roles` says for each side which markers are its heel, mtp and so on; empty means that names have to be guessed.
    """

    files: tuple[str, ...]
    time: np.ndarray
    plates: tuple[PlateSignal, ...]
    marker_time: np.ndarray
    markers: Mapping[str, np.ndarray]
    axes: str
    mass: float | None = None
    mass_source: str = ""
    roles: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    forward: str = "auto"  # what the format itself says of it
    notes: tuple[str, ...] = ()


def turn_from_axes(axes: str) -> np.ndarray:
    """Return the matrix from a file's directions to ours; "x,-z,y" means that our y is the file's z reversed."""
    words = [word.strip().lower() for word in axes.split(",")]
    turn = np.zeros((3, 3))
    for row, word in enumerate(words[:3]):
        letter = word.lstrip("+-")
        if letter in ("x", "y", "z"):
            turn[row, "xyz".index(letter)] = -1.0 if word.startswith("-") else 1.0
    if len(words) != 3 or abs(np.linalg.det(turn)) != 1:
        raise InputError(
            f"axes = {axes!r}: three of the file's axes are needed, for forward, left and up, as in {OPENSIM_AXES}"
        )
    if np.linalg.det(turn) < 0:
        raise InputError(f"axes = {axes!r} turns a right hand into a left one: change one sign")
    return turn


def axes_with_up(axis: int, sign: float) -> str:
    """Return right-handed axes whose third is the file's axis number `axis`, upwards if `sign` is positive."""
    if sign > 0:
        return ("y,z,x", OPENSIM_AXES, OUR_AXES)[axis]
    return ("y,-z,-x", "x,z,-y", "x,-y,-z")[axis]


def heading_turn(angle: float) -> np.ndarray:
    """Return the matrix to a frame whose x axis points along `angle` (rad, anticlockwise from above)."""
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]])
