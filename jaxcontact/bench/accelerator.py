"""What a step asks of an accelerator, from its program: kernels, bytes, operations, and which of them binds.

Nothing here is timed, for there need not be a card. See lanewise/ACCELERATORS.md for what follows and what does not.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from jaxcontact.bench.cases import Cases
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
class Way:
    """How steps are carried out: the stepping loop over so many lanes, and where that is known from."""

    turns: Turns
    stepping: Stepping
    lanes: int
    source: str

    def numbers(self) -> dict[str, Any]:
        """All of it, as JSON can hold it."""
        return {**self.turns._asdict(), **asdict(self.stepping), "lanes": self.lanes, "source": self.source}

    def said(self) -> str:
        """Its kernels, in words."""
        one, steps = self.stepping, self.turns.steps
        often = "once" if one.waits == 1 else f"{one.waits} times"
        turn = "a step" if steps == 1 else f"in {steps} steps"
        return (
            f"{one.kernels} {turn} and {one.look} to look, for which and at branches the host waits {often} "
            f"({self.source})"
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


def step_times(card: Card, way: "Way", count: StepCount, lanes: int, number: str = "float64") -> Times:
    """Of the stepping loop over so many lanes; `number` is the type of numbers.

    The state comes out of memory. A kernel that takes whole steps has as many lanes at work at once as there are
    registers for, whose slopes stay in the cache; its last wave of lanes takes as long as a full one.
    """
    one, steps = way.stepping, way.turns.steps
    launched = (one.kernels + one.look) * card.launch + one.waits * card.wait
    share = lanes / way.lanes * (np.dtype(number).itemsize / 8)
    seconds, at_work = one.bytes * share / steps / card.memory, lanes
    if way.turns.kernel == "pallas":
        seconds += count.loop_bytes * (np.dtype(number).itemsize / 8) * lanes / card.cache
        at_work = -(-lanes // card.resident) * card.resident
    return Times(launched / steps, seconds, at_work * count.instructions / card.instructions[number])


def measure_accelerator(tell: Tell = silent, *, short: bool = False) -> Part:
    """The part `accelerator` of the table."""
    lanes = ACCELERATOR_LANES
    params = {name: np.zeros(lanes) if name in Cases._fields else value for name, value in _DEFAULTS.items()}
    count = count_step(crutch_machine(Settings()), params)
    tell(1, 4)
    turns = {_XLA: turns_on("cuda"), _ONE: turns_on("cuda", "pallas")}
    lowered = {name: _lowered(one, lanes) for name, one in turns.items()}
    tell(2, 4)
    xla, ours = (_way(one, count, lanes, short=short) for one in turns.values())
    tell(3, 4)
    steps = _steps_of_an_impact(SHORT_CASES if short else CASES)
    tell(4, 4)

    times = {
        f"{name}, {many} lanes, {number}": step_times(A100, way, count, many, number)
        for name, way in ((_XLA, xla), (_ONE, ours))
        for many in _MANY
        for number in A100.instructions
    }
    each = [way.stepping.bytes / way.turns.steps / lanes for way in (xla, ours)]
    rows = [
        Row(
            "kernels of a step, XLA's over ours",
            xla.stepping.kernels * ours.turns.steps / ours.stepping.kernels,
            f"XLA: {xla.said()}; ours: {ours.said()}",
        ),
        Row(
            "bytes moved per lane and step, XLA's over ours",
            each[0] / each[1],
            f"XLA: {each[0]:,.0f}; ours: {each[1]:,.0f}, and {count.loop_bytes:,} between registers and cache for the "
            f"slopes; a lane's state is {count.state_bytes:,}",
        ),
        Row(
            "flops of a step over bytes of the state, read and written",
            count.flops / (2 * count.state_bytes),
            f"{count.flops:,} flops per lane and step; {count.instructions:,} floating-point instructions (with "
            f"comparisons, and for quotients and roots what they take), {count.other:,} others",
        ),
        *(_host_row(name, found) for name, found in lowered.items()),
        *(_time_row(many, times, steps) for many in _MANY),
        _single_row(times),
    ]
    numbers: dict[str, Any] = {
        "lanes": lanes,
        "card": asdict(A100),
        "step": asdict(count),
        "programs": {name: way.numbers() for name, way in ((_XLA, xla), (_ONE, ours))},
        "lowered": lowered,
        "steps of an impact": steps,
        "seconds of a step": {name: asdict(one) for name, one in times.items()},
    }
    said = f"the program of crutch impacts in {lanes:,} lanes, on an {A100.name}: counted, and nothing timed"
    return Part("accelerator", said, tuple(rows), numbers)


_DEFAULTS = default_params(CRUTCH)


def _lowered(turns: Turns, lanes: int) -> dict[str, list[str]]:
    program = lanes_program(turns, lanes).lower(lowering_platforms=("cuda",)).as_text()
    return {"host": calls_to_the_host(program), "open shapes": shapes_left_open(program)}


def _way(turns: Turns, count: StepCount, lanes: int, *, short: bool) -> Way:
    """What a compiler for GPUs makes of it, or else what it cannot do with less of."""
    found = "it is not asked in the short version" if short else compiled_stepping(turns, lanes)
    if isinstance(found, Stepping):
        return Way(turns, found, lanes, "compiled for sm_80")
    kernels, moved = count.least_kernels, count.least_bytes
    if turns.kernel == "pallas":
        kernels, moved = 1, 2 * count.state_bytes + count.param_bytes
    return Way(turns, Stepping(kernels, 1, 1, moved * lanes), lanes, f"at least, without a compiler: {found}")


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


def _time_row(lanes: int, times: Mapping[str, Times], steps: float) -> Row:
    xla, one = (times[f"{name}, {lanes} lanes, float64"] for name in (_XLA, _ONE))

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


def _single_row(times: Mapping[str, Times]) -> Row:
    double, single = (times[f"{_ONE}, {_MANY[1]} lanes, {number}"] for number in ("float64", "float32"))
    return Row(
        f"least time of a step in float64 over float32, {_ONE}, {_MANY[1]:,} lanes",
        double.least / single.least,
        f"float32: {1e6 * single.least:,.0f} us, {single.binding} binds",
    )
