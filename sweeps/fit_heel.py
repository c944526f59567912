"""Foot eqs 10-13: stiffness and damping of the heel from force and compression after heel strike, over seven subjects.

21 barefoot heel strikes of seven subjects at normal speed (Baines, Schwab, van Soest, PLoS ONE 13, e0197428, 2018; the
file is not part of the package, see `_data`), each fitted by a Hunt-Crossley heel. How much the answer depends on the
law and on the window is told with one trial a subject.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray as xr

from jaxcontact import plots
from jaxcontact.integrate.settings import Settings
from jaxcontact.measured import read_heel_pads, read_heel_strikes
from jaxcontact.measured.heel_strikes import HeelStrike
from jaxcontact.study.fit import Fit, Problem, Unknown, fit
from jaxcontact.study.published import Published
from jaxcontact.study.sweep import Progress
from jaxcontact.tracked.heel import PARAMETERS, heel_model

from ._data import data_file

STARTS = 64
UNKNOWNS = (
    Unknown("k", 1e2, 1e6, "log"),
    Unknown("m", 0.3, 5.0, "linear"),
    Unknown("c", 1.0, 1e4, "log"),
    Unknown("offset", -0.004, 0.010, "linear"),
)
MAIN = "Hunt-Crossley, 30 ms"
# Others are tried with the first trial of each subject: law, window (s) and what is not free.
CASES: Mapping[str, tuple[str, float, Mapping[str, float]]] = {
    MAIN: ("hunt_crossley", 0.030, {}),
    "Hunt-Crossley, 30 ms, m = 1": ("hunt_crossley", 0.030, {"m": 1.0}),
    "Kelvin-Voigt, 30 ms": ("kelvin_voigt", 0.030, {}),
    "Hunt-Crossley, 20 ms": ("hunt_crossley", 0.020, {}),
}
TOLD = {  # outcome or unknown: words, factor and unit
    "k": ("stiffness k at 5 mm", 1e-3, "kN/m"),
    "m": ("exponent m", 1.0, ""),
    "c": ("damping c at 5 mm", 1.0, "N s/m"),
    "offset": ("offset", 1e3, "mm"),
    "lost": ("lost over the window", 1.0, "J"),
}
NOTE = """\
k is the elastic force over the compression, c the damping, both 5 mm beyond the offset (K = k d / d^m, chi = c / d^m at
d = 5 mm: columns K and chi in units of N, m, s). RMS is of the vertical force; "lost" is the work of the measured force
over the compression from contact to the end of the window, less what the fitted spring holds there.
What to know before using it:
- Compression is that of all between shank and floor, foot and ankle included: no number here is a pad's alone.
- The law misses the shape. Its force peaks {early:.1f} to {late:.1f} ms after the measured one,
  lower in {lower} of {count} trials, and it is 0 up to the offset, where up to {toe:.0f} N were measured.
- m depends on the window and rests on its lower bound of {least_m:g} in {at_bound} of {count} trials:
  a force that levels off with compression, where pads stiffen. Do not carry it into a model of a pad.
