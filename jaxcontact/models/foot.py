"""The foot of Moreira and others: shank, main foot and toes on spheres, falling in the sagittal plane (Foot, Fig. 7).

The knee is held at a height; the leg is let go and swings down, and the sole drags over the ground. The run ends where
the ankle stops: it turns back, or the leg jams between knee and ground, where dry friction would hold it for good and
smoothed friction lets it creep on for seconds. Frame: x forward, y up; angles of the links clockwise from vertical, 0
in a standing leg.

What the paper does not print, and is decided here: which way the horizontal leg of Fig. 7a points and how high the knee
is held (parameters `shank` and `knee`), where the joints lie, and inertias: those of Table 1 (8.23 kg m^2 for a shank
of 4.76 kg) cannot be in kg m^2. Choice `inertia = "printed"` takes them as they stand.
"""

from collections.abc import Mapping

import jax.numpy as jnp

from jaxcontact.bodies.linkage import Link, point
from jaxcontact.integrate.machine import BAD_VALUE, RUNNING, STATUS_NAMES, Machine
from jaxcontact.integrate.settings import Settings
from jaxcontact.models import sagittal, sole
from jaxcontact.models.layout import Layout
from jaxcontact.models.layouts import NINE_SPHERES, TOE_CENTRE, TOE_JOINT
from jaxcontact.models.model import Model, Parameter, Params, Quantity, within_bounds
from jaxcontact.models.shape import SHAPE_PARAMETERS, shaped

SOURCE = "Moreira, Machado, Tavares da Silva, Flores, A biomechanical multibody foot model (2011)"
_APPLICATION = "Foot section 'Foot model application'"
PRINTED_INERTIAS = {"shank": 8.230, "foot": 2.250, "toes": 0.471}  # Foot Table 1, there called kg m^2

