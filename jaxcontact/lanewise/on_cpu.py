"""How a loop over the lanes is written for XLA on a CPU, operation by operation (`written`).

The only form in which XLA gives several results from one loop is a reduction of several arrays. It is written in one of
two ways. Where XLA would merge all operations into the loop of whatever needs them, they come before a reduction that
merely ends them: nothing is written but results, and any number of operands may be shared by all directions. That is
so for products and sums; on the derivatives of an impact this form was twenty times as fast as the other. Quotients
and roots XLA keeps apart; a function with any of those is the "sum" itself, which forgets what was summed before.
Either way there are two copies of what is summed, and the first pass is dead code that disappears.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr
from jax.interpreters import mlir
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from jaxcontact.lanewise import scalars
from jaxcontact.lanewise.apart import mark_of
from jaxcontact.lanewise.written import Writer, Written

_BLOCK = 8  # lanes in a block that all directions go through: a vector of the widest machines

# Operations that XLA merges into whatever needs them, as often as it is needed.
_CHEAP = {
    *("add", "sub", "mul", "neg", "add_any", "convert_element_type", "select_n", "max", "min", "abs", "sign"),
    *("lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not", "jit", "stop_gradient", "keep", "copy"),
    *("broadcast_in_dim", "slice", "reshape", "squeeze", "stack", "concatenate", "transpose", "iota", "reduce_sum"),
}


def write_loop(
    context: Any,
    values: Sequence[Any],
    jaxpr: ClosedJaxpr,
    shared: Sequence[bool],
    room: tuple[int, ...],
    over_blocks: str | None = None,
):
    """Write a function of small arrays as one loop over lanes, `room`; `shared`: which arguments lack them.

    Results of a root are few and its operands many: with as many of both the other form has no more to write.
    """
    numbers = [
        (_number_of(value, index, given), given.shape[aval.ndim :], given.dtype, alike)
        for value, aval, given, alike in zip(values, jaxpr.in_avals, context.avals_in, shared, strict=True)
        for index in np.ndindex(aval.shape)
    ]
    wanted = [aval.dtype for aval in jaxpr.out_avals for _ in np.ndindex(aval.shape)]
    form = _as_sum
    if len(numbers) > 2 * len(wanted) and _is_cheap(jaxpr):
        form = _as_root
        if over_blocks is not None and len(room) == 2 and room[1] % _BLOCK == 0:
            form = partial(_in_blocks, loop=over_blocks)
    found = iter(form(context, numbers, wanted, jaxpr, room))
    return [_assembled([next(found) for _ in np.ndindex(aval.shape)], aval.shape, room) for aval in jaxpr.out_avals]


_Number = tuple[Any, tuple[int, ...], Any, bool]  # its value, axes over directions or lanes, type, whether it has none


@lru_cache(maxsize=256)
def _is_cheap(closed: ClosedJaxpr) -> bool:
    return _all_cheap(closed.jaxpr)


def _all_cheap(jaxpr: Any) -> bool:
    return all(
        e.primitive.name in _CHEAP and ("jaxpr" not in e.params or _all_cheap(e.params["jaxpr"].jaxpr))
        for e in jaxpr.eqns
    )


def _as_root(context: Any, numbers: list[_Number], wanted: list[Any], jaxpr: ClosedJaxpr, room: tuple[int, ...]):
    """Operations on arrays, and a reduction that they end in."""
    writer = Writer(context, room)
    given = [Written(writer, _broadcast(value, axes, room), np.dtype(kind)) for value, axes, kind, _ in numbers]
    found = [number for values in scalars.evaluate(jaxpr, _small(jaxpr, given)) for number in values.flat]
    arrays = [
        writer.value_of(f if isinstance(f, Written) else np.asarray(f, kind))
        for f, kind in zip(found, wanted, strict=True)
    ]
    loop, _, last = _reduction([_twice(a, room, room) for a in arrays], [_zero(kind) for kind in wanted], wanted, room)
    with ir.InsertionPoint(loop.regions[0].blocks[0]):
        stablehlo.return_(last)
    return list(loop.results)


def _in_blocks(
    context: Any, numbers: list[_Number], wanted: list[Any], jaxpr: ClosedJaxpr, room: tuple[int, ...], loop: str
):
    """The same as a root, with the lanes in blocks: the outer loop is over these, or the one inside of the directions.

    With blocks outside, what all directions share is loaded for a block: with twelve parameters that made derivatives
    of an impact a fifth faster. With blocks inside, results are where those of others are, and nothing is rearranged.
    """
    directions, lanes = room
    split = directions, lanes // _BLOCK, _BLOCK
    order = (1, 0, 2) if loop == "outer" else (0, 1, 2)
    inside = tuple(split[k] for k in order)

    def turned(value: Any) -> Any:
        return stablehlo.transpose(value, mlir.dense_int_array(order)) if loop == "outer" else value

    def given(value: Any, axes: tuple[int, ...]) -> Any:
        if axes == room:
            return turned(stablehlo.reshape(_array_type(value, split), value))
        if axes == (lanes,):
            value = stablehlo.reshape(_array_type(value, split[1:]), value)
            places = mlir.dense_int_array((order.index(1), 2))
            return stablehlo.broadcast_in_dim(_array_type(value, inside), value, places)
        return _broadcast(value, axes, inside)

    turned_numbers = [(given(value, axes), inside, kind, False) for value, axes, kind, _ in numbers]
    found = [turned(one) for one in _as_root(context, turned_numbers, wanted, jaxpr, inside)]
    return [stablehlo.reshape(_array_type(one, room), one) for one in found]


def _as_sum(context: Any, numbers: list[_Number], wanted: list[Any], jaxpr: ClosedJaxpr, room: tuple[int, ...]):
    """The function as what a reduction does with each element.

    Every operand of a reduction has a result, which is written, wanted or not: the fewer operands, the better. So a
    number that all lanes share is where an operand's sum begins, and stays there.
    """
    seats = _seated([(kind, alike) for *_, kind, alike in numbers], wanted)
    operands: list[Any] = [None] * len(seats.kinds)
    begin = [_zero(kind) for kind in seats.kinds]
    for (value, axes, _, alike), seat in zip(numbers, seats.given, strict=True):
        if alike:
            begin[seat] = value
        else:
            operands[seat] = _twice(value, axes, room)
    operands = [
        _twice(_zero(kind), (), room) if o is None else o for o, kind in zip(operands, seats.kinds, strict=True)
    ]
    loop, before, last = _reduction(operands, begin, seats.kinds, room)
    with ir.InsertionPoint(loop.regions[0].blocks[0]):
        writer = Writer(context, mark=mark_of(len(seats.kinds), len(numbers), len(wanted)))
        given = [
            Written(writer, (before if alike else last)[seat], np.dtype(kind))
            for (*_, kind, alike), seat in zip(numbers, seats.given, strict=True)
        ]
        results = list(before)
        found = [number for values in scalars.evaluate(jaxpr, _small(jaxpr, given)) for number in values.flat]
        for seat, number in zip(seats.found, found, strict=True):
            results[seat] = writer.value_of(
                number if isinstance(number, Written) else np.asarray(number, seats.kinds[seat])
            )
        stablehlo.return_(results)
    # The barrier uses all results: looking for what unused ones need, StableHLO would go through every path to them.
    kept = list(stablehlo.OptimizationBarrierOp(list(loop.results)).results)
    return [kept[seat] for seat in seats.found]


def _reduction(operands: list[Any], begin: list[Any], kinds: Sequence[Any], room: tuple[int, ...]):
    """A reduction of pairs whose body is still to be written: it, the numbers summed so far, and those to be added."""
    types = [mlir.dtype_to_ir_type(np.dtype(kind)) for kind in kinds]
    loop = stablehlo.ReduceOp(
        [ir.RankedTensorType.get(room, kind) for kind in types], operands, begin, mlir.dense_int_array((0,))
    )
    single = [ir.RankedTensorType.get((), kind) for kind in types]
    body = loop.regions[0].blocks.append(*single, *single)
    return loop, list(body.arguments)[: len(types)], list(body.arguments)[len(types) :]


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


def _small(jaxpr: ClosedJaxpr, numbers: list[Any]) -> list[np.ndarray]:
    """The numbers put together as the function's small arrays."""
    places: Iterator[int] = iter(range(len(numbers)))
    shapes = [aval.shape for aval in jaxpr.in_avals]
    rows = [np.array([next(places) for _ in np.ndindex(shape)], int).reshape(shape) for shape in shapes]
    return [scalars.picked(numbers, row) for row in rows]


