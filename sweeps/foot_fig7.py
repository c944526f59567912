"""Foot Fig. 7: a leg swings down and its foot drags; with viscous friction it stops before the vertical.

The paper prints stiffness, damping, both friction coefficients, masses and spheres. It does not print how the knee is
held, how high, nor which way the horizontal leg points: here the knee is pinned and the leg starts in front of it.
"""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from jaxcontact import plots
from jaxcontact.models import MODELS
from jaxcontact.models.model import default_params
from jaxcontact.study import run as run_study
from jaxcontact.study import study
from jaxcontact.study.execute import LocalExecutor
from jaxcontact.study.published import Published
from jaxcontact.study.sweep import Progress

from ._approaches import failures, share
from ._foot import draw_ground, draw_leg

KNEE = default_params(MODELS["foot"])["knee"]  # m
PRINTED = default_params(MODELS["foot"])["mu_viscous"]  # N s/m, of each sphere
LAWS = {0.0: "Coulomb", PRINTED: "Coulomb + viscous"}  # by viscous friction: without it the law is Coulomb's alone
VISCOUS = [0.0, 1.0, PRINTED, 10.0]
DAMPINGS = [0.0, 0.1, 0.5]  # N m s/rad of the ankle: Foot has none there, and 0.5 in the joint of the toes
RANGE = (0.444, 0.486)  # m: from a leg that jams far from the vertical to one that all but clears the ground
FINE = (KNEE - 0.001, KNEE + 0.001)  # m: where the turning angle of the free ankle jumps
AT_ONCE = (34, 120)  # runs, at least and at most: all of them then go through the same compiled program


