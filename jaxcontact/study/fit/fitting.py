"""Run a fit: many starts through lanes, stage by stage, and then a look at where the best one ended."""

import fnmatch
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxcontact.errors import InputError, unknown
from jaxcontact.integrate.machine import FINISHED, STATUS
from jaxcontact.integrate.settings import Settings
from jaxcontact.study.checks import whole_number
from jaxcontact.study.fit.diagnosis import Diagnosis, diagnose
from jaxcontact.study.fit.problem import Problem
from jaxcontact.study.fit.second_opinion import run_optimistix
from jaxcontact.study.fit.solvers import OPTIMISERS, Optimiser, fit_machine, start_names, value_and_jacobian
from jaxcontact.study.fit.unknowns import starting_turns
from jaxcontact.study.lanes import LaneDriver

Progress = Callable[..., None]  # starts done, starts in all

# Starts by default: many where a residual is a formula, fewer where each is a simulation.
STARTS, STARTS_SIMULATED = 1000, 32
_MAX_STEPS = dict(zip(OPTIMISERS, (100, 2000, 200, 200), strict=True))
_NUMBERS = 2**18  # of a Jacobian, in all lanes of a core: they stay in its cache
_MOST_LANES = {"cpu": 32}
_MOST_LANES_ELSEWHERE = 4096


@dataclass(frozen=True, eq=False)
class Starts:
    """Where every start began and ended; arrays with the starts first, turns as in `unknowns`."""

    first: np.ndarray  # (starts, unknowns)
    last: np.ndarray  # (starts, unknowns)
    first_cost: np.ndarray
    cost: np.ndarray  # Lopes eq. 3, with the priors
    steps: np.ndarray
    reason: np.ndarray  # codes of solvers.REASONS

    @property
    def best(self) -> int:
        """The start with the lowest cost."""
        return int(np.nanargmin(np.where(np.isfinite(self.cost), self.cost, np.inf)))


@dataclass(frozen=True, eq=False)
class Fit:
    """What was found: `values` in stated units by name, how well they explain the data, and how sure they are."""

    problem: Problem
    values: dict[str, float]
    starts: Starts
    optimiser: Optimiser
    stages: tuple[tuple[str, ...], ...]
    predictions: dict[str, np.ndarray]  # by channel: what the model says about its samples (SI)
    diagnosis: Diagnosis

    @property
    def cost(self) -> float:
        """Lopes eq. 3, with the priors."""
        return float(self.starts.cost[self.starts.best])

    @property
    def rms(self) -> dict[str, float]:
        """Root-mean-square difference by channel, over the samples that count, in the channel's unit."""
        return {name: rms_of(self.problem, name, found) for name, found in self.predictions.items()}

    def stated(self) -> dict[str, float]:
        """Every parameter of the model at the answer, in stated units: found, tied, set by hand or default."""
        values = jnp.asarray([self.values[name] for name in self.problem.names])
        return {name: float(value) for name, value in self.problem.stated(values).items()}


def rms_of(problem: Problem, name: str, found: np.ndarray) -> float:
    """Root-mean-square difference (channel's unit) of a prediction; samples without one do not count."""
    channel = next(each for each in problem.channels if each.name == name)
    counts = channel.valid & np.isfinite(found)
    return float(np.sqrt(np.mean((found - channel.values)[counts] ** 2))) if counts.any() else float("nan")


def score(problem: Problem, values: dict[str, float]) -> dict[str, np.ndarray]:
    """What the model says about every channel of a problem at given values of its unknowns, without fitting."""
    numbers = jnp.asarray([values[name] for name in problem.names])
    found = _predictions(problem)(numbers)
    return {channel.name: np.asarray(each) for channel, each in zip(problem.channels, found, strict=True)}


def fit(
    problem: Problem,
    *,
    starts: int | None = None,
    seed: int = 0,
    stages: Sequence[Sequence[str]] | None = None,
    method: str = "lm",
    tolerance: float = 1e-6,
    max_steps: int | None = None,
    lanes: int | None = None,
    progress: Progress | None = None,
) -> Fit:
    """Find the unknowns of a problem: Levenberg-Marquardt ("lm"), or optax's "adam" or "lbfgs" for rough problems.

    "optimistix" asks that library's Levenberg-Marquardt for a second opinion; it is slower.
    The first start is where the problem says, the others are spread over the ranges. `stages` are lists of names:
    each stage frees its own besides those of the stages before, from where every start then is; the last frees all.
    A name with * stands for all that it fits, as in "s*.radius".
    `progress(done, total)` counts starts over all stages.
    """
    starts = whole_number(
        starts if starts is not None else (STARTS_SIMULATED if problem.simulated else STARTS), "starts", least=1
    )
    if method not in OPTIMISERS:
        raise unknown("optimiser", str(method), OPTIMISERS, "[fit]")
    if not 0 < tolerance < 1:
        raise InputError(f"[fit] tolerance = {tolerance!r}: a number between 0 and 1 is needed")
    optimiser = Optimiser(method, tolerance, whole_number(max_steps or _MAX_STEPS[method], "max_steps", least=1))
    order = _stages(problem, stages)
    turns = begin = starting_turns(problem.model, problem.unknowns, starts, seed)
    found: dict[str, np.ndarray] = {}
    for number, names in enumerate(order):
        active = tuple(problem.names.index(name) for name in names)
        tell = None if progress is None else _part_of(progress, number, len(order), starts)
        before, now = found, {n: turns[:, i] for i, n in enumerate(start_names(problem))}
        if method == "optimistix":
            found = run_optimistix(problem, optimiser, active, now, watch=tell)
        else:
            found = run_starts(problem, optimiser, active, now, lanes=lanes, watch=tell)
        found["first_cost"] = before.get("first_cost", found["first_cost"])
        turns = found["u"].T
    whole = Starts(begin, turns, found["first_cost"], found["cost"], found["steps"], found["reason"])
    if not np.isfinite(whole.cost).any():
        raise InputError(
            f"no start has a finite cost: {_failure(problem, turns[0])}\nlook at the ranges in [unknown], and at [set]"
        )
    return _examined(problem, whole, optimiser, order)


