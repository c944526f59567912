"""Derivatives from differences on a ladder of steps, each half of the one before, with what they cannot tell.

Large steps bend, small ones drown in rounding and tolerance. In between is a plateau: a rung is as uncertain as it
differs from its two neighbours, and the least uncertain rung of second or fourth order is taken. Rungs may agree by
chance, so none is taken to be more certain than noise allows: that grows as the step shrinks, and the smallest steps
show how large it is.
"""

from typing import NamedTuple

import numpy as np

_SMALLEST = 3  # rungs that tell the noise


class Slope(NamedTuple):
    """A difference quotient and its own uncertainty (infinite where there is none); any shape."""

    value: np.ndarray
    uncertainty: np.ndarray


def central(steps: np.ndarray, plus: np.ndarray, minus: np.ndarray, valid: np.ndarray) -> Slope:
    """Central differences of second and fourth order; values (rung, ...) at +steps and -steps, falling by halves.

    `valid` (rung, ...) says which rungs may be used; a rung counts only if all smaller ones do.
    """
    steps = _along(steps, plus)
    second = np.where(valid, (plus - minus) / (2 * steps), np.nan)
    return _better(_plateau(steps, second), _plateau(steps[1:], (4 * second[1:] - second[:-1]) / 3))


def one_sided(steps: np.ndarray, here: np.ndarray, there: np.ndarray, valid: np.ndarray) -> Slope:
    """Differences of second and third order to one side only: `here` (...), `there` (rung, ...) at `steps`.

    Negative steps look back. Pairs of neighbouring rungs take out the bend, triples what comes next.
    """
    steps = _along(steps, there)
    first = np.where(valid, (there - here) / steps, np.nan)
    second = 2 * first[1:] - first[:-1]
    third = (4 * second[1:] - second[:-1]) / 3
    return _better(_plateau(np.abs(steps[1:]), second), _plateau(np.abs(steps[2:]), third))


def _along(steps: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.asarray(steps).reshape(-1, *(1,) * (values.ndim - 1))


def usable(same: np.ndarray) -> np.ndarray:
    """Rungs (rung, ...) that are fine together with all smaller ones."""
    return np.flip(np.logical_and.accumulate(np.flip(same, 0), axis=0), 0)


def _plateau(steps: np.ndarray, rungs: np.ndarray) -> Slope:
    """The flattest place of one order. A rung between two others is measured by both: agreement by chance is rarer."""
    if len(rungs) < 2:
        nothing = np.full(rungs.shape[1:], np.nan)
        return Slope(nothing, np.full(nothing.shape, np.inf))
    gaps = np.abs(np.diff(rungs, axis=0))
    # Noise of the values divided by the step; of the smallest steps, for they have the least bend.
    noise = np.max(np.nan_to_num((gaps * steps[1:])[-_SMALLEST:], posinf=np.inf), axis=0)
    inner = np.where(np.isfinite(gaps[1:] + gaps[:-1]), np.maximum(gaps[1:], gaps[:-1]), np.inf)
    # With two rungs only, their distance has to do; it says less, and counts double.
    spread = np.concatenate([inner, np.where(np.isfinite(gaps[-1:]), 2 * gaps[-1:], np.inf)])
    lonely = np.isfinite(inner).any(axis=0) if len(inner) else np.zeros(rungs.shape[1:], bool)
    spread[-1] = np.where(lonely, np.inf, spread[-1])
    spread = np.maximum(spread, noise / steps[1:])
    place = np.argmin(spread, axis=0)
    value = np.take_along_axis(rungs[1:], place[None], 0)[0]
    return Slope(value, np.take_along_axis(spread, place[None], 0)[0])


def _better(a: Slope, b: Slope) -> Slope:
    take_b = b.uncertainty < a.uncertainty
    return Slope(np.where(take_b, b.value, a.value), np.where(take_b, b.uncertainty, a.uncertainty))
