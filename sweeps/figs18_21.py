"""Crutch Figs 18-21: time histories of rates and forces for five stiffnesses and five dampings."""

import xarray as xr

from jaxcontact import plots
from jaxcontact.study import run as run_study
from jaxcontact.study import study
from jaxcontact.study.published import Published
from jaxcontact.study.sweep import Progress

from ._approaches import share
from ._crutch import CHI, K_N, PAIR_CASES, PAIRS, REFERENCE

# The two sets of five, as positions among the pairs of Table 3: the nominal one is in both.
SETS = {
    "k_n": {label: PAIRS.index((label, "chi")) for label in K_N},
    "chi": {label: PAIRS.index(("k_n", label)) for label in CHI},
}
RATES = ("dq1", "dq2", "dq3_curve", "dq4_curve", "dq5_curve", "dq6_curve")  # dq3 itself is a parameter
FORCES = ("F_n", "F_t")


def run(progress: Progress) -> Published:
    """Trace the nine pairs once; each figure shows five of them."""
    tables = {"cases": {"values": PAIR_CASES}, "set": REFERENCE, "output": {"curves": True, "points": 401}}
    results = run_study(study("crutch", **tables), progress=progress)
    figures = {
        "fig18": _rates(results, "k_n", "Crutch Fig. 18: rates of the six coordinates, five stiffnesses"),
        "fig19": _rates(results, "chi", "Crutch Fig. 19: rates of the six coordinates, five dampings"),
        "figs20_21": _forces(results),
    }
    return Published(text="\n".join(_claims(results)), dataset=results, figures=figures)


def _rates(results: xr.Dataset, varied: str, title: str):
    figure, axes = plots.new_figure(2, 3, title, panel=(3.3, 2.4), sharex=True)
    for panel, name in zip(axes.flat, RATES, strict=True):
        _draw(panel, results, varied, name)
        if panel in axes[0]:
            panel.set_xlabel("")
        panel.set_ylabel(plots.axis_label(results[name], rf"$\dot q_{name[2]}$"))
    plots.legend_below(figure, axes[0, 0].get_legend_handles_labels()[0])
    return figure


def _forces(results: xr.Dataset):
    title = "Crutch Figs 20 and 21: contact forces, five stiffnesses and five dampings"
    figure, axes = plots.new_figure(2, 2, title, panel=(4.6, 2.9))
    for row, varied, number in zip(axes, SETS, (20, 21), strict=True):
        for panel, name in zip(row, FORCES, strict=True):
            _draw(panel, results, varied, name)
        row[0].set_title(f"Fig. {number}", loc="left", fontsize=10)
        row[1].legend(fontsize=8)
    return figure


def _draw(panel, results: xr.Dataset, varied: str, name: str) -> None:
    """Five curves in time, each with its own colour, marker and label."""
    for number, (label, case) in enumerate(SETS[varied].items()):
        one = results.isel(case=case)
        marks = {"marker": plots.MARKERS[number], "every": (12 * number, 80), "label": _label(label)}
        plots.line(panel, plots.in_milliseconds(one["t"]), one[name], number=number, **marks)


def _label(text: str) -> str:
    return "$" + text.replace("chi", r"\chi").replace(" ", r"\,") + "$"


def _claims(results: xr.Dataset) -> list[str]:
    """What section 5.5 says, and what is found."""
    lines = [f"{'':6}{'t_end (ms)':>12}{'F_n peak (N)':>14}{'F_n end (N)':>13}{'F_t end (N)':>13}"]
    ends = {}
    for varied, members in SETS.items():
        one = ends[varied] = results.isel(case=list(members.values()))
        for i, label in enumerate(members):
            row = one.isel(case=i)
            F_n, F_t = (float(row[name].isel(fraction=-1)) for name in FORCES)
            lines.append(
                f"{label:6}{1e3 * float(row['t_end']):12.3f}{float(row['F_n_peak']):14.0f}{F_n:13.0f}{F_t:13.0f}"
            )
    spreads = {
        varied: ", ".join(f"{name[:3]} {_spread(one[name]):.1f} %" for name in RATES) for varied, one in ends.items()
    }
    peaks = {varied: _ratio(one["F_n_peak"]) for varied, one in ends.items()}
    finals = {varied: _ratio(one["F_n"].isel(fraction=-1)) for varied, one in ends.items()}
    shorter = [one["t_end"].diff("case") < 0 for one in ends.values()]
    return [
        *lines,
        "",
        "What the paper says, and what is found:",
        f"- the impact is longer the lower the stiffness ({share(shorter[0])}) and the damping ({share(shorter[1])})",
        "- final rates differ visibly only for dq1 and dq2; spread of the final values, in % of the panel's range:",
        *(f"    over {varied}: {spread}" for varied, spread in spreads.items()),
        f"- the peak force rises dramatically with stiffness (by a factor {peaks['k_n']:.2f}) "
        f"and stays similar with damping ({peaks['chi']:.2f})",
        f"- final forces depend on the parameters, on k_n above all: F_n at the end by a factor {finals['k_n']:.2f} "
        f"over k_n and {finals['chi']:.2f} over chi",
        f"- F_t changes suddenly where sliding turns into sticking, whatever the parameters: {share(_jumps(results))}",
    ]


def _ratio(values: xr.DataArray) -> float:
    return float(values.max() / values.min())


def _spread(curves: xr.DataArray) -> float:
    """How far apart five curves end, in % of all that they cover."""
    ends = curves.isel(fraction=-1)
    return 100 * float((ends.max() - ends.min()) / (curves.max() - curves.min()))


def _jumps(results: xr.Dataset) -> xr.DataArray:
    """Whether |F_t|/F_n starts at mu and drops by more than a twentieth of it between two neighbouring points."""
    ratio = abs(results["F_t"] / results["F_n"]).isel(fraction=slice(1, None))
    mu = REFERENCE["mu"]
    return (abs(ratio.isel(fraction=0) - mu) < 1e-9) & (ratio.diff("fraction").min("fraction") < -0.05 * mu)
