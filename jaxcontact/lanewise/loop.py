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
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray, Tracer
from jax.extend.core import ClosedJaxpr, Literal, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir
from jax.interpreters.partial_eval import dce_jaxpr, dce_rules
from jaxlib.mlir import ir

from jaxcontact.lanewise.on_cpu import write_loop

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


def in_one_loop(function: Callable[..., Any], *arguments: Any, over_blocks: str | None = None) -> Any:
    """Apply `function` to trees of arrays (..., lanes), and of numbers that all lanes share; results have lanes last.

    The function is traced for one lane, so its arrays lack the last axis. It may use arithmetic on small arrays, and
    loops of fixed length; it must not close over anything that depends on the lanes. `over_blocks`, for a function that
    is applied along many directions (`vmap`): a CPU's loop over blocks of lanes is the "outer" or the "inner" one.
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
        over_blocks=over_blocks,
    )
    return jax.tree.structure(shape).unflatten(found)


def needed(function: Callable[..., Any], *arguments: Any) -> Any:
    """Apply a function without doing what its results do not need, also inside its loops."""
    closed, shape = jax.make_jaxpr(function, return_shape=True)(*arguments)
    jaxpr, _ = dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars), instantiate=True)
    found = jaxpr_as_fun(ClosedJaxpr(jaxpr, closed.consts))(*jax.tree.leaves(arguments))
    return jax.tree.structure(shape).unflatten(found)


def changes_with(function: Callable[..., Any], *arguments: Any) -> list[bool]:
    """Which leaves of a function's result, arrays all, depend on its arguments, not only on what else it looks at."""
    closed = jax.make_jaxpr(function)(*arguments)
    return _depends(closed.jaxpr, [True] * len(closed.jaxpr.invars))


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
def _shapes(*arguments, jaxpr: ClosedJaxpr, kinds: tuple[int, ...], over_blocks: str | None):
    directions, lanes = _sizes([a.shape for a in arguments], kinds)
    room = (lanes,) if directions is None else (directions, lanes)
    return [ShapedArray((*a.shape, *room), a.dtype) for a in jaxpr.out_avals]


def _on_arrays(*arguments, jaxpr: ClosedJaxpr, kinds: tuple[int, ...], over_blocks: str | None):
    """The same with whole arrays."""
    directions, _ = _sizes([np.shape(a) for a in arguments], kinds)
    function = jaxpr_as_fun(jaxpr)
    if directions is not None:
        function = jax.vmap(function, [-1 if kind == _DIRECTIONS else None for kind in kinds], -1)
    return jax.vmap(function, [None if kind == _SHARED else -1 for kind in kinds], -1)(*arguments)


def _on_cpu(context, *values, jaxpr: ClosedJaxpr, kinds: tuple[int, ...], over_blocks: str | None):
    directions, lanes = _sizes([a.shape for a in context.avals_in], kinds)
    room = (lanes,) if directions is None else (directions, lanes)
    # Not where in Python each operation comes from: XLA hands that on from form to form, which takes time.
    with ir.Location.name("lane_loop"):
        return write_loop(context, values, jaxpr, [kind == _SHARED for kind in kinds], room, over_blocks)


def _leave_out(used: list[bool], equation: Any):
    """The same without results that nobody uses, and without what only they need."""
    closed, kinds = equation.params["jaxpr"], equation.params["kinds"]
    if not any(used):
        return [False] * len(equation.invars), None
    jaxpr, needed = dce_jaxpr(closed.jaxpr, used, instantiate=False)
    if not any(kind == _LANES for kind, n in zip(kinds, needed, strict=True) if n):  # the loop would lose its length
        first = next(i for i, kind in enumerate(kinds) if kind == _LANES)
        jaxpr, needed = dce_jaxpr(closed.jaxpr, used, instantiate=[n or i == first for i, n in enumerate(needed)])
    params = {
        "jaxpr": ClosedJaxpr(jaxpr, closed.consts),
        "kinds": tuple(kind for kind, n in zip(kinds, needed, strict=True) if n),
        "over_blocks": equation.params["over_blocks"],
    }
    return needed, equation.replace(
        invars=[v for v, n in zip(equation.invars, needed, strict=True) if n],
        outvars=[v for v, u in zip(equation.outvars, used, strict=True) if u],
        params=params,
    )


dce_rules[_loop_p] = _leave_out
_loop_p.def_impl(lambda *arguments, **params: jax.jit(partial(_loop_p.bind, **params))(*arguments))
mlir.register_lowering(_loop_p, mlir.lower_fun(_on_arrays, multiple_results=True))
mlir.register_lowering(_loop_p, _on_cpu, platform="cpu")


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


def _jvp(values, slopes, *, jaxpr: ClosedJaxpr, kinds: tuple[int, ...], over_blocks: str | None):
    moves = tuple(type(s) is not ad.Zero and _is_real(a) for s, a in zip(slopes, jaxpr.in_avals, strict=True))
    closed, real = _with_slopes(jaxpr, moves)
    found = _loop_p.bind(
        *values,
        *(s for s, moved in zip(slopes, moves, strict=True) if moved),
        jaxpr=closed,
        kinds=(*kinds, *(kind for kind, moved in zip(kinds, moves, strict=True) if moved)),
        over_blocks=over_blocks,
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


def _batch(arguments, axes, *, jaxpr: ClosedJaxpr, kinds: tuple[int, ...], over_blocks: str | None):
    """Directions are rows of lanes, in which nothing has to be rearranged.

    Each computes the values again that all have in common. Four directions at a time, which share them, ran no faster
    and took a third longer to compile.
    """
    if _DIRECTIONS in kinds:  # two kinds of batches at once: seldom, and right, if slow
        found = jax.vmap(partial(_on_arrays, jaxpr=jaxpr, kinds=kinds, over_blocks=over_blocks), axes, 0)(*arguments)
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
    found = _loop_p.bind(*given, jaxpr=jaxpr, kinds=new_kinds, over_blocks=over_blocks)
    results = [jnp.moveaxis(f, -2, 0) if d else f[..., 0, :] for f, d in zip(found, depends, strict=True)]
    return results, [0 if d else None for d in depends]


batching.primitive_batchers[_loop_p] = _batch
