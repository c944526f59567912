"""What the bench says of an accelerator is counted from programs: known ones first, then the crutch's."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxcontact import lanewise
from jaxcontact.bench import accelerator, gpu_program
from jaxcontact.bench.accelerator import A100, Way, measure_accelerator, step_times
from jaxcontact.bench.counting import StepCount, count_step
from jaxcontact.bench.gpu_program import Stepping, calls_to_the_host, shapes_left_open, stepping_of
from jaxcontact.integrate.machine import Machine
from jaxcontact.integrate.turns import Turns
from jaxcontact.lanewise import in_one_loop


def machine_of(step, rows=3) -> Machine:
    return Machine(
        init=lambda params: (params["x"] * 1.0, jnp.zeros((rows, *params["x"].shape))),
        step=step,
        done=lambda state: state[0] < 0,
        finish=lambda params, state: {},
    )


PARAMS = {"x": np.zeros(5), "shared": 2.0}


def test_operations_are_counted_by_hand():
    def step(params, state):
        x, memory = state

        def turn(i, x):
            return jax.lax.cond(i < 3, lambda: x * x + 1.0, lambda: x / params["shared"])

        x = jax.lax.fori_loop(0, 5, turn, x)  # three products and sums, two quotients
        unused = jnp.sqrt(x)
        twice = in_one_loop(lambda x: (x - 3.0) * (x - 3.0), x)  # one difference, one product
        return jnp.where(twice > 0, twice, x) + 0 * unused.shape[0], memory

    count = count_step(machine_of(step), PARAMS)
    real = {name: n for name, n in count.operations.items() if "whole" not in name}
    assert {name: real[name] for name in ("mul", "add", "div", "sub", "gt", "select_n")} == {
        "mul": 4,
        "add": 4,  # and that of the last line
        "div": 2,
        "sub": 1,
        "gt": 1,
        "select_n": 1,
    }
    assert count.flops == 4 + 4 + 2 + 1 and count.instructions == 4 + 4 + 2 * 10 + 1 + 1
    assert count.state_bytes == 8 * (1 + 3) and count.param_bytes == 8  # of x; what is shared is nobody's own


def test_what_a_loop_looks_up_is_counted_as_memory():
    def step(params, state):
        def turn(carry, i):
            x, memory = carry
            old = jax.lax.dynamic_index_in_dim(memory, i, keepdims=False)
            return (x + old, jax.lax.dynamic_update_index_in_dim(memory, x, i, 0)), None

        (x, memory), _ = jax.lax.scan(turn, state, jnp.arange(3))
        return x + memory[2], memory

    count = count_step(machine_of(step), PARAMS)
    assert count.loop_bytes == 8 * (3 + 3 + 1)  # read, written, and read once more behind the loop
    assert count.least_kernels == 3  # rows written in place


def test_lane_loops_and_the_turns_inside_are_kernels_at_least():
    def step(params, state):
        def root(x):
            return jax.lax.fori_loop(0, 12, lambda _, y: 0.5 * (y + x / y), x)

        x = in_one_loop(root, state[0])
        return in_one_loop(lambda x: x + 1.0, x), state[1]

    count = count_step(machine_of(step), PARAMS)
    assert count.least_kernels == 2 + 12
    assert count.least_bytes == 2 * 2 * 8 + 2 * count.state_bytes  # each reads a number and writes one


# ---------------------------------------------------------------- programs

# As XLA prints what it has optimised: a loop that refills, in it a loop that steps, in that one over six evaluations.
MODULE = """HloModule jit_program

%fused_row (p0: f64[6,10], p1: f64[10], p2: s32[]) -> f64[6,10] {
  %p0 = f64[6,10]{1,0} parameter(0)
  %p1 = f64[10]{0} parameter(1)
  %p2 = s32[] parameter(2)
  %b = f64[1,10]{1,0} bitcast(%p1)
  ROOT %d = f64[6,10]{1,0} dynamic-update-slice(%p0, %b, %p2, %p2)
}

%dear (a: f64[10]) -> f64[10] {
  %a = f64[10]{0} parameter(0)
  %a1 = f64[10]{0} sine(%a)
  ROOT %a2 = f64[10]{0} sine(%a1)
}

%cheap (c: f64[10]) -> f64[10] {
  %c = f64[10]{0} parameter(0)
  ROOT %c1 = f64[10]{0} copy(%c)
}

%evaluation (e: (f64[6,10], f64[10], s32[])) -> (f64[6,10], f64[10], s32[]) {
  %e = (f64[6,10]{1,0}, f64[10]{0}, s32[]) parameter(0)
  %e0 = f64[6,10]{1,0} get-tuple-element(%e), index=0
  %e1 = f64[10]{0} get-tuple-element(%e), index=1
  %e2 = s32[] get-tuple-element(%e), index=2
  %way = f64[10]{0} conditional(%e2, %e1, %e1), branch_computations={%cheap, %dear}
  %row = f64[6,10]{1,0} fusion(%e0, %way, %e2), kind=kLoop, calls=%fused_row
  ROOT %et = (f64[6,10]{1,0}, f64[10]{0}, s32[]) tuple(%row, %way, %e2)
}

%always (g: (f64[6,10], f64[10], s32[])) -> pred[] {
  %g = (f64[6,10]{1,0}, f64[10]{0}, s32[]) parameter(0)
  %g2 = s32[] get-tuple-element(%g), index=2
  ROOT %g3 = pred[] compare(%g2, %g2), direction=LT
}

