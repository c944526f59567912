"""An analysis as text: a table for each outcome, parameters sorted by importance."""

import json
from collections.abc import Sequence

import numpy as np
import xarray as xr

from jaxcontact.integrate.machine import FINISHED

_HEADINGS = {
    "sobol": (("S1", "S1"), ("ST", "ST")),
    "morris": (("mu_star", "mu*"), ("mu", "mu"), ("sigma", "sigma")),
    "dgsm": (("nu_range", "nu (b-a)^2"), ("bound", "bound on ST")),
}
_SORTED_BY = {"sobol": "ST", "morris": "mu_star", "dgsm": "bound"}
_PAIR = 0.01  # a second-order index below this is not worth a line
MOST_PAIRS = 6


def report(dataset: xr.Dataset) -> str:
    """Return the tables of an analysis."""
    kind = dataset.attrs["sensitivity"]
    lines = _local(dataset) if kind == "local" else _global(dataset, kind)
    return "\n".join([*lines, *_notes(dataset)])


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Align cells: the first column to the left, numbers to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]


def _notes(dataset: xr.Dataset) -> list[str]:
    attrs = dataset.attrs
    notes = [attrs[key] for key in ("dropped",) if key in attrs]
    if "not_finished" in attrs and not attrs["not_finished"].startswith("0 "):
        notes.append(f"{attrs['not_finished']}; they are NaN")
    if _some_undefined(dataset):
        notes.append("undefined: an elasticity of an outcome that is zero to the solver's tolerance, or by a zero")
    if unused := json.loads(attrs.get("unused", "[]")):
        notes.append(f"no result depends on {', '.join(unused)} here: the chosen method and laws do not use it")
    if constant := json.loads(attrs.get("constant", "[]")):
        notes.append(f"does not vary over this space, so nothing explains it: {', '.join(constant)}")
    notes += _less_used(dataset)
    if "bootstrap" in attrs:
        made = json.loads(attrs["bootstrap"])
        notes.append(f"±: {100 * made['confidence']:g} % confidence, {made['resamples']} bootstrap samples")
    return ["", *notes] if notes else []


def _some_undefined(dataset: xr.Dataset) -> bool:
    """Whether an elasticity is NaN somewhere although the run finished."""
    if "status" not in dataset:
        return False
    finished = dataset["status"] == FINISHED
    named = [variable for name, variable in dataset.items() if str(name).startswith("elasticity_")]
    return any(bool((finished & ~np.isfinite(variable)).any()) for variable in named)


def _less_used(dataset: xr.Dataset) -> list[str]:
    """Outcomes that are not a number in some runs although those finished."""
    what = {"sobol": "base_points", "morris": "trajectories", "dgsm": "rows"}.get(dataset.attrs["sensitivity"])
    lines = []
    for kind, key in (("outcome", "used"), ("curve", "used_curve")):
        for name in dataset[kind].values if key in dataset else ():
            used, of = dataset[key].sel({kind: name}).values, dataset.attrs[str(what)]
            if np.any(used < of):
                rests = f"{np.min(used):,}" if kind == "outcome" else f"{np.min(used):,} to {np.max(used):,}"
                groups = str(what).replace("_", " ")
                lines.append(
                    f"{name} is undefined in some runs, which do not count for it: {rests} of {of:,} {groups} do"
                )
    return lines


# ---------------------------------------------------------------- over a space


def _global(dataset: xr.Dataset, kind: str) -> list[str]:
    lines: list[str] = []
    constant = json.loads(dataset.attrs["constant"])
    for name in dataset["outcome"].values if "outcome" in dataset.dims else ():
        one = dataset.sel(outcome=name)
        if name not in constant:
            lines += ["", _title(one, "outcome"), *_table(dataset, one, kind), *_pairs(one)]
    for name in dataset["curve"].values if "curve" in dataset.dims else ():
        if name in constant:
            continue
        one = _over_the_run(dataset.sel(curve=name), kind)
        lines += ["", f"{_title(one, 'curve')}; curve, {_mean_word(kind)}", *_table(dataset, one, kind)]
    return lines[1:]


def _title(one: xr.Dataset, dim: str) -> str:
    unit = str(one[f"{dim}_unit"].item())
    shown = f" ({unit})" if unit != "1" else ""
    spread = f", standard deviation {float(one['std']):.4g}" if "std" in one and one["std"].ndim == 0 else ""
    return f"{one[dim].item()}: {one[f'{dim}_meaning'].item()}{shown}{spread}"


def _table(dataset: xr.Dataset, one: xr.Dataset, kind: str) -> list[str]:
    labels = dataset["parameter_label"].values
    order = np.argsort(-np.nan_to_num(one[_SORTED_BY[kind]].values, nan=-1.0), kind="stable")
    rows = [["parameter", *(word for _, word in _HEADINGS[kind])]]
    for i in order:
        cells = []
        for key, _ in _HEADINGS[kind]:
            shown = ".3f" if kind == "sobol" or key == "bound" else ".4g"
            cell = format(float(one[key][i]), shown)
            if f"{key}_conf" in one:
                cell += f" ± {format(float(one[f'{key}_conf'][i]), '.3f' if shown == '.3f' else '.2g')}"
            cells.append(cell)
        rows.append([str(labels[i]), *cells])
    return columns(rows)


