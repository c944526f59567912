"""float32 against float64, in turn in one process, and how right float32 is."""

import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import Any

import jax

from jaxcontact.bench.accuracy import errors, truth_of
from jaxcontact.bench.cases import COUNT
from jaxcontact.bench.ours import Sweep, crutch_cases, crutch_sweep_of, found_by
from jaxcontact.bench.peers import Found
from jaxcontact.bench.rows import Part, Row, Tell, silent
from jaxcontact.bench.timing import take_turns
from jaxcontact.integrate.settings import Settings
from jaxcontact.study.definition import SINGLE_LEAST_RTOL, SINGLE_PRECISION

ROUNDS, SHORT_COUNT = 5, 64
_SINGLE = "float32, its default tolerance"
_DOUBLE = "float64, its own default tolerance"
_ALIKE = "float64, the same tolerance"
_COARSE = Settings(rtol=1e-4, atol=1e-6)  # a tolerance that float32 reaches without noticing its own rounding
_COARSE_SINGLE, _COARSE_DOUBLE = "float32, rtol 1e-4", "float64, rtol 1e-4"


def measure_single(tell: Tell = silent, *, short: bool = False) -> Part:
    """The part `float32` of the table."""
    cases = crutch_cases(SHORT_COUNT if short else COUNT)
    truth = truth_of(cases)
    usual = Settings(rtol=SINGLE_PRECISION["rtol"], atol=SINGLE_PRECISION["atol"])
    doubles = {_DOUBLE: None, _ALIKE: usual, _COARSE_DOUBLE: _COARSE}
    sweeps = {name: crutch_sweep_of(cases, settings) for name, settings in doubles.items()}
    ways: dict[str, Callable[[], Found]] = {name: lambda sweep=sweep: found_by(sweep) for name, sweep in sweeps.items()}
    with _single():
        singles = {_SINGLE: crutch_sweep_of(cases, usual), _COARSE_SINGLE: crutch_sweep_of(cases, _COARSE)}

    def in_single(sweep: Sweep) -> Found:
        with _single():
            return found_by(sweep)

    ways |= {name: lambda sweep=sweep: in_single(sweep) for name, sweep in singles.items()}
    timed = take_turns(ways, 1 if short else ROUNDS, tell)
    seconds = {name: one.seconds for name, one in timed.items()}
    off = {name: errors(one.found, truth) for name, one in timed.items()}
    rows = [
        Row(
            f"{double}, over {single}",
            seconds[double] / seconds[single],
            f"the same {len(cases.mu):,} impacts",
            f"{off[double]}; {single}: {off[single]}",
        )
        for double, single in ((_ALIKE, _SINGLE), (_COARSE_DOUBLE, _COARSE_SINGLE), (_DOUBLE, _SINGLE))
    ]
    numbers: dict[str, Any] = {
        name: {"rate": len(cases.mu) / seconds[name], "errors": asdict(off[name])} for name in ways
    }
    return Part(
        "float32",
        f"time of crutch impacts; in float32 (rtol {usual.rtol:.0e}; below {SINGLE_LEAST_RTOL:.0e} is refused) the "
        f"impulses' errors are: {off[_SINGLE]}",
        tuple(rows),
        numbers,
    )


def _single() -> AbstractContextManager[Any]:
    """Inside, numbers are float32; programs are kept for both."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(False)
    return importlib.import_module("jax.experimental").disable_x64()  # where it was before
