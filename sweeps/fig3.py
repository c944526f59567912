"""Crutch Fig. 3: critical friction coefficient against the lean of the leg."""

from jaxcontact import plots
from jaxcontact.study import run as run_study
from jaxcontact.study import study
from jaxcontact.study.published import Published
from jaxcontact.study.sweep import Progress

from ._crutch import MU


def run(progress: Progress) -> Published:
    """Draw mu_c at the paper's seven postures beside the three friction coefficients that it chose."""
    postures = {"q3": {"from": 3, "to": 21, "count": 7}}
    results = run_study(study("crutch", "impulsive", vary=postures), progress=progress)
    mu_c = results["mu_c"]

    figure, ((axes,),) = plots.new_figure(
        1, 1, "Crutch Fig. 3: friction below which the tip must slide", panel=(5.5, 3.8)
    )
    plots.line(axes, results["q3"], mu_c, marker="o")
    plots.reference_lines(axes, MU, r"$\mu$ = {:g}")
    axes.set_ylim(0.4, 1.1)
    axes.set_xticks(results["q3"].values)

    below = {mu: int((mu_c < mu).sum()) for mu in MU}
    text = [
        "q3 (deg)  mu_c",
        *(f"{q3:8.0f}  {value:.4f}" for q3, value in zip(results["q3"].values, mu_c.values, strict=True)),
        "",
        "The paper: mu = 0.5 is below all seven, 1 above all, and 0.75 above the first five and below the last two.",
        "Found: " + ", ".join(f"{count} of 7 lie below {mu:g}" for mu, count in below.items()) + ".",
    ]
    return Published(text="\n".join(text), dataset=results, figures={"fig3": figure})
