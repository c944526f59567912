"""Where a dask.distributed cluster is: addresses, checked; a scheduler, reached; or a cluster of our own, started."""

import asyncio
import json
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax

from jaxcontact.errors import InputError

if TYPE_CHECKING:
    from distributed import Client

ADDRESSES = (
    "allowed: the address of a scheduler, as in tcp://host:8786 or host:8786; the .json file that it writes with "
    "--scheduler-file; or local:N for N workers on this machine"
)
ANSWER = 10.0  # s until a scheduler must have answered
FAREWELL = 10.0  # s that a cluster of our own may take to end


def check_installed() -> None:
    """Say what to install where it is missing."""
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise InputError("a cluster needs dask.distributed: pip install 'jaxcontact[cluster]'") from None


def check_address(address: str) -> int:
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


def scheduler_address(address: str) -> str:
    """Return the address of a scheduler that is running: as given, or from its file, which may be about to appear."""
    if not address.endswith(".json"):
        return address
    give_up, problem = time.monotonic() + ANSWER, ""
    while time.monotonic() < give_up:
        try:
            found = json.loads(Path(address).read_text(encoding="utf-8"))["address"]
            _check_parts(found)
            return found
        except FileNotFoundError:
            problem = f"no such file appeared within {ANSWER:g} s"
        except (OSError, ValueError, TypeError, KeyError) as error:  # perhaps it is still being written
            problem = f"a scheduler's file names its address, this one cannot be read: {error!r}"
        time.sleep(0.1)
    raise InputError(f"cluster '{address}': {problem}\n{ADDRESSES}")


def connect(address: str) -> "Client":
    """Return a client of the scheduler at an address, or say that nobody, or somebody else, answers there."""
    from distributed import Client

    try:
        with ThreadPoolExecutor(1) as apart:  # a notebook has a loop of its own in this thread
            kind = apart.submit(_who_answers, address).result()
        if kind != "Scheduler":
            raise InputError(f"cluster '{address}': a scheduler is needed, not a {kind.lower()}\n{ADDRESSES}")
        return Client(address, timeout=ANSWER, set_as_default=False, name="jaxcontact")
    except OSError:
        raise InputError(f"cluster '{address}': no scheduler answered within {ANSWER:g} s\n{ADDRESSES}") from None
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
        async with rpc(address, timeout=ANSWER, connection_args=settings) as other:
            found: Any = await other.identity()
            return found["type"]

    return asyncio.run(asyncio.wait_for(ask(), ANSWER))


class OwnCluster:
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
            self._cluster.close(timeout=FAREWELL)


def _cache_settings() -> dict[str, str]:
    """Compiled programs are kept where this process keeps them, if it does."""
    folder = getattr(jax.config, "jax_compilation_cache_dir", None)
    if not folder:
        return {}
    names = ("jax_persistent_cache_min_compile_time_secs", "jax_persistent_cache_min_entry_size_bytes")
    return {"JAX_COMPILATION_CACHE_DIR": folder, **{name.upper(): str(getattr(jax.config, name)) for name in names}}
