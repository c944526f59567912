"""The arithmetic of one lane, written out: a function of small arrays becomes operations on single numbers.

A small array is held as a numpy array of objects, each a traced number or, where its value is known, a number. Taking
apart, stacking and transposing then cost nothing, and loops of a fixed length are unrolled: what is left is arithmetic
alone, which a compiler can run over many lanes in one loop. The numbers may be JAX's, while it traces, or those of a
program that is being written (`written`). A "number" may also be that of every lane of a block, in a traced row;
`rules` say what else there is to be carried out, or to be carried out otherwise.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal
from jax.extend.core import primitives as p

from jaxcontact.lanewise.written import Written, write
from jaxcontact.safemath import keep_p

Numbers = np.ndarray  # of objects: traced numbers, or numpy's
Rule = Callable[[Any, list[Numbers]], list[Numbers]]  # an equation and its operands -> its results
Rules = Mapping[str, Rule]  # by the primitive's name

_NO_RULES: Rules = {}

# What is done with known numbers at once: left to JAX, each kind would be compiled, for 15 ms.
_KNOWN: dict[Any, Callable[..., Any]] = {
    p.add_p: np.add,
    p.sub_p: np.subtract,
    p.mul_p: np.multiply,
    p.neg_p: np.negative,
    p.lt_p: np.less,
    p.le_p: np.less_equal,
    p.gt_p: np.greater,
    p.ge_p: np.greater_equal,
    p.eq_p: np.equal,
    p.ne_p: np.not_equal,
    p.and_p: np.bitwise_and,
    p.or_p: np.bitwise_or,
    p.not_p: np.bitwise_not,
    p.abs_p: np.abs,
    p.floor_p: np.floor,
    p.is_finite_p: np.isfinite,
    p.shift_right_arithmetic_p: np.right_shift,
}
_ELEMENTWISE = {
    *_KNOWN,
    *(p.div_p, p.rem_p, p.max_p, p.min_p, p.pow_p, p.integer_pow_p, p.square_p, p.sqrt_p, p.rsqrt_p, p.cbrt_p),
    *(p.exp_p, p.exp2_p, p.expm1_p, p.log_p, p.log1p_p, p.logistic_p, p.erf_p, p.nextafter_p),
    *(p.sin_p, p.cos_p, p.tan_p, p.asin_p, p.acos_p, p.atan_p, p.atan2_p, p.sinh_p, p.cosh_p, p.tanh_p),
    *(p.abs_p, p.sign_p, p.floor_p, p.ceil_p, p.round_p, p.is_finite_p, p.clamp_p, p.xor_p, p.select_n_p),
    *(p.convert_element_type_p, p.bitcast_convert_type_p, p.add_jaxvals_p),
    *(p.shift_left_p, p.shift_right_logical_p, p.shift_right_arithmetic_p),
}
_IDENTITIES = {keep_p.name, "copy", "stop_gradient", "reshard", "sharding_constraint", "pvary"}
_REDUCTIONS = {
    p.reduce_sum_p: p.add_p,
    p.reduce_prod_p: p.mul_p,
    p.reduce_max_p: p.max_p,
    p.reduce_min_p: p.min_p,
    p.reduce_and_p: p.and_p,
    p.reduce_or_p: p.or_p,
}


def evaluate(closed: ClosedJaxpr, arguments: Sequence[Numbers], rules: Rules = _NO_RULES) -> list[Numbers]:
    """Carry out a traced function on small arrays of numbers; `rules` come before what is known here."""
    consts = zip(closed.consts, closed.jaxpr.constvars, strict=True)
    return _evaluate(closed.jaxpr, [_known(const, variable.aval) for const, variable in consts], arguments, rules)


def _evaluate(jaxpr: Jaxpr, consts: Sequence[Numbers], arguments: Sequence[Numbers], rules: Rules) -> list[Numbers]:
    values: dict[Any, Numbers] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *arguments), strict=True))
    for equation in jaxpr.eqns:
        if not equation.outvars:  # nothing comes of it
            continue
        operands = [_known(v.val, v.aval) if isinstance(v, Literal) else values[v] for v in equation.invars]
        rule = rules.get(equation.primitive.name)
        found = rule(equation, operands) if rule else _carry_out(equation, [*map(_in_hand, operands)], rules)
        values.update(zip(equation.outvars, found, strict=True))
    return [_known(v.val, v.aval) if isinstance(v, Literal) else values[v] for v in jaxpr.outvars]


def _in_hand(array: Any) -> Numbers:
    """A small array, if need be out of the memory that a rule keeps it in."""
    return array if isinstance(array, np.ndarray) else array.whole()


def picked(numbers: Sequence[Any], places: np.ndarray) -> Numbers:
    """The numbers at these places, as a small array."""
    return filled(places.shape, lambda index: numbers[places[index]])


def _known(value: Any, aval: Any) -> Numbers:
    """A constant as numbers of the type that it has in the function: a Python number itself does not say which."""
    array = np.asarray(value, aval.dtype)
    numbers = np.empty(array.shape, object)
    for index in np.ndindex(array.shape):
        numbers[index] = array[index]
    return numbers


def filled(shape: tuple[int, ...], number: Callable[[tuple[int, ...]], Any]) -> Numbers:
    """A small array of the numbers that belong to each index."""
    numbers = np.empty(shape, object)
    for index in np.ndindex(shape) if shape else ((),):
        numbers[index] = number(index)
    return numbers


def _one(numbers: Any) -> Numbers:
    """A small array, also of a single number."""
    return numbers if isinstance(numbers, np.ndarray) else filled((), lambda _: numbers)


def is_known(number: Any) -> bool:
    """Whether a number's value is there already."""
    return not isinstance(number, Written | Tracer)


