"""What this process does with a single core, on a machine that has more."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def on_one_core() -> Iterator[None]:
    """Keep all threads of this process on one core; where the system (other than Linux) has no way to, do nothing.

    One device alone leaves the other cores to all that the host does beside it, which flatters a single device.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    usual = os.sched_getaffinity(0)
    try:
        _keep_on({min(usual)})
        yield
    finally:
        _keep_on(usual)


def _keep_on(cores: set[int]) -> None:
    """Every thread that there is; those to come follow the one that starts them."""
    for thread in os.listdir("/proc/self/task"):
        with suppress(ProcessLookupError):  # it has just ended
            os.sched_setaffinity(int(thread), cores)
