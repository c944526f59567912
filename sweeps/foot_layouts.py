"""Foot, Table 2: how much number, place and size of the spheres under a foot matter.

All layouts meet the same motion, the one under which the nine spheres of Table 2 carry a walking body. Derivatives are
exact: nothing is integrated, and every force is a formula in the places and radii.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from jaxcontact import plots
from jaxcontact.integrate.settings import Settings
from jaxcontact.models.layout import Layout, make_layout
from jaxcontact.models.layouts import NINE_SPHERES, TOE_CENTRE, TOE_JOINT, sole_height
from jaxcontact.models.model import Model, default_params
from jaxcontact.models.stance import FRAMES, stance_model
from jaxcontact.study.published import Published
from jaxcontact.study.sweep import Progress

FIELDS = {"x": "place along the foot", "z": "height", "radius": "radius"}
OUTCOMES = {
    "F_z_heel": "mean force, heel contact",
    "F_z_mid": "mean force, mid-stance",
    "F_z_rise": "mean force, heel rise",
    "F_z_off": "mean force, push-off",
    "F_z_peak": "largest force",
    "cop_travel": "way of the CoP",
}
NUMBERS = (3, 5, 9, 15, 25)  # spheres; Foot allows 25
RADII = (0.0, 0.01, 0.02, 0.03)  # m
ENDS = (-0.105, 0.115)  # m: first and last sphere along the sole, from the main foot's centre of mass
SPREAD = 1e-3  # m: standard deviation of every place and radius in the random layouts
SEED = 20110
ABSENT = 0.4  # m above its segment: where a sphere that a layout does not have is out of the way


def run(
    progress: Progress, numbers: Sequence[int] = NUMBERS, radii: Sequence[float] = RADII, samples: int = 2000
) -> Published:
    """Differentiate by every sphere, sample random layouts about Table 2, and vary number and radius along the sole."""
    progress(0, 3, 0)
    slopes, spread = _about_table_2(samples)
    progress(1, 3, 0)
    by_number = _along_the_sole(numbers, radii)
    dataset = xr.merge([slopes, spread, by_number], join="exact", combine_attrs="override")
    dataset.attrs = {
        "title": "foot, layouts of spheres",
        "seed": SEED,
        "spread": f"{1e3 * SPREAD:g} mm",
        "dtype": str(jnp.result_type(float)),
    }
    progress(2, 3, 0)
    figures = {"foot_layouts": _figure(dataset)}
    text = [_MADE, "", *_strongest(dataset), "", *_spreads(dataset), "", *_numbers_in_words(dataset)]
    progress(3, 3, 0)
    return Published(text="\n".join(text), dataset=dataset, figures=figures)


_MADE = "All layouts meet the motion under which the nine spheres of Table 2 carry a walking body of 70 kg."


# ---------------------------------------------------------------- numbers


def _evaluator(model: Model, count: int = 0):
    """A compiled function from parameters to outcomes, or to outcomes and curves of `count` points."""
    choices = {name: allowed[0] for name, allowed in model.choices.items()}
    machine = (
        model.recorder("prescribed", choices, Settings(), count)
        if count
        else model.machine("prescribed", choices, Settings())
    )
    return lambda params: machine.finish(params, machine.init(params))


def _about_table_2(samples: int) -> tuple[xr.Dataset, xr.Dataset]:
    """Derivatives of the outcomes by every place and radius, and what random layouts about Table 2 give."""
    model = stance_model(NINE_SPHERES)
    defaults = default_params(model)
    names = [f"{sphere}.{field}" for field in FIELDS for sphere in NINE_SPHERES.names()]
    evaluate = _evaluator(model)

    def outcomes(numbers):
        found = evaluate({**defaults, **dict(zip(names, numbers, strict=True))})
        return jnp.stack([found[name] for name in OUTCOMES])

    middle = np.array([defaults[name] for name in names])
    values, jacobian = jax.jit(lambda at: (outcomes(at), jax.jacfwd(outcomes)(at)))(middle)
    random = middle[:, None] + SPREAD * np.random.default_rng(SEED).standard_normal((len(names), samples))
    sampled = np.asarray(jax.jit(outcomes)(random))
    units = [unit_of(model, name) for name in OUTCOMES]
    coordinates = {
        "outcome": list(OUTCOMES),
        "unit": ("outcome", units),
        "field": list(FIELDS),
        "sphere": np.arange(1, len(NINE_SPHERES) + 1),
    }
    shape = (len(OUTCOMES), len(FIELDS), len(NINE_SPHERES))
    slopes = xr.Dataset(
        {
            "value": ("outcome", np.asarray(values), {"long_name": "outcome of Table 2"}),
            "slope": (
                ("outcome", "field", "sphere"),
                np.asarray(jacobian).reshape(shape),
                {"long_name": "derivative by place or radius", "units": "unit/m"},
            ),
        },
        coordinates,
    )
    linear = SPREAD * np.linalg.norm(np.asarray(jacobian), axis=1)
    spread = xr.Dataset(
        {
            "spread_linear": ("outcome", linear, {"long_name": "standard deviation by the derivatives"}),
            "spread_sampled": ("outcome", sampled.std(axis=1), {"long_name": f"that of {samples} random layouts"}),
        }
    )
    return slopes, spread


def unit_of(model: Model, outcome: str) -> str:
    """The unit of an outcome."""
    return next(quantity.unit for quantity in model.outcomes if quantity.name == outcome)


def _along_the_sole(numbers: Sequence[int], radii: Sequence[float]) -> xr.Dataset:
    """Force and centre of pressure of layouts of some spheres of one radius along the sole, against the nine.

    One program serves all: every layout has room for the most spheres, and those that it lacks are out of the way.
    Under a given motion the vertical force is proportional to the stiffness, so each layout can be given the impulse
    of the nine afterwards; what is then left is where and when it presses.
    """
    layouts = [sole_layout(number, radius) for number in numbers for radius in radii]
    room = {s: max(len(layout.on(s)) for layout in (NINE_SPHERES, *layouts)) for s in ("foot", "toes")}
    roomy = make_layout("roomy", "sphere", "ours", [r for s, n in room.items() for r in n * [_absent(s)]])
    model = stance_model(roomy, motion_of=NINE_SPHERES)
    lanes = [_in_room(layout, roomy) for layout in (NINE_SPHERES, *layouts)]
    varied = {name: np.array([lane[name] for lane in lanes]) for name in lanes[0]}
    curves = jax.jit(_evaluator(model, FRAMES))({**default_params(model), **varied})["curves"]
    F_z, cop = (np.asarray(curves[name]).T for name in ("F_z", "cop_x"))
    nine_F_z, nine_cop = F_z[0], cop[0]
    F_z, cop = (values[1:].reshape(len(numbers), len(radii), -1) for values in (F_z, cop))
    stiffer = nine_F_z.sum() / F_z.sum(axis=-1)
    F_z = F_z * stiffer[..., None]
    off = 100 * np.sqrt(np.mean((F_z - nine_F_z) ** 2, axis=-1)) / nine_F_z.max()
    cop_off = 1e3 * np.sqrt(np.nanmean((cop - nine_cop) ** 2, axis=-1))
    grid = ("number", "radius")
    return xr.Dataset(
        {
            "F_z_off": (grid, off, {"units": "%", "long_name": "force off that of Table 2, rms, of its largest"}),
            "cop_off": (grid, cop_off, {"units": "mm", "long_name": "centre of pressure off that of Table 2, rms"}),
            "stiffer": (grid, stiffer, {"units": "1", "long_name": "all stiffness together, relative to the nine's"}),
            "F_z": ((*grid, "fraction"), F_z, {"units": "N", "long_name": "vertical force"}),
            "F_z_table_2": ("fraction", nine_F_z, {"units": "N", "long_name": "that of Table 2"}),
        },
        {
            "number": ("number", list(numbers), {"units": "1", "long_name": "spheres"}),
            "radius": ("radius", list(radii), {"units": "m", "long_name": "radius of every sphere"}),
            "fraction": ("fraction", np.linspace(0, 1, FRAMES), {"units": "1", "long_name": "of stance"}),
        },
    )


def sole_layout(number: int, radius: float) -> Layout:
    """Spheres of one radius, evenly along the sole and touching its outline, together as stiff as the nine."""
    rows = []
    for x in np.linspace(*ENDS, number):
        toes = x > TOE_JOINT[0]
        centre = (TOE_JOINT[0] + TOE_CENTRE[0], TOE_JOINT[1] + TOE_CENTRE[1]) if toes else (0.0, 0.0)
        rows.append(
            {
                "segment": "toes" if toes else "foot",
                "x": x - centre[0],
                "z": sole_height(float(x)) + radius - centre[1],
                "radius": radius,
                "weight": len(NINE_SPHERES) / number,
            }
        )
    return make_layout(f"sole_{number}", "sphere", "ours: evenly along the sole", rows)


def _absent(segment: str) -> dict[str, Any]:
    return {"segment": segment, "x": 0.0, "z": ABSENT, "radius": 0.0}


def _in_room(layout: Layout, roomy: Layout) -> Mapping[str, float]:
    """A layout's numbers as those of a larger one."""
    numbers = {parameter.name: parameter.default for parameter in roomy.parameters()}
    for segment in ("foot", "toes"):
        for i, place in zip(layout.on(segment), roomy.on(segment), strict=False):
            for field, values in layout.values.items():
                numbers[f"{roomy.names()[place]}.{field}"] = values[i]
    return numbers


