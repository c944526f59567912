"""A first look at any results: lines, maps, small multiples, scatter or curves, whichever fits their dimensions.

Each figure says in its title what is not in it: what was held, thinned, did not finish or has not been run. Only what
is drawn is read, so that results of any size can be looked at.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from jaxcontact import plots
from jaxcontact.captions import (
    axis_text,
    flag_text,
    label,
    legend_columns,
    line_handles,
    new_panels,
    number_axes,
    numbers,
    value_at,
)
from jaxcontact.errors import InputError, unknown
from jaxcontact.study.parts import (
    CURVE,
    ROWS,
    curve_names,
    dimensions,
    flag_names,
    linked_names,
    outcome_names,
    parameter_names,
    select_nearest,
    sharing,
    space_record,
    status_codes,
    value_text,
)

MOST_OUTCOMES = 4  # drawn unless named
FEW = 5  # lines in a panel: as many as there are colours, markers and dashes
MOST_PANELS = 4  # side by side, for a third dimension
MOST_PARAMETERS = 6  # side by side, for samples
LONGEST = 400  # points along an axis: about as many as a panel has pixels
MOST_POINTS = 20_000  # of a scatter
MARKED = 30  # a line of at most so many points shows each of them
LINE = "line"  # the dimension of the configurations whose curves are drawn
COLOUR_MAP = "viridis"  # even to the eye, also a colour-blind one, and in grey


def draw(
    dataset: xr.Dataset,
    *,
    outcomes: Sequence[str] = (),
    x: str | None = None,
    by: str | None = None,
    select: Mapping[str, float | str] = {},
) -> Figure:
    """Draw the results in the way that fits their dimensions.

    One dimension gives lines; two, a line per value of the shorter one if it has few, and otherwise maps; a third, one
    panel per value. More are held at their middle value, or at the one nearest to `select`. Samples and cases are
    scattered over the parameters. Time histories, if there are any, are drawn unless `outcomes` names others.

    `x` is the dimension (of samples: the parameter; of time histories: the curve) along the horizontal axis, `by` the
    dimension (of samples: the code, such as regime) that colours tell apart. Without `outcomes`, the first few that are
    defined and vary are drawn.
    """
    part = select_nearest(sharing(dataset, outcomes), select)
    curves = curve_names(part)
    if (set(outcomes) & set(curves)) if outcomes else curves:
        return _draw_curves(part, list(outcomes), x, by)
    dims = dimensions(part)
    if all(part.sizes[dim] < 2 for dim in dims):
        raise InputError("there is nothing to draw: nothing varies here. `jaxcontact table DIR` shows the numbers")
    rows = [dim for dim in dims if dim in ROWS and part.sizes[dim] > 1]
    if rows:
        return _draw_scatter(part, list(outcomes), rows[0], x, by)
    return _draw_grid(part, list(outcomes), x, by)


# ---------------------------------------------------------------- grids


@dataclass(frozen=True)
class _Roles:
    """Which dimension is what in a figure of a grid."""

    x: str
    second: str | None  # a colour per value if `lines`, otherwise the vertical axis of a map
    third: str | None  # a panel per value
    lines: bool


def _draw_grid(part: xr.Dataset, outcomes: list[str], x: str | None, by: str | None) -> Figure:
    roles = _roles(part, x, by)
    shown, notes = _thinned(part, roles)
    shown = _with_status(shown)
    found = _load(shown, outcomes)
    thirds = range(shown.sizes[roles.third]) if roles.third else ()
    title = _title(part, shown, notes)
    figure, axes = new_panels(title, len(found), len(thirds), share="row" if roles.lines else True)

    handles: list[Any] = []
    for number, (name, values) in enumerate(found.items()):
        panels = list(axes[number]) if thirds else [axes.flat[number]]
        pieces = [values.isel({roles.third: i}) for i in thirds] or [values]
        if roles.lines:
            for panel, piece in zip(panels, pieces, strict=True):
                _lines(panel, piece, roles)
        elif flag_names(shown[name]):
            handles += _flag_maps(panels, pieces, roles)
        else:
            _heat_maps(figure, panels, pieces, roles)
        for panel in panels:
            panel.set_xlabel(axis_text(shown, roles.x))
            panel.set_ylabel(label(values) if roles.lines else axis_text(shown, str(roles.second)))
            if thirds:
                panel.label_outer()
    for i in thirds:
        axes[0, i].set_title(value_at(shown[roles.third], i), fontsize=10)
    if roles.lines and roles.second:
        marked = shown.sizes[roles.x] <= MARKED
        handles = line_handles(
            [value_at(shown[roles.second], i) for i in range(shown.sizes[roles.second])], marked=marked
        )
    if handles:
        plots.legend_below(figure, handles, columns=legend_columns(figure, handles))
    return figure


def _roles(part: xr.Dataset, x: str | None, by: str | None) -> _Roles:
    """Give the longest axes the most room. Names, such as those of approaches, are no axis to draw along."""
    dims = dimensions(part)
    for asked in (x, by):
        if asked is not None and asked not in dims:
            raise unknown("dimension", asked, dims)
    if x is not None and x == by:
        raise InputError(f"x and by are both {x}: two dimensions are needed, or one of them alone")
    varying = [dim for dim in dims if part.sizes[dim] > 1 or dim in (x, by)]
    ranked = sorted(varying, key=lambda dim: (_numeric(part[dim]), part.sizes[dim]), reverse=True)
    across = x or next((dim for dim in ranked if dim != by), None)
    if across is None:  # the only dimension was asked for as colours
        across, by = str(by), None
    rest = [dim for dim in ranked if dim not in (across, by)]
    second, third = (*([by] if by else []), *rest, None, None)[:2]
    if second is None:
        return _Roles(across, None, None, lines=True)
    lines = by is not None or part.sizes[second] <= FEW or not (_numeric(part[across]) and _numeric(part[second]))
    return _Roles(across, second, third, lines)


def _thinned(part: xr.Dataset, roles: _Roles) -> tuple[xr.Dataset, list[str]]:
    """Cut out what is drawn, before anything is read, and say what was left out."""
    notes, cut = [], {}
    for dim in dimensions(part):
        size = part.sizes[dim]
        if dim in (roles.x, roles.second) and not (roles.lines and dim == roles.second):
            stride = -(-size // LONGEST)
            cut[dim] = slice(None, None, stride)
            notes += [f"1 in {stride} values of {dim}"] if stride > 1 else []
        elif dim in (roles.second, roles.third):
            few = FEW if dim == roles.second else MOST_PANELS
            cut[dim] = _evenly(size, few)
            notes += [f"{few} of {size} values of {dim}"] if size > few else []
        else:
            cut[dim] = size // 2
    return part.isel(cut), notes


def _lines(panel: Axes, values: xr.DataArray, roles: _Roles) -> None:
    """Draw a line per value of the second dimension; a code, which has no values between, as markers by name."""
    along = values[roles.x]
    values = values.sortby(roles.x) if _numeric(along) else values
    names = flag_names(values)
    marked = bool(names) or values.sizes[roles.x] <= MARKED
    for i in range(values.sizes[roles.second] if roles.second else 1):
        one = values.isel({roles.second: i}) if roles.second else values
        dash = "" if names else plots.DASHES[i]
        plots.line(panel, one[roles.x], one, number=i, dash=dash, marker=plots.MARKERS[i] if marked else None)
    if _numeric(along) and plots.even_in_log(along.values):
        panel.set_xscale("log")
    number_axes(panel, names)


def _heat_maps(figure: Figure, panels: Sequence[Axes], pieces: Sequence[xr.DataArray], roles: _Roles) -> None:
    """Draw maps of one outcome on one scale of colours."""
    finite = np.concatenate([piece.values[np.isfinite(piece.values)] for piece in pieces])
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
    options: dict[str, Any] = {"cmap": COLOUR_MAP, "vmin": low, "vmax": high}
    meshes = []
    for panel, piece in zip(panels, pieces, strict=True):
        meshes.append(plots.heat_map(panel, piece, x=roles.x, y=str(roles.second), **options))
        panel.grid(False)
        number_axes(panel)
    bar = figure.colorbar(meshes[0], ax=list(panels), format=numbers(), pad=0.02)
    bar.set_label(label(pieces[0]), fontsize=9)


def _flag_maps(panels: Sequence[Axes], pieces: Sequence[xr.DataArray], roles: _Roles) -> list[Any]:
    """Draw maps of one code, and return legend entries for the values that occur."""
    styles = plots.flag_styles(pieces[0])
    for panel, piece in zip(panels, pieces, strict=True):
        plots.flag_map(panel, piece, x=roles.x, y=str(roles.second), styles=styles)
        panel.grid(False)
        number_axes(panel)
    handles = plots.flag_handles(np.unique(np.concatenate([piece.values.ravel() for piece in pieces])), styles)
    for handle in handles:
        handle.set_label(f"{pieces[0].name}: {flag_text(str(handle.get_label()))}")
    # Where the label of a colour bar would be.
    place = {"transform": panels[-1].transAxes, "rotation": "vertical", "va": "center", "ha": "left"}
    panels[-1].text(1.03, 0.5, label(pieces[0]), fontsize=9, **place)
    return handles


# ---------------------------------------------------------------- samples and cases


def _draw_scatter(part: xr.Dataset, outcomes: list[str], dim: str, x: str | None, by: str | None) -> Figure:
    """Scatter every outcome over every parameter."""
    part = part.isel({other: part.sizes[other] // 2 for other in dimensions(part) if other != dim})
    parameters = linked_names(part, dim) or [dim]
    if x is not None and x not in parameters:
        raise unknown("parameter", x, parameters)
    drawn = [x] if x else parameters[:MOST_PARAMETERS]
    notes = [f"{len(drawn)} of {len(parameters)} parameters"] if len(drawn) < len(parameters) else []
    shown, total = part, part.sizes[dim]
    if total > MOST_POINTS:
        # At random, since every n-th point of a Sobol sequence is anything but; sorted, so that disks read forwards.
        chosen = np.random.default_rng(0).choice(total, MOST_POINTS, replace=False)
        shown = part.isel({dim: np.sort(chosen)})
        notes += [f"{MOST_POINTS} of {total} points, at random"]

    shown = _with_status(shown).assign_coords({name: shown[name].compute() for name in drawn})
    found = _load(shown, outcomes)
    code = _colour_code(shown, by)
    colours = np.array([_point_colour(value) for value in code.values]) if code is not None else plots.COLOURS[0]
    title = _title(part, shown, notes)
    figure, axes = new_panels(title, len(found), len(drawn), share="row", share_x="col")
    rows = axes if len(drawn) > 1 else axes.reshape(-1, 1)[: len(found)]
    for row, values in zip(rows, found.values(), strict=True):
        for panel, name in zip(row, drawn, strict=True):
            _points(panel, shown[name], values, colours)
            if _sampled_in_log(part, name, shown[name].values):
                panel.set_xscale("log")
            number_axes(panel, flag_names(values))
            if len(drawn) > 1:
                panel.label_outer()
    if code is not None:
        _code_legend(figure, code)
    return figure


def _points(panel: Axes, across: xr.DataArray, values: xr.DataArray, colours: Any) -> None:
    size = float(np.clip(6000 / values.size, 2.0, 24.0))
    panel.scatter(across.values, values.values, s=size, c=colours, alpha=0.7, linewidths=0, rasterized=True)
    panel.set_xlabel(label(across))
    panel.set_ylabel(label(values))


def _colour_code(shown: xr.Dataset, by: str | None) -> xr.DataArray | None:
    """Find the code that colours tell: the one asked for, or the regime."""
    codes = [name for name in outcome_names(shown) if flag_names(shown[name])]
    if by is not None and by not in codes:
        raise unknown("code to colour by", by, codes)
    name = by or ("regime" if "regime" in codes else None)
    if name is None:
        return None
    code = _load(shown, [name])[name]
    return code if by or (code >= 0).any() else None  # the method may define no regime


def _point_colour(code: float) -> str:
    return plots.FLAG_COLOURS[int(code) % len(plots.FLAG_COLOURS)] if code >= 0 else plots.FLAG_COLOURS[0]


def _code_legend(figure: Figure, code: xr.DataArray) -> None:
    names = flag_names(code)
    handles = [
        Line2D([], [], linestyle="", marker="o", color=_point_colour(value), label=flag_text(names[int(value)]))
        for value in np.unique(code.values)
        if value in names
    ]
    plots.legend_below(figure, handles, columns=min(len(handles), 4))


def _sampled_in_log(part: xr.Dataset, name: str, values: np.ndarray) -> bool:
    """Look the scale up in the study's record; listed cases have none, so there two decades decide."""
    if np.min(values) <= 0:
        return False
    for entry in space_record(part).get("ranges", []):
        if entry.get("name") == name and "scale" in entry:
            return entry["scale"] == "log"
    return bool(np.max(values) >= 100 * np.min(values))


