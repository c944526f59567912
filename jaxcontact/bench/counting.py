"""What a machine step asks of a card, counted from its program and not from a run.

A step is traced for one lane and written out as operations on single numbers: every loop unrolled, every branch known,
what nobody looks at left out, what occurs twice counted once. Beside the operations stand the pieces that XLA makes
kernels of, and the bytes that a lane's state and parameters are.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal
from jax.extend.core.primitives import copy_p

from jaxcontact.integrate.machine import Machine
from jaxcontact.lanewise import rows, scalars
from jaxcontact.lanewise.block_kernel import looked_up

# Instructions that a card's floating-point units spend on an operation; quotients and roots are refined by Newton's
# method, as the compiler for sm_80 writes them out. Changes of sign come with their neighbours.
_FLOATING = {
    **dict.fromkeys(("add", "sub", "mul", "square", "integer_pow", "max", "min", "add_any"), 1),
    **dict.fromkeys(("lt", "le", "gt", "ge", "eq", "ne", "is_finite"), 1),
    **dict.fromkeys(("floor", "ceil", "round", "convert_element_type"), 2),
    **dict.fromkeys(("div", "rsqrt", "sqrt"), 10),
    **dict.fromkeys(("exp", "log", "exp2", "log1p", "expm1", "sin", "cos", "tan", "tanh", "sinh", "cosh"), 25),
    **dict.fromkeys(("asin", "acos", "atan", "atan2", "cbrt", "pow", "erf", "logistic"), 40),
}
_CHOOSING = ("select_n", "clamp", "sign")


@dataclass(frozen=True)
class StepCount:
    """A step of one lane: operations by name, and sums of them.

    `flops` counts additions, subtractions, products, quotients and roots as one each, as is usual; `instructions` what
    the floating-point units are busy with, comparisons too; `other` choices, logic and whole numbers. `state_bytes` are
    what lives between steps, `loop_bytes` what a kernel of whole steps moves of arrays that it leaves in memory, and
    `least_kernels` how many kernels XLA needs, which move `least_bytes`.
    """

    operations: Mapping[str, int]
    flops: int
    instructions: int
    other: int
    state_bytes: int
    param_bytes: int
    loop_bytes: int
    least_kernels: int
    least_bytes: int


def count_step(machine: Machine, params: Mapping[str, Any]) -> StepCount:
    """Count a step of a machine; `params` are (lanes,), or () where lanes share them, and only looked at for that."""
    one = {name: jax.ShapeDtypeStruct(np.shape(v) and (1,), jnp.result_type(v)) for name, v in params.items()}
    state = jax.eval_shape(machine.init, one)
    closed = jax.make_jaxpr(machine.step)(one, state)
    written, loop_bytes = _written_out(closed, len(one))
    kernels, moved = _least_kernels(closed)
    needed = _looked_at(written.jaxpr)
    operations = Counter(_named(equation) for equation in needed if equation.primitive is not copy_p)
    loop_bytes += sum(_bytes([e.outvars[0].aval]) for e in needed if e.primitive is copy_p)
    flops = sum(n for (name, real), n in operations.items() if real and name in _ARITHMETIC)
    spent = sum(_FLOATING.get(name, 0) * n for (name, real), n in operations.items() if real)
    other = sum(n for (name, real), n in operations.items() if not real or name in _CHOOSING)
    return StepCount(
        operations=dict(sorted(_by_name(operations).items(), key=lambda item: -item[1])),
        flops=flops,
        instructions=spent,
        other=other,
        state_bytes=_bytes(state),
        param_bytes=_bytes([v for v in one.values() if v.shape]),
        loop_bytes=loop_bytes,
        least_kernels=kernels,
        least_bytes=moved + loop_bytes + 2 * _bytes(state),
    )


_ARITHMETIC = ("add", "sub", "mul", "square", "integer_pow", "div", "sqrt", "rsqrt", "add_any")


def _bytes(tree: Any) -> int:
    return sum(prod(a.shape) * np.dtype(a.dtype).itemsize for a in jax.tree.leaves(tree))


def _by_name(operations: Counter) -> Counter:
    found: Counter = Counter()
    for (name, real), n in operations.items():
        found[name if real else f"{name}, whole"] += n
    return found


@dataclass
class _Counted:
    """A lane's array in memory: what is read is marked as a copy, to be found again if anybody looks at it."""

    numbers: list[Any]
    dtype: Any
    shape: tuple[int, ...]
    written: int = 0

    def __getitem__(self, place: tuple[int, slice]) -> Any:
        return copy_p.bind(jnp.asarray(self.numbers[place[0]]))

    def __setitem__(self, place: tuple[int, slice], number: Any) -> None:
        self.written += 1
        self.numbers[place[0]] = number


