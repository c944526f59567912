"""The same sweep on many machines: an executor that hands chunks to the workers of a dask.distributed cluster.

A task is one batch, and all that it needs travels with it: the model by name, what to do with it, and the numbers of
its configurations. So a worker may join at any time, and what a worker that died had under way is done by another.
"""

import time
import warnings
from collections.abc import Hashable, Iterable, Iterator
from contextlib import ExitStack, suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from jaxcontact.errors import InputError
from jaxcontact.models import MODELS
from jaxcontact.study.errand import Errand, Load, work
from jaxcontact.study.execute import Found, Job, Watch
from jaxcontact.study.lanes import Numbers
from jaxcontact.study.scheduler import FAREWELL, OwnCluster, check_address, check_installed, connect, scheduler_address
from jaxcontact.study.version import package_version

if TYPE_CHECKING:
    from distributed import Client, Future

_LOOK = 1.0  # s between looks at who is there
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
        check_installed()
        self._local = check_address(address)
        self._address, self._lanes, self._patience = address, lanes, patience
        self._open: Client | None = None

    def __enter__(self) -> "ClusterExecutor":
        """Connect to the scheduler, or start one."""
        with ExitStack() as kept:
            address = kept.enter_context(OwnCluster(self._local)) if self._local else scheduler_address(self._address)
            self._open = connect(address)
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
    ) -> Iterator[tuple[Hashable, Found | None]]:
        """Yield (key, what was found) of each batch as it becomes complete, in any order."""
        if MODELS.get(job.model.name) is not job.model:
            raise InputError(
                f"the model '{job.model.name}' cannot run on a cluster: workers find a model by its name, and this one "
                f"is not among jaxcontact's own\nallowed: {', '.join(MODELS)}; or no cluster"
            )
        return self._stream(Errand.of(job, self._lanes), batches, watch)

    # ---------------------------------------------------------------- on the client

    @property
    def _client(self) -> "Client":
        if self._open is None:
            raise InputError("a ClusterExecutor must be opened first: with ClusterExecutor(...) as executor: ...")
        return self._open

    def _stream(
        self, errand: "Errand", batches: Iterable[tuple[Hashable, Numbers]], watch: Watch
    ) -> Iterator[tuple[Hashable, Found | None]]:
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
                    if len(next(iter(batch[1].values()), ())):
                        send(*batch)
                    else:
                        yield batch[0], None
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

    def _submit(self, errand: "Errand", numbers: Numbers) -> "Future":
        with warnings.catch_warnings():
            # Numbers travel with the task on purpose: were they scattered beforehand, they would die with a worker.
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            try:
                return self._client.submit(work, errand, Load(numbers), key=f"jaxcontact-{uuid4().hex}", pure=False)
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
                client.close(timeout=FAREWELL)


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