- k depends on the window too. It is found where the rate falls to 0 within it: the shorter window has less of that
  (k at bound), and there damping alone explains the force. "lost" follows k, so it is as uncertain."""
PUBLISHED = """\
Published, of heel pads: those of De Clercq et al. (1994, running) lost {low:.2f} to {high:.2f} J at greatest
compressions of {least:.1f} to {most:.1f} mm. From abstracts: drop impacts of 5 kg at 0.93 m/s gave 11.3 mm
and 79 % lost (Kinoshita et al. 1993); pads in a testing machine return about 70 % (Bennett and Ker 1990);
before heel strike, walking and running, 0.24 to 3.99 J are there to be absorbed (Chi and Schmitt 2005). No published
stiffness was at hand."""


@dataclass(frozen=True, eq=False)
class Heel:
    """One heel strike under one case."""

    strike: HeelStrike
    fit: Fit
    curves: Mapping[str, np.ndarray]
    measured: np.ndarray  # N
    outcomes: Mapping[str, float]

    @property
    def name(self) -> str:
        """Subject and trial."""
        return f"{self.strike.subject}/{self.strike.trial}"

    @property
    def rms(self) -> float:
        """Of the vertical force, N."""
        return self.fit.rms["F_z"]

    def number(self, name: str) -> float:
        """One of TOLD, in SI units."""
        return self.lost if name == "lost" else self.fit.stated()[name]

    @property
    def absorbed(self) -> float:
        """Work of the measured force over the compression (J)."""
        return float(np.trapezoid(self.measured, self.curves["compression"]))

    @property
    def lost(self) -> float:
        """Of that, what the fitted spring does not hold at the end of the window (J)."""
        stated = self.fit.stated()
        left = max(self.curves["compression"][-1] - stated["offset"], 0.0)
        return self.absorbed - float(self.outcomes["K"]) * left ** (stated["m"] + 1) / (stated["m"] + 1)


def run(progress: Progress, starts: int = STARTS, trials: int | None = None, cases: Sequence[str] = tuple(CASES)):
    """Fit every heel strike (or the first `trials`), and one of each subject under the other cases."""
    strikes = read_heel_strikes(data_file("baines_heelstrike_windows.csv"))[:trials]
    one_each = list({strike.subject: strike for strike in reversed(strikes)}.values())[::-1]
    jobs = [(case, strike) for case in cases for strike in (strikes if case == MAIN else one_each)]
    found: dict[str, list[Heel]] = {case: [] for case in cases}
    for number, (case, strike) in enumerate(jobs):
        tell = _part(progress, number * starts, len(jobs) * starts)
        found[case].append(_fitted(strike, case, starts, tell))
    pads = read_heel_pads(data_file("declercq1994_heelpad_energy_compression.csv"))
    published = PUBLISHED.format(
        low=pads.energy_loss.min(),
        high=pads.energy_loss.max(),
        least=1e3 * pads.compression.min(),
        most=1e3 * pads.compression.max(),
    )
    heels = found[MAIN]
    text = "\n\n".join([_table(heels), _spread(heels), _cases(found), _note(heels), published])
    return Published(text, _dataset(heels, pads), {"fit_heel": _figure(heels, pads)})


def _part(progress: Progress, before: int, total: int) -> Callable[[int, int], None]:
    return lambda done, _: progress(before + done, total)


def _fitted(strike: HeelStrike, case: str, starts: int, tell) -> Heel:
    law, end, fixed = CASES[case]
    tracked = heel_model(strike, end=end)
    free = [each for each in UNKNOWNS if each.name not in fixed]
    problem = Problem.of_tracked(tracked, unknowns=free, fixed=fixed, laws={"normal": law})
    answer = fit(problem, starts=starts, progress=tell)
    stated = answer.stated()
    params = {p.name: jnp.asarray(stated[p.name] * p.si) for p in PARAMETERS}
    machine = tracked.model.recorder("prescribed", {"normal": law}, Settings(), tracked.frames)
    seen = machine.finish(params, machine.init(params))
    return Heel(
        strike,
        answer,
        {name: np.asarray(values) for name, values in seen["curves"].items()},
        np.asarray(tracked.targets["F_z"].values),
        {name: float(value) for name, value in seen["outcomes"].items()},
    )


# ---------------------------------------------------------------- words


def _table(heels: Sequence[Heel]) -> str:
    head = "".join(f"{name + (f' {unit}' if unit else ''):>12}" for name, (_, _, unit) in TOLD.items())
    lines = [f"{'subject/trial':15}{'mass kg':>8}{'peak N':>8}{'RMS N':>7}{head}{'K':>11}{'chi':>11}  on a bound"]
    for heel in heels:
        numbers = "".join(f"{factor * heel.number(name):12.3g}" for name, (_, factor, _) in TOLD.items())
        powers = f"{heel.outcomes['K']:11.3g}{heel.outcomes['chi']:11.3g}"
        bounds = ", ".join(name for name, side in heel.fit.diagnosis.bounds.items() if side)
        told = (
            f"{heel.name:15}{heel.strike.mass:8.1f}{heel.measured.max():8.0f}{heel.rms:7.1f}{numbers}{powers}  {bounds}"
        )
        lines.append(told.rstrip())
    return "\n".join(lines)


def spread(values: np.ndarray, subjects: np.ndarray) -> dict[str, float]:
    """Median and quartiles over trials; standard deviations of the subjects' means, and within subjects (pooled)."""
    groups = [values[subjects == each] for each in dict.fromkeys(subjects)]
    means = np.array([group.mean() for group in groups])
    freedom = len(values) - len(groups)
    within = np.sqrt(sum(np.sum((group - group.mean()) ** 2) for group in groups) / freedom) if freedom else 0.0
    low, median, high = np.percentile(values, [25, 50, 75])
    between = means.std(ddof=1) if len(means) > 1 else 0.0
    return {"median": median, "low": low, "high": high, "between": float(between), "within": float(within)}


