"""One study: a model, a method, a space of configurations and how to solve them, checked before anything is run."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxcontact.errors import InputError, unknown
from jaxcontact.integrate.settings import Settings
from jaxcontact.study.checks import check_keys, whole_number
from jaxcontact.study.derive import parse_derivations
from jaxcontact.study.expressions import Expression
from jaxcontact.study.parse import parse_space
from jaxcontact.study.space import Space
from jaxcontact.study.tables import space_tables, with_unit
from jaxcontact.study.toml import read_toml
from jaxcontact.study.units import to_si, unit_label

if TYPE_CHECKING:
    from jaxcontact.models.model import Model, Parameter

TABLES = ("study", "measured", "vary", "set", "sample", "cases", "derive", "require", "laws", "solver", "output")
DIMENSIONS = ("sample", "case", "index", "fraction")  # what a result has besides outcomes and parameters

# Default tolerances where numbers are float32. Where contact is stiff, their rounding leaves some 1e-5 of a velocity:
# asked for less, the controller only shortens steps (on the crutch by a fifth, with the same errors).
SINGLE_PRECISION = {"rtol": 1e-5, "atol": 1e-5}
SINGLE_LEAST_RTOL = 2e-6
FOLLOWING = ("walk", "roll", "heel")  # models that need a measured motion, see tracked.named
MOST_POINTS = 100_000  # of a curve; more than any plot can show


@dataclass(frozen=True)
class Output:
    """What to keep besides the scalar outcomes: time histories, at `points` evenly spaced fractions of each run."""

    curves: bool = False
    points: int = 201


class Configurations(NamedTuple):
    """The numbers of some configurations, one after the other; every array has shape (configurations,)."""

    rows: dict[str, np.ndarray]  # everything that the space varies, in stated units
    params: dict[str, np.ndarray]  # every parameter of the model that varies, in SI units
    derived: dict[str, np.ndarray]  # every derived name, in stated units
    allowed: np.ndarray  # whether all conditions in [require] hold; where they do not, nothing is to be run


@dataclass(frozen=True)
class Study:
    """A checked description of a study. Make one with `study(...)`, `Study.from_file` or `Study.from_dict`."""

    model: "Model"
    method: str
    choices: Mapping[str, str]  # every choice of law, defaults included
    space: Space
    fixed: Mapping[str, float]  # the model's parameters that were set by hand, in stated units
    settings: Settings
    output: Output
    title: str = ""
    derived: Mapping[str, Expression] = field(default_factory=dict)  # in evaluation order
    requirements: tuple[Expression, ...] = ()
    free_fixed: Mapping[str, float] = field(default_factory=dict)  # the free names that were set by hand
    labels: Mapping[str, str] = field(default_factory=dict)  # free name -> its unit, where one is written
    measured: Mapping[str, Any] = field(default_factory=dict)  # the motion that the model follows; files from the root
    motion: str = ""  # checksum of its files

    @classmethod
    def from_file(cls, path: str | Path) -> "Study":
        """Read a TOML file."""
        return cls.from_dict(read_toml(path), where=str(path), folder=Path(path).parent)

    @classmethod
    def from_dict(cls, tables: Mapping[str, Any], *, where: str = "the study", folder: str | Path = ".") -> "Study":
        """Build a study from the tables of a TOML file. `where` names it in errors, `folder` is where its CSV lies."""
        check_keys(tables, TABLES, where)
        for name, table in tables.items():
            if not isinstance(table, Mapping):
                raise InputError(f"{where}: [{name}] must be a table, not {table!r}")
        head = tables.get("study", {})
        check_keys(head, ("model", "method", "title"), "[study]")
        if "model" not in head:
            raise InputError(f'{where}: [study] must name a model, as in model = "crutch"')
        model = _find_model(head["model"], tables.get("measured"), Path(folder))
        method = head.get("method", model.methods[0])
        if method not in model.methods:
            raise unknown("method", method, model.methods, "[study]")
        names = [parameter.name for parameter in model.parameters]
        taken = [quantity.name for quantity in (*model.outcomes, *model.curve_outcomes)]
        derived, requirements, free = parse_derivations(
            names, tables.get("derive"), tables.get("require"), (*taken, *DIMENSIONS)
        )
        space, fixed, labels = parse_space(
            model.parameters,
            vary=tables.get("vary"),
            fixed=tables.get("set"),
            sample=tables.get("sample"),
            cases=tables.get("cases"),
            folder=Path(folder),
            free=free,
            derived=derived,
        )
        return cls(
            model=model,
            method=method,
            choices=_choices(model, tables.get("laws", {})),
            space=space,
            fixed={name: value for name, value in fixed.items() if name not in free},
            settings=_settings(tables.get("solver", {})),
            output=_output(tables.get("output", {})),
            title=str(head.get("title", "")),
            derived=derived,
            requirements=requirements,
            free_fixed={name: value for name, value in fixed.items() if name in free},
            labels=labels,
            **_followed(tables.get("measured", {}), Path(folder)),
        )

    def constants(self) -> dict[str, float]:
        """Return every parameter that neither varies nor is derived, set or default, in stated units."""
        others = {*self.space.names, *self.derived}
        return {p.name: self.fixed.get(p.name, p.default) for p in self.model.parameters if p.name not in others}

    def free_constants(self) -> dict[str, float]:
        """Return every free name that does not vary, as it was set."""
        return dict(self.free_fixed)

    def configurations(self, start: int, stop: int) -> Configurations:
        """Return the numbers of configurations start ... stop - 1. Nothing else of the space is computed."""
        rows = self.space.rows(start, stop)
        numbers = self.constants() | self.free_constants() | rows
        for name, expression in self.derived.items():
            numbers[name] = expression(numbers)

        def lanes(name: str, factor: float = 1.0) -> np.ndarray:
            return np.array(np.broadcast_to(numbers[name] * factor, (stop - start,)))

        allowed = np.ones(stop - start, dtype=bool)
        for condition in self.requirements:
            allowed &= condition(numbers)
        params = {p.name: lanes(p.name, to_si(p.unit)) for p in self.model.parameters if p.name in self._varying}
        return Configurations(rows, params, {name: lanes(name) for name in self.derived}, allowed)

    def constant_params(self) -> dict[str, float]:
        """Return every parameter of the model that is the same in all configurations, in SI units.

        Derived ones are among them if all that they are derived from is. A parameter is here or in `configurations`.
        """
        numbers: dict[str, Any] = self.constants() | self.free_constants()
        for name, expression in self.derived.items():
            if name not in self._varying:
                numbers[name] = expression(numbers)
        fixed = (p for p in self.model.parameters if p.name not in self._varying)
        return {p.name: float(numbers[p.name] * to_si(p.unit)) for p in fixed}

    def units_of(self, name: str) -> str:
        """Return the unit of anything that varies, is set or is derived: a parameter's stated unit, or a label."""
        parameter = self._parameter(name)
        return unit_label(self.labels.get(name, "") if parameter is None else parameter.unit)

    def meaning_of(self, name: str) -> str:
        """Return what anything that varies, is set or is derived means, in a few words."""
        parameter = self._parameter(name)
        if parameter is not None:
            return parameter.meaning
        return (
            f"derived: {self.derived[name].text}" if name in self.derived else "free name used in [derive] or [require]"
        )

    def describe(self) -> dict[str, Any]:
        """Return everything that determines the results, in words and numbers that JSON can hold."""
        # What the files hold counts, not where they lie.
        followed = {name: value for name, value in self.measured.items() if name != "file"} | {"sha256": self.motion}
        followed = {"measured": followed} if self.measured else {}
        return followed | {
            "model": self.model.name,
            "method": self.method,
            "choices": dict(self.choices),
            "space": self.space.describe(),
            "constants": self.constants(),
            "free": self.free_constants(),
            "derive": {name: expression.text for name, expression in self.derived.items()},
            "require": [condition.text for condition in self.requirements],
            "settings": self.settings.as_dict(),
            "output": {"curves": self.output.curves, "points": self.output.points if self.output.curves else 0},
        }

    def fingerprint(self) -> str:
        """Return a checksum of everything that determines the results. Titles and the spelling of units do not."""
        return hashlib.sha256(json.dumps(self.describe(), sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    def to_tables(self) -> dict[str, dict[str, Any]]:
        """Return the tables of a TOML file that describes this study, its model by name, all in stated units.

        `Study.from_dict` makes the same study of them, with the same fingerprint. Names with dots are single keys.
        """
        fixed = {**self.fixed, **self.free_fixed}
        tables = {
            "study": {"model": self.model.name, "method": self.method, "title": self.title},
            "measured": dict(self.measured),
            **space_tables(self.space, self.labels),
            "set": {name: with_unit("value", value, self.labels.get(name)) for name, value in fixed.items()},
            "derive": {name: expression.text for name, expression in self.derived.items()},
            "require": {"conditions": [condition.text for condition in self.requirements]} if self.requirements else {},
            "laws": dict(self.choices),
            # TOML can write inf, but not every reader can take it; it is the default.
            "solver": {name: value for name, value in self.settings.as_dict().items() if value != float("inf")},
            "output": {"curves": self.output.curves, "points": self.output.points},
        }
        return {name: table for name, table in tables.items() if table}

    @cached_property
    def _varying(self) -> frozenset[str]:
        """Everything that may differ between configurations: what varies, and what is derived from it."""
        varying = set(self.space.names)
        for name, expression in self.derived.items():
            if not varying.isdisjoint(expression.names):
                varying.add(name)
        return frozenset(varying)

    def _parameter(self, name: str) -> "Parameter | None":
        """Find the model's parameter of that name; None for a free or derived name that the model does not have."""
        by_name = {parameter.name: parameter for parameter in self.model.parameters}
        others = (*self.space.names, *self.free_fixed, *self.derived)
        if name not in by_name and name not in others:
            raise unknown("name", name, (*by_name, *others))
        return by_name.get(name)


def study(
    model: "str | Model",
    method: str | None = None,
    *,
    vary: Mapping[str, Any] | None = None,
    set: Mapping[str, Any] | None = None,  # the same word as in the file
    sample: Mapping[str, Any] | None = None,
    cases: Mapping[str, Any] | None = None,
    derive: Mapping[str, str] | None = None,
    require: Mapping[str, Any] | None = None,
    laws: Mapping[str, str] | None = None,
    solver: Mapping[str, Any] | None = None,
    output: Mapping[str, Any] | None = None,
    title: str = "",
) -> Study:
    """Describe a study in Python, with the same tables as in a TOML file.

    study("crutch", vary={"q3": [3, 6], "mu": {"from": 0.5, "to": 1.0, "count": 3}}, set={"dq5": -0.2})
    study("crutch", vary={"E": [1e8, 2e8]}, set={"R": 0.05}, derive={"k_n": "4/3 * E * sqrt(R)"})

    Without a method it is the model's first.
    """
    tables = {
        "study": {"model": model, "title": title} | ({} if method is None else {"method": method}),
        "vary": vary,
        "set": set,
        "sample": sample,
        "cases": cases,
        "derive": derive,
        "require": require,
        "laws": laws,
        "solver": solver,
        "output": output,
    }
    return Study.from_dict({name: table for name, table in tables.items() if table is not None})


def _followed(measured: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The measured motion with its files' places from the root, so that it means the same in a file elsewhere."""
    if "file" not in measured:
        return {"measured": dict(measured)}
    several = isinstance(measured["file"], (list, tuple))
    paths = [(folder / str(file)).resolve() for file in (measured["file"] if several else [measured["file"]])]
    checksum = hashlib.sha256(b"".join(hashlib.sha256(path.read_bytes()).digest() for path in paths)).hexdigest()
    places = [path.as_posix() for path in paths]
    return {"measured": {**measured, "file": places if several else places[0]}, "motion": checksum}


def _find_model(model: Any, measured: Mapping[str, Any] | None, folder: Path) -> "Model":
    from jaxcontact.models.model import Model  # imports jax, which a list of studies can do without

    if isinstance(model, Model):
        return model
    if not isinstance(model, str):
        raise InputError(f"[study] model = {model!r}: a model's name is needed")
    from jaxcontact.models import get_model

    if model.partition(":")[0] in FOLLOWING:
        from jaxcontact.tracked.named import tracked_model

        return tracked_model(model, measured, folder).model
    if measured:
        raise InputError(
            f"[measured] is for models that follow a motion, not for {model}\nallowed: {', '.join(FOLLOWING)}"
        )
    return get_model(model)


def _choices(model: "Model", table: Mapping[str, Any]) -> dict[str, str]:
    """Find the law chosen for each question the model asks; the first one allowed is the default."""
    for name in table:
        if name not in model.choices:
            raise unknown("law", name, model.choices, "[laws]")
    chosen = {name: table.get(name, allowed[0]) for name, allowed in model.choices.items()}
    for name, value in chosen.items():
        if value not in model.choices[name]:
            raise unknown(f"{name} law", value, model.choices[name], "[laws]")
    return chosen


def _settings(table: Mapping[str, Any]) -> Settings:
    check_keys(table, (f.name for f in fields(Settings)), "[solver]")
    for name, value in table.items():
        if name != "stepper" and (isinstance(value, bool) or not isinstance(value, (int, float))):
            raise InputError(f"[solver] {name} = {value!r}: a number is needed")
    if jnp.result_type(float) == jnp.float64:
        return Settings(**table)
    # Rounding to float32 looks like an error that no shorter step cures: below this tolerance steps only get shorter.
    settings = Settings(**{**SINGLE_PRECISION, **table})
    if settings.stepper == "dopri5" and settings.rtol < SINGLE_LEAST_RTOL:
        raise InputError(
            f"[solver] rtol = {settings.rtol:g}: float32 has 7 digits, and steps would shrink without end\n"
            f"allowed: {SINGLE_LEAST_RTOL:g} or more, or float64"
        )
    return settings


def _output(table: Mapping[str, Any]) -> Output:
    check_keys(table, (f.name for f in fields(Output)), "[output]")
    curves = table.get("curves", False)
    if not isinstance(curves, bool):
        raise InputError(f"[output] curves = {curves!r}: true or false is needed")
    points = whole_number(table.get("points", Output.points), "[output] points", least=2)
    if points > MOST_POINTS:
        raise InputError(f"[output] points = {points}: at most {MOST_POINTS} are allowed")
    return Output(curves, points)