def _pairs(one: xr.Dataset) -> list[str]:
    """The strongest pairs whose index is larger than its uncertainty."""
    if "S2" not in one or one.sizes["parameter"] < 2:
        return []
    names, index, conf = one["parameter"].values, one["S2"].values, one["S2_conf"].values
    pairs = [(index[i, k], conf[i, k], i, k) for i in range(len(names)) for k in range(i + 1, len(names))]
    strong = sorted((p for p in pairs if abs(p[0]) > max(p[1], _PAIR)), key=lambda p: -abs(p[0]))
    if not strong:
        return ["pairs: none beyond its uncertainty"]
    return ["pairs: " + ", ".join(f"{names[i]} x {names[k]} {s:.3f} ± {c:.3f}" for s, c, i, k in strong[:MOST_PAIRS])]


def _mean_word(kind: str) -> str:
    return "mean over the run" if kind == "morris" else "mean over the run, weighted by variance"


def _over_the_run(one: xr.Dataset, kind: str) -> xr.Dataset:
    """A curve's indices as one number each; where they are not defined they do not count."""
    if kind == "morris":
        weight = xr.ones_like(one["fraction"])
    else:
        weight = one["std_curve"] ** 2
    found = {}
    for key, _ in _HEADINGS[kind]:
        for name in (key, f"{key}_conf"):
            if f"{name}_curve" in one:
                values = one[f"{name}_curve"]
                share = weight.where(np.isfinite(values))
                found[name] = (values * share).sum("fraction") / share.sum("fraction").clip(min=1e-300)
    return xr.Dataset(found, coords=one.coords).drop_vars("std", errors="ignore")


# ---------------------------------------------------------------- derivatives


def _local(dataset: xr.Dataset) -> list[str]:
    outcomes = [str(name)[len("elasticity_") :] for name in dataset.data_vars if str(name).startswith("elasticity_")]
    curves = [str(name)[len("dlog_") :] for name in dataset.data_vars if str(name).startswith("dlog_")]
    point = dataset["status"].ndim == 0
    lines: list[str] = []
    for name in outcomes:
        lines += ["", _local_title(dataset, name, point), *_local_table(dataset, name, point)]
    for name in curves:
        lines += ["", f"{name}: {dataset[name].attrs['long_name']}; curve, at a fixed {dataset.attrs['at']}"]
        lines += _curve_table(dataset, name)
    return lines[1:]


def _local_title(dataset: xr.Dataset, name: str, point: bool) -> str:
    variable = dataset[name]
    unit = variable.attrs["units"]
    value = f" = {float(variable):.6g}" if point else ""
    more = "" if point else f"; median (least to greatest) over {dataset['status'].size:,} configurations"
    return f"{name}{value}{'' if unit == '1' else f' {unit}'}: {variable.attrs['long_name']}{more}"


def _local_table(dataset: xr.Dataset, name: str, point: bool) -> list[str]:
    slopes, elasticities = dataset[f"d_{name}"], dataset[f"elasticity_{name}"]
    units = json.loads(slopes.attrs["units_by_parameter"])
    size = np.array([_middle(np.abs(elasticities.sel(parameter=p).values)) for p in dataset["parameter"].values])
    rows = [["parameter", "derivative", "elasticity"]]
    for i in np.argsort(-np.nan_to_num(size, nan=-1.0), kind="stable"):
        parameter = str(dataset["parameter"].values[i])
        slope, elasticity = (v.sel(parameter=parameter).values for v in (slopes, elasticities))
        unit = "" if units[parameter] == "1" else f" {units[parameter]}"
        rows.append([parameter, f"{_spread(slope, point)}{unit}", _spread(elasticity, point)])
    return columns(rows)


def _curve_table(dataset: xr.Dataset, name: str) -> list[str]:
    """Where along the run one percent of a parameter changes a curve most, in percent of the curve's largest value."""
    along = [str(dim) for dim in dataset["status"].dims]
    per_log = abs(dataset[f"dlog_{name}"])
    peak = abs(dataset[name]).max("fraction")
    largest = (per_log / peak.where(peak > 0)).median(along)
    rows = [["parameter", "largest |d / d log p|", "at fraction"]]
    top = largest.max("fraction").values
    for i in np.argsort(-np.nan_to_num(top, nan=-1.0), kind="stable"):
        curve = largest.isel(parameter=i)
        where = float(dataset["fraction"][int(np.nanargmax(curve))]) if np.isfinite(top[i]) and top[i] > 0 else np.nan
        place = f"{where:.3f}" if np.isfinite(where) else "-"
        rows.append([str(dataset["parameter"].values[i]), f"{top[i]:.4g} of the peak", place])
    return columns(rows)


def _middle(values: np.ndarray) -> float:
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if finite.size else float("nan")


def _spread(values: np.ndarray, point: bool) -> str:
    finite = np.asarray(values)[np.isfinite(values)] + 0.0  # no -0
    if not finite.size:
        return "undefined"
    if point:
        return f"{float(finite.item()):.6g}"
    return f"{np.median(finite):.4g} ({finite.min():.4g} to {finite.max():.4g})"
