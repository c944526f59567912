"""Rolling Fig. 1b: rolling surfaces fitted to the CoP of measured stances, with and without the paper's constraints.

Seven stances of three subjects (the files are not part of the package, see `_data`). Each is fitted by one and by two
free terms a side and by the constrained family; then each foot's shape is put under the other feet.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from scipy.optimize import isotonic_regression

from jaxcontact import plots
from jaxcontact.contact.rolling import Surface, centre_of_pressure
from jaxcontact.integrate.settings import Settings
from jaxcontact.measured import Stance, read_stances
from jaxcontact.models.model import Model
from jaxcontact.study.fit import Fit, Problem, Unknown, fit
from jaxcontact.study.published import Published
from jaxcontact.study.sweep import Progress
from jaxcontact.tracked.roll import roll_model, roll_surface
from jaxcontact.tracked.tracked import Tracked

from ._data import data_file

FILES = {
    "BMC": "bmc_walk2_overground.csv",
    "Rajagopal": "opensim_rajagopal_overground.csv",
    "subject01": "opensim_subject01_treadmill.csv",
}
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "one term": {"terms": 1},
    "two terms": {"terms": 2},
    "constrained": {"constrained": True},
}
AIMS = {"one term": 10.0, "two terms": 3.5}  # mm of CoP, RMS over the loaded stance
STARTS = 64
FLAT_PITCHES = np.deg2rad(np.arange(-8.0, 8.0001, 0.02))  # tried when a shape is put under another foot
# Ranges of rates (1/rad) of the constrained family: apart, so that terms of a pair cannot become the same.
_RATES = {"C1": (60.0, 2000.0), "C2": (0.3, 59.0), "C3": (8.0, 500.0), "C4": (0.3, 7.9)}

NOTE = """\
RMS of the CoP along the foot over the loaded stance (above 100 N), at 201 moments. Floor: the best that any function of
the pitch can do whose CoP never moves back (isotonic regression), so any convex foot; where it is not 0, pitch or CoP
themselves went back and forth. Pitch is smoothed by local cubics over 50 ms. Free terms: amplitudes A of -0.5 to 0.5 m
and rates C of 0.3 to 1000 1/rad. A term of C = 0.3 is nearly a circle (r = A C a); the range goes so low because, tried
with C above 1, two terms miss 3.5 mm by up to 0.2 on three stances. Origin and pitch of foot flat are free everywhere:
6, 10 and 13 unknowns. "least rho" is the smallest radius of curvature in use: below 0 is not convex, and the contact
turns back."""
CROSS = """\
Shape of a row's foot under a column's foot ({variant}), RMS in mm, origin and pitch of foot flat refitted | as is:"""


@dataclass(frozen=True, eq=False)
class Foot:
    """One stance under one variant."""

    stance: str
    variant: str
    tracked: Tracked
    fit: Fit
    curves: Mapping[str, np.ndarray]
    curvature_least: float

    @property
    def rms(self) -> float:
        """Of the CoP, mm."""
        return 1e3 * self.fit.rms["cop_x"]

    @property
    def bounds(self) -> list[str]:
        """Unknowns that rest on a bound."""
        return [name for name, side in self.fit.diagnosis.bounds.items() if side]


def run(
    progress: Progress,
    starts: int = STARTS,
    subjects: Sequence[str] = tuple(FILES),
    variants: Sequence[str] = tuple(VARIANTS),
    stances: int | None = None,
    frames: int = 201,
) -> Published:
    """Fit every stance (or the first `stances` of each subject) by every variant."""
    found = {
        f"{subject} {stance.name}": stance
        for subject in subjects
        for stance in read_stances([data_file(FILES[subject])])[:stances]
    }
    jobs = [(name, variant) for name in found for variant in variants]
    feet = {}
    for number, (name, variant) in enumerate(jobs):
        tell = _part(progress, number * starts, len(jobs) * starts)
        feet[name, variant] = _fitted(name, variant, found[name], starts, frames, tell)
    crossed = {variant: _crossed(feet, list(found), variant) for variant in variants}
    dataset = _dataset(feet, list(found), list(variants), crossed)
    text = "\n\n".join([_table(dataset), _reached(dataset), NOTE, _parameters(feet), _cross_table(dataset)])
    return Published(
        text, dataset, {"fit_rolling": _cop_figure(dataset), "fit_rolling_curvature": _rho_figure(dataset)}
    )


def _part(progress: Progress, before: int, total: int) -> Callable[[int, int], None]:
    return lambda done, _: progress(before + done, total)


# ---------------------------------------------------------------- fits


def unknowns(model: Model) -> list[Unknown]:
    """What is found in a rolling surface, and where it is looked for; circles stay 0."""
    ranges = {
        "origin": (-0.1, 0.35, "linear"),
        "flat_pitch": (-6.0, 6.0, "linear"),
        "curvature": (0.2, 20.0, "log"),
        "switch": (0.003, 0.3, "log"),
        "A": (-0.5, 0.5, "linear"),
        "C": (0.3, 1000.0, "log"),
    }
    if model.name == "roll:constrained":
        ranges |= {name: (*ends, "log") for name, ends in _RATES.items()}
    chosen = []
    for name in (parameter.name for parameter in model.parameters):
        last = name.rpartition(".")[2]
        if last != "circle":
            low, high, scale = ranges.get(last) or ranges[last.rstrip("0123456789")]
            chosen.append(Unknown(name, low, high, scale))
    return chosen


def _fitted(name: str, variant: str, stance: Stance, starts: int, frames: int, tell) -> Foot:
    tracked = roll_model(stance, **VARIANTS[variant], frames=frames)
    model = tracked.model
    answer = fit(Problem.of_tracked(tracked, unknowns=unknowns(model)), starts=starts, progress=tell)
    stated = answer.stated()
    params = {p.name: jnp.asarray(stated[p.name] * p.si) for p in model.parameters}
    machine = model.recorder("prescribed", {}, Settings(), frames)
    seen = machine.finish(params, machine.init(params))
    curves = {key: np.asarray(values) for key, values in seen["curves"].items()}
    return Foot(name, variant, tracked, answer, curves, float(seen["outcomes"]["curvature_least"]))


def _surface(foot: Foot) -> tuple[Surface, float, float]:
    """The shape that was found, its origin (m) and its pitch of foot flat (rad)."""
    stated = foot.fit.stated()
    params = {p.name: jnp.asarray(stated[p.name] * p.si) for p in foot.tracked.model.parameters}
    surface, _ = roll_surface(params, **VARIANTS[foot.variant])
    return surface, float(params["origin"]), float(params["flat_pitch"])


@cache
def _rolled():
    return jax.jit(lambda surface, pitch, flats: centre_of_pressure(surface, pitch - flats[:, None]))


def _crossed(feet: Mapping, names: list[str], variant: str) -> np.ndarray:
    """RMS (mm) of each shape under each foot, placed anew and as it is: (shapes, feet, 2)."""
    rms = np.empty((len(names), len(names), 2))
    for i, own in enumerate(names):
        surface, origin, flat = _surface(feet[own, variant])
        for j, other in enumerate(names):
            foot = feet[other, variant]
            target = foot.tracked.targets["cop_x"]
            flats = jnp.asarray(np.append(FLAT_PITCHES, flat))
            cop = np.asarray(_rolled()(surface, jnp.asarray(foot.curves["pitch"]), flats))
            off = (cop - target.values)[:, target.valid]
            rms[i, j] = 1e3 * np.min(np.std(off, axis=1)), 1e3 * np.sqrt(np.mean((off[-1] + origin) ** 2))
    return rms


def _floor(foot: Foot) -> float:
    """RMS (mm) of the best non-decreasing function of the pitch."""
    target = foot.tracked.targets["cop_x"]
    order = np.argsort(foot.curves["pitch"][target.valid], kind="stable")
    cop = target.values[target.valid][order]
    return 1e3 * float(np.sqrt(np.mean((isotonic_regression(cop).x - cop) ** 2)))


# ---------------------------------------------------------------- results and words


def _dataset(feet: Mapping, names: list[str], variants: list[str], crossed: Mapping[str, np.ndarray]) -> xr.Dataset:
    first = [feet[name, variants[0]] for name in names]
    targets = [foot.tracked.targets["cop_x"] for foot in first]

    def over(of: Callable[[Foot], Any]) -> np.ndarray:
        return np.array([[of(feet[name, variant]) for variant in variants] for name in names])

    both, frames = ("stance", "variant"), ("stance", "variant", "frame")
    found = {
        "rms": (both, over(lambda foot: foot.rms), "mm", "RMS of the CoP over the loaded stance"),
        "floor": ("stance", [_floor(foot) for foot in first], "mm", "RMS of the best non-decreasing function of pitch"),
        "curvature_least": (both, over(lambda foot: foot.curvature_least), "m", "least radius of curvature in use"),
        "active_bounds": (both, over(lambda foot: len(foot.bounds)), "1", "unknowns that rest on a bound"),
        "starts_equal": (both, over(lambda foot: foot.fit.diagnosis.equals), "1", "starts within 1 % of the best cost"),
        "pitch": (("stance", "frame"), [foot.curves["pitch"] for foot in first], "rad", "measured pitch, smoothed"),
        "t": (("stance", "frame"), [foot.curves["t"] for foot in first], "s", "time since touch-down"),
        "cop_measured": (("stance", "frame"), [each.values for each in targets], "m", "CoP along the foot"),
        "loaded": (("stance", "frame"), [each.valid for each in targets], "1", "the measured CoP counts"),
        "cop": (frames, over(lambda foot: foot.curves["cop_x"]), "m", "CoP of the rolling surface"),
        "curvature": (frames, over(lambda foot: foot.curves["curvature"]), "m", "radius of curvature at the contact"),
        "crossed": (
            ("variant", "shape", "stance", "placed"),
            np.stack([crossed[variant] for variant in variants]),
            "mm",
            "RMS of a stance's shape under another stance",
        ),
    }
    data = {
        key: (dims, np.asarray(values), {"units": unit, "long_name": meaning})
        for key, (dims, values, unit, meaning) in found.items()
    }
    for variant in variants:
        for parameter in first[0].tracked.model.parameters if variant == variants[0] else _parameters_of(feet, variant):
            values = [feet[name, variant].fit.stated()[parameter.name] for name in names]
            label = f"{variant.replace(' ', '_')}_{parameter.name}"
            data[label] = ("stance", np.array(values), {"units": parameter.unit, "long_name": parameter.meaning})
    coords = {"stance": names, "variant": variants, "shape": names, "placed": ["anew", "as it is"]}
    return xr.Dataset(data, coords)


def _parameters_of(feet: Mapping, variant: str):
    return next(foot for (_, each), foot in feet.items() if each == variant).tracked.model.parameters


def _table(dataset: xr.Dataset) -> str:
    variants = dataset["variant"].values
    lines = [
        f"{'':24}{'floor':>7}" + "".join(f"{variant:>34}" for variant in variants),
        f"{'':24}{'mm':>7}" + "".join(f"{'RMS mm':>12}{'least rho m':>13}{'at bound':>9}" for _ in variants),
    ]
    for name in dataset["stance"].values:
        one = dataset.sel(stance=name)
        cells = "".join(
            f"{float(each['rms']):12.2f}{float(each['curvature_least']):13.3f}{int(each['active_bounds']):9}"
            for each in (one.sel(variant=variant) for variant in variants)
        )
        lines.append(f"{name:24}{float(one['floor']):7.2f}{cells}")
    return "\n".join(lines)


def _reached(dataset: xr.Dataset) -> str:
    lines = []
    for variant in dataset["variant"].values:
        rms = dataset["rms"].sel(variant=variant).values
        convex = int((dataset["curvature_least"].sel(variant=variant) > 0).sum())
        aim = AIMS.get(variant)
        told = f"{int((rms <= aim).sum())} of {len(rms)} within {aim:g} mm, " if aim else ""
        lines.append(f"{variant}: {told}{rms.min():.1f} to {rms.max():.1f} mm, convex in {convex} of {len(rms)}")
    return "\n".join(lines)


def _parameters(feet: Mapping) -> str:
    """The numbers found; a star marks one on a bound of its range."""
    lines = ["Found (m, deg, 1/rad, rad; * on a bound):"]
    for (name, variant), foot in feet.items():
        words = [f"{key} {value:.4g}{'*' if key in foot.bounds else ''}" for key, value in foot.fit.values.items()]
        lines.append(
            f"  {name}, {variant}: starts that agree {foot.fit.diagnosis.equals} of {len(foot.fit.starts.cost)}"
        )
        lines += [f"    {', '.join(words[i : i + 7])}" for i in range(0, len(words), 7)]
    return "\n".join(lines)


def _cross_table(dataset: xr.Dataset) -> str:
    names = dataset["stance"].values
    variant = "two terms" if "two terms" in dataset["variant"].values else dataset["variant"].values[0]
    lines = [
        CROSS.format(variant=variant),
        f"{'':24}" + "".join(f"{name.split()[0][:5] + ' ' + name.split()[1][:7]:>15}" for name in names),
    ]
    for shape in names:
        row = dataset["crossed"].sel(variant=variant, shape=shape).values
        lines.append(f"{shape:24}" + "".join(f"{anew:8.1f} |{kept:5.1f}" for anew, kept in row))
    subject = np.array([name.split()[0] for name in names])
    same = (subject[:, None] == subject) & ~np.eye(len(names), dtype=bool)
    lines.append("Medians (mm), placed anew | as it is:")
    for each in dataset["variant"].values:
        values = dataset["crossed"].sel(variant=each).values
        words = [f"own stance {_medians(values[np.eye(len(names), dtype=bool)])}"]
        words += [f"another of the same subject {_medians(values[same])}"] if same.any() else []
        other = subject[:, None] != subject
        words += [f"another subject {_medians(values[other])}"] if other.any() else []
        lines.append(f"  {each}: {', '.join(words)}")
    return "\n".join(lines)


def _medians(values: np.ndarray) -> str:
    return " | ".join(f"{value:.1f}" for value in np.median(values, axis=0))


# ---------------------------------------------------------------- figures


def _panels(count: int, title: str):
    columns = min(count, 4)
    return plots.new_figure(-(-count // columns), columns, title, panel=(3.3, 2.8))


def _cop_figure(dataset: xr.Dataset):
    """Pitch over CoP, as the tilt in Rolling Fig. 1b."""
    names = dataset["stance"].values
    figure, axes = _panels(len(names), "Rolling Fig. 1b: foot pitch over centre of pressure, measured and rolling")
    for panel, name in zip(axes.flat, names, strict=False):
        one = dataset.sel(stance=name)
        loaded = one["loaded"].values
        pitch = np.rad2deg(one["pitch"].values[loaded])
        panel.plot(
            1e3 * one["cop_measured"].values[loaded], pitch, ".", color=plots.GREY, markersize=4, label="measured"
        )
        for number, variant in enumerate(dataset["variant"].values):
            each = one.sel(variant=variant)
            label = f"{variant}" if name == names[0] else None
            x = 1e3 * each["cop"].values[loaded]
            panel.plot(
                x, pitch, color=plots.COLOURS[number], linestyle=plots.DASHES[number], linewidth=1.3, label=label
            )
        told = ", ".join(f"{value:.1f}" for value in one["rms"].values)
        panel.set_title(f"{name}: RMS {told} mm", fontsize=8)
        panel.set_xlabel("CoP along the foot (mm)")
        panel.set_ylabel("foot pitch (deg)")
    for panel in axes.flat[len(names) :]:
        panel.set_visible(False)
    plots.legend_below(figure, axes[0, 0].get_legend_handles_labels()[0])
    return figure


def _rho_figure(dataset: xr.Dataset):
    """Radius of curvature over CoP, as in Rolling Fig. 1b, and the mean over all stances."""
    names, variants = dataset["stance"].values, dataset["variant"].values
    figure, axes = _panels(len(names) + 1, "Rolling Fig. 1b: radius of curvature of the rolling surface over CoP")
    for panel, name in zip(axes.flat, names, strict=False):
        one = dataset.sel(stance=name)
        x, rho = _measured_curvature(one)
        panel.plot(1e3 * x, rho, ".", color=plots.GREY, markersize=3, label="measured: dCoP / dpitch")
        for number, variant in enumerate(variants):
            each = one.sel(variant=variant).isel(frame=one["loaded"].values)
            order = np.argsort(each["pitch"].values, kind="stable")
            x, rho = 1e3 * each["cop"].values[order], each["curvature"].values[order]
            dash = plots.DASHES[number]
            panel.plot(x, rho, color=plots.COLOURS[number], linestyle=dash, linewidth=1.3, label=variant)
        panel.set_title(name, fontsize=9)
        panel.set_xlabel("CoP along the foot (mm)")
    last, number = axes.flat[len(names)], len(variants) - 1
    share = np.linspace(0.0, 100.0, 101)
    each = np.array([_over_share(dataset.sel(stance=name, variant=variants[number]), share) for name in names])
    mean, spread, colour = each.mean(axis=0), each.std(axis=0), plots.COLOURS[number]
    last.plot(share, mean, color=colour, linestyle=plots.DASHES[number], linewidth=1.3)
    last.fill_between(share, mean - spread, mean + spread, color=colour, alpha=0.15, linewidth=0)
    last.set_title(f"{variants[number]}: mean and SD of {len(names)} stances", fontsize=9)
    last.set_xlabel("CoP (% of its way)")
    for panel in axes.flat[: len(names) + 1]:
        panel.set_yscale("symlog", linthresh=0.1)
        panel.set_ylim(-1.0, 30.0)
        panel.set_ylabel("radius of curvature (m)")
    for panel in axes.flat[len(names) + 1 :]:
        panel.set_visible(False)
    plots.legend_below(figure, axes[0, 0].get_legend_handles_labels()[0])
    return figure


def _measured_curvature(one: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """CoP (m) and its slope by the pitch (m), from rates over five frames, where the pitch moves by 5 deg/s or more."""
    loaded, time = one["loaded"].values, one["t"].values
    cop, pitch = one["cop_measured"].values, one["pitch"].values
    ahead, behind = slice(4, None), slice(None, -4)
    turned = pitch[ahead] - pitch[behind]
    counts = loaded[ahead] & loaded[behind] & (np.abs(turned) > np.deg2rad(5.0) * (time[ahead] - time[behind]))
    return cop[2:-2][counts], ((cop[ahead] - cop[behind])[counts]) / turned[counts]


def _over_share(one: xr.Dataset, share: np.ndarray) -> np.ndarray:
    """The radius of curvature over the way of the CoP (%), in the order of the pitch."""
    each = one.isel(frame=one["loaded"].values)
    order = np.argsort(each["pitch"].values, kind="stable")
    # A surface that is not convex turns back: the way so far is what counts.
    way = np.maximum.accumulate(each["cop"].values[order])
    return np.interp(share, 100 * (way - way[0]) / (way[-1] - way[0]), each["curvature"].values[order])
