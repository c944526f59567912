"""What a step asks of an accelerator, from its program: kernels, bytes, operations, and which of them binds.

Nothing here is timed, for there need not be a card: see lanewise/ACCELERATORS.md for what follows, and for what does not.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from jaxcontact.bench.counting import StepCount, count_step
from jaxcontact.bench.gpu_program import (
    Stepping,
    calls_to_the_host,
    compiled_stepping,
    crutch_machine,
    lanes_program,
    shapes_left_open,
)
from jaxcontact.bench.ours import CRUTCH, crutch_cases, crutch_sweep_of
from jaxcontact.bench.rows import Part, Row, Tell, silent
from jaxcontact.integrate.settings import Settings
from jaxcontact.integrate.turns import Turns, turns_on
from jaxcontact.models.model import default_params
from jaxcontact.study.lanes import ACCELERATOR_LANES

CASES, SHORT_CASES = 2_000, 64
_MANY = (ACCELERATOR_LANES, 2**17, 2**20)
_XLA, _ONE = "XLA's kernels", "one kernel"


@dataclass(frozen=True)
class Card:
    """What a card can do, in SI units.

    `instructions` are floating-point ones a second, in float64 and float32: half of the printed flop rate, which counts
    a product and a sum fused into one, for the programs here are compiled without that. `launch` is what one small
    kernel takes after another in a recorded graph, `wait` what the host takes to read a number and go on; both are
    rough, and nowhere printed.
    """

    name: str
    instructions: Mapping[str, float]
    memory: float
    cache: float
    cache_bytes: float
    launch: float
    wait: float
    resident: int  # lanes at once, a lane per thread with as many registers as there can be


# NVIDIA A100 40 GB SXM: 9.7 and 19.5 Tflop/s, 1,555 GB/s, 40 MB of cache (whitepaper, 2020). The cache's rate is what
# microbenchmarks find. 65,536 registers on each of 108 processors, 256 for a thread.
A100 = Card(
    name="A100",
    instructions={"float64": 9.7e12 / 2, "float32": 19.5e12 / 2},
    memory=1.555e12,
    cache=4e12,
    cache_bytes=40e6,
    launch=2.5e-6,
    wait=10e-6,
    resident=108 * (65_536 // 256),
)


@dataclass(frozen=True)
class Times:
    """Seconds that a step of all lanes takes a card, if it did only this; the longest binds."""

    launch: float
    bandwidth: float
    flops: float

    @property
    def binding(self) -> str:
        """Which of them it is."""
        return max(asdict(self), key=lambda name: asdict(self)[name])

    @property
    def least(self) -> float:
        """What is left if all else goes on at the same time."""
        return max(self.launch, self.bandwidth, self.flops)


def step_times(card: Card, stepping: Stepping, steps: int, instructions: float, lanes: int, number: str) -> Times:
    """Of a loop of which a turn takes so many `steps` of `lanes`; `instructions` are those of a lane and a step.

    What the kernels move comes out of the cache where a turn's share of a lane is small enough to stay there.
    """
    launched = (stepping.kernels + stepping.look) * card.launch + stepping.waits * card.wait
    moved = stepping.bytes / steps
    rate = card.cache if moved < card.cache_bytes else card.memory
    whole = -(-lanes // card.resident) * card.resident if stepping.kernels < 10 else lanes  # the last wave is not full
    return Times(launched / steps, moved / rate, whole * instructions / card.instructions[number])


def measure_accelerator(tell: Tell = silent, *, short: bool = False) -> Part:
    """The part `accelerator` of the table."""
    lanes = ACCELERATOR_LANES
    params = {name: np.zeros(lanes) if name in crutch_cases(1)._fields else v for name, v in _DEFAULTS.items()}
    count = count_step(crutch_machine(Settings()), params)
    tell(1, 4)
    ways = {_XLA: turns_on("cuda"), _ONE: turns_on("cuda", "pallas")}
    lowered = {name: _lowered(turns, lanes) for name, turns in ways.items()}
    tell(2, 4)
    found, words = {}, {}
    for name, turns in ways.items():
        compiled = "not compiled in the short version" if short else compiled_stepping(turns, lanes)
        known = isinstance(compiled, Stepping)
        found[name] = compiled if known else _estimated(turns, count, lanes)
        words[name] = "compiled for sm_80" if known else f"from the program alone: {compiled}"
    tell(3, 4)
    steps = _steps_of_an_impact(SHORT_CASES if short else CASES)
    tell(4, 4)

    times = {
        (name, many): step_times(A100, _scaled(found[name], many / lanes), ways[name].steps, spent, many, "float64")
        for name, spent in ((_XLA, count.instructions), (_ONE, count.instructions))
        for many in _MANY
    }
    rows = [
        Row(
            "kernels of a step, XLA's over ours",
            found[_XLA].kernels * ways[_ONE].steps / found[_ONE].kernels,
            f"XLA: {found[_XLA].kernels} a step, {found[_XLA].look} to look, the host waits {found[_XLA].waits} times "
            f"({words[_XLA]}); ours: {found[_ONE].kernels} in {ways[_ONE].steps} steps, {found[_ONE].look} to look, "
            f"{found[_ONE].waits} ({words[_ONE]})",
        ),
        Row(
            "bytes moved per lane and step, XLA's over ours",
            found[_XLA].bytes / (found[_ONE].bytes / ways[_ONE].steps),
            f"XLA: {found[_XLA].bytes / lanes:,.0f}; ours: {found[_ONE].bytes / ways[_ONE].steps / lanes:,.0f}, and its "
            f"slopes, which stay in the cache; a lane's state is {count.state_bytes:,}",
        ),
        Row(
            "operations per lane and step over bytes of the state",
            count.flops / (2 * count.state_bytes),
            f"{count.flops:,} flops, {count.instructions:,} floating-point instructions (quotients, roots and comparisons "
            f"with them), {count.other:,} others; read and written {2 * count.state_bytes:,} bytes",
        ),
        *(_host_row(name, lowered[name]) for name in ways),
        *(_time_row(many, times, steps) for many in _MANY),
    ]
    numbers: dict[str, Any] = {
        "lanes": lanes,
        "card": asdict(A100),
        "step": asdict(count),
        "programs": {name: asdict(one) | {"from": words[name]} for name, one in found.items()},
        "lowered": lowered,
        "steps of an impact": steps,
        "seconds of a step": {f"{name}, {many} lanes": asdict(one) for (name, many), one in times.items()},
    }
    return Part(
        "accelerator",
        f"the program of crutch impacts in {lanes:,} lanes, for an A100; nothing is timed",
        tuple(rows),
        numbers,
    )


_DEFAULTS = default_params(CRUTCH)


def _lowered(turns: Turns, lanes: int) -> dict[str, list[str]]:
    program = lanes_program(turns, lanes).lower(lowering_platforms=("cuda",)).as_text()
    return {"host": calls_to_the_host(program), "open shapes": shapes_left_open(program)}


def _estimated(turns: Turns, count: StepCount, lanes: int) -> Stepping:
    """What a compiler would find, at least: bytes as if only the state went through memory with each kernel's row."""
    if turns.kernel == "pallas":
        return Stepping(1, 3, 1, round(count.moved(1) * lanes))
    return Stepping(count.least_kernels, 3, 1, round(count.moved(1) * lanes))


