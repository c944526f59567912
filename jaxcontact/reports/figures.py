"""Pictures of a fit: measured and computed, what is left, where the starts ended, correlations, profiles.

Each function returns a figure and draws what it is given. The panels of a page are narrow, so that a phone can show
them; `draw_channels` has all channels in one.
"""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from jaxcontact import plots
from jaxcontact.study.fit.channels import Channel
from jaxcontact.study.fit.fitting import Fit
from jaxcontact.study.fit.profile import Profile
from jaxcontact.study.units import unit_label

WIDTH = 5.0  # inches, of a panel on a page
MOST_STARTS = 300  # drawn, of each unknown
_NORMAL_95 = 1.96


def shown_unit(unit: str) -> tuple[str, float]:
    """In which unit a channel is told, and the factor to it: lengths in mm, others as they are."""
    return ("mm", 1e3) if unit == "m" else (unit_label(unit), 1.0)


def draw_channels(fit: Fit) -> Figure:
    """All channels, measured and computed, with what is left of each beside it."""
    curves = [channel for channel in fit.problem.channels if channel.kind != "outcome"]
    scalars = [channel for channel in fit.problem.channels if channel.kind == "outcome"]
    title = fit.problem.title or f"fit of {fit.problem.model.name}"
    figure, axes = plots.new_figure(len(curves) + bool(scalars), 2, title, panel=(4.4, 2.3))
    for row, channel in zip(axes, curves, strict=False):
        _values(row[0], fit, channel)
        _residuals(row[1], fit, channel)
    if scalars:
        _scalars(axes[-1, 0], fit, scalars)
        axes[-1, 1].set_visible(False)
    return figure


def draw_channel(fit: Fit, channel: Channel) -> Figure:
    """One curve for a page: above measured and computed, below what is left, in standard deviations."""
    figure = Figure(figsize=(WIDTH, 4.2), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2.2, 1))
    for axes in (upper, lower):
        axes.grid(True, color="#DDDDDD", linewidth=0.6)
    _values(upper, fit, channel)
    _residuals(lower, fit, channel)
    upper.set_xlabel("")
    return figure


def draw_scalars(fit: Fit, channels: list[Channel]) -> Figure:
    """Scalar outcomes: how far computed is from measured, in standard deviations."""
    figure = Figure(figsize=(WIDTH, 1.2 + 0.3 * len(channels)), layout="constrained")
    axes = figure.subplots()
    axes.grid(True, color="#DDDDDD", linewidth=0.6)
    _scalars(axes, fit, channels)
    return figure


def _along(channel: Channel) -> tuple[np.ndarray, str]:
    """Where the samples are, and what that is called."""
    if channel.times is not None:
        short = channel.times[-1] < 0.5
        return channel.times * (1e3 if short else 1.0), f"time ({'ms' if short else 's'})"
    return np.linspace(0.0, 100.0, len(channel.values)), "part of the run (%)"


def _named(channel: Channel) -> str:
    unit, _ = shown_unit(channel.unit)
    return channel.name if unit == "1" else f"{channel.name} ({plots.raised(unit)})"


def _values(axes: Axes, fit: Fit, channel: Channel) -> None:
    x, label = _along(channel)
    _, factor = shown_unit(channel.unit)
    measured, sd = factor * np.where(channel.valid, channel.values, np.nan), factor * channel.sd
    axes.fill_between(x, measured - sd, measured + sd, color="0.85", linewidth=0, label="± sd")
    axes.plot(x, measured, color="0.45", linewidth=2.6, label="measured", marker=_dots(channel), markersize=3)
    axes.plot(x, factor * fit.predictions[channel.name], color=plots.COLOURS[0], linewidth=1.3, label="computed")
    axes.set_xlabel(label)
    axes.set_ylabel(_named(channel))
    axes.legend(fontsize=8, framealpha=0.8)
    axes.margins(x=0.01)


def _dots(channel: Channel) -> str | None:
    """Single samples between gaps make no line."""
    return "o" if len(channel.values) < 30 or channel.count < 0.5 * len(channel.values) else None


def _residuals(axes: Axes, fit: Fit, channel: Channel) -> None:
    x, label = _along(channel)
    left = np.where(channel.valid, (fit.predictions[channel.name] - channel.values) / channel.sd, np.nan)
    axes.axhspan(-_NORMAL_95, _NORMAL_95, color="#E8EEF4", linewidth=0)
    axes.axhline(0.0, color=plots.GREY, linewidth=0.8)
    axes.plot(x, left, color=plots.COLOURS[1], linewidth=1.1, marker="o", markersize=1.8)
    axes.set_xlabel(label)
    axes.set_ylabel("residual (sd)")
    axes.margins(x=0.01)


