"""Lanes: every run gets its own answer, whoever its neighbours are; the cost is the mean number of steps."""

import gc
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxcontact.errors import InputError
from jaxcontact.integrate.machine import FINISHED, Machine, simulate
from jaxcontact.integrate.settings import Settings
from jaxcontact.integrate.tangents import with_tangents
from jaxcontact.models import get_model
from jaxcontact.models.model import DEGREE, default_params
from jaxcontact.study import lanes
from jaxcontact.study.lanes import LaneDriver
from jaxcontact.study.together import apart, rooms_for, together
from jaxcontact.study.uncollected import collecting_later

# ---------------------------------------------------------------- a machine whose cost is known


def counting(_settings: Settings) -> Machine:
    """A lane takes as many steps as its number says, and gives back that number and twice it."""
    return Machine(
        init=lambda params: (params["steps"] + 0.0, jnp.zeros_like(params["steps"])),
        step=lambda params, state: (state[0] - (state[0] > 0), state[1] + 2.0 * (state[0] > 0)),
        done=lambda state: state[0] <= 0,
        finish=lambda params, state: {"steps": params["steps"], "twice": state[1], "gain": params["gain"]},
    )


def run_counts(batches, *, size=8, devices=1, gain=3.0):
    total = sum(len(batch) for batch in batches)
    driver = LaneDriver(
        counting, Settings(), {"gain": gain}, ["steps"], total=total, lanes=size, devices=jax.local_devices()[:devices]
    )
    found = dict(driver.stream((i, {"steps": np.asarray(batch, float)}) for i, batch in enumerate(batches)))
    return found, driver.tally


@settings(max_examples=40, deadline=None)
@given(
    batches=st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=700), min_size=1, max_size=4),
    size=st.sampled_from([8, 32]),
    devices=st.sampled_from([1, 2]),
)
def test_every_run_comes_back_once_in_its_place(batches, size, devices):
    found, tally = run_counts(batches, size=size, devices=devices)
    assert sorted(found) == list(range(len(batches)))
    for i, batch in enumerate(batches):
        assert found[i]["steps"].tolist() == batch
        assert found[i]["twice"].tolist() == [2.0 * steps for steps in batch]
        assert found[i]["gain"].tolist() == [3.0] * len(batch)  # nothing varied enters it
    assert tally.runs == sum(len(batch) for batch in batches)


def test_the_cost_follows_the_mean_number_of_steps():
    rng = np.random.default_rng(0)
    batches = [rng.integers(20, 60, 4000) for _ in range(4)]
    _, tally = run_counts(batches, size=128)
    needed = sum(batch.sum() for batch in batches)
    assert needed <= tally.lane_steps < 1.05 * needed  # lanes in step with their slowest neighbour: 60 / 40


def test_a_run_that_hangs_holds_up_one_lane():
    batches = [np.full(4000, 40) for _ in range(6)]
    batches[0][17] = (
        9_000  # spread over the batches, everybody else needs 6 * 4000 * 40 / 128 = 7,500 steps of 128 lanes
    )
    found, tally = run_counts(batches, size=128)
    assert found[0]["twice"][17] == 18_000
    assert tally.lane_steps < 1.05 * 128 * 9_000
    # the others do not wait for it
    assert list(found)[:4] == [1, 2, 3, 4]


def test_small_batches_cost_no_more_than_large_ones():
    steps = np.random.default_rng(1).integers(20, 60, 6000)
    whole = run_counts([steps], size=32)[1].lane_steps
    cut = run_counts(np.split(steps, 100), size=32)[1].lane_steps
    assert cut < 1.05 * whole


def test_one_batch_is_one_call_once_the_pace_is_known(monkeypatch):
    """A second driver of the same program takes over pace and lanes, and nothing else of the first."""
    compiled, calls = lanes.compiled_program, []

    def counted(build, devices):
        program = compiled(build, devices)
        return lambda *arguments: calls.append(int(arguments[-2])) or program(*arguments)

    monkeypatch.setattr(lanes, "compiled_program", counted)
    steps = np.random.default_rng(3).integers(20, 60, 400)
    first, _ = [run_counts([steps], size=16) for _ in range(3)][-1]
    calls.clear()
    second, tally = run_counts([steps[::-1]], size=16, gain=5.0)
    assert len(calls) == 1 and tally.runs == 400
    assert second[0]["steps"].tolist() == steps[::-1].tolist() and set(second[0]["gain"]) == {5.0}
    assert second[0]["twice"].tolist() == first[0]["twice"][::-1].tolist()


