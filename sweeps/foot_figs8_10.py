"""Foot Figs 8-10: a stance phase under prescribed motion; spheres in contact; a cavus and a flat foot.

The motion is a typical one (models/gait.py): the paper prints none. Under it the normal sole carries a walking body of
70 kg. Other shapes of the sole meet the same motion; their shapes are ours (models/shape.py), as the paper prints none.
"""

from collections.abc import Mapping

import jax
import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from jaxcontact import plots
from jaxcontact.models import MODELS
from jaxcontact.models.gait import stance_motion
from jaxcontact.models.layouts import NINE_SPHERES
from jaxcontact.models.model import default_params
from jaxcontact.models.prescribed import evaluate, sagittal_feet
from jaxcontact.models.shape import CAVUS, FLAT, NORMAL
from jaxcontact.models.stance import FRAMES, GAIT, PHASES, shaped_elements
from jaxcontact.study import run as run_study
from jaxcontact.study import study
from jaxcontact.study.published import Published
from jaxcontact.study.sweep import Progress

from ._approaches import failures
from ._foot import draw_foot, draw_ground, sole_outline, spheres_in_words

DEFAULTS = default_params(MODELS["stance"])
CHOICES = {name: allowed[0] for name, allowed in MODELS["stance"].choices.items()}
WEIGHT = GAIT.mass * GAIT.gravity  # N
SHAPES: Mapping[str, Mapping[str, float]] = {"normal": NORMAL, "cavus": CAVUS, "flat": FLAT}
VARIED = [name for name in NORMAL if any(shape[name] != NORMAL[name] for shape in SHAPES.values())]
PRINTED_K = 40e3  # Foot: 40 kN/m
PAPER = {10: "1-3", 49: "1-8", 68: "7-9"}  # % of stance: spheres in contact (Foot, on Fig. 9)
WORDS = {"heel": "heel contact", "mid": "mid-stance", "rise": "end of mid-stance", "off": "toe-off"}
CAVUS_IS = {"heel": "higher", "mid": "lower", "rise": "higher", "off": "higher"}  # than normal (Foot, on Fig. 10)


def run(progress: Progress, count: int = 33) -> Published:
    """Trace three shapes of the sole, and vary the height of the arch in `count` steps."""
    curves = {"curves": True, "points": FRAMES}
    cases = {name: [shape[name] for shape in SHAPES.values()] for name in VARIED}
    shapes = run_study(study("stance", cases={"values": cases}, output=curves), progress=progress)
    arches = np.linspace(1.5 * FLAT["arch"], 1.5 * CAVUS["arch"], count).tolist()
    swept = run_study(study("stance", vary={"arch": arches}, output=curves), progress=progress)
    dataset = _one_dataset(shapes, swept, _by_stiffness())
    text = [_MADE, "", *_contacts(dataset), "", *_forces(dataset), "", *_claims(dataset), *failures(shapes)]
    figures = {"foot_figs8_9": _stance_figure(dataset), "foot_fig10": _shape_figure(dataset)}
    return Published(text="\n".join(text), dataset=dataset, figures=figures)


_MADE = (
    f"Stance of {GAIT.duration:g} s, {GAIT.mass:g} kg. The motion is ours, made so that the normal sole carries "
    "a typical walking load."
)


