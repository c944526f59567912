"""A fit as one page of HTML: what was found, how well it explains the data, how sure it is, and where all came from."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxcontact.errors import InputError
from jaxcontact.reports import figures
from jaxcontact.reports.page import (
    bullets,
    folded,
    heading,
    page,
    paragraph,
    picture,
    section,
    shaded_table,
    side_by_side,
    table,
)
from jaxcontact.study.fit.fitting import Fit
from jaxcontact.study.fit.profile import Profile
from jaxcontact.study.fit.solvers import REASONS
from jaxcontact.study.fit.unknowns import Unknown
from jaxcontact.study.units import unit_label
from jaxcontact.study.version import package_version

LONG = 25  # rows: longer tables are folded
IN_WORDS = 12  # unknowns up to which correlations are a table of numbers, not a picture
STRONG = 0.5  # correlations from here on are listed
MOST_LISTED = 30


def write_report(fit: Fit, path: str | Path, *, title: str = "", profiles: Sequence[Profile] = ()) -> None:
    """Write the page. It needs no other file and no network."""
    path = Path(path)
    if not path.absolute().parent.is_dir():
        raise InputError(f"{path} cannot be written: there is no folder {path.parent}")
    try:
        path.write_text(report(fit, title=title, profiles=profiles), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from None


def report(fit: Fit, *, title: str = "", profiles: Sequence[Profile] = ()) -> str:
    """Return the page as text."""
    title = title or fit.problem.title or f"Fit of {fit.problem.model.name}"
    return page(
        title,
        [
            _head(fit, title),
            section("What to know", bullets(fit.diagnosis.findings)),
            section("Measured and computed", _channels(fit), _pictures(fit)),
            section("What was found", _unknowns(fit), _HOW_SURE),
            section("Correlations", *_correlations(fit)),
            section("Starts", *_starts(fit)),
            section("Profiles", *_profiles(profiles)),
            section("Where it comes from", *_provenance(fit)),
        ],
    )


_HOW_SURE = paragraph(
    "Intervals are of 95 %, from the slopes of the residuals at the answer (linearised), and widened where residuals "
    "are larger than their stated sd or alike from sample to sample. On a log scale they are factors. An unknown that "
    "rests on a bound, or that nothing depends on, has none.",
    "dim",
)


# ---------------------------------------------------------------- the answer


def _head(fit: Fit, title: str) -> str:
    problem, told, count = fit.problem, fit.diagnosis, len(fit.starts.cost)
    what = (
        f"Model {problem.model.name} ({problem.method}), {problem.model.summary}. {len(problem.names)} "
        f"unknown{_s(problem.names)} from {problem.sample_count:,} samples of {len(problem.channels)} "
        f"channel{_s(problem.channels)}; {count:,} start{_s(fit.starts.cost)}."
    )
    steps = int(fit.starts.steps[fit.starts.best])
    reason = told.reason[0].upper() + told.reason[1:]
    ended = f"{reason}. Cost {_number(fit.cost)} after {steps} steps of the best start."
    return (
        f"<header>\n{heading(title)}\n{paragraph(what, 'lead')}\n"
        f"{paragraph(ended, 'good' if told.converged else 'bad')}\n</header>"
    )


def _channels(fit: Fit) -> str:
    weight = fit.problem.body_weight
    head = ["channel", "RMS", "unit", *(["% BW"] if weight else []), "sd", "RMS/sd", "samples", "left out"]
    rows = []
    for channel in fit.problem.channels:
        unit, factor = figures.shown_unit(channel.unit)
        rms, sd = factor * fit.rms[channel.name], factor * float(np.sqrt(np.mean(channel.sd[channel.valid] ** 2)))
        share = [f"{100 * rms / weight:.2f}" if channel.unit == "N" else ""] if weight else []
        counts = [f"{channel.count:,}", f"{len(channel.values) - channel.count:,}"]
        rows.append([channel.name, f"{rms:.4g}", unit, *share, f"{sd:.4g}", f"{rms / sd:.2f}", *counts])
    if all(row[-1] == "0" for row in rows):
        head, rows = head[:-1], [row[:-1] for row in rows]
    return table(head, rows, numbers=[name for name in head if name not in ("channel", "unit")])


def _pictures(fit: Fit) -> str:
    meaning = {q.name: q.meaning for q in (*fit.problem.model.curve_outcomes, *fit.problem.model.outcomes)}
    found = []
    for channel in fit.problem.channels:
        if channel.kind != "outcome":
            unit, factor = figures.shown_unit(channel.unit)
            rms = f"{_number(factor * fit.rms[channel.name])} {unit}"
            alt = f"{channel.name}, measured and computed, with an RMS difference of {rms}; below, what is left in sd"
            drawn = figures.draw_channel(fit, channel)
            found.append(picture(drawn, alt, f"{channel.name}: {meaning.get(channel.name, '')}"))
    scalars = [channel for channel in fit.problem.channels if channel.kind == "outcome"]
    rows = [
        (c.name, _number(c.values[0]), _number(fit.predictions[c.name][0]), _number(c.sd[0]), unit_label(c.unit))
        for c in scalars
    ]
    told = table(("outcome", "measured", "computed", "sd", "unit"), rows, numbers=_NUMBERS) if scalars else ""
    if scalars:
        alt = "computed less measured of " + ", ".join(channel.name for channel in scalars) + ", in sd"
        found.append(picture(figures.draw_scalars(fit, scalars), alt, "Outcomes: computed less measured"))
    return told + side_by_side(found)


_NUMBERS = (
    "measured",
    "computed",
    "sd",
    "value",
    "95 % interval",
    "low",
    "high",
    "spread (%)",
    "correlation",
    "starts",
)


def _unknowns(fit: Fit) -> str:
    parameters = {p.name: p for p in fit.problem.model.parameters}
    rows, more = [], []
    for each in fit.problem.unknowns:
        low, high = fit.diagnosis.intervals[each.name]
        parameter = parameters[each.name]
        unit = unit_label(parameter.unit)
        sure = _note(fit, each) or f"{_number(low)} to {_number(high)}"
        rows.append((each.name, _number(fit.values[each.name]), sure, unit))
        ends = _number(each.low), _number(each.high)
        spread = _number(100 * fit.diagnosis.spread[len(more)])
        more.append((each.name, *ends, unit, each.scale, _prior(each), spread, parameter.meaning))
    found = table(("unknown", "value", "95 % interval", "unit"), rows, numbers=_NUMBERS)
    head = ("unknown", "low", "high", "unit", "scale", "prior", "spread (%)", "meaning")
    asked = table(head, more, numbers=_NUMBERS)
    if len(rows) > LONG:
        found = folded(f"All {len(rows)} unknowns with their 95 % intervals", found)
    return (
        found
        + folded("Ranges, scales, priors, spread of the starts at the best place (% of the range), meanings", asked)
        + _others(fit)
    )


def _note(fit: Fit, each: Unknown) -> str:
    """Why there is no interval; nothing if there is one."""
    if each.name in fit.diagnosis.unused:
        return "no effect"
    if side := fit.diagnosis.bounds[each.name]:
        return f"on its {side} bound"
    return "not found from this data" if math.isnan(fit.diagnosis.intervals[each.name][0]) else ""


def _prior(each: Unknown) -> str:
    if each.prior is None:
        return ""
    mean, sd = each.prior
    return f"{_number(mean)}, sd {_number(sd)}" + (" of its logarithm" if each.scale == "log" else "")


def _others(fit: Fit) -> str:
    """What was set or tied; defaults are the model's."""
    problem, stated = fit.problem, fit.stated()
    units = {p.name: unit_label(p.unit) for p in problem.model.parameters}
    rows = [(name, _number(value), units[name], "set by hand") for name, value in problem.fixed.items()]
    rows += [(name, _number(stated[name]), units[name], f"= {formula.text}") for name, formula in problem.tied.items()]
    if not rows:
        return ""
    inside = table(("parameter", "value", "unit", "how"), rows, numbers=_NUMBERS)
    return folded(f"{len(rows)} parameter{_s(rows)} set or tied; all others have their defaults", inside)


