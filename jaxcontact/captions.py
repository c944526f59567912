"""Words and numbers on a figure: panels with their title, labels with units, ticks, legends of lines."""

import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogFormatterSciNotation, LogLocator, NullFormatter, ScalarFormatter

from jaxcontact import plots
from jaxcontact.study.parts import linked_names, value_text

LABEL = 28  # characters in a line of a label, to fit the side of a panel


def new_panels(lines: Sequence[str], rows: int, columns: int = 0, *, share: Any = False, share_x: Any = True):
    """Return a figure with a row per outcome if there are columns, and otherwise a panel per outcome."""
    options: dict[str, Any] = {"panel": (2.9, 2.3), "sharex": share_x, "sharey": share}
    count = rows * max(columns, 1)
    if columns <= 1:
        columns = {1: 1, 2: 2, 3: 3, 4: 2}.get(rows, 3)
        rows = -(-rows // columns)
        options = {"panel": (5.6, 3.8) if count == 1 else (4.0, 2.9)}
    width = options["panel"][0] * columns
    wrapped = [text for line in lines for text in textwrap.wrap(line, int(11 * width))]
    figure, axes = plots.new_figure(rows, columns, plots.raised("\n".join(wrapped)), **options)
    figure.set_figheight(figure.get_figheight() + 0.2 * (len(wrapped) - 1))
    for spare in axes.flat[count:]:
        spare.set_visible(False)
    for panel in axes.flat:
        panel.tick_params(labelsize=9)
        panel.xaxis.label.set_size(9)
        panel.yaxis.label.set_size(9)
    return figure, axes


def label(variable: xr.DataArray) -> str:
    """Return the name that a study uses, the meaning and the unit, in lines that fit a panel."""
    meaning = str(variable.attrs.get("long_name", ""))
    name = str(variable.name)
    told = re.match(rf"{re.escape(name)}\b", meaning) is not None  # as in "fraction of the run"
    return plots.axis_label(variable, textwrap.fill(meaning if told else f"{name}: {meaning}".rstrip(": "), LABEL))


def flag_text(name: str) -> str:
    """Return the name of a code in words."""
    return "not run yet" if name == "running" else name.replace("_", " ")  # in results, nothing is still running


def axis_text(shown: xr.Dataset, dim: str) -> str:
    """Label an axis, and say which other parameters change along it."""
    lines = [label(shown[dim])]
    for name in linked_names(shown, dim):
        ends = (shown[name].isel({dim: i}) for i in (0, -1))
        low, high = (f"{end.item():.4g}" if np.issubdtype(end.dtype, np.number) else str(end.item()) for end in ends)
        lines.append(plots.axis_label(shown[name], textwrap.fill(f"with {name} = {low} to {high}", LABEL)))
    return "\n".join(lines)


def value_at(coordinate: xr.DataArray, place: int) -> str:
    """Return "name = value unit" at a place along a coordinate."""
    return plots.raised(value_text(coordinate, coordinate.values[place]))


def line_handles(texts: Sequence[str], *, marked: bool) -> list[Line2D]:
    """Legend entries for lines, in the colours, dashes and markers of their numbers."""
    return [
        Line2D(
            [],
            [],
            color=plots.COLOURS[i],
            linestyle=plots.DASHES[i],
            linewidth=1.3,
            marker=plots.MARKERS[i] if marked else None,
            markersize=4,
            label=text,
        )
        for i, text in enumerate(texts)
    ]


def legend_columns(figure: Figure, handles: Sequence[Any]) -> int:
    """How many entries of a legend fit side by side: a letter is 0.075 inch wide, the line beside it 0.6."""
    longest = max(len(re.sub(r"[${}^\\\\]", "", str(handle.get_label()))) for handle in handles)
    return int(np.clip(figure.get_figwidth() // (0.075 * longest + 0.6), 1, len(handles)))


def numbers() -> ScalarFormatter:
    """Very large and small numbers as a common power of ten, and none relative to a hidden offset."""
    numbers = ScalarFormatter(useOffset=False, useMathText=True)
    numbers.set_powerlimits((-3, 5))
    return numbers


def number_axes(panel: Axes, names: Mapping[int, str] | None = None) -> None:
    """Write readable numbers along the axes, or the names of a code along the vertical one."""
    for axis, limits in ((panel.xaxis, panel.get_xlim()), (panel.yaxis, panel.get_ylim())):
        if axis.get_scale() == "log":
            # Short axes need numbers between the powers of ten; matplotlib's own crowd each other there.
            decades = np.log10(limits[1] / limits[0])
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if decades < 1.7 else (1.0,)))
            axis.set_major_formatter(LogFormatterSciNotation(labelOnlyBase=False, minor_thresholds=(np.inf, np.inf)))
            axis.set_minor_formatter(NullFormatter())
    if panel.get_xscale() == "linear" and isinstance(panel.xaxis.get_major_formatter(), ScalarFormatter):
        panel.xaxis.set_major_formatter(numbers())
        if not 1e-3 <= max(map(abs, panel.get_xlim())) < 1e5:
            panel.xaxis.labelpad = 12  # below the power of ten
    if names:
        panel.set_yticks(list(names), [flag_text(name) for name in names.values()])
        panel.set_ylim(min(names) - 0.5, max(names) + 0.5)
    elif panel.get_yscale() == "linear":
        panel.yaxis.set_major_formatter(numbers())
