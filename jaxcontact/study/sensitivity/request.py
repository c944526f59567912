"""What a study file asks about sensitivity, in its table [sensitivity], and the analysis that answers it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import xarray as xr

from jaxcontact.errors import InputError, unknown
from jaxcontact.study.checks import check_keys, checked_table
from jaxcontact.study.definition import Study
from jaxcontact.study.execute import Executor
from jaxcontact.study.sensitivity import screening, variance
from jaxcontact.study.sensitivity.gradients import dgsm
from jaxcontact.study.sensitivity.local import local
from jaxcontact.study.sensitivity.slopes import Progress
from jaxcontact.study.toml import read_toml

KINDS = ("local", "sobol", "morris", "dgsm")
DESIGNS = {"sobol": "saltelli", "morris": "morris"}  # the [sample] method that an analysis needs


@dataclass(frozen=True)
class Request:
    """The table [sensitivity]; None means the default of the analysis."""

    kind: str = "local"
    by: list[str] | None = None
    outcomes: list[str] | None = None
    curves: bool | None = None
    at: str | None = None
    resamples: int | None = None
    confidence: float | None = None

    def options(self) -> dict[str, Any]:
        """What was asked, for the analysis of this kind; what it cannot use is refused."""
        usable = {
            "local": ("by", "outcomes", "curves", "at"),
            "dgsm": ("by", "outcomes", "curves", "resamples", "confidence"),
        }.get(self.kind, ("outcomes", "curves", "resamples", "confidence"))
        given = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "kind"}
        given = {name: value for name, value in given.items() if value is not None}
        for name in given:
            if name not in usable:
                hint = "; a Sobol or Morris analysis is over all of [vary]" if name == "by" else ""
                raise InputError(
                    f'[sensitivity] {name} has no meaning for kind = "{self.kind}"{hint}\nallowed: {", ".join(usable)}'
                )
        return given


def read_request(path: str | Path) -> tuple[Study, Request]:
    """Read a study file with a table [sensitivity]; without one, all its derivatives are meant.

    Where [sample] names no method it is the one that the analysis needs.
    """
    tables, path = read_toml(path), Path(path)
    request = parse_request(tables.pop("sensitivity", None), tables)
    sample = tables.get("sample")
    if isinstance(sample, Mapping) and "method" not in sample and request.kind in DESIGNS:
        tables["sample"] = {**sample, "method": DESIGNS[request.kind]}
    return Study.from_dict(tables, where=str(path), folder=path.parent), request


def parse_request(table: Any, tables: Mapping[str, Any]) -> Request:
    """Check the table [sensitivity]. Its kind is local, unless [sample] has the design of another."""
    table = checked_table(table, "[sensitivity]")
    check_keys(table, (f.name for f in fields(Request)), "[sensitivity]")
    sample = tables.get("sample")
    method = sample.get("method") if isinstance(sample, Mapping) else None
    usual = next((kind for kind, design in DESIGNS.items() if design == method), "local")
    kind = table.get("kind", usual)
    if kind not in KINDS:
        raise unknown("kind", kind, KINDS, "[sensitivity]")
    request = Request(**{**table, "kind": kind})
    request.options()
    return request


def keeps_runs(study: Study, request: Request) -> bool:
    """Whether an analysis saves its runs as it goes; then it is checked here, before any place is made for them."""
    if request.kind not in DESIGNS:
        return False
    prepare = {"sobol": variance.prepare, "morris": screening.prepare}[request.kind]
    prepare(study, **request.options())
    return True


def analyse(
    study: Study,
    request: Request,
    *,
    out: str | Path | None = None,
    fresh: bool = False,
    chunk: int | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
    notice: Callable[[str], None] = lambda text: None,
) -> xr.Dataset:
    """Do the analysis that was asked for. `out` is where the runs of a Sobol or Morris analysis are kept."""
    if request.kind in DESIGNS:
        analysis = {"sobol": variance.sobol, "morris": screening.morris}[request.kind]
        where = {"out": out, "fresh": fresh, "chunk": chunk, "notice": notice}
        return analysis(study, **request.options(), **where, executor=executor, progress=progress)
    analysis = {"local": local, "dgsm": dgsm}[request.kind]
    return analysis(study, **request.options(), executor=executor, progress=progress)
