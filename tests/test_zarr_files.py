"""A store's files are those that zarr-python would write, which we do not ask because it takes long."""

import json
import os
import warnings

import numcodecs
import numpy as np
import pytest
import xarray as xr
import zarr

from jaxcontact.study.zarr_files import StoredArray, chunk_name, descriptions, write_file

ATTRS = {"title": "a comparison", "record": json.dumps({"max_time": float("inf")}), "points": 3}
KINDS = {  # name: dims, shape, chunks, dtype, attributes
    "impulse": (("height", "angle"), (5, 4), (1, 3), "f8", {"units": "N s", "coordinates": "mass"}),
    "single": (("height", "angle"), (5, 4), (1, 3), "f4", {"comment": "µ is no ASCII", "valid": [0.5, 1.5]}),
    "status": (("height", "angle"), (5, 4), (1, 3), "i1", {"flag_values": np.arange(3, dtype=np.int8), "units": "1"}),
    "count": (("height", "angle"), (5, 4), (5, 4), "i4", {}),
    "curve": (("height", "angle", "fraction"), (5, 4, 3), (1, 3, 3), "f8", {"units": "N"}),
    "index": (("case",), (7,), (2,), "i8", {"long_name": "number"}),
    "height": (("height",), (5,), (5,), "f8", {"units": "m"}),
    "mass": (("height",), (5,), (2,), "f8", {"units": "kg"}),
    "alone": ((), (), (), "f8", {"units": "s"}),
    "alone_too": ((), (), (), "i2", {}),
}
ARRAYS = {
    name: StoredArray(name, dims, shape, chunks, np.dtype(dtype), attrs)
    for name, (dims, shape, chunks, dtype, attrs) in KINDS.items()
}


def values_of(array):
    rng = np.random.default_rng(len(array.name))
    values = 40 * rng.normal(size=array.shape)
    if array.blank is not None:
        values = np.where(rng.random(array.shape) < 0.2, np.nan, values)
    return np.asarray(values).astype(array.dtype)


def blocks_of(array):
    for place in np.ndindex(*(-(-size // extent) for size, extent in zip(array.shape, array.chunks, strict=True))):
        yield place, tuple(slice(p * extent, (p + 1) * extent) for p, extent in zip(place, array.chunks, strict=True))


@pytest.fixture
def ours(tmp_path):
    for name in ARRAYS:
        (tmp_path / "ours" / name).mkdir(parents=True)
    for name, content in descriptions(ATTRS, ARRAYS.values()):
        write_file(tmp_path / "ours" / name, content)
    for array in ARRAYS.values():
        for place, where in blocks_of(array):
            write_file(tmp_path / "ours" / array.name / chunk_name(place), array.encoded(values_of(array)[where]))
    return tmp_path / "ours"


@pytest.fixture
def zarrs(tmp_path):
    """The same store, laid out and filled by zarr-python."""
    group = zarr.create_group(tmp_path / "zarrs", zarr_format=2, attributes=ATTRS)
    for array in ARRAYS.values():
        attrs = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in array.attrs.items()}
        made = group.create_array(
            array.name,
            shape=array.shape,
            chunks=array.chunks,
            dtype=array.dtype,
            compressors=numcodecs.Zstd(level=1, checksum=True),
            fill_value=np.nan if array.dtype.kind == "f" else None,
            attributes={"_ARRAY_DIMENSIONS": list(array.dims), **attrs},
            config={"write_empty_chunks": True},  # as we do: who counts files will find all
        )
        made[...] = values_of(array)
    zarr.consolidate_metadata(tmp_path / "zarrs", zarr_format=2)
    return tmp_path / "zarrs"


def test_every_file_is_the_one_that_zarr_would_write(ours, zarrs):
    def files(root):
        return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}

    mine, theirs = files(ours), files(zarrs)
    assert mine.keys() == theirs.keys()
    for name, content in mine.items():
        if os.path.basename(name).startswith("."):
            assert json.loads(content) == json.loads(theirs[name]), name
        else:
            assert content == theirs[name], name


def test_zarr_reads_the_same_arrays_and_attributes(ours, zarrs):
    mine, theirs = (zarr.open_group(path, mode="r", zarr_format=2) for path in (ours, zarrs))
    assert dict(mine.attrs) == dict(theirs.attrs) == ATTRS
    assert sorted(mine.array_keys()) == sorted(ARRAYS)
    for name, array in ARRAYS.items():
        one, other = mine[name], theirs[name]
        assert isinstance(one, zarr.Array) and isinstance(other, zarr.Array)
        np.testing.assert_array_equal(one[...], values_of(array))
        assert repr(one.metadata) == repr(other.metadata)  # NaN is not equal to itself
        assert dict(one.attrs) == dict(other.attrs)


@pytest.mark.parametrize("consolidated", [True, False])
def test_xarray_opens_the_same_dataset_without_a_warning(consolidated, ours, zarrs):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mine, theirs = (xr.open_zarr(path, consolidated=consolidated).load() for path in (ours, zarrs))
    xr.testing.assert_identical(mine, theirs)
    for name in ARRAYS:
        assert repr(mine[name].encoding) == repr(theirs[name].encoding)


def test_what_no_chunk_holds_is_missing(ours):
    (ours / "impulse" / "2.1").unlink()
    (ours / "status" / "2.1").unlink()
    opened = xr.open_zarr(ours).load()
    assert np.all(np.isnan(opened["impulse"][2, 3:])) and np.all(opened["status"][2, 3:] == 0)


def test_a_short_write_is_gone_on_with(tmp_path, monkeypatch):
    """The system may take less than it was given, as on a disk that is nearly full, before it says so."""
    really = os.write
    monkeypatch.setattr(os, "write", lambda file, content: really(file, content[:3]))
    write_file(tmp_path / "chunk", b"0123456789")
    assert (tmp_path / "chunk").read_bytes() == b"0123456789"
    write_file(tmp_path / "chunk", b"")
    assert (tmp_path / "chunk").read_bytes() == b""
