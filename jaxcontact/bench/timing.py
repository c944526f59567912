"""Times of several ways to do something, taken in turns so that a busy machine harms all alike."""

import time
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

from jaxcontact.bench.rows import Tell, silent

LONG = 2.0  # s: what takes longer evens out noise by itself, and is timed twice at most


class Timed(NamedTuple):
    """The shortest time (s) that a way took, and what it found last."""

    seconds: float
    found: Any


def take_turns(ways: Mapping[Any, Callable[[], Any]], rounds: int, tell: Tell = silent) -> dict[Any, Timed]:
    """Run all ways in turn, `rounds` times, after a turn that compiles and does not count."""
    best: dict[Hashable, Timed] = {}
    total = len(ways) * (rounds + 1)
    for number in range(rounds + 1):
        for place, (name, way) in enumerate(ways.items()):
            tell(number * len(ways) + place, total)
            if number > 2 and best[name].seconds > LONG:
                continue
            began = time.perf_counter()
            found = way()
            seconds = time.perf_counter() - began if number > 0 else float("inf")
            best[name] = Timed(min(seconds, best[name].seconds) if number > 0 else seconds, found)
    tell(total, total)
    return best
