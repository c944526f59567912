"""Which outcomes and curves a person wants analysed, by which parameters: checked before anything is run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jaxcontact.errors import InputError, unknown
from jaxcontact.models.model import Quantity
from jaxcontact.study.checks import is_list
from jaxcontact.study.definition import Study
from jaxcontact.study.execute import job_of, result_types
from jaxcontact.study.labelled import curve_name

TIME = "t"  # the curve that says when


@dataclass(frozen=True)
class Chosen:
    """Scalar outcomes and time histories by their names in a dataset, in the model's order."""

    outcomes: dict[str, Quantity]
    curves: dict[str, Quantity]


def choose(study: Study, outcomes: Sequence[str] | None, curves: bool | None) -> tuple[Study, Chosen]:
    """Find what is to be analysed, and the study that gives it: with time histories only if some are wanted.

    Without names all real outcomes are meant, and with `curves` all time histories; with names, those of the names.
    `curves` None is what the study's [output] says.
    """
    wanted = None if outcomes is None else names_listed(outcomes, "outcomes")
    with_curves = study.output.curves if curves is None else curves
    if not isinstance(with_curves, bool):
        raise InputError(f"[sensitivity] curves = {with_curves!r}: true or false is needed")
    recorded = replace(study, output=replace(study.output, curves=True))
    types = result_types(job_of(recorded))
    scalars = {q.name: q for q in study.model.outcomes if _is_real(q, types["outcomes"])}
    histories = {curve_name(study, q): q for q in study.model.curve_outcomes if _is_real(q, types["curves"])}
    if wanted is None:
        chosen = Chosen(scalars, histories if with_curves else {})
    else:
        _check(study, wanted, scalars, histories)
        of_names = {n: q for n, q in histories.items() if n in wanted or (with_curves and q.name in wanted)}
        if with_curves and not of_names:
            of_names = histories
        chosen = Chosen({n: q for n, q in scalars.items() if n in wanted}, of_names)
    if not chosen.outcomes and not chosen.curves:
        raise InputError(f"{study.model.name} has no outcome that is a real number")
    return replace(study, output=replace(study.output, curves=bool(chosen.curves))), chosen


def names_listed(names: Any, what: str) -> list[str]:
    """Return a list of names without repeats, refused if it is anything else."""
    if isinstance(names, str) or not (is_list(names) and all(isinstance(name, str) for name in names)):
        raise InputError(f'[sensitivity] {what} = {names!r}: a list of names is needed, as in ["P_n", "P_t"]')
    if len(names) == 0:
        raise InputError(f"[sensitivity] {what}: the list is empty; at least one name is needed")
    repeated = [name for name in names if list(names).count(name) > 1]
    if repeated:
        raise InputError(f"[sensitivity] {what}: {repeated[0]} stands there twice")
    return list(names)


def _check(study: Study, wanted: Iterable[str], scalars: dict[str, Quantity], histories: dict[str, Quantity]) -> None:
    others = {q.name: q for q in (*study.model.outcomes, *study.model.curve_outcomes)}
    for name in wanted:
        if name in scalars or name in histories:
            continue
        if name not in others:
            raise unknown("outcome", name, [*scalars, *histories], "[sensitivity]")
        if others[name].labels:
            reason = "is a code, not a quantity"
        elif name == "n_steps":
            reason = "is a count of the integrator's, not a quantity"
        else:
            reason = f"is not defined by the {study.method} method, or not a real number"
        raise InputError(f"[sensitivity] outcomes: {name} {reason}\nallowed: {', '.join([*scalars, *histories])}")


def _is_real(quantity: Quantity, types: dict[str, np.dtype]) -> bool:
    return (
        quantity.name in types
        and not quantity.labels
        and quantity.name != "n_steps"
        and np.issubdtype(types[quantity.name], np.floating)
    )
