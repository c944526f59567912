"""A whole piece of lane-wise arithmetic as one loop over the lanes.

XLA on CPU makes one loop for each result of a computation and repeats in it whatever the results share; a right-hand
side with seventeen results ran five times as long as it had to. Here all results come out of one loop, in which every
number is computed once, in registers, for as many lanes at a time as a vector of the machine holds. On the crutch that
made a step seven times as fast, and its program quicker to compile.

The only form in which XLA gives several results from one loop is a reduction of several arrays, so that is what is
written for a CPU: two copies of each operand, and a "sum" that forgets what was summed before and applies the function
to the last copy. The first pass is dead code and disappears. Elsewhere the function is applied to whole arrays, which
XLA fuses well. Derivatives are those of the function, in one loop with its values.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray, Tracer
from jax.extend.core import ClosedJaxpr, Literal, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir

from jaxcontact.lanewise import scalars

# Axes behind an operand's own: none (shared by all lanes), the lanes', or those of directions and lanes.
_SHARED, _LANES, _DIRECTIONS = range(3)

_apart = False


@contextmanager
def whole_arrays() -> Iterator[None]:
    """Inside, functions are applied to whole arrays: slower, but they can be differentiated backwards."""
    global _apart
    before, _apart = _apart, True
    try:
        yield
    finally:
        _apart = before


def arrays_are_whole() -> bool:
    """Whether this is inside `whole_arrays`."""
    return _apart


def in_one_loop(function: Callable[..., Any], *arguments: Any) -> Any:
    """Apply `function` to trees of arrays (..., lanes), and of numbers that all lanes share; results have lanes last.

    The function is traced for one lane, so its arrays lack the last axis. It may use arithmetic on small arrays, and
    loops of fixed length; it must not close over anything that depends on the lanes.
    """
    leaves, tree = jax.tree.flatten(arguments)
    fixed = [isinstance(leaf, (bool, int, float)) for leaf in leaves]  # numbers of Python: parts of the function
    given = [leaf for leaf, is_fixed in zip(leaves, fixed, strict=True) if not is_fixed]
    kinds = tuple(_LANES if np.ndim(leaf) else _SHARED for leaf in given)
    if _apart or _LANES not in kinds:
        return function(*arguments)

    def of_one_lane(*numbers):
        rest = iter(numbers)
        whole = [leaf if is_fixed else next(rest) for leaf, is_fixed in zip(leaves, fixed, strict=True)]
        return function(*tree.unflatten(whole))

    one = [jax.ShapeDtypeStruct(np.shape(a)[:-1], jnp.result_type(a)) for a in given]
    closed, shape = jax.make_jaxpr(of_one_lane, return_shape=True)(*one)
    if any(isinstance(const, Tracer) for const in closed.consts):
        raise ValueError("a function of one lane must get all that it looks at as arguments")
    jaxpr, used = _without_unused(closed)
    found = _loop_p.bind(
        *(a for a, is_used in zip(given, used, strict=True) if is_used),
        jaxpr=jaxpr,
        kinds=tuple(kind for kind, is_used in zip(kinds, used, strict=True) if is_used),
    )
    return jax.tree.structure(shape).unflatten(found)


def _without_unused(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[bool]]:
    """The same without arguments that it does not look at, and which those were."""
    jaxpr = closed.jaxpr
    seen = {v for e in jaxpr.eqns for v in e.invars if not isinstance(v, Literal)}
    seen |= {v for v in jaxpr.outvars if not isinstance(v, Literal)}
    used = [v in seen for v in jaxpr.invars]
    kept = [v for v, is_used in zip(jaxpr.invars, used, strict=True) if is_used]
    return ClosedJaxpr(jaxpr.replace(invars=kept), closed.consts), used


_loop_p = Primitive("lane_loop")
_loop_p.multiple_results = True


def _sizes(shapes: Sequence[tuple[int, ...]], kinds: tuple[int, ...]) -> tuple[int | None, int]:
    """Number of directions, None without any, and of lanes."""
    directions = {shape[-2] for shape, kind in zip(shapes, kinds, strict=True) if kind == _DIRECTIONS}
    lanes = {shape[-1] for shape, kind in zip(shapes, kinds, strict=True) if kind != _SHARED}
    if len(lanes) != 1 or len(directions) > 1:
        raise ValueError(f"all arrays need the same number of lanes, not {sorted(lanes)}")
    return (directions.pop() if directions else None), lanes.pop()


@_loop_p.def_abstract_eval
def _shapes(*arguments, jaxpr: ClosedJaxpr, kinds: tuple[int, ...]):
    directions, lanes = _sizes([a.shape for a in arguments], kinds)
    room = (lanes,) if directions is None else (directions, lanes)
    return [ShapedArray((*a.shape, *room), a.dtype) for a in jaxpr.out_avals]


def _on_arrays(*arguments, jaxpr: ClosedJaxpr, kinds: tuple[int, ...]):
    """The same with whole arrays."""
    directions, _ = _sizes([np.shape(a) for a in arguments], kinds)
    function = jaxpr_as_fun(jaxpr)
    if directions is not None:
        function = jax.vmap(function, [-1 if kind == _DIRECTIONS else None for kind in kinds], -1)
    return jax.vmap(function, [None if kind == _SHARED else -1 for kind in kinds], -1)(*arguments)


def _as_reduction(*arguments, jaxpr: ClosedJaxpr, kinds: tuple[int, ...]):
    """The same as one loop, for a CPU.

    Every operand of a reduction has a result, which is written, wanted or not: the fewer operands, the better. So a
    number that all lanes share is where an operand's sum begins, and stays there.
    """
    directions, lanes = _sizes([np.shape(a) for a in arguments], kinds)
    room = (lanes,) if directions is None else (directions, lanes)
    numbers = [
        (value[index] if index else value, kind == _SHARED)
        for value, aval, kind in zip(arguments, jaxpr.in_avals, kinds, strict=True)
        for index in np.ndindex(aval.shape)
    ]
    wanted = [aval.dtype for aval in jaxpr.out_avals for _ in np.ndindex(aval.shape)]
    seats = _seated([(number.dtype, shared) for number, shared in numbers], wanted)
    operands = [jnp.zeros((2, *room), kind) for kind in seats.kinds]
    begin = [jnp.zeros((), kind) for kind in seats.kinds]
    for (number, shared), seat in zip(numbers, seats.given, strict=True):
        if shared:
            begin[seat] = number
        else:
            operands[seat] = jnp.broadcast_to(number, (2, *room))

    def last(before, now):
        given = [(before if shared else now)[seat] for (_, shared), seat in zip(numbers, seats.given, strict=True)]
        places = iter(range(len(given)))
        small = [scalars.picked(given, _places(aval.shape, places)) for aval in jaxpr.in_avals]
        results = list(before)
        found = [value for values in scalars.evaluate(jaxpr, small) for value in values.flat]
        for seat, value in zip(seats.found, found, strict=True):
            results[seat] = jnp.asarray(value, seats.kinds[seat])
        return tuple(results)

    # The barrier uses all results: looking for what unused ones need, StableHLO would go through every path to them.
    found = jax.lax.optimization_barrier(jax.lax.reduce(tuple(operands), tuple(begin), last, (0,)))
    rest = iter(seats.found)
    return [_assembled([found[next(rest)] for _ in np.ndindex(aval.shape)], aval.shape) for aval in jaxpr.out_avals]


class _Seats(NamedTuple):
    """The operands of a reduction: of which type, and which of them has each number given and each found."""

    kinds: list[Any]
    given: list[int]
    found: list[int]


def _seated(given: Sequence[tuple[Any, bool]], found: Sequence[Any]) -> _Seats:
    """As few operands as will do: each holds a number of lanes, and either a number that all share or one found."""
    kinds: list[Any] = []
    free: dict[str, dict[Any, list[int]]] = {"lanes": {}, "sum": {}}

    def seat(part: str, kind: Any) -> int:
        if not free[part].get(kind):
            for each in free.values():
                each.setdefault(kind, []).append(len(kinds))
            kinds.append(kind)
        return free[part][kind].pop(0)

    places = [seat("sum" if shared else "lanes", np.dtype(kind)) for kind, shared in given]
    return _Seats(kinds, places, [seat("sum", np.dtype(kind)) for kind in found])


def _places(shape: tuple[int, ...], counted: Iterator[int]) -> np.ndarray:
    """The next places in a row, as a small array."""
    return np.array([next(counted) for _ in np.ndindex(shape)], int).reshape(shape)


def _assembled(parts: list[Any], shape: tuple[int, ...]):
    """Arrays of lanes put together; best left to the caller, who knows whether he needs them so."""
    return jnp.stack(parts).reshape(*shape, *parts[0].shape) if shape else parts[0]


_loop_p.def_impl(lambda *arguments, **params: jax.jit(partial(_loop_p.bind, **params))(*arguments))
mlir.register_lowering(_loop_p, mlir.lower_fun(_on_arrays, multiple_results=True))
mlir.register_lowering(_loop_p, mlir.lower_fun(_as_reduction, multiple_results=True), platform="cpu")


# ---------------------------------------------------------------- derivatives


def _is_real(aval: Any) -> bool:
    return jnp.issubdtype(aval.dtype, jnp.floating)


@lru_cache(maxsize=256)
def _with_slopes(jaxpr: ClosedJaxpr, moves: tuple[bool, ...]) -> tuple[ClosedJaxpr, tuple[bool, ...]]:
    """The function of values, and of slopes where `moves`; its results, then the slopes of those that have any."""
    function = jaxpr_as_fun(jaxpr)
    real = [_is_real(aval) for aval in jaxpr.out_avals]

    def both(*arguments):
        values, slopes = list(arguments[: len(moves)]), arguments[len(moves) :]
        chosen = [i for i, moved in enumerate(moves) if moved]

        def of_chosen(*moving):
            for i, value in zip(chosen, moving, strict=True):
                values[i] = value
            found = function(*values)
            return [f for f, is_real in zip(found, real, strict=True) if is_real], found

        _, slopes, found = jax.jvp(of_chosen, [values[i] for i in chosen], list(slopes), has_aux=True)
        return [*found, *slopes]

    avals = [*jaxpr.in_avals, *(a for a, moved in zip(jaxpr.in_avals, moves, strict=True) if moved)]
    closed = jax.make_jaxpr(both)(*(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals))
    return closed, tuple(real)


def _jvp(values, slopes, *, jaxpr: ClosedJaxpr, kinds: tuple[int, ...]):
    moves = tuple(type(s) is not ad.Zero and _is_real(a) for s, a in zip(slopes, jaxpr.in_avals, strict=True))
    closed, real = _with_slopes(jaxpr, moves)
    found = _loop_p.bind(
        *values,
        *(s for s, moved in zip(slopes, moves, strict=True) if moved),
        jaxpr=closed,
        kinds=(*kinds, *(kind for kind, moved in zip(kinds, moves, strict=True) if moved)),
    )
    results, rest = found[: len(real)], iter(found[len(real) :])
    return results, [
        next(rest) if r else ad.Zero(jax.typeof(v).to_tangent_aval()) for r, v in zip(real, results, strict=True)
    ]


ad.primitive_jvps[_loop_p] = _jvp


# ---------------------------------------------------------------- several directions


def _depends(jaxpr: Any, moved: Sequence[bool]) -> list[bool]:
    """Which results depend on inputs that are `moved`."""
    moving = {v for v, m in zip(jaxpr.invars, moved, strict=True) if m}

    def moves(v) -> bool:
        return not isinstance(v, Literal) and v in moving

    for equation in jaxpr.eqns:
        inner = equation.params.get("jaxpr") or equation.params.get("call_jaxpr")
        given = [moves(v) for v in equation.invars]
        plain = getattr(inner, "jaxpr", inner)
        if plain is not None and len(plain.invars) == len(given) and len(plain.outvars) == len(equation.outvars):
            found = _depends(plain, given)
            if "num_carry" in equation.params:  # what one pass of a loop leaves behind comes back in the next
                first, carries = equation.params["num_consts"], equation.params["num_carry"]
                while any(f and not given[first + k] for k, f in enumerate(found[:carries])):
                    given[first : first + carries] = [
                        g or f for g, f in zip(given[first : first + carries], found[:carries], strict=True)
                    ]
                    found = _depends(plain, given)
        else:
            found = [any(given)] * len(equation.outvars)
        moving.update(v for v, f in zip(equation.outvars, found, strict=True) if f)
    return [moves(v) for v in jaxpr.outvars]


def _batch(arguments, axes, *, jaxpr: ClosedJaxpr, kinds: tuple[int, ...]):
    """Directions are rows of lanes: an outer loop around that over the lanes, in which nothing has to be rearranged.

    Each computes the values again that all have in common. Four directions at a time, which share them, ran no faster
    and took a third longer to compile.
    """
    if _DIRECTIONS in kinds:  # two kinds of batches at once: seldom, and right, if slow
        found = jax.vmap(partial(_on_arrays, jaxpr=jaxpr, kinds=kinds), axes, 0)(*arguments)
        return found, [0] * len(found)
    depends = _depends(jaxpr.jaxpr, [axis is not None for axis in axes])
    lane_axis = ((a, -2 if axis == a.ndim - 1 else -1) for a, axis, k in zip(arguments, axes, kinds, strict=True) if k)
    lanes = next(a.shape[axis] for a, axis in lane_axis)
    given = []
    for value, axis, kind in zip(arguments, axes, kinds, strict=True):
        if axis is None:
            given.append(value)
        elif kind == _SHARED:
            value = jnp.moveaxis(value, axis, -1)
            given.append(jnp.broadcast_to(value[..., None], (*value.shape, lanes)))
        else:
            given.append(jnp.moveaxis(value, axis, -2))
    new_kinds = tuple(kind if axis is None else _DIRECTIONS for kind, axis in zip(kinds, axes, strict=True))
    found = _loop_p.bind(*given, jaxpr=jaxpr, kinds=new_kinds)
    results = [jnp.moveaxis(f, -2, 0) if d else f[..., 0, :] for f, d in zip(found, depends, strict=True)]
    return results, [0 if d else None for d in depends]


batching.primitive_batchers[_loop_p] = _batch
