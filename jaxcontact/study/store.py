"""A store that survives: results stream to DIR/results.zarr chunk by chunk, and a killed run goes on where it stopped.

A chunk counts once the journal claims it, and is trusted once its bytes have been checked. Everything else in the store
(metadata, values along axes) follows from the study and is written anew each time, so nothing else can go wrong.
Readers are protected too: each file ends with a checksum of its own, so damage is an error and never a number.
"""

import filecmp
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numcodecs
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

if TYPE_CHECKING:
    import xarray as xr

MERGE = "merged"  # not "merge", which is what an xarray dataset can do
_SLICE = 2**20  # values of an axis written at a time
_CODEC = numcodecs.Zstd(level=1, checksum=True)


def identity_of(study: Study, dtype: str) -> dict[str, str]:
    """Return what must be the same for results to belong together."""
    return {"fingerprint": study.fingerprint(), "number type": dtype, "jaxcontact_version": package_version()}


class Store:
    """The results of one study in one folder, in a `with` block that keeps other writers out.

    `damaged` counts chunks that the journal claimed but whose bytes were not what it said; they are missing now.
    """

    def __init__(self, folder: str | Path, study: Study, *, chunk: int, fresh: bool = False) -> None:
        self.folder, self._study = Path(folder), study
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
        for variable in self._in_chunks:
            # A chunk that no merge has touched has no note of one.
            block = values.get(variable.name, 0) if variable.name == MERGE else values[variable.name]
            content = self._encoded(variable, chunk, block)
            # Claimed is what should be there: what the disk made of it, whoever opens the store will see.
            total.add(variable, content)
            with open(self._path(variable, chunk), "wb") as file:
                file.write(content)
        codes, counts = np.unique(values["status"], return_counts=True)
        statuses = {str(code): int(count) for code, count in zip(codes, counts, strict=True)}
        self.journal.add(chunk.number, total.text(), chunk.size, statuses, merged)

    def read(self, chunk: Chunk) -> dict[str, np.ndarray]:
        """Read a chunk of every variable that is filled chunk by chunk."""
        return {v.name: np.asarray(self._arrays[v.name][chunk.where or ...]) for v in self._in_chunks}

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
        for variable in self._in_chunks:
            with suppress(FileNotFoundError), open(self._path(variable, chunk), "rb") as file:
                total.add(variable, file.read())
        return total.text()

    def _path(self, variable: Variable, chunk: Chunk) -> str:
        """Where Zarr looks for a chunk of a variable."""
        blocks = [part.start // extent for part, extent in zip(chunk.where, self.cut.shape, strict=True)]
        blocks += [0] * (len(variable.dims) - len(blocks))  # a curve's points lie in one file
        return os.path.join(self.folder, RESULTS, variable.name, ".".join(map(str, blocks)) or "0")

    def _encoded(self, variable: Variable, chunk: Chunk, block: Any) -> Any:
        """A chunk of a variable as Zarr stores it: whole, also at the end of a dimension, then compressed.

        Written here and not by zarr-python, which takes 1.5 ms for each, as long as to compute 20 configurations.
        """
        whole = np.full(self._chunks(variable), 0 if (blank := _blank(variable)) is None else blank, variable.dtype)
        whole[tuple(slice(n) for n in chunk.shape)] = block
        return _CODEC.encode(whole)

    # ---------------------------------------------------------------- what follows from the study

    def _open(self) -> None:
        """Lay out the store, with a note of merges if there are any."""
        whole = self._layout
        self._variables, self._attrs = list(whole.variables), dict(whole.attrs)
        if self.merges:
            self._variables.append(_merge_note(self._study))
            self._attrs["merges"] = json.dumps(self.merges)
        self._in_chunks = [variable for variable in self._variables if variable.in_chunks]
        self._opened: dict[str, Any] = {}
        self._lay_out()

    @property
    def _arrays(self) -> dict[str, Any]:
        """Opened once, and only if looked at: to look an array up takes as long as to read a small chunk of it."""
        if not self._opened:
            group = zarr.open_group(self.folder / RESULTS, mode="r+", zarr_format=2, use_consolidated=False)
            self._opened = {variable.name: group[variable.name] for variable in self._in_chunks}
        return self._opened

    def _lay_out(self) -> None:
        """Write metadata and axes beside, then move what differs into place, file by file; chunks stay as they are."""
        if not (self.folder / RESULTS).exists():
            place(self.folder, RESULTS, self._draft)
            return
        draft = self.folder / f".writing-{RESULTS}"
        self._draft(draft)
        for file in sorted(path for path in draft.rglob("*") if path.is_file()):
            there = self.folder / RESULTS / file.relative_to(draft)
            if there.is_file() and filecmp.cmp(file, there, shallow=False):
                continue
            there.parent.mkdir(parents=True, exist_ok=True)
            os.replace(file, there)
        shutil.rmtree(draft)

    def _draft(self, path: Path) -> None:
        # Zarr format 2 has consolidated metadata in its specification: readers open it quickly, without a warning.
        group = zarr.create_group(path, zarr_format=2, attributes=self._attrs, overwrite=True)
        beside = " ".join(v.name for v in self._variables if v.coordinate and v.name not in v.dims)
        for variable in sorted(self._variables, key=lambda v: v.name):
            attrs = {name: _plain(value) for name, value in variable.attrs.items()}
            if beside and not variable.coordinate:
                attrs["coordinates"] = beside
            array = group.create_array(
                variable.name,
                shape=variable.sizes,
                chunks=self._chunks(variable),
                dtype=variable.dtype,
                compressors=_CODEC,
                fill_value=_blank(variable),
                attributes={"_ARRAY_DIMENSIONS": list(variable.dims), **attrs},
            )
            if not variable.in_chunks:
                for start in range(0, variable.sizes[0], _SLICE):
                    stop = min(start + _SLICE, variable.sizes[0])
                    array[start:stop] = axis_values(self._study, variable, start, stop)
        zarr.consolidate_metadata(path, zarr_format=2)

    def _chunks(self, variable: Variable) -> tuple[int, ...]:
        if not variable.in_chunks:
            return tuple(min(size, _SLICE) for size in variable.sizes)
        return self.cut.shape + variable.sizes[len(self.cut.shape) :]


class _Checksum:
    """Of the files of a chunk, one after the other."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)

    def add(self, variable: Variable, content: Any) -> None:
        self._hash.update(f"{variable.name} {len(content)};".encode())
        self._hash.update(content)

    def text(self) -> str:
        return self._hash.hexdigest()


def _blank(variable: Variable) -> float | None:
    """What stands for a missing number. A whole one has no room for it: a status of 0 says "running", and is right."""
    return np.nan if np.issubdtype(variable.dtype, np.floating) else None


def _merge_note(study: Study) -> Variable:
    attrs = {"units": "1", "long_name": "0: this study's own result; n: from the n-th merge, see attribute merges"}
    return Variable(MERGE, study.space.dims, study.space.sizes, np.dtype(np.int16), attrs)


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value
