"""Steps in one kernel: the same numbers as step by step, whoever shares the block; and a GPU's compiler takes it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxcontact.errors import InputError
from jaxcontact.integrate.machine import FINISHED, Machine
from jaxcontact.integrate.settings import Settings
from jaxcontact.integrate.turns import Turns, in_turns, turns_on
from jaxcontact.lanewise import in_one_loop, rows, scalars
from jaxcontact.lanewise.block_kernel import steps_in_one_kernel
from jaxcontact.models import get_model
from jaxcontact.models.model import default_params
from jaxcontact.study import lane_program
from jaxcontact.study.lanes import LaneDriver

LANES = 11
TABLE = np.array([0.5, -1.0, 2.0, 2.0])


def arithmetic(shared, y, kind):
    """What a machine step is made of: a loop with an index, rows found and replaced by it, a branch, a lane loop."""

    def turn(carry, i):
        total, memory = carry
        weight = jnp.asarray(TABLE)[i]
        fresh = in_one_loop(lambda a, b, k: jnp.where(k == 0, a * b[0], a - b[1]), total, y, kind)
        fresh = jax.lax.cond(i < 2, lambda: fresh * weight, lambda: jnp.round(10 * fresh) * shared)
        old = jax.lax.dynamic_index_in_dim(memory, i, keepdims=False)
        memory = jax.lax.dynamic_update_index_in_dim(memory, fresh + 0.25 * old, i, 0)
        return (total + memory[1], memory), None

    known = y.at[np.array([2])].set(y[np.array([1])] + 1.0)  # at places that are known
    first = (y[0] * shared, jnp.stack([y[0], y[1], known[2], y[0]]))
    (total, memory), _ = jax.lax.scan(turn, first, jnp.arange(len(TABLE)))
    return {"total": total, "memory": memory, "least": jnp.argmin(memory, axis=0).astype(jnp.int32)}


def given():
    random = np.random.default_rng(5)
    y = jnp.asarray(random.normal(size=(3, LANES)))
    return jnp.asarray(0.7), y.at[0, 0].set(0.25), jnp.arange(LANES, dtype=jnp.int32) % 2


@pytest.mark.parametrize("keep_loops", [True, False])
def test_on_rows_a_function_gives_what_it_gives_on_arrays(keep_loops):
    arguments = given()
    one_lane = [a if a.ndim == 0 else a[..., :1] for a in arguments]
    closed, shape = jax.make_jaxpr(arithmetic, return_shape=True)(*one_lane)

    @jax.jit
    def on_rows(*arguments):
        small = [
            scalars.filled((*a.shape[:-1], 1) if a.ndim else (), lambda i, a=a: a[i[:-1]] if a.ndim else a)
            for a in arguments
        ]
        found = rows.evaluate(closed, small, keep_loops=keep_loops)
        return [jnp.stack([jnp.broadcast_to(n, LANES) for n in a.flat]).reshape(*a.shape[:-1], LANES) for a in found]

    expected = jax.tree.leaves(jax.jit(arithmetic)(*arguments))
    for one, other in zip(on_rows(*arguments), expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-14, atol=1e-14)
    assert jax.tree.structure(shape).num_leaves == len(expected)
    # What stays a loop is in the program once.
    loops = str(jax.make_jaxpr(on_rows)(*arguments)).count(" scan[")
    assert loops == (1 if keep_loops else 0)


def test_halves_are_rounded_to_even_as_everywhere():
    x = jnp.asarray([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999999999999994, 4503599627370495.5, 1e300])
    closed = jax.make_jaxpr(jnp.round)(jax.ShapeDtypeStruct((1,), x.dtype))
    (found,) = rows.evaluate(closed, [scalars.filled((1,), lambda _: x)])
    np.testing.assert_array_equal(found[0], np.round(np.asarray(x)))


def test_what_cannot_be_done_on_rows_is_said():
    with pytest.raises(NotImplementedError, match="cannot be written out"):
        closed = jax.make_jaxpr(jnp.sort)(jnp.ones((3, 1)))
        rows.evaluate(closed, [scalars.filled((3, 1), lambda _: jnp.ones(4))])
    with pytest.raises(NotImplementedError, match="branches of their own"):
        closed = jax.make_jaxpr(lambda i: jax.lax.cond(i > 0, lambda: 1.0, lambda: 2.0))(0)
        jax.make_jaxpr(lambda row: rows.evaluate(closed, [scalars.filled((), lambda _: row)]))(jnp.arange(4))


# ---------------------------------------------------------------- machines in turns


def counting(settings: Settings) -> Machine:
    """A lane takes as many steps as its number says; `settings` are looked at from outside, as a model's are."""
    return Machine(
        init=lambda params: (params["steps"] + 0.0, jnp.zeros_like(params["steps"])),
        step=lambda params, state: (
            state[0] - (state[0] > 0),
            state[1] + params["gain"] * settings.rtol * (state[0] > 0),
        ),
        done=lambda state: state[0] <= 0,
        finish=lambda params, state: {"sum": state[1]},
    )


