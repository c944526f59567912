"""How fast this machine sweeps: cost per configuration from small sweeps to large ones, memory, and what is lost.

Machines are noisy: everything is measured in one run, sizes in turn, and the best of several rounds counts.
"""

import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
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
_ROUND_CONFIGURATIONS = 200_000  # smaller sweeps are repeated until they have used so many,
_MOST_ROUNDS = 5  # at most so often

_Sweep = tuple[int, int | None]  # configurations, and devices: all of them if None


@dataclass(frozen=True)
class Measured:
    """One sweep: seconds in all; seconds that it takes once, whatever its size; then microseconds a configuration.

    Once: until the program is called for the first time (a store is laid out, 24 arrays of a crutch), and when the last
    chunk is written, to open the results. All else counts for the configurations: computing, handing out and writing.
    """

    configurations: int
    devices: int
    seconds: float
    ready: float
    opened: float
    each_us: float
    loss: float  # steps of lanes without work, or waiting for more, over steps that were needed
    resident_mb: float

    @property
    def once(self) -> float:
        """Seconds that it takes once."""
        return self.ready + self.opened

    @property
    def all_us(self) -> float:
        """Microseconds a configuration, of everything."""
        return 1e6 * self.seconds / self.configurations


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


def measure(count: int, devices: int | None = None) -> Measured:
    """Run one sweep of that size into a store in a temporary directory; on a single CPU device with a single core."""
    executor = LocalExecutor(devices)
    alone = devices == 1 and jax.local_devices()[0].platform == "cpu"
    written = 0.0

    def told(_done: int, _total: int, _failed: int) -> None:  # last when everything has been written
        nonlocal written
        written = time.perf_counter()

    with tempfile.TemporaryDirectory() as folder, on_one_core() if alone else nullcontext():
        began = time.perf_counter()
        results = run(crutch_sweep(count), out=Path(folder) / "out", executor=executor, progress=told)
        ended = time.perf_counter()
        needed = _sum(results["n_steps"])
    return Measured(
        configurations=count,
        devices=devices or len(jax.local_devices()),
        seconds=ended - began,
        ready=executor.tally.began - began,
        opened=ended - written,
        each_us=1e6 * (written - executor.tally.began) / count,
        loss=executor.tally.lane_steps / needed - 1.0,
        resident_mb=_resident_mb(),
    )


def measure_sweeps(most: int, tell: Tell = silent) -> list[Measured]:
    """Measure sweeps of 1,000 ... `most` configurations on all devices, and one on one device, of a CPU on one core."""
    sizes = [10**power for power in range(3, 10) if 10**power <= most]
    sizes += [most] if most not in sizes else []
    single = min(100_000, most)
    jobs: list[_Sweep] = [(size, None) for size in sizes]
    jobs += [(single, 1)] if len(jax.local_devices()) > 1 else []
    schedule = list(_schedule(jobs))
    found: dict[_Sweep, Measured] = {}
    done, total = 0, sum(job[0] for job, _ in schedule)
    tell(0, total)
    for job, counts in schedule:
        one = measure(*job)
        done += job[0]
        tell(done, total)
        if not counts:
            continue
        # The process never gets smaller again: what a sweep needed is what it was after the first of its kind.
        one = replace(one, resident_mb=found[job].resident_mb) if job in found else one
        if job not in found or one.each_us < found[job].each_us:
            found[job] = one
    return [found[job] for job in jobs]


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
    sizes = [row for row in measured if row.devices == measured[0].devices]
    largest = sizes[-1]
    rows = [
        Row(
            f"cost of one of {row.configurations:,} over one of {largest.configurations:,}",
            row.each_us / largest.each_us,
            f"the same sweep with more configurations; with the {row.once:.3f} s that a store of any size takes once: "
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
    one = measured[-1]
    if one.devices == largest.devices:
        rows.append(Row("cost on one device over that on all", None, "there is but one device here"))
    else:
        several = next(row for row in sizes if row.configurations == one.configurations)
        said = f"the same {one.configurations:,} configurations; on a CPU one device has one core, for all that is done"
        rows.append(Row(f"cost on one device over that on {several.devices}", one.each_us / several.each_us, said))
    return Part(
        "scale",
        f"crutch sweeps of several sizes, streamed to a store; {largest.devices} devices if nothing else is said",
        tuple(rows),
        {"sweeps": [asdict(row) for row in measured]},
    )


def _schedule(jobs: list[_Sweep]) -> Iterator[tuple[_Sweep, bool]]:
    """Go through the sweeps in rounds; the first round of a small one compiles, and does not count."""
    for number in range(1 + _MOST_ROUNDS):
        for job in jobs:
            rounds = max(1, min(_MOST_ROUNDS, _ROUND_CONFIGURATIONS // job[0]))
            if number <= rounds and (number > 0 or job[0] < _ROUND_CONFIGURATIONS):
                yield job, number > 0


def _table(rows: list[Measured], largest: int) -> str:
    reference = next(row for row in rows if row.configurations == largest and row.devices == rows[0].devices)
    lines = [
        "Crutch impacts, compliant, default tolerance, streamed to a store; best of several rounds.",
        f"{'configurations':>14} {'devices':>8} {'once':>8} {'each':>8} {'rate':>11} {'cost':>6} {'with once':>10} "
        f"{'cost':>6} {'loss':>7} {'memory':>8}",
        f"{'':>14} {'':>8} {'(s)':>8} {'(us)':>8} {'(1/s)':>11} {'ratio':>6} {'(us)':>10} {'ratio':>6} {'':>7} "
        f"{'(MB)':>8}",
    ]
    for row in rows:
        rate, ratio = 1e6 / row.each_us, row.each_us / reference.each_us
        lines.append(
            f"{row.configurations:>14,} {row.devices:>8} {row.once:>8.3f} {row.each_us:>8.2f} {rate:>11,.0f} "
            f"{ratio:>6.2f} {row.all_us:>10.2f} {row.all_us / reference.all_us:>6.2f} {row.loss:>7.1%} "
            f"{row.resident_mb:>8.0f}"
        )
    lines += [
        "once: to lay the store out before anything runs, and to open it in the end; each: to compute a configuration",
        "and to write what it gave; with once: everything, shared out; cost ratio: against the largest sweep;",
        "loss: lane steps beyond those that the configurations need;",
        "memory: the largest that this process has been; one device of a CPU has one core, for all that is done.",
    ]
    return "\n".join(lines) + "\n"


def _sum(values: xr.DataArray) -> int:
    """Add up a large variable a slice at a time."""
    return sum(int(values[i : i + 2**20].values.sum()) for i in range(0, values.size, 2**20))


def _resident_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
