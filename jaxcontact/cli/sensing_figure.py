"""A picture of a sensitivity analysis: bars for outcomes, and how much each parameter matters along curves."""

import json
import math
from typing import TYPE_CHECKING

import numpy as np

from jaxcontact import plots

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_PANELS, MOST_BARS = 24, 12
COLUMNS = 4
_BARS = {"sobol": ("S1", "ST"), "morris": ("mu_star", "sigma"), "dgsm": ("bound",), "local": ("elasticity",)}
_LABELS = {
    "S1": "first order S1",
    "ST": "total ST",
    "mu_star": "mean |effect| (mu*)",
    "sigma": "standard deviation of the effects",
    "bound": "bound on ST",
    "elasticity": "elasticity",
}


def draw(found: "xr.Dataset", title: str) -> "Figure":
    """Draw an analysis, a panel for each outcome and curve, as many as can be seen."""
    kind = found.attrs["sensitivity"]
    panels = [(draw_bars, name) for name in _scalars(found, kind)] + [
        (draw_curves, name) for name in _curves(found, kind)
    ]
    panels = panels[:MOST_PANELS]
    columns = min(COLUMNS, max(1, len(panels)))
    rows = max(1, math.ceil(len(panels) / columns))
    height = 1.4 + 0.22 * min(found.sizes["parameter"], MOST_BARS)
    figure, axes = plots.new_figure(rows, columns, title, panel=(3.7, max(2.4, height)))
    for panel, (paint, name) in zip(axes.flat, panels, strict=False):
        paint(panel, found, kind, name)
    if len(_BARS[kind]) > 1 and _scalars(found, kind):  # the same key for all bars, outside them
        plots.legend_below(figure, axes.flat[0].get_legend_handles_labels()[0])
    for empty in axes.flat[len(panels) :]:
        empty.set_visible(False)
    return figure


def draw_bars(panel: "Axes", found: "xr.Dataset", kind: str, name: str) -> None:
    """Bars for the parameters of one outcome, the most important on top, with their confidence intervals."""
    values = {key: _values(found, kind, key, name) for key in _BARS[kind]}
    errors = {key: found[f"{key}_conf"].sel(outcome=name).values for key in _BARS[kind] if f"{key}_conf" in found}
    importance = np.abs(
        np.nan_to_num(next(reversed(values.values())) if kind == "sobol" else next(iter(values.values())))
    )
    order = np.argsort(importance, kind="stable")[-MOST_BARS:]
    width = 0.8 / len(values)
    for number, (key, bars) in enumerate(values.items()):
        place = np.arange(len(order)) + (len(values) - 1 - 2 * number) * width / 2
        error = errors.get(key)
        panel.barh(
            place,
            bars[order],
            height=width,
            color=plots.COLOURS[number],
            xerr=None if error is None else error[order],
            error_kw={"elinewidth": 0.8},
            label=_LABELS[key],
        )
    panel.set_yticks(np.arange(len(order)), [str(found["parameter"].values[i]) for i in order], fontsize=8)
    panel.set_title(name, fontsize=10)
    panel.set_xlabel(_axis(found, kind, name), fontsize=8)
    panel.axvline(0.0, color=plots.GREY, linewidth=0.6)


def draw_curves(panel: "Axes", found: "xr.Dataset", kind: str, name: str) -> None:
    """One line for each of the parameters that matter most somewhere along a curve."""
    if kind == "local":
        lines = found[f"dlog_{name}"]
        along = [dim for dim in lines.dims if dim not in ("parameter", "fraction")]
        lines = lines.median(along) if along else lines
        words = f"d {name} / d log p ({found[name].attrs['units']})" + (", median" if along else "")
    else:
        key = {"sobol": "ST", "morris": "mu_star", "dgsm": "bound"}[kind]
        lines = found[f"{key}_curve"].sel(curve=name)
        if "std_curve" in found:  # where a curve does not vary there is nothing to share
            lines = lines.where(found["std_curve"].sel(curve=name) > 0)
        unit = str(found["curve_unit"].sel(curve=name).item()) if kind == "morris" else "1"
        words = f"{_LABELS[key]} ({unit})"
    lines = lines.transpose("parameter", "fraction")
    size = np.nanmax(np.abs(np.nan_to_num(lines.values)), axis=1)
    most = np.argsort(-size, kind="stable")[: len(plots.COLOURS)]
    for number, i in enumerate(sorted(most) if len(size) <= len(plots.COLOURS) else most):  # few have their own colour
        colour, dash = plots.COLOURS[number], plots.DASHES[number]
        panel.plot(found["fraction"], lines[i], color=colour, linestyle=dash, label=str(found["parameter"].values[i]))
    panel.set_title(name, fontsize=10)
    panel.set_xlabel("fraction of the run (1)", fontsize=8)
    panel.set_ylabel(words, fontsize=8)
    panel.legend(fontsize=7)


def _scalars(found: "xr.Dataset", kind: str) -> list[str]:
    """Outcomes that have something to show."""
    if kind == "local":
        names = [str(name)[len("elasticity_") :] for name in found.data_vars if str(name).startswith("elasticity_")]
        return [name for name in names if bool(np.isfinite(found[f"elasticity_{name}"]).any())]
    return _varying(found, "outcome")


def _curves(found: "xr.Dataset", kind: str) -> list[str]:
    """Curves that have something to show."""
    if kind == "local":
        names = [str(name)[len("dlog_") :] for name in found.data_vars if str(name).startswith("dlog_")]
        return [name for name in names if bool((np.abs(found[f"dlog_{name}"]) > 0).any())]
    return _varying(found, "curve")


def _varying(found: "xr.Dataset", dim: str) -> list[str]:
    constant = json.loads(found.attrs["constant"])
    return [str(name) for name in found[dim].values if name not in constant] if dim in found.dims else []


def _values(found: "xr.Dataset", kind: str, key: str, name: str) -> np.ndarray:
    if kind != "local":
        return found[key].sel(outcome=name).values
    values = found[f"elasticity_{name}"]
    along = [dim for dim in values.dims if dim != "parameter"]
    return (values.median(along) if along else values).values


def _axis(found: "xr.Dataset", kind: str, name: str) -> str:
    if kind == "local":
        return "elasticity (1), median" if found["status"].ndim else "elasticity (1)"
    if kind == "morris":
        return f"effect over the whole range ({found['outcome_unit'].sel(outcome=name).item()})"
    return "share of the variance (1)"
