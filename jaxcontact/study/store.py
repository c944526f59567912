"""A store that survives: results stream to DIR/results.zarr chunk by chunk, and a killed run goes on where it stopped.

A chunk counts once the journal claims it, and is trusted once its bytes have been checked. Everything else in the store
(metadata, values along axes) follows from the study and is written anew each time, so nothing else can go wrong.
Readers are protected too: each file ends with a checksum of its own, so damage is an error and never a number.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr

from jaxcontact.integrate.machine import NOT_FAILED
from jaxcontact.study.chunks import Chunk, Cut
from jaxcontact.study.definition import Study
from jaxcontact.study.folder import (
    CARD,
    JOURNAL,
    RESULTS,
    Lock,
    check_free,
    load,
    place,
    read_card,
    sweep_up,
    write_card,
)
from jaxcontact.study.journal import Journal
from jaxcontact.study.labelled import Layout, Variable, axis_values, layout
from jaxcontact.study.version import package_version
from jaxcontact.study.zarr_files import StoredArray, chunk_name, descriptions, write_file

if TYPE_CHECKING:
    import xarray as xr

MERGE = "merged"  # not "merge", which is what an xarray dataset can do
_SLICE = 2**20  # values of an axis written at a time


def identity_of(study: Study, dtype: str) -> dict[str, str]:
    """Return what must be the same for results to belong together."""
    return {"fingerprint": study.fingerprint(), "number type": dtype, "jaxcontact_version": package_version()}


class Store:
    """The results of one study in one folder, in a `with` block that keeps other writers out.

    `damaged` counts chunks that the journal claimed but whose bytes were not what it said; they are missing now.
    """

    def __init__(self, folder: str | Path, study: Study, *, chunk: int, fresh: bool = False) -> None:
        self.folder, self._study = Path(folder), study
        self._results = os.path.join(folder, RESULTS)
        self._layout: Layout = layout(study)
        self._identity = identity_of(study, self._layout.attrs["dtype"])
        self._usual, self._fresh = chunk, fresh
        self.damaged = self.lost_merges = 0
        check_free(self.folder, self._identity, fresh=fresh)

    def __enter__(self) -> "Store":
        """Take the folder, check what is there, and lay out what is not."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = Lock(self.folder)
        self._lock.__enter__()
        try:
            check_free(self.folder, self._identity, fresh=self._fresh)  # again: somebody may have been quicker
            sweep_up(self.folder)
            self.cut = self._find_cut()
            self._open()
            self.journal = Journal(self.folder / JOURNAL)
            self._check()
        except BaseException:
            self._lock.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        """Let others write."""
        self._lock.__exit__()

    @property
    def configurations_done(self) -> int:
        """How many configurations the store holds."""
        return sum(entry.size for entry in self.journal.entries.values())

    @property
    def failed(self) -> int:
        """How many of them failed."""
        counts = (e.statuses.get(str(code), 0) for e in self.journal.entries.values() for code in NOT_FAILED)
        return self.configurations_done - sum(counts)

    @property
    def begun(self) -> bool:
        """Whether the folder has results of this study already."""
        return (self.folder / CARD).exists() and not self._fresh

    def notices(self) -> list[str]:
        """Say what was found when the store was opened, if it is worth knowing."""
        found = []
        if self.damaged:
            found.append(
                f"{self.folder}: {self.damaged} damaged chunk{'s' * (self.damaged > 1)} will be computed again"
            )
        if self.lost_merges:
            found.append(f"{self.folder}: {self.lost_merges} of them had merged results: merge those again afterwards")
        if self.cut != Cut.into(self.cut.sizes, self._usual):
            found.append(f"{self.folder} was begun with chunks of {self.cut.most:,}, and goes on with them")
        return found

    def missing(self) -> Iterator[Chunk]:
        """Return the chunks that are not there yet, in order; there may be more than fit in memory."""
        there = frozenset(self.journal.entries)
        return (chunk for chunk in self.cut.chunks() if chunk.number not in there)

    def write(self, chunk: Chunk, values: Mapping[str, np.ndarray], *, merged: int = 0) -> None:
        """Write a chunk and claim it."""
        total = _Checksum()
        for array, path in self._files(chunk):
            # A chunk that no merge has touched has no note of one.
            content = array.encoded(values.get(array.name, 0) if array.name == MERGE else values[array.name])
            # Claimed is what should be there: what the disk made of it, whoever opens the store will see.
            total.add(array, content)
            write_file(path, content)
        codes, counts = np.unique(values["status"], return_counts=True)
        statuses = {str(code): int(count) for code, count in zip(codes, counts, strict=True)}
        self.journal.add(chunk.number, total.text(), chunk.size, statuses, merged)

    def read(self, chunk: Chunk) -> dict[str, np.ndarray]:
        """Read a chunk of every variable that is filled chunk by chunk."""
        return {array.name: np.asarray(self._arrays[array.name][chunk.where or ...]) for array in self._in_chunks}

    def begin_merge(self, note: Mapping[str, Any]) -> int:
        """Make room for results from elsewhere, and return the number under which they will be known.

        A merge that was killed and is made again keeps its number.
        """
        if dict(note) not in self.merges:
            self.merges.append(dict(note))
            self._write_card()
            self._open()
        return self.merges.index(dict(note)) + 1

    def dataset(self) -> "xr.Dataset":
        """Open the results; values are read when they are used."""
        return load(self.folder)

    # ---------------------------------------------------------------- what is there

    def _throw_away(self) -> None:
        """Remove chunks and claims of others. Their card stays until ours replaces it: the folder is never nobody's."""
        for name in (RESULTS, JOURNAL):
            path = self.folder / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    def _find_cut(self) -> Cut:
        """Cut the space as the store was cut when it began; a new one as asked."""
        sizes = self._study.space.sizes
        card = read_card(self.folder) if (self.folder / CARD).exists() and not self._fresh else {}
        self.merges: list[dict[str, Any]] = card.get("merges", [])
        if "chunk_shape" in card:
            self.cut = Cut(sizes, tuple(card["chunk_shape"]))
        else:
            self.cut = Cut.into(sizes, self._usual)
            self._throw_away()  # chunks of another cut would be wrong in this one
            self._write_card()
        return self.cut

    def _write_card(self) -> None:
        write_card(
            self.folder,
            self._identity,
            self._layout.attrs["title"],
            dims=list(self._study.space.dims),
            sizes=list(self._study.space.sizes),
            chunk_shape=list(self.cut.shape),
            merges=self.merges,
            tables=self._study.to_tables(),
        )

    def _check(self) -> None:
        """Keep only the entries whose bytes are what they should be."""
        for number, entry in list(self.journal.entries.items()):
            if not 0 <= number < self.cut.count or entry.checksum != self._checksum(self.cut.chunk(number)):
                self.damaged += 1
                self.lost_merges += entry.merged > 0
                self.journal.forget(number)

    def _checksum(self, chunk: Chunk) -> str:
        """Checksum of the files that a chunk has; before its first merge it has no note of one."""
        total = _Checksum()
        for array, path in self._files(chunk):
            with suppress(FileNotFoundError), open(path, "rb") as file:
                total.add(array, file.read())
        return total.text()

    def _files(self, chunk: Chunk) -> Iterator[tuple[StoredArray, str]]:
        """Where Zarr looks for the chunk of each array."""
        blocks = [part.start // extent for part, extent in zip(chunk.where, self.cut.shape, strict=True)]
        for array in self._in_chunks:
            name = chunk_name(blocks + [0] * (len(array.dims) - len(blocks)))  # a curve's points lie in one file
            yield array, os.path.join(self._results, array.name, name)

    # ---------------------------------------------------------------- what follows from the study

    def _open(self) -> None:
        """Lay out the store, with a note of merges if there are any."""
        variables, self._attrs = list(self._layout.variables), dict(self._layout.attrs)
        if self.merges:
            variables.append(_merge_note(self._study))
            self._attrs["merges"] = json.dumps(self.merges)
        beside = " ".join(v.name for v in variables if v.coordinate and v.name not in v.dims)
        arrays = [(variable, self._stored(variable, beside)) for variable in variables]
        self._in_chunks = [array for variable, array in arrays if variable.in_chunks]
        self._along_axes = [(variable, array) for variable, array in arrays if not variable.in_chunks]
        self._opened: dict[str, Any] = {}
        self._lay_out()

    @property
    def _arrays(self) -> dict[str, Any]:
        """Opened once, and only if looked at: to look an array up takes as long as to read a small chunk of it."""
        if not self._opened:
            group = zarr.open_group(self._results, mode="r+", zarr_format=2, use_consolidated=False)
            self._opened = {array.name: group[array.name] for array in self._in_chunks}
        return self._opened

    def _lay_out(self) -> None:
        """Write metadata and axes: beside, as a whole, or what differs from what is there; chunks stay as they are."""
        if not os.path.exists(self._results):
            place(self.folder, RESULTS, self._draft)
            return
        beside = self.folder / f".writing-{RESULTS}"
        for name, content in self._known_files():
            there = Path(self._results, name)
            if not there.is_file() or there.read_bytes() != content:
                there.parent.mkdir(exist_ok=True)
                write_file(beside, content)
                os.replace(beside, there)

    def _draft(self, path: Path) -> None:
        path.mkdir()
        for array in self._all_arrays():
            os.mkdir(os.path.join(path, array.name))
        for name, content in self._known_files():
            write_file(os.path.join(path, name), content)

    def _known_files(self) -> Iterator[tuple[str, bytes]]:
        """Yield name and content of every file that follows from the study."""
        yield from descriptions(self._attrs, self._all_arrays())
        for variable, array in self._along_axes:
            for block, start in enumerate(range(0, array.shape[0], _SLICE)):
                values = axis_values(self._study, variable, start, min(start + _SLICE, array.shape[0]))
                yield f"{array.name}/{chunk_name([block])}", array.encoded(values)

    def _all_arrays(self) -> list[StoredArray]:
        arrays = [*self._in_chunks, *(array for _, array in self._along_axes)]
        return sorted(arrays, key=lambda array: array.name)

    def _stored(self, variable: Variable, beside: str) -> StoredArray:
        """How a variable is stored, one that is filled chunk by chunk as the space is cut."""
        sizes, attrs = variable.sizes, variable.attrs
        chunks = self.cut.shape + sizes[len(self.cut.shape) :]
        if not variable.in_chunks:
            chunks = tuple(min(size, _SLICE) for size in sizes)
        if beside and not variable.coordinate:
            attrs = {**attrs, "coordinates": beside}
        return StoredArray(variable.name, variable.dims, sizes, chunks, variable.dtype, attrs)


class _Checksum:
    """Of the files of a chunk, one after the other."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)

    def add(self, array: StoredArray, content: bytes) -> None:
        self._hash.update(f"{array.name} {len(content)};".encode())
        self._hash.update(content)

    def text(self) -> str:
        return self._hash.hexdigest()


def _merge_note(study: Study) -> Variable:
    attrs = {"units": "1", "long_name": "0: this study's own result; n: from the n-th merge, see attribute merges"}
    return Variable(MERGE, study.space.dims, study.space.sizes, np.dtype(np.int16), attrs)
