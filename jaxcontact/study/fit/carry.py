"""Carry a fit away: as a study that `jaxcontact run` computes again, and as contacts of other tools.

The study is the fitted model itself, to the last digit. OpenSim and MuJoCo have laws of their own: what they are told
is the nearest that they know, with the difference beside it (see `opensim`, `mujoco`).
"""

import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxcontact.errors import InputError
from jaxcontact.models import get_model
from jaxcontact.study.definition import FOLLOWING
from jaxcontact.study.fit.comparison import Carried
from jaxcontact.study.fit.fitting import Fit
from jaxcontact.study.fit.mujoco import to_mujoco
from jaxcontact.study.fit.opensim import to_opensim
from jaxcontact.study.toml import write_toml
from jaxcontact.study.units import unit_label
from jaxcontact.study.version import package_version

__all__ = ["Carried", "to_mujoco", "to_opensim", "to_toml"]


def to_toml(fit: Fit, *, path: str | Path | None = None, folder: str | Path = ".") -> str:
    """Write the fitted model as a study: `jaxcontact run` then gives its outcomes, and curves at the fit's moments.

    `path` is where the text will lie, `folder` where paths in the fit's own file begin: a measured motion is found
    from the new place. Without `path` the text belongs into `folder`. What was fitted to is told in comments only.
    """
    problem = fit.problem
    model = problem.model.name
    found = {name: float(fit.values[name]) for name in problem.names}
    fixed = {name: float(value) for name, value in problem.fixed.items()}
    head = {"model": _model_name(model), "method": problem.method}
    head |= {"title": problem.title} if problem.title else {}
    blocks = [
        _comments(_head(fit)),
        write_toml({"study": head}),
        _measured(fit, path, Path(folder)),
        _set(fit, found, fixed),
        _table("derive", {name: formula.text for name, formula in problem.tied.items()}, "tied in the fit"),
        _table("laws", dict(problem.choices)),
        _table("solver", _solver(fit)),
        _table("output", _output(fit), "the moments that the fit has"),
    ]
    return "\n".join(block for block in blocks if block)


def _output(fit: Fit) -> dict[str, Any]:
    """Curves, where the fit has any."""
    curves = any(channel.kind != "outcome" for channel in fit.problem.channels)
    return {"curves": True, "points": fit.problem.points} if curves else {}


def _solver(fit: Fit) -> dict[str, Any]:
    """Settings of the solver, where there is one. TOML can write inf, but not every reader takes it: the default."""
    settings = fit.problem.settings.as_dict()
    return {name: value for name, value in settings.items() if value != math.inf} if fit.problem.simulated else {}


def _model_name(name: str) -> str:
    """The name under which `run` finds the same model; a layout's file is found from anywhere."""
    kind, _, layout = name.partition(":")
    if layout.endswith(".csv"):
        name = f"{kind}:{Path(layout).resolve().as_posix()}"
    if kind not in FOLLOWING:
        try:
            get_model(name)
        except InputError as error:
            raise InputError(f"`jaxcontact run` does not know the model of this fit: {error}") from None
    return name


# ---------------------------------------------------------------- what the comments say


def _head(fit: Fit) -> list[str]:
    problem, told = fit.problem, fit.diagnosis
    lines = [
        f"Found by jaxcontact {package_version()}: {problem.title or problem.model.name}",
        "`jaxcontact run` on this file gives the fit's outcomes, and its curves at the fit's own moments.",
        "",
        "Fitted to, with the root-mean-square difference that is left:",
    ]
    for channel in problem.channels:
        unit = "" if unit_label(channel.unit) == "1" else f" {unit_label(channel.unit)}"
        left_out = len(channel.values) - channel.count
        lines.append(
            f"  {channel.name}: {fit.rms[channel.name]:.4g}{unit} over {channel.count:,} samples"
            + (f"; {left_out:,} did not count" if left_out else "")
        )
    if problem.model.name.partition(":")[0] in FOLLOWING:
        lines.append("What was measured of these is not needed here: the run follows the motion of [measured] alone.")
    else:
        where = f" ({', '.join(f'{key}: {value}' for key, value in problem.source.items())})" if problem.source else ""
        lines.append(f"What was measured{where} is not needed here: the run computes what the model says.")
    lines += ["", told.reason, *told.findings]
    return lines


def _comments(lines: Sequence[str]) -> str:
    return "\n".join(f"# {_one_line(line)}".rstrip() for line in lines) + "\n"


def _one_line(text: str) -> str:
    """What may stand in a comment: neither line breaks nor control characters."""
    return re.sub(r"[\x00-\x1f\x7f\x85\u2028\u2029]+", " ", text)


# ---------------------------------------------------------------- tables


def _table(name: str, values: Mapping[str, Any], why: str = "") -> str:
    if not values:
        return ""
    first, rest = write_toml({name: values}).split("\n", 1)
    return f"{first}  # {why}\n{rest}" if why else f"{first}\n{rest}"


def _set(fit: Fit, found: Mapping[str, float], fixed: Mapping[str, float]) -> str:
    """What was found, each with its interval, and what was set by hand; all others have their defaults."""
    units = {p.name: unit_label(p.unit) for p in fit.problem.model.parameters}
    values = {**found, **fixed}
    lines = write_toml({"set": values}).splitlines()
    notes = ["parameters that are not here have their defaults"]
    notes += [_interval(fit, name, units[name]) for name in found]
    notes += [f"{units[name]}, given" for name in fixed]
    return "\n".join(f"{line}  # {_one_line(note)}" for line, note in zip(lines, notes, strict=True)) + "\n"


def _interval(fit: Fit, name: str, unit: str) -> str:
    told = fit.diagnosis
    low, high = told.intervals[name]
    if name in told.unused:
        return f"{unit}; nothing that was measured depends on it"
    if told.bounds[name]:
        return f"{unit}; rests on its {told.bounds[name]} bound"
    if math.isnan(low) or math.isnan(high):
        return f"{unit}; not found from this data"
    return f"{unit}; 95 % from {low:.6g} to {high:.6g}"


def _measured(fit: Fit, path: str | Path | None, folder: Path) -> str:
    """The motion that the model follows, its files found from where the text will lie."""
    problem = fit.problem
    if problem.model.name.partition(":")[0] not in FOLLOWING:
        return ""
    if "measured" not in problem.source:
        raise InputError(
            f"model {problem.model.name} follows a motion that was made in Python, and no file can name it\n"
            "allowed: motions that are read by [measured], or from Python by tracked.named.tracked_model"
        )
    table = dict(problem.source["measured"])
    if path is not None:
        files = table["file"] if isinstance(table["file"], (list, tuple)) else [table["file"]]
        moved = [_seen_from(Path(path).parent, folder / str(file)) for file in files]
        table["file"] = moved if isinstance(table["file"], (list, tuple)) else moved[0]
    return _table("measured", table, "as in the fit; paths begin where this file lies")


def _seen_from(folder: Path, file: Path) -> str:
    try:
        return Path(os.path.relpath(file.resolve(), folder.resolve())).as_posix()
    except ValueError:  # another drive
        return file.resolve().as_posix()
