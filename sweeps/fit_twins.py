"""Crutch, Foot and Rolling as twins: parameters found again from simulated curves with noise, 200 times each.

Each repeat has new noise and starts that do not know the truth. A 95 % interval should hold the truth in 95 % of them.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr
from scipy.stats import norm

from jaxcontact import plots
from jaxcontact.errors import InputError
from jaxcontact.measured import read_stances
from jaxcontact.models import get_model
from jaxcontact.study.fit import Problem, Unknown, make_channel
from jaxcontact.study.fit.repeats import Repeats, coverage_band, repeat_with_noise
from jaxcontact.study.fit.solvers import REASON_NAMES
from jaxcontact.study.published import Published
from jaxcontact.study.sweep import Progress
from jaxcontact.tracked.roll import roll_model

from ._data import data_file
from .fit_crutch import TRUTH as CRUTCH_TRUTH
from .fit_crutch import crutch_problem, force_curve

REPEATS, STARTS = 200, 3
ERROR = 0.05  # chance that intervals which keep their rate leave the band, in any unknown

STANCE_TRUTH = {"k": 9e4, "mu": 0.7, "arch": 0.004, "pose.height": -0.001}
ROLLING_TRUTH = {
    "origin": 0.13, "flat_pitch": 0.5, "front.A1": 0.085, "front.C1": 1.0, "rear.A1": 0.15, "rear.C1": 12.0
}  # fmt: skip

NOTE = """\
95 % intervals that keep their rate hold the truth in {low:.1%} to {high:.1%} of {repeats} repeats
(binomial; {chance:.0%} chance that any of {count} unknowns falls out of that band). {verdict}
SD over the repeats and the SD that each repeat tells agree where a problem is nearly linear over its noise. They are of
the natural logarithm for {logs}, else in the parameter's unit.
Data of the crutch come from a converged run that is recorded 20 times as finely as the fit's; those of the others are
the model's own. Noise is white:
{noises}
A repeat that did not converge counts like any other: {others}."""


@dataclass(frozen=True, eq=False)
class Twin:
    """One problem, what is true in it, and how its data are made."""

    problem: Problem
    truth: Mapping[str, float]
    given: bool = False  # the channels hold exact data
    noise: str = ""


def crutch_twin() -> Twin:
    """A crutch tip's stiffness, damping and friction from a force-time curve through the event-driven simulation."""
    curve = force_curve(rate=10e3, seed=None)
    return Twin(crutch_problem(curve), CRUTCH_TRUTH, given=True, noise="50 N on both forces")


def stance_twin() -> Twin:
    """A sole's stiffness, friction, arch and height from forces and CoP under prescribed motion."""
    model, frames = get_model("stance"), 61
    exact = np.zeros(frames)
    channels = [
        make_channel(model, "F_z", "frames", exact, 15.0),
        make_channel(model, "F_x", "frames", exact, 8.0),
        make_channel(model, "cop_x", "frames", exact, 0.004),
    ]
    unknowns = (
        Unknown("k", 2e4, 4e5, "log"),
        Unknown("mu", 0.2, 1.5, "log"),
        Unknown("arch", -0.01, 0.014),
        Unknown("pose.height", -0.004, 0.004),
    )
    problem = Problem.of_model(model, unknowns=unknowns, channels=channels, points=frames)
    return Twin(problem, STANCE_TRUTH, noise="15 N on the vertical force, 8 N on the shear, 4 mm on the CoP")


def rolling_twin() -> Twin:
    """A rolling surface from the CoP under a measured pitch (the file is not part of the package, see `_data`)."""
    stance = read_stances([data_file("bmc_walk2_overground.csv")])[0]
    unknowns = (
        Unknown("origin", 0.05, 0.25),
        Unknown("flat_pitch", -3.0, 4.0),
        Unknown("front.A1", 0.02, 0.4, "log"),
        Unknown("front.C1", 0.1, 10.0, "log"),
        Unknown("rear.A1", 0.02, 1.0, "log"),
        Unknown("rear.C1", 1.0, 100.0, "log"),
    )
    problem = Problem.of_tracked(roll_model(stance, frames=101), unknowns=unknowns)
    return Twin(problem, ROLLING_TRUTH, noise="5 mm on the CoP")


TWINS: Mapping[str, Callable[[], Twin]] = {"crutch": crutch_twin, "stance": stance_twin, "rolling": rolling_twin}


def run(progress: Progress, repeats: int = REPEATS, starts: int = STARTS, twins: Sequence[str] = tuple(TWINS)):
    """Repeat every problem with new noise and count how often the truth lies inside."""
    made, left_out = {}, []
    for name in twins:
        try:
            made[name] = TWINS[name]()
        except InputError as error:
            left_out.append(f"{name} is left out: {str(error).splitlines()[0]}")
    total = len(made) * repeats * starts
    found: dict[str, Repeats] = {}
    for number, (name, twin) in enumerate(made.items()):
        before = number * repeats * starts
        found[name] = repeat_with_noise(
            twin.problem,
            dict(twin.truth),
            repeats,
            seed=number,
            starts=starts,
            given=twin.given,
            progress=lambda done, _, before=before: progress(before + done, total),
        )
    data = _dataset(made, found, repeats)
    text = "\n\n".join([_table(made, found), _note(made, found, repeats), *left_out])
    return Published(text, data, {"fit_twins": _figure(found, repeats)})


# ---------------------------------------------------------------- words


