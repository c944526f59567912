"""In a process of its own: how long somebody's first call takes after everything is imported, and the next one.

    python -m jaxcontact.bench.first_call sweep|tangents|diffrax COUNT

prints {"first": seconds, "again": seconds}. JAX is set up by the environment, its cache of compiled programs too.
"""

import json
import sys
import time
from collections.abc import Callable
from functools import cache

from jaxcontact.bench.derivatives import BY
from jaxcontact.bench.ours import crutch_cases, crutch_sweep_of, workers
from jaxcontact.bench.peers import PEERS

KINDS = ("sweep", "tangents", "diffrax")


def _ready(kind: str, count: int) -> Callable[[], object]:
    """A function that does what there is to do before a first call too, at its first call."""
    cases = crutch_cases(count)
    if kind == "diffrax":
        peer = next(peer for peer in PEERS if "batch" in peer.options)
        solve = peer.opened(workers()).__enter__()
        return lambda: solve(cases, 1e-6)
    sweep = cache(lambda: crutch_sweep_of(cases, by=BY if kind == "tangents" else ()))
    return lambda: sweep().run()


def main() -> None:
    """Time two calls."""
    call = _ready(sys.argv[1], int(sys.argv[2]))
    looks = [time.perf_counter()]
    for _ in range(2):
        call()
        looks.append(time.perf_counter())
    print(json.dumps({"first": looks[1] - looks[0], "again": looks[2] - looks[1]}))


if __name__ == "__main__":
    main()
