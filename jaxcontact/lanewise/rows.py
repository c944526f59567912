"""The arithmetic of lanes on rows: what `scalars` writes out for one lane, with what surrounds it left as it is.

Here a number is a row, that of every lane of a block, or one that all lanes share. Loops of fixed length stay loops,
so that what is in them is in a program once, and a choice that all lanes make alike stays a branch. Rows are in
registers, where nothing is found by a loop's index: each entry is compared with it, unless the array is `Stored`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr
from jax.extend.core import primitives as p

from jaxcontact.lanewise import scalars
from jaxcontact.lanewise.scalars import Numbers, bind, filled, is_known


@dataclass
class Stored:
    """An array (entries, ..., 1) of rows in memory, which a loop may read and replace entry by entry.

    There is one memory for all that becomes of the array, so what was replaced must not be looked at again.
    """

    ref: Any  # (entries * rows of each, lanes)
    shape: tuple[int, ...]
    kind: Any
    version: int = 0
    current: list[int] = field(default_factory=lambda: [0])  # the version that is in memory, of all that share it

    def entry(self, index: Any) -> Numbers:
        """One entry."""
        if self.version != self.current[0]:
            raise NotImplementedError("an entry of an array is looked up after it was replaced, in its older version")
        each = prod(self.shape[1:])
        row = iter(range(each))
        return filled(self.shape[1:], lambda _: self.ref[index * each + next(row), :].astype(self.kind))

    def whole(self) -> Numbers:
        """All entries."""
        return np.stack([self.entry(index) for index in range(self.shape[0])])

    def replaced(self, index: Any, entry: Numbers) -> "Stored":
        """The array with another entry in this place."""
        each = prod(self.shape[1:])
        for row, number in enumerate(entry.flat):
            stored = jnp.asarray(number).astype(self.ref.dtype)
            self.ref[index * each + row, :] = jnp.broadcast_to(stored, self.ref.shape[1:])
        self.current[0] += 1
        return Stored(self.ref, self.shape, self.kind, self.current[0], self.current)

    def again(self) -> "Stored":
        """The same as a new trace sees it."""
        return Stored(self.ref, self.shape, self.kind)


def evaluate(closed: ClosedJaxpr, arguments: Sequence[Any], *, keep_loops: bool = True) -> list[Any]:
    """Carry out a function that was traced for one lane, the lanes' axis last, on small arrays (..., 1) of rows.

    Some of them may be `Stored`. `keep_loops=False` unrolls all loops: more to compile, nothing to compare.
    """
    rules: dict[str, scalars.Rule] = {}

    def inner(closed: ClosedJaxpr, arguments: Sequence[Any]) -> list[Any]:
        return scalars.evaluate(closed, arguments, rules)

    rules |= rules_for(inner)
    rules["scan"] = lambda equation, operands: (
        _scan(inner, rules, equation, operands) if keep_loops else scalars.unrolled(operands, equation.params, rules)
    )
    return inner(closed, arguments)


_Evaluate = Callable[[ClosedJaxpr, Sequence[Any]], list[Any]]


def rules_for(evaluate: _Evaluate) -> dict[str, scalars.Rule]:
    """What there is beside arithmetic, all but loops; `evaluate` carries out what is inside of it."""
    return {
        "lane_loop": lambda equation, operands: _lane_loop(evaluate, equation, operands),
        "cond": lambda equation, operands: _cond(evaluate, equation, operands),
        "jit": lambda equation, operands: evaluate(equation.params["jaxpr"], operands),
        "slice": _slice,
        "dynamic_slice": _dynamic_slice,
        "dynamic_update_slice": _dynamic_update_slice,
        "round": _round,
        "gather": _gather,
        "scatter": _scatter,
    }


def whole(array: Any) -> Numbers:
    """An array out of memory, if it is there."""
    return array.whole() if isinstance(array, Stored) else array


def _lane_loop(evaluate: _Evaluate, equation: Any, operands: list[Any]) -> list[Numbers]:
    """One loop over the lanes (`in_one_loop`): its function has arrays without their axis, nor that of directions."""
    closed, operands = equation.params["jaxpr"], [whole(o) for o in operands]
    axes = [o.ndim - len(a.shape) for o, a in zip(operands, closed.in_avals, strict=True)]
    directions = next((o.shape[-2] for o, count in zip(operands, axes, strict=True) if count == 2), None)

    def along(direction: int) -> list[Numbers]:
        picked = [o[..., direction, :] if count == 2 else o for o, count in zip(operands, axes, strict=True)]
        return evaluate(closed, [o.reshape(a.shape) for o, a in zip(picked, closed.in_avals, strict=True)])

    if directions is None:
        return [found[..., None] for found in along(0)]
    return [np.stack(found, -1)[..., None] for found in zip(*map(along, range(directions)), strict=True)]


# ---------------------------------------------------------------- loops and branches


def _flat(arrays: Sequence[Any]) -> list[Any]:
    """All numbers, but those in memory."""
    return [number for array in arrays if not isinstance(array, Stored) for number in array.flat]


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


def _scan(evaluate: _Evaluate, rules: scalars.Rules, equation: Any, operands: list[Any]) -> list[Any]:
    """A loop that stays one, if all that it is given or gives piece by piece are known tables."""
    params, closed = equation.params, equation.params["jaxpr"]
    consts, carries = params["num_consts"], params["num_carry"]
    shared, carry, tables = operands[:consts], operands[consts : consts + carries], operands[consts + carries :]
    if params["reverse"] or len(closed.out_avals) > carries or not all(map(is_known, _flat(tables))):
        return scalars.unrolled(operands, params, rules)
    stored = [isinstance(array, Stored) for array in carry]
    avals = [a for a, is_stored in zip(closed.out_avals, stored, strict=True) if not is_stored]
    kinds = _kinds(avals)

    def whole_carry(numbers):
        rest = iter(_shaped(numbers, avals))
        return [array.again() if isinstance(array, Stored) else next(rest) for array in carry]

    def turn(index, numbers):
        known = [array.again() if isinstance(array, Stored) else array for array in shared]
        entries = [_entry(table, index) for table in tables]
        found = evaluate(closed, [*known, *whole_carry(numbers), *entries])
        if [isinstance(array, Stored) for array in found] != stored:
            raise NotImplementedError(f"an array in memory has to stay there through a loop: {equation}")
        return _flat(found)

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
    return whole_carry(ended)


def _arrays(numbers: Sequence[Any], kinds: Sequence[Any]) -> list[Any]:
    return [jnp.asarray(number, kind) for number, kind in zip(numbers, kinds, strict=True)]


def _entry(table: Numbers, index: Any) -> Numbers:
    """An entry of a known table; one that counts on from its first is the index itself."""
    values = np.array(table.tolist())
    if values.ndim == 1 and np.issubdtype(table[0].dtype, np.integer) and np.all(np.diff(values) == 1):
        kind = table[0].dtype
        return filled((), lambda _: index.astype(kind) + table[0] if table[0] else index.astype(kind))
    return _taken(table, 0, index, 1).reshape(table.shape[1:])


def _cond(evaluate: _Evaluate, equation: Any, operands: list[Any]) -> list[Any]:
    """A branch that all lanes take together."""
    branches = equation.params["branches"]
    which, given = operands[0].item(), operands[1:]
    if is_known(which):
        return evaluate(branches[min(max(int(which), 0), len(branches) - 1)], given)
    if np.shape(which):
        raise NotImplementedError(f"lanes of a block cannot take branches of their own: {equation}")
    avals = [v.aval for v in equation.outvars]
    kinds = _kinds(avals)

    def way(branch):
        known = [array.again() if isinstance(array, Stored) else array for array in given]
        return _arrays(_flat([whole(found) for found in evaluate(branch, known)]), kinds)

    ways = [lambda branch=branch: way(branch) for branch in branches]
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


def _slice(equation: Any, operands: list[Any]) -> list[Numbers]:
    (array,), params = operands, equation.params
    limits = zip(params["start_indices"], params["limit_indices"], params["strides"] or [1] * 9, strict=False)
    first, *others = (slice(*limit) for limit in limits)
    if isinstance(array, Stored):  # no more of it than is needed
        return [np.stack([array.entry(index) for index in range(array.shape[0])[first]])[:, *others]]
    return [array[first, *others]]


def _dynamic_slice(equation: Any, operands: list[Any]) -> list[Numbers]:
    array, *starts = operands
    sizes = equation.params["slice_sizes"]
    if isinstance(array, Stored):
        if tuple(sizes) == (1, *array.shape[1:]):
            return [array.entry(_within(starts[0].item(), array.shape[0] - 1))[None]]
        array = array.whole()
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        if size < array.shape[axis]:
            array = _taken(array, axis, start.item(), size)
    return [array]


def _dynamic_update_slice(equation: Any, operands: list[Any]) -> list[Any]:
    array, piece, *starts = operands
    if isinstance(array, Stored):
        if piece.shape == (1, *array.shape[1:]):
            return [array.replaced(_within(starts[0].item(), array.shape[0] - 1), piece[0])]
        array = array.whole()
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


def _places(equation: Any, *operands: Any) -> np.ndarray:
    """Which number comes where: the operation itself, carried out on the numbers' own places."""
    with jax.ensure_compile_time_eval():
        return np.asarray(equation.primitive.bind(*map(jnp.asarray, operands), **equation.params))


