"""The arithmetic of lanes on rows: what `scalars` writes out for one lane, with what surrounds it left as it is.

Here a number is a row, that of every lane of a block, or one that all lanes share. Loops of fixed length stay loops,
so that what is in them is in a program once, and a choice that all lanes make alike stays a branch. Inside a loop an
array cannot be looked up by the loop's index, for rows are not in memory: each of its entries is compared instead.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr
from jax.extend.core import primitives as p

from jaxcontact.lanewise import scalars
from jaxcontact.lanewise.scalars import Numbers, bind, filled, is_known


def evaluate(closed: ClosedJaxpr, arguments: Sequence[Numbers], *, keep_loops: bool = True) -> list[Numbers]:
    """Carry out a function that was traced for one lane, the lanes' axis last, on small arrays (..., 1) of rows.

    `keep_loops=False` unrolls all loops: more to compile, nothing to compare.
    """
    rules: dict[str, scalars.Rule] = {}

    def inner(closed: ClosedJaxpr, arguments: Sequence[Numbers]) -> list[Numbers]:
        return scalars.evaluate(closed, arguments, rules)

    rules |= {
        "lane_loop": lambda equation, operands: _lane_loop(inner, equation, operands),
        "cond": lambda equation, operands: _cond(inner, equation, operands),
        "dynamic_slice": _dynamic_slice,
        "dynamic_update_slice": _dynamic_update_slice,
        "round": _round,
    }
    if keep_loops:
        rules["scan"] = lambda equation, operands: _scan(inner, rules, equation, operands)
    return inner(closed, arguments)


_Evaluate = Callable[[ClosedJaxpr, Sequence[Numbers]], list[Numbers]]


def _lane_loop(evaluate: _Evaluate, equation: Any, operands: list[Numbers]) -> list[Numbers]:
    """One loop over the lanes (`in_one_loop`): its function has arrays without their axis, nor that of directions."""
    closed = equation.params["jaxpr"]
    axes = [o.ndim - len(a.shape) for o, a in zip(operands, closed.in_avals, strict=True)]
    directions = next((o.shape[-2] for o, count in zip(operands, axes, strict=True) if count == 2), None)

    def along(direction: int) -> list[Numbers]:
        picked = [o[..., direction, :] if count == 2 else o for o, count in zip(operands, axes, strict=True)]
        return evaluate(closed, [o.reshape(a.shape) for o, a in zip(picked, closed.in_avals, strict=True)])

    if directions is None:
        return [found[..., None] for found in along(0)]
    return [np.stack(found, -1)[..., None] for found in zip(*map(along, range(directions)), strict=True)]


# ---------------------------------------------------------------- loops and branches


def _flat(arrays: Sequence[Numbers]) -> list[Any]:
    return [number for array in arrays for number in array.flat]


def _shaped(numbers: Sequence[Any], avals: Sequence[Any]) -> list[Numbers]:
    """Small arrays of these shapes out of all their numbers."""
    rest = iter(numbers)
    return [filled(a.shape, lambda _: next(rest)) for a in avals]


def _kinds(avals: Sequence[Any]) -> list[Any]:
    return [a.dtype for a in avals for _ in range(prod(a.shape))]


def _room(numbers: Sequence[Any], rooms: Sequence[tuple[int, ...]], kinds: Sequence[Any]) -> list[Any]:
    """Numbers as arrays with this room for lanes."""
    wide = zip(numbers, rooms, kinds, strict=True)
    return [jnp.broadcast_to(jnp.asarray(number, kind), room) for number, room, kind in wide]


def _scan(evaluate: _Evaluate, rules: scalars.Rules, equation: Any, operands: list[Numbers]) -> list[Numbers]:
    """A loop that stays one, if all that it is given or gives piece by piece are known tables."""
    params, closed = equation.params, equation.params["jaxpr"]
    consts, carries = params["num_consts"], params["num_carry"]
    shared, carry, tables = operands[:consts], operands[consts : consts + carries], operands[consts + carries :]
    if params["reverse"] or len(closed.out_avals) > carries or not all(map(is_known, _flat(tables))):
        return scalars.unrolled(operands, params, rules)
    avals = closed.out_avals
    kinds = _kinds(avals)

    def turn(index, numbers):
        entries = [_entry(table, index) for table in tables]
        return _flat(evaluate(closed, [*shared, *_shaped(numbers, avals), *entries]))

    # What all lanes share when the loop begins may differ by lane when it has been through.
    rooms: list[tuple[int, ...]] = [np.shape(number) for number in _flat(carry)]
    while True:
        given = [jax.ShapeDtypeStruct(room, kind) for room, kind in zip(rooms, kinds, strict=True)]
        found = jax.eval_shape(lambda *n: _arrays(turn(*n), kinds), jax.ShapeDtypeStruct((), np.int32), given)
        wider = [np.broadcast_shapes(room, f.shape) for room, f in zip(rooms, found, strict=True)]
        if wider == rooms:
            break
        rooms = wider
    first = _room(_flat(carry), rooms, kinds)
    ended = jax.lax.fori_loop(
        np.int32(0), np.int32(params["length"]), lambda index, n: _room(turn(index, n), rooms, kinds), first
    )
    return _shaped(ended, avals)


def _arrays(numbers: Sequence[Any], kinds: Sequence[Any]) -> list[Any]:
    return [jnp.asarray(number, kind) for number, kind in zip(numbers, kinds, strict=True)]


def _entry(table: Numbers, index: Any) -> Numbers:
    """An entry of a known table; one that counts on from its first is the index itself."""
    values = np.array(table.tolist())
    if values.ndim == 1 and np.issubdtype(table[0].dtype, np.integer) and np.all(np.diff(values) == 1):
        kind = table[0].dtype
        return filled((), lambda _: index.astype(kind) + table[0] if table[0] else index.astype(kind))
    return _taken(table, 0, index, 1).reshape(table.shape[1:])


def _cond(evaluate: _Evaluate, equation: Any, operands: list[Numbers]) -> list[Numbers]:
    """A branch that all lanes take together."""
    branches = equation.params["branches"]
    which, given = operands[0].item(), operands[1:]
    if is_known(which):
        return evaluate(branches[min(max(int(which), 0), len(branches) - 1)], given)
    if np.shape(which):
        raise NotImplementedError(f"lanes of a block cannot take branches of their own: {equation}")
    avals = [v.aval for v in equation.outvars]
    kinds = _kinds(avals)
    ways = [lambda branch=branch: _arrays(_flat(evaluate(branch, given)), kinds) for branch in branches]
    shapes = [[found.shape for found in jax.eval_shape(way)] for way in ways]
    rooms = [np.broadcast_shapes(*of_one) for of_one in zip(*shapes, strict=True)]
    ways = [lambda way=way: _room(way(), rooms, kinds) for way in ways]
    found = jax.lax.cond(which != 0, ways[1], ways[0]) if len(ways) == 2 else jax.lax.switch(which, ways)
    return _shaped(found, avals)


# ---------------------------------------------------------------- entries by an index


def _within(index: Any, most: int) -> Any:
    """An index as JAX takes it: what is beyond an end is the end."""
    kind = np.result_type(index).type
    if is_known(index):
        return kind(min(max(int(index), 0), most))
    return bind(p.clamp_p, [kind(0), index, kind(most)], {})


def _taken(array: Numbers, axis: int, index: Any, size: int) -> Numbers:
    """A piece of an array along an axis."""
    most = array.shape[axis] - size
    index = _within(index, most)
    pieces = [np.take(array, range(first, first + size), axis) for first in range(most + 1)]
    if is_known(index):
        return pieces[int(index)]
    found = pieces[-1]
    for first, piece in enumerate(pieces[:-1]):
        found = _chosen(_equals(index, first), piece, found)
    return found


def _equals(index: Any, value: int) -> Any:
    return bind(p.eq_p, [index, np.result_type(index).type(value)], {})


def _chosen(condition: Any, one: Numbers, other: Numbers) -> Numbers:
    """One array where the condition holds; where both have the same number there is nothing to choose."""

    def number(place: tuple[int, ...]) -> Any:
        a, b = one[place], other[place]
        same = a is b or (is_known(a) and is_known(b) and a == b)
        return a if same else bind(p.select_n_p, [condition, b, a], {})

    return filled(one.shape, number)


def _dynamic_slice(equation: Any, operands: list[Numbers]) -> list[Numbers]:
    array, *starts = operands
    for axis, (start, size) in enumerate(zip(starts, equation.params["slice_sizes"], strict=True)):
        if size < array.shape[axis]:
            array = _taken(array, axis, start.item(), size)
    return [array]


def _dynamic_update_slice(equation: Any, operands: list[Numbers]) -> list[Numbers]:
    array, piece, *starts = operands
    cut = [axis for axis in range(array.ndim) if piece.shape[axis] < array.shape[axis]]
    if len(cut) != 1:
        raise NotImplementedError(f"a piece can be put in along one axis: {equation}")
    (axis,) = cut
    size, index = piece.shape[axis], starts[axis].item()
    most = array.shape[axis] - size
    index = _within(index, most)
    result = array.copy()
    for first in range(most + 1):
        place = tuple(slice(first, first + size) if k == axis else slice(None) for k in range(array.ndim))
        if is_known(index):
            if first == index:
                result[place] = piece
        else:
            result[place] = _chosen(_equals(index, first), piece, result[place])
    return [result]


def _round(equation: Any, operands: list[Numbers]) -> list[Numbers]:
    """The nearest whole number, the even one of two, out of operations that every kernel language has."""
    if equation.params["rounding_method"] != jax.lax.RoundingMethod.TO_NEAREST_EVEN:
        raise NotImplementedError(f"only rounding to even is written out: {equation}")

    def number(x: Any) -> Any:
        below = jnp.floor(x)
        rest, odd = x - below, below != 2.0 * jnp.floor(0.5 * below)
        return below + jnp.where((rest > 0.5) | ((rest == 0.5) & odd), 1.0, 0.0).astype(x.dtype)

    return [filled(operands[0].shape, lambda place: number(operands[0][place]))]