def _spread(heels: Sequence[Heel]) -> str:
    subjects = np.array([heel.strike.subject for heel in heels])
    count = len(dict.fromkeys(subjects))
    words = f"over {len(heels)} trials of {count} subjects"
    lines = [f"{words:34}{'median':>9}{'quartiles':>18}{'SD between':>12}{'SD within':>11}"]
    for name, (meaning, factor, unit) in TOLD.items():
        of = spread(factor * np.array([heel.number(name) for heel in heels]), subjects)
        quartiles = f"{of['low']:.3g} to {of['high']:.3g}"
        label = f"{meaning}{f' ({unit})' if unit else ''}"
        lines.append(f"  {label:32}{of['median']:9.3g}{quartiles:>18}{of['between']:12.2g}{of['within']:11.2g}")
    return "\n".join(lines)


def _cases(found: Mapping[str, Sequence[Heel]]) -> str:
    """Medians over one trial a subject, the same trials for all cases."""
    chosen = list({heel.strike.subject: heel.name for heel in reversed(found[MAIN])}.values())
    head = "".join(f"{name + (f' {unit}' if unit else ''):>12}" for name, (_, _, unit) in TOLD.items())
    lines = [f"{'medians, one trial a subject':34}{'RMS N':>7}{head}{'k at bound':>12}"]
    for case, heels in found.items():
        same = [heel for heel in heels if heel.name in chosen]
        row = "".join(
            f"{factor * np.median([heel.number(name) for heel in same]):12.3g}" for name, (_, factor, _) in TOLD.items()
        )
        rests = sum(bool(heel.fit.diagnosis.bounds["k"]) for heel in same)
        rms = np.median([heel.rms for heel in same])
        lines.append(f"  {case:32}{rms:7.1f}{row}{rests:9} of {len(same)}")
    return "\n".join(lines)


def _note(heels: Sequence[Heel]) -> str:
    times = heels[0].curves["t"]
    lag = [1e3 * (times[np.argmax(heel.curves["F_z"])] - times[np.argmax(heel.measured)]) for heel in heels]
    toe = [heel.measured[heel.curves["compression"] <= heel.number("offset")].max(initial=0.0) for heel in heels]
    return NOTE.format(
        early=min(lag),
        late=max(lag),
        lower=sum(heel.curves["F_z"].max() < heel.measured.max() for heel in heels),
        count=len(heels),
        toe=max(toe),
        least_m=next(each.low for each in UNKNOWNS if each.name == "m"),
        at_bound=sum(bool(heel.fit.diagnosis.bounds["m"]) for heel in heels),
    )


# ---------------------------------------------------------------- results and figure


