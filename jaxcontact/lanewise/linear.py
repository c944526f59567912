"""The linear part of a function of one lane, as few products as it can be had with.

A function is linearised once; its linear part is then applied along many directions. What the rule of the chain leaves
behind multiplies by one number after another: here they are multiplied together beforehand, where directions share
that, and like terms are collected. On the crutch's equations of motion that halved the work of a direction.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.extend.core import ClosedJaxpr, Literal, Var
from jax.extend.core import primitives as p
from jax.interpreters.partial_eval import dce_jaxpr

from jaxcontact.lanewise import scalars

_INLINED = 3  # a sum of so few terms is at first written out wherever it is used: its terms mostly meet their like
_IDENTITIES = {"keep", "copy", "convert_element_type"}

_Terms = dict[int, Any]  # a sum: a number by the term it multiplies


class LinearPart:
    """The linear part of a function that is found while it is traced, to be applied in another trace.

    `found` gives numbers that it depends on; `along` wants them back.
    """

    def __init__(self) -> None:
        self._inputs: list[tuple[int, ...]] = []  # shapes
        self._sums: list[list[tuple[int, Any]]] = []  # each a list of terms, with a number or the place of one
        self._results: list[tuple[tuple[int, ...], list[list[tuple[int, Any]]]]] = []

    def found(self, function: Callable, *at: Any) -> tuple[Any, list[Any]]:
        """Linearise a function: its value there, and numbers of its linear part, each of one lane."""
        value, along = jax.linearize(function, *at)
        program = jax.make_jaxpr(along)(*at)
        self._inputs = [aval.shape for aval in program.in_avals]
        given = [_numbers(const) for const in program.consts]
        collected = _Collected(program, given, self._inputs)
        self._sums, self._results = collected.sums, collected.results
        return value, collected.numbers

    def alike(self, result: int) -> int | None:
        """Which of the single numbers that it was linearised by a result always equals; None if it is none of them."""
        rows = [row for _, rows in self._results for row in rows][result]
        count = sum(int(np.prod(shape)) for shape in self._inputs)
        alike = len(rows) == 1 and rows[0][0] < count and isinstance(rows[0][1], float) and rows[0][1] == 1.0
        return rows[0][0] if alike else None

    def is_zero(self, result: int) -> bool:
        """Whether a result depends on nothing."""
        return not [row for _, rows in self._results for row in rows][result]

    def along(self, numbers: Sequence[Any], *slopes: Any) -> list[Any]:
        """Apply it along slopes of what the function was linearised by: slopes of the value's leaves."""
        terms = [n for slope in jax.tree.leaves(slopes) for n in np.ravel(_numbers(slope))]

        def total(parts: list[tuple[int, Any]]) -> Any:
            whole = None
            for term, factor in parts:
                factor = numbers[factor.place] if isinstance(factor, _Place) else factor
                one = terms[term] if isinstance(factor, float) and factor == 1.0 else factor * terms[term]
                whole = one if whole is None else whole + one
            return jnp.zeros_like(terms[0]) if whole is None else whole

        for parts in self._sums:
            terms.append(total(parts))
        results = []
        for shape, rows in self._results:
            found = [total(parts) for parts in rows]
            results.append(jnp.stack(found).reshape(shape) if shape else found[0])
        return results


class _Place:
    """Where a number is among those that `found` gave."""

    def __init__(self, place: int) -> None:
        self.place = place


