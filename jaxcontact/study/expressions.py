"""Formulas that a person writes in [derive] and conditions in [require]: read safely, evaluated on whole arrays.

    k_n = "hertz_stiffness(effective_modulus(E, 0.5, 30e9, 0.2), R)"
    conditions = ["R < leg.length", "mu * mu_ratio <= 1.5"]

The text is never run as Python. It is parsed, every piece of it is looked up in the tables below, and what is not
there is refused by name. Numbers are in the stated units of the parameters; sin, cos and tan take radians.
"""

import ast
import inspect
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxcontact.contact.friction import mindlin_stiffness, shear_modulus
from jaxcontact.contact.normal import effective_modulus, hertz_stiffness
from jaxcontact.errors import InputError, unknown

Values = Mapping[str, Any]  # name -> number or array, in stated units
Compiled = Callable[[Values], Any]

MOST_NESTED = 100  # pieces inside pieces; far more than a person can read, and far below Python's limit

CONSTANTS = {"pi": math.pi}


def _either(name: str) -> Callable:
    """The function of numpy, or of JAX where one of its arguments is a number of JAX's."""
    of_numpy, of_jax = getattr(np, name), getattr(jnp, name)

    def apply(*numbers: Any) -> Any:
        return (of_jax if any(isinstance(number, jax.Array) for number in numbers) else of_numpy)(*numbers)

    apply.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(f"x{i}", inspect.Parameter.POSITIONAL_ONLY) for i in range(of_numpy.nin)]
    )
    return apply


_least, _most = _either("minimum"), _either("maximum")
FUNCTIONS: dict[str, Callable] = {
    **{name: _either(name) for name in ("sqrt", "exp", "log", "log10", "sin", "cos", "tan", "abs")},
    "min": lambda *numbers: reduce(_least, numbers),
    "max": lambda *numbers: reduce(_most, numbers),
    "radians": _either("radians"),
    "degrees": _either("degrees"),
    # Plain arithmetic, so that arrays of numpy go in and come out.
    "effective_modulus": effective_modulus,
    "hertz_stiffness": hertz_stiffness,
    "shear_modulus": shear_modulus,
    "mindlin_stiffness": mindlin_stiffness,
}
BINARY: dict[type[ast.operator], Callable] = {
    kind: _either(name)
    for kind, name in (
        (ast.Add, "add"),
        (ast.Sub, "subtract"),
        (ast.Mult, "multiply"),
        (ast.Div, "divide"),
        (ast.Pow, "power"),
    )
}
UNARY = {ast.USub: _either("negative"), ast.UAdd: _either("positive")}
COMPARISONS = {
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
}
CONNECTIVES = {ast.And: np.logical_and, ast.Or: np.logical_or}

_ALLOWED_NUMBER = f"numbers, names, + - * / ** ( ), {', '.join(CONSTANTS)}, and the functions {', '.join(FUNCTIONS)}"
_ALLOWED_CONDITION = "comparisons (< <= > >= == !=) of formulas, joined by and, or, not"


@dataclass(frozen=True)
class Expression:
    """A checked formula or condition: its text, the names in it, and a call that evaluates it on numbers or arrays."""

    text: str
    names: tuple[str, ...]
    compiled: Compiled = field(repr=False, compare=False)

    def __call__(self, values: Values) -> np.ndarray:
        """Return the value; where it is not defined (1/0, the root of -1) inf or NaN, which the model then refuses."""
        with np.errstate(all="ignore"):
            return np.asarray(self.compiled({name: np.asarray(values[name], np.float64) for name in self.names}))

    def traced(self, values: Values) -> Any:
        """Return the value for numbers that JAX traces, so that it has derivatives."""
        return self.compiled({name: jnp.asarray(values[name]) for name in self.names})


def read_formula(text: Any, where: str) -> Expression:
    """Read a formula whose value is a number, as in [derive]."""
    return _read(text, where, _Reader.number, _ALLOWED_NUMBER)


def read_condition(text: Any, where: str) -> Expression:
    """Read a condition that holds or does not, as in [require]. A comparison with NaN does not hold."""
    return _read(text, where, _Reader.condition, _ALLOWED_CONDITION)


def _read(text: Any, where: str, rule: Callable[["_Reader", ast.expr], Compiled], allowed: str) -> Expression:
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"{where} = {text!r}: an expression in quotes is needed")
    text = " ".join(text.split())  # a formula may run over several lines, and spacing is no difference
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's advice on Python code, as for "1if x else 2"
            tree = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise InputError(f"{where}: '{text}' cannot be read: {error.msg}\nallowed: {allowed}") from None
    except (ValueError, RecursionError, MemoryError):
        raise InputError(f"{where}: '{text[:40]} ...' cannot be read\nallowed: {allowed}") from None
    reader = _Reader(where)
    compiled = rule(reader, tree)
    return Expression(text, tuple(reader.names), compiled)


