"""Crutch section 5.5 by exact derivatives: what k_n, chi and mu do to impulses and forces, beside Table 3.

The paper perturbs stiffness and damping of the reference case (mu 0.75, dq5 -0.2 rad/s, q3 12 deg) by factors of up to
5 and compares. Here the same nine impacts carry their derivatives along, through sliding, sticking and the end. Then
all three parameters vary at once, and variance says which of them matters.
"""

import math

import numpy as np
import xarray as xr

from jaxcontact import plots
from jaxcontact.study import study
from jaxcontact.study.published import Published
from jaxcontact.study.sensitivity import local, sobol
from jaxcontact.study.sweep import Progress

from ._crutch import CHI, K_N, PAIR_CASES, PAIRS, REFERENCE
from .table3 import PRINTED, TOLERANCES

BY = ("k_n", "chi", "mu")
OUTCOMES = ("P_n", "P_t", "F_n_peak", "t_end")
FORCES = ("F_n", "F_t")
SOLVER = TOLERANCES["converged"]
POINTS = 201  # of the curves
FACTORS = {"k_n": K_N, "chi": CHI}
COLOURS = (plots.COLOURS[0], plots.COLOURS[1], plots.COLOURS[3])  # of the three parameters

NOTE = """\
"tangent" follows the elasticity e of the nominal impact, r^e - 1 for a parameter times r; "both" takes the mean of the
elasticities at both ends. Of impulses they are off by {tangent:.2f} and {both:.2f} % at most,
for factors of up to {most:g}. A tangent is local: five times chi raises the peak force by {peak:.1f} %, although its
elasticity is negative. Printed impulses lack what comes after the paper's last sample (see table3): of their changes
that is {printed:.2f} % at most, as much as the changes themselves. Derivatives need no second run to be subtracted."""


def run(progress: Progress, base_points: int = 1024) -> Published:
    """Differentiate the nine impacts of Table 3, then take shares of variance over `base_points` x 5 others."""
    columns = PAIR_CASES | {"mu": [REFERENCE["mu"]] * len(PAIRS)}
    slopes = differentiate(columns, progress)
    shares = sobol(_space(base_points), outcomes=OUTCOMES, progress=progress)
    results = xr.merge(
        [slopes, shares[["S1", "S1_conf", "ST", "ST_conf", "used"]].drop_vars("parameter_unit")],
        combine_attrs="drop_conflicts",
    )
    results["printed_P_n"] = ("case", PRINTED[:, 0], {"units": "N s", "long_name": "P_n in Crutch Table 3"})
    results["printed_P_t"] = ("case", PRINTED[:, 1], {"units": "N s", "long_name": "P_t in Crutch Table 3"})
    text = "\n\n".join([_elasticities(results), _changes(results), _shares(results, shares.attrs["dropped"])])
    return Published(text=text, dataset=results, figures={"crutch_sensitivity": _figure(results)})


def differentiate(columns: dict, progress: Progress | None = None) -> xr.Dataset:
    """Outcomes and forces of the reference case with other k_n, chi and mu, and their derivatives by these."""
    fixed = {name: value for name, value in REFERENCE.items() if name not in columns}
    tables = {"cases": {"values": columns}, "set": fixed, "solver": SOLVER, "output": {"points": POINTS}}
    return local(study("crutch", **tables), BY, outcomes=[*OUTCOMES, *FORCES, "t"], progress=progress)


def _space(base_points: int):
    """As far as the paper goes with k_n and chi, and mu between its smallest and its largest."""
    nominal = {name: PAIR_CASES[name][0] for name in FACTORS}
    vary = {
        name: {
            "from": min(factors.values()) * nominal[name],
            "to": max(factors.values()) * nominal[name],
            "scale": "log",
        }
        for name, factors in FACTORS.items()
    }
    vary |= {"mu": {"from": 0.5, "to": 1.0}}
    fixed = {name: value for name, value in REFERENCE.items() if name not in vary}
    design = {"count": base_points, "method": "saltelli", "second_order": False}
    return study("crutch", vary=vary, set=fixed, sample=design)


