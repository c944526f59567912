"""Rolling Fig. 2: a stance leg over a rolling surface and over spheres, with the same ankle drive; motion and cost.

The paper tracks a measured gait of a whole body that is not printed. Here one leg carries the whole body as an inverted
pendulum, and the ankle is a spring and damper whose rest angle follows the same curve in both methods. The rolling
method has three coordinates less, as in the paper. Table 1, the paper's surface, did not survive; the surface here
belongs to the foot of Table 2: it touches where the heel and the ball of the three spheres do.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from jaxcontact import plots
from jaxcontact.integrate.machine import simulate
from jaxcontact.integrate.settings import Settings
from jaxcontact.integrate.tableau import TABLEAUS
from jaxcontact.models.model import default_params
from jaxcontact.models.rollover import rest_angle, rollover_model
from jaxcontact.study import run as run_study
from jaxcontact.study import study
from jaxcontact.study.published import Published
from jaxcontact.study.sweep import Progress

from ._approaches import failures, side_by_side
from ._timing import best_times

ROLLOVER = rollover_model()
TOLERANCES = (1e-4, 1e-6)  # rtol; atol is a hundredth of it
_STIFF = 1.0e9 / 6.5e5  # stiffness of ball and tip over the heel's, Rolling Table 2
CASES = {
    "as printed (Table 2)": {"v_slip": 0.02, "s2.weight": _STIFF, "s3.weight": _STIFF},
    "friction five times as smooth": {"v_slip": 0.10, "s2.weight": _STIFF, "s3.weight": _STIFF},
    "ball and tip as soft as the heel": {"v_slip": 0.02, "s2.weight": 1.0, "s3.weight": 1.0},
}
EVALUATIONS = len(TABLEAUS["dopri5"].stages) + 1  # of the right-hand side in each step
WEIGHT = 9.81 * sum(default_params(ROLLOVER)[f"{part}.mass"] for part in ("body", "foot", "toes"))
PAPER = 18.0
COMPARED = {  # curve: words, factor and unit
    "foot_angle": ("foot angle", 180 / np.pi, "deg"),
    "ankle_angle": ("ankle angle", 180 / np.pi, "deg"),
    "leg_angle": ("leg angle", 180 / np.pi, "deg"),
    "F_n": ("vertical force", 100 / WEIGHT, "% BW"),
    "cop_x": ("centre of pressure", 1e3, "mm"),
}


def run(
    progress: Progress, points: int = 801, tolerances: Sequence[float] = TOLERANCES, lanes: int = 128, repeats: int = 5
) -> Published:
    """Run both methods at each tolerance (rtol), of which the last is drawn; `lanes` = 0 takes no times."""
    tables = {"output": {"curves": True, "points": points}}
    cases = {"values": {name: [case[name] for case in CASES.values()] for name in next(iter(CASES.values()))}}
    rolling = _at_tolerances("rolling", tolerances, progress, **tables)
    spheres = _at_tolerances("spheres", tolerances, progress, cases=cases, **tables)
    text = [
        *_differences(rolling, spheres),
        "",
        *_steps(rolling, spheres),
        "",
        *(_costs(lanes, repeats, progress) if lanes else ["No times were taken."]),
        _WHY.rstrip(),
        *failures(rolling),
        *failures(spheres),
    ]
    dataset = _one_dataset(rolling, spheres)
    return Published("\n".join(text), dataset, {"rolling_spheres": _figure(rolling, spheres)})


_WHY = f"""\
The paper finds approx. {PAPER:.0f} x. It is no constant. Explicit steps on spheres are bound by the stiffest of contact
and friction, and both are free numbers: with ball and tip as soft as the heel the steps alone come near the paper's
ratio. There, both methods also carry a whole body with two legs, which costs the same in both, and rolling needs Newton
iterations for its closed loop; here the joint is in closed form. An integrator for stiff equations would help spheres.
"""


def _at_tolerances(method: str, tolerances: Sequence[float], progress: Progress, **tables) -> xr.Dataset:
    found = {
        rtol: run_study(
            study(ROLLOVER, method, solver={"rtol": rtol, "atol": 1e-2 * rtol}, **tables), progress=progress
        )
        for rtol in tolerances
    }
    return side_by_side(found, "rtol")


def _one_dataset(rolling: xr.Dataset, spheres: xr.Dataset) -> xr.Dataset:
    """Both methods in one dataset, their results and records told apart by the method's name."""
    found = {"rolling": rolling, "spheres": spheres.assign_coords(case=list(CASES))}
    renamed = [one.rename({name: f"{method}_{name}" for name in one.data_vars}) for method, one in found.items()]
    dataset = xr.merge(renamed, combine_attrs="drop_conflicts", join="exact", compat="no_conflicts")
    dataset.attrs = {f"{method}_{key}": value for method, one in found.items() for key, value in one.attrs.items()}
    return dataset


# ---------------------------------------------------------------- words


