"""What a fit tells besides its answer: how sure it is, what it cannot tell apart, and what went wrong, in plain words.

Everything is told on the unknowns' own scales (see `unknowns`: the value, or its natural logarithm). With J the
Jacobian of the whitened residuals there, the covariance is

    w^2 s^2 (J^T J)^-1

s^2 = chi^2 / (samples - unknowns) widens it where the model misses the data by more than the stated standard deviations
and chance explain, and is 1 elsewhere. w^2 = (1 + rho) / (1 - rho) widens it where residuals of neighbouring samples
are alike (rho, at lag 1) beyond chance, since then they say less than as many independent ones, and is 1 elsewhere.
Chance is one case in forty for each, so that the intervals of a right model keep their rate.

Unknowns that rest on a bound are taken as known: their own interval is not told. Neither is one that would be wider
than the whole range.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import chi2

from jaxcontact.study.fit.solvers import CONVERGED, REASONS
from jaxcontact.study.fit.unknowns import Unknown

if TYPE_CHECKING:
    from jaxcontact.study.fit.fitting import Starts
    from jaxcontact.study.fit.problem import Problem

NORMAL_95 = 1.959963984540054
_CHANCE = 0.025  # one-sided, as is 1.96 standard deviations
_SAME_COST = 0.01  # starts within this of the best cost count as its equals
_SAME_PLACE = 0.02  # of the range
_CORRELATED = 0.95
_NO_EFFECT = 1e-9  # standard deviations by which half a range moves any residual: less is none at all
_BLIND = 1.0  # standard deviations by which half a range along a direction moves the residuals: less is nothing


@dataclass(frozen=True, eq=False)
class Direction:
    """A direction in the space of unknowns along which the data say (almost) nothing."""

    shares: dict[str, float]  # by name, of unit length in half ranges; the largest first
    moves: float  # how far half a range along it moves the whitened residuals, over their scatter
    sentence: str


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """Numbers and sentences about a fit. Arrays are over the unknowns, in their order."""

    reason: str
    converged: bool
    misfit: float  # chi^2 / (samples - unknowns): 1 where residuals are as large as their sd
    alike: float  # rho: correlation of neighbouring residuals
    widened: float  # factor on the standard deviations, from misfit and rho
    jacobian: np.ndarray  # (samples that count + priors, unknowns): of the whitened residuals, by size
    covariance: np.ndarray  # of the sizes; NaN for unknowns at a bound or without effect
    sd: np.ndarray  # of the sizes
    intervals: dict[str, tuple[float, float]]  # 95 %, stated units; NaN where there is none
    correlation: np.ndarray
    bounds: dict[str, str]  # "low", "high" or "" by name
    unused: tuple[str, ...]  # the outcome does not depend on them
    blind: tuple[Direction, ...]
    equals: int  # starts that ended with about the best cost
    places: int  # how many different places those found
    spread: np.ndarray  # of those in the best place, as a part of the range
    moved: float  # how far the best start went, the largest change as a part of a range
    findings: tuple[str, ...]  # all of it in sentences, the worst first


def diagnose(
    problem: "Problem",
    values: dict[str, float],
    residuals: np.ndarray,
    jacobian: np.ndarray,
    jacobian_at_start: np.ndarray,
    starts: "Starts",
    predictions: Mapping[str, np.ndarray],
) -> Diagnosis:
    """Look at an answer: residuals (samples + priors,) and their Jacobians by size, there and at the first start."""
    unknowns, names, samples = problem.unknowns, problem.names, problem.sample_count
    half = np.array([0.5 * (each.ends[1] - each.ends[0]) for each in unknowns])
    of_data = np.abs(np.stack([jacobian[:samples], jacobian_at_start[:samples]])).max(axis=(0, 1)) * half
    unused = tuple(name for name, moves in zip(names, of_data, strict=True) if moves <= _NO_EFFECT)
    bounds = active_bounds(unknowns, values, residuals, jacobian)
    free = np.array([not bounds[name] and name not in unused for name in names])
    misfit, alike, widened = scatter(problem, residuals, int(free.sum()))
    covariance = covariance_of(jacobian, free) * widened**2
    sd = np.sqrt(np.diagonal(covariance))
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = covariance / np.outer(sd, sd)
    blind = _blind(unknowns, jacobian[:samples] * half, free, np.sqrt(np.nanmax([1.0, misfit])))
    equals, places, spread = _agreement(starts, np.array([name not in unused for name in names]))
    moved = float(np.max(np.abs(np.sin(starts.last[starts.best]) - np.sin(starts.first[starts.best]))) / 2.0)
    reason = int(starts.reason[starts.best])
    told = Diagnosis(
        reason=REASONS[reason],
        converged=reason == CONVERGED,
        misfit=misfit,
        alike=alike,
        widened=widened,
        jacobian=jacobian,
        covariance=covariance,
        sd=sd,
        intervals={each.name: interval_of(each, values[each.name], s) for each, s in zip(unknowns, sd, strict=True)},
        correlation=correlation,
        bounds=bounds,
        unused=unused,
        blind=blind,
        equals=equals,
        places=places,
        spread=spread,
        moved=moved,
        findings=(),
    )
    return replace(told, findings=_findings(told, problem, starts, predictions))


def active_bounds(
    unknowns: Sequence[Unknown], values: Mapping[str, float], residuals: np.ndarray, jacobian: np.ndarray
) -> dict[str, str]:
    """Which bound each unknown rests on: "low", "high" or ""."""
    squares = np.sum(jacobian**2, axis=0)
    steps = -(residuals @ jacobian) / np.where(squares > 0, squares, np.inf)
    return {each.name: each.bound_at(values[each.name], step) for each, step in zip(unknowns, steps, strict=True)}


def scatter(problem: "Problem", residuals: np.ndarray, free: int) -> tuple[float, float, float]:
    """Misfit (NaN without more residuals than free unknowns), alikeness of neighbours, and how both widen an sd."""
    more = len(residuals) - free
    misfit = float(np.sum(residuals**2)) / more if more > 0 else float("nan")
    beyond = misfit if more > 0 and misfit * more > chi2.ppf(1.0 - _CHANCE, more) else 1.0
    alike = _alikeness(problem, residuals)
    return misfit, alike, float(np.sqrt(beyond * (1 + alike) / (1 - alike)))


def _alikeness(problem: "Problem", residuals: np.ndarray) -> float:
    """Correlation of neighbouring residuals of curves, over all channels; 0 where it is no more than chance."""
    first, products, squares, pairs = 0, 0.0, 0.0, 0
    for channel in problem.channels:
        part = residuals[first : first + channel.count]
        first += channel.count
        if channel.kind != "outcome" and len(part) > 2:
            products += float(np.sum(part[1:] * part[:-1]))
            squares += float(np.sum(part[1:] ** 2 + part[:-1] ** 2)) / 2.0
            pairs += len(part) - 1
    if squares == 0:
        return 0.0
    rho = products / squares
    return min(rho, 0.999) if rho > NORMAL_95 / np.sqrt(pairs) else 0.0


def covariance_of(jacobian: np.ndarray, free: np.ndarray) -> np.ndarray:
    """(J^T J)^-1 of the free unknowns by their singular values; infinite along directions that nothing holds."""
    n = jacobian.shape[1]
    whole = np.full((n, n), np.nan)
    if not free.any():
        return whole
    part = jacobian[:, free]
    scale = np.linalg.norm(part, axis=0)
    scale[scale == 0] = 1.0
    _, values, rows = np.linalg.svd(part / scale, full_matrices=True)
    values = np.concatenate([values, np.zeros(part.shape[1] - len(values))])
    floor = values[0] * np.finfo(float).eps * len(part)
    inverse = 1.0 / np.maximum(values, max(floor, np.finfo(float).tiny))
    root = (rows.T * inverse) / scale[:, None]
    whole[np.ix_(free, free)] = root @ root.T
    return whole


def interval_of(each: Unknown, value: float, sd: float) -> tuple[float, float]:
    """95 %, in the stated unit; NaN without an sd, and where it would reach a whole range either way."""
    if not NORMAL_95 * sd <= each.ends[1] - each.ends[0]:
        return float("nan"), float("nan")
    if each.scale == "log":
        factor = float(np.exp(NORMAL_95 * sd))
        return value / factor, value * factor
    return float(value - NORMAL_95 * sd), float(value + NORMAL_95 * sd)


def _blind(
    unknowns: Sequence[Unknown], jacobian: np.ndarray, free: np.ndarray, scatter: float
) -> tuple[Direction, ...]:
    """Directions that half a range moves the residuals by less than their scatter; columns are in half ranges."""
    if not free.any():
        return ()
    names = [each.name for each, is_free in zip(unknowns, free, strict=True) if is_free]
    _, values, rows = np.linalg.svd(jacobian[:, free], full_matrices=True)
    values = np.concatenate([values, np.zeros(len(names) - len(values))])
    found = []
    for size, row in zip(values / scatter, rows, strict=True):
        if size < _BLIND:
            order = np.argsort(-np.abs(row))
            row = row * np.sign(row[order[0]])
            # Name as many as it takes, the largest first: without the others' share it still has to change nothing.
            moves = [np.linalg.norm(jacobian[:, free][:, order[:n]] @ row[order[:n]]) for n in range(1, len(row) + 1)]
            enough = next(n for n, moved in enumerate(moves, 1) if moved / scatter < _BLIND or n == len(row))
            shares = {names[i]: float(row[i]) for i in order}
            found.append(Direction(shares, float(size), _cannot(names, row, list(order[:enough]))))
    return tuple(found)


def _cannot(names: list[str], row: np.ndarray, kept: list[int]) -> str:
    if len(kept) == 1:
        return f"{names[kept[0]]} cannot be found from this data: its whole range fits alike"
    listed = [names[i] for i in kept]
    told = f"{', '.join(listed[:-1])} and {listed[-1]} cannot be told apart on this data"
    up = [names[i] for i in kept if row[i] > 0]
    down = [names[i] for i in kept if row[i] < 0]
    change = f"raising {', '.join(up)}" + (f" while lowering {', '.join(down)}" if down else " together")
    return f"{told}: {change} changes nothing that was measured"


def _agreement(starts: "Starts", used: np.ndarray) -> tuple[int, int, np.ndarray]:
    """Starts about as good as the best, how many places they found, and how tightly those at the best place agree."""
    best = starts.best
    floor = 1e-12 * np.nanmax(np.where(np.isfinite(starts.first_cost), starts.first_cost, 0.0))
    equal = np.isfinite(starts.cost) & (starts.cost <= (1.0 + _SAME_COST) * starts.cost[best] + floor)
    parts = 0.5 + 0.5 * np.sin(starts.last)  # places as parts of the ranges: a turn and its mirror are one place
    left, places, spread = parts[equal], 0, np.zeros(parts.shape[1])
    middle = parts[best]
    while len(left):
        here = np.max(np.abs(left - middle)[:, used], axis=1, initial=0.0) < _SAME_PLACE
        if places == 0:
            spread = np.ptp(left[here], axis=0)
        places += 1
        left = left[~here]
        middle = left[0] if len(left) else middle
    return int(equal.sum()), places, spread


def _findings(
    told: Diagnosis, problem: "Problem", starts: "Starts", predictions: Mapping[str, np.ndarray]
) -> tuple[str, ...]:
    """Everything that a person should know before using the answer, the worst first."""
    lines = []
    for channel in problem.channels:
        if lost := int(np.sum(channel.valid & ~np.isfinite(predictions[channel.name]))):
            lines.append(f"the model says nothing about {lost} of {channel.count} samples of {channel.name}: no load?")
    if not told.converged:
        lines.append(f"the best start {told.reason}")
    for name in told.unused:
        lines.append(
            f"nothing that was measured depends on {name} (laws: {', '.join(problem.choices.values()) or 'none'})"
        )
    if told.moved < 1e-9:
        lines.append("the fit moved nothing: it ended where its best start began")
    lines += [direction.sentence for direction in told.blind]
    for name, side in told.bounds.items():
        if side:
            each = next(u for u in problem.unknowns if u.name == name)
            lines.append(f"{name} rests on its {side} bound ({each.low if side == 'low' else each.high:g})")
    blind = {name for direction in told.blind for name in direction.shares}
    for i, first in enumerate(problem.names):
        for j, second in enumerate(problem.names[:i]):
            if abs(told.correlation[i, j]) > _CORRELATED and not {first, second} <= blind:
                lines.append(
                    f"{second} and {first} are correlated ({told.correlation[i, j]:+.3f}): the data fix a combination "
                    "of them better than each"
                )
    if told.misfit > 4:
        lines.append(f"residuals are {np.sqrt(told.misfit):.1f} times their stated sd: the model or the sd is off")
    if told.alike > 0:
        lines.append(
            f"neighbouring residuals are alike (correlation {told.alike:.2f}): the model misses a shape, or the data "
            f"were smoothed; intervals are widened {np.sqrt((1 + told.alike) / (1 - told.alike)):.1f} times for it"
        )
    count = len(starts.cost)
    if count > 1:
        where = "at one place" if told.places == 1 else f"at {told.places} different places"
        lines.append(f"{told.equals:,} of {count:,} starts ended within 1 % of the best cost, {where}")
    if count > 1 and told.equals == 1:
        lines.append("only one start found the best cost: there may be a better one; try more starts")
    return tuple(lines)