def _written_out(closed: ClosedJaxpr, given: int) -> tuple[ClosedJaxpr, int]:
    """The same on single numbers, without loops and branches; and bytes that are written of what stays in memory."""
    stays = [False] * given + looked_up(closed, given)
    memory: list[_Counted] = []

    def on_numbers(*numbers):
        left = iter(numbers)
        small: list[Any] = [scalars.filled(a.shape, lambda _: next(left)) for a in closed.in_avals]
        for k, aval in enumerate(closed.in_avals):
            if stays[k]:
                memory.append(_Counted(list(small[k].flat), aval.dtype, (small[k].size,)))
                small[k] = rows.Stored(memory[-1], aval.shape, aval.dtype)
        found = rows.evaluate(closed, small, keep_loops=False)
        in_hand = (array.ref.numbers if isinstance(array, rows.Stored) else array.flat for array in found)
        return [jnp.asarray(number) for array in in_hand for number in array]

    numbers = [jax.ShapeDtypeStruct((), a.dtype) for a in closed.in_avals for _ in range(prod(a.shape))]
    written = jax.make_jaxpr(on_numbers)(*numbers)
    return written, sum(one.written * np.dtype(one.dtype).itemsize for one in memory)


def _named(equation: JaxprEqn) -> tuple[str, bool]:
    """An operation's name, and whether it is on real numbers."""
    operand: Any = equation.invars[-1].aval if equation.invars else equation.outvars[0].aval
    return equation.primitive.name, bool(jnp.issubdtype(operand.dtype, jnp.floating))


def _looked_at(jaxpr: Jaxpr) -> list[JaxprEqn]:
    """Operations whose results somebody looks at, each once."""
    same: dict[Any, Any] = {}  # a variable -> the first one of the same value
    made: dict[Any, list[Any]] = {}  # an operation and its operands -> its results
    once = []
    for equation in _flat(jaxpr):
        operands = tuple(("literal", str(v)) if isinstance(v, Literal) else id(same.get(v, v)) for v in equation.invars)
        if equation.primitive is copy_p:  # read from memory, every time
            once.append(equation)
            continue
        key = (equation.primitive.name, operands, str(sorted(equation.params.items(), key=lambda item: item[0])))
        if key in made:
            same.update(zip(equation.outvars, made[key], strict=True))
            continue
        made[key] = list(equation.outvars)
        once.append(equation)
    needed = {same.get(v, v) for v in jaxpr.outvars if not isinstance(v, Literal)}
    kept = []
    for equation in reversed(once):
        if any(v in needed for v in equation.outvars):
            needed |= {same.get(v, v) for v in equation.invars if not isinstance(v, Literal)}
            kept.append(equation)
    return kept


def _flat(jaxpr: Jaxpr) -> list[JaxprEqn]:
    calls = [e.primitive.name for e in jaxpr.eqns if e.params.get("jaxpr") or e.params.get("call_jaxpr")]
    if calls:
        raise NotImplementedError(f"not written out to single operations: {sorted(set(calls))}")
    return jaxpr.eqns


# ---------------------------------------------------------------- kernels of XLA, without its compiler


def _least_kernels(closed: ClosedJaxpr) -> tuple[int, int]:
    """Kernels that XLA cannot do with fewer of, and bytes per lane that loops over the lanes read and write.

    Each loop over the lanes is one, each turn of a loop inside it another, and so is each row that is written into an
    array which a loop over evaluations carries along.
    """
    found = [0, 0]
    rules: dict[str, scalars.Rule] = {}

    def inner(closed: ClosedJaxpr, arguments: Any) -> Any:
        return scalars.evaluate(closed, arguments, rules)

    def counted(rule: Callable, kernels: Callable[[Any], int]) -> scalars.Rule:
        def counting(equation: Any, operands: list[Any]) -> list[Any]:
            found[0] += kernels(equation)
            if equation.primitive.name == "lane_loop":
                found[1] += _bytes([v.aval for v in (*equation.invars, *equation.outvars) if v.aval.shape])
            return rule(equation, operands)

        return counting

    plain = rows.rules_for(inner)
    rules |= plain
    rules["lane_loop"] = counted(plain["lane_loop"], lambda e: 1 + _turns(e.params["jaxpr"].jaxpr))
    rules["dynamic_update_slice"] = counted(plain["dynamic_update_slice"], lambda _: 1)

    def on_numbers(*numbers):
        left = iter(numbers)
        inner(closed, [scalars.filled(a.shape, lambda _: next(left)) for a in closed.in_avals])
        return []

    jax.eval_shape(
        on_numbers, *(jax.ShapeDtypeStruct((), a.dtype) for a in closed.in_avals for _ in range(prod(a.shape)))
    )
    return found[0], found[1]


def _turns(jaxpr: Jaxpr) -> int:
    """Turns of all loops in it."""
    count = 0
    for equation in jaxpr.eqns:
        inner = equation.params.get("jaxpr") or equation.params.get("call_jaxpr")
        if inner is not None:
            turns = _turns(getattr(inner, "jaxpr", inner))
            length = equation.params["length"] if equation.primitive.name == "scan" else 0
            count += length + max(length, 1) * turns
    return count
