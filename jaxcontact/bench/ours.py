"""Our side of every comparison: a job on all devices, run again and again with its numbers in memory."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from jaxcontact.bench.cases import COUNT, Cases, draw_cases
from jaxcontact.bench.peers import Found
from jaxcontact.integrate.settings import Settings
from jaxcontact.models import get_model
from jaxcontact.models.model import default_params
from jaxcontact.study.execute import Job, LocalExecutor

CRUTCH = get_model("crutch")
_DEFAULTS = default_params(CRUTCH)


class Sweep:
    """One job on all devices, or so many; the numbers of its configurations may be changed. The first run compiles."""

    def __init__(self, job: Job, params: Mapping[str, np.ndarray], devices: int | None = None) -> None:
        self._executor = LocalExecutor(devices)
        self._job, self._params = job, dict(params)
        self._driver = self._executor.driver(job)

    def run(self) -> Any:
        """Return all that the job finds, the last axis over the configurations."""
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
        """A parameter's numbers, or its one number."""
        return self._params[name] if name in self._params else self._job.constants[name]


def crutch_cases(count: int = COUNT) -> Cases:
    """The first configurations of those that everybody gets, about the model's own stiffness and damping."""
    return draw_cases(COUNT, _DEFAULTS["k_n"], _DEFAULTS["chi"]).first(count)


def crutch_job(count: int, settings: Settings | None = None, by: tuple[str, ...] = ()) -> Job:
    """Compliant impacts with the default laws and all scalar outcomes; `by`: with derivatives by these parameters."""
    return Job(
        model=CRUTCH,
        method="compliant",
        laws=tuple(sorted((name, allowed[0]) for name, allowed in CRUTCH.choices.items())),
        settings=settings or Settings(),
        points=0,
        constants={name: value for name, value in _DEFAULTS.items() if name not in Cases._fields},
        names=Cases._fields,
        total=count,
        batch=count,
        by=by,
    )


def crutch_sweep_of(cases: Cases, settings: Settings | None = None, by: tuple[str, ...] = ()) -> Sweep:
    """Our sweep over some configurations."""
    return Sweep(crutch_job(len(cases.mu), settings, by), cases._asdict())


def found_by(sweep: Sweep) -> Found:
    """Run a sweep, and return what its peers return too."""
    outcomes = sweep.run()["outcomes"]
    return Found(*(np.asarray(outcomes[name]) for name in Found._fields))


def workers() -> int:
    """Threads, processes or devices that everybody gets: as many as we use."""
    return len(jax.local_devices())
