"""All of `jaxcontact bench`: measure parts one after the other, print one table, write the numbers and the figure."""

import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TextIO

import jax

from jaxcontact.bench.parts import DRAWN, PARTS
from jaxcontact.bench.rows import Part, Report, table
from jaxcontact.study.progress import ProgressDisplay
from jaxcontact.study.version import package_version


def bench(
    names: Sequence[str],
    stream: TextIO,
    *,
    short: bool = False,
    to_json: Path | None = None,
    to_figure: Path | None = None,
) -> Report:
    """Measure these parts, print one table of ratios, and write the numbers and the figure if asked to."""
    parts = []
    for name in names:
        with ProgressDisplay(f"bench: {name}") as progress:
            progress(0, 1)
            found = PARTS[name].measure()(progress, short=short)
        parts.append(found if isinstance(found, Part) else Part(name, PARTS[name].words, tuple(found)))
    report = Report(_machine(), tuple(parts))
    stream.write(table(report))
    if to_json is not None:
        report.write_json(to_json)
    if to_figure is not None:
        from jaxcontact.bench.figure import save_figure

        save_figure(next(part for part in parts if part.name == DRAWN), to_figure)
    return report


def _machine() -> dict[str, str | int]:
    """What the ratios depend on."""
    devices = jax.local_devices()
    return {
        "devices": f"{len(devices)} {devices[0].platform}",
        "cores": os.cpu_count() or 1,
        "processor": platform.machine(),
        "jax": version("jax"),
        "jaxcontact": package_version(),
    }
