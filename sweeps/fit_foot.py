"""Foot Table 2 fitted to a measured step: nine spheres to force, centre of pressure and free moment of a force plate.

A bare foot walks over a plate (Duarte and Watanabe, BMC walk2). Stiffness, damping, friction, radii and places of all
spheres are unknown; the motion is the measured one, as it is or with a small correction. What is found on the right
foot is then tried on the left one.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from jaxcontact import plots
from jaxcontact.integrate.settings import Settings
from jaxcontact.measured import Stance, read_stances
from jaxcontact.models.layouts import NINE_SPHERES
from jaxcontact.study.fit import Fit, Problem, Unknown, fit
from jaxcontact.study.published import Published
from jaxcontact.study.sweep import Progress
from jaxcontact.tracked.pose_correction import PRIOR_SD, coefficient_names, prior_sd, size_of
from jaxcontact.tracked.tracked import Tracked
from jaxcontact.tracked.walk import CARRIES, CORRECTION, FRAMES, LOADED, walk_model

from ._data import data_file

FILE = "bmc_walk2_overground.csv"
FITTED, TRIED = "R_plate6", "L_plate5"
FIT_FRAMES = 61  # of a fit; the table and the figure have all of `FRAMES`
STARTS = 64
TOLERANCE = 1e-3  # of a fit: the cost then changes by less than a millionth of itself
AIM = {"F_z": 5.0, "shear": 3.0, "cop": 10.0}  # % of body weight and mm: of the first row
_NOT_DRAWN = ("right, without it", "left, untouched")
_COEFFICIENTS = coefficient_names(CORRECTION)
_WIDEST = 6.0  # sd of a coefficient's prior, to either side

# What one sphere has: range about its default (added, or as a factor on a log scale) and sd of the prior.
_SPHERE: Mapping[str, tuple[str, float, float]] = {
    "x": ("linear", 0.04, 0.010),
    "y": ("linear", 0.04, 0.010),
    "z": ("linear", 0.02, 0.003),
    "radius": ("log", 2.0, 0.15),
    "weight": ("log", 50.0, 0.7),
    "damping": ("log", 50.0, 0.5),
    "friction": ("log", 5.0, 0.3),
}


class Case(NamedTuple):
    """One row of the table: which stance, how it was come by, and the curves at all frames."""

    name: str
    words: str
    tracked: Tracked
    found: Mapping[str, np.ndarray]
    stated: Mapping[str, float]
    drawn: bool = True  # in the figure


def contact_unknowns(tracked: Tracked) -> list[Unknown]:
    """Laws, place of the sole under the markers, and every number of every sphere; priors are wide and are ours."""
    default = {p.name: p.default for p in tracked.model.parameters}
    z = default["mount.z"]
    unknowns = [
        Unknown("k", 2e4, 2e7, "log", prior=(6e5, 1.0)),
        Unknown("chi", 1e4, 2e7, "log", prior=(3e5, 1.0)),
        Unknown("mu", 0.2, 2.0, "log", prior=(0.8, 0.3)),
        Unknown("v_slip", 2e-3, 0.5, "log", prior=(0.05, 1.0)),
        Unknown("mount.x", 0.11, 0.17, prior=(default["mount.x"], 0.005)),
        Unknown("mount.z", z - 0.03, z + 0.03, prior=(z, 0.003)),
        Unknown("mount.pitch", -8.0, 8.0, prior=(0.0, 2.0)),
        Unknown("toes.flat", 0.0, 1.5, prior=(default["toes.flat"], 0.2)),
    ]
    for sphere in NINE_SPHERES.names():
        for field, (scale, reach, sd) in _SPHERE.items():
            name, mean = f"{sphere}.{field}", default[f"{sphere}.{field}"]
            low, high = (mean - reach, mean + reach) if scale == "linear" else (mean / reach, mean * reach)
            unknowns.append(Unknown(name, low, high, scale, prior=(mean, sd)))
    return unknowns


def correction_unknowns() -> list[Unknown]:
    """The coefficients of the pose's correction, held small by priors of mean 0."""
    return [
        Unknown(name, -_WIDEST * prior_sd(name), _WIDEST * prior_sd(name), prior=(0.0, prior_sd(name)))
        for name in _COEFFICIENTS
    ]


def place_unknowns(contact: Mapping[str, float]) -> list[Unknown]:
    """Where a known sole sits under the markers of another foot: they were glued on by hand."""
    sd = {"mount.x": 0.005, "mount.y": 0.005, "mount.z": 0.003, "mount.pitch": 2.0}
    return [
        Unknown(name, contact[name] - _WIDEST * each, contact[name] + _WIDEST * each, prior=(contact[name], each))
        for name, each in sd.items()
    ]


