"""A stance leg that rolls over its foot: on a rolling surface, or on spheres (Rolling, Fig. 2).

Sagittal plane, x forward, y up; angles clockwise from vertical, so that the leg leans forward and the foot has its heel
up at positive angles. The leg with all the rest of the body is one rigid inverted pendulum on the ankle; nothing holds
it upright but its speed and the ankle. The ankle's angle is leg minus foot, positive in dorsiflexion. It is driven by
the same input whatever the contact: a spring and damper whose rest angle follows a smooth curve over stance. A run
starts with the foot already rolling on its heel, without impact, and ends where the leg has passed `leg.end`.

Method "rolling": foot and toes are one body that rolls without slip (`contact.rolling`). Coordinates are the angles of
foot and leg alone; the ground's force follows from Newton. It may pull, and friction may need more than `mu`: outcomes
`P_pull` and `P_slip` say by how much, and are 0 for a run that a real floor could give.

Method "spheres": foot and toes are two bodies with a spring and damper between them, on the elements of a layout; three
coordinates more. It starts pressed in by `start_load`, its lowest element without velocity (`standing`). The printed
stiffness of 1e9 N/m^1.5 means depths of 0.07 mm: in float32 that needs rtol = atol = 1e-4, with t_end right to 1e-3.

x = 0 in both is where the rolling surface has its footprint centre.
"""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from jaxcontact.bodies import linkage
from jaxcontact.bodies.linkage import Link
from jaxcontact.contact import normal, rolling
from jaxcontact.integrate.machine import BAD_VALUE, FINISHED, RUNNING, STATUS_NAMES, Machine
from jaxcontact.integrate.settings import Settings
from jaxcontact.integrate.steps import with_step_lengths
from jaxcontact.models import roller, sagittal, sole
from jaxcontact.models.foot import soles
from jaxcontact.models.layout import Layout
from jaxcontact.models.layouts import THREE_SPHERES, TOE_CENTRE, TOE_JOINT
from jaxcontact.models.model import Model, Parameter, Params, Quantity, within_bounds
from jaxcontact.models.shape import SHAPE_PARAMETERS
from jaxcontact.models.standing import standing
from jaxcontact.safemath import sine_and_cosine

SOURCE = "Caspers, Siebler, Hefter, Lugris, Kecskemethy, Using kinematic rolling surfaces (2016)"
FOOT, TOES, BODY = range(3)  # links of the method "spheres"; "rolling" has no toes of their own
_TABLE = "Rolling Table 2"
_WINTER = "Winter's shares of 65 kg and of the lengths in Rolling Table 2"
_ANKLE = "ours: shaped like a normal ankle's angle over stance"
_SURFACE = "ours: touches where heel and ball of the three spheres do, at a tilt of 20 deg"
_FLAT = "ours: through the soles of heel and ball, with the body standing on both"

