"""One stance of one foot: pose, force, centre of pressure and free moment over time.

SI units, x forward, y left, z up, the floor at z = 0; forces are the ground's on the foot. The foot's frame has its
origin at the heel marker; at foot-flat its x axis points along the foot's heading and its z axis up, and it pitches
with the line from the heel to the ball (mtp): 0 at foot-flat, + with the heel up, - as at heel strike.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from jaxcontact.errors import InputError
from jaxcontact.measured.filtering import runs

GRAVITY = 9.80665  # m/s^2, between weight and mass
FLAT_WINDOW = 0.15  # of the stance


@dataclass(frozen=True)
class FootFlat:
    """How the foot lies when it is flat: pitch of heel -> mtp (rad), place of the heel marker (m), heading (rad)."""

    pitch: float
    heel: tuple[float, float]
    heading: float  # anticlockwise from x, seen from above

    @property
    def forward(self) -> np.ndarray:
        """The unit vector along the foot, in the floor."""
        return np.array([np.cos(self.heading), np.sin(self.heading)])

    @property
    def left(self) -> np.ndarray:
        """The unit vector to the left of the foot, in the floor."""
        return np.array([-np.sin(self.heading), np.cos(self.heading)])


@dataclass(frozen=True)
class Provenance:
    """Where the numbers come from, and every choice that was made on the way."""

    files: tuple[str, ...]
    plate: str = ""
    threshold: float = 20.0  # N
    cop_threshold: float = 50.0  # N
    force_filter: str = "none"
    marker_filter: str = "none"
    frame: str = "as in the file"
    belt_speed: float = 0.0  # m/s; 0 is a floor at rest
    markers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    mass: float | None = None  # kg
    mass_source: str = ""
    notes: tuple[str, ...] = ()  # what a person should know before trusting the numbers


@dataclass(frozen=True, eq=False)
class Stance:
    """A stance and a little before and after it. Arrays run over time first; see the module for axes and signs."""

    name: str
    side: str  # R, L or empty
    time: np.ndarray  # s, as in the file
    in_stance: np.ndarray  # load above the threshold
    marker_frame: np.ndarray  # a camera frame falls on this row
    markers: Mapping[str, np.ndarray]  # m, (rows, 3) by role
    force: np.ndarray  # N, (rows, 3)
    free_moment: np.ndarray  # N m, about the vertical through the CoP
    cop: np.ndarray  # m, (rows, 2); 0 where not valid
    cop_valid: np.ndarray
    flat: FootFlat
    provenance: Provenance

    def __post_init__(self) -> None:
        rows = len(self.time)
        shapes = {
            "in_stance": (rows,),
            "marker_frame": (rows,),
            "force": (rows, 3),
            "free_moment": (rows,),
            "cop": (rows, 2),
            "cop_valid": (rows,),
        }
        for name, shape in shapes.items():
            if getattr(self, name).shape != shape:
                raise InputError(f"stance {self.name}: {name} has shape {getattr(self, name).shape}, not {shape}")
        for role in ("heel", "mtp"):
            if role not in self.markers:
                raise InputError(f"stance {self.name}: there is no marker for the {role}")
        arrays = {**{name: getattr(self, name) for name in shapes}, "time": self.time, **self.markers}
        for name, values in arrays.items():
            if not np.all(np.isfinite(values)):
                raise InputError(f"stance {self.name}: {name} has values that are not numbers")
            values.setflags(write=False)
        if np.count_nonzero(self.in_stance) < 2:
            raise InputError(f"stance {self.name}: fewer than two rows are in stance")

    # ------------------------------------------------------------ clock

    @cached_property
    def touch_down(self) -> float:
        """Time (s) of the first row in stance."""
        return float(self.time[np.argmax(self.in_stance)])

    @cached_property
    def duration(self) -> float:
        """Stance time (s), from the first to the last row in stance."""
        return float(self.time[self.in_stance][-1] - self.touch_down)

    @property
    def since_touch_down(self) -> np.ndarray:
        """Time since touch-down (s)."""
        return self.time - self.touch_down

    @property
    def phase(self) -> np.ndarray:
        """0 at touch-down, 1 at the last row in stance."""
        return self.since_touch_down / self.duration

    # ------------------------------------------------------------ pose

    @cached_property
    def pitch_raw(self) -> np.ndarray:
        """Pitch (rad) of the line heel -> mtp below the horizontal, in the vertical plane along the foot."""
        return raw_pitch(self.markers["heel"], self.markers["mtp"], self.flat.heading)

    @property
    def pitch(self) -> np.ndarray:
        """Pitch of the foot (rad): 0 at foot-flat, + with the heel up."""
        return self.pitch_raw - self.flat.pitch

    @property
    def foot_position(self) -> np.ndarray:
        """Origin of the foot's frame (m): the heel marker."""
        return self.markers["heel"]

    # ------------------------------------------------------------ centre of pressure

    @cached_property
    def cop_along(self) -> np.ndarray:
        """CoP (m) in front of the heel marker's place at foot-flat, along the foot; 0 where not valid."""
        return np.where(self.cop_valid, (self.cop - self.flat.heel) @ self.flat.forward, 0.0)

    @cached_property
    def cop_left(self) -> np.ndarray:
        """CoP (m) to the left of the line along the foot through the heel marker's place; 0 where not valid."""
        return np.where(self.cop_valid, (self.cop - self.flat.heel) @ self.flat.left, 0.0)

    @cached_property
    def cop_in_foot(self) -> np.ndarray:
        """CoP (m), x and z in the foot's frame, which pitches: the shape on which the foot rolls. 0 where not valid."""
        heel = self.markers["heel"]
        along = (self.cop - heel[:, :2]) @ self.flat.forward
        cos, sin = np.cos(self.pitch), np.sin(self.pitch)
        # With the heel up by the pitch, the foot's x axis is (cos, -sin) and its z axis (sin, cos) in (along, up).
        place = np.stack([along * cos + heel[:, 2] * sin, along * sin - heel[:, 2] * cos], axis=1)
        return np.where(self.cop_valid[:, None], place, 0.0)

    # ------------------------------------------------------------ weight

    @property
    def body_weight(self) -> float | None:
        """Weight (N), where the mass is known or estimated (`provenance.mass_source` says which)."""
        return None if self.provenance.mass is None else self.provenance.mass * GRAVITY

    def with_mass(self, mass: float, source: str) -> "Stance":
        """Return the same stance of a subject of that mass (kg)."""
        if not np.isfinite(mass) or mass <= 0:
            raise InputError(f"mass = {mass:g} kg: a number above 0 is needed")
        return replace(self, provenance=replace(self.provenance, mass=float(mass), mass_source=source))

    def described(self) -> dict[str, Any]:
        """Return where the stance comes from and how its foot lies when flat, as plain values for a file."""
        return {"stance": self.name, "side": self.side, **asdict(self.provenance), "foot_flat": asdict(self.flat)}