class _Collected:
    """Goes through a linear program of small arrays, number by number, and collects its terms."""

    def __init__(self, program: ClosedJaxpr, given: list[np.ndarray], inputs: list[tuple[int, ...]]) -> None:
        self.numbers: list[Any] = []
        self._places: dict[int, _Place] = {}
        self._made: dict[Any, Any] = {}  # what known numbers have been made of others
        self.sums: list[list[tuple[int, Any]]] = []
        count = sum(int(np.prod(shape)) for shape in inputs)
        plain, shapes = _written_out(program, given, inputs)
        known = [n for one in given for n in np.ravel(one)]
        values: dict[Var, Any] = dict(zip(plain.invars, [*known, *({k: 1.0} for k in range(count))], strict=True))
        kept_sums: dict[int, dict[int, Any]] = {}
        kept = _kept(plain, len(known))
        for equation in plain.eqns:
            (out,) = equation.outvars
            operands = [float(v.val) if isinstance(v, Literal) else values[v] for v in equation.invars]
            found = self._carry_out(equation, operands)
            if isinstance(found, dict) and out in kept:
                term = count + len(kept_sums)
                kept_sums[term], found = found, {term: 1.0}
            values[out] = found
        rows = [float(v.val) if isinstance(v, Literal) else values[v] for v in plain.outvars]
        sums, rows = self._with_fewer(kept_sums, rows)
        places = {term: k for k, term in enumerate([*range(count), *sums])}
        ready = [0] * count  # how long a term has to be waited for
        for found in sums.values():
            parts, wait = _in_order(self._terms(found, places), ready)
            self.sums.append(parts)
            ready.append(wait)
        each = iter([_in_order(self._terms(found, places), ready)[0] for found in rows])
        self.results = [(shape, [next(each) for _ in range(int(np.prod(shape)))]) for shape in shapes]

    def _with_fewer(self, sums: dict[int, dict[int, Any]], rows: list[Any]):
        """Put sums in wherever they are used, if that leaves fewer terms; those that others need last come first."""
        sums = dict(sums)
        for one in list(sums)[::-1]:
            terms = set(sums[one])
            users = [f for f in [*sums.values(), *rows] if isinstance(f, dict) and one in f]
            if sum(len(terms - set(f)) - 1 for f in users) < len(terms):
                put_in = sums.pop(one)

                def without(found, one=one, put_in=put_in):
                    if not isinstance(found, dict) or one not in found:
                        return found
                    rest = {term: factor for term, factor in found.items() if term != one}
                    return self._added(rest, self._scaled(put_in, found[one]))

                sums = {term: without(found) for term, found in sums.items()}
                rows = [without(found) for found in rows]
        return sums, rows

    def _terms(self, found: Any, places: dict[int, int]) -> list[tuple[int, Any]]:
        if not isinstance(found, dict):  # of a linear function, only zero is known
            return []
        return [(places[term], self._placed(factor)) for term, factor in found.items() if not _is(factor, 0.0)]

    def _placed(self, factor: Any) -> Any:
        if isinstance(factor, float):
            return factor
        if id(factor) not in self._places:
            self._places[id(factor)] = _Place(len(self.numbers))
            self.numbers.append(factor)
        return self._places[id(factor)]

    def _carry_out(self, equation: Any, operands: list[Any]) -> Any:
        primitive, name = equation.primitive, equation.primitive.name
        if not any(isinstance(o, dict) for o in operands):
            return self._known(primitive, equation.params, operands)
        if name in _IDENTITIES:
            return operands[0]
        if primitive is p.neg_p:
            return self._scaled(operands[0], -1.0)
        if primitive is p.mul_p:
            sums, factor = operands if isinstance(operands[0], dict) else operands[::-1]
            return self._scaled(sums, factor)
        if primitive is p.div_p:
            return self._scaled(operands[0], self._known(p.div_p, {}, [1.0, operands[1]]))
        if primitive in (p.add_p, p.add_jaxvals_p):
            return self._added(*operands)
        if primitive is p.sub_p:
            return self._added(operands[0], self._scaled(operands[1], -1.0))
        if primitive is p.select_n_p and len(operands) == 3:
            which, no, yes = operands
            no, yes = (o if isinstance(o, dict) else {} for o in (no, yes))
            return {t: self._chosen(which, no.get(t, 0.0), yes.get(t, 0.0)) for t in {**no, **yes}}
        raise NotImplementedError(f"not linear, or not known to be: {equation}")

    def _scaled(self, sums: Any, factor: Any) -> Any:
        if not isinstance(sums, dict):  # zero
            return sums
        return {term: self._known(p.mul_p, {}, [own, factor]) for term, own in sums.items()}

    def _added(self, one: Any, other: Any) -> Any:
        one, other = (o if isinstance(o, dict) else {} for o in (one, other))
        total = dict(one)
        for term, factor in other.items():
            total[term] = self._known(p.add_p, {}, [total[term], factor]) if term in total else factor
        return total

    def _chosen(self, which: Any, no: Any, yes: Any) -> Any:
        if no is yes or (isinstance(no, float) and isinstance(yes, float) and no == yes):
            return no
        key = "where", *map(_key, (which, no, yes))
        if key not in self._made:
            self._made[key] = jnp.where(which, yes, no), (which, no, yes)
        return self._made[key][0]

    def _known(self, primitive: Any, params: dict[str, Any], operands: list[Any]) -> Any:
        """One operation on known numbers, done once however often it is asked for."""
        if primitive is p.mul_p:
            if any(_is(o, 0.0) for o in operands):
                return 0.0
            for one, other in (operands, operands[::-1]):
                if _is(one, 1.0):
                    return other
        if primitive is p.add_p and any(_is(o, 0.0) for o in operands):
            return operands[1] if _is(operands[0], 0.0) else operands[0]
        if all(isinstance(o, float) for o in operands) and primitive in (p.mul_p, p.add_p, p.div_p):
            return float({p.mul_p: np.multiply, p.add_p: np.add, p.div_p: np.divide}[primitive](*operands))
        key = primitive.name, tuple(map(_key, operands)), str(params)
        if key not in self._made:
            kind = next((o.dtype for o in operands if hasattr(o, "dtype") and o.dtype != bool), None)
            wide = [jnp.asarray(o, kind) if isinstance(o, float) else o for o in operands]
            self._made[key] = primitive.bind(*wide, **params), operands  # kept, so that no other gets their identity
        return self._made[key][0]