# ---------------------------------------------------------------- in words


def _elasticities(results: xr.Dataset) -> str:
    nominal = results.isel(case=0)
    lines = [
        "Elasticities of the nominal impact: change of the outcome in %, for 1 % of the parameter",
        f"{'':10}{'value':>12}      " + "".join(f"{name:>10}" for name in BY),
    ]
    for name in OUTCOMES:
        unit = nominal[name].attrs["units"]
        cells = "".join(f"{float(e):10.4f}" for e in nominal[f"elasticity_{name}"])
        lines.append(f"{name:10}{float(nominal[name]):12.5g} {unit:4} {cells}")
    return "\n".join(lines)


def _changes(results: xr.Dataset) -> str:
    """Table 3 as changes against its nominal row, and what derivatives say about them."""
    told = {name: change(results, name) for name in OUTCOMES}
    short = f"{'run':>8}{'tangent':>8}{'both':>8}"
    head = f"{'printed':>8}{short}"
    lines = [
        "Change against the nominal pair, in %: as printed, by another run, and by derivatives alone",
        f"{'':13}{'P_n':>20}{'':12}  {'P_t':>20}{'':12}  {'F_n_peak':>17}{'':7}  {'t_end':>15}",
        f"{'k_n':6} {'chi':6}{head}  {head}  {short}  {short}",
    ]
    for i in range(1, len(PAIRS)):
        cells = "  ".join("".join(f"{told[name][key][i]:+8.3f}" for key in told[name]) for name in OUTCOMES)
        lines.append(f"{PAIRS[i][0]:6} {PAIRS[i][1]:6}{cells}")
    impulses = [told[name] for name in ("P_n", "P_t")]
    peak = told["F_n_peak"]["run"][PAIRS.index(("k_n", "5 chi"))]
    off = {key: max(np.abs(one[key] - one["run"]).max() for one in impulses) for key in ("printed", "tangent", "both")}
    return "\n".join([*lines, NOTE.format(**off, peak=peak, most=max(CHI.values()))])


def change(results: xr.Dataset, name: str) -> dict[str, np.ndarray]:
    """Changes of an outcome against the nominal case in %, by every way of knowing them."""
    found = {}
    if f"printed_{name}" in results:
        found["printed"] = results[f"printed_{name}"].values
    found["run"] = results[name].values
    found = {key: 100 * (values / values[0] - 1) for key, values in found.items()}
    elasticity = results[f"elasticity_{name}"]
    log_ratio = np.log(results["parameter_value"] / results["parameter_value"].isel(case=0))
    for key, exponent in (("tangent", elasticity.isel(case=0)), ("both", (elasticity + elasticity.isel(case=0)) / 2)):
        found[key] = 100 * np.expm1((exponent * log_ratio).sum("parameter").values)
    return found


def _shares(results: xr.Dataset, dropped: str) -> str:
    ranges = "k_n/3 to 3 k_n and chi/5 to 5 chi (log), mu 0.5 to 1"
    lines = [
        f"Shares of variance over {ranges}: first order S1 and total ST, +- 95 %",
        f"{'':10}" + "".join(f"{f'{name}: S1':>18}{'ST':>16}" for name in BY),
    ]
    for outcome in OUTCOMES:
        one = results.sel(outcome=outcome)
        cells = "".join(
            f"{float(one[key][i]):{width}.3f} +- {float(one[f'{key}_conf'][i]):.3f}"
            for i in range(len(BY))
            for key, width in (("S1", 9), ("ST", 7))
        )
        lines.append(f"{outcome:10}{cells}")
    impulses = results.sel(outcome=["P_n", "P_t"])
    least = float(impulses["ST"].sel(parameter="mu").min())
    return "\n".join(
        [
            *lines,
            f"{dropped}.",
            "Impulses hardly depend on k_n and chi, as the paper expects: "
            f"{100 * least:.1f} % or more of their variance has to do with mu.",
        ]
    )


