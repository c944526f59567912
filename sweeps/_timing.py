"""What runs cost: CPU times of compiled functions, taken in turns so that a busy machine harms all alike."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import jax

from jaxcontact.study.sweep import Progress


def best_times(jobs: Mapping[Any, Callable[[], Any]], repeats: int, progress: Progress) -> dict[Any, float]:
    """Return the shortest of `repeats` CPU times (s) of each job; a first turn, which compiles, does not count."""
    best = dict.fromkeys(jobs, float("inf"))
    total = len(jobs) * (repeats + 1)
    for turn in range(repeats + 1):
        for number, (name, job) in enumerate(jobs.items()):
            progress(turn * len(jobs) + number, total, 0)
            began = time.process_time()
            jax.block_until_ready(job())
            if turn > 0:
                best[name] = min(best[name], time.process_time() - began)
    progress(total, total, 0)
    return best
