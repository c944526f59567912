"""What travels to a worker of a cluster, and what the worker does with it."""

import threading
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

import jax
import jax.numpy as jnp

from jaxcontact.errors import InputError
from jaxcontact.integrate.settings import Settings
from jaxcontact.models import get_model
from jaxcontact.study.execute import Found, Job, LocalExecutor
from jaxcontact.study.lanes import LaneDriver, Numbers
from jaxcontact.study.version import package_version


@dataclass(frozen=True)
class Errand:
    """A job that can travel and be compared: the model by name, everything else as it is."""

    version: str
    number_type: str
    model: str
    method: str
    laws: tuple[tuple[str, str], ...]
    settings: Settings
    points: int
    constants: tuple[tuple[str, float], ...]
    names: tuple[str, ...]
    total: int
    batch: int
    lanes: int | None

    @classmethod
    def of(cls, job: Job, lanes: int | None) -> "Errand":
        """Describe a job; its numbers will be of the type that the caller chose in JAX."""
        return cls(
            version=package_version(),
            number_type=str(jnp.result_type(float)),
            model=job.model.name,
            method=job.method,
            laws=job.laws,
            settings=job.settings,
            points=job.points,
            constants=tuple(job.constants.items()),
            names=job.names,
            total=job.total,
            batch=job.batch,
            lanes=lanes,
        )

    def job(self) -> Job:
        """Return the job, with the model that has this name here. Its total is the whole sweep's, so lanes are too."""
        return Job(
            model=get_model(self.model),
            method=self.method,
            laws=self.laws,
            settings=self.settings,
            points=self.points,
            constants=dict(self.constants),
            names=self.names,
            total=self.total,
            batch=self.batch,
        )


@dataclass(frozen=True)
class Load:
    """The numbers of a batch, in a box: dask looks for tasks inside of bare dictionaries."""

    numbers: Numbers


# ---------------------------------------------------------------- on a worker

_AT_WORK = threading.Lock()  # one batch has all devices of the process, however many threads dask has for tasks


def work(errand: Errand, load: Load) -> Found:
    """Run one batch on all devices of this worker."""
    from distributed import get_worker

    here = get_worker()
    if package_version() != errand.version:
        raise InputError(
            f"the worker at {here.address} has jaxcontact {package_version()}, the sweep was started by "
            f"{errand.version}\nneeded: the same version on every machine"
        )
    try:
        get_model(errand.model)
    except InputError as error:
        raise InputError(f"the worker at {here.address}: {error}") from None
    with _AT_WORK:
        _prepare_jax(errand.number_type, here.state.nthreads)
        try:
            ((_, found),) = _driver(errand).stream([(0, load.numbers)])
        except BaseException:
            _driver.cache_clear()  # its lanes may still be at work on what failed
            raise
    return found


# Kept between batches, because to trace a model takes as long as to run a small one; only the last, for its memory.
@lru_cache(maxsize=1)
def _driver(errand: Errand) -> LaneDriver:
    return LocalExecutor(lanes=errand.lanes).driver(errand.job())


def _prepare_jax(number_type: str, threads: int) -> None:
    """Choose the client's number type, and a CPU device for each of the worker's threads; GPUs are used if there are.

    Devices that somebody chose already, or that are in use, stay as they are.
    """
    jax.config.update("jax_enable_x64", number_type == "float64")
    if getattr(jax.config, "jax_num_cpu_devices", 0) < 0:
        with suppress(RuntimeError):  # JAX has started
            jax.config.update("jax_num_cpu_devices", threads)
