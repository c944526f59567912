"""A fit described in a TOML file: which model, what is unknown, what was measured, how to look for it."""

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from jaxcontact import models
from jaxcontact.errors import InputError, unknown
from jaxcontact.measured.stance import GRAVITY
from jaxcontact.models.model import Model, Parameter
from jaxcontact.study.cases import read_cases
from jaxcontact.study.checks import check_keys, checked_table, dotted, factor_of, whole_number
from jaxcontact.study.definition import FOLLOWING
from jaxcontact.study.fit.channels import Channel, make_channel
from jaxcontact.study.fit.problem import POINTS, Problem
from jaxcontact.study.fit.solvers import OPTIMISERS
from jaxcontact.study.fit.unknowns import Unknown
from jaxcontact.study.toml import read_toml

TABLES = ("fit", "measured", "data", "unknown", "tie", "residual", "set", "laws", "solver")
_FIT = ("model", "method", "title", "starts", "seed", "stages", "optimiser", "tolerance", "max_steps", "points", "mass")
_UNKNOWN = ("from", "to", "scale", "start", "prior", "unit")


@dataclass(frozen=True, eq=False)
class Asked:
    """A problem, how to solve it (arguments of `fit`), and whose likelihood to profile."""

    problem: Problem
    options: dict[str, Any]
    profiles: tuple[str, ...]


def read_fit(path: str | Path) -> Asked:
    """Read a TOML file; paths in it start where it lies."""
    return fit_of_tables(read_toml(path), folder=Path(path).parent, where=str(path))


def fit_of_tables(tables: Mapping[str, Any], *, folder: str | Path = ".", where: str = "the fit") -> Asked:
    """Return what the tables of a file ask."""
    check_keys(tables, TABLES, where)
    for name, table in tables.items():
        checked_table(table, f"{where}: [{name}]")
    head = dict(tables.get("fit", {}))
    check_keys(head, (*_FIT, "profile"), "[fit]")
    if not isinstance(head.get("model"), str):
        raise InputError(f'{where}: [fit] must name a model, as in model = "crutch"')
    folder = Path(folder)
    return Asked(_problem(tables, head, folder), _options(head), _names(head.get("profile", []), "[fit] profile"))


def _problem(tables: Mapping[str, Any], head: Mapping[str, Any], folder: Path) -> Problem:
    shared = {
        "fixed": tables.get("set"),
        "tied": {name: text for name, text in _flat(tables.get("tie", {})).items()},
        "laws": tables.get("laws"),
        "title": str(head.get("title", "")),
    }
    if head["model"].partition(":")[0] in FOLLOWING:
        from jaxcontact.tracked.named import tracked_model  # reads files of measurements, which others can do without

        for table in ("data", "solver"):
            if table in tables:
                raise InputError(f"[{table}] is for models that are simulated: {head['model']} follows [measured]")
        for key in ("points", "mass", "method"):
            if key in head:
                raise InputError(f"[fit] {key} is for models that are simulated: {head['model']} follows [measured]")
        tracked = tracked_model(head["model"], tables.get("measured"), folder)
        unknowns = _unknowns(tracked.model, tables.get("unknown", {}))
        wanted = tables.get("residual")
        return Problem.of_tracked(tracked, unknowns=unknowns, channels=wanted, **shared)
    if "measured" in tables:
        raise InputError(f"[measured] is for models that follow a motion (walk, roll, heel), not for {head['model']}")
    model = models.get_model(head["model"])
    return Problem.of_model(
        model,
        method=head.get("method"),
        unknowns=_unknowns(model, tables.get("unknown", {})),
        channels=_channels(model, tables.get("data", {}), tables.get("residual", {}), folder),
        solver=tables.get("solver"),
        points=whole_number(head.get("points", POINTS), "[fit] points", least=5),
        body_weight=_weight(head["mass"]) if "mass" in head else None,
        source={"file": str(tables["data"]["file"])} if "file" in tables.get("data", {}) else {},
        **shared,
    )


def _weight(mass: Any) -> float:
    kilograms = _number(mass, "[fit] mass")
    if not 0 < kilograms < inf:
        raise InputError(f"[fit] mass = {mass!r}: a body's mass in kg is needed")
    return kilograms * GRAVITY