DRIVE_PARAMETERS = (
    Parameter("leg", "deg", -17.0, -60.0, 60.0, "leg at the start, clockwise from vertical", "ours"),
    Parameter("foot", "deg", -15.0, -60.0, 60.0, "foot at the start, clockwise: heel up", "ours"),
    Parameter("leg.rate", "rad/s", 1.55, -20.0, 20.0, "rate of the leg at the start", "ours"),
    Parameter("foot.rate", "rad/s", 2.0, -50.0, 50.0, "rate of the foot at the start", "ours"),
    Parameter("leg.end", "deg", 24.0, -80.0, 80.0, "the run ends where the leg leans so far", "ours"),
    Parameter("start_load", "1", 1.0, 0.0, 5.0, "load at the start, of body weight (spheres)", "ours"),
    Parameter("ankle.strike", "deg", -2.0, -60.0, 60.0, "ankle's rest angle at the start", _ANKLE),
    Parameter("ankle.flat", "deg", -7.0, -60.0, 60.0, "ankle's rest angle at foot flat", _ANKLE),
    Parameter("ankle.peak", "deg", 4.0, -60.0, 60.0, "ankle's rest angle in dorsiflexion", _ANKLE),
    Parameter("ankle.push", "deg", -12.0, -60.0, 60.0, "ankle's rest angle in push-off", _ANKLE),
    Parameter("ankle.t_flat", "s", 0.12, 1e-3, 10.0, "how long the first change takes", _ANKLE),
    Parameter("ankle.t_peak", "s", 0.25, 1e-3, 10.0, "how long the second change takes", _ANKLE),
    Parameter("ankle.t_push", "s", 0.20, 1e-3, 10.0, "how long the third change takes", _ANKLE),
    Parameter("ankle.stiffness", "N m/rad", 500.0, 0.0, 1e5, "spring of the ankle", "ours"),
    Parameter("ankle.damping", "N m s/rad", 5.0, 0.0, 1e4, "damper of the ankle", "ours"),
)
BODY_PARAMETERS = (
    Parameter("body.mass", "kg", 64.06, 1e-3, 500.0, "mass of all but the stance foot", f"{_TABLE}: 65 kg in all"),
    Parameter("body.centre", "m", 0.985, 0.01, 5.0, "centre of the body, from the ankle", _WINTER),
    Parameter("body.inertia", "kg m^2", 11.2, 1e-6, 500.0, "inertia of the body about its centre", _WINTER),
    Parameter("foot.mass", "kg", 0.746, 1e-3, 100.0, "mass of the main foot", f"{_WINTER}, split as in Foot Table 1"),
    Parameter("foot.inertia", "kg m^2", 0.0029, 1e-6, 100.0, "about its centre", "ours: as the foot model, by mass"),
    Parameter("toes.mass", "kg", 0.196, 1e-3, 100.0, "mass of the toes", f"{_WINTER}, split as in Foot Table 1"),
    Parameter("toes.inertia", "kg m^2", 0.00012, 1e-6, 100.0, "about its centre", "ours: as the foot model, by mass"),
    Parameter("ankle.x", "m", -0.065, -0.5, 0.5, "ankle, forward of the main foot's centre", "ours: as the foot model"),
    Parameter("ankle.z", "m", -0.0095, -0.5, 0.5, "ankle, above the main foot's centre", f"{_TABLE}: 43 mm over sole"),
    Parameter("toe_joint.x", "m", TOE_JOINT[0], -0.5, 0.5, "joint of the toes, forward of the foot's centre", "ours"),
    Parameter("toe_joint.z", "m", TOE_JOINT[1], -0.5, 0.5, "joint of the toes, above the foot's centre", "ours"),
    Parameter("toes.x", "m", TOE_CENTRE[0], -0.5, 0.5, "centre of the toes, forward of their joint", "ours"),
    Parameter("toes.z", "m", TOE_CENTRE[1], -0.5, 0.5, "centre of the toes, above their joint", "ours"),
    Parameter("toe_joint.stiffness", "N m/rad", 12.0, 0.0, 1e5, "spring of the toes", "Foot, there in N/m"),
    Parameter("toe_joint.damping", "N m s/rad", 0.5, 0.0, 1e4, "damper of the toes", "Foot, there in N s/m"),
    Parameter("gravity", "m/s^2", 9.81, 0.0, 100.0, "gravity, pointing down", "standard"),
)
SURFACE_PARAMETERS = (
    *(
        Parameter(f"{side}.{name}", unit, default, low, high, f"{side} side of the rolling surface: {meaning}", source)
        for side, circle in (("front", 0.029), ("rear", 0.025))
        for name, unit, default, low, high, meaning, source in (
            ("A", "m", 0.0705, 0.0, 1.0, "amplitude A of its term", _SURFACE),
            ("C", "1/rad", 6.0, 0.0, 100.0, "rate C of its term", "ours: as fast as the contour stays convex"),
            ("circle", "m", circle, 0.0, 5.0, "circle added to it", f"{_TABLE}: radius of the sphere there"),
        )
    ),
    Parameter("surface.x", "m", -0.0165, -0.5, 0.5, "footprint centre, forward of the main foot's centre", _SURFACE),
    Parameter("surface.z", "m", -0.0495, -0.5, 0.5, "footprint centre, above the main foot's centre", _FLAT),
    Parameter("surface.tilt", "deg", 0.0, -60.0, 60.0, "angle of the foot when it stands flat on its surface", _FLAT),
)
OUTCOMES = (
    Quantity("t_end", "s", "time at which the leg leans as far as leg.end"),
    Quantity("foot_end", "rad", "foot there, clockwise: heel up"),
    Quantity("ankle_end", "rad", "ankle there, positive in dorsiflexion"),
    Quantity("leg_rate_end", "rad/s", "rate of the leg there"),
    Quantity("cop_end", "m", "centre of pressure there; 0 where nothing presses"),
    Quantity("W_n", "J", "work of the normal forces: 0 in rolling"),
    Quantity("W_t", "J", "work of friction: 0 in rolling"),
    Quantity("W_joint", "J", "work of the joints"),
    Quantity("energy_error", "J", "energy at the end, less that at the start and all work done: 0 but for rounding"),
    Quantity("P_pull", "N s", "impulse by which the floor would have to pull: 0 but in rolling"),
    Quantity("P_slip", "N s", "impulse of friction beyond mu times the normal force: 0 but in rolling"),
    Quantity("mean_step", "s", "t_end over n_steps"),
    Quantity("status", "1", "how the run ended", STATUS_NAMES),
    Quantity("n_steps", "1", "integration steps, landings on events included"),
)
CURVES = (
    Quantity("t", "s", "time"),
    Quantity("foot_angle", "rad", "foot, clockwise: heel up"),
    Quantity("leg_angle", "rad", "leg, clockwise: leaning forward"),
    Quantity("ankle_angle", "rad", "ankle, positive in dorsiflexion"),
    Quantity("toe_angle", "rad", "toes, clockwise: as the foot in rolling"),
    Quantity("ankle_torque", "N m", "torque of the ankle on the leg: negative where it holds the leg back"),
    Quantity("F_n", "N", "normal force on the foot"),
    Quantity("F_t", "N", "friction on the foot, positive forward"),
    Quantity("cop_x", "m", "centre of pressure, forward of the rolling surface's footprint centre; 0 without load"),
    Quantity("step", "s", "length of the integration step that passed there"),
)


