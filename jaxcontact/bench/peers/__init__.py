"""Other ways to compute the same crutch impacts: what a careful user would write with another tool, one file each.

All integrate the same equations with the same laws (Hunt-Crossley, dry friction with true sticking, the foot free) from
the same touch-down to the end of compression. Each file offers `opened(workers)`, a context that gives a function from
configurations and a relative tolerance to what was found; the absolute tolerance is always a hundredth of that. A file
is imported when its peer is opened, for none of these tools is needed otherwise.
"""

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from jaxcontact.bench.cases import Cases

INSTALL = "pip install 'jaxcontact[bench]'"


class Found(NamedTuple):
    """Normal and tangential impulse (N s) and duration (s) of each impact, arrays (count,); NaN where it failed."""

    P_n: np.ndarray
    P_t: np.ndarray
    t_end: np.ndarray


Solve = Callable[[Cases, float], Found]


@dataclass(frozen=True)
class Peer:
    """One of them: what it is called and does, the tool, tolerances to try, how many configurations suffice for a rate.

    `options` are those of its `opened`.
    """

    name: str
    tool: str
    what: str
    tolerances: tuple[float, ...]
    count: int
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def installed(self) -> bool:
        """Whether the tool can be imported."""
        return importlib.util.find_spec(self.tool) is not None

    def opened(self, workers: int) -> AbstractContextManager[Solve]:
        """Make it ready to run on so many cores."""
        return importlib.import_module(f"{__name__}.in_{self.tool}").opened(workers, **self.options)


PEERS = (
    Peer(
        "numba",
        "numba",
        "compiled scalar code, impact by impact on each thread; Dormand-Prince 5(4), events on its dense output",
        tolerances=(1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10),
        count=20_000,
    ),
    Peer(
        "diffrax, one vmap",
        "diffrax",
        "Tsit5, segments ended by an Event and restarted by hand; one vmap over the impacts of each device",
        tolerances=(1e-3, 1e-6, 1e-9),
        count=8192,
    ),
    Peer(
        "diffrax, small batches",
        "diffrax",
        "the same, a vmap over 128 impacts at a time, after which a batch waits for few slow ones",
        tolerances=(1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8, 1e-9),
        count=4096,
        options=MappingProxyType({"batch": 128}),
    ),
    Peer(
        "scipy",
        "scipy",
        "solve_ivp, RK45 with events, restarted by hand, a process for each core; the rate of a few impacts",
        tolerances=(1e-4, 1e-5, 1e-6, 1e-8, 1e-9),
        count=256,
    ),
)
