"""The motion of the foot as a smooth function of time: places and velocities that belong together, at any moments."""

from dataclasses import dataclass

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.signal import savgol_filter

from jaxcontact.errors import InputError
from jaxcontact.measured.filtering import sampling_rate
from jaxcontact.measured.stance import Stance

DEGREE = 3  # of the local polynomials
WINDOW = 0.05  # s


@dataclass(frozen=True, eq=False)
class FootMotion:
    """Pose of the foot's frame (origin at the heel marker) and its rate of change. Moments first."""

    time: np.ndarray  # s, since touch-down
    position: np.ndarray  # m, (moments, 3)
    velocity: np.ndarray  # m/s, (moments, 3)
    pitch: np.ndarray  # rad, 0 at foot-flat, + heel up
    pitch_rate: np.ndarray  # rad/s
    heading: float  # rad, at foot-flat, anticlockwise from x; the pitch is about the axis to the left of it
    smoothing: str


def foot_motion(stance: Stance, frames: int | None = None, *, window: float = WINDOW) -> FootMotion:
    """Return the foot's motion over the stance, at its own rows or at `frames` moments evenly from touch-down to end.

    Heel and pitch are smoothed by local cubics over `window` seconds (Savitzky and Golay 1964; 0: not smoothed), and a
    cubic spline is laid through them. Velocities are its derivative, so they are exactly those of the places given.
    Rows before and after the stance are used, which keeps the ends of the stance free of edge effects.
    """
    if not np.isfinite(window) or window < 0:
        raise InputError(f"window = {window:g} s: a time of at least 0 is needed")
    if frames is not None and frames < 2:
        raise InputError(f"frames = {frames}: at least 2 moments are needed")
    since = stance.since_touch_down
    track = np.column_stack([stance.foot_position, stance.pitch])
    width = 2 * round(window * sampling_rate(stance.time) / 2) + 1 if window > 0 else 1
    if width > DEGREE + 1:
        if width > len(since):
            raise InputError(f"window = {window:g} s is longer than the {since[-1] - since[0]:g} s of the stance")
        track = savgol_filter(track, width, DEGREE, axis=0)
    spline = CubicSpline(since, track)
    moments = since[stance.in_stance] if frames is None else np.linspace(0.0, stance.duration, frames)
    places, rates = spline(moments), spline(moments, 1)
    return FootMotion(
        time=moments,
        position=places[:, :3],
        velocity=rates[:, :3],
        pitch=places[:, 3],
        pitch_rate=rates[:, 3],
        heading=stance.flat.heading,
        smoothing=f"local cubics over {window:g} s" if width > DEGREE + 1 else "none",
    )


@dataclass(frozen=True, eq=False)
class Load:
    """What the ground did to the foot at some moments: force (N), CoP (m, where valid), free moment (N m)."""

    time: np.ndarray
    force: np.ndarray
    cop: np.ndarray
    cop_valid: np.ndarray
    free_moment: np.ndarray


def load_at(stance: Stance, frames: int) -> Load:
    """Return the load at moments spread evenly over the stance, between its rows linearly.

    A CoP counts only where both neighbouring rows have one; elsewhere it is 0 and not valid.
    """
    if frames < 2:
        raise InputError(f"frames = {frames}: at least 2 moments are needed")
    since, moments = stance.since_touch_down, np.linspace(0.0, stance.duration, frames)

    def at(values: np.ndarray) -> np.ndarray:
        return np.stack([np.interp(moments, since, column) for column in values.T], axis=1)

    valid = np.interp(moments, since, stance.cop_valid.astype(float)) >= 1 - 1e-9
    return Load(
        time=moments,
        force=at(stance.force),
        cop=np.where(valid[:, None], at(stance.cop), 0.0),
        cop_valid=valid,
        free_moment=np.interp(moments, since, stance.free_moment),
    )
