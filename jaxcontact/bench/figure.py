"""The figure of `jaxcontact bench`: how many impacts a second against how right they are, ours and everybody's."""

from pathlib import Path

import numpy as np
import xarray as xr

from jaxcontact import plots
from jaxcontact.bench.precision import Curve, Precision
from jaxcontact.bench.rows import Part

# A colour and a marker for each tool; what one tool does in several ways differs by dash, and by open markers.
_TOOLS = ("ours", "numba", "diffrax", "scipy")


def draw_precision(found: Precision):
    """Draw every curve, and a ring around our default tolerance."""
    title = "Crutch impacts: rate and accuracy at several tolerances"
    figure, ((axes,),) = plots.new_figure(1, 1, title, panel=(6.4, 4.6))
    seen: dict[str, int] = {}
    for curve in found.curves:
        tool = curve.name.partition(",")[0]
        number, way = _TOOLS.index(tool), seen.get(tool, 0)
        seen[tool] = way + 1
        plots.line(
            axes,
            _error([point.errors.p95 for point in curve.points]),
            _rate([point.rate for point in curve.points]),
            number=number,
            dash=plots.DASHES[way],
            marker=plots.MARKERS[number],
            open_marker=way > 0,
            label=_label(curve),
        )
    axes.plot(
        found.default.errors.p95,
        found.default.rate,
        "o",
        markersize=11,
        markerfacecolor="none",
        color=plots.COLOURS[0],
        label="our default tolerance",
    )
    axes.set_xscale("log")
    axes.set_yscale("log")
    plots.legend_below(figure, axes.get_legend_handles_labels()[0], columns=2)
    return figure


def save_figure(peers: Part, file: Path) -> None:
    """Draw what the part `peers` found, and write it in the format that the file's name asks for."""
    draw_precision(Precision.of_numbers(peers.numbers)).savefig(file, dpi=150)


def _label(curve: Curve) -> str:
    how = "fixed steps" if curve.unit == "s" else "adaptive steps"
    return curve.name if how.split()[0] in curve.name else f"{curve.name} ({how})"


def _error(values: list[float]) -> xr.DataArray:
    words = "relative error of the impulses, 95 % of impacts below"
    return xr.DataArray(np.array(values), name="error", attrs={"long_name": words, "units": "1"})


def _rate(values: list[float]) -> xr.DataArray:
    return xr.DataArray(np.array(values), name="rate", attrs={"long_name": "impacts", "units": "1/s"})
