"""Chunks tile a space exactly, follow each other through it, and never share a block."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jaxcontact.study.chunks import Cut


@given(sizes=st.lists(st.integers(1, 9), max_size=4), most=st.integers(1, 200))
def test_chunks_tile_the_space_in_order(sizes, most):
    cut = Cut.into(tuple(sizes), most)
    numbers = np.arange(math.prod(sizes)).reshape(sizes)
    seen = []
    for number in range(cut.count):
        chunk = cut.chunk(number)
        block = numbers[chunk.where]
        assert block.ravel().tolist() == list(range(chunk.start, chunk.stop))
        assert block.shape == chunk.shape and 1 <= chunk.size <= max(most, 1)
        # one block of a regular grid of blocks, as Zarr wants it
        assert all(part.start % extent == 0 for part, extent in zip(chunk.where, cut.shape, strict=True))
        assert all(n in (extent, size % extent) for n, extent, size in zip(chunk.shape, cut.shape, sizes, strict=True))
        seen += block.ravel().tolist()
    assert seen == list(range(math.prod(sizes)))


@given(sizes=st.lists(st.integers(1, 50), min_size=1, max_size=3), most=st.integers(1, 3000))
def test_chunks_are_as_large_as_the_rule_allows(sizes, most):
    """All of the last dimensions that fit, and an even share of the one before them of at least half of what fits."""
    cut = Cut.into(tuple(sizes), most)
    cut_along = next((i for i, extent in enumerate(cut.shape) if extent > 1), len(sizes) - 1)
    inner = math.prod(sizes[cut_along + 1 :])
    assert cut.shape[cut_along + 1 :] == tuple(sizes[cut_along + 1 :]) or inner == 1
    assert 2 * math.prod(cut.shape) >= min(most // inner * inner, inner * sizes[cut_along])


def test_a_space_of_any_size_is_cut_at_once():
    cut = Cut.into((10**6, 10**6, 100), 16384)
    assert cut.shape == (1, 163, 100)
    assert cut.chunk(cut.count - 1).stop == 10**14