# ---------------------------------------------------------------- the input, the same for both methods


def rest_angle(params: Params, t):
    """Angle (rad) at which the ankle's spring is at rest, and its rate: quintic steps from one value to the next."""
    angle, rate, begins = params["ankle.strike"], 0.0, 0.0
    for before, after in (("strike", "flat"), ("flat", "peak"), ("peak", "push")):
        lasts, change = params[f"ankle.t_{after}"], params[f"ankle.{after}"] - params[f"ankle.{before}"]
        u = jnp.clip((t - begins) / lasts, 0.0, 1.0)
        angle = angle + change * u**3 * (10.0 + u * (6.0 * u - 15.0))
        rate = rate + change * 30.0 * (u * (1.0 - u)) ** 2 / lasts
        begins = begins + lasts
    return angle, rate


def ankle_torque(params: Params, t, angle, rate):
    """Torque of the ankle on the leg, clockwise (N m), at its angle (rad) and rate (rad/s)."""
    rest, rest_rate = rest_angle(params, t)
    return params["ankle.stiffness"] * (rest - angle) + params["ankle.damping"] * (rest_rate - rate)


# ---------------------------------------------------------------- method "rolling"


def roller_of(params: Params, status) -> roller.Roller:
    """Foot and toes as one body, with the rolling surface in its frame."""
    p = params
    toes = p["toe_joint.x"] + p["toes.x"], p["toe_joint.z"] + p["toes.z"]
    mass = p["foot.mass"] + p["toes.mass"]
    centre = tuple(p["toes.mass"] * place / mass for place in toes)
    # Huygens: both masses about their common centre.
    inertia = p["foot.inertia"] + p["toes.inertia"]
    inertia = inertia + p["foot.mass"] * p["toes.mass"] / mass * (toes[0] ** 2 + toes[1] ** 2)
    sides = {
        side: rolling.Side((rolling.Term(p[f"{side}.A"], p[f"{side}.C"]),), p[f"{side}.circle"])
        for side in ("front", "rear")
    }
    forward, up = p["ankle.x"] - p["surface.x"], p["ankle.z"] - p["surface.z"]
    sine, cosine = sine_and_cosine(jnp.asarray(p["surface.tilt"]))
    return roller.Roller(
        foot=Link(-1, mass, inertia, centre[1] - p["ankle.z"], centre[0] - p["ankle.x"]),
        body=Link(-1, p["body.mass"], p["body.inertia"], p["body.centre"]),
        surface=rolling.Surface(**sides),
        flat=p["surface.tilt"],
        ankle=(forward * cosine + up * sine, up * cosine - forward * sine),
        torque=lambda t, angle, rate: ankle_torque(params, t, angle, rate),
        angles=(p["foot"], p["leg"]),
        rates=(p["foot.rate"], p["leg.rate"]),
        end=p["leg.end"],
        mu=p["mu"],
        gravity=p["gravity"],
        status=status,
    )