def _scalars(axes: Axes, fit: Fit, channels: list[Channel]) -> None:
    left = [float((fit.predictions[c.name][0] - c.values[0]) / c.sd[0]) for c in channels]
    axes.axvspan(-_NORMAL_95, _NORMAL_95, color="#E8EEF4", linewidth=0)
    axes.axvline(0.0, color=plots.GREY, linewidth=0.8)
    axes.plot(left, range(len(left)), "o", color=plots.COLOURS[1])
    axes.set_yticks(range(len(left)), [channel.name for channel in channels])
    axes.set_ylim(len(left) - 0.5, -0.5)
    axes.set_xlabel("computed − measured (sd)")


# ---------------------------------------------------------------- starts


def draw_costs(fit: Fit) -> Figure:
    """Costs of all starts, the best first: a flat beginning is an answer that many starts agree on."""
    cost = np.sort(np.where(np.isfinite(fit.starts.cost), fit.starts.cost, np.inf))
    first = np.sort(np.where(np.isfinite(fit.starts.first_cost), fit.starts.first_cost, np.inf))
    figure = Figure(figsize=(WIDTH, 2.8), layout="constrained")
    axes = figure.subplots()
    axes.grid(True, color="#DDDDDD", linewidth=0.6)
    rank = np.arange(1, len(cost) + 1)
    for values, colour, label, shape in (
        (first, "0.6", "where they began", "."),
        (cost, plots.COLOURS[0], "where they ended", "o"),
    ):
        shown = np.isfinite(values)
        axes.plot(rank[shown], values[shown], shape, color=colour, markersize=4, label=label)
    both = np.concatenate([cost, first])
    if np.all(both[np.isfinite(both)] > 0):
        axes.set_yscale("log")
    axes.set_xlabel("starts, the best first")
    axes.set_ylabel("cost (Lopes eq. 3)")
    axes.legend(fontsize=8)
    return figure


def draw_places(fit: Fit, equal: np.ndarray) -> Figure:
    """Where the starts ended in the range of each unknown; `equal` (starts,) are those about as good as the best."""
    names = fit.problem.names
    parts = 0.5 + 0.5 * np.sin(fit.starts.last)
    order = np.argsort(fit.starts.cost)[:MOST_STARTS]
    figure = Figure(figsize=(WIDTH, 1.1 + 0.24 * len(names)), layout="constrained")
    axes = figure.subplots()
    axes.grid(True, axis="x", color="#DDDDDD", linewidth=0.6)
    rows = np.arange(len(names))
    kinds = (("others", order[~equal[order]], "0.7", 0.17), ("as good as the best", order[equal[order]], "C0", -0.17))
    for label, chosen, colour, shift in kinds:
        x, y = parts[chosen].ravel(), np.tile(rows + shift, len(chosen))
        colour = plots.COLOURS[0] if colour == "C0" else colour
        # As points of a picture: thousands of marks would make a page of megabytes.
        style = {"color": colour, "markersize": 6, "markeredgewidth": 1.0, "rasterized": True}
        axes.plot(x, y, "|", label=label if len(chosen) else None, **style)
    axes.plot(parts[fit.starts.best], rows, "o", color=plots.COLOURS[1], markersize=4, label="best")
    axes.set_yticks(rows, names, fontsize=8)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(-0.02, 1.02)
    axes.set_xticks([0, 0.5, 1], ["low bound", "middle of the range", "high bound"], fontsize=8)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=8, frameon=False)
    return figure


# ---------------------------------------------------------------- correlations and profiles


def draw_correlation(fit: Fit) -> Figure:
    """Correlations of the unknowns as a heat map; blank where an unknown has none."""
    names, values = fit.problem.names, fit.diagnosis.correlation
    size = 0.16 * len(names) + 1.6
    figure = Figure(figsize=(size + 0.6, size), layout="compressed")
    axes = figure.subplots()
    image = axes.imshow(np.where(np.eye(len(names), dtype=bool), np.nan, values), cmap="RdBu_r", vmin=-1, vmax=1)
    axes.set_facecolor("0.93")
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.tick_params(length=2)
    figure.colorbar(image, ax=axes, label="correlation", shrink=min(1.0, 6.0 / size))
    return figure


def draw_profile(profile: Profile) -> Figure:
    """The lowest cost at each value of one unknown, and the cost up to which it is within its interval."""
    figure = Figure(figsize=(WIDTH, 2.8), layout="constrained")
    axes = figure.subplots()
    axes.grid(True, color="#DDDDDD", linewidth=0.6)
    axes.plot(profile.values, profile.cost, "o-", color=plots.COLOURS[0], markersize=3.5, linewidth=1.2)
    axes.axhline(profile.threshold, color=plots.GREY, linestyle="--", linewidth=1.0, label="95 %")
    axes.axvline(profile.best, color=plots.COLOURS[1], linewidth=1.2, label="answer")
    if profile.values[0] > 0 and profile.values[-1] > 10 * profile.values[0]:
        axes.set_xscale("log")
    else:
        axes.xaxis.set_major_locator(MaxNLocator(5))
    unit = unit_label(profile.unit)
    axes.set_xlabel(profile.name if unit == "1" else f"{profile.name} ({plots.raised(unit)})")
    axes.set_ylabel("lowest cost")
    axes.legend(fontsize=8)
    return figure