BODY_PARAMETERS = (
    Parameter("shank.mass", "kg", 4.76, 1e-3, 100.0, "mass of the shank", "Foot Table 1"),
    Parameter("foot.mass", "kg", 1.33, 1e-3, 100.0, "mass of the main foot", "Foot Table 1"),
    Parameter("toes.mass", "kg", 0.35, 1e-3, 100.0, "mass of the toes", "Foot Table 1"),
    Parameter(
        "shank.inertia", "kg m^2", 0.0760, 1e-6, 100.0, "about its centre", "ours: (0.302 of its length)^2, Winter"
    ),
    Parameter(
        "foot.inertia", "kg m^2", 0.0052, 1e-6, 100.0, "about its centre", "ours: a rod of 0.2 m and 0.05 m high"
    ),
    Parameter(
        "toes.inertia", "kg m^2", 0.00022, 1e-6, 100.0, "about its centre", "ours: a rod of 0.08 m, 0.025 m high"
    ),
    Parameter("shank.length", "m", 0.418, 0.05, 2.0, "from knee to ankle", "Winter: 0.246 of a height of 1.70 m"),
    Parameter("shank.centre", "m", 0.181, 0.0, 2.0, "centre of mass below the knee", "Winter: 0.433 of the length"),
    Parameter(
        "ankle.x", "m", -0.065, -0.5, 0.5, "ankle, forward of the main foot's centre", "ours: a quarter of the foot"
    ),
    Parameter(
        "ankle.z", "m", 0.012, -0.5, 0.5, "ankle, above the main foot's centre", "Winter: 0.039 of height over the sole"
    ),
    Parameter(
        "toe_joint.x", "m", TOE_JOINT[0], -0.5, 0.5, "joint of the toes, forward of the main foot's centre", "ours"
    ),
    Parameter("toe_joint.z", "m", TOE_JOINT[1], -0.5, 0.5, "joint of the toes, above the main foot's centre", "ours"),
    Parameter("toes.x", "m", TOE_CENTRE[0], -0.5, 0.5, "centre of the toes, forward of their joint", "ours"),
    Parameter("toes.z", "m", TOE_CENTRE[1], -0.5, 0.5, "centre of the toes, above their joint", "ours"),
    Parameter("toe_joint.stiffness", "N m/rad", 12.0, 0.0, 1e5, "spring of the toes", f"{_APPLICATION}, there in N/m"),
    Parameter("toe_joint.damping", "N m s/rad", 0.5, 0.0, 1e4, "damper of the toes", f"{_APPLICATION}, there in N s/m"),
    Parameter(
        "ankle.stiffness", "N m/rad", 0.0, 0.0, 1e5, "spring of the ankle, at rest at a right angle", "Foot: none"
    ),
    Parameter("ankle.damping", "N m s/rad", 0.0, 0.0, 1e4, "damper of the ankle", "Foot: none"),
    Parameter("gravity", "m/s^2", 9.81, 0.0, 100.0, "gravity, pointing down", "standard"),
)
START_PARAMETERS = (
    Parameter("knee", "m", 0.452, 0.1, 2.0, "height at which the knee is held", "ours: not printed"),
    Parameter(
        "shank", "deg", -90.0, -170.0, 170.0, "shank at the start, clockwise from standing", "Foot Fig. 7a: horizontal"
    ),
    Parameter("foot", "deg", -90.0, -170.0, 170.0, "main foot and toes at the start, clockwise from standing", "ours"),
    Parameter(
        "v_rest",
        "m/s",
        0.02,
        0.0,
        1.0,
        "speed of the ankle, along its swing, below which it has stopped; 0: where it turns back",
        "ours: that of v_slip, below which friction only creeps",
    ),
)
OUTCOMES = (
    Quantity("turning_angle", "rad", "line from knee to ankle where the ankle stops, past the vertical"),
    Quantity("t_end", "s", "time at which the ankle stops"),
    Quantity("foot_angle", "rad", "main foot there, clockwise: heel up"),
    Quantity("W_n", "J", "work of the normal forces"),
    Quantity("W_t", "J", "work of friction"),
    Quantity("W_joint", "J", "work of springs and dampers of the joints"),
    Quantity("energy_error", "J", "energy at the end, less that at the start and all work done: 0 but for rounding"),
    Quantity("status", "1", "how the run ended", STATUS_NAMES),
    Quantity("n_steps", "1", "integration steps, landings on events included"),
)
CURVES = (
    Quantity("t", "s", "time"),
    Quantity("shank_angle", "rad", "shank, clockwise from standing"),
    Quantity("foot_angle", "rad", "main foot, clockwise: heel up"),
    Quantity("toe_angle", "rad", "toes, clockwise: heel up"),
    Quantity("F_n", "N", "normal force on the sole"),
    Quantity("F_t", "N", "friction on the sole, positive forward"),
    Quantity("cop_x", "m", "centre of pressure, forward of the knee; 0 where nothing presses"),
    Quantity("down", "1", "how many elements are in the ground"),
)


def segment_links(params: Params, choices: Mapping[str, str]) -> list[Link]:
    """Shank from the knee down, main foot from the ankle, toes from their joint."""
    inertia = {
        name: value if choices["inertia"] == "printed" else params[f"{name}.inertia"]
        for name, value in PRINTED_INERTIAS.items()
    }
    ankle = params["ankle.x"], params["ankle.z"]
    joint = params["toe_joint.x"] - ankle[0], params["toe_joint.z"] - ankle[1]
    # Along a link is up and across it forward; so the shank hangs from the knee at negative heights.
    return [
        Link(-1, params["shank.mass"], inertia["shank"], -params["shank.centre"]),
        Link(0, params["foot.mass"], inertia["foot"], -ankle[1], -ankle[0], joint_along=-params["shank.length"]),
        Link(
            1,
            params["toes.mass"],
            inertia["toes"],
            params["toes.z"],
            params["toes.x"],
            joint_along=joint[1],
            joint_across=joint[0],
        ),
    ]


def soles(layout: Layout, params: Params, links: tuple[int, int]) -> list[sagittal.Sole]:
    """The layout's elements, shaped, under the links that are main foot and toes."""
    elements = layout.elements(params)
    found = []
    for segment, link in zip(("foot", "toes"), links, strict=True):
        chosen = layout.on(segment)
        if not chosen:
            continue
        forward = jnp.asarray(params["toe_joint.x"] + params["toes.x"] if segment == "toes" else 0.0)[None]
        found.append(sagittal.Sole(link, layout.kind, shaped(elements.take(chosen), forward, params)))
    return found


