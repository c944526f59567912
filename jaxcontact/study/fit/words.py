"""A fit in words: what a person reads on the screen."""

import math

from jaxcontact.study.fit.fitting import Fit
from jaxcontact.study.fit.profile import Profile
from jaxcontact.study.units import unit_label


def describe_fit(fit: Fit) -> str:
    """Return the answer as text: how it ended, how well it fits, the unknowns with intervals, and what to know."""
    return "\n\n".join([_head(fit), _channels(fit), _unknowns(fit), _findings(fit)])


def _head(fit: Fit) -> str:
    problem, count = fit.problem, len(fit.starts.cost)
    what = ", ".join(channel.name for channel in problem.channels)
    title = problem.title or f"{problem.model.name}: {len(problem.unknowns)} unknowns from {what}"
    samples = f"{problem.sample_count:,} samples, {count:,} start{'s' if count > 1 else ''}"
    steps = int(fit.starts.steps[fit.starts.best])
    return f"{title}\n{samples}; best cost {fit.cost:.6g}, after {steps} steps\n{fit.diagnosis.reason}"


_SEEN = {"m": ("mm", 1e3)}  # units that are easier to read than SI's


def _channels(fit: Fit) -> str:
    weight = fit.problem.body_weight
    rows: list[tuple[str, ...]] = [("CHANNEL", "UNIT", "SAMPLES", "SD", "RMS", "% BW" if weight else "")]
    for channel in fit.problem.channels:
        unit, factor = _SEEN.get(channel.unit, (unit_label(channel.unit), 1.0))
        rms = fit.rms[channel.name]
        share = f"{100 * rms / weight:.2f}" if weight and channel.unit == "N" else ""
        sd = f"{factor * channel.sd[channel.valid].mean():.4g}"
        rows.append((channel.name, unit, f"{channel.count:,}", sd, f"{factor * rms:.4g}", share))
    return aligned(rows)


def _unknowns(fit: Fit) -> str:
    parameters = {p.name: p for p in fit.problem.model.parameters}
    rows: list[tuple[str, ...]] = [("UNKNOWN", "UNIT", "VALUE", "95 % FROM", "TO", "")]
    for each in fit.problem.unknowns:
        low, high = fit.diagnosis.intervals[each.name]
        ends = ["-" if math.isnan(end) else f"{end:.5g}" for end in (low, high)]
        unit = unit_label(parameters[each.name].unit)
        rows.append((each.name, unit, f"{fit.values[each.name]:.5g}", *ends, _note(fit, each.name)))
    return aligned(rows)


def _note(fit: Fit, name: str) -> str:
    """Why there is no interval."""
    if name in fit.diagnosis.unused:
        return "no effect"
    if side := fit.diagnosis.bounds[name]:
        return f"on its {side} bound"
    return "not found from this data" if math.isnan(fit.diagnosis.intervals[name][0]) else ""


def _findings(fit: Fit) -> str:
    return "\n".join(f"- {finding}" for finding in fit.diagnosis.findings)


def aligned(rows: list[tuple[str, ...]]) -> str:
    """Rows of cells as columns, aligned to the left."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def describe_profile(profile: Profile) -> str:
    """Return a profile likelihood as one line."""
    low, high = ("open" if math.isnan(end) else f"{end:.5g}" for end in (profile.low, profile.high))
    return f"profile of {profile.name} ({unit_label(profile.unit)}): {profile.best:.5g}, 95 % from {low} to {high}"