def raw_pitch(heel: np.ndarray, mtp: np.ndarray, heading: float) -> np.ndarray:
    """Return the angle (rad) by which heel -> mtp points below the horizontal, seen from the side of the foot."""
    line = mtp - heel
    along = line[:, 0] * np.cos(heading) + line[:, 1] * np.sin(heading)
    return np.unwrap(-np.arctan2(line[:, 2], along))


def flat_window(markers: Mapping[str, np.ndarray], in_stance: np.ndarray, pointer: np.ndarray) -> slice:
    """Return the rows of the 15 % of the stance over which the pitch of the foot changes least."""
    first, past = runs(in_stance)[0][0], runs(in_stance)[-1][1]
    width = min(max(round(FLAT_WINDOW * (past - first)), 3), past - first)
    # Pitch needs a heading and the heading a window: a first guess of the heading is that of the middle of the stance.
    middle = slice(first + (past - first) // 4, max(first + (past - first) // 2, first + 1))
    pitch = raw_pitch(markers["heel"], markers["mtp"], _heading(markers["heel"], pointer, middle))
    windows = np.lib.stride_tricks.sliding_window_view(pitch[first:past], width)
    start = first + int(np.argmin(np.ptp(windows, axis=1)))
    return slice(start, start + width)


def find_foot_flat(markers: Mapping[str, np.ndarray], window: slice, pointer: np.ndarray) -> FootFlat:
    """Return the medians over a window of pitch, place of the heel, and heading of the line from it to `pointer`."""
    heel = markers["heel"]
    heading = _heading(heel, pointer, window)
    return FootFlat(
        pitch=float(np.median(raw_pitch(heel, markers["mtp"], heading)[window])),
        heel=(float(np.median(heel[window, 0])), float(np.median(heel[window, 1]))),
        heading=heading,
    )


def _heading(heel: np.ndarray, pointer: np.ndarray, window: slice) -> float:
    line = np.median((pointer - heel)[window, :2], axis=0)
    return float(np.arctan2(line[1], line[0]))
