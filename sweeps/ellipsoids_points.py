"""Lopes Table 2: six ellipsoids against 31 points, in a forward simulation and under the same prescribed motion.

The paper walks a body with 50 muscles, whose numbers are not printed; nor are the places and areas of the elements and
the shoe's constants c1 ... c7. Here both layouts lie along the same sole with the same law and constants. Prescribed: a
stance phase of walking whose motion is made for the points, and which the ellipsoids then meet, with the same total
area. Forward: the stance leg of the rolling paper rolls over its foot, on ellipsoids of that area, and of such an area
that they carry the load of the points under the same motion. Under the law forces are in proportion to the area.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from jaxcontact import plots
from jaxcontact.integrate.machine import simulate
from jaxcontact.integrate.settings import Settings
from jaxcontact.models.layouts import ELLIPSOIDS_6, POINTS_31
from jaxcontact.models.model import Model, default_params
from jaxcontact.models.rollover import rollover_model
from jaxcontact.models.stance import FRAMES, GAIT, stance_model
from jaxcontact.study import run as run_study
from jaxcontact.study import study
from jaxcontact.study.published import Published
from jaxcontact.study.sweep import Progress

from ._approaches import failures, side_by_side
from ._timing import best_times

LAYOUTS = {"points": POINTS_31, "ellipsoids": ELLIPSOIDS_6}
LABELS = {
    "points": "31 points",
    "ellipsoids": "6 ellipsoids, same area",
    "fitted": "6 ellipsoids, same load",
}
BY_AREA = ("c1", "c3", "c6")  # what a change of all areas changes
SHOE = {"normal": "shoe", "friction": "shoe"}  # Lopes eqs 1 and 2
FORWARD = {name: rollover_model(layout) for name, layout in LAYOUTS.items()}
PRESCRIBED = {name: stance_model(layout, motion_of=POINTS_31) for name, layout in LAYOUTS.items()}
TOLERANCES = (1e-3, 1e-6)  # rtol; atol is a hundredth of it
PRINTED_STEP = {"points": 2.498e-4, "ellipsoids": 3.423e-4}  # s, Lopes Table 2
PRINTED_TIME = {"points": 7.8247, "ellipsoids": 6.4205}  # s, Lopes Table 2
PRINTED_RMS = "points 0.1260, 0.0389; ellipsoids 0.1198, 0.0334 (printed as % BW; body weights?)"
ANGLES = ("foot", "ankle", "leg")
_BODY = default_params(FORWARD["points"])
FORWARD_WEIGHT = _BODY["gravity"] * (_BODY["body.mass"] + _BODY["foot.mass"] + _BODY["toes.mass"])  # N
PRESCRIBED_WEIGHT = GAIT.mass * GAIT.gravity  # N


def run(
    progress: Progress, points: int = 801, tolerances: Sequence[float] = TOLERANCES, lanes: int = 64, repeats: int = 5
) -> Published:
    """Run both layouts forward at each tolerance (rtol), of which the last is drawn; `lanes` = 0 takes no times."""
    curves = {"laws": SHOE, "output": {"curves": True, "points": points}}
    prescribed = side_by_side(
        {name: run_study(study(model, **curves), progress=progress) for name, model in PRESCRIBED.items()}, "layout"
    )
    area = _fitting_area(prescribed)
    forward = side_by_side({rtol: _forward(rtol, area, progress, curves) for rtol in tolerances}, "rtol")
    text = [
        *_forces(forward, prescribed, area),
        "",
        *_steps(forward),
        "",
        *(_costs(lanes, repeats, tolerances[0], area, progress) if lanes else ["No times were taken."]),
        _WHY.rstrip(),
        *failures(forward),
        *failures(prescribed),
    ]
    dataset = _one_dataset(forward, prescribed, area)
    return Published("\n".join(text), dataset, {"ellipsoids_points": _figure(forward, prescribed, area)})


_WHY = """\
Between touch-downs steps are bound by the dampers of ankle and toes and the friction of the whole sole, which are the
same for both layouts, and so nearly is the motion. Points touch down and lift off more often: each time is landed on,
and the step that crosses it is held to a finer tolerance, which makes their steps shorter. The paper does not print how
its areas are shared out, and its integrator steps over touch-downs. Its times are those of a whole body with 50
muscles, which cost the same with either layout; here contact is most of the work.
"""


def _forward(rtol: float, area: float, progress: Progress, tables: Mapping[str, Any]) -> xr.Dataset:
    """Roll over points, over ellipsoids, and over ellipsoids of that part of their area."""
    tables = {**tables, "solver": {"rtol": rtol, "atol": 1e-2 * rtol}}
    defaults = default_params(FORWARD["ellipsoids"])
    cases = {"values": {name: [defaults[name], area * defaults[name]] for name in BY_AREA}}
    points = run_study(study(FORWARD["points"], "spheres", **tables), progress=progress)
    both = run_study(study(FORWARD["ellipsoids"], "spheres", cases=cases, **tables), progress=progress)
    ellipsoids, fitted = (both.isel(case=i).drop_vars(("case", *BY_AREA), errors="ignore") for i in range(2))
    return side_by_side({"points": points, "ellipsoids": ellipsoids, "fitted": fitted}, "layout")


def _fitting_area(prescribed: xr.Dataset) -> float:
    """Part of the ellipsoids' area with which they carry the load of the points best: least squares over time."""
    points, ellipsoids = (prescribed["F_z"].sel(layout=name).values for name in LAYOUTS)
    return float(points @ ellipsoids / (ellipsoids @ ellipsoids))


