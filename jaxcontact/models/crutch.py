"""Swing-through gait with crutches: leg, torso, upper arm, forearm with crutch, in the plane (Crutch section 2).

Chain: foot P -> hip -> shoulder -> elbow -> crutch tip Q. Joint coordinates q3 (leg, clockwise from vertical) and q4,
q5, q6 (relative, clockwise) as in Fig. 1. Before impact the foot is at the origin and at rest; during it the foot is
free and joint torques are zero.
"""

import jax.numpy as jnp

from jaxcontact.bodies.linkage import Link, point
from jaxcontact.integrate.machine import CANNOT_TOUCH, RUNNING
from jaxcontact.models.impact_model import contact_parameters, impact_model
from jaxcontact.models.model import Parameter, Params, Quantity
from jaxcontact.models.strike import Strike
from jaxcontact.safemath import arccos

# Crutch Table 1: mass (kg), inertia (kg m^2), length (m), centre of mass (m) from hip, hip, shoulder, elbow.
SEGMENTS = {
    "leg": (22.54, 2.07, 0.93, 0.42),
    "torso": (40.46, 2.66, 0.51, 0.34),
    "upper_arm": (3.92, 0.044, 0.33, 0.14),
    "forearm": (4.28, 0.433, 1.25, 0.33),
}
_ANGLES = (
    Parameter("q3", "deg", 12.0, -60.0, 60.0, "leg, clockwise from vertical", "Crutch section 5, reference case"),
    Parameter("q4", "deg", 10.0, -90.0, 90.0, "hip: torso against leg, clockwise", "Crutch section 5"),
    Parameter("q5", "deg", 150.0, 0.0, 360.0, "shoulder: upper arm against torso, clockwise", "Crutch section 5"),
)
_RATES = (
    Parameter("dq3", "rad/s", 1.0, -50.0, 50.0, "rate of q3 before impact", "Crutch section 5"),
    Parameter("dq4", "rad/s", 0.0, -50.0, 50.0, "rate of q4 before impact", "Crutch section 5"),
    Parameter("dq5", "rad/s", -0.2, -50.0, 50.0, "rate of q5 before impact", "Crutch section 5, reference case"),
    Parameter("dq6", "rad/s", 0.0, -50.0, 50.0, "rate of q6 before impact", "Crutch section 5"),
)
_BODY = tuple(
    Parameter(f"{segment}.{what}", unit, value, low, high, f"{segment.replace('_', ' ')}: {meaning}", "Crutch Table 1")
    for segment, numbers in SEGMENTS.items()
    for (what, unit, low, high, meaning), value in zip(
        (
            ("mass", "kg", 1e-3, 1e4, "mass"),
            ("inertia", "kg m^2", 1e-6, 1e4, "moment of inertia about its centre of mass"),
            ("length", "m", 1e-2, 10.0, "length"),
            ("centre", "m", -10.0, 10.0, "centre of mass from the hip (leg, torso), shoulder, elbow"),
        ),
        numbers,
        strict=True,
    )
)


def assemble(params: Params) -> Strike:
    """Place the tip on the ground (closed form for q6) and set the velocities before impact."""
    mass, inertia, length, centre = (
        [params[f"{segment}.{what}"] for segment in SEGMENTS] for what in ("mass", "inertia", "length", "centre")
    )
    # The leg's centre is measured from the hip (Table 1), but its joint in the chain is the foot.
    along = [length[0] - centre[0], *centre[1:]]
    links = [Link(-1, mass[0], inertia[0], along[0])]
    links += [Link(k - 1, mass[k], inertia[k], along[k], joint_along=length[k - 1]) for k in range(1, 4)]

    leg = params["q3"]
    torso = leg + params["q4"]
    arm = torso + params["q5"]
    elbow_height = length[0] * jnp.cos(leg) + length[1] * jnp.cos(torso) + length[2] * jnp.cos(arm)
    drop = -elbow_height / length[3]
    reaches = (drop > -1) & (drop < 0)  # the elbow is above the ground, and not too far
    # Two forearm angles reach the ground; the one between 0 and 180 degrees has the tip in front of the elbow.
    forearm = arccos(drop)
    rates = [params["dq3"]]
    for name in ("dq4", "dq5", "dq6"):
        rates.append(rates[-1] + params[name])

    return Strike(
        links=links,
        tip=point(links, 3, length[3]),
        tip_radius=None,
        tip_link=3,
        base=(0.0, 0.0),
        base_velocity=(0.0, 0.0),
        angles=[leg, torso, arm, forearm],
        rates=rates,
        watched={"foot": point(links, 0, 0.0), "shoulder": point(links, 2, 0.0)},
        contact=params,
        gravity=params["gravity"],
        push=0.0,
        status=jnp.where(reaches, RUNNING, CANNOT_TOUCH),
    )


def _joint_rates(seen):
    """Rates of the six coordinates of Fig. 1: foot x and y, leg, then the joints (Crutch Figs 18, 19)."""
    rates = {"dq1": seen["v_t_foot"], "dq2": seen["v_n_foot"], "dq3": seen["rate_1"]}
    return rates | {f"dq{k + 2}": seen[f"rate_{k}"] - seen[f"rate_{k - 1}"] for k in (2, 3, 4)}


CRUTCH = impact_model(
    name="crutch",
    summary="four links of a subject with crutches; the crutch tip strikes the ground, the foot is free",
    source="Font-Llagunes, Barjau, Pamies-Vila, Kovecses, Multibody Syst Dyn 28:257-282 (2012)",
    parameters=_ANGLES
    + _RATES
    + contact_parameters(0.75, "Crutch section 5, reference case", "Crutch section 5, eqs 36-37")
    + _BODY,
    watched={"foot": "foot", "shoulder": "shoulder"},
    assemble=assemble,
    extra_curves=tuple(
        Quantity(f"dq{i}", "m/s" if i < 3 else "rad/s", f"rate of coordinate q{i} (Crutch Fig. 1)") for i in range(1, 7)
    ),
    own_curves=_joint_rates,
)
