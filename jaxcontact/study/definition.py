"""One study: a model, a method, a space of configurations and how to solve them, checked before anything is run."""

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxcontact.errors import InputError, unknown
from jaxcontact.integrate.settings import Settings
from jaxcontact.study.checks import check_keys, whole_number
from jaxcontact.study.parse import parse_space
from jaxcontact.study.space import Space

if TYPE_CHECKING:
    from jaxcontact.models.model import Model

TABLES = ("study", "vary", "set", "sample", "cases", "laws", "solver", "output")


MOST_POINTS = 100_000  # of a curve; more than any plot can show


@dataclass(frozen=True)
class Output:
    """What to keep besides the scalar outcomes: time histories, at `points` evenly spaced fractions of each run."""

    curves: bool = False
    points: int = 201


@dataclass(frozen=True)
class Study:
    """A checked description of a study. Make one with `study(...)`, `Study.from_file` or `Study.from_dict`."""

    model: "Model"
    method: str
    choices: Mapping[str, str]  # every choice of law, defaults included
    space: Space
    fixed: Mapping[str, float]  # what was set by hand, in stated units
    settings: Settings
    output: Output
    title: str = ""

    @classmethod
    def from_file(cls, path: str | Path) -> "Study":
        """Read a TOML file."""
        path = Path(path)
        try:
            tables = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InputError(f"there is no file {path}") from None
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path} cannot be read: {error}") from None
        except tomllib.TOMLDecodeError as error:  # its text ends with the line and column
            raise InputError(f"{path} is not valid TOML: {error}") from None
        return cls.from_dict(tables, where=str(path), folder=path.parent)

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
        model = _find_model(head["model"])
        method = head.get("method", "compliant")
        if method not in model.methods:
            raise unknown("method", method, model.methods, "[study]")
        space, fixed, _ = parse_space(
            model.parameters,
            vary=tables.get("vary"),
            fixed=tables.get("set"),
            sample=tables.get("sample"),
            cases=tables.get("cases"),
            folder=Path(folder),
        )
        return cls(
            model=model,
            method=method,
            choices=_choices(model, tables.get("laws", {})),
            space=space,
            fixed=fixed,
            settings=_settings(tables.get("solver", {})),
            output=_output(tables.get("output", {})),
            title=str(head.get("title", "")),
        )

    def constants(self) -> dict[str, float]:
        """Return every parameter that does not vary, set or default, in stated units."""
        varied = set(self.space.names)
        return {p.name: self.fixed.get(p.name, p.default) for p in self.model.parameters if p.name not in varied}

    def fingerprint(self) -> str:
        """Return a checksum of everything that determines the results. Titles and the spelling of units do not."""
        record = {
            "model": self.model.name,
            "method": self.method,
            "choices": dict(self.choices),
            "space": self.space.describe(),
            "constants": self.constants(),
            "settings": self.settings.as_dict(),
            "output": {"curves": self.output.curves, "points": self.output.points if self.output.curves else 0},
        }
        return hashlib.sha256(json.dumps(record, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def study(
    model: "str | Model",
    method: str = "compliant",
    *,
    vary: Mapping[str, Any] | None = None,
    set: Mapping[str, Any] | None = None,  # the same word as in the file
    sample: Mapping[str, Any] | None = None,
    cases: Mapping[str, Any] | None = None,
    laws: Mapping[str, str] | None = None,
    solver: Mapping[str, Any] | None = None,
    output: Mapping[str, Any] | None = None,
    title: str = "",
) -> Study:
    """Describe a study in Python, with the same tables as in a TOML file.

    study("crutch", vary={"q3": [3, 6], "mu": {"from": 0.5, "to": 1.0, "count": 3}}, set={"dq5": -0.2})
    """
    tables = {
        "study": {"model": model, "method": method, "title": title},
        "vary": vary,
        "set": set,
        "sample": sample,
        "cases": cases,
        "laws": laws,
        "solver": solver,
        "output": output,
    }
    return Study.from_dict({name: table for name, table in tables.items() if table is not None})


def _find_model(model: Any) -> "Model":
    from jaxcontact.models.model import Model  # imports jax, which a list of studies can do without

    if isinstance(model, Model):
        return model
    if not isinstance(model, str):
        raise InputError(f"[study] model = {model!r}: a model's name is needed")
    from jaxcontact.models import get_model

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
    return Settings(**table)


def _output(table: Mapping[str, Any]) -> Output:
    check_keys(table, (f.name for f in fields(Output)), "[output]")
    curves = table.get("curves", False)
    if not isinstance(curves, bool):
        raise InputError(f"[output] curves = {curves!r}: true or false is needed")
    points = whole_number(table.get("points", Output.points), "[output] points", least=2)
    if points > MOST_POINTS:
        raise InputError(f"[output] points = {points}: at most {MOST_POINTS} are allowed")
    return Output(curves, points)