def _one_dataset(forward: xr.Dataset, prescribed: xr.Dataset, area: float) -> xr.Dataset:
    """Both experiments in one dataset, their results and records told apart by a first word."""
    found = {"forward": forward.rename(layout="sole"), "prescribed": prescribed.rename(fraction="stance")}
    renamed = [one.rename({name: f"{word}_{name}" for name in one.data_vars}) for word, one in found.items()]
    dataset = xr.merge(renamed, combine_attrs="drop_conflicts", join="exact", compat="no_conflicts")
    words = {"units": "1", "long_name": "part of the area with which ellipsoids carry the load of the points"}
    dataset["fitted_area"] = xr.Variable((), area, words)
    dataset.attrs = {f"{word}_{key}": value for word, one in found.items() for key, value in one.attrs.items()}
    return dataset


# ---------------------------------------------------------------- words


def _rms(values: Any) -> float:
    return float(np.sqrt(np.mean(np.asarray(values) ** 2)))


def _forces(forward: xr.Dataset, prescribed: xr.Dataset, area: float) -> list[str]:
    """How far the forces of the ellipsoids are from those of the points, RMS over time."""
    ours = {name: prescribed.sel(layout=name) for name in LAYOUTS}
    F_z, F_x = ((ours["points"][name], ours["ellipsoids"][name]) for name in ("F_z", "F_x"))
    # Below the cone friction is in proportion to the area too, and on it to the load, which is.
    rows = {
        "same prescribed motion, same area": (_rms(F_z[1] - F_z[0]), _rms(F_x[1] - F_x[0]), PRESCRIBED_WEIGHT),
        f"same prescribed motion, area x {area:.2f}": (
            _rms(area * F_z[1] - F_z[0]),
            _rms(area * F_x[1] - F_x[0]),
            PRESCRIBED_WEIGHT,
        ),
    }
    one = forward.isel(rtol=-1)
    times = np.linspace(0.0, float(one["t_end"].min()), 1001)

    def apart(other: str, curve: str) -> float:
        two = [one.sel(layout=name) for name in ("points", other)]
        a, b = (np.interp(times, each["t"].values, each[curve].values) for each in two)
        return _rms(a - b)

    for other in ("ellipsoids", "fitted"):
        words = LABELS[other].partition(", ")[2]
        rows[f"forward, {words}"] = (apart(other, "F_n"), apart(other, "F_t"), FORWARD_WEIGHT)
    angles = ", ".join(f"{part} {np.rad2deg(apart('ellipsoids', f'{part}_angle')):.2f}" for part in ANGLES)
    return [
        f"{'forces of ellipsoids and points apart, RMS':44}{'vertical':>9}{'horizontal':>12}",
        *(f"  {words:42}{100 * v / w:9.2f}{100 * h / w:12.2f} % BW" for words, (v, h, w) in rows.items()),
        f"  Lopes Table 1, each against measurement: {PRINTED_RMS}",
        f"  angles of the forward runs apart, same area, RMS: {angles} deg",
    ]


def _steps(forward: xr.Dataset) -> list[str]:
    """Steps of the forward simulation, which no machine changes."""
    lines = [f"{'forward simulation':28}{'rtol':>8}{'steps':>8}{'mean step':>14}{'against points':>16}"]
    for rtol in forward["rtol"].values:
        for name, label in LABELS.items():
            one = forward.sel(rtol=rtol, layout=name)
            larger = 100 * float(one["mean_step"] / forward["mean_step"].sel(rtol=rtol, layout="points") - 1)
            lines.append(
                f"  {label:26}{rtol:8.0e}{int(one['n_steps']):8}{float(one['mean_step']):12.3e} s{larger:+14.0f} %"
            )
    points, ellipsoids = PRINTED_STEP.values()
    change = 100 * (ellipsoids / points - 1)
    return [*lines, f"  Lopes Table 2: points {points:.3e} s, ellipsoids {ellipsoids:.3e} s, {change:+.0f} %"]


