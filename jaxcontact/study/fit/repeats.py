"""Fits of one problem with fresh noise, many times over: do intervals hold what they promise, how do answers scatter.

Data are made at known values (a twin experiment), noise of the channels' own standard deviations is added as often as
asked, and each is fitted. All repeats go through the same lanes and one compiled program. What each repeat tells is
what `fit` would tell: the same covariance, widened by the same rules, and no interval for an unknown on a bound.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import jax
import numpy as np
from scipy.stats import binom

from jaxcontact.study.checks import whole_number
from jaxcontact.study.fit.diagnosis import NORMAL_95, active_bounds, covariance_of, scatter
from jaxcontact.study.fit.fitting import run_starts, score
from jaxcontact.study.fit.problem import Problem
from jaxcontact.study.fit.solvers import CONVERGED, Optimiser, start_names, value_and_jacobian
from jaxcontact.study.fit.unknowns import starting_turns


@dataclass(frozen=True, eq=False)
class Repeats:
    """What many noisy twins gave: arrays (repeats, unknowns) on the unknowns' scales (value or natural logarithm)."""

    names: tuple[str, ...]
    truth: np.ndarray  # (unknowns,)
    found: np.ndarray
    sd: np.ndarray  # as each repeat tells it, from its own Jacobian; NaN on a bound
    cost: np.ndarray  # (repeats,)
    reason: np.ndarray  # (repeats,): codes of solvers.REASONS

    @property
    def converged(self) -> np.ndarray:
        """Which repeats converged, (repeats,)."""
        return self.reason == CONVERGED

    @property
    def off(self) -> np.ndarray:
        """Answer less truth, in standard deviations of the repeat: normal of width 1 where all is as it should be."""
        return (self.found - self.truth) / self.sd

    @property
    def covered(self) -> np.ndarray:
        """Share of repeats, by unknown, whose 95 % interval holds the truth. A repeat without one counts as a miss."""
        return np.mean(np.abs(self.off) <= NORMAL_95, axis=0)

    @property
    def scatter(self) -> np.ndarray:
        """Standard deviation of the answers over the repeats, to be held against `sd`."""
        return np.std(self.found, axis=0, ddof=1)


def coverage_band(repeats: int, unknowns: int = 1, error: float = 0.01) -> tuple[float, float]:
    """Between which shares the coverage of true 95 % intervals lies, over so many repeats, but for chance `error`.

    With several unknowns, `error` is that of any of them leaving the band (Bonferroni).
    """
    low, high = binom.interval(1.0 - error / unknowns, repeats, 0.95)
    return float(low) / repeats, float(high) / repeats


def twin(problem: Problem, values: dict[str, float]) -> Problem:
    """The same question with exact data made at these values of the unknowns instead of measured ones."""
    found = score(problem, values)
    channels = tuple(
        replace(channel, values=np.where(keep, found[channel.name], 0.0), valid=keep)
        for channel in problem.channels
        for keep in [channel.valid & np.isfinite(found[channel.name])]
    )
    return replace(problem, channels=channels)


def repeat_with_noise(
    problem: Problem,
    values: dict[str, float],
    repeats: int = 200,
    *,
    seed: int = 0,
    starts: int = 4,
    given: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Repeats:
    """Fit `repeats` noisy twins made at `values`, each from `starts` places over the ranges, and keep its best.

    With `given` the problem's own channels hold what is exact at these values, as from a finer simulation; otherwise
    the model makes it as it predicts it. No start knows the truth. Priors are part of the experiment: their means get
    noise too, as if each came from another earlier study; so the truth should be the priors' means.
    """
    repeats, starts = whole_number(repeats, "repeats", least=2), whole_number(starts, "starts", least=1)
    made = problem if given else twin(problem, values)
    truth = np.asarray(made.sizes_of([values[name] for name in made.names]))
    key = jax.random.key(seed)
    count, total = made.residual_count, starts * repeats

    def noise(repeat):
        return jax.random.normal(jax.random.fold_in(key, repeat.astype(int)), (count,))

    def finish(u, shift):
        sizes = made.sizes_of(made.values_at(u))
        residuals, jacobian = value_and_jacobian(lambda s: made.residuals(made.of_sizes(s), shift), sizes)
        return {"size": sizes, "residuals": residuals, "jacobian": jacobian}

    turns = starting_turns(made.model, made.unknowns, total + 1, seed)[1:]
    begin = {name: turns[:, i] for i, name in enumerate(start_names(made))}
    begin["repeat"] = np.repeat(np.arange(repeats), starts).astype(float)
    everything = tuple(range(len(made.unknowns)))
    watch = None if progress is None else lambda runs: progress(runs, total)
    found = run_starts(made, Optimiser("lm"), everything, begin, watch=watch, noise=noise, finish=finish)

    cost = np.where(np.isfinite(found["cost"]), found["cost"], np.inf)
    best = np.argmin(cost.reshape(repeats, starts), axis=1) + starts * np.arange(repeats)
    sizes = found["size"].T[best]
    seen = zip(sizes, found["residuals"].T[best], np.moveaxis(found["jacobian"], -1, 0)[best], strict=True)
    told = np.array([_told(made, *each) for each in seen])
    return Repeats(
        names=made.names,
        truth=truth,
        found=sizes,
        sd=told,
        cost=cost[best],
        reason=found["reason"][best],
    )


def _told(problem: Problem, sizes: np.ndarray, residuals: np.ndarray, jacobian: np.ndarray) -> np.ndarray:
    """The standard deviations (unknowns,) that a fit would tell."""
    if not (np.all(np.isfinite(residuals)) and np.all(np.isfinite(jacobian))):
        return np.full(len(sizes), np.nan)
    pairs = zip(problem.unknowns, sizes, strict=True)
    values = {each.name: float(np.exp(size) if each.scale == "log" else size) for each, size in pairs}
    bounds = active_bounds(problem.unknowns, values, residuals, jacobian)
    free = np.array([not bounds[name] for name in problem.names])
    return np.sqrt(np.diagonal(covariance_of(jacobian, free))) * scatter(problem, residuals, int(free.sum()))[2]