def joint_torques(params: Params):
    """Springs and dampers of ankle and toes, on the angles of shank, foot and toes (N m)."""

    def torques(_t, angles, rates):
        bend, bend_rate = angles[1] - angles[0], rates[1] - rates[0]
        at_ankle = -params["ankle.stiffness"] * bend - params["ankle.damping"] * bend_rate
        bend, bend_rate = angles[2] - angles[1], rates[2] - rates[1]
        at_toes = -params["toe_joint.stiffness"] * bend - params["toe_joint.damping"] * bend_rate
        return [-at_ankle, at_ankle - at_toes, at_toes]

    return torques


def foot_model(layout: Layout = NINE_SPHERES) -> Model:
    """The falling foot, with the elements of a layout under it."""
    own = layout is NINE_SPHERES
    parameters = (
        *START_PARAMETERS,
        *sole.law_parameters(40e3, 300.0, 1.0, f"{_APPLICATION}, there in kN/m, N s/m"),
        *SHAPE_PARAMETERS,
        *BODY_PARAMETERS,
        *layout.parameters(),
    )

    def assembler(choices: Mapping[str, str]):
        def assemble(params: Params) -> sagittal.Mechanism:
            links = segment_links(params, choices)
            ankle = point(links, 1, 0.0)
            side = jnp.where(jnp.asarray(params["shank"]) >= 0, 1.0, -1.0)  # a leg that starts behind swings forward
            return sagittal.Mechanism(
                links=links,
                soles=soles(layout, params, (1, 2)),
                base=(0.0, params["knee"]),
                start=(0.0, params["knee"]),
                start_velocity=(0.0, 0.0),
                angles=[params["shank"], params["foot"], params["foot"]],
                rates=[0.0, 0.0, 0.0],
                torques=joint_torques(params),
                ending=lambda seen: side * seen.velocity(ankle)[0] - params["v_rest"],
                laws=params,
                choices=choices,
                gravity=params["gravity"],
                status=jnp.where(within_bounds(parameters, params), RUNNING, BAD_VALUE),
            )

        return assemble

    def machine(_method: str, choices: Mapping[str, str], settings: Settings) -> Machine:
        return sagittal.machine(assembler(choices), settings, _outcomes)

    def recorder(_method: str, choices: Mapping[str, str], settings: Settings, count: int) -> Machine:
        return sagittal.recorder(assembler(choices), settings, _outcomes, _curves, count)

    return Model(
        name="foot" if own else f"foot:{layout.name}",
        summary=f"a leg swings down from its knee and drags its foot over the ground; {len(layout)} {layout.kind}s",
        source=SOURCE,
        parameters=parameters,
        outcomes=OUTCOMES,
        curve_outcomes=CURVES,
        machine=machine,
        recorder=recorder,
        methods=("compliant",),
        choices={**sole.CHOICES, "inertia": ("plausible", "printed")},
    )


def _outcomes(mechanism: sagittal.Mechanism, t, y, seen: sagittal.Seen):
    side = jnp.where(jnp.asarray(mechanism.angles[0]) >= 0, 1.0, -1.0)
    works = sagittal.works(y)
    return {
        "turning_angle": -side * seen.angles[0],
        "t_end": t,
        "foot_angle": seen.angles[1],
        **works,
        "energy_error": sagittal.energy_gained(mechanism, seen) - sum(works.values()),
    }


def _curves(mechanism: sagittal.Mechanism, t, y, seen: sagittal.Seen):
    ground = sole.reaction(seen.contacts)
    return {
        "t": t,
        "shank_angle": seen.angles[0],
        "foot_angle": seen.angles[1],
        "toe_angle": seen.angles[2],
        "F_n": ground.F_n,
        "F_t": ground.force[0],
        "cop_x": ground.cop[0],
        "down": jnp.sum(jnp.concatenate([each.touch.gap for each in seen.contacts]) < 0, axis=0).astype(t.dtype),
    }