def _options(head: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of `fit`, as far as the file gives them."""
    options: dict[str, Any] = {}
    for key in ("starts", "seed", "max_steps"):
        if key in head:
            options[key] = whole_number(head[key], f"[fit] {key}", least=0 if key == "seed" else 1)
    if "tolerance" in head:
        value = head["tolerance"]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1:
            raise InputError(f"[fit] tolerance = {value!r}: a number between 0 and 1 is needed")
        options["tolerance"] = float(value)
    if "optimiser" in head:
        if head["optimiser"] not in OPTIMISERS:
            raise unknown("optimiser", str(head["optimiser"]), OPTIMISERS, "[fit]")
        options["method"] = head["optimiser"]
    if "stages" in head:
        if not isinstance(head["stages"], list):
            raise InputError("[fit] stages: a list of lists of names is needed")
        options["stages"] = [_names(stage, "[fit] stages") for stage in head["stages"]]
    return options


def _names(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise InputError(f"{where} = {value!r}: a list of names is needed")
    return tuple(value)


def _flat(table: Mapping[str, Any], known: Sequence[str] = ()) -> dict[str, Any]:
    """Join names that TOML took apart: s1.radius = "s2.radius" arrives as { s1 = { radius = ... } }."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping) and key not in known:
            flat |= {f"{key}.{rest}": inner for rest, inner in _flat(value).items()}
        else:
            flat[key] = value
    return flat


# ---------------------------------------------------------------- [unknown]


def _unknowns(model: Model, table: Mapping[str, Any]) -> list[Unknown]:
    """Read the unknowns; a name with * stands for all parameters that it fits, as in "s*.radius"."""
    known = {parameter.name: parameter for parameter in model.parameters}
    stars = [key for key in table if "*" in key]
    found: dict[str, Unknown] = {}
    for key, spec in {**dotted((*known, *stars), table, "[unknown]")}.items():
        names = fnmatch.filter(known, key) if "*" in key else [key]
        if not names or names[0] not in known:
            raise unknown("parameter", key, known, "[unknown]")
        for name in names:
            if name in found:
                raise InputError(f"[unknown] {name} is given twice")
            found[name] = _unknown(known[name], spec)
    return list(found.values())


def _unknown(parameter: Parameter, spec: Any) -> Unknown:
    where = f"[unknown] {parameter.name}"
    if not isinstance(spec, Mapping):
        raise InputError(f"{where} = {spec!r}: a range is needed, as in {{ from = 0.1, to = 1.0 }}")
    check_keys(spec, _UNKNOWN, where)
    for end in ("from", "to"):
        if end not in spec:
            raise InputError(f"{where}: '{end}' is missing, as in {{ from = 0.1, to = 1.0 }}")
    factor, scale = factor_of(spec, parameter), spec.get("scale", "linear")
    prior = None
    if "prior" in spec:
        table = checked_table(spec["prior"], f"{where} prior")
        check_keys(table, ("mean", "sd"), f"{where} prior")
        if {*table} != {"mean", "sd"}:
            raise InputError(f"{where}: a prior needs mean and sd")
        mean, sd = _number(table["mean"], where) * factor, _number(table["sd"], where)
        prior = (mean, sd if scale == "log" else sd * factor)
    start = _number(spec["start"], where) * factor if "start" in spec else None
    low, high = (_number(spec[end], where) * factor for end in ("from", "to"))
    return Unknown(parameter.name, low, high, scale, start, prior)


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{where}: {value!r} is not a number")
    return float(value)


# ---------------------------------------------------------------- [data] and [residual]


def _channels(model: Model, data: Mapping[str, Any], residual: Mapping[str, Any], folder: Path) -> list[Channel]:
    """Curves from the columns of a CSV file, and scalars given in [residual] itself."""
    check_keys(data, ("file",), "[data]")
    columns = _columns(model, data["file"], folder) if "file" in data else {}
    found = []
    for name, spec in residual.items():
        where = f"[residual] {name}"
        if not isinstance(spec, Mapping) or "sd" not in spec:
            raise InputError(f"{where} = {spec!r}: a standard deviation is needed, as in {{ sd = 5.0 }}")
        check_keys(spec, ("sd", "weight", "value"), where)
        sd, weight = _number(spec["sd"], where), _number(spec.get("weight", 1.0), where)
        if "value" in spec:
            found.append(make_channel(model, name, "outcome", _number(spec["value"], where), sd, weight=weight))
        elif name in columns and "t" in columns:
            times = columns["t"]
            found.append(make_channel(model, name, "time", columns[name], sd, times=times, weight=weight))
        else:
            have = ", ".join(columns) or "none"
            raise InputError(
                f"{where}: there is neither a value nor a column of measurements over t\ncolumns of [data]: {have}"
            )
    for name in columns:
        if name != "t" and name not in residual:
            raise InputError(f"[residual] must say what the sd of {name} is: it is a column of [data]")
    return found


def _columns(model: Model, file: Any, folder: Path) -> dict[str, np.ndarray]:
    known = {
        q.name: Parameter(q.name, q.unit, 0.0, -inf, inf, q.meaning, "") for q in model.curve_outcomes if not q.labels
    }
    try:
        cases, _ = read_cases(known, {"file": file}, folder)
    except InputError as error:
        raise InputError(str(error).replace("[cases]", "[data]")) from None
    columns = dict(cases.columns)
    if "t" not in columns:
        raise InputError(f"[data] {file}: a column t with the time in s is needed")
    if np.any(np.diff(columns["t"]) <= 0):
        raise InputError(f"[data] {file}: t must increase from row to row")
    return columns