# ---------------------------------------------------------------- in a picture


def _figure(results: xr.Dataset):
    figure, axes = plots.new_figure(2, 2, "Crutch section 5.5 by exact derivatives", panel=(4.9, 3.2))
    for panel, name in zip(axes[0], FACTORS, strict=True):
        _draw_changes(panel, results, name)
    _draw_force(axes[1, 0], results)
    _draw_shares(axes[1, 1], results)
    return figure


def _draw_changes(panel, results: xr.Dataset, varied: str) -> None:
    """Printed and simulated changes of both impulses over the factor, and the tangent at the nominal pair."""
    other = next(name for name in FACTORS if name != varied)
    position = BY.index(varied)
    factors = FACTORS[varied]
    pairs = [(label, other) if varied == "k_n" else (other, label) for label in factors]
    cases = [PAIRS.index(pair) for pair in pairs]
    ratio = np.array(list(factors.values()))
    fine = np.geomspace(ratio.min(), ratio.max(), 50)
    for number, name in enumerate(("P_n", "P_t")):
        told = change(results, name)
        colour, marker = plots.COLOURS[number], plots.MARKERS[number]
        elasticity = float(results[f"elasticity_{name}"].isel(case=0, parameter=position))
        symbol = plots.SYMBOLS[name]
        panel.plot(fine, 100 * (fine**elasticity - 1), color=colour, linestyle="--", label=f"{symbol} tangent")
        panel.plot(ratio, told["run"][cases], color=colour, marker=marker, linewidth=1.0, label=f"{symbol} run")
        panel.plot(ratio, told["printed"][cases], color=colour, marker="x", linestyle="", label=f"{symbol} printed")
    panel.set_xscale("log")
    panel.set_xticks(ratio, [f"{r:.2g}" for r in ratio])
    panel.minorticks_off()
    symbol = {"k_n": "$k_n$", "chi": r"$\chi$"}[varied]
    panel.set_xlabel(f"{symbol} over its nominal value (1)")
    panel.set_ylabel("change of the impulse (%)")
    panel.legend(fontsize=7, ncols=2)


def _draw_force(panel, results: xr.Dataset) -> None:
    nominal = results.isel(case=0)
    time = plots.in_milliseconds(nominal["t"])
    panel.plot(time, nominal["F_n"] / 5, color=plots.GREY, linewidth=0.8, label="$F_n$ / 5")
    for number, (name, symbol) in enumerate(zip(BY, ("k_n", r"\chi", r"\mu"), strict=True)):
        curve = nominal["dlog_F_n"].sel(parameter=name)
        label = rf"$\partial F_n / \partial \ln {symbol}$"
        panel.plot(time, curve, color=COLOURS[number], linestyle=plots.DASHES[number], label=label)
    panel.set_xlabel("time since touch-down (ms)")
    panel.set_ylabel("change of $F_n$ at a fixed fraction\nof the impact, per $\\ln$ of a parameter (N)")
    panel.legend(fontsize=7)


def _draw_shares(panel, results: xr.Dataset) -> None:
    place, width = np.arange(len(OUTCOMES)), 0.26
    for number, (name, symbol) in enumerate(zip(BY, ("$k_n$", r"$\chi$", r"$\mu$"), strict=True)):
        one = results.sel(parameter=name)
        panel.bar(
            place + (number - 1) * width,
            one["ST"].sel(outcome=list(OUTCOMES)),
            width,
            yerr=one["ST_conf"].sel(outcome=list(OUTCOMES)),
            color=COLOURS[number],
            error_kw={"elinewidth": 0.8},
            label=symbol,
        )
    panel.set_xticks(place, ["$P_n^+$", "$P_t^+$", "peak $F_n$", "duration"])
    panel.set_ylabel("total share of variance $S_T$ (1)")
    panel.set_ylim(0, math.ceil(10 * float((results["ST"] + results["ST_conf"]).max())) / 10)
    panel.legend(fontsize=8)
