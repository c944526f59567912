"""Exact derivatives against differences: what agrees, what differences cannot tell, what is wrong, and where kinks are.

Derivatives are by relative changes of the leaves. An error counts relative to the derivative itself, or to a hundredth
of the largest one of that outcome in that configuration where it is nearly zero.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxcontact.study.certificates import ladder
from jaxcontact.study.certificates.ladder import Slope

FLOOR = 1e-2  # of the largest derivative of an outcome in a configuration
ZERO = 1e-6  # of an outcome's usual largest derivative: below it, and if the difference is that small too, it is 0
TINY = 1e-8  # of the largest derivative of all outcomes of the same unit in a configuration: below it, rounding says 0
STRAIGHT = 100.0  # limits within which slopes to either side have to be known, to say that there is no kink
FEWEST = 5  # steps to one side without another event, for a difference
BEND = 5.0  # uncertainties by which the slopes to either side differ at a kink
ALLOWANCE = 3.0  # uncertainties of a difference by which it may differ from the exact derivative

KINDS = ("resolved", "unresolved", "zero", "kink")
RESOLVED, UNRESOLVED, NEARLY_ZERO, KINK = range(len(KINDS))


class Sides(NamedTuple):
    """Runs at relative steps to both sides: values (rung, outcome, leaf, case), and whether each met the same events.

    `same_plus` and `same_minus` are (rung, leaf, case); `here` (outcome, case) is the run itself.
    """

    steps: np.ndarray
    here: np.ndarray
    plus: np.ndarray
    minus: np.ndarray
    same_plus: np.ndarray
    same_minus: np.ndarray


class Slopes(NamedTuple):
    """Differences: central, and to either side. Each is (outcome, leaf, case); what follows is (leaf, case)."""

    central: Slope
    after: Slope
    before: Slope
    regardless: Slope  # central, whatever the events
    bend: Slope  # after less before, whatever the events
    smooth: np.ndarray  # the same events on both sides, for as many steps as a difference needs
    reach: np.ndarray  # the longest step with the same events on both sides; 0: none
    moved: np.ndarray  # whether some step met other events


class Verdict(NamedTuple):
    """Of every derivative (outcome, leaf, case): what it was held against, and what came of it."""

    kind: np.ndarray  # of KINDS
    difference: np.ndarray
    uncertainty: np.ndarray  # of the difference
    scale: np.ndarray  # what an error is relative to
    error: np.ndarray  # relative
    wrong: np.ndarray
    unchecked: np.ndarray  # at a kink, with nothing to hold it against: other events on both sides, or a tie


def difference(sides: Sides) -> Slopes:
    """All differences that the runs allow. Those across a change of events are left out."""
    plus, minus = (ladder.usable(same)[:, None] for same in (sides.same_plus, sides.same_minus))
    shape = sides.plus.shape
    plus, minus = np.broadcast_to(plus, shape), np.broadcast_to(minus, shape)
    here = np.broadcast_to(sides.here[:, None], shape[1:])
    both = (plus & minus)[:, 0]
    # A side on which events stay for few steps only tells nothing: noise is all that they see.
    plus_side, minus_side = (side & (np.sum(side, axis=0) >= FEWEST) for side in (plus, minus))
    with np.errstate(invalid="ignore", over="ignore"):
        after, before = (
            ladder.one_sided(way * sides.steps, here, there, np.isfinite(there))
            for way, there in ((1, sides.plus), (-1, sides.minus))
        )
        return Slopes(
            central=ladder.central(sides.steps, sides.plus, sides.minus, plus & minus),
            after=ladder.one_sided(sides.steps, here, sides.plus, plus_side),
            before=ladder.one_sided(-sides.steps, here, sides.minus, minus_side),
            regardless=ladder.central(sides.steps, sides.plus, sides.minus, np.isfinite(sides.plus - sides.minus)),
            bend=Slope(after.value - before.value, after.uncertainty + before.uncertainty),
            smooth=np.sum(both, axis=0) >= 3,
            reach=np.max(np.where(both, sides.steps[:, None, None], 0.0), axis=0),
            moved=~np.all(both, axis=0),
        )


def judge(exact: np.ndarray, found: Slopes, limit: float, units: Sequence[str] | None = None) -> Verdict:
    """Hold exact derivatives (outcome, leaf, case) against differences; `units` are those of the outcomes."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        one_side = _agreeing(exact, found)
        use_side = ~np.isfinite(found.central.uncertainty)
        value, uncertainty = (np.where(use_side, a, b) for a, b in zip(one_side, found.central, strict=True))
        # Events that come or go without a trace in an outcome (two at one moment) make no kink: where differences
        # across them are sure and do not bend, they count as any other.
        scale, _ = _scales(exact, found.regardless.value)
        sure = BEND * found.bend.uncertainty <= STRAIGHT * limit * scale
        straight = np.abs(found.bend.value) <= BEND * found.bend.uncertainty + limit * scale
        traceless = ~found.smooth & sure & straight
        value, uncertainty = (
            np.where(traceless, a, b) for a, b in zip(found.regardless, (value, uncertainty), strict=True)
        )
        scale, usual = _scales(exact, value)
        off = np.abs(exact - value)
        told = np.isfinite(uncertainty)
        resolved = told & (uncertainty <= 0.5 * limit * scale)
        agrees = off <= np.where(resolved, limit * scale, np.maximum(ALLOWANCE * uncertainty, limit * scale))
        tiny = TINY * _largest_of_unit(exact, value, units)
        nearly_zero = (np.abs(exact) <= ZERO * usual) & (np.abs(value) + uncertainty <= limit * usual)
        nearly_zero |= (np.abs(exact) <= tiny) & (np.abs(value) + uncertainty <= tiny)

        # A kink of the outcome's own, without an event (the largest of many values): both sides are told and differ.
        # The derivative has to be that of one side, or to lie between them, as at a tie.
        apart = np.abs(found.after.value - found.before.value)
        steepest = np.maximum(np.abs(found.after.value), np.abs(found.before.value))
        blur = np.maximum(found.after.uncertainty + found.before.uncertainty, limit * np.maximum(steepest, scale))
        bent = apart > BEND * blur
        on_a_side = np.abs(exact - one_side.value) <= np.maximum(ALLOWANCE * one_side.uncertainty, limit * scale)
        between = (exact - found.after.value) * (exact - found.before.value) < 0
        own_kink = bent & (on_a_side | between) & (apart > tiny)
    kink = own_kink | ~(found.smooth | traceless | (nearly_zero & told))
    kind = np.where(kink, KINK, np.where(nearly_zero, NEARLY_ZERO, np.where(resolved, RESOLVED, UNRESOLVED)))
    wrong = np.where(kink, told & ~agrees & ~own_kink, ~nearly_zero & ~agrees)
    wrong |= ~np.isfinite(exact)
    error = np.where(off == 0, 0.0, off / np.where(scale > 0, scale, 1.0))
    return Verdict(kind, value, uncertainty, scale, error, wrong, kink & ~(told & np.where(bent, on_a_side, agrees)))