def _by_stiffness() -> xr.Dataset:
    """Pose and spheres that are down over stance, for our stiffness and the printed one; a motion made with each."""
    stiffnesses = [DEFAULTS["k"], PRINTED_K]

    @jax.jit
    def stance(k):
        params = {**DEFAULTS, "k": k, "chi": k * DEFAULTS["chi"] / DEFAULTS["k"]}
        motion = stance_motion(GAIT, NINE_SPHERES, params, CHOICES, 101)
        elements = shaped_elements(NINE_SPHERES, params)
        found = evaluate(motion, lambda frame: sagittal_feet(frame, params), NINE_SPHERES, elements, params, CHOICES)
        return motion.z, motion.pitch, motion.pitch + motion.bend, found.down

    height, pitch, toe_pitch, down = (np.array(values) for values in zip(*map(stance, stiffnesses), strict=True))
    along = ("k", "percent")
    return xr.Dataset(
        {
            "foot_height": (along, height, {"units": "m", "long_name": "height of the main foot's centre of mass"}),
            "foot_pitch": (along, pitch, {"units": "rad", "long_name": "main foot, clockwise: heel up"}),
            "toe_pitch": (along, toe_pitch, {"units": "rad", "long_name": "toes, clockwise"}),
            "sphere_down": ((*along, "sphere"), down.astype(np.int8), {"units": "1", "long_name": "is in the ground"}),
        },
        {
            "k": ("k", stiffnesses, {"units": "N/m^1.5", "long_name": "stiffness of a sphere"}),
            "percent": ("percent", np.arange(101), {"units": "%", "long_name": "stance"}),
            "sphere": ("sphere", np.arange(1, len(NINE_SPHERES) + 1), {"units": "1", "long_name": "number"}),
        },
    )


def _one_dataset(shapes: xr.Dataset, swept: xr.Dataset, by_stiffness: xr.Dataset) -> xr.Dataset:
    """The three shapes with time histories, the means over the arch's height, and the spheres in contact."""
    shapes = shapes.drop_vars(VARIED).rename(case="shape").assign_coords(shape=list(SHAPES))
    means = [f"F_z_{phase}" for phase in PHASES]
    swept = swept[means].rename({name: f"{name}_over_arch" for name in means})
    return xr.merge([shapes, swept, by_stiffness], combine_attrs="override")


# ---------------------------------------------------------------- words


def _contacts(dataset: xr.Dataset) -> list[str]:
    """Spheres in contact at the paper's instants, and from when on there are only the toes'."""
    down = dataset["sphere_down"]
    named = {"ours": DEFAULTS["k"], "printed": PRINTED_K}
    lines = [f"{'spheres in contact at':24}{'paper':>9}" + "".join(f"{f'{w} k {k:.0e}':>20}" for w, k in named.items())]
    for percent, printed in PAPER.items():
        found = (spheres_in_words(down.sel(k=k, percent=percent).values) for k in named.values())
        lines.append(f"{f'{percent} % of stance':24}{printed:>9}" + "".join(f"{words:>20}" for words in found))
    from_when = (_only_toes(down.sel(k=k)) for k in named.values())
    lines.append(f"{'only 7-9 from':24}{'68 %':>9}" + "".join(f"{f'{percent} %':>20}" for percent in from_when))
    return lines


def _only_toes(down: xr.DataArray) -> int:
    """From which percent of stance on nothing but the toes is down."""
    main_foot = down.isel(sphere=list(NINE_SPHERES.on("foot"))).any("sphere")
    return int(np.flatnonzero(main_foot.values)[-1]) + 1


def _forces(dataset: xr.Dataset) -> list[str]:
    """Mean vertical force in each phase, also relative to the normal sole."""
    lines = [f"{'mean F_z (N)':12}" + "".join(f"{_span(phase):>28}" for phase in PHASES)]
    for shape in SHAPES:
        row = f"{shape:12}"
        for phase in PHASES:
            mean = dataset[f"F_z_{phase}"]
            change = 100 * float(mean.sel(shape=shape) / mean.sel(shape="normal") - 1)
            row += f"{float(mean.sel(shape=shape)):19.1f} {change:+6.1f} %"
        lines.append(row)
    return lines


def _span(phase: str) -> str:
    begin, end = PHASES[phase]
    return f"{WORDS[phase]} {100 * begin:.0f}-{100 * end:.0f} %"


