"""Two approaches Fig. 2: heel strike of a compass biped and impact of a crutch, three ways.

The paper prints neither contact constants nor friction coefficients. Assumed here: the elastomer tip on concrete of the
crutch paper (k_n, chi, and k_t of the same materials), legs with their mass in the middle, and friction that holds the
point in all solutions, since the paper's impulsive solution does not slide.
"""

import numpy as np
import xarray as xr

from jaxcontact import plots
from jaxcontact.contact.impulse import NONE, PERMANENT_STICKING
from jaxcontact.study.published import Published
from jaxcontact.study.sweep import Progress

from ._approaches import run_approaches

APPROACHES = {
    "compliant": {"method": "compliant", "laws": {"friction": "tangential_compliance"}},  # the paper's law, eq. 3
    "impulsive": {"method": "impulsive"},
    "compliant_rigid": {"method": "compliant"},  # for comparison: sticking without a spring, as in the crutch paper
}
LABELS = {
    "compliant": "compliant, tangential spring (eq. 3)",
    "impulsive": "impulsive",
    "compliant_rigid": "compliant, rigid sticking",
}
MU = 1.5
MODELS = {  # what varies, and what is drawn against it
    "compass": ("R", {"speed_hip": "hip speed", "v_n_foot": "foot separation velocity", "energy_loss": "energy loss"}),
    "crutch": (
        "q4",
        {"speed_shoulder": "shoulder speed", "v_n_foot": "feet separation velocity", "energy_loss": "energy loss"},
    ),
}


def run(progress: Progress, count: int = 61) -> Published:
    """Vary the foot radius of the biped and the hip angle of the crutch user, `count` values each."""
    compass = run_approaches(
        "compass",
        progress=progress,
        approaches=APPROACHES,
        vary={"R": {"from": 0.05, "to": 1.0, "count": count}},
        set={"q3": 20.0, "dq3": 1.0, "dq4": 0.0, "mu": MU},
    )
    crutch = run_approaches(
        "crutch",
        progress=progress,
        approaches=APPROACHES,
        vary={"q4": {"from": -10, "to": 20, "count": count}},
        set={"q3": 10.0, "q5": 150.0, "dq3": 1.0, "dq5": 0.0, "mu": MU},
    )
    found = {"compass": compass, "crutch": crutch}
    text = "\n".join([_ASSUMED, *_claims(compass, crutch), "", *_similarity(found), _SPRING])
    return Published(text=text, dataset=_one_dataset(found), figures={"two_approaches_fig2": _figure(found)})


_ASSUMED = f"Assumed, since not printed: mu {MU:g}; k_n, chi, k_t of the crutch paper's tip; leg mass at half length."
_SPRING = """\
Under the law of eq. 3 the tip swings on its tangential spring, and whether compression ends before or after a swing
makes the steep change in (b). Rigid sticking has none. Near R = leg length gravity, which presses the foot into the
ground, makes most of the compliant loss; at R = leg length nothing strikes."""


def _one_dataset(found: dict[str, xr.Dataset]) -> xr.Dataset:
    """Both models in one dataset, their outcomes and records told apart by the model's name."""
    renamed = [one.rename({name: f"{model}_{name}" for name in one.data_vars}) for model, one in found.items()]
    dataset = xr.merge(renamed, combine_attrs="drop_conflicts", join="exact", compat="no_conflicts")
    dataset.attrs = {f"{model}_{key}": value for model, one in found.items() for key, value in one.attrs.items()}
    return dataset


def _figure(found: dict[str, xr.Dataset]):
    title = (
        f"Two approaches, Fig. 2: (a) compass biped, (b) crutch locomotion, after impact; $\\mu$ = {MU:g}, no sliding"
    )
    figure, axes = plots.new_figure(2, 3, title, panel=(3.6, 2.7))
    for row, letter, (model, (x, names)) in zip(axes, "ab", MODELS.items(), strict=True):
        row[0].set_title(f"({letter})", loc="left", fontsize=10)
        for panel, (name, words) in zip(row, names.items(), strict=True):
            for number, (approach, label) in enumerate(LABELS.items()):
                one = found[model].sel(approach=approach)
                style = {"dash": plots.DASHES[number], "marker": plots.MARKERS[number], "every": (3 * number, 10)}
                plots.line(panel, one[x], one[name], number=number, label=label, **style)
            panel.set_ylabel(plots.axis_label(found[model][name], words))
    plots.legend_below(figure, axes[0, 0].get_legend_handles_labels()[0])
    return figure


def _claims(compass: xr.Dataset, crutch: xr.Dataset) -> list[str]:
    """What section 3 says, and what is found in each of the three ways."""
    R, q4 = compass["R"].values, crutch["q4"].values
    q3 = np.deg2rad(20.0)
    hip_before = np.hypot(R + (1 - R) * np.cos(q3), (1 - R) * np.sin(q3))  # rolling about the contact at 1 rad/s
    lines = []
    for approach, label in LABELS.items():
        biped, user = compass.sel(approach=approach), crutch.sel(approach=approach)
        loss = biped["energy_loss"].values
        slowing = np.corrcoef(hip_before - biped["speed_hip"].values, loss)[0, 1]
        separation, shoulder, lost = (user[name].values for name in ("v_n_foot", "speed_shoulder", "energy_loss"))
        falls = "falling all the way" if np.all(np.diff(loss) < 0) else "not falling all the way"
        lines += [
            "",
            f"{label}: sticks in {_stuck(biped)} (a), {_stuck(user)} (b)",
            f"  (a) energy loss {loss[0]:.3f} J at R = {R[0]:g} m, {falls} to {abs(loss[-1]):.3f} J at R = leg length",
            f"  (a) the more energy is lost, the more the hip slows down: correlation {slowing:.3f}",
            f"  (b) the feet separate fastest at q4 = {q4[np.argmax(separation)]:.1f} deg: {separation.max():.3f} m/s",
            f"  (b) leaning forward, shoulder speed rises from q4 = {q4[_last_fall(shoulder)]:.1f} deg on, "
            f"and energy loss falls from {q4[_last_fall(-lost)]:.1f} deg on",
        ]
    return lines


def _stuck(results: xr.Dataset) -> str:
    """How many impacts stick; R = leg length touches without any impact."""
    sticks, strikes = results["regime"] == PERMANENT_STICKING, results["regime"] != NONE
    return f"{int(sticks.sum())} of {int(strikes.sum())} impacts"


def _last_fall(values: np.ndarray) -> int:
    """Index after the last step on which the values fall."""
    falls = np.flatnonzero(np.diff(values) <= 0)
    return int(falls[-1]) + 1 if falls.size else 0


def _similarity(found: dict[str, xr.Dataset]) -> list[str]:
    """Largest distance from the impulsive solution, in % of its largest value."""
    lines = ["Largest difference from the impulsive solution, in % of its largest value:"]
    for letter, (model, (_, names)) in zip("ab", MODELS.items(), strict=True):
        for approach in ("compliant", "compliant_rigid"):
            gaps = []
            for name, words in names.items():
                impulsive = found[model][name].sel(approach="impulsive")
                apart = np.abs(found[model][name].sel(approach=approach) - impulsive).max()
                gaps.append(f"{words} {100 * float(apart / np.abs(impulsive).max()):.0f} %")
            lines.append(f"  ({letter}) {LABELS[approach]}: {', '.join(gaps)}")
    return lines
