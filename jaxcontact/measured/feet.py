"""Markers of each foot on the clock of the plates, and which foot stands on which plate."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import CubicSpline

from jaxcontact.measured.filtering import Butterworth, Filled, fill_gaps, runs
from jaxcontact.measured.markers import Roles
from jaxcontact.measured.recording import Recording

NEEDED = ("heel", "mtp", "heading")


@dataclass(frozen=True, eq=False)
class Track:
    """A marker, or the mean of several, at the samples of the plates; `seen` where its place is known."""

    places: np.ndarray
    seen: np.ndarray
    bridged: tuple[tuple[float, float], ...]  # s, gaps that were filled


@dataclass(frozen=True, eq=False)
class Foot:
    """The tracks of one foot by role, and the markers that they are made of."""

    roles: Roles
    tracks: Mapping[str, Track]

    @property
    def seen(self) -> np.ndarray:
        """Where all that a stance needs is known."""
        return np.all([self.tracks[role].seen for role in NEEDED], axis=0)


def feet_on_clock(
    recording: Recording, roles: Mapping[str, Roles], *, longest_gap: float, low_pass: Butterworth | None
) -> dict[str, Foot]:
    """Return each foot with its gaps bridged, its markers filtered if asked, and all on the clock of the plates."""
    wanted = {name for each in roles.values() for names in each.values() for name in names}
    clock, tracks = recording.marker_time, {}
    for name in wanted:
        filled = fill_gaps(recording.markers[name], clock, longest_gap)
        tracks[name] = _on_clock(filled, clock, recording.time, low_pass)
    return {
        side: Foot(each, {role: _mean([tracks[name] for name in names]) for role, names in each.items()})
        for side, each in roles.items()
    }


def _on_clock(filled: Filled, clock: np.ndarray, time: np.ndarray, low_pass: Butterworth | None) -> Track:
    """Carry a track to another clock by a cubic spline through each stretch in which the marker was seen."""
    places, seen = np.zeros((len(time), 3)), np.zeros(len(time), dtype=bool)
    if len(clock) == len(time) and np.array_equal(clock, time) and low_pass is None:
        return Track(filled.places, filled.seen, filled.bridged)
    for first, past in runs(filled.seen):
        if past - first < 4:
            continue  # too little for a cubic
        known = filled.places[first:past]
        if low_pass is not None:
            known = low_pass(known, clock[first:past])
        step = 1e-6 + 1e-9 * abs(clock[past - 1])  # clocks of two files may differ by rounding
        inside = (time >= clock[first] - step) & (time <= clock[past - 1] + step)
        places[inside] = CubicSpline(clock[first:past], known)(time[inside])
        seen |= inside
    return Track(places, seen, filled.bridged)


def _mean(tracks: list[Track]) -> Track:
    return Track(
        np.mean([track.places for track in tracks], axis=0),
        np.all([track.seen for track in tracks], axis=0),
        tuple(sorted({gap for track in tracks for gap in track.bridged})),
    )


def camera_rows(clock: np.ndarray, time: np.ndarray) -> np.ndarray:
    """Say for each sample of the plates whether it is the nearest to a camera frame."""
    step = np.median(np.diff(time))
    nearest = np.clip(np.round(np.interp(clock, time, np.arange(len(time)))).astype(int), 0, len(time) - 1)
    flags = np.zeros(len(time), dtype=bool)
    flags[nearest[np.abs(time[nearest] - clock) <= 0.51 * step]] = True
    return flags


def distance_to_foot(foot: Foot, cop: np.ndarray, rows: np.ndarray) -> float:
    """Return how far (m) the CoP is from the line heel -> heading marker on the floor, in the mean over the rows."""
    rows = rows & foot.seen
    if not np.any(rows):
        return np.inf
    heel, front, place = foot.tracks["heel"].places[rows, :2], foot.tracks["heading"].places[rows, :2], cop[rows, :2]
    line = front - heel
    share = np.sum((place - heel) * line, axis=1) / np.maximum(np.sum(line**2, axis=1), 1e-12)
    nearest = heel + np.clip(share, 0, 1)[:, None] * line
    return float(np.mean(np.linalg.norm(place - nearest, axis=1)))
