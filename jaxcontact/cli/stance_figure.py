"""The picture of stances: forces, free moment, pitch and centre of pressure, to be looked at before they are used."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from jaxcontact import plots
from jaxcontact.measured import Stance, to_dataset

# panel -> variable, title; forces in body weights where the weight is known
_OVER_TIME = {
    (0, 0): ("Fz", "vertical force"),
    (0, 1): ("Fx", "force, + forward"),
    (0, 2): ("Fy", "force, + to the left"),
    (0, 3): ("Tz", "free moment"),
    (1, 0): ("foot_pitch", "foot pitch, + heel up"),
    (1, 1): ("cop_along", "CoP along the foot"),
}
MOST = 10  # legend entries


def draw_stances(stances: Sequence[Stance], *, title: str) -> Figure:
    """Draw all stances of a trial over each other, from touch-down on."""
    figure, axes = plots.new_figure(2, 4, title, panel=(3.3, 2.8))
    weighted = all(stance.body_weight for stance in stances)
    for number, stance in enumerate(stances):
        data = to_dataset(stance)
        style = {"number": number % len(plots.COLOURS), "dash": _dash(number)}
        for place, (name, meaning) in _OVER_TIME.items():
            shown = _shown(data[name], stance.body_weight if weighted and name in ("Fx", "Fy", "Fz") else None)
            plots.line(axes[place], data["t_stance"], shown.assign_attrs(long_name=meaning), **style)
        _plan(axes[1, 2], data, style)
        _roll_over(axes[1, 3], data, style)
    longest = max(stance.duration for stance in stances)
    for place in _OVER_TIME:
        axes[place].set_xlabel("time since touch-down (s)")
        axes[place].axhline(0.0, color=plots.GREY, linewidth=0.6)
        axes[place].set_xlim(-0.06 * longest, 1.06 * longest)
    for panel in axes[1, 2:]:
        panel.set_aspect("equal", adjustable="datalim")
    _keep_to_stance(axes[1, 0], stances)
    for panel in axes.flat:
        panel.xaxis.label.set_size(9)
        panel.yaxis.label.set_size(9)
        panel.tick_params(labelsize=8)
    _legend(figure, stances)
    return figure


def _dash(number: int):
    return plots.DASHES[(number + number // len(plots.COLOURS)) % len(plots.DASHES)]


def _shown(variable: xr.DataArray, weight: float | None) -> xr.DataArray:
    """Forces in body weights, angles in degrees, lengths in mm."""
    if weight is not None:
        return (variable / weight).assign_attrs(variable.attrs, units="body weight")
    unit, factor = {"rad": ("deg", 180 / np.pi), "m": ("mm", 1e3)}.get(variable.attrs["units"], (None, 1.0))
    return (variable * factor).assign_attrs(variable.attrs, units=unit or variable.attrs["units"])


def _plan(panel: Axes, data: xr.Dataset, style: dict) -> None:
    """The path of the CoP under the foot, seen from above."""
    along, left = _shown(data["cop_along"], None), _shown(data["cop_lat"], None)
    plots.line(panel, along.assign_attrs(long_name="CoP along the foot"), left, **style)
    panel.set_ylabel("CoP to the left (mm)")
    panel.plot(0, 0, marker="+", color=plots.GREY, markersize=8)


def _roll_over(panel: Axes, data: xr.Dataset, style: dict) -> None:
    """The path of the CoP in the frame that pitches with the foot: the shape on which it rolls."""
    x, z = _shown(data["cop_foot_x"], None), _shown(data["cop_foot_z"], None)
    plots.line(panel, x.assign_attrs(long_name="CoP in the foot, along"), z, **style)
    panel.set_ylabel("CoP in the foot, up (mm)")
    panel.plot(0, 0, marker="+", color=plots.GREY, markersize=8)


def _keep_to_stance(panel: Axes, stances: Sequence[Stance]) -> None:
    """Scale the pitch to what happens in stance: in swing the foot turns much further."""
    low = min(float(np.min(stance.pitch[stance.in_stance])) for stance in stances)
    high = max(float(np.max(stance.pitch[stance.in_stance])) for stance in stances)
    room = 0.08 * (high - low)
    panel.set_ylim(*np.degrees([low - room, high + room]))


def _legend(figure: Figure, stances: Sequence[Stance]) -> None:
    handles = [
        Line2D(
            [], [], color=plots.COLOURS[i % len(plots.COLOURS)], linestyle=_dash(i), linewidth=1.3, label=stance.name
        )
        for i, stance in enumerate(stances[:MOST])
    ]
    if len(stances) > MOST:
        handles.append(Line2D([], [], linestyle="none", label=f"and {len(stances) - MOST} more"))
    handles.append(Line2D([], [], color=plots.GREY, marker="+", markersize=8, linestyle="none", label="heel marker"))
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 6), fontsize=9, frameon=False)
