"""Labelled results -> matplotlib axes. Draws what a study found, and never simulates.

Functions take xarray variables that carry units, and draw into axes that they are given, so that a study composes its
own figure. Colours are those of Okabe and Ito, which colour-blind readers can tell apart; every line also has its own
marker or dash, so that a grey print can be read.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

COLOURS = ("#0072B2", "#D55E00", "#000000", "#009E73", "#CC79A7")
MARKERS = ("o", "s", "^", "D", "v")
DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1)), (0, (5, 1.5, 1.2, 1.5)), (0, (8, 1.5, 1.2, 1.5, 1.2, 1.5)))
APPROACH_DASHES: Mapping[str, Any] = {"compliant": "-", "impulsive": (0, (4, 2))}
GREY = "#555555"

# What the papers call our quantities: a + marks the value after impact, a - the one before; a curve has neither.
SYMBOLS: Mapping[str, str] = {
    "q3": "leg angle $q_3^-$",
    "q4": "hip angle $q_4^-$",
    "dq5": r"$\dot q_5^-$",
    "mu": r"friction coefficient $\mu$",
    "mu_c": r"critical friction coefficient $\mu_c$",
    "R": "foot radius $R$",
    "P_n": "$P_n^+$",
    "P_t": "$P_t^+$",
    "W_n": "$W_n^+$",
    "W_t": "$W_t^+$",
    "v_n_foot": "$v_n^+(P)$",
    "v_t_tip": "$v_t^+(Q)$",
    "energy_loss": "energy loss",
    "P_n_curve": "$P_n$",
    "P_t_curve": "$P_t$",
    "W_n_curve": "$W_n$",
    "W_t_curve": "$W_t$",
    "v_n_foot_curve": "$v_n(P)$",
    "v_t_tip_curve": "$v_t(Q)$",
    "F_n": "$F_n$",
    "F_t": "$F_t$",
    "t": "time since touch-down",
}

# Regimes of Crutch Table 2 by code: name, colour (light: sticks, dark: slides) and hatching.
REGIME_STYLES = (
    ("none", "#FFFFFF", ""),
    ("permanent sticking", "#F0E442", ""),
    ("sliding-sticking", "#B5DDF2", "//"),
    ("permanent sliding", "#0072B2", ""),
    ("immediate sliding", "#D55E00", ".."),
    ("sliding reversion", "#CC79A7", "xx"),
)

# Any other code, by value: the first is what has not happened yet or at all, so it stays in the background.
FLAG_COLOURS = ("#BBBBBB", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")


# ---------------------------------------------------------------- figures and labels


def new_figure(rows: int, columns: int, title: str, *, panel: tuple[float, float] = (3.4, 2.7), **options: Any):
    """Return a figure and its axes, an array of shape (rows, columns); `panel` is the size of one in inches."""
    figure = Figure(figsize=(panel[0] * columns, panel[1] * rows + 0.7), layout="constrained")
    figure.suptitle(title, fontsize=11)
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    for each in axes.flat:
        each.grid(True, color="#DDDDDD", linewidth=0.6)
        each.set_axisbelow(True)
    return figure, axes


def axis_label(variable: xr.DataArray, symbol: str | None = None) -> str:
    """Return the paper's symbol for the quantity, with its unit."""
    name = str(variable.name)
    symbol = symbol or SYMBOLS.get(name) or str(variable.attrs.get("long_name", name))
    unit = variable.attrs.get("units", "1")
    return symbol if unit in ("", "1") else f"{symbol} ({raised(unit)})"


def raised(text: str) -> str:
    """Return the text with the exponents of its units raised."""
    return re.sub(r"\^([\d.]+)", r"$^{\1}$", text)


def in_milliseconds(time: xr.DataArray) -> xr.DataArray:
    """Return a time in ms: an impact lasts a few."""
    return (time * 1e3).rename(time.name).assign_attrs(time.attrs, units="ms")