def run(progress: Progress, starts: int = STARTS, max_steps: int = 100, frames: int = FIT_FRAMES) -> Published:
    """Fit the right foot with and without correction, then try what was found on the left one."""
    right, left = stances()

    def fitted(number: int, stance: Stance, correction: bool, contact: Mapping[str, float] | None = None) -> Fit:
        def tell(done: int, total: int) -> None:
            progress(number * total + done, 4 * total)

        problem = question(stance, correction, contact, frames)
        return fit(problem, starts=starts, seed=1, max_steps=max_steps, tolerance=TOLERANCE, progress=tell)

    whole, plain = fitted(0, right, True), fitted(1, right, False)
    contacts = [carried_over(each.stated(), right, left) for each in (whole, plain)]
    again, placed = fitted(2, left, True, contacts[0]), fitted(3, left, False, contacts[1])
    answers = {
        "right, corrected": whole.stated(),
        "right, as measured": plain.stated(),
        "left, corrected": again.stated(),
        "left, placed anew": placed.stated(),
    }
    costs = {"corrected": whole.starts.cost, "as measured": plain.starts.cost}
    return published(cases_of(answers, right, left), costs)


def stances() -> tuple[Stance, Stance]:
    """The one that is fitted, and the one that is tried."""
    found = {stance.name: stance for stance in read_stances([data_file(FILE)])}
    return found[FITTED], found[TRIED]


def question(stance: Stance, correction: bool, contact: Mapping[str, float] | None, frames: int) -> Problem:
    """What is asked of a stance: all of the contact, or with a known one its place only; and the correction, or not."""
    tracked = walk_model(stance, NINE_SPHERES, frames, correction=CORRECTION if correction else {})
    unknowns = contact_unknowns(tracked) if contact is None else place_unknowns(contact)
    unknowns += correction_unknowns() if correction else []
    names = [each.name for each in unknowns]
    fixed = {name: value for name, value in (contact or {}).items() if name not in names}
    return Problem.of_tracked(tracked, unknowns=unknowns, fixed=fixed)


def carried_over(stated: Mapping[str, float], right: Stance, left: Stance) -> dict[str, float]:
    """What was found of the contact, for the other foot: its marker sits as much higher as it is seen at foot-flat."""
    here, there = (
        next(p.default for p in walk_model(each, NINE_SPHERES).model.parameters if p.name == "mount.z")
        for each in (right, left)
    )
    contact = {name: value for name, value in stated.items() if not name.startswith("correct.")}
    return contact | {"mount.z": stated["mount.z"] + there - here}


def cases_of(answers: Mapping[str, Mapping[str, float]], right: Stance, left: Stance) -> list[Case]:
    """All rows of the table: what was fitted, and what the same numbers say where nothing was."""
    whole, plain = answers["right, corrected"], answers["right, as measured"]
    bare = {name: value for name, value in whole.items() if name not in _COEFFICIENTS}
    again, placed = answers["left, corrected"], answers["left, placed anew"]
    rows = [
        ("right, corrected", "contact and correction fitted", right, whole),
        ("right, without it", "the contact of the first row, its correction taken away", right, bare),
        ("right, as measured", "contact fitted to the measured pose", right, plain),
        ("left, corrected", "contact of the first row; place and correction fitted", left, again),
        ("left, placed anew", "contact of the third row; its place fitted: 4 numbers", left, placed),
        ("left, untouched", "contact of the third row; nothing fitted", left, carried_over(plain, right, left)),
    ]
    curves = {id(stance): _curves(stance) for stance in (right, left)}
    cases = []
    for name, words, stance, stated in rows:
        tracked, computed = curves[id(stance)]
        values = {p.name: stated.get(p.name, p.default) for p in tracked.model.parameters}
        cases.append(Case(name, words, tracked, computed(values), values, name not in _NOT_DRAWN))
    return cases


def _curves(stance: Stance):
    """The stance at all frames, and what gives its curves for parameters in stated units; compiled once."""
    tracked = walk_model(stance, NINE_SPHERES, FRAMES)
    chosen = {name: allowed[0] for name, allowed in tracked.model.choices.items()}
    machine = tracked.model.recorder("prescribed", chosen, Settings(), FRAMES)
    compiled = jax.jit(lambda params: machine.finish(params, machine.init(params))["curves"])

    def computed(stated: Mapping[str, float]) -> dict[str, np.ndarray]:
        found = compiled({p.name: jnp.asarray(stated[p.name] * p.si) for p in tracked.model.parameters})
        return {name: np.asarray(values) for name, values in found.items()}

    return tracked, computed