def _differences(rolling: xr.Dataset, spheres: xr.Dataset) -> list[str]:
    """How far apart the two methods are, and what the rolling joint asks of the floor."""
    one, other = rolling.isel(rtol=-1), spheres.isel(rtol=-1, case=0)
    times = np.linspace(0.0, min(float(one["t_end"]), float(other["t_end"])), 1001)
    lines = [f"{'difference of the methods over time':36}{'RMS':>8}{'largest':>10}{'range':>10}"]
    for name, (words, factor, unit) in COMPARED.items():
        a, b = (factor * np.interp(times, each["t"].values, each[name].values) for each in (one, other))
        gap = a - b
        lines.append(f"  {words:34}{np.sqrt(np.mean(gap**2)):8.2f}{np.max(np.abs(gap)):10.2f}{np.ptp(a):10.1f} {unit}")
    needed = np.abs(one["F_t"].values / one["F_n"].values)
    at = int(np.argmax(needed))
    ends = [float(each["t_end"]) for each in (one, other)]
    return [
        *lines,
        f"  the leg passes {np.rad2deg(float(one['leg_angle'][-1])):.0f} deg after {ends[0]:.3f} s rolling and "
        f"{ends[1]:.3f} s on spheres",
        f"rolling needs friction of at most {needed[at]:.2f}, at {float(one['t'][at]):.3f} s; "
        f"the floor would have to pull with {float(one['P_pull']):.2g} N s",
    ]


def _steps(rolling: xr.Dataset, spheres: xr.Dataset) -> list[str]:
    """Steps and evaluations, which no machine changes."""
    lines = [f"{'':44}{'rtol':>7}{'steps':>8}{'mean step':>12}{'evaluations':>13}{'ratio':>8}"]
    for rtol in rolling["rtol"].values:
        one = rolling.sel(rtol=rtol)
        rows = {"rolling surface": one} | {
            f"spheres, {name}": spheres.sel(rtol=rtol).isel(case=i) for i, name in enumerate(CASES)
        }
        for name, row in rows.items():
            steps, length = int(row["n_steps"]), 1e3 * float(row["mean_step"])
            ratio = steps / float(one["n_steps"])
            lines.append(f"{name:44}{rtol:7.0e}{steps:8}{length:9.3f} ms{EVALUATIONS * steps:13,}{ratio:8.1f}")
    return lines


def _costs(lanes: int, repeats: int, progress: Progress) -> list[str]:
    """Measured time of a run among many lanes that step together."""
    choices = {name: options[0] for name, options in ROLLOVER.choices.items()}
    params = {name: jnp.full(lanes, value) for name, value in default_params(ROLLOVER).items()}
    compiled = {
        method: jax.jit(lambda p, settings, method=method: simulate(ROLLOVER.machine(method, choices, settings), p))
        for method in ROLLOVER.methods
    }
    jobs = {
        (method, rtol): (lambda f=f, rtol=rtol: f(params, Settings(rtol=rtol, atol=1e-2 * rtol)))
        for rtol in TOLERANCES
        for method, f in compiled.items()
    }
    best = best_times(jobs, repeats, progress)
    lines = [f"measured CPU time of a run, {lanes} lanes together, best of {repeats}:"]
    for rtol in TOLERANCES:
        rolling, spheres = (1e6 * best[method, rtol] / lanes for method in ("rolling", "spheres"))
        steps = [int(jobs[method, rtol]()["n_steps"][0]) for method in ("rolling", "spheres")]
        ratio = spheres / rolling
        lines.append(
            f"  rtol {rtol:.0e}: rolling surface {rolling:.0f} us, spheres {spheres:.0f} us, ratio {ratio:.0f} "
            f"(a step on spheres costs {ratio * steps[0] / steps[1]:.1f} steps of rolling)"
        )
    return lines


# ---------------------------------------------------------------- figure


def _figure(rolling: xr.Dataset, spheres: xr.Dataset):
    drawn = {
        "rolling surface": rolling.isel(rtol=-1),
        "three spheres, Table 2": spheres.isel(rtol=-1, case=0),
    }
    title = "Rolling Fig. 2: a stance leg over its foot, on a rolling surface and on spheres, same ankle drive"
    figure, axes = plots.new_figure(2, 3, title, panel=(3.6, 2.7), sharex=True)
    for number, (label, one) in enumerate(drawn.items()):
        time = one["t"]
        dash = plots.DASHES[number]
        for panel, (name, (words, factor, unit)) in zip(axes.flat, COMPARED.items(), strict=False):
            curve = (factor * one[name]).rename(name).assign_attrs(units=unit)
            plots.line(panel, time, curve, number=number, dash=dash, label=label)
            panel.set_ylabel(f"{words} ({unit})")
        last = axes[1, 2]
        plots.line(last, time, (1e3 * one["step"]).rename("step").assign_attrs(units="ms"), number=number, dash=dash)
        last.set_ylabel("integration step (ms)")
        last.set_yscale("log")
    time = rolling["t"].isel(rtol=-1).values
    rest, _ = rest_angle(default_params(ROLLOVER), time)
    axes[0, 1].plot(time, np.rad2deg(rest), ":", color=plots.GREY, label="rest angle of the ankle's spring")
    for panel in axes.flat:
        panel.set_xlabel("time (s)" if panel in axes[1] else "")
    plots.legend_below(figure, axes[0, 1].get_legend_handles_labels()[0])
    return figure