def bind(primitive: Any, operands: Sequence[Any], params: dict[str, Any]) -> Any:
    """One operation on numbers; done at once where all are known, and left out where it changes nothing."""
    if all(map(is_known, operands)):
        if primitive in _KNOWN:
            return _KNOWN[primitive](*operands)
        if primitive is p.convert_element_type_p:
            return np.asarray(operands[0]).astype(params["new_dtype"])[()]
        if primitive is p.bitcast_convert_type_p and np.dtype(params["new_dtype"]).itemsize == operands[0].itemsize:
            return np.asarray(operands[0]).view(params["new_dtype"])[()]
    if primitive is p.mul_p:
        for one, other in (operands, operands[::-1]):
            if is_known(one) and one == 1:
                return other
    if primitive is p.select_n_p and is_known(operands[0]):
        return operands[1 + int(operands[0])]
    if any(isinstance(o, Written) for o in operands):
        return write(primitive, operands, params)
    if room := np.broadcast_shapes(*map(np.shape, operands)):  # rows of lanes meet numbers that all lanes share
        operands = [jnp.broadcast_to(o, room) for o in operands]
    return primitive.bind(*operands, **params)


def _carry_out(equation: Any, operands: list[Numbers], rules: Rules) -> list[Numbers]:
    primitive, params = equation.primitive, equation.params
    shape = equation.outvars[0].aval.shape
    if primitive in _ELEMENTWISE:
        if primitive is p.convert_element_type_p:
            params = {**params, "sharding": None}
        wide = [o if o.shape == shape else np.broadcast_to(o, shape) for o in operands]
        return [filled(shape, lambda i: bind(primitive, [o[i] for o in wide], params))]
    if primitive.name in _IDENTITIES:
        return operands
    if primitive in _REDUCTIONS:
        return [_reduced(operands[0], params["axes"], lambda a, b: bind(_REDUCTIONS[primitive], [a, b], {}))]
    if primitive.name in _STRUCTURE:
        return [_STRUCTURE[primitive.name](operands, params, shape)]
    if primitive is p.dot_general_p:
        return [_dot(operands[0], operands[1], params["dimension_numbers"])]
    if primitive in (p.argmin_p, p.argmax_p):
        return [_arg(primitive, operands[0], params)]
    if primitive is p.scan_p:
        return unrolled(operands, params, rules)
    inner = params.get("jaxpr") or params.get("call_jaxpr")
    if inner is None or primitive in (p.while_p, p.cond_p):
        raise NotImplementedError(f"{primitive} cannot be written out for one lane: {equation}")
    return evaluate(inner, operands, rules) if isinstance(inner, ClosedJaxpr) else _evaluate(inner, [], operands, rules)


def _broadcast(operands: list[Numbers], params: dict[str, Any], shape: tuple[int, ...]) -> Numbers:
    (small,) = operands
    room = [1] * len(shape)
    for axis, size in zip(params["broadcast_dimensions"], small.shape, strict=True):
        room[axis] = size
    return np.broadcast_to(small.reshape(room), shape)


def _iota(_operands: list[Numbers], params: dict[str, Any], shape: tuple[int, ...]) -> Numbers:
    number = np.dtype(params["dtype"]).type
    return filled(shape, lambda index: number(index[params["dimension"]]))