# ---------------------------------------------------------------- results and words


def published(cases: list[Case], costs: Mapping[str, np.ndarray]) -> Published:
    """Words, numbers and picture; `costs` are those of all starts, by fit."""
    dataset = _dataset(cases, costs)
    text = "\n\n".join(
        [_head(dataset), _table(dataset, cases), _starts(costs), _corrections(cases), _contacts(cases[0]), _NOTE]
    )
    return Published(text=text, dataset=dataset, figures={"fit_foot": _figure(dataset, cases)})


def _dataset(cases: list[Case], costs: Mapping[str, np.ndarray]) -> xr.Dataset:
    data: dict[str, Any] = {}
    for channel, target in cases[0].tracked.targets.items():
        measured = [np.where(t.valid, t.values, np.nan) for t in (case.tracked.targets[channel] for case in cases)]
        computed = [np.where(np.isnan(m), np.nan, case.found[channel]) for m, case in zip(measured, cases, strict=True)]
        about = {"units": target.unit}
        data[f"{channel}_measured"] = (("case", "percent"), measured, about)
        data[f"{channel}_computed"] = (("case", "percent"), computed, about)
        rms = np.sqrt(np.nanmean((np.array(computed) - measured) ** 2, axis=1))
        data[f"{channel}_rms"] = ("case", rms, about | {"long_name": "where both are told"})
    for name, parts in {"shear": ("F_x", "F_y"), "cop": ("cop_x", "cop_y")}.items():
        both = np.hypot(*(data[f"{part}_rms"][1] for part in parts))
        data[f"{name}_rms"] = ("case", both, data[f"{parts[0]}_rms"][2] | {"long_name": "of the vector"})
    lost = np.isnan(data["cop_x_computed"][1]) & ~np.isnan(data["cop_x_measured"][1])
    data["no_cop"] = ("case", lost.sum(axis=1), {"units": "1", "long_name": "moments with a measured CoP and no other"})
    parameters = cases[0].tracked.model.parameters
    data["stated"] = (("case", "parameter"), [[case.stated[p.name] for p in parameters] for case in cases])
    told = {"units": "1", "long_name": "cost of each start (Lopes eq. 3), in order"}
    data["cost"] = (("fit", "rank"), np.array([np.sort(each) for each in costs.values()]), told)
    return xr.Dataset(
        data,
        {
            "case": [case.name for case in cases],
            "fit": list(costs),
            "percent": ("percent", np.linspace(0, 100, FRAMES), {"units": "%", "long_name": "stance"}),
            "parameter": [p.name for p in parameters],
            "parameter_unit": ("parameter", [p.unit for p in parameters]),
        },
        {"body_weight_N": cases[0].tracked.body_weight},
    )


def _head(dataset: xr.Dataset) -> str:
    return (
        f"{FITTED} and {TRIED} of {FILE}; body weight {dataset.attrs['body_weight_N']:.0f} N.\n"
        f"RMS over {FRAMES} moments of stance; CoP and free moment where the plate carries more than {CARRIES:.0f} N,\n"
        f"but for moments (counted: no CoP) at which the computed foot carries less than {LOADED:.0f} N."
    )


def _starts(costs: Mapping[str, np.ndarray]) -> str:
    lines = []
    for name, each in costs.items():
        best, near = float(np.min(each)), int(np.sum(each < 1.05 * np.min(each)))
        lines.append(f"{name}: {len(each)} starts; least cost {best:.0f}, {near} within 5 % of it")
    return "\n".join(lines)


def _table(dataset: xr.Dataset, cases: list[Case]) -> str:
    """RMS by channel: forces in % of body weight, the centre of pressure in mm."""
    percent, mm = 100 / dataset.attrs["body_weight_N"], 1e3
    columns = {
        "F_z": ("F_z % BW", percent),
        "F_x": ("F_x % BW", percent),
        "F_y": ("F_y % BW", percent),
        "shear": ("both % BW", percent),
        "cop_x": ("CoP_x mm", mm),
        "cop_y": ("CoP_y mm", mm),
        "cop": ("both mm", mm),
        "free_moment": ("T_z N m", 1.0),
    }
    lines = [f"{'RMS':20}" + "".join(f"{title:>11}" for title, _ in columns.values()) + f"{'no CoP':>8}"]
    aims = "".join(f"{AIM.get(name, ''):>11}" for name in columns)
    lines.append(f"{'aim, corrected':20}{aims}".rstrip())
    for case in cases:
        row = dataset.sel(case=case.name)
        cells = "".join(f"{factor * float(row[f'{name}_rms']):11.1f}" for name, (_, factor) in columns.items())
        lines.append(f"{case.name:20}{cells}{int(row['no_cop']):8}")
    return "\n".join([*lines, *(f"  {case.name}: {case.words}" for case in cases)])