def _rolling_outcomes(r: roller.Roller, t, y, rolled: roller.Rolled):
    nothing = jnp.zeros_like(t)
    sums = roller.sums(y)
    return {
        "t_end": t,
        "foot_end": y[0],
        "ankle_end": y[1] - y[0],
        "leg_rate_end": y[3],
        "cop_end": rolled.cop,
        "W_n": nothing,
        "W_t": nothing,
        **sums,
        "energy_error": roller.energy_gained(r, y) - sums["W_joint"],
    }


def _rolling_curves(_r: roller.Roller, t, y, rolled: roller.Rolled):
    return {
        "t": t,
        "foot_angle": y[0],
        "leg_angle": y[1],
        "ankle_angle": y[1] - y[0],
        "toe_angle": y[0],
        "ankle_torque": rolled.torque,
        "F_n": rolled.force[1],
        "F_t": rolled.force[0],
        "cop_x": rolled.cop,
    }


# ---------------------------------------------------------------- method "spheres"


def stance_links(params: Params) -> list[Link]:
    """Main foot and body from the ankle, toes from their joint."""
    p = params
    joint = p["toe_joint.x"] - p["ankle.x"], p["toe_joint.z"] - p["ankle.z"]
    toes = Link(FOOT, p["toes.mass"], p["toes.inertia"], p["toes.z"], p["toes.x"], joint[1], joint[0])
    return [
        Link(-1, p["foot.mass"], p["foot.inertia"], -p["ankle.z"], -p["ankle.x"]),
        toes,
        Link(-1, p["body.mass"], p["body.inertia"], p["body.centre"]),
    ]


def _joint_torques(params: Params):
    """Torques of ankle and toes on the angles of foot, toes and leg (N m)."""

    def torques(t, angles, rates):
        at_ankle = ankle_torque(params, t, angles[BODY] - angles[FOOT], rates[BODY] - rates[FOOT])
        bend, bend_rate = angles[TOES] - angles[FOOT], rates[TOES] - rates[FOOT]
        at_toes = -params["toe_joint.stiffness"] * bend - params["toe_joint.damping"] * bend_rate
        return [-at_ankle - at_toes, at_toes, at_ankle]

    return torques


def mechanism_on(layout: Layout, choices: Mapping[str, str], params: Params, status) -> sagittal.Mechanism:
    """Foot, toes and body on the elements of a layout."""
    rule = choices["restitution"]
    chi = normal.restitution_to_damping(params["restitution"], params["approach_speed"], params["k"], rule)
    links = stance_links(params)
    r = roller_of(params, status)
    free = sagittal.Mechanism(
        links=links,
        soles=soles(layout, params, (FOOT, TOES)),
        base=None,
        start=rolling.roll(r.surface, params["foot"] - r.flat, r.ankle).position,  # of which only x stays
        start_velocity=(0.0, 0.0),
        angles=[params["foot"], params["foot"], params["leg"]],
        rates=[params["foot.rate"], params["foot.rate"], params["leg.rate"]],
        torques=_joint_torques(params),
        ending=lambda seen: params["leg.end"] - seen.angles[BODY],
        laws={**params, "chi": chi},
        choices=choices,
        gravity=params["gravity"],
        status=status,
    )
    return standing(free, params["start_load"] * linkage.total_mass(links) * params["gravity"])


