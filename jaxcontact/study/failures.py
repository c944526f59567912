"""Failure is data: how many configurations did not finish and why, where in the space they sit, and how to rerun them.

Everything is read block by block, so results may be larger than memory.
"""

import csv
import io
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import xarray as xr

from jaxcontact.errors import InputError, unknown
from jaxcontact.integrate.machine import EXCLUDED, NOT_FAILED, RUNNING, STATUS, STATUS_NAMES
from jaxcontact.study.chunks import Cut
from jaxcontact.study.definition import Study
from jaxcontact.study.folder import load, read_card
from jaxcontact.study.parts import parameter_names, values_in
from jaxcontact.study.toml import write_toml

_BLOCK = 2**18  # configurations read at a time
_NARROW = 0.9  # failures within less than this share of the space sit "somewhere"


class _Block(NamedTuple):
    """Some neighbouring configurations: the number of the first, their statuses, and their varied parameters."""

    start: int
    status: np.ndarray
    values: Callable[[str], np.ndarray]


def describe_failures(dataset: xr.Dataset) -> str:
    """Say what went wrong, how often and where, a few lines per status; empty if every configuration finished.

    What a condition excluded, and what has not been run yet, is told too, but is no failure.
    """
    counts = np.zeros(len(STATUS), np.int64)
    # Names, such as those of approaches side by side, have no range.
    names = [name for name in parameter_names(dataset) if np.issubdtype(dataset[name].dtype, np.number)]
    low, high = (np.full((len(STATUS), len(names)), end) for end in (np.inf, -np.inf))
    for block in _blocks(dataset):
        counts += np.bincount(block.status, minlength=len(STATUS))
        for code in np.unique(block.status):
            here = block.status == code
            for i, name in enumerate(names):
                values = block.values(name)[here]
                low[code, i], high[code, i] = min(low[code, i], values.min()), max(high[code, i], values.max())
    total, failed = int(counts.sum()), [code for code in range(len(STATUS)) if counts[code] and code not in NOT_FAILED]
    told = failed + ([EXCLUDED] if counts[EXCLUDED] else [])
    inside = _count_inside(dataset, names, low, high, told)

    def where(code: int) -> list[str]:
        return _where(dataset, names, low[code], high[code], inside[code], int(counts[code]), total)

    lines = []
    if failed:
        lines.append(f"{sum(counts[failed]):,} of {total:,} configurations did not finish:")
    for code in failed:
        name, sentence = STATUS[code]
        lines += [f"  {counts[code]:,} {name}: {sentence}", *where(code)]
    if counts[EXCLUDED]:
        lines += [f"{counts[EXCLUDED]:,} of {total:,} were excluded by [require], and not run", *where(EXCLUDED)]
    if counts[RUNNING]:  # where they are is not told: of samples that are not there yet not even the parameters are
        lines.append(f"{counts[RUNNING]:,} of {total:,} have not been run yet")
    return "\n".join(lines)


def write_failed_cases(folder: str | Path, stream: IO[str], only: Collection[str] = ()) -> int:
    """Write the failed configurations as a CSV of cases, with their number in the study, and return how many.

    What a condition excluded, or what has not been run yet, is no failure. `only` names the statuses wanted.
    """
    for name in only:
        if name not in STATUS_NAMES:
            raise unknown("status", name, [STATUS_NAMES[i] for i in range(len(STATUS)) if i not in NOT_FAILED])
    dataset = load(folder)
    wanted = [code for code in range(len(STATUS)) if code not in NOT_FAILED]
    if only:
        wanted = [STATUS_NAMES.index(name) for name in only]
    names = [name for name in parameter_names(dataset) if name not in ("sample", "case", "index")]
    if not names:
        raise InputError(f"{folder} holds one configuration and nothing that varies: run its study again instead")
    writer, count = csv.writer(stream, lineterminator="\n"), 0
    for block in _blocks(dataset):
        (chosen,) = np.nonzero(np.isin(block.status, wanted))
        if count == 0 and len(chosen):  # without failures, nothing is written
            writer.writerow(["index", *(_heading(dataset[name]) for name in names)])
        columns = [block.values(name)[chosen].tolist() for name in names]
        for row in zip((block.start + chosen).tolist(), *columns, strict=True):
            writer.writerow([row[0], *(repr(value) for value in row[1:])])
        count += len(chosen)
    return count