def run_starts(
    problem: Problem,
    optimiser: Optimiser,
    active: tuple[int, ...],
    begin: dict[str, np.ndarray],
    *,
    lanes: int | None = None,
    watch: Callable[[int], None] | None = None,
    noise: Callable[[Any], Any] | None = None,
    finish: Callable[[Any, Any], dict] | None = None,
) -> dict[str, np.ndarray]:
    """Send starts through lanes, on all devices; every result ends with an axis over the starts."""
    total = len(next(iter(begin.values())))
    driver = LaneDriver(
        _builder(problem, optimiser, active, noise, finish),
        Settings(),
        {},
        tuple(begin),
        total=total,
        lanes=lanes or _lanes_for(problem, len(active)),
        watch=watch or (lambda runs: None),
    )
    ((_, found),) = driver.stream([("starts", begin)])
    return {name: np.asarray(values) for name, values in found.items()}


def _lanes_for(problem: Problem, active: int) -> int:
    platform = jax.local_devices()[0].platform
    most = _MOST_LANES.get(platform, _MOST_LANES_ELSEWHERE)
    room = _NUMBERS if platform == "cpu" else 2**28
    return int(np.clip(room // (problem.residual_count * (active + 1)), 1, most))


# Kept, so that the same question asked again (another seed, more starts) compiles nothing.
@lru_cache(maxsize=32)
def _builder(problem: Problem, optimiser: Optimiser, active: tuple[int, ...], noise, finish):
    return fit_machine(problem, optimiser, active, noise, finish)


@lru_cache(maxsize=32)
def _looked_at(problem: Problem):
    """Compiled: residuals, their Jacobian by the unknowns' sizes, and predictions, in one program."""
    return jax.jit(lambda s: value_and_jacobian(lambda s: problem.compared(problem.of_sizes(s)), s, has_aux=True))


@lru_cache(maxsize=32)
def _predictions(problem: Problem):
    return jax.jit(problem.channel_predictions)


def _examined(problem: Problem, starts: Starts, optimiser: Optimiser, order) -> Fit:
    values = problem.values_at(jnp.asarray(starts.last[starts.best]))
    first = problem.values_at(jnp.asarray(starts.first[0]))
    look = _looked_at(problem)
    residuals, jacobian, found = jax.tree.map(np.asarray, look(problem.sizes_of(values)))
    at_start = np.asarray(look(problem.sizes_of(first))[1])
    named = dict(zip(problem.names, np.asarray(values).tolist(), strict=True))
    said = {channel.name: each for channel, each in zip(problem.channels, found, strict=True)}
    return Fit(
        problem=problem,
        values=named,
        starts=starts,
        optimiser=optimiser,
        stages=order,
        predictions=said,
        diagnosis=diagnose(problem, named, residuals, jacobian, at_start, starts, said),
    )


def _failure(problem: Problem, turns: np.ndarray) -> str:
    """Why the run at a start fails, in words."""
    outcomes, *_ = jax.jit(problem.predict)(problem.values_at(jnp.asarray(turns)))
    status = int(outcomes["status"])
    return "what is computed is not finite" if status == FINISHED else f"in the first, {STATUS[status][1]}"


def _stages(problem: Problem, stages: Sequence[Sequence[str]] | None) -> tuple[tuple[str, ...], ...]:
    """What each stage frees: its own names and those before it."""
    if not stages:
        return (problem.names,)
    freed: list[tuple[str, ...]] = []
    so_far: set[str] = set()
    for stage in stages:
        for name in stage:
            if not (fitting := fnmatch.filter(problem.names, name)):
                raise unknown("unknown", name, problem.names, "[fit] stages")
            so_far.update(fitting)
        freed.append(tuple(name for name in problem.names if name in so_far))
    if left := [name for name in problem.names if name not in freed[-1]]:
        raise InputError(f"[fit] stages leave out {', '.join(left)}: every unknown belongs to a stage")
    return tuple(freed)


def _part_of(progress: Progress, number: int, stages: int, starts: int) -> Callable[[int], None]:
    return lambda runs: progress(number * starts + runs, stages * starts)
