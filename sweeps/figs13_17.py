"""Crutch Figs 13-17: evolution along the normal impulse in five regimes, both approaches."""

import numpy as np
import xarray as xr

from jaxcontact import plots
from jaxcontact.study import run as run_study
from jaxcontact.study import study
from jaxcontact.study.published import Published
from jaxcontact.study.sweep import Progress

from ._approaches import BOTH, gap, regime_names, run_approaches

# The cases by figure, and the regime that each caption names.
CASES = {
    13: {"mu": 0.5, "dq5": 0.0, "q3": 21.0},
    14: {"mu": 0.5, "dq5": 0.4, "q3": 21.0},
    15: {"mu": 0.75, "dq5": -0.2, "q3": 12.0},
    16: {"mu": 0.75, "dq5": 0.0, "q3": 15.0},
    17: {"mu": 0.75, "dq5": 0.0, "q3": 18.0},
}
PRINTED = ["immediate_sliding", "sliding_reversal", "sliding_sticking", "permanent_sticking", "immediate_sliding"]
QUANTITIES = ("v_n_foot", "v_t_tip", "P_t", "W_n", "W_t")


def run(progress: Progress) -> Published:
    """Trace the five cases by both approaches, and once more without gravity."""
    cases = {"values": {name: [case[name] for case in CASES.values()] for name in ("mu", "dq5", "q3")}}
    results = run_approaches("crutch", progress=progress, cases=cases, output={"curves": True})
    results = results.rename(case="figure").assign_coords(figure=list(CASES)).transpose("figure", ...)
    weightless = run_study(study("crutch", cases=cases, set={"gravity": 0.0}), progress=progress)
    text = "\n".join([*_table(results, weightless), "", *_claims(results, weightless)])
    return Published(text=text, dataset=results, figures={"figs13_17": _figure(results)})


def _figure(results: xr.Dataset):
    """A column per figure of the paper, a row per quantity."""
    title = "Crutch Figs 13-17: evolution along the normal impulse"
    figure, axes = plots.new_figure(len(QUANTITIES), len(CASES), title, panel=(2.6, 1.8), sharex="col")
    for column, (number, case) in enumerate(CASES.items()):
        for panel, name in zip(axes[:, column], QUANTITIES, strict=True):
            plots.compare_approaches(panel, results.sel(figure=number), f"{name}_curve", x="P_n_curve")
            plots.show_at_least(panel, 1e-3)
            if column > 0:
                panel.set_ylabel("")
            if name != QUANTITIES[-1]:
                panel.set_xlabel("")
        state = rf"$\mu$ = {case['mu']:g}, $\dot q_5^-$ = {case['dq5']:g} rad/s, $q_3^-$ = {case['q3']:g}°"
        axes[0, column].set_title(
            f"Fig. {number}: {PRINTED[column].replace('_', ' ')}\n{state}", fontsize=8, linespacing=1.6
        )
    plots.legend_below(figure, plots.approach_handles(coloured=True))
    return figure


def _table(results: xr.Dataset, weightless: xr.Dataset) -> list[str]:
    """Regimes, the slip before impact, and the velocity of the foot after it."""
    slip = results["v_t_tip_curve"].isel(fraction=0).sel(approach="impulsive").values.round(12) + 0.0
    foot = [*(results["v_n_foot"].sel(approach=name).values for name in BOTH), weightless["v_n_foot"].values]
    columns = "".join(f"{name:20}" for name in ("as printed", *BOTH))
    lines = [
        f"{'':66}{'v_t-(Q)':>8}{'v_n+(P) (m/s):':>17}",
        f"Fig.  {columns}{'(m/s)':>8}{'compliant':>17}{'impulsive':>12}{'compliant without gravity':>28}",
    ]
    for i, (number, found) in enumerate(zip(CASES, regime_names(results), strict=True)):
        names = "".join(f"{name:20}" for name in (PRINTED[i], *found))
        lines.append(f"{number:4}  {names}{slip[i]:8.3f}{foot[0][i]:17.4f}{foot[1][i]:12.4f}{foot[2][i]:28.4f}")
    return lines


def _claims(results: xr.Dataset, weightless: xr.Dataset) -> list[str]:
    """What section 5.4 says, and what is found."""
    as_printed = sum(set(found) == {name} for found, name in zip(regime_names(results), PRINTED, strict=True))
    gaps = (f"{name} {float(gap(results, name).max()):.3f} {results[name].attrs['units']}" for name in QUANTITIES)
    impulsive, compliant = (results["v_n_foot"].sel(approach=name).values[2:] for name in ("impulsive", "compliant"))
    more = 100 * (impulsive / compliant - 1)
    without = 100 * np.abs(impulsive / weightless["v_n_foot"].values[2:] - 1).max()
    duration = 1e3 * results["t_end"].sel(approach="compliant").values
    return [
        f"- Regimes are as printed in {as_printed} of {len(CASES)} cases.",
        "- Fig. 15 starts with v_t(Q) > 0, as dq5 < 0 must by the paper's own sign rule; its section 5.4 says v_t < 0.",
        "  Fig. 14 starts with v_t(Q) < 0, as it says.",
        "- At mu 0.75 the paper has v_n+(P) higher in the impulsive approach, by up to 10 %. It is higher here,",
        f"  but by {more.min():.0f} to {more.max():.0f} %: a compliant impact lasts {duration.min():.1f} to "
        f"{duration.max():.1f} ms, in which the free foot falls. Without gravity {without:.1f} % would be left.",
        f"- Largest differences at the end: {', '.join(gaps)}.",
    ]