def _spheres_outcomes(mechanism: sagittal.Mechanism, t, y, seen: sagittal.Seen):
    works = sagittal.works(y)
    return {
        "t_end": t,
        "foot_end": seen.angles[FOOT],
        "ankle_end": seen.angles[BODY] - seen.angles[FOOT],
        "leg_rate_end": seen.rates[BODY],
        "cop_end": sole.reaction(seen.contacts).cop[0],
        **works,
        "energy_error": sagittal.energy_gained(mechanism, seen) - sum(works.values()),
        "P_pull": jnp.zeros_like(t),
        "P_slip": jnp.zeros_like(t),
    }


def _spheres_curves(mechanism: sagittal.Mechanism, t, _y, seen: sagittal.Seen):
    ground = sole.reaction(seen.contacts)
    return {
        "t": t,
        "foot_angle": seen.angles[FOOT],
        "leg_angle": seen.angles[BODY],
        "ankle_angle": seen.angles[BODY] - seen.angles[FOOT],
        "toe_angle": seen.angles[TOES],
        "ankle_torque": mechanism.torques(t, seen.angles, seen.rates)[BODY],
        "F_n": ground.F_n,
        "F_t": ground.force[0],
        "cop_x": ground.cop[0],
    }


# ---------------------------------------------------------------- the model


def rollover_model(layout: Layout = THREE_SPHERES) -> Model:
    """The stance leg, with the elements of a layout under it in the method "spheres"."""
    own = layout is THREE_SPHERES
    laws = [p for p in sole.law_parameters(6.5e5, 0.0, 0.5, f"{_TABLE}: heel") if p.name != "chi"]
    parameters = (
        *DRIVE_PARAMETERS,
        *SURFACE_PARAMETERS,
        *laws,
        Parameter(
            "restitution", "1", 0.4, 0.01, 1.0, "restitution of an element whose damping is 1", f"{_TABLE}: heel"
        ),
        Parameter("approach_speed", "m/s", 0.3, 1e-3, 10.0, "speed of approach for which it holds", "ours"),
        *SHAPE_PARAMETERS,
        *BODY_PARAMETERS,
        *layout.parameters(),
    )

    def status(params):
        return jnp.where(within_bounds(parameters, params), RUNNING, BAD_VALUE)

    def parts(method: str, choices: Mapping[str, str]):
        """What a method is made of: the code that runs it, how a run starts, its outcomes and its curves."""
        if method == "spheres":
            return sagittal, lambda p: mechanism_on(layout, choices, p, status(p)), _spheres_outcomes, _spheres_curves
        return roller, lambda p: roller_of(p, status(p)), _rolling_outcomes, _rolling_curves

    def machine(method: str, choices: Mapping[str, str], settings: Settings) -> Machine:
        kind, assemble, outcomes, _ = parts(method, choices)
        found = kind.machine(assemble, settings, outcomes)
        return found._replace(finish=lambda params, state: _with_mean_step(found.finish(params, state)))

    def recorder(method: str, choices: Mapping[str, str], settings: Settings, count: int) -> Machine:
        kind, assemble, outcomes, curves = parts(method, choices)
        found = kind.recorder(assemble, settings, outcomes, curves, count)

        def finish(params, recording, lengths):
            both = found.finish(params, recording)
            ok = recording.run.status == FINISHED
            return {
                "outcomes": _with_mean_step(both["outcomes"]),
                "curves": {**both["curves"], "step": jnp.where(ok, lengths, jnp.nan)},
            }

        return with_step_lengths(found, finish)

    return Model(
        name="rollover" if own else f"rollover:{layout.name}",
        summary=f"a stance leg rolls over its foot: on a rolling surface, or on {len(layout)} {layout.kind}s",
        source=SOURCE,
        parameters=parameters,
        outcomes=OUTCOMES,
        curve_outcomes=CURVES,
        machine=machine,
        recorder=recorder,
        methods=("rolling", "spheres"),
        choices={**sole.CHOICES, "restitution": ("hunt_crossley", "exact", "lankarani_nikravesh")},
    )


def _with_mean_step(outcomes: dict[str, Any]) -> dict[str, Any]:
    return {**outcomes, "mean_step": outcomes["t_end"] / jnp.maximum(outcomes["n_steps"], 1)}