# ---------------------------------------------------------------- time histories


def _draw_curves(part: xr.Dataset, outcomes: list[str], x: str | None, by: str | None) -> Figure:
    """Draw a few configurations, a line each, against their own time."""
    curves = curve_names(part)
    for name in outcomes:
        if name not in curves:
            raise InputError(f"{name} is one number per run, and others asked for are time histories: draw them apart")
    if x is not None and x not in (*curves, CURVE):
        raise unknown("curve", x, [*curves, CURVE], "x")
    shown, notes = _few_configurations(part, by)
    shown = _with_status(shown.isel({CURVE: slice(None, None, -(-shown.sizes[CURVE] // LONGEST))}))
    across = x or next((name for name in ("t", "t_curve") if name in curves and _passes(shown[name])), CURVE)
    found = _load(shown, outcomes, candidates=[name for name in curves if name != across])

    along = shown[across].compute()
    if along.attrs.get("units") == "s" and np.nanmax(np.abs(along.values), initial=0.0) < 0.1:
        along = plots.in_milliseconds(along)
    figure, axes = new_panels(_title(part, shown, notes), len(found))
    for panel, values in zip(axes.flat, found.values(), strict=False):
        for i in range(values.sizes[LINE]):
            time = along.isel({LINE: i}) if LINE in along.dims else along
            plots.line(panel, time, values.isel({LINE: i}), number=i, dash=plots.DASHES[i])
        panel.set_xlabel(label(along))
        panel.set_ylabel(label(values))
        number_axes(panel)
    if coordinates := sorted(linked_names(shown, LINE), key=lambda name: name not in ROWS):
        texts = [", ".join(value_at(shown[c], i) for c in coordinates[:4]) for i in range(shown.sizes[LINE])]
        handles = line_handles(texts, marked=False)
        plots.legend_below(figure, handles, columns=legend_columns(figure, handles))
    return figure


def _passes(time: xr.DataArray) -> bool:
    """Say whether time passes at all: an impulsive impact has none, and is drawn against its fractions."""
    return bool((time.max() > time.min()).item())


def _few_configurations(part: xr.Dataset, by: str | None) -> tuple[xr.Dataset, list[str]]:
    """All configurations if they are few; otherwise a few along one dimension, the others held at their middle."""
    dims = dimensions(part)
    if by is not None and by not in dims:
        raise unknown("dimension", by, dims)
    if not dims:
        return part.expand_dims(LINE), []
    sizes = [part.sizes[dim] for dim in dims]
    if by is None and np.prod(sizes) <= FEW:
        places = np.indices(sizes).reshape(len(dims), -1)
        return part.isel({dim: xr.DataArray(place, dims=LINE) for dim, place in zip(dims, places, strict=True)}), []
    by = by or next(dim for dim in dims if part.sizes[dim] > 1)
    few = _evenly(part.sizes[by], FEW)
    notes = [f"{len(few)} of {part.sizes[by]} values of {by}"] if len(few) < part.sizes[by] else []
    part = part.isel({dim: part.sizes[dim] // 2 for dim in dims if dim != by})
    return part.isel({by: xr.DataArray(few, dims=LINE)}), notes


# ---------------------------------------------------------------- what is read


def _load(shown: xr.Dataset, outcomes: list[str], candidates: Sequence[str] | None = None) -> dict[str, xr.DataArray]:
    """Read the outcomes asked for, or the first few that vary. Runs that did not finish are blank."""
    if outcomes:
        return {name: _read(shown, name) for name in dict.fromkeys(outcomes)}
    varying, constant = {}, {}
    for name in outcome_names(shown) if candidates is None else candidates:
        if flag_names(shown[name]) or not np.issubdtype(shown[name].dtype, np.floating):
            continue
        values = _read(shown, name)
        finite = values.values[np.isfinite(values.values)]
        if finite.size:
            (varying if np.ptp(finite) > 1e-9 * np.max(np.abs(finite)) else constant)[name] = values
        if len(varying) == MOST_OUTCOMES:
            break
    if not (varying or constant) and "status" in shown:  # nothing has finished: show what happened instead
        varying["status"] = _read(shown, "status")
    if not (varying or constant):
        raise InputError("there is nothing to draw: no outcome has a value here")
    return varying or dict(list(constant.items())[:MOST_OUTCOMES])


def _with_status(shown: xr.Dataset) -> xr.Dataset:
    """Read the status once, for every outcome needs it."""
    return shown.assign(status=shown["status"].compute()) if "status" in shown else shown


def _read(shown: xr.Dataset, name: str) -> xr.DataArray:
    values = shown[name].compute()
    running, finished = status_codes(shown)
    if finished is None or name == "status":
        return values
    status = shown["status"]  # how many steps a run took is worth knowing also where it failed
    return values.where(status != running if name == "n_steps" else status == finished)


def _title(part: xr.Dataset, shown: xr.Dataset, notes: Sequence[str]) -> list[str]:
    """Return the study's title, and what a reader must know: what is held, thinned, failed or still to be run."""
    held = [value_text(shown[name]) for name in parameter_names(shown) if shown[name].ndim == 0]
    lines = [str(part.attrs.get("title") or "results")]
    lines += ["held: " + ", ".join(held)] if held else []
    lines += ["drawn: " + ", ".join(notes)] if notes else []
    running, finished = status_codes(shown)
    if finished is not None:
        status = shown["status"].values
        waiting = int((status == running).sum())
        codes = {name: code for code, name in flag_names(shown["status"]).items()}
        excluded = int((status == codes.get("excluded")).sum())
        failed = status.size - waiting - excluded - int((status == finished).sum())
        whole = f"{status.size}" if status.size == part["status"].size else f"the {status.size} drawn"
        counts = [f"{failed} of {whole} did not finish"] if failed else []
        counts += [f"{excluded} of {whole} excluded"] if excluded else []
        counts += [f"{waiting} of {whole} not run yet"] if waiting else []
        lines += ["; ".join(counts)] if counts else []
    return lines


def _evenly(size: int, count: int) -> np.ndarray:
    """Return at most `count` places among `size`, evenly spread, both ends included."""
    return np.unique(np.linspace(0, size - 1, min(size, count)).round().astype(int))


def _numeric(variable: xr.DataArray) -> bool:
    return np.issubdtype(variable.dtype, np.number)