def _dataset(heels: Sequence[Heel], pads) -> xr.Dataset:
    def over(of: Callable[[Heel], Any], unit: str, meaning: str, dims: Any = "trial"):
        return dims, np.array([of(heel) for heel in heels]), {"units": unit, "long_name": meaning}

    both = ("trial", "frame")
    units = {p.name: p.unit for p in PARAMETERS} | {"lost": "J"}
    data = {
        name: over(lambda heel, name=name: heel.number(name), units[name], meaning)
        for name, (meaning, _, _) in TOLD.items()
    }
    data |= {
        "rms": over(lambda heel: heel.rms, "N", "RMS of the vertical force"),
        "K": over(lambda heel: heel.outcomes["K"], "N/m^m", "stiffness of the law of exponent m"),
        "chi": over(lambda heel: heel.outcomes["chi"], "N s/m^(m+1)", "hysteresis damping"),
        "absorbed": over(lambda heel: heel.absorbed, "J", "work of the measured force over the window"),
        "mass": over(lambda heel: heel.strike.mass, "kg", "body mass"),
        "compression": over(lambda heel: heel.curves["compression"], "m", "compression, smoothed", both),
        "F_z": over(lambda heel: heel.curves["F_z"], "N", "fitted vertical force", both),
        "F_z_measured": over(lambda heel: heel.measured, "N", "measured vertical force", both),
        "pad_energy": ("pad", pads.energy_loss, {"units": "J", "long_name": "energy lost, De Clercq et al."}),
        "pad_compression": ("pad", pads.compression, {"units": "m", "long_name": "greatest compression, the same"}),
    }
    coords = {
        "trial": [heel.name for heel in heels],
        "subject": ("trial", [heel.strike.subject for heel in heels]),
        "t": ("frame", heels[0].curves["t"], {"units": "s", "long_name": "time since contact"}),
    }
    return xr.Dataset(data, coords)


def _figure(heels: Sequence[Heel], pads):
    subjects = list(dict.fromkeys(heel.strike.subject for heel in heels))
    columns = min(len(subjects) + 1, 4)
    title = "Foot eqs 10-13: force over compression after heel strike, measured and Hunt-Crossley (first 30 ms)"
    figure, axes = plots.new_figure(-(-(len(subjects) + 1) // columns), columns, title, panel=(3.3, 2.8))
    for panel, subject in zip(axes.flat, subjects, strict=False):
        own = [heel for heel in heels if heel.strike.subject == subject]
        for number, heel in enumerate(own):
            x, colour = 1e3 * heel.curves["compression"], plots.COLOURS[number % len(plots.COLOURS)]
            first = number == 0
            panel.plot(x, heel.measured, ".", color=colour, markersize=3, label="measured" if first else None)
            panel.plot(x, heel.curves["F_z"], color=colour, linewidth=1.3, label="Hunt-Crossley" if first else None)
        told = ", ".join(f"{heel.rms:.0f}" for heel in own)
        panel.set_title(f"subject {subject}: RMS {told} N", fontsize=9)
        panel.set_xlabel("compression (mm)")
        panel.set_ylabel("vertical force (N)")
    last = axes.flat[len(subjects)]
    ends = [1e3 * heel.curves["compression"].max() for heel in heels]
    last.plot(ends, [heel.absorbed for heel in heels], "o", color=plots.COLOURS[0], label="absorbed in the window")
    lost = [heel.lost for heel in heels]
    last.plot(ends, lost, "s", color=plots.COLOURS[1], markerfacecolor="white", label="of that, lost")
    last.plot(
        1e3 * pads.compression, pads.energy_loss, "^", color=plots.GREY, label="pads, De Clercq et al. 1994: lost"
    )
    last.set_xlabel("greatest compression (mm)")
    last.set_ylabel("energy (J)")
    for panel in axes.flat[len(subjects) + 1 :]:
        panel.set_visible(False)
    handles = axes[0, 0].get_legend_handles_labels()[0] + last.get_legend_handles_labels()[0]
    plots.legend_below(figure, handles)
    return figure
