"""float32 against float64, in turn in one process, and how right float32 is."""

import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import Any

import jax

from jaxcontact.bench.accuracy import errors, truth_of
from jaxcontact.bench.cases import COUNT
from jaxcontact.bench.ours import crutch_cases, crutch_sweep_of, found_by
from jaxcontact.bench.peers import Found
from jaxcontact.bench.rows import Part, Row, Tell, silent
from jaxcontact.bench.timing import take_turns
from jaxcontact.integrate.settings import Settings
from jaxcontact.study.definition import SINGLE_LEAST_RTOL, SINGLE_PRECISION

ROUNDS, SHORT_COUNT = 5, 64
_SINGLE = "float32, its default tolerance"
_DOUBLE = "float64, its own default tolerance"
_ALIKE = "float64, the same tolerance"


def measure_single(tell: Tell = silent, *, short: bool = False) -> Part:
    """The part `float32` of the table."""
    cases = crutch_cases(SHORT_COUNT if short else COUNT)
    truth = truth_of(cases)
    coarse = Settings(rtol=SINGLE_PRECISION["rtol"], atol=SINGLE_PRECISION["atol"])
    sweeps = {_DOUBLE: crutch_sweep_of(cases), _ALIKE: crutch_sweep_of(cases, coarse)}
    ways: dict[str, Callable[[], Found]] = {name: lambda sweep=sweep: found_by(sweep) for name, sweep in sweeps.items()}
    with _single():
        single = crutch_sweep_of(cases, coarse)

    def in_single() -> Found:
        with _single():
            return found_by(single)

    ways[_SINGLE] = in_single
    timed = take_turns(ways, 1 if short else ROUNDS, tell)
    seconds = {name: one.seconds for name, one in timed.items()}
    off = {name: errors(one.found, truth) for name, one in timed.items()}
    rows = [
        Row(
            f"{name}, over float32",
            seconds[name] / seconds[_SINGLE],
            f"the same {len(cases.mu):,} impacts",
            str(off[name]),
        )
        for name in (_ALIKE, _DOUBLE)
    ]
    numbers: dict[str, Any] = {
        name: {"rate": len(cases.mu) / seconds[name], "errors": asdict(off[name])} for name in ways
    }
    return Part(
        "float32",
        f"time of crutch impacts; in float32 (rtol {coarse.rtol:.0e}; below {SINGLE_LEAST_RTOL:.0e} is refused) the "
        f"impulses' errors are: {off[_SINGLE]}",
        tuple(rows),
        numbers,
    )


def _single() -> AbstractContextManager[Any]:
    """Inside, numbers are float32; programs are kept for both."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(False)
    return importlib.import_module("jax.experimental").disable_x64()  # where it was before
