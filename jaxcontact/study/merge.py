"""Put results of configurations that were run again back into the study that they are from."""

import json
from pathlib import Path

import numpy as np
import xarray as xr

from jaxcontact.errors import InputError
from jaxcontact.integrate.machine import FINISHED
from jaxcontact.study.chunks import USUAL, Chunk
from jaxcontact.study.definition import Study
from jaxcontact.study.failures import stored_study
from jaxcontact.study.folder import load
from jaxcontact.study.store import MERGE, Store


def merge(folder: str | Path, rerun: str | Path) -> int:
    """Replace configurations of `folder` by those of `rerun` that finished, and return how many.

    `rerun` holds cases with an `index`, the number of each in the study of `folder`. Only configurations that had not
    finished are replaced, and a note is kept of which and of the settings that they were run with. Killed on the way,
    it may be made again and comes to the same.
    """
    study, again = stored_study(folder), load(rerun)
    if "index" not in again.coords:
        raise InputError(f"{rerun} has no index: the cases must be those that `jaxcontact failures {folder}` wrote")
    _check_same_study(load(folder), again, folder, rerun)
    place, finished = again["index"].values, again["status"].values == FINISHED
    if np.any(place >= study.space.total):
        raise InputError(f"{rerun}: index {place.max()} is beyond the {study.space.total} configurations of the study")
    note = {
        "from": Path(rerun).name,
        "fingerprint": again.attrs["fingerprint"],
        "solver": json.loads(again.attrs["solver"]),
        "laws": json.loads(again.attrs["laws"]),
    }
    number = count = 0
    with Store(folder, study, chunk=USUAL) as store:
        chunks = [store.cut.chunk(number) for number in sorted(store.journal.entries)]
        touched = [(chunk, rows) for chunk in chunks if len(rows := _rows_of(chunk, place, finished))]
        absent = int(np.sum(finished)) - sum(len(rows) for _, rows in touched)
        if absent:
            raise InputError(
                f"{folder} lacks {absent:,} of the configurations that {rerun} would replace: not run yet, or damaged\n"
                "allowed: run its study again, which computes what is missing, and then merge"
            )
        for chunk, rows in touched:  # all of them, before anything is changed
            _check_same_numbers(study, chunk, again, rows, place[rows], rerun)
        for chunk, rows in touched:
            values = store.read(chunk)
            rows = rows[values["status"].ravel()[place[rows] - chunk.start] != FINISHED]
            if not len(rows):
                continue
            number = number or store.begin_merge(note)
            merged = store.journal.entries[chunk.number].merged + 1
            store.write(chunk, _replaced(chunk, values, again, rows, place[rows], number), merged=merged)
            count += len(rows)
    return count


def _rows_of(chunk: Chunk, place: np.ndarray, finished: np.ndarray) -> np.ndarray:
    return np.flatnonzero(finished & (place >= chunk.start) & (place < chunk.stop))


def _replaced(chunk: Chunk, values: dict, again: xr.Dataset, rows: np.ndarray, place: np.ndarray, number: int) -> dict:
    """Return the chunk's values with those of `rows` in their places."""
    values = {name: np.array(block) for name, block in values.items()}
    values.setdefault(MERGE, np.zeros(chunk.shape, np.int16))
    where = np.unravel_index(place - chunk.start, chunk.shape)
    for name, block in values.items():
        if name == MERGE:
            block[where] = number
        elif name in again.data_vars:
            block[where] = again[name].values[rows]
    return values


def _check_same_study(mine: xr.Dataset, again: xr.Dataset, folder: str | Path, rerun: str | Path) -> None:
    """All but solver, laws and conditions must be the same, or the results would not belong together."""

    def refuse(what: str, theirs: object, ours: object) -> None:
        if theirs != ours:
            raise InputError(
                f"{rerun} has {what} {theirs}, but {folder} {ours}\n"
                "allowed: another [solver] and other [laws], and all else the same"
            )

    for what in ("model", "method", "dtype"):
        refuse(what, again.attrs[what], mine.attrs[what])
    for table in ("parameters", "derive"):
        ours, theirs = json.loads(mine.attrs[table]), json.loads(again.attrs[table])
        for name in {**ours, **theirs}:
            refuse(f"{name} =", theirs.get(name, "something that varies"), ours.get(name, "something that varies"))
    refuse("curves of length", again.sizes.get("fraction", 0), mine.sizes.get("fraction", 0))


def _check_same_numbers(study: Study, chunk: Chunk, again: xr.Dataset, rows, place, rerun: str | Path) -> None:
    """Each case must have exactly the numbers of the configuration that it says it is."""
    for name, values in study.space.rows(chunk.start, chunk.stop).items():
        same = np.zeros(len(rows), bool)
        if name in again.coords:
            same = again[name].values[rows] == values[place - chunk.start]
        if not same.all():
            wrong = int(np.argmin(same))
            raise InputError(
                f"{rerun}: case {rows[wrong]} says it is configuration {place[wrong]}, but its {name} is another"
            )
