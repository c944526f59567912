"""Where a foot was: its pose over a measured stance as a smooth function of time, told as if of a right foot.

Frame: the ground's, with its origin on the floor under the heel marker at foot-flat, x along the foot (from the heel to
the middle of the ball at foot-flat), z up, and y to the side of the big toe. That is left of a right foot; a left foot
is mirrored, forces, centre of pressure and free moment with it, so that what is fitted to one can be tried on the
other.

The ball is the middle between the outermost of the markers on the metatarsal heads (mt1, mt2, mt5), whichever labels
they have; its place, pitch and yaw of the line from heel to ball, and roll of the line across the ball make a frame
that is 0 at foot-flat. It is hung up at the ball, not at the heel: while the heel rises the distance between them
shrinks by more than a centimetre (the midfoot bends, skin slides), and then the ball is what stands on the ground. With
only one marker on the ball (mtp) there is no roll.

Poses are smoothed as `measured.foot_motion` does it, by local cubics over `WINDOW`. It matters: friction follows the
velocity of a foot that stands, a few mm/s, which is about what the noise of markers makes of it over shorter windows.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy.interpolate import CubicSpline
from scipy.signal import savgol_filter

from jaxcontact.errors import InputError
from jaxcontact.measured.filtering import sampling_rate
from jaxcontact.measured.motion import WINDOW
from jaxcontact.measured.stance import Stance, flat_window
from jaxcontact.tracked.pose_correction import Shift


class Pose(NamedTuple):
    """Frames of the measured foot: arrays (frames,) in the ground's frame; turns in rad: yaw, then pitch, then roll."""

    time: Any  # s since touch-down
    place: tuple[Any, Any, Any]  # of the ball, m
    turn: tuple[Any, Any, Any]  # roll (big toe up), pitch (heel up), yaw (tip towards the big toe)
    velocity: tuple[Any, Any, Any]  # their rates, m/s, rad/s
    turn_rate: tuple[Any, Any, Any]


class Track(NamedTuple):
    """The measured pose as a function of time, and the frame that it is told in."""

    spline: CubicSpline  # place and turn over time since touch-down
    ball: tuple[float, float, float]  # from the heel marker to the ball at foot-flat, m
    heel: np.ndarray  # the heel marker's place at foot-flat, m, in the file's frame
    heading: float  # of the foot, rad, in the file's frame
    side: float  # 1, or -1 where mirrored
    outermost: tuple[str, ...]  # markers that the ball is the middle of

    def seen(self, vectors: np.ndarray) -> np.ndarray:
        """Horizontal vectors (..., 2 or 3) of the file in the ground's frame."""
        c, s = np.cos(self.heading), np.sin(self.heading)
        x, y = vectors[..., 0], vectors[..., 1]
        turned = [c * x + s * y, self.side * (c * y - s * x), *np.moveaxis(vectors[..., 2:], -1, 0)]
        return np.stack(turned, axis=-1)


def track_of(stance: Stance, window: float = WINDOW) -> Track:
    """The pose of the foot over a stance, smoothed by local cubics over `window` (s; 0: not smoothed)."""
    if not np.isfinite(window) or window < 0:
        raise InputError(f"window = {window:g} s: a time of at least 0 is needed")
    markers, flat = stance.markers, flat_window(stance.markers, stance.in_stance, stance.markers["mtp"])
    outermost = _outermost(stance, flat)
    heel, ball = markers["heel"], np.mean([markers[name] for name in outermost], axis=0)
    line = np.median((ball - heel)[flat, :2], axis=0)
    side = -1.0 if stance.side == "L" else 1.0
    frame = Track(
        CubicSpline([0, 1], [0, 1]),
        (0.0, 0.0, 0.0),
        np.median(heel[flat], axis=0),
        float(np.arctan2(line[1], line[0])),
        side,
        outermost,
    )
    floor = frame.heel * (1, 1, 0)
    heel, ball = frame.seen(heel - floor), frame.seen(ball - floor)
    across = np.diff([frame.seen(markers[name]) for name in outermost], axis=0)[0] if len(outermost) == 2 else None
    turn = _turns(ball - heel, across, flat)
    track = np.column_stack([ball, turn])
    width = 2 * round(window * sampling_rate(stance.time) / 2) + 1
    if width > len(stance.time):
        raise InputError(f"window = {window:g} s is longer than stance {stance.name}")
    if width > 4:
        track = savgol_filter(track, width, 3, axis=0)
    rest = np.median((ball - heel)[flat], axis=0)
    return frame._replace(spline=CubicSpline(stance.since_touch_down, track), ball=tuple(float(v) for v in rest))


def _outermost(stance: Stance, flat: slice) -> tuple[str, ...]:
    """The markers on the metatarsal heads that lie farthest to either side, little toe first; or mtp alone.

    By where they are, not by name: labels of neighbours are easily swapped.
    """
    heads = [name for name in ("mt1", "mt2", "mt5") if name in stance.markers]
    if len(heads) < 2:
        return ("mtp",)
    left = {name: float(np.median(stance.markers[name][flat, :2] @ stance.flat.left)) for name in heads}
    ordered = sorted(heads, key=left.__getitem__, reverse=stance.side == "L")
    return ordered[0], ordered[-1]


def _turns(along: np.ndarray, across: np.ndarray | None, flat: slice) -> np.ndarray:
    """Roll, pitch and yaw (rows, 3) against foot-flat, of lines from heel to ball and from little to big toe."""
    if across is None:
        across = np.cross([0.0, 0.0, 1.0], along)
    first = along / np.linalg.norm(along, axis=1, keepdims=True)
    third = np.cross(first, across)
    third /= np.linalg.norm(third, axis=1, keepdims=True)
    triad = np.stack([first, np.cross(third, first), third], axis=2)
    # At foot-flat: that of the median lines, so that one frame's noise does not turn all others.
    level = np.median(triad[flat], axis=0)
    u, _, v = np.linalg.svd(level)
    rotation = triad @ (u @ v).T
    pitch = np.arcsin(np.clip(-rotation[:, 2, 0], -1, 1))
    yaw = np.arctan2(rotation[:, 1, 0], rotation[:, 0, 0])
    roll = np.arctan2(rotation[:, 2, 1], rotation[:, 2, 2])
    return np.unwrap(np.stack([roll, pitch, yaw], axis=1), axis=0)


def pose_at(track: Track, moments: np.ndarray) -> Pose:
    """The pose at moments since touch-down (s); velocities are the derivatives of the places."""
    values, rates = track.spline(moments).T, track.spline(moments, 1).T
    return Pose(moments, tuple(values[:3]), tuple(values[3:]), tuple(rates[:3]), tuple(rates[3:]))


def corrected(pose: Pose, shift: Shift) -> Pose:
    """The pose moved by a correction; velocities with it."""
    names = (("forward", "side", "height"), ("roll", "pitch", "yaw"))

    def moved(values, by, chosen):
        return tuple(
            along(value, by[name]) + by[name] if name in by else value
            for value, name in zip(values, chosen, strict=True)
        )

    return Pose(
        pose.time,
        moved(pose.place, shift.value, names[0]),
        moved(pose.turn, shift.value, names[1]),
        moved(pose.velocity, shift.rate, names[0]),
        moved(pose.turn_rate, shift.rate, names[1]),
    )


def along(values, like):
    """Numbers (frames,) against numbers (frames, *lanes)."""
    return jnp.reshape(values, (-1, *(1,) * (jnp.ndim(like) - 1)))
