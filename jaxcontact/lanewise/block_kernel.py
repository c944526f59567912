"""Several steps of a machine for a block of lanes in one kernel, whose state stays in registers meanwhile.

What XLA makes of a step on a GPU is hundreds of kernels, each of which is launched, reads its numbers from memory and
writes them back (see ACCELERATORS.md). Here a step is traced for one lane, written out on rows of lanes (`rows`), and
handed to Pallas as one kernel: a program per block of lanes reads its part of the state once, takes all its steps, and
writes it back once. Only arrays that a loop inside a step looks up by its index, the slopes of a stride, stay where
they are: held in registers, of which there are too few, they made the compiler move five times as many bytes. Lanes
know nothing of each other, so nothing has to be waited for inside.
"""

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.extend.core import ClosedJaxpr, Literal
from jax.extend.core.primitives import scan_p

from jaxcontact.lanewise import rows, scalars
from jaxcontact.lanewise.scalars import Numbers

BLOCK = 32  # lanes of a program: one warp, so that no program waits for another's lanes


def steps_in_one_kernel(
    step: Callable[[Any, Any], Any],
    params: Any,
    state: Any,
    *,
    steps: int = 1,
    block: int = BLOCK,
    interpret: bool = False,
) -> Any:
    """Apply `step(params, state)` so many times to every lane; the lanes' axis is the last of each array.

    Leaves of `params` are (lanes,), or () where all lanes share them; `step` may also look at other traced numbers that
    all lanes share. `interpret` carries the kernel out without a GPU.
    """
    from jax.experimental import pallas as pl  # takes a while to import, and few need it

    traced = _traced(step, params, state)
    state_leaves, tree = jax.tree.flatten(state)
    in_memory = looked_up(traced.closed, len(traced.given))
    lanes = state_leaves[0].shape[-1]
    padded = -(-lanes // block) * block
    shared = _Shared.of([value for value, lane in traced.given if not lane])
    own = [value for value, lane in traced.given if lane]
    inputs = [*shared.bundles, *(_rows(value, padded) for value in own)]
    before = [_rows(leaf, padded) for leaf in state_leaves]

    def kernel(*refs):
        bundled, rest = refs[: len(shared.bundles)], refs[len(shared.bundles) :]
        of_lanes, first, last = rest[: len(own)], rest[len(own) : -len(before)], rest[-len(before) :]
        alike = iter(shared.read(bundled))
        apart = (_read(ref, value) for ref, value in zip(of_lanes, own, strict=True))
        arguments = [next(apart) if lane else next(alike) for _, lane in traced.given]

        ones = [_of_one_lane(leaf) for leaf in state_leaves]
        held = [k for k, stays in enumerate(in_memory) if not stays]
        for k in set(range(len(ones))) - set(held):
            for row in range(first[k].shape[0]):
                last[k][row, :] = first[k][row, :]

        def once(_, numbers):
            left = iter(numbers)
            now = [
                rows.Stored(ref, one.shape, one.dtype) if stays else scalars.filled(one.shape, lambda _: next(left))
                for ref, one, stays in zip(last, ones, in_memory, strict=True)
            ]
            found = rows.evaluate(traced.closed, [*arguments, *now])
            return [
                jnp.broadcast_to(jnp.asarray(number, ones[k].dtype), (block,)) for k in held for number in found[k].flat
            ]

        numbers = [number for k in held for number in _read(first[k], state_leaves[k]).flat]
        left = iter(jax.lax.fori_loop(np.int32(0), np.int32(steps), once, numbers))
        for k in held:
            for row in range(last[k].shape[0]):
                last[k][row, :] = next(left).astype(last[k].dtype)

    def one_block(array):
        return pl.BlockSpec((array.shape[0], block), lambda i: (0, i))

    found = pl.pallas_call(
        kernel,
        grid=(padded // block,),
        in_specs=[
            *(pl.BlockSpec(bundle.shape, lambda i: (0,)) for bundle in shared.bundles),
            *(one_block(array) for array in (*inputs[len(shared.bundles) :], *before)),
        ],
        out_specs=[one_block(array) for array in before],
        out_shape=[jax.ShapeDtypeStruct(array.shape, array.dtype) for array in before],
        input_output_aliases={len(inputs) + k: k for k in range(len(before))},
        interpret=interpret,
        compiler_params=None if interpret else _compiler_params(block),
        name="machine_steps",
    )(*inputs, *before)
    return tree.unflatten(
        [a[:, :lanes].reshape(leaf.shape).astype(leaf.dtype) for a, leaf in zip(found, state_leaves, strict=True)]
    )


def _compiler_params(block: int) -> Any:
    """For Triton, a lane per thread: Pallas' other way to a GPU is for newer cards than an A100."""
    from jax.experimental.pallas import triton

    return triton.CompilerParams(num_warps=max(1, block // 32), num_stages=1)


# ---------------------------------------------------------------- a step, traced for one lane


class _Traced(NamedTuple):
    """A step of one lane, and what it looks at beside the state: values, and whether each lane has its own."""

    closed: ClosedJaxpr
    given: list[tuple[Any, bool]]


def _traced(step: Callable[[Any, Any], Any], params: Any, state: Any) -> _Traced:
    given, given_tree = jax.tree.flatten(params)
    given = [jnp.asarray(value) for value in given]
    leaves, tree = jax.tree.flatten(state)

    def of_one_lane(given, leaves):
        return jax.tree.leaves(step(given_tree.unflatten(given), tree.unflatten(leaves)))

    closed = jax.make_jaxpr(of_one_lane)(*([_of_one_lane(a) for a in arrays] for arrays in (given, leaves)))
    closed, beyond = _with_consts_as_arguments(closed)
    every = [(value, False) for value in beyond] + [(value, value.ndim > 0) for value in given]
    # What it does not look at need not be read.
    jaxpr = closed.jaxpr
    seen = {v for e in jaxpr.eqns for v in e.invars if not isinstance(v, Literal)}
    seen |= {v for v in jaxpr.outvars if not isinstance(v, Literal)}
    kept = [v in seen for v in jaxpr.invars[: len(every)]]
    invars = [v for v, keep in zip(jaxpr.invars, [*kept, *(True for _ in leaves)], strict=True) if keep]
    return _Traced(_replaced(closed, invars=invars), [one for one, keep in zip(every, kept, strict=True) if keep])


def looked_up(closed: ClosedJaxpr, given: int) -> list[bool]:
    """Which arrays of the state go through one loop, row by row perhaps, and are the state's again behind it."""
    jaxpr = closed.jaxpr

    def goes_through(before, after) -> bool:
        uses = [e for e in jaxpr.eqns if any(v is before for v in e.invars)]
        if len(before.aval.shape) < 2 or len(uses) != 1 or uses[0].primitive is not scan_p:
            return False
        (loop,) = uses
        first = loop.params["num_consts"]
        places = [k for k, v in enumerate(loop.invars) if v is before]
        return len(places) == 1 and first <= places[0] and loop.outvars[places[0] - first] is after

    return [goes_through(*pair) for pair in zip(jaxpr.invars[given:], jaxpr.outvars, strict=True)]


def _of_one_lane(value: Any) -> jax.ShapeDtypeStruct:
    """What one lane has of it: the last axis of length 1."""
    shape = np.shape(value)
    return jax.ShapeDtypeStruct((*shape[:-1], 1) if shape else (), jnp.result_type(value))


def _with_consts_as_arguments(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[Any]]:
    """What a function looks at beyond its arguments, tolerances for instance, as its first arguments."""
    jaxpr = closed.jaxpr
    pairs = list(zip(jaxpr.constvars, closed.consts, strict=True))
    moved = [(v, const) for v, const in pairs if isinstance(const, Tracer)]
    kept = [(v, const) for v, const in pairs if not isinstance(const, Tracer)]
    if any(np.ndim(const) for _, const in moved):
        raise ValueError("a step in one kernel must get all arrays that it looks at as arguments")
    changed = _replaced(closed, constvars=[v for v, _ in kept], invars=[*(v for v, _ in moved), *jaxpr.invars])
    return ClosedJaxpr(changed.jaxpr, [const for _, const in kept]), [const for _, const in moved]


def _replaced(closed: ClosedJaxpr, **parts: Any) -> ClosedJaxpr:
    unnamed = closed.jaxpr.debug_info.with_unknown_names()  # as many names as arguments there have to be, or none
    jaxpr = closed.jaxpr.replace(**parts, debug_info=unnamed)
    return ClosedJaxpr(jaxpr, closed.consts[: len(jaxpr.constvars)])


# ---------------------------------------------------------------- in memory


def _stored(kind: Any) -> Any:
    """Truth values are bytes in memory."""
    return np.dtype(np.int8) if kind == np.bool_ else np.dtype(kind)


def _rows(array: Any, padded: int) -> Any:
    """An array of lanes as (rows, lanes), filled up with copies of the last lane."""
    flat = array.reshape(-1, array.shape[-1]).astype(_stored(array.dtype))
    missing = padded - array.shape[-1]
    return jnp.pad(flat, ((0, 0), (0, missing)), mode="edge") if missing else flat


def _read(ref: Any, value: Any) -> Numbers:
    """Rows of a block, as one lane's small array."""
    row = iter(range(prod(value.shape[:-1])))
    return scalars.filled((*value.shape[:-1], 1), lambda _: ref[next(row), :].astype(value.dtype))


class _Shared(NamedTuple):
    """Numbers that all lanes share, one array for all of a type: a kernel's arguments should be few."""

    values: list[Any]
    bundles: list[Any]
    places: list[tuple[int, int]]  # of each value: which bundle, and where in it the value begins

    @staticmethod
    def of(values: Sequence[Any]) -> "_Shared":
        kinds = sorted({_stored(v.dtype) for v in values}, key=str)
        parts: list[list[Any]] = [[] for _ in kinds]
        places = []
        for value in values:
            bundle = kinds.index(_stored(value.dtype))
            places.append((bundle, _size(parts[bundle])))
            parts[bundle].append(jnp.ravel(value).astype(kinds[bundle]))
        return _Shared(list(values), [jnp.concatenate(part) for part in parts], places)

    def read(self, refs: Sequence[Any]) -> Iterable[Numbers]:
        """All values again, in a kernel that has the bundles."""
        for value, (bundle, first) in zip(self.values, self.places, strict=True):
            place = iter(range(first, first + prod(value.shape)))
            ref, kind = refs[bundle], value.dtype
            yield scalars.filled(value.shape, lambda _, ref=ref, kind=kind, place=place: ref[next(place)].astype(kind))


def _size(arrays: Sequence[Any]) -> int:
    return sum(a.size for a in arrays)