def _agreeing(exact: np.ndarray, found: Slopes) -> Slope:
    """Of both sides the one nearer to the exact derivative; a kink's other side is another function."""
    nearer = np.abs(exact - found.after.value) - np.abs(exact - found.before.value)
    first = np.where(np.isnan(nearer), np.isfinite(found.after.uncertainty), nearer <= 0)
    return Slope(*(np.where(first, a, b) for a, b in zip(found.after, found.before, strict=True)))


def _largest_of_unit(exact: np.ndarray, value: np.ndarray, units: Sequence[str] | None) -> np.ndarray:
    """The largest derivative of any outcome of the same unit, (outcome, 1, case); 0 for all if units are not told."""
    size = np.nan_to_num(np.minimum(np.abs(exact), np.abs(value)), nan=0.0, posinf=0.0).max(axis=1, keepdims=True)
    if units is None:
        return np.zeros_like(size)
    return np.stack([size[[other == unit for other in units]].max(axis=0) for unit in units])


def _scales(exact: np.ndarray, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What errors are relative to, (outcome, leaf, case), and the usual largest derivative (outcome, 1, 1).

    Of exact derivative and difference the smaller counts: one that is far too large must not excuse the others.
    """
    size = np.nan_to_num(np.minimum(np.abs(exact), np.abs(value)), nan=0.0, posinf=0.0)
    largest = size.max(axis=1, keepdims=True)
    if not value.size:
        return size, largest
    usual = np.median(largest, axis=2, keepdims=True)
    return np.maximum(size, FLOOR * largest), np.maximum(usual, 1e-3 * largest.max(axis=2, keepdims=True))