# ---------------------------------------------------------------- words


def percent_per_mm(dataset: xr.Dataset) -> xr.DataArray:
    """Derivatives as change of an outcome in % for a millimetre."""
    return 0.1 * dataset["slope"] / dataset["value"]


def _strongest(dataset: xr.Dataset, count: int = 3) -> list[str]:
    """For each outcome the numbers that change it most."""
    shares = percent_per_mm(dataset)
    lines = [f"The strongest {count} of 27 places and radii for each outcome, by exact derivatives, for 1 mm more:"]
    for outcome, words in OUTCOMES.items():
        one = shares.sel(outcome=outcome).stack(number=("field", "sphere"))
        order = np.argsort(-np.abs(one.values))[:count]
        top = [f"s{one['sphere'].values[i]}.{one['field'].values[i]} {one.values[i]:+.2f} %" for i in order]
        value, unit = float(dataset["value"].sel(outcome=outcome)), str(dataset["unit"].sel(outcome=outcome).values)
        lines.append(f"  {words:26}{value:9.4g} {unit:3}" + "".join(f"{text:>20}" for text in top))
    return lines


def _spreads(dataset: xr.Dataset) -> list[str]:
    """What random errors of all places and radii do."""
    lines = [f"If every place and radius is off by {1e3 * SPREAD:g} mm (standard deviation), outcomes are off by"]
    for outcome, words in OUTCOMES.items():
        one = dataset.sel(outcome=outcome)
        linear, sampled = (100 * float(one[name] / one["value"]) for name in ("spread_linear", "spread_sampled"))
        lines.append(f"  {words:26}{linear:6.2f} % by the derivatives {sampled:6.2f} % in random layouts")
    return lines