# ---------------------------------------------------------------- how sure


def _correlations(fit: Fit) -> list[str]:
    names, values = fit.problem.names, fit.diagnosis.correlation
    if len(names) < 2:
        return []
    pairs = [(values[i, j], names[j], names[i]) for i in range(len(names)) for j in range(i)]
    strong = sorted((pair for pair in pairs if abs(pair[0]) >= STRONG), key=lambda pair: -abs(pair[0]))
    shown = strong[:MOST_LISTED]
    words = paragraph(
        f"{len(strong):,} of {len(pairs):,} pairs are correlated by {STRONG:g} or more, either way"
        + (f"; the {len(shown)} strongest are listed." if len(shown) < len(strong) else "."),
    )
    listed = [(f"{one} and {other}", f"{value:+.3f}") for value, one, other in shown]
    listing = table(("pair", "correlation"), listed, numbers=_NUMBERS) if listed else ""
    listing = folded("The strongest", listing, opened=len(listed) <= 10) if listed else ""
    if len(names) <= IN_WORDS:
        return [shaded_table(names, values, "Correlation of the unknowns, on their scales"), words, listing]
    alt = f"heat map of the correlations of {len(names)} unknowns; the strongest pairs are in the list"
    caption = "Red: rise together; blue: one rises as the other falls; grey: none told"
    return [words, listing, picture(figures.draw_correlation(fit), alt, caption, wide=True)]