@pytest.mark.parametrize(
    ("kernel", "steps", "size"), [("xla", 5, 8), ("pallas", 1, 8), ("pallas", 4, 64), ("pallas", None, 1)]
)
def test_looking_less_often_changes_no_result(kernel, steps, size):
    counts = np.random.default_rng(0).integers(0, 40, 60).astype(float)
    driver = LaneDriver(
        counting,
        Settings(rtol=0.5),
        {"gain": 4.0},
        ["steps"],
        total=len(counts),
        lanes=size,
        devices=jax.local_devices()[:1],
        step_kernel=kernel,
        steps_per_turn=steps,
    )
    ((_, found),) = driver.stream([(0, {"steps": counts})])
    np.testing.assert_array_equal(found["sum"], 2.0 * counts)
    assert driver.tally.lane_steps >= counts.sum() and driver.tally.lane_steps % ((steps or 4) * driver._lanes) == 0


def test_what_is_asked_for_is_checked():
    assert turns_on("cpu") == Turns() == turns_on("cuda") and turns_on("cuda", "pallas") == Turns("pallas", 4, False)
    with pytest.raises(InputError, match="step_kernel = 'triton': allowed are xla, pallas"):
        turns_on("cuda", "triton")
    with pytest.raises(InputError, match="steps_per_turn = 0"):
        turns_on("cuda", "xla", 0)


def test_a_step_that_one_kernel_cannot_hold_is_refused():
    def sorting(settings):
        whole = counting(settings)
        return whole._replace(step=lambda params, state: (state[0] - 1.0, jnp.sort(jnp.stack([*state]), axis=0)[0]))

    drawn = {"steps": np.arange(3.0)}
    driver = LaneDriver(sorting, Settings(), {"gain": 1.0}, drawn, total=3, lanes=1, step_kernel="pallas")
    with pytest.raises(InputError, match="'xla' can: sort"):
        list(driver.stream([(0, drawn)]))


def test_arrays_come_as_arguments():
    def shifted(by, state):
        return steps_in_one_kernel(lambda _, state: state + by, {}, state, interpret=True)

    np.testing.assert_array_equal(jax.jit(shifted)(2.0, jnp.zeros(5)), np.full(5, 2.0))
    with pytest.raises(ValueError, match="as arguments"):
        jax.jit(shifted)(jnp.ones(5), jnp.zeros(5))


CRUTCH = get_model("crutch")


def crutch(settings: Settings) -> Machine:
    return CRUTCH.machine("compliant", {name: allowed[0] for name, allowed in CRUTCH.choices.items()}, settings)


def impacts(count: int) -> dict[str, np.ndarray]:
    """Sliding, reversal, sticking, and some that cannot even start."""
    random = np.random.default_rng(1)
    return {
        "mu": np.where(np.arange(count) % 13 == 5, np.nan, random.uniform(0.3, 1.2, count)),
        "dq5": random.uniform(-0.2, 0.4, count),
        "q3": np.radians(random.uniform(3.0, 21.0, count)),
    }


COUNT = 40


def test_impacts_in_one_kernel_are_impacts():
    drawn = impacts(COUNT)
    constants = {name: value for name, value in default_params(CRUTCH).items() if name not in drawn}

    def found(**more):
        driver = LaneDriver(
            crutch, Settings(), constants, drawn, total=COUNT, lanes=24, devices=jax.local_devices()[:1], **more
        )
        ((_, found),) = driver.stream([(0, drawn)])
        return found

    one, other = found(step_kernel="pallas"), found()
    np.testing.assert_array_equal(one["status"], other["status"])
    np.testing.assert_array_equal(one["regime"], other["regime"])
    finished = one["status"] == FINISHED
    assert 0 < finished.sum() < COUNT and len(set(one["regime"][finished].tolist())) > 1
    for name in other:
        # Of the outcome's own scale. Early steps are chosen by errors that are rounding alone, and so they differ.
        scale = np.nanmax(np.abs(other[name]))
        np.testing.assert_allclose(one[name], other[name], rtol=1e-7, atol=1e-7 * scale, err_msg=name)


def test_a_gpu_takes_a_step_of_the_crutch_as_one_kernel():
    params = {name: jax.ShapeDtypeStruct((100,), float) for name in default_params(CRUTCH)}
    state = jax.eval_shape(crutch(Settings()).init, params)

    def steps(rtol, params, state):
        return steps_in_one_kernel(crutch(Settings(rtol=rtol)).step, params, state, steps=4)

    lowered = jax.jit(steps).trace(1e-7, params, state).lower(lowering_platforms=("cuda",))
    program = lowered.as_text()
    assert program.count("stablehlo.custom_call") == 1 and "triton" in program
    assert "stablehlo.while" not in program  # its loops are inside


def test_one_program_serves_all_numbers_settings_and_counts():
    known = []
    for rtol, gain, count in ((0.5, 4.0, 60), (0.25, 3.0, 45), (1e-3, 1.0, 33)):
        driver = LaneDriver(
            counting,
            Settings(rtol=rtol, max_steps=count),
            {"gain": gain},
            ["steps"],
            total=60,
            lanes=8,
            devices=jax.local_devices()[:1],
            steps_per_turn=2,
        )
        ((_, found),) = driver.stream([(0, {"steps": np.arange(count) / 1.0})])
        np.testing.assert_allclose(found["sum"], gain * rtol * np.arange(count), rtol=1e-12)
        program = lane_program.compiled_program(driver._build, tuple(jax.local_devices()[:1]))
        known.append((id(program), program._cache_size()))
    assert len(set(known)) == 1  # what the first sweep compiled is all there is


def test_a_machine_in_turns_says_how_many_steps_it_takes():
    machine = counting(Settings())
    assert in_turns(machine, Turns()) is machine and in_turns(machine, Turns("xla", 3)).steps == 3