def _slice(operands: list[Numbers], params: dict[str, Any], _shape: tuple[int, ...]) -> Numbers:
    strides = params["strides"] or [1] * operands[0].ndim
    limits = zip(params["start_indices"], params["limit_indices"], strides, strict=True)
    return operands[0][tuple(slice(*limit) for limit in limits)]


_STRUCTURE: dict[str, Callable[[list[Numbers], dict[str, Any], tuple[int, ...]], Numbers]] = {
    "broadcast_in_dim": _broadcast,
    "iota": _iota,
    "slice": _slice,
    "reshape": lambda operands, _, shape: operands[0].reshape(shape),
    "squeeze": lambda operands, _, shape: operands[0].reshape(shape),
    "stack": lambda operands, params, _: np.stack(operands, params["axis"]),
    "concatenate": lambda operands, params, _: np.concatenate(operands, params["dimension"]),
    "transpose": lambda operands, params, _: operands[0].transpose(params["permutation"]),
    "rev": lambda operands, params, _: np.flip(operands[0], params["dimensions"]),
}


def _reduced(numbers: Numbers, axes: Sequence[int], combine: Callable[[Any, Any], Any]) -> Numbers:
    for axis in sorted(axes, reverse=True):
        rows = np.moveaxis(numbers, axis, 0)
        numbers = filled(rows.shape[1:], lambda index, rows=rows: reduce(combine, rows[:, *index]))
    return numbers


def _dot(left: Numbers, right: Numbers, dimensions: Any) -> Numbers:
    (left_sum, right_sum), (left_batch, right_batch) = dimensions
    if left_batch or right_batch:
        raise NotImplementedError("a batched product cannot be written out for one lane")

    def rows(numbers: Numbers, summed: Sequence[int]) -> tuple[Numbers, tuple[int, ...]]:
        kept = [axis for axis in range(numbers.ndim) if axis not in summed]
        ordered = numbers.transpose([*kept, *summed])
        return ordered, tuple(numbers.shape[axis] for axis in kept)

    (a, a_shape), (b, b_shape) = rows(left, left_sum), rows(right, right_sum)

    def number(index: tuple[int, ...]) -> Any:
        first, second = np.ravel(a[index[: len(a_shape)]]), np.ravel(b[index[len(a_shape) :]])
        terms = [bind(p.mul_p, [x, y], {}) for x, y in zip(first, second, strict=True)]
        return reduce(lambda x, y: bind(p.add_p, [x, y], {}), terms)

    return filled(a_shape + b_shape, number)


def _arg(primitive: Any, numbers: Numbers, params: dict[str, Any]) -> Numbers:
    """Index of the first extreme along an axis, by comparing one after the other."""
    (axis,), kind = params["axes"], np.dtype(params["index_dtype"]).type
    better = p.lt_p if primitive is p.argmin_p else p.gt_p
    rows = np.moveaxis(numbers, axis, 0)

    def number(index: tuple[int, ...]) -> Any:
        column = rows[:, *index]
        best, where = column[0], kind(0)
        for i, one in enumerate(column[1:], 1):
            wins = bind(better, [_as_number(one), _as_number(best)], {})
            best = bind(p.select_n_p, [wins, best, one], {})
            where = bind(p.select_n_p, [wins, where, kind(i)], {})
        return where

    return filled(rows.shape[1:], number)


def _as_number(value: Any) -> Any:
    """Truth values are compared as numbers."""
    if (value.dtype if isinstance(value, Written | Tracer) else np.result_type(value)) == np.bool_:
        return bind(
            p.convert_element_type_p, [value], {"new_dtype": np.dtype(np.int32), "weak_type": False, "sharding": None}
        )
    return value


def unrolled(operands: list[Numbers], params: dict[str, Any], rules: Rules = _NO_RULES) -> list[Numbers]:
    """A loop of fixed length, pass after pass."""
    consts, carries = params["num_consts"], params["num_carry"]
    shared, carry, each = operands[:consts], operands[consts : consts + carries], operands[consts + carries :]
    gathered: list[list[Numbers]] = []
    order = range(params["length"])
    for i in reversed(order) if params["reverse"] else order:
        found = evaluate(params["jaxpr"], [*shared, *carry, *(_one(e[i]) for e in each)], rules)
        carry = found[:carries]
        gathered.append(found[carries:])
    if params["reverse"]:
        gathered.reverse()
    count = len(params["jaxpr"].jaxpr.outvars) - carries
    return [*carry, *(np.stack([step[k] for step in gathered]) for k in range(count))]
