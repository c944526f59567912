"""The part `prescribed` of the bench: peers compute the same forces, and our side runs on all devices."""

import importlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxcontact.bench import prescribed
from jaxcontact.bench.peers import numpy_forces
from jaxcontact.bench.prescribed import Peer, Task, largest_error, measure_prescribed
from jaxcontact.study.devices import on_all_devices

FRAMES, LAYOUTS = 12, 7
TIGHT = 1e-12


@pytest.fixture(scope="module")
def task():
    return Task(FRAMES, LAYOUTS)


@pytest.fixture(scope="module")
def ours(task):
    return jax.tree.map(np.asarray, on_all_devices(task.plain)(jax.tree.map(jnp.asarray, task.soles)))


def test_numpy_finds_what_we_do_in_pieces_and_threads(task, ours, monkeypatch):
    assert np.ptp(ours.F_z) > 500 and np.ptp(ours.cop_y) > 1e-3 and np.ptp(ours.free_moment) > 1e-2
    assert (ours.cop_x == 0).any()  # some frames are not loaded
    assert largest_error(numpy_forces.forces(task.foot, task.soles), ours) < TIGHT
    monkeypatch.setattr(numpy_forces, "_FRAMES", 5)
    monkeypatch.setattr(numpy_forces, "_LAYOUTS", 3)
    assert largest_error(numpy_forces.forces(task.foot, task.soles, 2), ours) < TIGHT


def test_numbas_code_finds_it_too(task, ours, monkeypatch):
    numba = pytest.importorskip("numba")
    names = ["jaxcontact.bench.peers.numba_flow", "jaxcontact.bench.peers.numba_forces"]
    monkeypatch.setattr(numba.core.config, "DISABLE_JIT", True)  # as Python: compiling would take longer
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    try:
        found = importlib.import_module(names[1]).forces(task.foot, task.soles, 1)
    finally:
        for name in names:
            del sys.modules[name]
    assert largest_error(found, ours) < TIGHT


def test_an_error_is_told_by_the_largest_of_a_layout(ours):
    off = ours._replace(F_z=ours.F_z + 1e-6 * np.max(np.abs(ours.F_z), axis=0))
    assert largest_error(off, ours) == pytest.approx(1e-6, rel=1e-6)
    assert largest_error(ours._replace(F_y=ours.F_y + 0.5), ours) == 0.5  # of what is zero, the error itself


def test_the_short_version_tells_ratios_and_what_is_not_installed(monkeypatch):
    monkeypatch.setattr(Peer, "installed", property(lambda peer: peer.tool == "numpy"))
    monkeypatch.setattr(prescribed, "SHORT_FRAMES", FRAMES)
    monkeypatch.setattr(prescribed, "SHORT_LAYOUTS", LAYOUTS)
    assert len(prescribed.BY) == 30
    monkeypatch.setattr(prescribed, "BY", prescribed.BY[::7])  # two spheres and mu: less to compile
    part = measure_prescribed(short=True)
    numpy, threads, numba, slopes = part.rows
    seconds = part.numbers["seconds"]
    assert numpy.ratio == pytest.approx(seconds["numpy"] / seconds["ours"])
    assert threads.ratio == pytest.approx(seconds["numpy in threads"] / seconds["ours"])
    assert slopes.ratio == pytest.approx(seconds["slopes"] / seconds["ours"])
    assert numba.ratio is None and "not installed" in numba.computed
    assert part.numbers["slope error"] < TIGHT


@pytest.mark.parametrize("devices", [1, 2])
def test_lanes_are_split_over_devices_whatever_their_number(devices):
    def function(scale, lanes):
        return {"rows": scale * lanes, "sum": jnp.sum(lanes, axis=0), "known": 2.0 * scale}

    lanes = np.arange(15.0).reshape(3, 5)
    found = on_all_devices(function, devices)(3.0, lanes)
    np.testing.assert_array_equal(found["rows"], 3 * lanes)
    np.testing.assert_array_equal(found["sum"], lanes.sum(axis=0))
    assert found["known"] == 6.0
    whole = on_all_devices(lambda lanes: lanes + 1.0, devices)(jnp.arange(8.0))
    assert len(whole.sharding.device_set) == devices