def show_at_least(axes: Axes, span: float) -> None:
    """Widen the y axis to at least `span`, so that rounding errors about zero are not blown up."""
    low, high = axes.get_ylim()
    if high - low < span:
        middle = (low + high) / 2
        axes.set_ylim(middle - span / 2, middle + span / 2)


# ---------------------------------------------------------------- lines


def line(
    axes: Axes,
    x: xr.DataArray,
    y: xr.DataArray,
    *,
    number: int = 0,
    dash: Any = "-",
    marker: str | None = None,
    open_marker: bool = False,
    every: Any = None,
    label: str | None = None,
) -> None:
    """Draw y against x in the colour of that number, and label both axes. `every` thins the markers."""
    axes.plot(
        x.values,
        y.values,
        color=COLOURS[number],
        linestyle=dash,
        linewidth=1.3,
        marker=marker,
        markersize=4,
        markerfacecolor="white" if open_marker else COLOURS[number],
        markevery=every,
        label=label,
    )
    axes.set_xlabel(axis_label(x))
    axes.set_ylabel(axis_label(y))


def compare_approaches(
    axes: Axes, results: xr.Dataset, name: str, *, x: str, by: str | None = None, every: int | None = None
) -> None:
    """Draw an outcome or a curve against `x`: compliant solid, impulsive dashed, and a colour per value of `by`.

    Every so many points there is a marker, full or open; those of the two approaches alternate where lines coincide.
    Without `by`, each approach has its own colour.
    """
    for approach in results["approach"].values:
        one = results.sel(approach=approach)
        impulsive = approach == "impulsive"
        for number in range(one.sizes[by]) if by else [int(impulsive)]:
            part = one.isel({by: number}) if by else one
            line(
                axes,
                part[x],
                part[name],
                number=number,
                dash=APPROACH_DASHES[str(approach)],
                marker=MARKERS[number] if every else None,
                open_marker=impulsive,
                every=(every // 2 if impulsive else 0, every) if every else None,
            )


def by_handles(values: Iterable[Any], text: str = "{}") -> list[Line2D]:
    """Legend entries for the colours and markers of `compare_approaches`; `text` formats a value."""
    return [
        Line2D([], [], color=COLOURS[i], marker=MARKERS[i], markersize=4, label=text.format(value))
        for i, value in enumerate(values)
    ]


def approach_handles(*, coloured: bool = False) -> list[Line2D]:
    """Legend entries for the approaches; `coloured` if `compare_approaches` was called without `by`."""
    style = {"marker": None if coloured else "o", "markersize": 4}
    colours = COLOURS if coloured else (GREY, GREY)
    return [
        Line2D([], [], color=colours[i], linestyle=dash, markerfacecolor=face, label=name, **style)
        for i, ((name, dash), face) in enumerate(zip(APPROACH_DASHES.items(), (GREY, "white"), strict=True))
    ]


def legend_below(figure: Figure, handles: Sequence[Any], *, columns: int | None = None) -> None:
    """Put one legend for all panels under them."""
    figure.legend(handles=handles, loc="outside lower center", ncols=columns or len(handles), frameon=False, fontsize=9)


def reference_lines(axes: Axes, values: Iterable[float], text: str) -> None:
    """Draw dotted horizontal lines, each named at its right end."""
    for value in values:
        axes.axhline(value, color=GREY, linestyle=":", linewidth=1.2)
        axes.annotate(
            text.format(value),
            (1.0, value),
            xycoords=("axes fraction", "data"),
            xytext=(-4, 3),
            textcoords="offset points",
            ha="right",
            fontsize=9,
            color=GREY,
        )


# ---------------------------------------------------------------- maps


def even_in_log(values: np.ndarray) -> bool:
    """Say whether an axis belongs on a log scale: its steps are about even in the logarithm, less so in the value."""
    values = np.unique(values)
    if len(values) < 3 or values[0] <= 0 or values[-1] < 3 * values[0]:
        return False  # over less than that, the two scales look the same

    def unevenness(steps: np.ndarray) -> float:
        return float(steps.max() / steps.min())

    in_log = unevenness(np.diff(np.log(values)))
    return in_log < 1.5 and in_log < unevenness(np.diff(values))


def cell_edges(values: np.ndarray, *, log: bool = False) -> np.ndarray:
    """Return the edges of cells about sorted values: half-way between neighbours, on the scale of the axis."""
    places = np.log(values) if log else np.asarray(values, dtype=float)
    middles = (places[1:] + places[:-1]) / 2
    first, last = (places[0] - middles[0], places[-1] - middles[-1]) if len(middles) else (-0.5, 0.5)
    edges = np.concatenate([[places[0] + first], middles, [places[-1] + last]])
    return np.exp(edges) if log else edges


def heat_map(axes: Axes, values: xr.DataArray, *, x: str, y: str, **options: Any) -> QuadMesh:
    """Colour the plane of two parameters, each axis sorted and on its own scale, and return the cells."""
    values = values.sortby([x, y]).transpose(y, x)
    logs = {name: even_in_log(values[name].values) for name in (x, y)}
    edges = (cell_edges(values[name].values, log=logs[name]) for name in (x, y))
    mesh = axes.pcolormesh(*edges, values.values, rasterized=True, **options)
    axes.set_xscale("log" if logs[x] else "linear")
    axes.set_yscale("log" if logs[y] else "linear")
    axes.set_xlabel(axis_label(values[x]))
    axes.set_ylabel(axis_label(values[y]))
    return mesh


def flag_styles(variable: xr.DataArray) -> tuple[tuple[str, str, str], ...]:
    """Return name, colour and hatching of each value of a code that counts from 0, as it says itself (CF flags)."""
    names = str(variable.attrs.get("flag_meanings", "")).split()
    if variable.name == "regime" and len(names) == len(REGIME_STYLES):
        return tuple((name.replace("_", " "), *style[1:]) for name, style in zip(names, REGIME_STYLES, strict=True))
    return tuple(
        (name.replace("_", " "), FLAG_COLOURS[i % len(FLAG_COLOURS)], "/" * (3 * (i // len(FLAG_COLOURS))))
        for i, name in enumerate(names)
    )


def flag_map(axes: Axes, codes: xr.DataArray, *, x: str, y: str, styles: Sequence[tuple[str, str, str]]) -> QuadMesh:
    """Colour and hatch the plane of two parameters by a code; what has none of the styles (NaN, -1) stays blank."""
    codes = codes.sortby([x, y]).transpose(y, x)
    known = codes.where((codes >= 0) & (codes < len(styles)))
    palette = ListedColormap([colour for _, colour, _ in styles])
    mesh = heat_map(axes, known, x=x, y=y, cmap=palette, vmin=-0.5, vmax=len(styles) - 0.5)
    for code, (_, _, hatch) in enumerate(styles):
        if hatch and np.any(codes == code) and min(codes.shape) > 1:
            axes.contourf(codes[x], codes[y], codes == code, levels=[0.5, 1.5], colors="none", hatches=[hatch])
    return mesh


def flag_handles(codes: Iterable[float], styles: Sequence[tuple[str, str, str]]) -> list[Patch]:
    """Legend entries for the values of a code that occur."""
    found = (styles[int(code)] for code in sorted(set(codes)) if 0 <= code < len(styles))
    return [Patch(facecolor=colour, edgecolor="black", hatch=hatch, label=name) for name, colour, hatch in found]


def regime_map(axes: Axes, regime: xr.DataArray, *, x: str, y: str) -> None:
    """Colour and hatch the plane of two parameters by the regime of the impact (Crutch Table 2)."""
    flag_map(axes, regime, x=x, y=y, styles=REGIME_STYLES)


def regime_handles(codes: Iterable[int]) -> list[Patch]:
    """Legend entries for the regimes that occur."""
    return flag_handles(codes, REGIME_STYLES)