def _starts(fit: Fit) -> list[str]:
    starts, told, count = fit.starts, fit.diagnosis, len(fit.starts.cost)
    codes, times = np.unique(starts.reason, return_counts=True)
    rows = [(REASONS[int(code)], f"{int(many):,}") for code, many in zip(codes, times, strict=True)]
    reasons = table(("how they ended", "starts"), rows, numbers=_NUMBERS)
    if count == 1:
        return [paragraph("There was one start: whether others would end elsewhere is not known."), reasons]
    where = "at one place" if told.places == 1 else f"at {told.places} different places"
    words = paragraph(
        f"{told.equals:,} of {count:,} starts ended within 1 % of the best cost, {where}. Spread of those at the best "
        f"place: at most {_number(100 * float(np.max(told.spread)))} % of a range."
    )
    equal = np.zeros(count, bool)
    equal[np.argsort(np.where(np.isfinite(starts.cost), starts.cost, np.inf))[: told.equals]] = True
    names = ", ".join(fit.problem.names)
    costs = picture(figures.draw_costs(fit), f"costs of {count} starts, sorted, at their beginning and end", "Costs")
    only = f" (the best {figures.MOST_STARTS} of {count:,})" if count > figures.MOST_STARTS else ""
    places = picture(
        figures.draw_places(fit, equal),
        f"where the starts ended within the ranges of {names}",
        f"Where they ended{only}",
    )
    if len(fit.problem.names) > LONG:
        return [words, reasons, costs, folded(f"Where they ended, for {len(fit.problem.names)} unknowns", places)]
    return [words, reasons, side_by_side([costs, places])]


def _profiles(profiles: Sequence[Profile]) -> list[str]:
    rows, pictures = [], []
    for each in profiles:
        low, high = ("open" if math.isnan(end) else _number(end) for end in (each.low, each.high))
        rows.append((each.name, _number(each.best), f"{low} to {high}", unit_label(each.unit)))
        alt = f"lowest cost over {each.name}: 95 % from {low} to {high}"
        pictures.append(picture(figures.draw_profile(each), alt, each.name))
    if not rows:
        return []
    words = paragraph("One unknown held, all others fitted again; open: the cost stays below the 95 % line.", "dim")
    return [table(("unknown", "value", "95 % interval", "unit"), rows, numbers=_NUMBERS), words, side_by_side(pictures)]


# ---------------------------------------------------------------- provenance


def _provenance(fit: Fit) -> list[str]:
    problem = fit.problem
    data = list(_flat(problem.source))
    told = table(("data", ""), data, kind="told") if data else paragraph("Nothing was said about the data.")
    if len(data) > LONG:
        told = folded(f"Data: {len(data)} entries", told)
    stages = " → ".join(", ".join(stage) for stage in fit.stages) if len(fit.stages) > 1 else ""
    how = [
        ("model", f"{problem.model.name}: {problem.model.summary}"),
        ("source of the model", problem.model.source),
        ("method", problem.method),
        *((f"law: {name}", value) for name, value in problem.choices.items()),
        *([("body weight", f"{_number(problem.body_weight)} N")] if problem.body_weight else []),
        ("optimiser", ", ".join(f"{name} {value}" for name, value in _fields(fit.optimiser))),
        *([("stages", stages)] if stages else []),
        *((f"solver: {name}", str(value)) for name, value in problem.settings.as_dict().items() if problem.simulated),
        ("made by", f"jaxcontact {package_version()}"),
    ]
    return [told, table(("computation", ""), how, kind="told")]


def _fields(value: Any) -> Iterable[tuple[str, Any]]:
    return value._asdict().items() if hasattr(value, "_asdict") else vars(value).items()


def _flat(value: Mapping[str, Any], before: str = "") -> Iterable[tuple[str, str]]:
    """A nested record as rows."""
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            yield from _flat(inner, f"{before}{key}: ")
        elif isinstance(inner, (list, tuple)):
            yield f"{before}{key}", ", ".join(str(each) for each in inner)
        else:
            yield f"{before}{key}", f"{inner:.6g}" if isinstance(inner, float) else str(inner)


def _number(value: Any) -> str:
    return f"{float(value):.5g}" if math.isfinite(value) else "–"


def _s(things: Any) -> str:
    return "" if len(things) == 1 else "s"