def _in_order(parts: list[tuple[int, Any]], ready: list[int]) -> tuple[list[tuple[int, Any]], int]:
    """A sum's terms, those that are known last at its end, and how long the sum has to be waited for."""
    parts, wait = sorted(parts, key=lambda part: ready[part[0]]), 0
    for term, _ in parts:
        wait = max(wait, ready[term]) + 1
    return parts, wait


def _kept(plain: Any, known: int) -> set[Var]:
    """Which sums, of a program whose first inputs are known, are worked out once and kept: the fewest terms win."""
    uses = Counter(v for e in plain.eqns for v in e.invars if isinstance(v, Var))
    several = [v for e in plain.eqns for v in e.outvars if uses[v] > 1]
    start: dict[Var, frozenset] = {v: frozenset([i]) for i, v in enumerate(plain.invars) if i >= known}
    steps = [(e.outvars[0], [v for v in e.invars if isinstance(v, Var)]) for e in plain.eqns]
    ends = [v for v in plain.outvars if isinstance(v, Var)]

    def count(keeps: Callable[[Var, int], bool]) -> tuple[int, set[Var]]:
        terms, total, kept = dict(start), 0, set()
        for out, operands in steps:
            found = frozenset().union(*(terms[v] for v in operands if v in terms))
            if found and keeps(out, len(found)):
                kept.add(out)
                total, found = total + len(found), frozenset([out])
            if found:
                terms[out] = found
        return total + sum(len(terms.get(v, ())) for v in ends), kept

    fewest, best = count(lambda v, size: uses[v] > 1 and size > _INLINED)
    for one in several:
        total, kept = count(lambda v, _, changed=best ^ {one}: v in changed)
        if total < fewest:
            fewest, best = total, kept
    return best


def _is(number: Any, value: float) -> bool:
    return isinstance(number, float) and number == value


def _key(number: Any) -> Any:
    return number if isinstance(number, float) else id(number)


def _numbers(array: Any) -> np.ndarray:
    """A small array as single numbers, those of Python where they are known."""
    shape = np.shape(array)
    numbers = np.empty(shape, object)
    for index in np.ndindex(shape):
        one = array[index] if index else array
        numbers[index] = one if isinstance(one, Tracer) or np.result_type(one) == np.bool_ else float(one)
    return numbers


def _written_out(program: ClosedJaxpr, given: list[np.ndarray], inputs: list[tuple[int, ...]]):
    """The program as operations on single numbers, without any that nothing depends on; shapes of its results."""
    jaxpr = program.jaxpr.replace(constvars=(), invars=[*program.jaxpr.constvars, *program.jaxpr.invars])
    variables = jaxpr.invars
    avals = [jax.ShapeDtypeStruct((), v.aval.dtype) for v in variables for _ in np.ndindex(v.aval.shape)]

    def of_numbers(*numbers):
        rest = iter(numbers)
        arrays = []
        for v in variables:
            array = np.empty(v.aval.shape, object)
            for index in np.ndindex(v.aval.shape):
                array[index] = next(rest)
            arrays.append(array)
        return [n for found in scalars.evaluate(ClosedJaxpr(jaxpr, []), arrays) for n in np.ravel(found)]

    plain = jax.make_jaxpr(of_numbers)(*avals).jaxpr
    plain, _ = dce_jaxpr(plain, [True] * len(plain.outvars), instantiate=True)
    return plain, [aval.shape for aval in program.out_avals]
