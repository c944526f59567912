"""The same sweep on many machines: an executor that hands chunks to the workers of a dask.distributed cluster.

A task is one batch, and all that it needs travels with it: the model by name, what to do with it, and the numbers of
its configurations. So a worker may join at any time, and what a worker that died had under way is done by another.
"""

import asyncio
import json
import logging
import threading
import time
import warnings
from collections.abc import Hashable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import jax
import jax.numpy as jnp

from jaxcontact.errors import InputError
from jaxcontact.integrate.settings import Settings
from jaxcontact.models import MODELS, get_model
from jaxcontact.study.execute import Found, Job, LocalExecutor, Watch
from jaxcontact.study.lanes import LaneDriver, Numbers
from jaxcontact.study.version import package_version

if TYPE_CHECKING:
    from distributed import Client, Future

ADDRESSES = (
    "allowed: the address of a scheduler, as in tcp://host:8786 or host:8786; the .json file that it writes with "
    "--scheduler-file; or local:N for N workers on this machine"
)
_ANSWER = 10.0  # s until a scheduler must have answered
_LOOK = 1.0  # s between looks at who is there
_FAREWELL = 10.0  # s that a cluster of our own may take to end
# dask gives a task up when 4 workers died with it, by a setting of the scheduler's that is not ours (allowed-failures).
# Machines on loan go in droves, so we hand it in again, so often; a batch that kills every worker still has an end.
_AGAIN = 5


class ClusterExecutor:
    """Runs jobs on a dask.distributed cluster, in a `with` block; every worker uses all its own devices.

    `address` is that of a scheduler, "host:8786", or the .json file that it wrote, or "local:N", which starts N worker
    processes that share this machine's cores until the block ends. A script that does so needs the usual
    `if __name__ == "__main__":`, because the workers import it. `lanes` is for each device of a worker, as on one
    machine. When there is no worker for `patience` seconds, that is an error; otherwise they may come and go.

    Results are those of one machine, to the last bit if its devices are of the same kind and number as each worker's;
    otherwise XLA may round differently (1e-14).
    """

    def __init__(self, address: str, lanes: int | None = None, *, patience: float = 600.0) -> None:
        if lanes is not None and (isinstance(lanes, bool) or not isinstance(lanes, int) or lanes < 1):
            raise InputError(f"lanes = {lanes!r}: a whole number of at least 1 is needed")
        _check_installed()
        self._local = _check_address(address)
        self._address, self._lanes, self._patience = address, lanes, patience
        self._open: Client | None = None

    def __enter__(self) -> "ClusterExecutor":
        """Connect to the scheduler, or start one."""
        with ExitStack() as kept:
            address = kept.enter_context(_LocalCluster(self._local)) if self._local else _scheduler(self._address)
            self._open = _connect(address)
            kept.callback(self._disconnect)
            self._close = kept.pop_all().close
        return self

    def __exit__(self, *exception: object) -> None:
        """Leave the cluster; one of our own ends."""
        self._close()

    def workers(self) -> int:
        """How many workers there are now."""
        try:
            there: Any = self._client.nthreads()
            return len(there)
        except OSError as error:
            raise self._lost() from error

    def stream(
        self, job: Job, batches: Iterable[tuple[Hashable, Numbers]], watch: Watch = lambda runs: None
    ) -> Iterator[tuple[Hashable, Found]]:
        """Yield (key, what was found) of each batch as it becomes complete, in any order."""
        if MODELS.get(job.model.name) is not job.model:
            raise InputError(
                f"the model '{job.model.name}' cannot run on a cluster: workers find a model by its name, and this one "
                f"is not among jaxcontact's own\nallowed: {', '.join(MODELS)}; or no cluster"
            )
        return self._stream(_Errand.of(job, self._lanes), batches, watch)

    # ---------------------------------------------------------------- on the client

    @property
    def _client(self) -> "Client":
        if self._open is None:
            raise InputError("a ClusterExecutor must be opened first: with ClusterExecutor(...) as executor: ...")
        return self._open

    def _stream(
        self, errand: "_Errand", batches: Iterable[tuple[Hashable, Numbers]], watch: Watch
    ) -> Iterator[tuple[Hashable, Found]]:
        waiting, came_back, runs = iter(batches), SimpleQueue[Any](), 0
        under_way: dict[Any, _Sent] = {}  # by dask's name for the task
        window = _Window(self)

        def send(key: Hashable, numbers: Numbers, times: int = 1) -> None:
            future = self._submit(errand, numbers)
            under_way[future.key] = _Sent(key, numbers, times, future)
            future.add_done_callback(came_back.put)

        try:
            while True:
                # Memory is bounded by what is under way: one batch at work and one in reserve for each worker.
                while len(under_way) < window.size() and (batch := next(waiting, None)) is not None:
                    send(*batch)
                if not under_way:
                    return
                try:
                    future = came_back.get(timeout=_LOOK)  # not for ever, so that Ctrl-C and a lost cluster are noticed
                except Empty:
                    continue
                sent = under_way[future.key]
                found = self._found(future)
                del under_way[future.key]
                future.release()
                if found is None:
                    if sent.times > _AGAIN:
                        raise _deadly(sent.size)
                    send(sent.key, sent.numbers, sent.times + 1)
                    continue
                runs += sent.size
                watch(runs)
                yield sent.key, found
        finally:
            if under_way:  # an error, Ctrl-C, or nobody wants the rest
                with suppress(Exception):
                    self._client.cancel([sent.future for sent in under_way.values()])

    def _submit(self, errand: "_Errand", numbers: Numbers) -> "Future":
        with warnings.catch_warnings():
            # Numbers travel with the task on purpose: were they scattered beforehand, they would die with a worker.
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            try:
                return self._client.submit(_work, errand, _Load(numbers), key=f"jaxcontact-{uuid4().hex}", pure=False)
            except Exception as error:
                raise (self._lost() if self._client.status != "running" else error) from None

    def _found(self, future: "Future") -> Found | None:
        """Fetch a result; None if too many workers died with it. An error of the task's own is raised, not retried."""
        from distributed import KilledWorker

        try:
            return future.result(timeout=self._patience)
        except KilledWorker:
            return None
        except ImportError as error:
            raise _cannot_load(error) from error
        except Exception as error:
            if future.cancelled():
                raise self._lost() from error
            if isinstance(error, TimeoutError) and future.status != "error":  # it was lost again, with its worker
                raise self._deserted() from None
            if "deserializ" in str(error):  # the scheduler's words for the same as an ImportError
                raise _cannot_load(error) from error
            raise

    def _lost(self) -> InputError:
        return InputError(
            f"the scheduler at {self._address} is gone\n"
            "what was written to a directory is kept: start the cluster and the same run again, and it goes on"
        )

    def _deserted(self) -> InputError:
        return InputError(
            f"{self._address}: no worker for {self._patience:g} s\nneeded: at least one, as in dask worker ADDRESS"
        )

    def _disconnect(self) -> None:
        client, self._open = self._open, None
        if client is not None:
            with suppress(OSError):
                client.close(timeout=_FAREWELL)


