"""How fast this machine fits: exact derivatives against plain runs, and many starts against scipy's `least_squares`.

scipy gets the same residuals, compiled, in the same coordinates and from the same starts, with its own default:
differences for the Jacobian. What it would take is told as if one process on each core shared the starts without loss.
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

import jax
import numpy as np
from scipy.optimize import least_squares

from jaxcontact.bench.derivatives import Cost, measure_derivatives
from jaxcontact.bench.rows import Part, Row, Tell, silent
from jaxcontact.bench.stance import made_up_stance
from jaxcontact.errors import InputError
from jaxcontact.measured import Stance, read_stances
from jaxcontact.models.layouts import NINE_SPHERES
from jaxcontact.study.fit import Problem, fit
from jaxcontact.study.fit.unknowns import starting_turns
from jaxcontact.study.named import load_named
from jaxcontact.study.progress import ProgressDisplay
from jaxcontact.tracked.walk import CORRECTION, walk_model

STARTS, SCIPY_STARTS, MAX_STEPS, FRAMES = 1000, 4, 60, 61
FEWER_STARTS, SHORT_FRAMES = 200, 11
WANTED = 1000  # starts that times are projected to
_SEED = 1


@dataclass(frozen=True)
class Fits:
    """One way to fit: starts, seconds to get ready, then seconds each on all cores; costs where starts are shared."""

    what: str
    starts: int
    ready: float
    each: float
    best: float  # sum of squared residuals, of all its starts
    median_shared: float  # of those starts that both ways took

    @property
    def wanted(self) -> float:
        """Seconds for `WANTED` starts."""
        return self.ready + WANTED * self.each


def foot_problem(stance: Stance, frames: int = FRAMES) -> Problem:
    """Nine spheres to force and centre of pressure under the motion of a stance, as the study `fit_foot` asks it."""
    study = load_named("fit_foot")
    tracked = walk_model(stance, NINE_SPHERES, frames, correction=CORRECTION)
    return Problem.of_tracked(tracked, unknowns=[*study.contact_unknowns(tracked), *study.correction_unknowns()])


def measure_fits(
    problem: Problem,
    *,
    starts: int = STARTS,
    scipy_starts: int = SCIPY_STARTS,
    max_steps: int = MAX_STEPS,
    tell: Callable[[int], None] = lambda done: None,
) -> list[Fits]:
    """Fit a problem from many starts, then with scipy from the first few of them, half before and half after."""
    shared = min(scipy_starts, starts)
    first = starting_turns(problem.model, problem.unknowns, starts, _SEED)[:shared]
    residuals = jax.jit(lambda u: problem.residuals(problem.values_at(u)))
    began = time.perf_counter()
    residuals(first[0]).block_until_ready()
    scipy_ready = time.perf_counter() - began

    costs, seconds = [], []

    def by_scipy(rows: np.ndarray) -> None:
        for row in rows:
            begin = time.perf_counter()
            found = least_squares(lambda u: np.asarray(residuals(u)), row, jac="2-point", max_nfev=max_steps)
            seconds.append(time.perf_counter() - begin)
            costs.append(2.0 * found.cost)
            tell(len(costs))

    by_scipy(first[: shared // 2])
    before = len(costs)
    looks: list[float] = []

    def watch(done: int, total: int) -> None:
        looks.append(time.perf_counter())
        tell(before + done)

    began = time.perf_counter()
    ours = fit(problem, starts=starts, seed=_SEED, max_steps=max_steps, progress=watch)
    # The first look comes when everything is compiled and some steps are done; what follows the last one is no start's.
    ready, ended = looks[0] - began, looks[-1]
    each = (ended - looks[0] if len(looks) > 1 else ended - began) / starts
    by_scipy(first[shared // 2 :])
    each_by_scipy = float(np.mean(seconds)) / len(jax.local_devices())
    our_costs = np.asarray(ours.starts.cost)
    return [
        Fits("ours: exact Jacobians, in lanes", starts, ready, each, ours.cost, float(np.median(our_costs[:shared]))),
        Fits(
            "scipy: least_squares, 2-point",
            shared,
            scipy_ready,
            each_by_scipy,
            float(min(costs)),
            float(np.median(costs)),
        ),
    ]


def stance_of(file: Path | None) -> Stance:
    """The first stance of a right foot in a file with its mass known, or the made-up one."""
    if file is None:
        return made_up_stance()
    if not file.is_file():
        raise InputError(f"there is no file {file}")
    stances = read_stances([file])
    return next((stance for stance in stances if stance.side == "R"), stances[0])


def bench_fit(
    stream: TextIO,
    *,
    starts: int = STARTS,
    scipy_starts: int = SCIPY_STARTS,
    file: Path | None = None,
    to_json: Path | None = None,
) -> tuple[list[Cost], list[Fits]]:
    """Measure derivatives and the fit of a foot; print one table of ratios."""
    problem = foot_problem(stance_of(file))
    with ProgressDisplay("bench: derivatives") as progress:
        costs = measure_derivatives(progress)
    with ProgressDisplay("bench: fit") as progress:
        total = starts + min(starts, scipy_starts)
        fits = measure_fits(
            problem, starts=starts, scipy_starts=scipy_starts, tell=lambda done: progress(min(done, total), total)
        )
    stream.write(table(costs, fits, problem))
    if to_json is not None:
        numbers = {"derivatives": [asdict(c) for c in costs], "fits": [asdict(f) for f in fits]}
        to_json.write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")
    return costs, fits


def fit_part(tell: Tell = silent, *, short: bool = False) -> Part:
    """The part `fit` of the table of all ratios: fewer starts than `bench_fit` takes, for the ratio is of one start."""
    problem = foot_problem(made_up_stance(), SHORT_FRAMES) if short else foot_problem(made_up_stance())
    starts, scipy_starts, max_steps = (2, 1, 2) if short else (FEWER_STARTS, SCIPY_STARTS, MAX_STEPS)
    total = starts + scipy_starts
    ours, scipy = measure_fits(
        problem,
        starts=starts,
        scipy_starts=scipy_starts,
        max_steps=max_steps,
        tell=lambda done: tell(min(done, total), total),
    )
    row = Row(
        f"scipy's over ours, {len(problem.unknowns)} unknowns of a foot",
        scipy.each / ours.each,
        f"least_squares with 2-point differences on our compiled residuals, {scipy.starts} starts as if shared by all "
        f"cores; ours: {ours.starts} starts",
        f"its cost over ours, median of the starts that both took: {scipy.median_shared / ours.median_shared:.3g}",
    )
    numbers = {"fits": [asdict(one) for one in (ours, scipy)]}
    return Part("fit", "time of a fit from one start, over many in lanes", (row,), numbers)


def table(costs: list[Cost], fits: list[Fits], problem: Problem) -> str:
    """Everything in words, ratios first."""
    cores = len(jax.local_devices())
    lines = [
        "Crutch impacts, compliant, default tolerance, all outcomes; best of several rounds, in turn.",
        f"{'':44} {'plain runs':>11} {'error: median':>14} {'1 in 100':>9}",
    ]
    for cost in costs:
        errors = "" if cost.median_error is None else f" {cost.median_error:>14.0e} {cost.worst_of_100:>9.0e}"
        lines.append(f"{cost.what:44} {cost.plain_runs:>11.1f}{errors}")
    ours, scipy = fits
    lines += [
        "",
        f"Fit of {len(problem.unknowns)} unknowns of a foot to {problem.sample_count} samples of "
        f"{problem.source.get('stance', problem.model.summary)}; {cores} cores.",
        f"{'':34} {'starts':>7} {'ready (s)':>10} {'each (s)':>9} {f'{WANTED:,} (min)':>12} {'cost: best':>11} "
        f"{'median, shared':>15}",
    ]
    for one in fits:
        lines.append(
            f"{one.what:34} {one.starts:>7,} {one.ready:>10.1f} {one.each:>9.3f} {one.wanted / 60:>12.1f} "
            f"{one.best:>11.1f} {one.median_shared:>15.1f}"
        )
    words = "measured" if ours.starts >= WANTED else f"estimated from {ours.starts:,}"
    lines += [
        f"ratio of a start, scipy to ours: {scipy.each / ours.each:.1f}; {WANTED:,} starts of ours are {words},"
        " scipy's are estimated,",
        "as if a process on each core had its share. Cost: sum of squared residuals; shared: starts that both took.",
    ]
    return "\n".join(lines) + "\n"