def write_rerun(folder: str | Path, out: Path, only: Collection[str] = ()) -> int:
    """Write `out`/cases.csv and `out`/study.toml, which runs the failed configurations of `folder` again."""
    if out.exists() and any(out.iterdir()):
        raise InputError(f"{out} already holds files\nallowed: a new or empty directory")
    tables = stored_tables(folder)
    cases = io.StringIO(newline="")
    count = write_failed_cases(folder, cases, only)
    if count == 0:
        kind = f" of kind {', '.join(only)}" if only else ""
        raise InputError(f"{folder} holds no failure{kind} to run again")
    out.mkdir(parents=True, exist_ok=True)
    (out / "cases.csv").write_text(cases.getvalue(), encoding="utf-8", newline="")
    kept = {name: table for name, table in tables.items() if name not in ("vary", "sample", "cases")}
    head = {**kept.pop("study"), "title": f"failed configurations of {Path(folder).name}"}
    (out / "study.toml").write_text(
        write_toml({"study": head, "cases": {"file": "cases.csv"}, **kept}), encoding="utf-8"
    )
    return count


def stored_tables(folder: str | Path) -> dict[str, dict[str, Any]]:
    """Return the tables of the study whose results lie in a folder."""
    tables = read_card(folder).get("tables")
    if not isinstance(tables, dict):
        raise InputError(f"{folder} holds a published study: only results of a study file can be run again in part")
    return tables


def stored_study(folder: str | Path) -> Study:
    """Return the study whose results lie in a folder."""
    return Study.from_dict(stored_tables(folder), where=str(folder))


def _heading(variable: xr.DataArray) -> str:
    unit = variable.attrs.get("units", "1")
    return str(variable.name) if unit == "1" else f"{variable.name} [{unit}]"


def _blocks(dataset: xr.Dataset) -> Iterator[_Block]:
    status = dataset["status"]
    for chunk in Cut.into(status.shape, _BLOCK).chunks():
        box = dict(zip(map(str, status.dims), chunk.where, strict=True))

        def values(name: str, box: Mapping[str, slice] = box) -> np.ndarray:
            return values_in(dataset[name], box)

        yield _Block(chunk.start, values("status"), values)


def _count_inside(dataset: xr.Dataset, names: list[str], low, high, failed: list[int]) -> np.ndarray:
    """How many configurations, failed or not, lie between the ends of each status's failures: (status, parameter)."""
    inside = np.zeros((len(STATUS), len(names)), np.int64)
    for block in _blocks(dataset):
        for i, name in enumerate(names):
            values = block.values(name)
            for code in failed:
                inside[code, i] += np.sum((values >= low[code, i]) & (values <= high[code, i]))
    return inside


def _where(dataset: xr.Dataset, names: list[str], low, high, inside, count: int, total: int) -> list[str]:
    """Lines that say which parameters tell the failures from the rest, the sharpest first."""
    sharp = [i for i in np.argsort(inside, kind="stable") if inside[i] < _NARROW * total]
    lines = []
    for i in sharp[:3]:
        unit = dataset[names[i]].attrs.get("units", "1")
        span = f"{low[i]:.5g}" if low[i] == high[i] else f"{low[i]:.5g} to {high[i]:.5g}"
        unit = "" if unit == "1" else f" {unit}"
        lines.append(f"    {names[i]} is {span}{unit} in all of them: {count / inside[i]:.0%} of those there")
    return lines or (["    they lie all over the space"] if names else [])
