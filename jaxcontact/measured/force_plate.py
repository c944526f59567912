"""The channels of a force plate -> force, centre of pressure and free moment where its surface is.

Types 2, 3 and 4 of the C3D format (C3D user guide, FORCE_PLATFORM:TYPE, CHANNEL, ORIGIN, CORNERS, CAL_MATRIX):

    2   Fx Fy Fz Mx My Mz, force and moment about the origin of the sensors
    3   Fx12 Fx34 Fy14 Fy23 Fz1 Fz2 Fz3 Fz4, eight forces of four corners with sensors at (+-a, +-b)
    4   like 2, but the matrix CAL_MATRIX makes forces and moments of the six channels

The plate's own axes follow from its corners, which are at +x+y, -x+y, -x-y, +x-y of them; in the usual right-handed
order z points into the floor. ORIGIN leads from the origin of the sensors to the middle of the surface, so that its z
is negative; of type 3 it is (a, b, depth). A positive z is the known mistake of giving the vector the other way round
(its reading then is that of Visual3D and ezc3d: reverse it; for type 3 only the depth, as a and b are distances).

With r = ORIGIN, moment about the middle of the surface = M - r x F; nothing turns a foot about the axes in the
surface, so CoP = (-My, Mx) / Fz and free moment = Mz - (x Fy - y Fx), all on the surface.
"""

from dataclasses import dataclass

import numpy as np

from jaxcontact.errors import InputError

CHANNELS = {2: 6, 3: 8, 4: 6}
LEAST_LOAD = 1.0  # N, below which a quotient by the load is not even computed


@dataclass(frozen=True, eq=False)
class Plate:
    """Where a plate is and how its channels are to be read. Lengths in m, in the file's axes and the plate's own."""

    kind: int
    corners: np.ndarray  # (4, 3), in the file's axes
    origin: np.ndarray  # (3,), in the plate's axes
    calibration: np.ndarray  # (6, 6), used by type 4

    def __post_init__(self) -> None:
        if self.kind not in CHANNELS:
            raise InputError(f"force plate of type {self.kind} is not known\nallowed: {', '.join(map(str, CHANNELS))}")
        sides = self.corners[0] - self.corners[1], self.corners[0] - self.corners[3]
        if np.linalg.norm(np.cross(*sides)) < 1e-4:
            raise InputError("the corners of a force plate do not span a surface")

    @property
    def axes(self) -> np.ndarray:
        """The plate's axes as columns, in the file's."""
        along_x = self.corners[0] - self.corners[1]
        normal = np.cross(along_x, self.corners[0] - self.corners[3])
        x, z = along_x / np.linalg.norm(along_x), normal / np.linalg.norm(normal)
        return np.stack([x, np.cross(z, x), z], axis=1)

    @property
    def middle(self) -> np.ndarray:
        """The middle of the surface, in the file's axes."""
        return self.corners.mean(axis=0)


def to_surface(origin: np.ndarray, kind: int) -> tuple[np.ndarray, bool]:
    """Return ORIGIN the right way round, from the sensors to the surface, and whether it had to be reversed."""
    if origin[2] <= 0:
        return origin, False
    return (origin * [1, 1, -1] if kind == 3 else -origin), True


def wrench(plate: Plate, channels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return force and moment about the middle of the surface, in the plate's axes, of channels (samples, 6 or 8)."""
    if plate.kind == 3:
        x12, x34, y14, y23, z1, z2, z3, z4 = channels.T
        a, b = np.abs(plate.origin[:2])
        force = np.stack([x12 + x34, y14 + y23, z1 + z2 + z3 + z4], axis=1)
        moment = np.stack(
            [b * (z1 + z2 - z3 - z4), a * (-z1 + z2 + z3 - z4), b * (x34 - x12) + a * (y14 - y23)], axis=1
        )
        lever = np.array([0.0, 0.0, plate.origin[2]])
    else:
        values = channels @ plate.calibration.T if plate.kind == 4 else channels
        force, moment = values[:, :3], values[:, 3:6]
        lever = plate.origin
    return force, moment - np.cross(lever, force)


def surface_load(plate: Plate, channels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return force (samples, 3), CoP (samples, 3) and free moment (samples,) about the plate's z, in the file's axes.

    Whether a plate's signals are the force on the plate or that on the foot is not told by any parameter. The CoP is
    the same for both. Without load the CoP is the middle of the surface, and means nothing.
    """
    force, moment = wrench(plate, channels)
    loaded = np.abs(force[:, 2]) > LEAST_LOAD
    load = np.where(loaded, force[:, 2], 1.0)
    x = np.where(loaded, -moment[:, 1] / load, 0.0)
    y = np.where(loaded, moment[:, 0] / load, 0.0)
    free = np.where(loaded, moment[:, 2] - (x * force[:, 1] - y * force[:, 0]), 0.0)
    place = plate.middle + np.stack([x, y, np.zeros_like(x)], axis=1) @ plate.axes.T
    return force @ plate.axes.T, place, free