class _Window:
    """How many batches may be under way: two for each worker there is now."""

    def __init__(self, executor: ClusterExecutor) -> None:
        self._executor = executor
        self._looked = float("-inf")
        self._seen = time.monotonic()  # when there last was a worker
        self._workers = 0

    def size(self) -> int:
        now = time.monotonic()
        if now - self._looked >= _LOOK:
            self._workers, self._looked = self._executor.workers(), now
            if self._workers:
                self._seen = now
            elif now - self._seen > self._executor._patience:
                raise self._executor._deserted()
        return max(2, 2 * self._workers)


class _Sent(NamedTuple):
    """A batch under way, kept until its result is here: it may have to be sent again."""

    key: Hashable
    numbers: Numbers
    times: int
    future: "Future"

    @property
    def size(self) -> int:
        return len(next(iter(self.numbers.values())))


def _deadly(size: int) -> InputError:
    return InputError(
        f"every worker that was given a certain chunk of {size} configurations died, too often to be by chance\n"
        "it may need more memory than a worker has: allowed are smaller chunks, and workers with more memory"
    )


def _cannot_load(error: Exception) -> InputError:
    return InputError(
        f"the cluster cannot load jaxcontact's task ({type(error).__name__}: {error})\n"
        f"needed: jaxcontact {package_version()} on the scheduler and on every worker, as here"
    )


# ---------------------------------------------------------------- where the cluster is


def _check_installed() -> None:
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise InputError("a cluster needs dask.distributed: pip install 'jaxcontact[cluster]'") from None


def _check_address(address: str) -> int:
    """Return how many workers to start here, 0 for a cluster that is elsewhere; refuse what can be neither."""
    if not isinstance(address, str) or not address:
        raise InputError(f"cluster = {address!r}: not an address\n{ADDRESSES}")
    kind, _, count = address.partition(":")
    if kind == "local":
        if not (count.isascii() and count.isdigit() and int(count) >= 1):
            raise InputError(f"cluster '{address}': N must be a whole number of at least 1\n{ADDRESSES}")
        return int(count)
    if not address.endswith(".json"):
        _check_parts(address)
    return 0


def _check_parts(address: str) -> None:
    from distributed.comm.addressing import parse_address, parse_host_port
    from distributed.comm.registry import get_backend

    try:
        scheme, location = parse_address(address)
        get_backend(scheme)
        host, port = parse_host_port(location)
        if scheme == "inproc" or not host or not 0 < port < 2**16:
            raise ValueError(f"{scheme}, host {host!r}, port {port}")
    except (ValueError, ImportError) as error:
        raise InputError(f"cluster '{address}': not an address ({error})\n{ADDRESSES}") from None