def test_a_core_has_lanes_for_as_many_bytes_in_either_number_type():
    def lanes_for(total):
        return LaneDriver(
            counting, Settings(), {"gain": 3.0}, ["steps"], total=total, devices=jax.local_devices()[:1]
        )._lanes

    def expected(most):
        sizes = [lanes_for(n) for n in (1, 8, 100, 230, most, 2 * most, 10**6)]
        # A few runs more than there are lanes would fill all of them twice, the second time with hardly any.
        return sizes == [1, 8, 120, 240, most, most, most] and lanes_for(most + 8) < most

    assert expected(lanes.CPU_LANES)
    with jax.enable_x64(False):
        assert expected(2 * lanes.CPU_LANES)


def test_when_memory_runs_out_lanes_are_halved_and_nothing_is_lost(monkeypatch):
    compiled = lanes.compiled_program

    def with_little_memory(build, devices):
        program = compiled(build, devices)

        def run(results, carry, *arguments):
            if carry.place.shape[-1] > 8:
                raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 123 bytes")
            return program(results, carry, *arguments)

        return run

    batches = [np.random.default_rng(2).integers(0, 30, 500) for _ in range(3)]
    monkeypatch.setattr(lanes, "compiled_program", with_little_memory)
    found, tally = run_counts(batches, size=64, devices=2)
    assert tally.shrunk == 3  # 64, 32, 16, and 8 lanes fit
    for i, batch in enumerate(batches):
        assert found[i]["twice"].tolist() == (2.0 * batch).tolist()


def test_memory_that_runs_out_before_anything_runs_is_handled_too(monkeypatch):
    put = jax.device_put

    def with_little_memory(tree, *where):
        if isinstance(tree, lanes.Carry) and tree.place.shape[-1] > 8:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 123 bytes")
        return put(tree, *where)

    monkeypatch.setattr(jax, "device_put", with_little_memory)
    told = []
    steps = np.random.default_rng(2).integers(0, 30, 500)
    driver = LaneDriver(counting, Settings(), {"gain": 3.0}, ["steps"], total=500, lanes=64, watch=told.append)
    ((_, found),) = driver.stream([(0, {"steps": steps.astype(float)})])
    assert found["twice"].tolist() == (2.0 * steps).tolist()
    assert driver.tally.shrunk >= 2 and told == sorted(told) and told[-1] == driver.tally.runs == 500


def test_memory_that_is_too_small_for_one_lane_is_said(monkeypatch):
    def fail(*arguments):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory")

    monkeypatch.setattr(lanes, "compiled_program", lambda build, devices: fail)
    with pytest.raises(InputError, match="not enough memory even for one"):
        run_counts([[1, 2, 3]])


def test_other_errors_of_the_device_are_not_taken_for_memory(monkeypatch):
    def fail(*arguments):
        raise jax.errors.JaxRuntimeError("INTERNAL: something else")

    monkeypatch.setattr(lanes, "compiled_program", lambda build, devices: fail)
    with pytest.raises(jax.errors.JaxRuntimeError, match="something else"):
        run_counts([[1, 2, 3]])


# ---------------------------------------------------------------- the crutch

VARIED = ("q3", "dq5", "mu", "k_n", "chi")
COULOMB = {"normal": "hunt_crossley", "friction": "coulomb"}
CONSTANTS = {k: v for k, v in default_params(get_model("crutch")).items() if k not in VARIED}


def crutch(settings: Settings) -> Machine:
    return get_model("crutch").machine("compliant", COULOMB, settings)