def _numbers_in_words(dataset: xr.Dataset) -> list[str]:
    """How far layouts along the sole are from Table 2."""
    lines = ["Spheres of one radius evenly along the same sole, as stiff as gives the same impulse; off Table 2 (rms):"]
    lines.append(f"  {'spheres':8}" + "".join(f"{f'radius {1e3 * r:g} mm':>26}" for r in dataset["radius"].values))
    for number in dataset["number"].values:
        one = dataset.sel(number=number)
        found = zip(*(one[name].values for name in ("F_z_off", "cop_off", "stiffer")), strict=True)
        cells = (f"{F:.1f} % {cop:.1f} mm (x {factor:.2f})" for F, cop, factor in found)
        lines.append(f"  {number:<8d}" + "".join(f"{cell:>26}" for cell in cells))
    F_z = dataset["F_z"].transpose("number", "radius", "fraction").values
    apart = np.sqrt(np.mean((F_z - F_z[-1]) ** 2, axis=-1)).max(axis=-1) / float(dataset["F_z_table_2"].max())
    numbers = [int(number) for number in dataset["number"].values]
    steps = (f"{number} by {100 * share:.1f} %" for number, share in zip(numbers[:-1], apart, strict=False))
    return [
        *lines,
        "(force in % of its largest, centre of pressure, stiffness of all together relative to the nine's)",
        f"Number alone, force off that of {numbers[-1]} spheres of the same radius, at most: {', '.join(steps)}",
    ]