class _Reader:
    """Turns a syntax tree into nested functions of the values, and notes the names on the way."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.names: dict[str, None] = {}  # in order of appearance
        self.depth = 0

    def number(self, node: ast.expr) -> Compiled:
        """Read a piece whose value is a number."""
        return self._deeper(self._number, node)

    def condition(self, node: ast.expr) -> Compiled:
        """Read a piece that holds or does not."""
        return self._deeper(self._condition, node)

    def _deeper(self, rule: Callable[[ast.expr], Compiled], node: ast.expr) -> Compiled:
        if self.depth == MOST_NESTED:
            raise InputError(f"{self.where}: nested more than {MOST_NESTED} deep; split it into several expressions")
        self.depth += 1
        compiled = rule(node)
        self.depth -= 1
        return compiled

    def _number(self, node: ast.expr) -> Compiled:
        match node:
            case ast.Constant(value=value) if isinstance(value, (int, float)) and not isinstance(value, bool):
                return self._literal(value)
            case ast.Name() | ast.Attribute():
                return self._name(node)
            case ast.BinOp() if type(node.op) in BINARY:
                apply, left, right = BINARY[type(node.op)], self.number(node.left), self.number(node.right)
                return lambda values: apply(left(values), right(values))
            case ast.UnaryOp() if type(node.op) in UNARY:
                sign, operand = UNARY[type(node.op)], self.number(node.operand)
                return lambda values: sign(operand(values))
            case ast.Call():
                return self._call(node)
            case ast.BinOp(op=ast.BitXor()):
                raise self._refused(node, "; a power is written **")
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                raise self._refused(node, "; a condition belongs in [require]")
        raise self._refused(node)

    def _condition(self, node: ast.expr) -> Compiled:
        match node:
            case ast.Compare() if all(type(op) in COMPARISONS for op in node.ops):
                sides = [self.number(side) for side in (node.left, *node.comparators)]
                tests = [COMPARISONS[type(op)] for op in node.ops]

                def holds(values: Values) -> Any:  # a < b < c holds if every pair does
                    found = [side(values) for side in sides]
                    pairs = [test(*pair) for test, *pair in zip(tests, found, found[1:], strict=False)]
                    return reduce(np.logical_and, pairs)

                return holds
            case ast.BoolOp():
                join, parts = CONNECTIVES[type(node.op)], [self.condition(part) for part in node.values]
                return lambda values: reduce(join, (part(values) for part in parts))
            case ast.UnaryOp(op=ast.Not()):
                operand = self.condition(node.operand)
                return lambda values: np.logical_not(operand(values))
        raise InputError(
            f"{self.where}: '{_source(node)}' is not a condition, which holds or not\nallowed: {_ALLOWED_CONDITION}"
        )

    def _literal(self, value: int | float) -> Compiled:
        try:
            number = np.float64(value)  # not a Python number: 1/0 is to be inf and not an exception
        except OverflowError:
            number = np.float64(np.inf)
        if not np.isfinite(number):
            raise InputError(f"{self.where}: a number beyond 1e308 is not finite")
        return lambda values: number

    def _name(self, node: ast.expr) -> Compiled:
        name = _dotted_name(node)
        if name is None:
            raise self._refused(node)
        if name in CONSTANTS:
            constant = np.float64(CONSTANTS[name])
            return lambda values: constant
        if name in FUNCTIONS:
            raise InputError(f"{self.where}: {name} is a function: write {name}(...)")
        self.names[name] = None
        return lambda values: values[name]

    def _call(self, node: ast.Call) -> Compiled:
        name = _dotted_name(node.func)
        if name is None:
            raise self._refused(node)
        if name not in FUNCTIONS:
            raise unknown("function", name, FUNCTIONS, self.where)
        if node.keywords or any(isinstance(argument, ast.Starred) for argument in node.args):
            raise self._refused(node, f"; {name} takes plain numbers, in order")
        function, arguments = FUNCTIONS[name], [self.number(argument) for argument in node.args]
        needed = _arity(function)
        if len(arguments) != needed and not (needed is None and len(arguments) >= 2):
            allowed = "two or more numbers" if needed is None else f"{needed} number{'s' if needed > 1 else ''}"
            raise InputError(f"{self.where}: {name} takes {allowed}, not {len(arguments)}")
        return lambda values: function(*(argument(values) for argument in arguments))

    def _refused(self, node: ast.expr, hint: str = "") -> InputError:
        return InputError(f"{self.where}: '{_source(node)}' cannot stand here{hint}\nallowed: {_ALLOWED_NUMBER}")


def _dotted_name(node: ast.expr) -> str | None:
    """Join leg.length, which Python takes for an attribute of leg; nothing is ever looked up in an object."""
    match node:
        case ast.Name():
            return node.id
        case ast.Attribute():
            owner = _dotted_name(node.value)
            return None if owner is None else f"{owner}.{node.attr}"
    return None


def _arity(function: Callable) -> int | None:
    """How many numbers a function takes; None for two or more."""
    kinds = [parameter.kind for parameter in inspect.signature(function).parameters.values()]
    return None if inspect.Parameter.VAR_POSITIONAL in kinds else len(kinds)


def _source(node: ast.expr) -> str:
    try:
        text = ast.unparse(node)
    except RecursionError:  # so deep that it cannot be shown either
        return type(node).__name__
    return text if len(text) <= 80 else f"{text[:80]} ..."
