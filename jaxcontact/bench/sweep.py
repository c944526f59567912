"""How fast this machine sweeps: what a sweep costs once, and what each configuration adds, from small sweeps to large.

What a sweep costs once is what the same sweep of a single configuration takes: a store is laid out, lanes are made, one
run is stepped to its end, one chunk is written (24 files of a crutch) and the results are opened. A sweep of n takes
T(n), and each of its configurations adds (T(n) - T(1)) / (n - 1).

Machines are noisy: everything is measured in one run, sizes in turn, and the best of several rounds counts.
"""

import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

import jax
import xarray as xr

from jaxcontact.bench.one_core import on_one_core
from jaxcontact.bench.rows import Part, Row, Tell, silent
from jaxcontact.study.definition import Study, study
from jaxcontact.study.execute import LocalExecutor
from jaxcontact.study.progress import ProgressDisplay
from jaxcontact.study.sweep import run

MOST, SHORT_MOST = 1_000_000, 2000  # configurations of the largest sweep, unless another is asked for
_ROUND_CONFIGURATIONS = 300_000  # sweeps are repeated until they have used so many,
_LEAST_ROUNDS, _MOST_ROUNDS = 2, 30  # but so often: small ones take milliseconds, which anything may disturb

_Sweep = tuple[int, int | None]  # configurations, and devices: all of them if None


@dataclass(frozen=True)
class Timed:
    """One sweep, timed from its description to its results, opened."""

    seconds: float
    loss: float  # steps of lanes without work, or waiting for more, over steps that were needed
    resident_mb: float


@dataclass(frozen=True)
class Measured:
    """Sweeps of one size: the best of several rounds. `once` is what a sweep of one configuration took, in seconds."""

    configurations: int
    devices: int
    seconds: float
    once: float
    each_us: float | None  # microseconds that each configuration adds to the first; None where there is but one
    all_us: float  # microseconds a configuration, with what is paid once shared out
    loss: float
    resident_mb: float


def crutch_sweep(count: int) -> Study:
    """Return impacts as a sensitivity study draws them: posture, rate, friction, stiffness and damping at random."""
    return study(
        "crutch",
        vary={
            "q3": {"from": 3, "to": 21},
            "dq5": {"from": -0.2, "to": 0.4},
            "mu": {"from": 0.4, "to": 1.1},
            "k_n": {"from": 1.3e7, "to": 1.3e8, "scale": "log"},
            "chi": {"from": 2e6, "to": 5e7, "scale": "log"},
        },
        sample={"count": count, "seed": 1},
    )


def measure(count: int, devices: int | None = None, folder: str | Path | None = None) -> Timed:
    """Run one sweep of that size into a store in a new directory; on a single CPU device with a single core.

    With a `folder` the store stays there, as in `measure_sweeps`; without one it is gone in the end.
    """
    executor = LocalExecutor(devices)
    alone = devices == 1 and jax.local_devices()[0].platform == "cpu"
    with (
        tempfile.TemporaryDirectory() if folder is None else nullcontext(tempfile.mkdtemp(dir=folder)) as place,
        on_one_core() if alone else nullcontext(),
    ):
        began = time.perf_counter()
        results = run(crutch_sweep(count), out=Path(place) / "out", executor=executor)
        ended = time.perf_counter()
        needed = _sum(results["n_steps"])
    return Timed(ended - began, executor.tally.lane_steps / needed - 1.0, _resident_mb())


def measure_sweeps(most: int, tell: Tell = silent) -> list[Measured]:
    """Measure sweeps of 1, 1,000 ... `most` configurations on all devices, and some on one, of a CPU on one core."""
    sizes = [1, *(10**power for power in range(3, 10) if 10**power <= most)]
    sizes += [most] if most not in sizes else []
    single = min(100_000, most)
    jobs: list[_Sweep] = [(size, None) for size in sizes]
    jobs += dict.fromkeys([(1, 1), (single, 1)]) if len(jax.local_devices()) > 1 else []
    schedule = list(_schedule(jobs))
    found: dict[_Sweep, list[Timed]] = {job: [] for job in jobs}
    done, total = 0, sum(job[0] for job, _ in schedule)
    tell(0, total)
    # All stores stay until the end: where many files have just been deleted, making new ones takes ten times as long
    # (ext4 looks for a place that has been free for a while).
    with tempfile.TemporaryDirectory() as folder:
        for job, counts in schedule:
            timed = measure(*job, folder)
            done += job[0]
            tell(done, total)
            if counts:
                found[job].append(timed)
    return [_best(job, found[job], found[1, job[1]]) for job in jobs]


def _best(job: _Sweep, rounds: list[Timed], of_one: list[Timed]) -> Measured:
    configurations, devices = job
    best, once = min(rounds, key=lambda timed: timed.seconds), min(timed.seconds for timed in of_one)
    return Measured(
        configurations=configurations,
        devices=devices or len(jax.local_devices()),
        seconds=best.seconds,
        once=once,
        each_us=1e6 * (best.seconds - once) / (configurations - 1) if configurations > 1 else None,
        all_us=1e6 * best.seconds / configurations,
        loss=best.loss,
        # The process never gets smaller again: what a sweep needed is what it was after the first of its kind.
        resident_mb=rounds[0].resident_mb,
    )