# ---------------------------------------------------------------- the figure


def _figure(dataset: xr.Dataset):
    title = "Foot Table 2: number, place and size of the spheres; exact derivatives under a prescribed stance"
    figure, axes = plots.new_figure(2, 3, title, panel=(4.3, 2.9))
    shares = percent_per_mm(dataset)
    largest = float(np.abs(shares).max())
    meshes = [_map(panel, shares.sel(field=field), largest) for panel, field in zip(axes[0], FIELDS, strict=True)]
    for panel, letter, field in zip(axes[0], "abc", FIELDS, strict=True):
        panel.set_title(f"({letter}) by {FIELDS[field]}", loc="left", fontsize=9)
        panel.set_yticks(range(len(OUTCOMES)), list(OUTCOMES.values()) if panel is axes[0, 0] else [], fontsize=8)
    figure.colorbar(meshes[0], ax=axes[0].tolist(), label="change of the outcome (% per mm)")
    for panel, name in zip(axes[1], ("F_z_off", "cop_off"), strict=False):
        for i, radius in enumerate(dataset["radius"].values):
            marks = {"marker": plots.MARKERS[i], "dash": plots.DASHES[i], "label": f"radius {1e3 * radius:g} mm"}
            plots.line(panel, dataset["number"], dataset[name].sel(radius=radius), number=i, **marks)
        panel.set_xlabel("spheres along the sole (number)")
        panel.set_xticks(dataset["number"].values)
        panel.set_ylim(bottom=0)
        panel.legend(fontsize=8)
    axes[1, 0].set_ylabel("force off Table 2 (% of the largest)")
    axes[1, 1].set_ylabel("CoP off Table 2 (mm)")
    axes[1, 0].set_title("(d) vertical force, rms over stance", loc="left", fontsize=9)
    axes[1, 1].set_title("(e) centre of pressure, rms over stance", loc="left", fontsize=9)
    _forces(axes[1, 2], dataset)
    return figure


def _map(panel: Axes, shares: xr.DataArray, largest: float):
    """Outcomes down, spheres across; the numbers are written in."""
    spheres = shares["sphere"].values
    values = shares.transpose("outcome", "sphere").values
    edges = np.arange(len(spheres) + 1) + 0.5, np.arange(len(OUTCOMES) + 1) - 0.5
    mesh = panel.pcolormesh(*edges, values, cmap="RdBu_r", vmin=-largest, vmax=largest, rasterized=True)
    for (row, column), value in np.ndenumerate(values):
        colour = "white" if abs(value) > 0.6 * largest else "black"
        if abs(value) >= 0.05:
            panel.text(float(spheres[column]), row, f"{value:.1f}", ha="center", va="center", fontsize=6, color=colour)
    panel.invert_yaxis()
    panel.grid(False)
    panel.set_xticks(spheres)
    panel.set_xlabel("sphere (number)")
    return mesh


def _forces(panel: Axes, dataset: xr.Dataset) -> None:
    """The vertical force of some numbers of spheres, and that of Table 2."""
    percent = 100 * dataset["fraction"].values
    panel.plot(percent, dataset["F_z_table_2"], color="black", linewidth=2, label="Table 2")
    middle = dataset.isel(radius=dataset.sizes["radius"] // 2)
    for i, number in enumerate(dataset["number"].values[[0, dataset.sizes["number"] // 2, -1]]):
        style = {"color": plots.COLOURS[i if i < 2 else 3], "linestyle": plots.DASHES[i + 1]}
        panel.plot(percent, middle["F_z"].sel(number=number), label=f"{number} spheres", **style)
    panel.set_xlabel("stance (%)")
    panel.set_ylabel("vertical force (N)")
    panel.set_title(f"(f) spheres of {1e3 * float(middle['radius']):g} mm along the sole", loc="left", fontsize=9)
    panel.legend(fontsize=8)