def _claims(dataset: xr.Dataset) -> list[str]:
    """What the paper says about Fig. 10, and whether it is found."""
    lines = ["Paper, cavus foot:"]
    for phase, claim in CAVUS_IS.items():
        mean = dataset[f"F_z_{phase}"]
        found = "higher" if float(mean.sel(shape="cavus")) > float(mean.sel(shape="normal")) else "lower"
        lines.append(f"  {_tick(found == claim)} {claim} at {WORDS[phase]}")
    hump = {shape: single_hump_misfit(dataset["F_z"].sel(shape=shape).values) for shape in SHAPES}
    dip = {shape: valley_depth(dataset["F_z"].sel(shape=shape).values) for shape in SHAPES}
    return [
        *lines,
        "Paper, flat foot: tends to the single hump of a classic Hertz contact",
        f"  {_tick(dip['flat'] < dip['normal'])} the valley between the peaks is {100 * dip['flat']:.0f} % deep, "
        f"that of the normal foot {100 * dip['normal']:.0f} %",
        f"  {_tick(hump['flat'] < hump['normal'])} off the best half sine by {100 * hump['flat']:.0f} % (rms), "
        f"the normal foot by {100 * hump['normal']:.0f} %, cavus {100 * hump['cavus']:.0f} %",
    ]


def _tick(holds: bool) -> str:
    return "[x]" if holds else "[ ]"


def valley_depth(force: np.ndarray) -> float:
    """How far a force falls between its peaks in either half of stance, as a share of the lower peak."""
    half = len(force) // 2
    first, second = int(force[:half].argmax()), half + int(force[half:].argmax())
    return float(1 - force[first:second].min() / min(force[first], force[second]))


def single_hump_misfit(force: np.ndarray) -> float:
    """Distance (rms) of a force from the nearest half sine over stance, as a share of its own rms."""
    hump = np.sin(np.linspace(0, np.pi, len(force)))
    off = force - hump * (force @ hump) / (hump @ hump)
    return float(np.sqrt(np.mean(off**2) / np.mean(force**2)))


# ---------------------------------------------------------------- figures


def _stance_figure(dataset: xr.Dataset):
    title = f"Foot Figs 8 and 9: stance of the normal foot under prescribed motion, {GAIT.mass:g} kg"
    figure, axes = plots.new_figure(2, 2, title, panel=(4.8, 2.9))
    one = dataset.sel(shape="normal")
    percent = 100 * one["fraction"]
    load, shear, pressure = axes[0, 0], axes[0, 0], axes[0, 1]
    for number, (name, words) in enumerate({"F_z": "vertical", "F_x": "shear, forward"}.items()):
        load.plot(percent, one[name], color=plots.COLOURS[number], linestyle=plots.DASHES[number], label=words)
    phase = np.linspace(0, 1, 26)
    load.plot(
        100 * phase, GAIT.load(phase), ".", color=plots.COLOURS[2], markersize=4, label="typical load (Alexander)"
    )
    shear.set_ylabel("force on the foot (N)")
    load.set_title("(a) forces", loc="left", fontsize=9)
    load.legend(fontsize=8)
    pressure.plot(percent, 1e3 * one["cop_x"], color=plots.COLOURS[0], label="nine spheres")
    pressure.set_ylabel("centre of pressure, forward (mm)")
    pressure.set_title("(b) centre of pressure", loc="left", fontsize=9)
    pressure.legend(fontsize=8)
    _bars(axes[1, 0], dataset["sphere_down"])
    _poses(axes[1, 1], dataset)
    for panel in (load, pressure, axes[1, 0]):
        panel.set_xlabel("stance (%)")
        panel.set_xlim(0, 100)
    return figure


def _bars(panel: Axes, down: xr.DataArray) -> None:
    """A bar while a sphere is in contact, and what the paper says at three instants."""
    for row, (k, label) in enumerate(
        {
            DEFAULTS["k"]: f"k {DEFAULTS['k'] / 1e3:g} kN/m$^{{1.5}}$ (ours)",
            PRINTED_K: f"k {PRINTED_K / 1e3:g} kN/m$^{{1.5}}$ (printed)",
        }.items()
    ):
        for sphere in down["sphere"].values:
            during = np.flatnonzero(down.sel(k=k, sphere=sphere).values)
            runs = np.split(during, np.flatnonzero(np.diff(during) > 1) + 1)
            panel.broken_barh(
                [(run[0], run[-1] - run[0]) for run in runs if len(run)],
                (sphere - 0.32 + 0.32 * row, 0.28),
                color=plots.COLOURS[row],
                label=label if sphere == 1 else None,
            )
    for percent, words in PAPER.items():
        first, last = (int(number) for number in words.split("-"))
        panel.plot(
            [percent] * 2,
            [first - 0.4, last + 0.4],
            color="black",
            linewidth=2.5,
            alpha=0.8,
            label="paper" if percent == 10 else None,
        )
    panel.set_ylim(0.3, 9.7)
    panel.set_yticks(down["sphere"].values)
    panel.set_ylabel("sphere in contact (number)")
    panel.set_title("(c) spheres in contact", loc="left", fontsize=9)
    panel.legend(fontsize=7, loc="lower right")


