"""The journal of a store: one line per chunk that was written, with a checksum of its bytes and what its runs came to.

A line is a claim; the checksum is what proves it. So nothing needs to reach the disk in any order: after a crash, a
chunk whose bytes do not match its line, or whose line is torn, is computed again.
"""

import json
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Entry:
    """One chunk as it was written. `statuses` counts configurations by status code; `time` is the clock's (s)."""

    chunk: int
    checksum: str
    size: int
    statuses: Mapping[str, int]
    time: float
    merged: int = 0  # how many merges have changed it


class Journal:
    """The entries of a store by chunk; later lines replace earlier ones."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.entries: dict[int, Entry] = {}
        for line in _lines(path):
            entry = _parse(line)
            if entry is not None:
                self.entries[entry.chunk] = entry

    def add(self, chunk: int, checksum: str, size: int, statuses: Mapping[str, int], merged: int = 0) -> None:
        """Claim that a chunk has been written."""
        entry = Entry(chunk, checksum, size, statuses, time.time(), merged)
        text = json.dumps(vars(entry), sort_keys=True, separators=(",", ":"))
        line = f"{text} {zlib.crc32(text.encode()):08x}\n".encode()
        with self._path.open("a+b") as file:
            # A run killed, or a disk full, in the middle of a line leaves it without an end: begin on a new one.
            if file.tell() > 0:
                file.seek(-1, 2)
                line = line if file.read(1) == b"\n" else b"\n" + line
            file.write(line)  # always at the end
        self.entries[chunk] = entry

    def forget(self, chunk: int) -> None:
        """Drop an entry that turned out to be wrong; the next line about its chunk replaces it in the file too."""
        self.entries.pop(chunk, None)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []


def _parse(line: str) -> Entry | None:
    text, _, check = line.rpartition(" ")
    if f"{zlib.crc32(text.encode()):08x}" != check:
        return None
    try:
        return Entry(**json.loads(text))
    except (ValueError, TypeError):  # garbage may have a checksum that fits: that of nothing is 00000000
        return None
