"""Numbers of a program that is being written, and operations on them: straight into what XLA gets (StableHLO).

A machine step of an impact is ten thousand operations on numbers of a lane. Traced by JAX and then lowered, each of
them took 0.1 ms of Python; written here, a tenth of that: half a second of every first call, compiled programs or not.
Operations that are not in the table below go through JAX.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from jax.core import ShapedArray
from jax.extend.core import primitives as p
from jax.interpreters import mlir
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from jaxcontact.lanewise.apart import write_constant


class Writer:
    """Writes operations where the context of a lowering says; constants once for all places that use them.

    A "number" is one of each lane: a tensor of the shape `room`. With a `mark`, constants are this loop's own: `apart`.
    """

    def __init__(self, context: Any, room: tuple[int, ...] = (), mark: int = 0) -> None:
        self._context, self._room, self._mark = context, room, mark
        self._types: dict[np.dtype, Any] = {}
        self._constants: dict[tuple[np.dtype, bytes], Any] = {}

    def type_of(self, dtype: np.dtype) -> Any:
        """The type of a number in the program."""
        if dtype not in self._types:
            self._types[dtype] = ir.RankedTensorType.get(self._room, mlir.dtype_to_ir_type(dtype))
        return self._types[dtype]

    def value_of(self, number: Any) -> Any:
        """A number of the program, or one that is known, as the program has it."""
        if isinstance(number, Written):
            return number.value
        known = np.asarray(number)
        key = known.dtype, known.tobytes()
        if key not in self._constants:
            single = write_constant(known, self._mark, mlir.ir_constant) if self._mark else mlir.ir_constant(known)
            everywhere = stablehlo.broadcast_in_dim(self.type_of(known.dtype), single, mlir.dense_int_array(()))
            self._constants[key] = everywhere if self._room else single
        return self._constants[key]

    def through_jax(self, primitive: Any, operands: Sequence[Any], params: dict[str, Any]) -> "Written":
        """Any operation, as JAX writes it."""
        shapes = [ShapedArray(self._room, _dtype(o)) for o in operands]
        found, _ = primitive.abstract_eval(*shapes, **params)
        context = self._context.replace(primitive=primitive, avals_in=shapes, avals_out=[found])
        write = mlir.lower_fun(partial(primitive.bind, **params), multiple_results=False)
        (value,) = write(context, *map(self.value_of, operands))
        return Written(self, value, found.dtype)


class Written:
    """A number of a program that is being written."""

    __slots__ = ("dtype", "value", "writer")

    def __init__(self, writer: Writer, value: Any, dtype: np.dtype) -> None:
        self.writer, self.value, self.dtype = writer, value, dtype


def write(primitive: Any, operands: Sequence[Any], params: dict[str, Any]) -> Written:
    """One operation on numbers, of which at least one is written."""
    writer = next(o.writer for o in operands if isinstance(o, Written))
    if primitive in _SAME_TYPE:
        values = map(writer.value_of, operands)
        return Written(writer, _SAME_TYPE[primitive](*values), _dtype(operands[0]))
    if primitive in _COMPARISONS:
        kind = _dtype(operands[0]).kind
        if kind in _HOW_COMPARED:
            left, right = map(writer.value_of, operands)
            direction = stablehlo.ComparisonDirectionAttr.get(_COMPARISONS[primitive])
            how = stablehlo.ComparisonTypeAttr.get(_HOW_COMPARED[kind])
            value = stablehlo.compare(left, right, direction, compare_type=how)
            return Written(writer, value, np.dtype(bool))
    elif primitive is p.select_n_p and len(operands) == 3 and _dtype(operands[0]).kind == "b":
        which, if_false, if_true = map(writer.value_of, operands)
        return Written(writer, stablehlo.select(which, if_true, if_false), _dtype(operands[1]))
    elif primitive is p.integer_pow_p:
        return _power(writer, operands[0], params["y"])
    elif primitive is p.convert_element_type_p and np.dtype(params["new_dtype"]).kind in "fi":
        dtype = np.dtype(params["new_dtype"])
        if _dtype(operands[0]) == dtype:
            return operands[0]
        if _dtype(operands[0]).kind in "fib":
            return Written(writer, stablehlo.convert(writer.type_of(dtype), writer.value_of(operands[0])), dtype)
    return writer.through_jax(primitive, operands, params)


def _power(writer: Writer, number: Any, exponent: int) -> Written:
    """A whole power, by squares, in the order in which JAX multiplies."""
    one, rest, power = writer.value_of(np.ones((), _dtype(number))), abs(exponent), None
    square = writer.value_of(number)
    while rest:
        if rest % 2:
            power = square if power is None else stablehlo.multiply(power, square)
        rest //= 2
        square = stablehlo.multiply(square, square) if rest else square
    power = one if power is None else power
    return Written(writer, stablehlo.divide(one, power) if exponent < 0 else power, _dtype(number))


def _dtype(number: Any) -> np.dtype:
    return number.dtype if isinstance(number, Written) else np.asarray(number).dtype


# What JAX writes for these, too: one operation whose result has the type of its operands.
_SAME_TYPE: dict[Any, Callable[..., Any]] = {
    p.add_p: stablehlo.add,
    p.add_jaxvals_p: stablehlo.add,
    p.sub_p: stablehlo.subtract,
    p.mul_p: stablehlo.multiply,
    p.div_p: stablehlo.divide,
    p.neg_p: stablehlo.negate,
    p.max_p: stablehlo.maximum,
    p.min_p: stablehlo.minimum,
    p.and_p: stablehlo.and_,
    p.or_p: stablehlo.or_,
    p.xor_p: stablehlo.xor,
    p.not_p: stablehlo.not_,
    p.abs_p: stablehlo.abs,
    p.floor_p: stablehlo.floor,
}
_COMPARISONS = {p.lt_p: "LT", p.le_p: "LE", p.gt_p: "GT", p.ge_p: "GE", p.eq_p: "EQ", p.ne_p: "NE"}
_HOW_COMPARED = {"f": "FLOAT", "i": "SIGNED", "b": "UNSIGNED"}
