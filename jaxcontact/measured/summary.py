"""Figures of a stance: peaks in body weight, stance time, travel of the centre of pressure; and the weight itself."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jaxcontact.measured.stance import GRAVITY, Stance

NEAR_FLAT = np.radians(2.0)


@dataclass(frozen=True)
class Summary:
    """Figures of a stance. Forces in N; `in_body_weight` divides them, where the weight is known.

    The first peak is the greatest load of the first half of the stance, the second that of the second half, the valley
    the least load between them. Braking is the greatest force backwards, propulsion that forwards.
    """

    stance: str
    side: str
    rows: int  # in stance
    duration: float  # s
    first_peak: float
    valley: float
    second_peak: float
    braking: float
    propulsion: float
    impulse: float  # N s, of the load
    cop_travel: float  # m, between its hindmost and foremost place along the foot
    cop_travel_flat: float  # m, the same while the pitch is within 2 degrees of foot-flat
    pitch_low: float  # rad
    pitch_high: float  # rad
    body_weight: float | None  # N
    mass_source: str

    def in_body_weight(self, force: float) -> float | None:
        """Return a force in body weights, or nothing where the weight is not known."""
        return None if self.body_weight is None else force / self.body_weight


def summary(stance: Stance) -> Summary:
    """Return the figures of a stance."""
    rows = stance.in_stance
    load, along, phase = stance.force[rows, 2], stance.force[rows, 0], stance.phase[rows]
    half = int(np.searchsorted(phase, 0.5))
    first, second = int(np.argmax(load[:half])), half + int(np.argmax(load[half:]))
    pitch = stance.pitch
    flat = stance.cop_valid & (np.abs(pitch) <= NEAR_FLAT)
    return Summary(
        stance=stance.name,
        side=stance.side,
        rows=int(np.count_nonzero(rows)),
        duration=stance.duration,
        first_peak=float(load[first]),
        valley=float(np.min(load[first : second + 1])),
        second_peak=float(load[second]),
        braking=float(np.min(along)),
        propulsion=float(np.max(along)),
        impulse=impulse(stance),
        cop_travel=_travel(stance.cop_along[stance.cop_valid]),
        cop_travel_flat=_travel(stance.cop_along[flat]),
        pitch_low=float(np.min(pitch[rows])),
        pitch_high=float(np.max(pitch[rows])),
        body_weight=stance.body_weight,
        mass_source=stance.provenance.mass_source,
    )


def impulse(stance: Stance) -> float:
    """Return the impulse of the load (N s) over all rows: what is below the threshold counts too."""
    return float(np.trapezoid(stance.force[:, 2], stance.time))


def _travel(along: np.ndarray) -> float:
    return float(np.ptp(along)) if len(along) else 0.0


# ---------------------------------------------------------------- weight


def estimate_mass(stances: Sequence[Stance]) -> tuple[float, str] | None:
    """Return the mass (kg) that steady walking would need, and how it was found; nothing if the steps do not tell.

    Over a stride the load is in the mean the weight. Where a foot touches down twice, with a stance of the other foot
    between, the impulse of both feet over that stride gives the weight; where there is one stance of each foot, the
    same over two steps, which are taken to be alike.
    """
    ordered = sorted(stances, key=lambda stance: stance.touch_down)
    pairs = [(a, b) for a, b in zip(ordered, ordered[1:], strict=False) if _next_step(a, b)]
    strides = [(a, b, c) for (a, b), (again, c) in zip(pairs, pairs[1:], strict=False) if again is b]
    if strides:
        # The stances at both ends are alike only roughly: the mean of the two counts.
        masses = [
            (impulse(b) + (impulse(a) + impulse(c)) / 2) / (c.touch_down - a.touch_down) / GRAVITY
            for a, b, c in strides
        ]
        return float(np.mean(masses)), "estimated: mean load over a stride"
    if pairs:
        masses = [(impulse(a) + impulse(b)) / (2 * (b.touch_down - a.touch_down)) / GRAVITY for a, b in pairs]
        return float(np.mean(masses)), "estimated: mean load over a step, left and right taken to be alike"
    return None


def _next_step(a: Stance, b: Stance) -> bool:
    """Say whether b is the step of the other foot after a: walking, it touches down before a has ended."""
    overlaps = a.touch_down < b.touch_down <= a.touch_down + a.duration
    return {a.side, b.side} == {"R", "L"} and overlaps and a.provenance.files == b.provenance.files
