"""An array of any size that is computed where it is read, and counts what was read: it stands for a store on disk."""

from collections.abc import Callable

import numpy as np
import xarray as xr
from xarray.core import indexing


class LazyArray(xr.backends.BackendArray):
    """Element (i, j, ...) is `value(i, j, ...)`; `read` adds up the elements that were asked for."""

    def __init__(self, shape: tuple[int, ...], value: Callable[..., np.ndarray], dtype=np.float64):
        self.shape, self.value, self.dtype, self.read = shape, value, np.dtype(dtype), 0

    def __getitem__(self, key):
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._get)

    def _get(self, key):
        places = [np.arange(size)[k] if isinstance(k, slice) else k for k, size in zip(key, self.shape, strict=True)]
        grid = np.ix_(*(np.atleast_1d(place) for place in places))
        kept = [np.size(place) for place in places if np.ndim(place)]
        found = np.broadcast_to(self.value(*grid), [axis.size for axis in grid]).astype(self.dtype).reshape(kept)
        self.read += found.size
        return found

    def variable(self, *dims: str, **attrs) -> xr.Variable:
        return xr.Variable(dims, indexing.LazilyIndexedArray(self), attrs)
