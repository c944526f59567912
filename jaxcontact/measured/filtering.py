"""Choices about signals: low-pass filters without lag, and how long a gap may be to be bridged."""

from dataclasses import dataclass

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.signal import butter, sosfiltfilt

from jaxcontact.errors import InputError


@dataclass(frozen=True)
class Butterworth:
    """A low-pass filter run forwards and backwards, so that nothing is delayed.

    `order` and `cutoff` (Hz) are those of both passes together: each pass has half the order, and the cut-off that
    leaves a sine of `cutoff` with 1/sqrt(2) of its height after both (Winter, Biomechanics and Motor Control of Human
    Movement, section 3.4.4).
    """

    order: int
    cutoff: float

    def __post_init__(self) -> None:
        if self.order < 2 or self.order % 2:
            raise InputError(f"filter order {self.order}: an even number is needed, as both passes share it")
        if not np.isfinite(self.cutoff) or self.cutoff <= 0:
            raise InputError(f"filter cut-off {self.cutoff:g} Hz: a frequency above 0 is needed")

    def __str__(self) -> str:
        return f"butter:{self.order}:{self.cutoff:g}"

    def __call__(self, values: np.ndarray, time: np.ndarray) -> np.ndarray:
        """Return the filtered values, time first."""
        rate = sampling_rate(time)
        if self.cutoff >= rate / 2.5:
            raise InputError(f"filter {self}: the cut-off must be well below half of the {rate:.4g} Hz of the samples")
        half = self.order // 2
        # Two passes of order n have gain 1/sqrt(2) where (w/wc)^2n = sqrt(2) - 1; tan() as the filter is discrete.
        edge = np.tan(np.pi * self.cutoff / rate) / (np.sqrt(2) - 1) ** (1 / (2 * half))
        sections = butter(half, 2 / np.pi * np.arctan(edge), output="sos")
        padding = min(len(values) - 1, int(np.ceil(3 * rate / self.cutoff)))
        return sosfiltfilt(sections, values, axis=0, padlen=padding)


def parse_filter(text: str) -> Butterworth:
    """Read "butter:4:20": order 4 and cut-off 20 Hz, of both passes together."""
    kind, _, rest = text.strip().partition(":")
    order, _, cutoff = rest.partition(":")
    try:
        if kind != "butter":
            raise ValueError
        return Butterworth(int(order), float(cutoff))
    except InputError:
        raise
    except ValueError:
        raise InputError(f"filter {text!r}: butter:ORDER:HZ is needed, as in butter:4:20") from None


def sampling_rate(time: np.ndarray) -> float:
    """Return samples per second; a clock that is uneven by more than a tenth of its step is refused."""
    steps = np.diff(time)
    if np.max(np.abs(steps - np.median(steps))) > 0.1 * np.median(steps):
        place = int(np.argmax(np.abs(steps - np.median(steps))))
        raise InputError(
            f"the samples are not evenly spaced: {steps[place]:g} s follow {time[place]:g} s; no filter fits"
        )
    return float((len(time) - 1) / (time[-1] - time[0]))


def runs(flags: np.ndarray) -> list[tuple[int, int]]:
    """Return the stretches of True as pairs (first, one past the last)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(int)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class Filled:
    """A track of a marker without NaN: `seen` says what may be used, `bridged` lists the gaps (s) that were filled."""

    places: np.ndarray
    seen: np.ndarray
    bridged: tuple[tuple[float, float], ...]


def fill_gaps(places: np.ndarray, time: np.ndarray, longest: float) -> Filled:
    """Bridge gaps of at most `longest` seconds by a cubic spline; longer ones, and both ends, stay unusable.

    A gap lasts from the last sight before it to the first after it. What is unusable holds the nearest sight, and must
    not be used.
    """
    lost = np.any(np.isnan(places), axis=1)
    if np.count_nonzero(~lost) < 2:
        return Filled(np.zeros_like(places), np.zeros(len(time), dtype=bool), ())
    spline = CubicSpline(time[~lost], places[~lost]) if np.count_nonzero(~lost) > 3 else None
    held = np.stack([np.interp(time, time[~lost], column[~lost]) for column in places.T], axis=1)
    full, seen, bridged = np.where(lost[:, None], held, places), ~lost, []
    for first, past in runs(lost):
        inside = first > 0 and past < len(time)
        if inside and time[past] - time[first - 1] <= longest + 1e-9:
            if spline is not None:
                full[first:past] = spline(time[first:past])
            seen[first:past] = True
            bridged.append((float(time[first]), float(time[past - 1])))
    return Filled(full, seen, tuple(bridged))