def _costs(lanes: int, repeats: int, rtol: float, area: float, progress: Progress) -> list[str]:
    """Measured time of a run, and of all forces in one frame of a motion, among many lanes."""
    settings = Settings(rtol=rtol, atol=1e-2 * rtol)
    forward = {name: _compiled(model, "spheres", settings, lanes) for name, model in FORWARD.items()}
    forces = {name: _compiled(model, "prescribed", settings, lanes) for name, model in PRESCRIBED.items()}
    jobs = {
        ("run", "points"): forward["points"],
        ("run", "ellipsoids"): forward["ellipsoids"],
        ("run", "fitted"): partial(forward["ellipsoids"], area),
        **{("forces", name): job for name, job in forces.items()},
    }
    best = best_times(jobs, repeats, progress)
    lines = [f"measured CPU times, {lanes} lanes together, best of {repeats}"]
    for what, name in jobs:
        words = f"a run at rtol {rtol:.0e}" if what == "run" else "all forces in a frame"
        each = 1e6 * best[what, name] / (lanes if what == "run" else lanes * FRAMES)
        change = 100 * (best[what, name] / best[what, "points"] - 1)
        lines.append(f"  {words:24}{LABELS[name]:26}{each:12,.{0 if what == 'run' else 2}f} us{change:+8.0f} %")
    points, ellipsoids = PRINTED_TIME.values()
    change = 100 * (ellipsoids / points - 1)
    return [*lines, f"  Lopes Table 2: points {points} s, ellipsoids {ellipsoids} s, {change:+.0f} %"]


def _compiled(model: Model, method: str, settings: Settings, lanes: int) -> Callable[..., Any]:
    """A function that runs that many equal lanes, with a part of the area."""
    machine = model.machine(method, {**{name: options[0] for name, options in model.choices.items()}, **SHOE}, settings)
    params = {name: jnp.full(lanes, value) for name, value in default_params(model).items()}
    function = jax.jit(lambda p: simulate(machine, p))
    return lambda area=1.0: function(params | {name: area * params[name] for name in BY_AREA})


# ---------------------------------------------------------------- figure


def _figure(forward: xr.Dataset, prescribed: xr.Dataset, area: float):
    title = "Lopes Table 2, Figs 3 and 4: six ellipsoids and 31 points under the same foot"
    figure, axes = plots.new_figure(2, 3, title, panel=(3.7, 2.8))
    drawn = {
        "F_n": ("vertical force (% BW)", 100 / FORWARD_WEIGHT),
        "F_t": ("horizontal force (% BW)", 100 / FORWARD_WEIGHT),
        "step": ("integration step (ms)", 1e3),
        "F_z": ("vertical force (% BW)", 100 / PRESCRIBED_WEIGHT),
        "F_x": ("horizontal force (% BW)", 100 / PRESCRIBED_WEIGHT),
        "cop_x": ("centre of pressure (mm)", 1e3),
    }
    for number, (name, label) in enumerate(LABELS.items()):
        style = {"number": number, "dash": plots.DASHES[number], "label": label}
        ahead = forward.isel(rtol=-1).sel(layout=name)
        along = prescribed.sel(layout="points" if name == "points" else "ellipsoids")
        if name == "fitted":
            along = along.assign({curve: area * along[curve] for curve in ("F_z", "F_x")})
        for panel, (curve, (words, factor)) in zip(axes.flat, drawn.items(), strict=True):
            one = ahead if panel in axes[0] else along
            plots.line(panel, one["t"], (factor * one[curve]).rename(curve), **style)
            panel.set_xlabel("time (s)")
            panel.set_ylabel(words)
        mean = 1e3 * float(ahead["mean_step"])
        axes[0, 2].axhline(mean, color=plots.COLOURS[number], linestyle=plots.DASHES[number], linewidth=0.8)
    for row, words in zip(axes, ("forward simulation", "prescribed motion"), strict=True):
        row[0].set_title(words, loc="left", fontsize=10)
    axes[0, 2].set_title("thin lines: mean step", loc="right", fontsize=9)
    plots.legend_below(figure, axes[0, 0].get_legend_handles_labels()[0])
    return figure