def _array_type(value: Any, shape: Sequence[int]):
    """The type of an array of such numbers."""
    return ir.RankedTensorType.get(shape, ir.RankedTensorType(value.type).element_type)


def _zero(kind: Any):
    return mlir.ir_constant(np.zeros((), kind))


def _number_of(value: Any, index: tuple[int, ...], aval: ShapedArray):
    """One number of a small array, with the axes behind those of the array."""
    if not index:
        return value
    rest = aval.shape[len(index) :]
    limits = (*(i + 1 for i in index), *rest)
    starts, strides = (*index, *(0 for _ in rest)), (1 for _ in limits)
    part = stablehlo.slice(value, *(mlir.dense_int_array(tuple(n)) for n in (starts, limits, strides)))
    return stablehlo.reshape(_array_type(value, rest), part)


def _broadcast(value: Any, axes: tuple[int, ...], room: tuple[int, ...]):
    """A number wherever there is room for it: its axes are the last."""
    if axes == room:
        return value
    places = mlir.dense_int_array(tuple(range(len(room) - len(axes), len(room))))
    return stablehlo.broadcast_in_dim(_array_type(value, room), value, places)


def _twice(value: Any, axes: tuple[int, ...], room: tuple[int, ...]):
    """Two copies of a number, wherever lanes have room for it."""
    return _broadcast(value, axes, (2, *room))


def _assembled(parts: list[Any], shape: tuple[int, ...], room: tuple[int, ...]):
    """Arrays of lanes put together; best left to the caller, who knows whether he needs them so."""
    if not shape:
        return parts[0]
    rows = [stablehlo.reshape(_array_type(part, (1, *room)), part) for part in parts]
    return stablehlo.reshape(_array_type(parts[0], (*shape, *room)), stablehlo.concatenate(rows, mlir.i64_attr(0)))
