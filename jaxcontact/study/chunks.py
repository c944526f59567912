"""How a space is cut into chunks: the unit that is computed, written, checked and, if need be, computed again.

A chunk is a run of neighbouring configurations and at the same time one block of every result: one index of the leading
dimensions, a slice of one dimension, and all of the dimensions after it. So each chunk is a file of its own in each
variable, and no two chunks ever write to the same file.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

USUAL = 16384  # configurations: seconds of work, and a few MB
USUAL_WITH_CURVES = 256  # a time history is hundreds of times as large as an outcome


@dataclass(frozen=True)
class Chunk:
    """One chunk: configurations start ... stop - 1, which lie at `where` in an array over the space."""

    number: int
    start: int
    stop: int
    where: tuple[slice, ...]

    @property
    def size(self) -> int:
        """How many configurations."""
        return self.stop - self.start

    @property
    def shape(self) -> tuple[int, ...]:
        """The block's extent along each dimension."""
        return tuple(part.stop - part.start for part in self.where)


@dataclass(frozen=True)
class Cut:
    """A space of these `sizes`, cut into blocks of this `shape` (the last one along a dimension may be smaller)."""

    sizes: tuple[int, ...]
    shape: tuple[int, ...]

    @classmethod
    def into(cls, sizes: tuple[int, ...], most: int) -> "Cut":
        """Choose blocks of at most `most` configurations, as few as the rule for chunks allows, and even in size."""
        shape, room = [], most
        for size in reversed(sizes):  # the last dimension varies fastest
            pieces = -(-size // max(room, 1))
            shape.append(-(-size // pieces))
            room = room // size if pieces == 1 else 0
        return cls(tuple(sizes), tuple(reversed(shape)))

    @property
    def blocks(self) -> tuple[int, ...]:
        """How many blocks lie along each dimension."""
        return tuple(-(-size // extent) for size, extent in zip(self.sizes, self.shape, strict=True))

    @property
    def count(self) -> int:
        """How many chunks there are."""
        return math.prod(self.blocks)

    @property
    def most(self) -> int:
        """How many configurations a chunk has at the most."""
        return math.prod(self.shape)

    def chunk(self, number: int) -> Chunk:
        """Return the chunk of that number; in their order chunks follow each other through the space."""
        where, rest = [], number
        for size, extent, blocks in zip(reversed(self.sizes), reversed(self.shape), reversed(self.blocks), strict=True):
            rest, block = divmod(rest, blocks)
            where.append(slice(block * extent, min((block + 1) * extent, size)))
        where.reverse()
        start = 0
        for size, part in zip(self.sizes, where, strict=True):
            start = start * size + part.start
        return Chunk(number, start, start + math.prod(p.stop - p.start for p in where), tuple(where))

    def chunks(self) -> Iterator[Chunk]:
        """Return all chunks, in order."""
        return map(self.chunk, range(self.count))