def _poses(panel: Axes, dataset: xr.Dataset) -> None:
    """The foot at the paper's three instants, side by side; spheres in contact are filled."""
    draw_ground(panel)
    for number, percent in enumerate(PAPER):
        one = dataset.sel(k=DEFAULTS["k"], percent=percent)
        place, pitches = (0.35 * number, float(one["foot_height"])), (float(one["foot_pitch"]), float(one["toe_pitch"]))
        down = np.flatnonzero(one["sphere_down"].values)
        draw_foot(panel, place, *pitches, DEFAULTS, colour=plots.COLOURS[number], down=down)
        panel.text(place[0] - 0.02, 0.17, f"{percent} %", fontsize=9, ha="center")
    panel.set_xlim(-0.2, 0.9)
    panel.set_ylim(-0.04, 0.22)
    panel.set_anchor("N")
    panel.set_title("(d) the foot at three instants; spheres in contact are filled", loc="left", fontsize=9)


def _shape_figure(dataset: xr.Dataset):
    title = "Foot Fig. 10: a cavus and a flat foot under the motion of a normal one"
    figure, axes = plots.new_figure(2, 2, title, panel=(4.8, 2.9))
    percent = 100 * dataset["fraction"]
    for number, shape in enumerate(SHAPES):
        style = {"color": plots.COLOURS[number], "linestyle": plots.DASHES[number], "label": shape}
        axes[0, 0].plot(percent, dataset["F_z"].sel(shape=shape) / WEIGHT, **style)
        axes[0, 1].plot(percent, 1e3 * dataset["cop_x"].sel(shape=shape), **style)
        outline = sole_outline({**DEFAULTS, **SHAPES[shape]})
        ahead = DEFAULTS["toe_joint.x"] + DEFAULTS["toes.x"], DEFAULTS["toe_joint.z"] + DEFAULTS["toes.z"]
        x = np.concatenate([outline["foot"][0], outline["toes"][0] + ahead[0]])
        z = np.concatenate([outline["foot"][1], outline["toes"][1] + ahead[1]])
        axes[1, 0].plot(1e3 * x, 1e3 * z, **style)
    axes[0, 0].set_ylabel("vertical force (body weights)")
    axes[0, 1].set_ylabel("centre of pressure, forward (mm)")
    axes[1, 0].set_xlabel("forward of the centre of the main foot (mm)")
    axes[1, 0].set_ylabel("height of the sole (mm)")
    for number, phase in enumerate(PHASES):
        mean = dataset[f"F_z_{phase}_over_arch"]
        normal = dataset[f"F_z_{phase}"].sel(shape="normal")
        axes[1, 1].plot(
            1e3 * dataset["arch"],
            100 * (mean / normal - 1),
            color=plots.COLOURS[number],
            linestyle=plots.DASHES[number],
            label=WORDS[phase],
        )
    for shape in ("cavus", "flat"):
        axes[1, 1].axvline(1e3 * SHAPES[shape]["arch"], color=plots.GREY, linestyle=":")
    axes[1, 1].set_xlabel("added height of the arch (mm)")
    axes[1, 1].set_ylabel("mean force, above the normal foot's (%)")
    for panel in axes[0]:
        panel.set_xlabel("stance (%)")
        for begin, _ in list(PHASES.values())[1:]:
            panel.axvline(100 * begin, color=plots.GREY, linewidth=0.8, linestyle=":")
    words = ("vertical force", "centre of pressure", "soles", "mean forces over the height of the arch")
    for letter, panel, text in zip("abcd", axes.flat, words, strict=True):
        panel.set_title(f"({letter}) {text}", loc="left", fontsize=9)
        panel.legend(fontsize=8)
    return figure