def _scaled(stepping: Stepping, share: float) -> Stepping:
    return Stepping(stepping.kernels, stepping.look, stepping.waits, round(stepping.bytes * share))


def _steps_of_an_impact(cases: int) -> float:
    outcomes = crutch_sweep_of(crutch_cases(cases)).run()["outcomes"]
    return float(np.mean(outcomes["n_steps"]))


def _host_row(name: str, lowered: Mapping[str, list[str]]) -> Row:
    host, unknown = lowered["host"], lowered["open shapes"]
    said = "none: nothing to call the host for, nothing to compile again for"
    return Row(
        f"{name}: calls to the host and shapes that depend on data",
        float(len(host) + len(unknown)),
        ", ".join([*host, *unknown]) or said,
    )


def _time_row(lanes: int, times: Mapping[tuple[str, int], Times], steps: float) -> Row:
    xla, one = (times[name, lanes] for name in (_XLA, _ONE))

    def said(what: str, of: Times) -> str:
        parts = ", ".join(f"{name} {1e6 * seconds:,.0f}" for name, seconds in asdict(of).items())
        return (
            f"{what}: {parts} us, {of.binding} binds: at most {lanes / of.least / steps / 1e6:,.1f} million impacts/s"
        )

    return Row(
        f"least time of a step of {lanes:,} lanes, XLA's over ours",
        xla.least / one.least,
        f"{said(_XLA, xla)}; {said(_ONE, one)}",
    )
