"""How a run in a folder stands, read from outside: from another terminal, or after it was killed."""

import time
from math import prod
from pathlib import Path

from jaxcontact.errors import InputError
from jaxcontact.integrate.machine import EXCLUDED, NOT_FAILED, STATUS
from jaxcontact.study.folder import JOURNAL, locked_since, read_card
from jaxcontact.study.journal import Entry, Journal

_RECENT = 20  # chunks from which the present rate is told


def progress_of(folder: str | Path) -> tuple[int, int]:
    """Return how many configurations the store in a folder holds, and how many there will be."""
    sizes = _sizes(folder, read_card(folder))
    return sum(entry.size for entry in Journal(Path(folder) / JOURNAL).entries.values()), prod(sizes)


def describe_status(folder: str | Path, *, now: float | None = None) -> str:
    """Say in a few lines how far the run in `folder` is, how fast, and what failed so far."""
    card = read_card(folder)
    total = prod(_sizes(folder, card))
    entries = list(Journal(Path(folder) / JOURNAL).entries.values())
    done = sum(entry.size for entry in entries)
    axes = " x ".join(f"{dim} {size:,}" for dim, size in zip(card["dims"], card["sizes"], strict=True))
    lines = [f"{card['title']}: {total:,} configurations{f' ({axes})' if axes else ''}, {card['number type']}"]
    share = f"{done:,} of {total:,} done ({done / total:.1%})"
    began = locked_since(folder)
    if done == total:
        lines.append(f"complete: {share}")
    elif began is not None:
        rate = _rate([entry for entry in entries if entry.time >= began], time.time() if now is None else now)
        speed = f", {pace(rate)}, about {duration((total - done) / rate)} left" if rate else ""
        lines.append(f"running: {share}{speed}")
    else:
        lines.append(f"stopped: {share}; the command that started it goes on from there")
    counts: dict[int, int] = {}
    for entry in entries:
        for code, count in entry.statuses.items():
            counts[int(code)] = counts.get(int(code), 0) + count
    failed = [f"{count:,} {STATUS[code][0]}" for code, count in sorted(counts.items()) if code not in NOT_FAILED]
    if failed:
        lines.append(f"did not finish: {', '.join(failed)}")
    elif done:
        lines.append("all that was run so far finished")
    if counts.get(EXCLUDED):
        lines.append(f"excluded by [require], and not run: {counts[EXCLUDED]:,}")
    return "\n".join(lines)


def _sizes(folder: str | Path, card: dict) -> list[int]:
    if "sizes" not in card:
        raise InputError(f"{folder} holds a published study, which is saved when it is complete: {card.get('title')}")
    return card["sizes"]


def duration(seconds: float) -> str:
    """Return a time as people say it."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    if seconds < 2 * 86400:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:,.0f} days"


def pace(rate: float) -> str:
    """Return a rate (1/s) as people say it: a slow one is not none."""
    return f"{rate:,.0f} a second" if rate >= 10 else f"{rate:.2g} a second"


def _rate(entries: list[Entry], now: float) -> float:
    """Configurations a second, from when the oldest of the last few chunks was written until now.

    What an earlier run wrote is not asked for, since nobody ran in between; compilation lies before the first chunk.
    """
    recent = sorted(entries, key=lambda entry: entry.time)[-_RECENT:]
    if len(recent) < 2:
        return 0.0
    return sum(entry.size for entry in recent[1:]) / max(now - recent[0].time, 1e-9)