def _scheduler(address: str) -> str:
    """Return the address of a scheduler that is running: as given, or from its file, which may be about to appear."""
    if not address.endswith(".json"):
        return address
    give_up, problem = time.monotonic() + _ANSWER, ""
    while time.monotonic() < give_up:
        try:
            found = json.loads(Path(address).read_text(encoding="utf-8"))["address"]
            _check_parts(found)
            return found
        except FileNotFoundError:
            problem = f"no such file appeared within {_ANSWER:g} s"
        except (OSError, ValueError, TypeError, KeyError) as error:  # perhaps it is still being written
            problem = f"a scheduler's file names its address, this one cannot be read: {error!r}"
        time.sleep(0.1)
    raise InputError(f"cluster '{address}': {problem}\n{ADDRESSES}")


def _connect(address: str) -> "Client":
    from distributed import Client

    try:
        with ThreadPoolExecutor(1) as apart:  # a notebook has a loop of its own in this thread
            kind = apart.submit(_who_answers, address).result()
        if kind != "Scheduler":
            raise InputError(f"cluster '{address}': a scheduler is needed, not a {kind.lower()}\n{ADDRESSES}")
        return Client(address, timeout=_ANSWER, set_as_default=False, name="jaxcontact")
    except OSError:
        raise InputError(f"cluster '{address}': no scheduler answered within {_ANSWER:g} s\n{ADDRESSES}") from None
    except (TypeError, RuntimeError) as error:  # what TLS and UCX say without their settings and libraries
        raise InputError(f"cluster '{address}': cannot connect ({error})\n{ADDRESSES}") from None


# Ctrl-C in a terminal reaches the workers too, and each would print a traceback.
_LEAVE_INTERRUPTS_TO_US = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"


def _who_answers(address: str) -> str:
    """Ask who listens at an address. A client itself would wait for ever where somebody listens but says nothing."""
    from distributed import Security
    from distributed.core import rpc

    async def ask() -> str:
        settings = Security().get_connection_args("client")
        async with rpc(address, timeout=_ANSWER, connection_args=settings) as other:
            found: Any = await other.identity()
            return found["type"]

    return asyncio.run(asyncio.wait_for(ask(), _ANSWER))


class _LocalCluster:
    """A scheduler and worker processes on this machine, until the `with` block ends."""

    def __init__(self, workers: int) -> None:
        self._workers = workers

    def __enter__(self) -> str:
        from dask.system import CPU_COUNT
        from distributed import LocalCluster

        start: Any = LocalCluster
        self._cluster = start(
            n_workers=self._workers,
            threads_per_worker=max(1, CPU_COUNT // self._workers),
            dashboard_address=None,
            scheduler_kwargs={
                "dashboard_address": "127.0.0.1:0"
            },  # a port that is free: it has a small page all the same
            memory_limit=None,  # what is under way is bounded already; dask would stop a worker that it finds too large
            silence_logs=logging.CRITICAL,
            preload=_LEAVE_INTERRUPTS_TO_US,
            env=_cache_settings(),
        )
        return self._cluster.scheduler_address

    def __exit__(self, *exception: object) -> None:
        with suppress(TimeoutError):
            self._cluster.close(timeout=_FAREWELL)


def _cache_settings() -> dict[str, str]:
    """Compiled programs are kept where this process keeps them, if it does."""
    folder = getattr(jax.config, "jax_compilation_cache_dir", None)
    if not folder:
        return {}
    names = ("jax_persistent_cache_min_compile_time_secs", "jax_persistent_cache_min_entry_size_bytes")
    return {"JAX_COMPILATION_CACHE_DIR": folder, **{name.upper(): str(getattr(jax.config, name)) for name in names}}


# ---------------------------------------------------------------- what travels


@dataclass(frozen=True)
class _Errand:
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
    lanes: int | None

    @classmethod
    def of(cls, job: Job, lanes: int | None) -> "_Errand":
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
        )


@dataclass(frozen=True)
class _Load:
    """The numbers of a batch, in a box: dask looks for tasks inside of bare dictionaries."""

    numbers: Numbers


# ---------------------------------------------------------------- on a worker

_AT_WORK = threading.Lock()  # one batch has all devices of the process, however many threads dask has for tasks


def _work(errand: _Errand, load: _Load) -> Found:
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
def _driver(errand: _Errand) -> LaneDriver:
    return LocalExecutor(lanes=errand.lanes).driver(errand.job())


def _prepare_jax(number_type: str, threads: int) -> None:
    """Choose the client's number type, and a CPU device for each of the worker's threads; GPUs are used if there are.

    Devices that somebody chose already, or that are in use, stay as they are.
    """
    jax.config.update("jax_enable_x64", number_type == "float64")
    if getattr(jax.config, "jax_num_cpu_devices", 0) < 0:
        with suppress(RuntimeError):  # JAX has started
            jax.config.update("jax_num_cpu_devices", threads)
