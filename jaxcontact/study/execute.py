"""What has to be run for a study, apart from where: a job, and the executor that does it on this machine's devices."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

from jaxcontact.errors import InputError
from jaxcontact.integrate.machine import EXCLUDED, Machine
from jaxcontact.integrate.settings import Settings
from jaxcontact.integrate.tangents import with_tangents
from jaxcontact.models.model import Model
from jaxcontact.study.beside import one_ahead
from jaxcontact.study.chunks import Chunk
from jaxcontact.study.definition import Configurations, Study
from jaxcontact.study.lane_program import machine_shapes
from jaxcontact.study.lanes import LaneDriver, Numbers, Tally

Found = dict[str, dict[str, np.ndarray]]  # "outcomes": name -> (n,); "curves": name -> (points, n)
Watch = Callable[[int], None]  # is told how many runs have come back

# Of a CPU, for runs that carry derivatives: their states are larger (measured on the crutch with 12 parameters).
# Through derivatives of whole steps, 16 to 64 lanes are alike, 128 a third slower. A machine's own way carries less:
# 144 to 216 lanes are alike, 96 a twentieth slower, 128 or 192, whose rows share lines of the cache, a tenth to 40 %.
TANGENT_LANES, VARIATION_LANES = 32, 200


class Job(NamedTuple):
    """All that a worker needs to know besides the numbers of each configuration; SI units."""

    model: Model
    method: str
    laws: tuple[tuple[str, str], ...]
    settings: Settings
    points: int  # of each curve; 0: no curves
    constants: Mapping[str, float]
    names: tuple[str, ...]  # the parameters that each configuration brings
    total: int
    batch: int  # configurations that come at a time, at most
    by: tuple[str, ...] = ()  # with derivatives by these: found is then {"values": ..., "slopes": ...}, by name first
    only: tuple[str, ...] | None = None  # what to bring back, as in "outcomes:P_n"; None: all


class Executor(Protocol):
    """Somewhere to run jobs."""

    def stream(
        self, job: Job, batches: Iterable[tuple[Hashable, Numbers]], watch: Watch
    ) -> Iterator[tuple[Hashable, Found | None]]:
        """Yield (key, what was found) of each batch when complete, in any order; of an empty one None, at once."""
        ...


class LocalExecutor:
    """Runs jobs on this process's devices, all of them unless some are named; `step_kernel` as for a `LaneDriver`."""

    def __init__(self, devices: int | None = None, lanes: int | None = None, step_kernel: str = "xla") -> None:
        here = jax.local_devices()
        for what, value in (("devices", devices), ("lanes", lanes)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise InputError(f"{what} = {value!r}: a whole number of at least 1 is needed")
        if devices is not None and devices > len(here):
            raise InputError(f"devices = {devices}: there are {len(here)} here ({here[0].platform})")
        self._devices, self._lanes, self._kernel = here[:devices], lanes, step_kernel
        self.tally = Tally()

    def stream(
        self, job: Job, batches: Iterable[tuple[Hashable, Numbers]], watch: Watch = lambda runs: None
    ) -> Iterator[tuple[Hashable, Found | None]]:
        """Yield (key, what was found) of each batch when complete, in any order; of an empty one None, at once."""
        return self.driver(job, watch).stream(batches)

    def driver(self, job: Job, watch: Watch = lambda runs: None) -> LaneDriver:
        """Return lanes for a job. They may serve one stream after another, and need not be made again for each."""
        lanes = self._lanes
        if lanes is None and job.by and self._devices[0].platform == "cpu":
            has_own_way = _builder(job._replace(by=()))(job.settings).variation is not None
            lanes = VARIATION_LANES if has_own_way else TANGENT_LANES
        driver = LaneDriver(
            _builder(job),
            job.settings,
            job.constants,
            job.names,
            total=job.total,
            batch=job.batch,
            devices=self._devices,
            lanes=lanes,
            watch=watch,
            step_kernel=self._kernel,
        )
        self.tally = driver.tally
        return driver


def job_of(study: Study, batch: int | None = None) -> Job:
    """What has to be run for a study. Where nothing varies, the model's first parameter is brought all the same."""
    constants = study.constant_params()
    names = tuple(p.name for p in study.model.parameters if p.name not in constants) or (next(iter(constants)),)
    return Job(
        model=study.model,
        method=study.method,
        laws=tuple(sorted(study.choices.items())),
        settings=study.settings,
        points=study.output.points if study.output.curves else 0,
        constants={name: value for name, value in constants.items() if name not in names},
        names=names,
        total=study.space.total,
        batch=min(batch or study.space.total, study.space.total),
    )


def result_types(job: Job) -> dict[str, dict[str, np.dtype]]:
    """Find which outcomes and curves a job will give, and their number types, without running or compiling anything."""
    shapes = machine_shapes(_builder(job), job.settings, tuple(job.constants), job.names)
    return jax.tree.map(lambda a: np.dtype(a.dtype), shapes.results)


def compute(
    study: Study, chunks: Iterable[Chunk], executor: Executor, batch: int, watch: Watch = lambda runs: None
) -> Iterator[tuple[Chunk, Configurations, Found]]:
    """Run chunks of at most `batch` configurations. What a condition excludes is not run, and its status says so."""
    job = job_of(study, batch)
    under_way: dict[Hashable, tuple[Chunk, Configurations]] = {}

    def batches():
        for chunk, numbers in one_ahead(lambda chunk: study.configurations(chunk.start, chunk.stop), chunks):
            under_way[chunk.number] = chunk, numbers
            params = numbers.params or _bring(study, job.names, chunk.size)
            yield chunk.number, {name: values[numbers.allowed] for name, values in params.items()}

    for number, found in executor.stream(job, batches(), watch):
        chunk, numbers = under_way.pop(number)
        yield chunk, numbers, _with_excluded(job, numbers.allowed, found)


def _bring(study: Study, names: tuple[str, ...], size: int) -> dict[str, np.ndarray]:
    constants = study.constant_params()
    return {name: np.full(size, constants[name]) for name in names}


def _with_excluded(job: Job, allowed: np.ndarray, found: Found | None) -> Found:
    """Results over all configurations: NaN and 0 where nothing was run."""
    if found is not None and allowed.all():
        return found
    types = result_types(job)

    def whole(kind: str, name: str) -> np.ndarray:
        leading = (job.points,) if kind == "curves" else ()
        dtype = types[kind][name]
        blank = np.nan if np.issubdtype(dtype, np.floating) else 0
        values = np.full((*leading, len(allowed)), EXCLUDED if name == "status" else blank, dtype)
        if found is not None:
            values[..., allowed] = found[kind][name]
        return values

    return {kind: {name: whole(kind, name) for name in names} for kind, names in types.items()}


# Kept between runs: the same function object means the same compiled program.
@lru_cache(maxsize=64)
def _machine_builder(
    model_machine: Callable,
    recorder: Callable,
    method: str,
    laws: tuple,
    points: int,
    by: tuple[str, ...] = (),
    only: tuple[str, ...] | None = None,
) -> Any:
    def plain(settings: Settings) -> Machine:
        if points:
            return recorder(method, dict(laws), settings, points)
        scalars = model_machine(method, dict(laws), settings)
        return scalars._replace(finish=lambda params, state: {"outcomes": scalars.finish(params, state), "curves": {}})

    def chosen(settings: Settings) -> Machine:
        whole, kept = plain(settings), only
        if kept is None:
            return whole

        def finish(params, state):
            found = whole.finish(params, state)
            return {kind: {n: found[kind][n] for n in found[kind] if f"{kind}:{n}" in kept} for kind in found}

        return whole._replace(finish=finish)

    def build(settings: Settings) -> Machine:
        return with_tangents(chosen(settings), by) if by else chosen(settings)

    return build


def _builder(job: Job):
    return _machine_builder(
        job.model.machine, job.model.recorder, job.method, job.laws, job.points, by=job.by, only=job.only
    )
