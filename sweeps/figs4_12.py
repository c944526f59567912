"""Crutch Figs 4-12: velocities, impulses and work after impact against posture, both approaches.

Three friction coefficients (columns) and four rates of the shoulder before impact (colours).
"""

import xarray as xr

from jaxcontact import plots
from jaxcontact.contact.impulse import PERMANENT_STICKING, SLIDING_STICKING
from jaxcontact.study.published import Published
from jaxcontact.study.sweep import Progress

from ._approaches import failures, gap_table, run_approaches, share
from ._crutch import DQ5, MU

GROUPS = {  # file stem: first figure, title, quantities
    "figs4_6": (4, "velocities of foot P and tip Q after impact", ("v_n_foot", "v_t_tip")),
    "figs7_9": (7, "impulses on the tip", ("P_n", "P_t")),
    "figs10_12": (10, "work of the normal and the tangential force", ("W_n", "W_t")),
}
PAPER_POSTURES = 7  # q3 = 3, 6, ... 21 deg


def run(progress: Progress, between: int = 5) -> Published:
    """Draw lines with `between` postures between each two of the paper's; markers and numbers are at the paper's."""
    every = between + 1
    q3 = {"from": 3, "to": 21, "count": (PAPER_POSTURES - 1) * every + 1}
    results = run_approaches("crutch", progress=progress, vary={"q3": q3, "mu": MU, "dq5": DQ5})
    figures = {stem: _figure(results, *group, every) for stem, group in GROUPS.items()}
    printed = results.isel(q3=slice(None, None, every))
    return Published(text="\n".join(_claims(printed) + failures(results)), dataset=results, figures=figures)


def _figure(results: xr.Dataset, first: int, title: str, names: tuple[str, ...], every: int):
    """Draw three figures of the paper side by side, a column each."""
    heading = f"Crutch Figs {first}-{first + 2}: {title}"
    figure, axes = plots.new_figure(len(names), len(MU), heading, sharex=True, sharey="row")
    for row, name in zip(axes, names, strict=True):
        for panel, mu in zip(row, MU, strict=True):
            plots.compare_approaches(panel, results.sel(mu=mu), name, x="q3", by="dq5", every=every)
            panel.set_xticks(range(3, 22, 3))
            panel.label_outer()
    for column, mu in enumerate(MU):
        axes[0, column].set_title(rf"Fig. {first + column}: $\mu$ = {mu:g}", fontsize=10)
    rates = plots.by_handles(DQ5, r"$\dot q_5^-$ = {:g} rad/s")
    plots.legend_below(figure, [*rates, *plots.approach_handles()], columns=3)
    return figure


def _claims(results: xr.Dataset) -> list[str]:
    """What sections 5.1-5.3 say, and what is found at the same 84 states."""
    sticks = results["regime"].isin([PERMANENT_STICKING, SLIDING_STICKING])
    middle, upright = sticks.sel(mu=0.75), sticks.sel(mu=0.75)["q3"] <= 15
    leaning = results.diff("q3")
    W_n, W_t = abs(results["W_n"]), abs(results["W_t"])
    loss = 100 * (1 - W_n.isel(q3=-1) / W_n.isel(q3=0))
    slides_on = ~sticks & ~sticks.shift(q3=1, fill_value=True)  # here and at the posture before

    def rising(mu: float) -> str:
        return share(W_t.diff("q3").sel(mu=mu) > 0, slides_on.isel(q3=slice(1, None)).sel(mu=mu))

    return [
        gap_table(results, ("v_n_foot", "v_t_tip", "P_n", "P_t", "W_n", "W_t")),
        "",
        "What the paper says, and what is found at its 84 states by the two approaches:",
        f"- mu 0.5 slides to the end: {share(~sticks.sel(mu=0.5))}",
        f"- mu 0.75 ends sticking up to q3 = 15 deg: {share(middle & upright, upright & (middle == middle))}; "
        f"beyond, it slides: {share(~middle & ~upright, ~upright & (middle == middle))}",
        f"- mu 1 ends sticking: {share(sticks.sel(mu=1.0))}",
        f"- P_t is negative: {share(results['P_t'] < 0)}",
        f"- from posture to posture v_n(P) falls with the lean {share(leaning['v_n_foot'] < 0)}, "
        f"P_n {share(leaning['P_n'] < 0)}, |P_t| {share(leaning['P_t'] > 0)}",
        f"- the higher P_n, the higher v_n(P) and |W_n|: correlation "
        f"{float(xr.corr(results['P_n'], results['v_n_foot'])):.3f} and {float(xr.corr(results['P_n'], W_n)):.3f}",
        f"- leaning may take more than 50 % of |W_n|: it takes {float(loss.min()):.0f} to {float(loss.max()):.0f} %",
        f"- |W_t| is below |W_n|: {share(W_t < W_n)}",
        f"- |W_t| of a sliding tip rises with the lean, except for mu 0.5: {rising(0.75)} of mu 0.75, "
        f"{rising(0.5)} of mu 0.5",
        f"- the impulses of the approaches are close: P_n {', '.join(_apart(results, mu) for mu in MU)}",
    ]


def _apart(results: xr.Dataset, mu: float) -> str:
    P_n = results["P_n"].sel(mu=mu)
    ratio = P_n.sel(approach="compliant") / P_n.sel(approach="impulsive")
    return f"within {100 * float(abs(ratio - 1).max()):.1f} % at mu {mu:g}"
