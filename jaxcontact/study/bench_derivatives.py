"""What exact derivatives cost: a sweep that carries them, against the same sweep without, and against differences.

Errors are against derivatives at a far smaller tolerance. One counts relative to the derivative itself, or to a
hundredth of the largest one of that outcome in that configuration (by relative changes of the parameters) where it is
nearly zero. All outcomes are computed; those that end at zero by their definition are not judged.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from jaxcontact.integrate.machine import FINISHED
from jaxcontact.study.bench import crutch_sweep
from jaxcontact.study.definition import Study
from jaxcontact.study.execute import Job, LocalExecutor, job_of

BY = (
    *("q3", "dq3", "dq5", "mu", "k_n", "chi"),
    *("leg.mass", "leg.inertia", "torso.mass", "torso.centre", "forearm.mass", "forearm.length"),
)
CONFIGURATIONS, ROUNDS = 8192, 5
TIGHT = {"rtol": 1e-11, "atol": 1e-13}
STEP = float(np.finfo(np.float64).eps ** 0.5)  # of each parameter's own size: what scipy takes by default
JUDGED = ("P_n", "P_t", "W_n", "W_t", "t_end", "F_n_peak")

Tell = Callable[[int], None]


@dataclass(frozen=True)
class Cost:
    """One way to get there: seconds for all configurations (best round), in plain runs, and the errors of slopes."""

    what: str
    seconds: float
    plain_runs: float
    median_error: float | None = None
    worst_of_100: float | None = None  # the error that one in a hundred exceeds


class _Sweep:
    """One job on all devices, run again and again; the numbers of its configurations may be changed."""

    def __init__(self, study: Study, job: Job) -> None:
        self._executor = LocalExecutor()
        self._job = job
        self._params = study.configurations(0, study.space.total).params
        self._driver = self._executor.driver(job)

    def run(self) -> Any:
        ((_, found),) = self._driver.stream([(0, self._params)])
        return found

    def changed(self, name: str, share: float) -> Any:
        """The same with one parameter enlarged: numbers are arguments, so that nothing is compiled for it."""
        params, constants = dict(self._params), dict(self._job.constants)
        where: dict[str, Any] = params if name in params else constants
        where[name] = where[name] * (1.0 + share)
        ((_, found),) = self._executor.driver(self._job._replace(constants=constants)).stream([(0, params)])
        return found

    def value(self, name: str) -> Any:
        return self._params[name] if name in self._params else self._job.constants[name]


def measure_derivatives(
    tell: Tell = lambda done: None,
    *,
    study: Study | None = None,
    by: tuple[str, ...] = BY,
    judged: tuple[str, ...] = JUDGED,
    rounds: int = ROUNDS,
) -> list[Cost]:
    """Time plain runs, runs with derivatives and differences in turn, and take the best round of each.

    `tell` is told how many of `rounds` + 1 rounds are done; the first compiles, and does not count.
    """
    study = study or crutch_sweep(CONFIGURATIONS)
    job = job_of(study)
    plain, exact = _Sweep(study, job), _Sweep(study, job._replace(by=by))
    tight = job._replace(by=by, settings=replace(job.settings, **TIGHT))
    reference = _slopes_by_share(_Sweep(study, tight).run(), exact, by)

    def differences() -> dict[str, np.ndarray]:
        base = plain.run()["outcomes"]
        moved = [plain.changed(name, STEP)["outcomes"] for name in by]
        return {name: np.stack([(m[name] - base[name]) / STEP for m in moved]) for name in reference}

    ways: Mapping[str, Callable[[], Any]] = {
        "plain runs": plain.run,
        f"exact derivatives by {len(by)} parameters": lambda: _slopes_by_share(exact.run(), exact, by),
        "2-point differences, scipy's default step": differences,
    }
    best, last = dict.fromkeys(ways, np.inf), {}
    for number in range(rounds + 1):
        tell(number)
        for what, way in ways.items():
            began = time.perf_counter()
            last[what] = way()
            if number > 0:
                best[what] = min(best[what], time.perf_counter() - began)
    tell(rounds + 1)
    base = best["plain runs"]
    found = [Cost("plain runs", base, 1.0)]
    for what in list(ways)[1:]:
        errors = _errors(last[what], {name: reference[name] for name in judged})
        found.append(
            Cost(what, best[what], best[what] / base, float(np.median(errors)), float(np.quantile(errors, 0.99)))
        )
    return found


def _slopes_by_share(found: Any, sweep: _Sweep, by: tuple[str, ...]) -> dict[str, np.ndarray]:
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