def _corrections(cases: list[Case]) -> str:
    held = ", ".join(
        f"{name} {1e3 * PRIOR_SD[name]:g} mm" if PRIOR_SD[name] < 0.1 else f"{name} {PRIOR_SD[name]:g} deg"
        for name in CORRECTION
    )
    lines = [f"Correction of the pose, rms (largest); sd of the priors: {held}"]
    for case in cases:
        if any(case.stated[name] for name in _COEFFICIENTS):
            sizes = size_of(case.stated, CORRECTION).items()
            lines.append(
                f"  {case.name:20}"
                + ", ".join(f"{name} {rms:.1f} ({most:.1f}) {unit}" for name, (rms, most, unit) in sizes)
            )
    return "\n".join(lines)


def _contacts(case: Case) -> str:
    """The spheres that were found, and the laws that they share."""
    v = case.stated
    lines = [
        f"Found with correction: k {v['k']:.3g} N/m^1.5, chi {v['chi']:.3g} N s/m^2.5, mu {v['mu']:.2f}, "
        f"v_slip {1e3 * v['v_slip']:.0f} mm/s",
        f"{'':8}{'x mm':>9}{'y mm':>9}{'z mm':>9}{'radius mm':>11}{'stiffness':>11}{'damping':>9}{'friction':>10}",
    ]
    for sphere in NINE_SPHERES.names():
        places = "".join(f"{1e3 * v[f'{sphere}.{field}']:9.1f}" for field in ("x", "y", "z"))
        shares = f"{v[f'{sphere}.weight']:11.2f}{v[f'{sphere}.damping']:9.2f}{v[f'{sphere}.friction']:10.2f}"
        lines.append(f"  {sphere:6}{places}{1e3 * v[f'{sphere}.radius']:11.1f}{shares}")
    return "\n".join(lines)


_NOTE = """\
Stiffness, damping and friction of a sphere are relative to the laws' own; a sphere that never touches keeps its prior.
Friction that follows a measured velocity creeps where a foot sticks: mu and v_slip say how shear grows with millimetres
of motion per second, not at which load a foot would slide, and the correction along the floor is as much the sole's
shear as an error of the markers. So shear is not predicted on a pose that is not corrected. The vertical force is where
the sole is within a millimetre: on another foot the place of its markers decides, and the contact comes after that."""


# ---------------------------------------------------------------- figure


def _figure(dataset: xr.Dataset, cases: list[Case]):
    """Measured and computed curves: a column for each foot."""
    rows = {
        "F_z": ("vertical force (N)", 1.0),
        "F_x": ("shear along the foot (N)", 1.0),
        "F_y": ("shear towards the big toe (N)", 1.0),
        "cop_x": ("CoP along the foot (mm)", 1e3),
        "cop_y": ("CoP towards the big toe (mm)", 1e3),
    }
    title = "Foot Table 2: nine spheres fitted to a measured step of the right foot, and tried on the left one"
    figure, axes = plots.new_figure(len(rows), 2, title, panel=(4.6, 2.0), sharex=True, sharey="row")
    for column, side in enumerate(("right", "left")):
        for panel, (name, (label, factor)) in zip(axes[:, column], rows.items(), strict=True):
            chosen = [case for case in cases if case.name.startswith(side) and case.drawn]
            measured = factor * dataset[f"{name}_measured"].sel(case=chosen[0].name)
            panel.plot(dataset["percent"], measured, color="0.6", linewidth=3, label="measured")
            for number, case in enumerate(chosen):
                words = case.name.removeprefix(f"{side}, ")
                panel.plot(
                    dataset["percent"],
                    factor * dataset[f"{name}_computed"].sel(case=case.name),
                    color=plots.COLOURS[number],
                    linestyle=plots.DASHES[number],
                    label=words,
                )
            if column == 0:
                panel.set_ylabel(label, fontsize=8)
        axes[0, column].set_title(f"{side} foot: {'fitted' if column == 0 else 'contact of the right one'}", fontsize=9)
        axes[0, column].legend(fontsize=7, loc="lower center")
        axes[-1, column].set_xlabel("stance (%)")
    axes[0, 0].set_xlim(0, 100)
    return figure