%step (s: (f64[6,10], f64[10], s32[])) -> (f64[6,10], f64[10], s32[]) {
  %s = (f64[6,10]{1,0}, f64[10]{0}, s32[]) parameter(0)
  ROOT %sw = (f64[6,10]{1,0}, f64[10]{0}, s32[]) while(%s), condition=%always, body=%evaluation, KNOWN
}

%turn (t: (f64[6,10], f64[10], s32[])) -> (f64[6,10], f64[10], s32[]) {
  %t = (f64[6,10]{1,0}, f64[10]{0}, s32[]) parameter(0)
  ROOT %tw = (f64[6,10]{1,0}, f64[10]{0}, s32[]) while(%t), condition=%always, body=%step
}

ENTRY %main (m: (f64[6,10], f64[10], s32[])) -> (f64[6,10], f64[10], s32[]) {
  %m = (f64[6,10]{1,0}, f64[10]{0}, s32[]) parameter(0)
  ROOT %mw = (f64[6,10]{1,0}, f64[10]{0}, s32[]) while(%m), condition=%always, body=%turn
}
""".replace("KNOWN", 'backend_config={"known_trip_count":{"n":"6"}}')


def test_kernels_and_bytes_of_a_compiled_program_are_counted():
    found = stepping_of(MODULE)
    assert found.kernels == 6 * 1 + 5 * 1 + 1 * 2  # rows written; the cheap way five times, the dear one once
    assert found.look == 1 and found.waits == 1 + 6
    # A row is read from its numbers and an index and written; elsewhere all is read and written.
    assert found.bytes == 6 * (80 + 4 + 80) + (5 + 2) * 2 * 80


def test_calls_to_the_host_and_open_shapes_are_found():
    def told(x):
        jax.debug.callback(lambda x: None, x)
        return x + 1.0

    x = jax.ShapeDtypeStruct((3,), float)
    assert calls_to_the_host(jax.jit(told).lower(x).as_text())
    assert not calls_to_the_host(jax.jit(jnp.sin).lower(x).as_text())
    assert shapes_left_open("%0 = stablehlo.add %a : tensor<?x3xf64>, tensor<3xf64>") == ["tensor<?x3xf64>"]


# ---------------------------------------------------------------- times


def count_of(**more) -> StepCount:
    numbers = dict(
        flops=0, instructions=0, other=0, state_bytes=0, param_bytes=0, loop_bytes=0, least_kernels=0, least_bytes=0
    )
    return StepCount(operations={}, **(numbers | more))


def test_what_takes_longest_binds():
    lanes = A100.resident
    many = Way(Turns(), Stepping(kernels=100, look=0, waits=0, bytes=0), lanes, "")
    times = step_times(A100, many, count_of(), lanes)
    assert times.binding == "launch" and times.least == pytest.approx(100 * A100.launch)
    busy = Way(Turns("pallas", 4), Stepping(kernels=0, look=0, waits=0, bytes=4 * lanes), lanes, "")
    times = step_times(A100, busy, count_of(instructions=1000), lanes)
    assert times.flops == pytest.approx(1000 * lanes / 4.85e12) and times.binding == "flops"
    assert times.bandwidth == pytest.approx(lanes / 1.555e12)
    # One lane more than there is room for takes another wave; in float32 all is half.
    assert step_times(A100, busy, count_of(instructions=1), lanes + 1).flops == pytest.approx(2 * lanes / 4.85e12)
    single = step_times(A100, busy, count_of(instructions=1000), lanes, "float32")
    assert single.bandwidth == pytest.approx(times.bandwidth / 2)


def test_the_part_is_counted_from_the_crutch_and_kept(monkeypatch):
    monkeypatch.setattr(accelerator, "_steps_of_an_impact", lambda cases: 30.0)  # which compiles a sweep
    part = measure_accelerator(short=True)
    json.dumps(part.numbers)
    assert part.name == "accelerator" and all(row.ratio is not None for row in part.rows)
    assert part.numbers["lowered"] == {
        name: {"host": [], "open shapes": []} for name in ("XLA's kernels", "one kernel")
    }
    step = part.numbers["step"]
    # Six evaluations of a 17-row flow with a 4 x 4 factorisation, an error norm, and a root: thousands, not millions.
    assert 3_000 < step["flops"] < 12_000 and step["flops"] < step["instructions"]
    assert step["state_bytes"] < 2_000 and step["loop_bytes"] < 10_000 and step["least_kernels"] > 50
    # What the document derives from is still what the program asks for.
    text = (Path(lanewise.__file__).parent / "ACCELERATORS.md").read_text()
    for named, name in (
        ("flops (", "flops"),
        ("floating-point instructions", "instructions"),
        ("state (bytes)", "state_bytes"),
        ("slopes of the stride (bytes)", "loop_bytes"),
    ):
        (line,) = [line for line in text.splitlines() if line.startswith(f"| {named}")]
        assert float(line.split("|")[2].replace(",", "")) == pytest.approx(step[name], rel=0.1), line
    assert (part.numbers["programs"]["one kernel"]["kernels"], part.numbers["programs"]["one kernel"]["steps"]) == (
        1,
        4,
    )


def test_without_a_compiler_the_reason_is_told(monkeypatch):
    monkeypatch.setattr(gpu_program, "find_spec", lambda name: None)
    said = gpu_program.compiled_stepping(Turns(), 8)
    assert isinstance(said, str) and "pip install" in said
