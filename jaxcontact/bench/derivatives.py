"""What exact derivatives cost: a sweep that carries them, against the same sweep without, and against differences.

Errors are against derivatives at a far smaller tolerance. One counts relative to the derivative itself, or to a
hundredth of the largest one of that outcome in that configuration (by relative changes of the parameters) where it is
nearly zero. All outcomes are computed; those that end at zero by their definition are not judged.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import jax
import numpy as np

from jaxcontact.bench.ours import Sweep
from jaxcontact.bench.rows import Part, Row, Tell, silent
from jaxcontact.bench.sweep import crutch_sweep
from jaxcontact.bench.timing import take_turns
from jaxcontact.integrate.machine import FINISHED
from jaxcontact.study.definition import Study
from jaxcontact.study.execute import job_of

BY = (
    *("q3", "dq3", "dq5", "mu", "k_n", "chi"),
    *("leg.mass", "leg.inertia", "torso.mass", "torso.centre", "forearm.mass", "forearm.length"),
)
CONFIGURATIONS, ROUNDS = 8192, 5
TIGHT = {"rtol": 1e-11, "atol": 1e-13}
STEP = float(np.finfo(np.float64).eps ** 0.5)  # of each parameter's own size: what scipy takes by default
JUDGED = ("P_n", "P_t", "W_n", "W_t", "t_end", "F_n_peak")

SHORT_COUNT = 64


@dataclass(frozen=True)
class Cost:
    """One way to get there: seconds for all configurations (best round), in plain runs, and the errors of slopes."""

    what: str
    seconds: float
    plain_runs: float
    median_error: float | None = None
    worst_of_100: float | None = None  # the error that one in a hundred exceeds


def measure_derivatives(
    tell: Tell = silent,
    *,
    study: Study | None = None,
    by: tuple[str, ...] = BY,
    judged: tuple[str, ...] = JUDGED,
    rounds: int = ROUNDS,
) -> list[Cost]:
    """Time plain runs, runs with derivatives and differences in turn, and take the best round of each."""
    study = study or crutch_sweep(CONFIGURATIONS)
    job, params = job_of(study), study.configurations(0, study.space.total).params
    plain, exact = Sweep(job, params), Sweep(job._replace(by=by), params)
    tight = job._replace(by=by, settings=replace(job.settings, **TIGHT))
    reference = _slopes_by_share(Sweep(tight, params).run(), exact, by)

    def differences() -> dict[str, np.ndarray]:
        base = plain.run()["outcomes"]
        moved = [plain.changed(name, STEP)["outcomes"] for name in by]
        return {name: np.stack([(m[name] - base[name]) / STEP for m in moved]) for name in reference}

    ways: Mapping[str, Callable[[], Any]] = {
        "plain runs": plain.run,
        (by_tangents := f"exact derivatives by {len(by)} parameters"): exact.run,
        "2-point differences, scipy's default step": differences,
    }
    timed = take_turns(ways, rounds, tell)
    base = timed["plain runs"].seconds
    found = [Cost("plain runs", base, 1.0)]
    for what in list(ways)[1:]:
        seconds, slopes = timed[what]
        if what == by_tangents:  # by relative changes only for the errors
            slopes = _slopes_by_share(slopes, exact, by)
        errors = _errors(slopes, {name: reference[name] for name in judged})
        found.append(Cost(what, seconds, seconds / base, float(np.median(errors)), float(np.quantile(errors, 0.99))))
    return found


def derivatives_part(tell: Tell = silent, *, short: bool = False) -> Part:
    """The part `derivatives` of the table of all ratios."""
    study, rounds = (crutch_sweep(SHORT_COUNT), 1) if short else (None, ROUNDS)
    costs = measure_derivatives(tell, study=study, rounds=rounds)
    rows = tuple(
        Row(
            f"{cost.what}, over plain runs",
            cost.plain_runs,
            "all scalar outcomes of crutch impacts",
            f"median {cost.median_error:.0e}, one in 100 above {cost.worst_of_100:.0e}",
        )
        for cost in costs[1:]
    )
    numbers = {"costs": [asdict(cost) for cost in costs]}
    return Part("derivatives", "time of a sweep with derivatives over that of the sweep without", rows, numbers)


def _slopes_by_share(found: Any, sweep: Sweep, by: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Derivatives by relative changes of the parameters, (by, n); NaN where a run did not finish."""
    size = np.stack([np.broadcast_to(sweep.value(name), found["values"]["outcomes"]["status"].shape) for name in by])
    finished = found["values"]["outcomes"]["status"] == FINISHED
    slopes = {name: values for name, values in found["slopes"]["outcomes"].items() if values is not None}
    return jax.tree.map(lambda values: np.where(finished, size * values, np.nan), slopes)


def _errors(found: Mapping[str, np.ndarray], reference: Mapping[str, np.ndarray]) -> np.ndarray:
    """Relative errors of all slopes that both have."""
    errors = []
    for name, exact in reference.items():
        # A tip that sticks from the start does no tangential work: what is zero there is so for every parameter.
        largest = np.max(np.abs(exact), axis=0)
        size = np.maximum(np.abs(exact), np.maximum(0.01 * largest, 1e-6 * np.nanmax(largest)))
        counts = np.isfinite(found[name]) & np.isfinite(exact) & (size > 0)
        errors.append(np.abs(found[name] - exact)[counts] / size[counts])
    return np.concatenate(errors)