def impacts(count: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Random impacts that slide, stick and reverse; some that cannot run at all."""
    rng = np.random.default_rng(seed)
    nominal = default_params(get_model("crutch"))
    drawn = {
        "q3": rng.uniform(3, 21, count) * DEGREE,
        "dq5": rng.uniform(-0.2, 0.4, count),
        "mu": rng.uniform(0.4, 1.1, count),
        "k_n": nominal["k_n"] * 10 ** rng.uniform(-0.5, 0.5, count),
        "chi": nominal["chi"] * 10 ** rng.uniform(-0.7, 0.7, count),
    }
    drawn["mu"][::31] = np.nan
    return drawn


@cache
def one_by_one(count: int) -> dict[str, np.ndarray]:
    run = jax.jit(lambda varied: simulate(crutch(Settings()), {**CONSTANTS, **varied}))
    drawn = impacts(count)
    rows = [run({name: values[i] for name, values in drawn.items()}) for i in range(count)]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


COUNT = 300


@pytest.mark.parametrize(
    ("size", "devices", "batch", "backwards"), [(128, 1, 300, False), (128, 2, 37, False), (8, 2, 100, True)]
)
def test_lanes_give_what_one_run_at_a_time_gives(size, devices, batch, backwards):
    drawn = impacts(COUNT)
    order = np.arange(COUNT)[::-1] if backwards else np.arange(COUNT)
    here = jax.local_devices()[:devices]
    driver = LaneDriver(crutch, Settings(), CONSTANTS, VARIED, total=COUNT, lanes=size, devices=here)
    parts = [order[i : i + batch] for i in range(0, COUNT, batch)]
    alone = one_by_one(COUNT)
    for i, found in driver.stream((i, {k: v[part] for k, v in drawn.items()}) for i, part in enumerate(parts)):
        for name, values in found.items():
            # of the outcome's own scale: the work of a tip that hardly slips is a small difference of large numbers
            scale = np.nanmax(np.abs(alone[name]))
            np.testing.assert_allclose(values, alone[name][parts[i]], rtol=1e-10, atol=1e-10 * scale, err_msg=name)
    assert np.isnan(alone["P_n"]).sum() == len(drawn["mu"][::31])


TIGHT = Settings(rtol=1e-11, atol=1e-13)


def test_derivatives_ride_in_the_same_lanes():
    by, count, step = ("mu", "torso.mass"), 60, 1e-5
    drawn = impacts(count)

    def outcome(name, change):
        """P_t with one parameter changed: settings and constants are arguments, so this compiles nothing new."""
        constants, numbers = dict(CONSTANTS), dict(drawn)
        changed = numbers if name in numbers else constants
        changed[name] = changed[name] * (1 + change)
        driver = LaneDriver(crutch, TIGHT, constants, VARIED, total=COUNT, lanes=8, devices=jax.local_devices()[:2])
        ((_, found),) = driver.stream([(0, numbers)])
        return found["P_t"]

    driver = LaneDriver(
        lambda settings: with_tangents(crutch(settings), by), TIGHT, CONSTANTS, VARIED, total=count, lanes=8
    )
    ((_, found),) = driver.stream([(0, drawn)])
    slopes, finished = found["slopes"]["P_t"], found["values"]["status"] == FINISHED
    assert slopes.shape == (2, count) and found["slopes"]["status"] is None
    assert np.all(np.isfinite(slopes[:, finished]))
    for slope, name in zip(slopes, by, strict=True):
        difference = (outcome(name, step) - outcome(name, -step)) / (2 * step * drawn.get(name, CONSTANTS.get(name)))
        scale = np.nanmax(np.abs(difference))
        np.testing.assert_allclose(slope[finished], difference[finished], rtol=1e-4, atol=1e-5 * scale)


# ---------------------------------------------------------------- what lanes are kept in, and traced in


def test_leaves_put_together_come_apart_as_they_were():
    random = np.random.default_rng(8)
    tree = {
        "scalars": [random.normal(size=7) for _ in range(3)],
        "slopes": (random.normal(size=(4, 7)), None, random.normal(size=(4, 7))),
        "codes": random.integers(0, 9, 7).astype(np.int32),
    }
    arrays = together(tree)
    assert sorted(a.shape for a in arrays) == [(1, 7), (2, 4, 7), (3, 7)]
    assert [(a.shape, a.dtype) for a in rooms_for(tree, 7)] == [(a.shape, a.dtype) for a in arrays]
    for found, leaf in zip(apart(tree, arrays), jax.tree.leaves(tree), strict=True):
        np.testing.assert_array_equal(found, leaf)


@pytest.mark.parametrize("was_on", [True, False])
def test_garbage_is_collected_again_after_a_program_was_traced_whatever_happened(was_on):
    (gc.enable if was_on else gc.disable)()
    try:
        with pytest.raises(ZeroDivisionError), collecting_later():
            assert not gc.isenabled()
            raise ZeroDivisionError
        assert gc.isenabled() == was_on
    finally:
        gc.enable()
