"""Crutch Table 2: the regime of slip over posture and friction, both approaches.

Three rates of the shoulder give a tip that, before impact, slips forward (dq5 < 0), not at all (0), or back (dq5 > 0).
"""

import numpy as np
import xarray as xr

from jaxcontact import plots
from jaxcontact.contact.impulse import (
    IMMEDIATE_SLIDING,
    PERMANENT_SLIDING,
    PERMANENT_STICKING,
    REGIMES,
    SLIDING_REVERSAL,
    SLIDING_STICKING,
)
from jaxcontact.integrate.machine import FINISHED
from jaxcontact.models.impact_model import NOMINAL_K_N
from jaxcontact.study import run as run_study
from jaxcontact.study import study
from jaxcontact.study.published import Published
from jaxcontact.study.sweep import Progress

from ._approaches import BOTH, failures, run_approaches, share

DQ5 = {-0.2: "slips forward", 0.0: "no slip", 0.4: "slips back"}  # rad/s

# Table 2: whether the tip slips before impact, whether mu reaches mu_c, and what may then happen.
RULES = (
    (False, False, (IMMEDIATE_SLIDING,)),
    (False, True, (PERMANENT_STICKING,)),
    (True, False, (PERMANENT_SLIDING, SLIDING_REVERSAL)),
    (True, True, (PERMANENT_SLIDING, SLIDING_STICKING)),
)


def run(progress: Progress, count: int = 61) -> Published:
    """Map `count` x `count` postures and friction coefficients."""
    plane = {"q3": {"from": 3, "to": 21, "count": count}, "mu": {"from": 0.4, "to": 1.0, "count": count}}
    results = run_approaches("crutch", progress=progress, vary={**plane, "dq5": list(DQ5)})
    # A stiff contact leaves the posture no time to change, as the impulsive approach assumes.
    stiff = study("crutch", vary={**plane, "dq5": list(DQ5)}, set={"k_n": 1000 * NOMINAL_K_N})
    agreement = _agreement(results, run_study(stiff, progress=progress))
    text = "\n".join([*_counts(results), "", *_rules(results), *agreement, *failures(results)])
    return Published(text=text, dataset=results, figures={"table2": _figure(results)})


def _figure(results: xr.Dataset):
    title = "Crutch Table 2: evolution of the slip of the tip Q during impact"
    figure, axes = plots.new_figure(2, 3, title, panel=(3.4, 2.9), sharex=True, sharey=True)
    for row, approach in zip(axes, BOTH, strict=True):
        for panel, (dq5, slip) in zip(row, DQ5.items(), strict=True):
            one = results.sel(approach=approach, dq5=dq5)
            plots.regime_map(panel, one["regime"], x="q3", y="mu")
            panel.plot(one["q3"], one["mu_c"].isel(mu=0), color="black", linewidth=2)
            panel.set_title(rf"{approach}, $\dot q_5^-$ = {dq5:g} rad/s ({slip})", fontsize=9)
            panel.label_outer()
    curve = plots.Line2D([], [], color="black", linewidth=2, label=r"critical friction $\mu_c$")
    plots.legend_below(figure, [*plots.regime_handles(np.unique(results["regime"])), curve], columns=3)
    return figure


def _counts(results: xr.Dataset) -> list[str]:
    """How often each regime was found."""
    lines = [f"{'regime':20}" + "".join(f"{name:>12}" for name in BOTH)]
    for code in np.unique(results["regime"]):
        counts = (results["regime"] == code).sum(["q3", "mu", "dq5"])
        lines.append(f"{REGIMES[code]:20}" + "".join(f"{int(count):12d}" for count in counts))
    return lines


def _rules(results: xr.Dataset) -> list[str]:
    """In how many impacts each approach follows Table 2."""
    lines = ["Table 2 holds:"]
    for slips, enough, allowed in RULES:
        where = ((results["dq5"] != 0) == slips) & ((results["mu"] >= results["mu_c"]) == enough)
        holds = results["regime"].isin(allowed)
        condition = f"{'slip' if slips else 'no slip'}, mu {'>=' if enough else '<'} mu_c: "
        condition += " or ".join(REGIMES[code] for code in allowed)
        found = (f"{name} {share(holds.sel(approach=name), where.sel(approach=name))}" for name in BOTH)
        lines.append(f"  {condition:60}{', '.join(found)}")
    return lines


def _agreement(results: xr.Dataset, stiff: xr.Dataset) -> list[str]:
    """How often the approaches agree, how far from mu_c they do not, and what a stiff contact makes of it."""
    finished = (results["status"] == FINISHED).all("approach")
    compliant, impulsive = (results["regime"].sel(approach=name) for name in BOTH)
    differs = (compliant != impulsive) & finished
    away = abs(results["mu"] - results["mu_c"].sel(approach="impulsive")).where(differs, 0.0)
    return [
        f"The two approaches agree {share(compliant == impulsive, finished)}; where not, mu is within "
        f"{float(away.max()):.3f} of mu_c.",
        "A compliant impact takes time, in which the posture changes, and mu_c with it. With a contact a thousand",
        f"times stiffer they agree {share(stiff['regime'] == impulsive, stiff['status'] == FINISHED)}.",
    ]
