"""Tables [derive] and [require] -> expressions in the order in which they can be evaluated, and the names they need."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from jaxcontact.errors import InputError, unknown
from jaxcontact.study.checks import check_keys, checked_table, dotted, is_list
from jaxcontact.study.expressions import Expression, read_condition, read_formula


class Derivations(NamedTuple):
    """What is computed from the numbers of a configuration before it is run."""

    derived: dict[str, Expression]  # in evaluation order
    requirements: tuple[Expression, ...]
    free: dict[str, str]  # names that neither the model nor [derive] knows -> the place that uses them


def parse_derivations(
    parameters: Iterable[str],
    derive: Mapping[str, Any] | None,
    require: Mapping[str, Any] | None,
    taken: Iterable[str] = (),
) -> Derivations:
    """Read both tables. `parameters` are the names of the model's parameters, `taken` those of its results."""
    parameters = tuple(parameters)
    texts = dotted(parameters, checked_table(derive, "[derive]"), "[derive]")
    derived = {name: read_formula(text, f"[derive] {name}") for name, text in texts.items()}
    requirements = _requirements(checked_table(require, "[require]"))

    used: dict[str, str] = {}  # name -> where it is used first
    for where, expression in [
        *((f"[derive] {name}", expression) for name, expression in derived.items()),
        *(("[require] conditions", expression) for expression in requirements),
    ]:
        used |= {name: where for name in expression.names if name not in used}
    for name in derived:
        if name not in parameters and name not in used:
            raise unknown("parameter", name, parameters, "[derive]")
    free = {name: where for name, where in used.items() if name not in parameters and name not in derived}
    for name in (*free, *derived):
        if name in taken and name not in parameters:
            where = free.get(name, "[derive]")
            raise InputError(f"{where}: {name} is the name of a result: choose another name for this number")
    return Derivations(_ordered(derived), requirements, free)


def _requirements(table: Mapping[str, Any]) -> tuple[Expression, ...]:
    check_keys(table, ("conditions",), "[require]")
    conditions = table.get("conditions", ())
    if not is_list(conditions):
        raise InputError(f"[require] conditions = {conditions!r}: a list of conditions is needed")
    return tuple(read_condition(text, "[require] conditions") for text in conditions)


def _ordered(derived: Mapping[str, Expression]) -> dict[str, Expression]:
    """Put what an expression uses before it, and leave the rest in the order given. Nothing may need itself."""
    ordered: dict[str, Expression] = {}

    def place(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            circle = " needs ".join((*path[path.index(name) :], name))
            raise InputError(f"[derive]: {circle}: nothing can be derived from itself")
        for needed in derived[name].names:
            if needed in derived and needed not in ordered:
                place(needed, (*path, name))
        ordered[name] = derived[name]

    for name in derived:
        if name not in ordered:
            place(name, ())
    return ordered
