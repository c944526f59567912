"""The compiled part of lanes: on each device, step lanes together and refill those that are done, until it pauses."""

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxcontact.integrate.machine import Machine, lane_wide
from jaxcontact.integrate.settings import Settings
from jaxcontact.integrate.turns import Turns, in_turns
from jaxcontact.study.together import together

Builder = Callable[[Settings], Machine]

_SHARE = 9  # one lane in so many is refilled at a time: lanes wait for their refill about half as long as that


class Carry(NamedTuple):
    """What stays on the devices between calls; every array begins with an axis over the devices.

    `place` says where a lane's results go: 0 ... queue - 1 is the entry of the queue that it works on; queue + lane, if
    that entry belonged to an earlier queue; queue + lanes, if it has no work. `results`, put together by shape and
    type, have room for all but the last.
    """

    state: Any
    varied: dict[str, Any]
    place: Any
    next: Any  # first entry of the queue that no lane has taken
    steps: Any  # machine steps of the last call
    results: list[Any]


def lanes_at_a_time(lanes: int) -> int:
    """How many lanes are refilled together: a share of them, of whole vectors if need be a little smaller.

    All lanes are full after a whole number of refills: what is left over would wait, empty, for the first runs to end.
    """
    most = max(1, lanes // _SHARE)
    return max(range((most + 1) // 2, most + 1), key=lambda size: (lanes % size == 0, size % 8 == 0, size))


def lane_program(build: Builder, carry: Carry, queue, count, constants, settings: Settings, budget, drain) -> Carry:
    """One device's part: step and refill until the queue is empty (`drain`: and the lanes too), or the budget is."""
    machine = build(settings)
    lanes = carry.place.shape[-1]
    idle = carry_idle(carry)
    refills = lanes_at_a_time(lanes)

    def params(varied):
        return {**constants, **varied}

    def refill(c: Carry) -> Carry:
        # Lanes to serve: those that are done, and as long as there is something to do also those without work.
        done, at_work = machine.done(c.state), c.place != idle
        free = jnp.where(c.next < count, done | ~at_work, done & at_work)
        # Begin at another lane each time: those at the end would otherwise wait while the first are served again.
        turn_order = (jnp.arange(lanes) + c.next) % lanes
        (first_free,) = jnp.nonzero(free[turn_order], size=refills, fill_value=lanes)
        lane = jnp.where(first_free < lanes, turn_order[jnp.minimum(first_free, lanes - 1)], lanes)
        state, varied, place = jax.tree.map(
            lambda a: jnp.take(a, lane, axis=-1, mode="clip"), (c.state, c.varied, c.place)
        )
        place = jnp.where(lane < lanes, place, idle)
        found = lane_wide(machine.finish(params(varied), state), (refills,))
        results = [
            kept.at[..., place].set(new, mode="drop") for kept, new in zip(c.results, together(found), strict=True)
        ]

        # Past the end of the queue a lane gets a copy of its last entry, which nobody will read: no NaN, no branch.
        entry = c.next + jnp.arange(refills, dtype=jnp.int32)
        varied = {name: values[jnp.clip(entry, 0, jnp.maximum(count - 1, 0))] for name, values in queue.items()}
        state, varied, place = jax.tree.map(
            lambda is_scratch, old, new: old if is_scratch else old.at[..., lane].set(new, mode="drop"),
            (machine.scratch(c.state), dict.fromkeys(varied, False), False),
            (c.state, c.varied, c.place),
            (lane_wide(machine.init(params(varied)), (refills,)), varied, jnp.where(entry < count, entry, idle)),
        )
        taken = jnp.minimum(c.next + jnp.sum(lane < lanes, dtype=jnp.int32), count)
        return Carry(state, varied, place, taken, c.steps, results)

    def turn(c: Carry) -> Carry:
        c = refill(c)
        at_work = c.place != idle
        # Step until enough lanes are free for a refill, fewer if the queue has fewer: its last entries would otherwise
        # wait for a whole run. Without a queue step until all are free, or leave that to the next queue.
        enough = jnp.where(c.next < count, jnp.minimum(refills, count - c.next), jnp.where(drain, lanes, 0))

        def go_on(now):
            state, steps = now
            return (steps < budget) & (jnp.sum(machine.done(state) | ~at_work) < enough)

        step_one = machine.bound(params(c.varied))

        def step(now):
            return step_one(now[0]), now[1] + machine.steps

        state, steps = jax.lax.while_loop(go_on, step, (c.state, c.steps))
        return c._replace(state=state, steps=steps)

    def unfinished(c: Carry):
        return (c.steps < budget) & ((c.next < count) | (drain & jnp.any(c.place != idle)))

    return jax.lax.while_loop(unfinished, turn, carry._replace(steps=jnp.zeros_like(carry.steps)))


def carry_idle(carry: Carry) -> int:
    """The place of a lane without work: one past the end of the results."""
    return carry.results[0].shape[-1]


class Shapes(NamedTuple):
    """Shapes and number types of one lane's state and results, an axis over the lanes last."""

    state: Any
    results: Any


def machine_shapes(build: Builder, settings: Settings, constants: tuple[str, ...], names: tuple[str, ...]) -> Shapes:
    """Find what a machine keeps and gives, without running or compiling anything."""
    return _machine_shapes(build, settings, constants, names, jnp.result_type(float))


@lru_cache(maxsize=64)
def _machine_shapes(build: Builder, settings: Settings, constants, names, number: np.dtype) -> Shapes:
    def of_one_lane(constants, varied):
        params = {**constants, **varied}
        machine = build(settings)
        if machine.alike:
            return Shapes(*machine.alike(params))
        state = lane_wide(machine.init(params), (1,))
        return Shapes(state, lane_wide(machine.finish(params, state), (1,)))

    return jax.eval_shape(
        of_one_lane,
        {name: jax.ShapeDtypeStruct((), number) for name in constants},
        {name: jax.ShapeDtypeStruct((1,), number) for name in names},
    )


@lru_cache(maxsize=64)
def building_turns(build: Builder, turns: Turns) -> Builder:
    """A builder of the same machine in turns; kept, for the same function object means the same compiled program."""
    return lambda settings: in_turns(build(settings), turns)


@lru_cache(maxsize=64)
def compiled_program(build: Builder, devices: tuple[Any, ...]):
    """Return the program over these devices; kept, so that studies which differ only in numbers compile once.

    Its first two arguments are a carry's results, which it overwrites, and the carry without them. Every parameter and
    tolerance is an argument of it, never a constant inside.
    """

    def on_one_device(results, others, queue, count, constants, settings, budget, drain):
        carry, queue, count = jax.tree.map(lambda a: a[0], (others._replace(results=results), queue, count))
        after = lane_program(build, carry, queue, count, constants, settings, budget, drain)
        return jax.tree.map(lambda a: a[None], after)

    split, shared, mesh = PartitionSpec("device"), PartitionSpec(), Mesh(np.array(devices), ("device",))
    mapped = jax.shard_map(
        on_one_device,
        mesh=mesh,
        in_specs=(split, split, split, split, shared, shared, shared, shared),
        out_specs=split,
        check_vma=False,
    )
    return jax.jit(
        mapped,
        # Not the others: XLA would use their memory for what is in between, where it does not know that arrays do not
        # overlap, and every loop that writes there would be compiled twice, or left without vectors.
        donate_argnums=0,
        # On a single device some would be called unsplit, and the next call, a stranger, would take a slower way.
        out_shardings=NamedSharding(mesh, split),
        compiler_options=compiler_options(devices[0].platform),
    )


# How XLA shall compile for a CPU. Its newer emitter of fused loops leaves those over directions and lanes unvectorised
# and takes longer to compile: without it, a sweep of the crutch was a fifth faster and ready a sixth sooner. Vectors as
# wide as the machine has gave another tenth, and a fifth with derivatives.
_CPU_OPTIONS: dict[str, bool | int] = {"xla_cpu_use_fusion_emitters": False, "xla_cpu_prefer_vector_width": 512}


@cache
def compiler_options(platform: str) -> dict[str, bool | int]:
    """How to compile loops over lanes for a platform: those of the options that this version of XLA knows."""
    if platform != "cpu":
        return {}
    if _are_known(_CPU_OPTIONS):  # usually; each question takes 20 ms
        return _CPU_OPTIONS
    return {name: value for name, value in _CPU_OPTIONS.items() if _are_known({name: value})}


def _are_known(options: dict[str, bool | int]) -> bool:
    try:
        jax.jit(lambda x: x + 1.0, compiler_options=options).lower(0.0).compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True