def _table(made: Mapping[str, Twin], found: Mapping[str, Repeats]) -> str:
    head = f"{'problem':10}{'unknown':13}{'unit':11}{'truth':>12}{'SD over repeats':>17}{'SD told':>10}{'mean off':>10}"
    lines = [f"{head}{'covered':>9}{'converged':>11}"]
    for name, repeats in found.items():
        units = {p.name: p.unit or "1" for p in made[name].problem.model.parameters}
        mean_off = np.nanmean(repeats.off, axis=0)
        for i, unknown in enumerate(repeats.names):
            numbers = f"{repeats.scatter[i]:17.3g}{np.nanmedian(repeats.sd[:, i]):10.3g}{mean_off[i]:+10.2f}"
            first = f"{name if i == 0 else '':10}{unknown:13}{units[unknown]:11}{made[name].truth[unknown]:12.5g}"
            last = f"{repeats.converged.mean():11.1%}" if i == 0 else ""
            lines.append(f"{first}{numbers}{repeats.covered[i]:9.1%}{last}")
    return "\n".join(lines)


def _unknown_count(found: Mapping[str, Repeats]) -> int:
    return sum(len(each.names) for each in found.values())


def _note(made: Mapping[str, Twin], found: Mapping[str, Repeats], repeats: int) -> str:
    count = _unknown_count(found)
    low, high = coverage_band(repeats, count, ERROR)
    out = [
        f"{name} {unknown} ({share:.1%})"
        for name, each in found.items()
        for unknown, share in zip(each.names, each.covered, strict=True)
        if not low <= share <= high
    ]
    logs = [u.name for twin in made.values() for u in twin.problem.unknowns if u.scale == "log"]
    return NOTE.format(
        low=low,
        high=high,
        repeats=repeats,
        chance=ERROR,
        count=count,
        verdict=f"Out of it: {', '.join(out)}." if out else "All are inside.",
        logs=", ".join(logs),
        noises="\n".join(f"  {name}: {twin.noise}" for name, twin in made.items()),
        others=_others(found),
    )


def _others(found: Mapping[str, Repeats]) -> str:
    """How the repeats ended that did not converge."""
    counts = Counter(
        f"{name} {REASON_NAMES[code]}" for name, each in found.items() for code in each.reason[~each.converged]
    )
    return ", ".join(f"{each}: {count}" for each, count in counts.items()) or "there was none"


# ---------------------------------------------------------------- results and figure


def _dataset(made: Mapping[str, Twin], found: Mapping[str, Repeats], repeats: int) -> xr.Dataset:
    names = [f"{name}: {unknown}" for name, each in found.items() for unknown in each.names]
    joined = {
        key: np.concatenate([getattr(each, key) for each in found.values()], axis=-1)
        for key in ("truth", "found", "sd", "covered")
    }
    scales = [unknown.scale for twin in made.values() for unknown in twin.problem.unknowns]
    on_scale = "on the unknown's scale: value, or natural logarithm"
    low, high = coverage_band(repeats, len(names), ERROR)
    return xr.Dataset(
        {
            "truth": ("unknown", joined["truth"], {"long_name": f"truth, {on_scale}"}),
            "found": (("repeat", "unknown"), joined["found"], {"long_name": f"answer, {on_scale}"}),
            "sd": (("repeat", "unknown"), joined["sd"], {"long_name": "standard deviation that each repeat tells"}),
            "covered": (
                "unknown",
                joined["covered"],
                {"units": "1", "long_name": "share of 95 % intervals that hold the truth", "band": [low, high]},
            ),
        },
        {"unknown": names, "scale": ("unknown", scales)},
    )


def _figure(found: Mapping[str, Repeats], repeats: int):
    count = _unknown_count(found)
    title = f"Crutch, Foot and Rolling: do 95 % intervals hold the truth? {repeats} noisy twins each"
    figure, axes = plots.new_figure(1, 2, title, panel=(5.0, 3.9))
    shares, quantiles = axes[0]
    low, high = coverage_band(repeats, count, ERROR)
    shares.axvspan(100 * low, 100 * high, color="0.9", label=f"{low:.1%} to {high:.1%}: chance alone")
    shares.axvline(95.0, color="black", linewidth=0.8, label="95 %")
    labels, row = [], 0
    for (name, each), colour, marker in zip(found.items(), plots.COLOURS, plots.MARKERS, strict=False):
        rows = row + np.arange(len(each.names))
        shares.plot(100 * each.covered, rows, marker, color=colour, label=name)
        labels += [f"{name}: {unknown}" for unknown in each.names]
        row = rows[-1] + 1
        off = np.sort(each.off[np.all(np.isfinite(each.off), axis=1)].ravel())
        normal = norm.ppf((np.arange(len(off)) + 0.5) / len(off))
        quantiles.plot(normal, off, marker, color=colour, markersize=2.5, linestyle="", label=name)
    shares.set_yticks(range(len(labels)), labels, fontsize=8)
    shares.invert_yaxis()
    shares.set_xlabel("intervals that hold the truth (%)")
    reach = np.array([-3.5, 3.5])
    quantiles.plot(reach, reach, color="black", linewidth=0.8, label="as told")
    quantiles.set_xlabel("normal quantile (1)")
    quantiles.set_ylabel("answer less truth, in told standard deviations (1)")
    plots.legend_below(figure, [*shares.get_legend_handles_labels()[0], quantiles.lines[-1]])
    return figure