def bench_sweep(most: int, stream: TextIO, to_json: Path | None = None) -> list[Measured]:
    """Measure sweeps of several sizes, and print a table."""
    with ProgressDisplay("bench") as progress:
        rows = measure_sweeps(most, progress)
    stream.write(_table(rows, most))
    if to_json is not None:
        to_json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n", encoding="utf-8")
    return rows


def measure_scale(tell: Tell = silent, *, short: bool = False) -> Part:
    """The part `scale` of the table of all ratios."""
    measured = measure_sweeps(SHORT_MOST if short else MOST, tell)
    several = [row for row in measured if row.each_us is not None]
    sizes = [row for row in several if row.devices == measured[0].devices]
    largest = sizes[-1]
    rows = [
        Row(
            f"cost of one of {row.configurations:,} over one of {largest.configurations:,}",
            _over(row, largest),
            f"what each adds to the {row.once:.3f} s that a sweep of a single one takes; with those shared out: "
            f"{row.all_us / largest.all_us:.2f}",
        )
        for row in sizes[:-1]
    ]
    rows.append(
        Row(
            f"memory with {largest.configurations:,} over that with {sizes[0].configurations:,}",
            largest.resident_mb / sizes[0].resident_mb,
            f"the largest that the process has been: {largest.resident_mb:,.0f} MB after {largest.configurations:,}",
        )
    )
    one = several[-1]
    if one.devices == largest.devices:
        rows.append(Row("cost on one device over that on all", None, "there is but one device here"))
    else:
        on_all = next(row for row in sizes if row.configurations == one.configurations)
        said = f"the same {one.configurations:,} configurations; on a CPU one device has one core, for all that is done"
        rows.append(Row(f"cost on one device over that on {on_all.devices}", _over(one, on_all), said))
    return Part(
        "scale",
        f"crutch sweeps of several sizes, streamed to a store; {largest.devices} devices if nothing else is said",
        tuple(rows),
        {"sweeps": [asdict(row) for row in measured]},
    )


def _over(row: Measured, other: Measured) -> float | None:
    """What each configuration of one sweep adds, over what each of the other does."""
    return row.each_us / other.each_us if row.each_us is not None and other.each_us else None


def _schedule(jobs: list[_Sweep]) -> Iterator[tuple[_Sweep, bool]]:
    """Go through the sweeps in rounds; the first round of a small one compiles, and does not count."""
    for number in range(1 + _MOST_ROUNDS):
        for job in jobs:
            rounds = max(_LEAST_ROUNDS, min(_MOST_ROUNDS, _ROUND_CONFIGURATIONS // job[0]))
            if number <= rounds and (number > 0 or job[0] < _ROUND_CONFIGURATIONS):
                yield job, number > 0


def _table(rows: list[Measured], largest: int) -> str:
    reference = next(row for row in rows if row.configurations == largest and row.devices == rows[0].devices)
    lines = [
        "Crutch impacts, compliant, default tolerance, streamed to a store; best of several rounds.",
        f"{'configurations':>14} {'devices':>8} {'total':>8} {'each':>8} {'rate':>11} {'cost':>6} {'with once':>11} "
        f"{'cost':>8} {'loss':>7} {'memory':>8}",
        f"{'':>14} {'':>8} {'(s)':>8} {'(us)':>8} {'(1/s)':>11} {'ratio':>6} {'(us)':>11} {'ratio':>8} {'':>7} "
        f"{'(MB)':>8}",
    ]
    for row in rows:
        each, rate, ratio = "-", "-", "-"
        if row.each_us is not None:
            each, rate, ratio = f"{row.each_us:.2f}", f"{1e6 / row.each_us:,.0f}", f"{_over(row, reference):.2f}"
        lines.append(
            f"{row.configurations:>14,} {row.devices:>8} {row.seconds:>8.4f} {each:>8} {rate:>11} {ratio:>6} "
            f"{row.all_us:>11,.2f} {row.all_us / reference.all_us:>8.2f} {row.loss:>7.1%} {row.resident_mb:>8.0f}"
        )
    lines += [
        f"A sweep of one configuration takes {1e3 * rows[0].once:.1f} ms: that is what any sweep costs once (its store",
        "laid out, one run, the files of one chunk, its results opened). Each of the others adds `each`, which is",
        "(total - total of one) / (configurations - 1); with once: total / configurations; cost ratio: against the",
        "largest sweep; loss: lane steps beyond those that the configurations need; memory: the largest that this",
        "process has been; one device of a CPU has one core, for all that is done.",
    ]
    return "\n".join(lines) + "\n"


def _sum(values: xr.DataArray) -> int:
    """Add up a large variable a slice at a time."""
    return sum(int(values[i : i + 2**20].values.sum()) for i in range(0, values.size, 2**20))


def _resident_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
