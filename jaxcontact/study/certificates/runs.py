"""Whole runs of a model in lanes: its outcomes with their histories of events, and their exact derivatives."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import jax
import numpy as np

from jaxcontact.integrate.history import with_history
from jaxcontact.integrate.machine import Machine
from jaxcontact.integrate.settings import Settings
from jaxcontact.integrate.tangents import with_tangents
from jaxcontact.models.model import Model
from jaxcontact.study.certificates.happenings import MEANINGS, what_modes_mean
from jaxcontact.study.lanes import LaneDriver

# Lanes on each device. Runs that carry derivatives are few and long: more lanes would leave devices idle.
PLAIN_LANES, SLOPE_LANES = 32, 8
# There is room for so many runs even if fewer come, so that one program serves nearly all.
LEAST_PLAIN, LEAST_SLOPE = 2048, 16

Numbers = Mapping[str, np.ndarray]
Watch = Callable[[int], None]  # is told how many runs have come back


class Runs:
    """One model with its method and laws, to be run many times; everything is in SI units."""

    def __init__(self, model: Model, method: str, laws: Mapping[str, str], settings: Settings) -> None:
        self._choice = (model.machine, what_modes_mean(model, method), method, tuple(sorted(laws.items())))
        self._settings = settings

    def outcomes(self, params: Numbers, watch: Watch = lambda runs: None) -> dict[str, np.ndarray]:
        """Outcomes, and whole numbers that tell which events there were (`with_history`): (configurations,)."""
        return self._stream(_plain(*self._choice), self._settings, params, watch, PLAIN_LANES, LEAST_PLAIN)

    def slopes(
        self, params: Numbers, leaves: tuple[str, ...], settings: Settings | None = None, watch: Watch = lambda _: None
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """The same outcomes, and derivatives of those that are real numbers: (leaves, configurations).

        Other `settings` than the usual ones compile nothing.
        """
        found = self._stream(
            _with_slopes(*self._choice, leaves), settings or self._settings, params, watch, SLOPE_LANES, 16
        )
        return found["values"], {name: slope for name, slope in found["slopes"].items() if slope is not None}

    def _stream(self, build, settings: Settings, params: Numbers, watch: Watch, lanes: int, least: int) -> Any:
        """Results of all configurations."""
        total = max(least, len(next(iter(params.values()))))
        driver = LaneDriver(build, settings, {}, tuple(params), total=total, lanes=lanes, watch=watch)
        ((_, found),) = driver.stream([(0, params)])
        return jax.tree.map(np.asarray, found)


# Kept between calls: the same function object means the same compiled program.
@lru_cache(maxsize=32)
def _plain(machine: Callable, meaning: str, method: str, laws: tuple[tuple[str, str], ...]):
    def build(settings: Settings) -> Machine:
        return with_history(machine(method, dict(laws), settings), MEANINGS[meaning])

    return build


@lru_cache(maxsize=32)
def _with_slopes(
    machine: Callable, meaning: str, method: str, laws: tuple[tuple[str, str], ...], leaves: tuple[str, ...]
):
    plain = _plain(machine, meaning, method, laws)

    def build(settings: Settings) -> Machine:
        return with_tangents(plain(settings), leaves)

    return build