def run(
    progress: Progress,
    count: int = 31,
    rounds: int = 4,
    dampings: Sequence[float] = DAMPINGS,
    within: tuple[float, float] = RANGE,
) -> Published:
    """Sweep `count` heights of the knee, and close in, from `within` (m), on the least at which the leg passes."""
    ends = list(dict.fromkeys((dampings[0], dampings[-1])))
    heights = np.union1d(np.linspace(*RANGE, count - count // 3), np.linspace(*FINE, count // 3 | 1)).tolist()
    swept = _runs(progress, vary={"mu_viscous": list(LAWS), "ankle.damping": ends, "knee": heights})
    viscous = VISCOUS if len(dampings) > 1 else list(LAWS)
    least = _least_heights(progress, viscous, list(dampings), rounds, within)
    dataset = _one_dataset(swept, least)
    text = "\n".join(
        [*_ASSUMED, "", *_at_default(dataset), "", *_windows(least), _elsewhere(dataset), *failures(swept)]
    )
    return Published(text=text, dataset=dataset, figures={"foot_fig7": _figure(dataset)})


_ASSUMED = [
    f"Printed: 40 kN/m, 300 N s/m, exponent 1.5, mu 1, viscous friction 0 or {PRINTED:g} N s/m, masses, spheres.",
    f"Ours: a pinned knee, {KNEE:g} m high unless said; leg and foot start horizontal in front; where joints are;",
    "inertias after Winter (those printed cannot be in kg m^2). The ankle is a free hinge, as printed, without stops.",
]


def _runs(progress: Progress, **tables) -> xr.Dataset:
    """Run with time histories, on one device: sweeps and searches then share a program, which takes long to compile."""
    wanted = study("foot", output={"curves": True, "points": 201}, **tables)
    return run_study(wanted, progress=progress, executor=LocalExecutor(devices=1))


def _least_heights(
    progress: Progress, viscous: list[float], dampings: list[float], rounds: int, within: tuple[float, float]
) -> xr.DataArray:
    """Least height of the knee at which the leg passes, by viscous friction and damping of the ankle; NaN: none."""
    pairs = np.array([(mu, c) for mu in viscous for c in dampings])
    low, high = np.full(len(pairs), within[0]), np.full(len(pairs), within[1])
    each = max(AT_ONCE[1] // 12, -(-AT_ONCE[0] // len(pairs)))
    inside = np.arange(1, each + 1) / (each + 1)
    for _ in range(rounds):
        heights = low[:, None] + (high - low)[:, None] * inside
        cases = {"mu_viscous": pairs[:, :1], "ankle.damping": pairs[:, 1:], "knee": heights}
        values = {name: np.broadcast_to(numbers, heights.shape).ravel().tolist() for name, numbers in cases.items()}
        passes = _runs(progress, cases={"values": values})["turning_angle"].values.reshape(heights.shape) > 0
        first = np.where(passes.any(axis=1), passes.argmax(axis=1), len(inside))
        edges = np.column_stack([low, heights, high])
        low, high = (edges[np.arange(len(pairs)), first + i] for i in (0, 1))
    found = (low > within[0]) & (high < within[1])  # below it the leg was seen to stop, above it to pass
    return xr.DataArray(
        np.where(found, 0.5 * (low + high), np.nan).reshape(len(viscous), len(dampings)),
        {"viscous": viscous, "damping": dampings},
        ("viscous", "damping"),
        "least_knee",
        {"units": "m", "long_name": "least height of the knee at which the leg passes the vertical"},
    )


def _one_dataset(swept: xr.Dataset, least: xr.DataArray) -> xr.Dataset:
    """The sweep, time histories at the default height only, and the least heights."""
    curves = [name for name in swept.data_vars if "fraction" in swept[name].dims]
    traced = swept[curves].sel(knee=KNEE, method="nearest").isel({"ankle.damping": 0})
    dataset = xr.merge(
        [swept.drop_vars(curves), traced.drop_vars(["knee", "ankle.damping"]), least], combine_attrs="override"
    )
    dataset["viscous"].attrs = {"units": "N s/m", "long_name": "viscous friction of a sphere"}
    dataset["damping"].attrs = {"units": "N m s/rad", "long_name": "damping of the ankle"}
    return dataset


# ---------------------------------------------------------------- words


def _at_default(dataset: xr.Dataset) -> list[str]:
    lines = [
        "Paper: with Coulomb friction alone the foot goes beyond the vertical; with viscous friction it stops before."
    ]
    for mu, law in LAWS.items():
        one = dataset.sel({"mu_viscous": mu}).isel({"ankle.damping": 0}).sel(knee=KNEE, method="nearest")
        angle, foot = (np.rad2deg(float(one[name])) for name in ("turning_angle", "foot_angle"))
        words = "beyond" if angle > 0 else "before"
        lines.append(
            f"  {law:18} the leg stops {abs(angle):4.1f} deg {words} the vertical, after {float(one['t_end']):.2f} s; "
            f"the foot stands at {foot:.0f} deg"
        )
    return lines


def _windows(least: xr.DataArray) -> list[str]:
    """Between which heights the paper's statement holds."""
    lines = ["The statement holds between the two least heights of the knee at which the leg passes, (m) and width:"]
    more = "".join(f"{f'+ {mu:g} N s/m':>21}" for mu in least["viscous"].values[1:])
    lines.append(f"{'damping of the ankle':22}{'Coulomb':>9}{more}")
    for damping in least["damping"].values:
        first, *others = least.sel(damping=damping).values
        widths = "".join(f"{value:12.5f} {1e3 * (value - first):+5.2f} mm" for value in others)
        lines.append(f"{f'{damping:g} N m s/rad':22}{first:9.5f}{widths}")
    return lines


def _elsewhere(dataset: xr.Dataset) -> str:
    """Whether viscous friction decides anything outside of the window."""
    ends = dataset["least_knee"].sel(viscous=list(LAWS)).rename(damping="ankle.damping")
    ends = ends.sel({"ankle.damping": dataset["ankle.damping"]})
    outside = (dataset["knee"] < ends.isel(viscous=0)) | (dataset["knee"] > ends.isel(viscous=-1))
    passes = dataset["turning_angle"] > 0
    same = passes.sel(mu_viscous=0.0) == passes.sel(mu_viscous=PRINTED)
    return f"Outside of the window both laws stop before the vertical, or both pass it, {share(same, outside)}."


# ---------------------------------------------------------------- the figure


def _figure(dataset: xr.Dataset):
    title = (
        f"Foot Fig. 7: a falling leg drags its foot, $\\mu$ = 1, with and without viscous friction ({PRINTED:g} N s/m)"
    )
    figure, axes = plots.new_figure(2, 3, title, panel=(4.0, 3.2))
    _turning(axes[0, 0], dataset)
    for number, (panel, (mu, law)) in enumerate(zip(axes[0, 1:], LAWS.items(), strict=True)):
        _sequence(panel, dataset.sel(mu_viscous=mu), law, number)
    _histories(axes[1, 0], dataset, "shank_angle", "shank, past the vertical")
    _histories(axes[1, 1], dataset, "F_t", "friction on the sole")
    _widths(axes[1, 2], dataset["least_knee"])
    for letter, panel in zip("abcdef", axes.flat, strict=True):
        panel.set_title(f"({letter}) {panel.get_title()}", loc="left", fontsize=9)
        panel.set_title("")
    return figure


def _turning(panel: Axes, dataset: xr.Dataset) -> None:
    """Turning angle against the height of the knee."""
    for i, damping in enumerate(dataset["ankle.damping"].values):
        for number, (mu, law) in enumerate(LAWS.items()):
            one = dataset.sel({"mu_viscous": mu, "ankle.damping": damping})
            ankle = "free ankle" if damping == 0 else f"ankle {damping:g} N m s/rad"
            panel.plot(
                1e3 * one["knee"],
                np.rad2deg(one["turning_angle"]),
                color=plots.COLOURS[number],
                linestyle=plots.DASHES[i],
                marker=plots.MARKERS[number],
                markersize=3,
                markerfacecolor="white" if i else plots.COLOURS[number],
                linewidth=1.2,
                label=f"{law}, {ankle}",
            )
    least = 1e3 * dataset["least_knee"].isel(damping=0).sel(viscous=list(LAWS)).values
    panel.axvspan(*least, color=plots.COLOURS[3], alpha=0.25, linewidth=0, label="the paper's statement holds")
    panel.axhline(0.0, color=plots.GREY, linewidth=1.0)
    panel.set_xlabel("height of the knee (mm)")
    panel.set_ylabel("stops at, past the vertical (deg)")
    panel.set_title("where the leg stops")
    panel.legend(fontsize=6.5)


def _sequence(panel: Axes, one: xr.Dataset, law: str, number: int) -> None:
    """Shank, foot and toes at a few instants; darker is later."""
    params = {**default_params(MODELS["foot"]), "mu_viscous": 0.0}
    draw_ground(panel)
    panel.plot([0, 0], [-0.05, KNEE], color=plots.GREY, linestyle=":", linewidth=1.2)
    t = one["t"].values
    angles = [one[name].values for name in ("shank_angle", "foot_angle_curve", "toe_angle")]
    instants = [0.0, 0.18, 0.27, *np.linspace(0.33, t[-1], 3)]
    for i, instant in enumerate(instants):
        pose = tuple(float(np.interp(instant, t, angle)) for angle in angles)
        last = i == len(instants) - 1
        draw_leg(
            panel, pose, params, colour=plots.COLOURS[number] if last else plots.GREY, alpha=0.25 + 0.75 * (i / 5) ** 2
        )
    panel.set_xlim(-0.35, 0.75)
    panel.set_ylim(-0.05, 0.62)
    times = [f"{instant:.2f}" for instant in instants]
    words = f"drawn at\n{', '.join(times[:3])},\n{', '.join(times[3:])} s"
    panel.text(0.02, 0.97, words, transform=panel.transAxes, va="top", fontsize=7)
    panel.set_title(f"{law}: the leg's last pose in colour")


def _histories(panel: Axes, dataset: xr.Dataset, name: str, words: str) -> None:
    for number, (mu, law) in enumerate(LAWS.items()):
        one = dataset.sel(mu_viscous=mu)
        values = np.rad2deg(one[name]) if "angle" in name else one[name]
        panel.plot(
            one["t"], values, color=plots.COLOURS[number], linestyle=plots.DASHES[number], linewidth=1.3, label=law
        )
    panel.axhline(0.0, color=plots.GREY, linewidth=1.0)
    panel.set_xlabel("time (s)")
    panel.set_ylabel(f"{words} ({'deg' if 'angle' in name else 'N'})")
    panel.set_title(f"knee {1e3 * KNEE:g} mm, free ankle")
    panel.legend(fontsize=8)


def _widths(panel: Axes, least: xr.DataArray) -> None:
    """How much higher the knee must be with viscous friction."""
    for number, damping in enumerate(least["damping"].values):
        one = least.sel(damping=damping)
        ankle = "free ankle" if damping == 0 else f"ankle {damping:g} N m s/rad"
        panel.plot(
            one["viscous"],
            1e3 * (one - one.isel(viscous=0)),
            color=plots.COLOURS[number],
            linestyle=plots.DASHES[number],
            marker=plots.MARKERS[number],
            markersize=4,
            label=ankle,
        )
    panel.set_xlabel("viscous friction of a sphere (N s/m)")
    panel.set_ylabel("width of the window (mm)")
    panel.set_title("heights at which the statement holds")
    panel.legend(fontsize=8)