def _indices(equation: Any, indices: Numbers) -> np.ndarray:
    if not all(map(is_known, indices.flat)):
        raise NotImplementedError(f"{equation.primitive} needs to know its places when it is written out: {equation}")
    return np.array(indices.tolist(), dtype=equation.invars[1].aval.dtype)


def _gather(equation: Any, operands: list[Any]) -> list[Numbers]:
    """Numbers picked out at known places; beyond the array there are none."""
    array = whole(operands[0])
    first = np.arange(1, array.size + 1, dtype=np.int32).reshape(array.shape)
    places = np.maximum(_places(equation, first, _indices(equation, operands[1])), 0)
    if np.any(places == 0):
        raise NotImplementedError(f"entries are picked out from beyond an array: {equation}")
    return [filled(places.shape, lambda index: array.flat[places[index] - 1])]


def _scatter(equation: Any, operands: list[Any]) -> list[Numbers]:
    """Numbers put in at known places."""
    array, piece = whole(operands[0]), whole(operands[2])
    before = np.arange(array.size, dtype=np.int32).reshape(array.shape)
    after = np.arange(array.size, array.size + piece.size, dtype=np.int32).reshape(piece.shape)
    places = _places(equation, before, _indices(equation, operands[1]), after)
    every = [*array.flat, *piece.flat]
    return [filled(places.shape, lambda index: every[places[index]])]


def _round(equation: Any, operands: list[Numbers]) -> list[Numbers]:
    """The nearest whole number, the even one of two, out of operations that every kernel language has."""
    if equation.params["rounding_method"] != jax.lax.RoundingMethod.TO_NEAREST_EVEN:
        raise NotImplementedError(f"only rounding to even is written out: {equation}")

    def number(x: Any) -> Any:
        one, half = np.ones((), x.dtype), np.asarray(0.5, x.dtype)
        below = jax.lax.floor(x)
        rest, odd = x - below, below != (one + one) * jax.lax.floor(half * below)
        up = (rest > half) | ((rest == half) & odd)
        return below + up.astype(x.dtype)

    return [filled(operands[0].shape, lambda place: number(operands[0][place]))]
