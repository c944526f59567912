"""Profile likelihood: how the cost rises when one unknown is held elsewhere and all others adapt."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from jaxcontact.errors import unknown
from jaxcontact.study.checks import whole_number
from jaxcontact.study.fit.fitting import Fit, run_starts
from jaxcontact.study.fit.solvers import Optimiser, start_names

CHI2_95 = 3.841458820694124  # of one degree of freedom
_SPAN = 4.0  # standard deviations either way
_NEAR = Optimiser("lm")  # near the answer it is the best, whatever found it


@dataclass(frozen=True, eq=False)
class Profile:
    """The lowest cost at each of several values of one unknown (stated unit)."""

    name: str
    unit: str
    values: np.ndarray
    cost: np.ndarray
    best: float  # the fit's value
    threshold: float  # cost up to which a value is within the 95 % interval
    low: float  # the interval; NaN where the profile does not leave it
    high: float


def profile(fit: Fit, name: str, *, points: int = 15, progress: Callable[[int, int], None] | None = None) -> Profile:
    """Hold one unknown at `points` values about its answer and fit the others again, from where they are.

    The values span four standard deviations either way, or the whole range where the data do not say. The threshold is
    widened as the intervals are (see `diagnosis`), so that both tell the same of a problem that is nearly linear.
    """
    problem = fit.problem
    if name not in problem.names:
        raise unknown("unknown", name, problem.names, "profile")
    points = whole_number(points, "points", least=3)
    place = problem.names.index(name)
    each, best = problem.unknowns[place], fit.values[name]
    low, high = each.ends
    middle = float(each.size(best))
    reach = _SPAN * fit.diagnosis.sd[place]
    if np.isfinite(reach):
        low, high = max(low, middle - reach), min(high, middle + reach)
    sizes = np.linspace(low, high, points)
    values = np.exp(sizes) if each.scale == "log" else sizes

    turns = np.repeat(fit.starts.last[fit.starts.best][None], points, axis=0)
    half = 0.5 * (each.ends[1] - each.ends[0])
    turns[:, place] = np.arcsin(np.clip((sizes - 0.5 * sum(each.ends)) / half, -1.0, 1.0))
    others = tuple(i for i in range(len(problem.unknowns)) if i != place)
    found = run_starts(
        problem,
        _NEAR,
        others,
        {u: turns[:, i] for i, u in enumerate(start_names(problem))},
        watch=None if progress is None else lambda runs: progress(runs, points),
    )
    lowest = min(float(np.nanmin(found["cost"])), fit.cost)
    threshold = lowest + CHI2_95 * fit.diagnosis.widened**2
    unit = next(p.unit for p in problem.model.parameters if p.name == name)
    ends = _crossings(sizes, found["cost"], middle, lowest, threshold)
    low, high = (float(np.exp(end)) if each.scale == "log" else end for end in ends)
    return Profile(name, unit, values, found["cost"], best, threshold, low, high)


def _crossings(
    sizes: np.ndarray, cost: np.ndarray, best: float, lowest: float, threshold: float
) -> tuple[float, float]:
    """Where the cost first passes the threshold on either side of the best size; NaN where it does not.

    Between points the root of the rise is taken as linear, which it is in a linear problem.
    """
    rise, level = np.sqrt(np.maximum(cost - lowest, 0.0)), np.sqrt(threshold - lowest)

    def out(side: np.ndarray) -> float:  # points of one side, from the best outwards
        at, height = best, 0.0
        for i in side:
            if np.isfinite(rise[i]) and rise[i] > level:
                return float(at + (level - height) / (rise[i] - height) * (sizes[i] - at))
            if np.isfinite(rise[i]):
                at, height = sizes[i], rise[i]
        return float("nan")

    places = np.arange(len(sizes))
    return out(places[sizes < best][::-1]), out(places[sizes > best])
