"""The compass-gait biped with round feet, at heel strike (Two approaches, Fig. 1a).

Two straight legs joined at a hip that carries a point mass; each foot is an arc of radius R whose lowest part lies
`leg.length` from the hip, so its centre lies `leg.length` - R from the hip. Before impact the rear foot rolls without
slipping; at heel strike the rear leg at q3 and the front leg at -q3 both touch, so the angle between them is q4 = 2
q3. During impact the rear foot is free.
"""

import jax.numpy as jnp

from jaxcontact.bodies.linkage import Link, point
from jaxcontact.integrate.machine import CANNOT_TOUCH, RUNNING
from jaxcontact.models.impact_model import contact_parameters, impact_model
from jaxcontact.models.model import Parameter, Params
from jaxcontact.models.strike import Strike

_SOURCE = "Two approaches section 3"


def assemble(params: Params) -> Strike:
    """Both feet on the ground, rear foot rolling forward at R times the rate of its leg."""
    leg_mass, leg_inertia = params["leg.mass"], params["leg.inertia"]
    length, radius, hip_mass = params["leg.length"], params["R"], params["hip.mass"]
    to_hip = length - radius  # from the centre of a foot's arc
    leg_centre = to_hip - params["leg.centre"]  # the rear leg's centre of mass, from the centre of its foot's arc

    # The hip's point mass rides on the rear leg: one rigid body, by Huygens' theorem.
    mass = leg_mass + hip_mass
    centre = (leg_mass * leg_centre + hip_mass * to_hip) / mass
    inertia = leg_inertia + leg_mass * (leg_centre - centre) ** 2 + hip_mass * (to_hip - centre) ** 2
    links = [
        Link(-1, mass, inertia, centre),
        Link(0, leg_mass, leg_inertia, params["leg.centre"], joint_along=to_hip),
    ]
    rear_rate = params["dq3"]
    return Strike(
        links=links,
        tip=point(links, 1, to_hip),
        tip_radius=radius,
        tip_link=1,
        base=(0.0, radius),
        base_velocity=(radius * rear_rate, 0.0),
        # The front leg points down from the hip: half a turn more than its lean of -q3.
        angles=[params["q3"], jnp.pi - params["q3"]],
        rates=[rear_rate, rear_rate - params["dq4"]],
        watched={"foot": point(links, 0, 0.0), "hip": point(links, 0, to_hip)},
        contact=params,
        gravity=params["gravity"],
        push=0.0,
        # An arc wider than the leg is long would have its centre above the hip.
        status=jnp.where(radius <= length * (1 + 1e-12), RUNNING, CANNOT_TOUCH),
    )


COMPASS = impact_model(
    name="compass",
    summary="compass-gait biped with round feet at heel strike; the rear foot rolls before impact, then is free",
    source="Font-Llagunes, Barjau, Pamies-Vila, Kovecses, Two approaches for the dynamic analysis of impact (2012)",
    parameters=(
        Parameter("R", "m", 0.3, 0.0, 10.0, "radius of the feet", "ours: inside the range 0.05 to 1 m of Fig. 2a"),
        Parameter("q3", "deg", 20.0, 0.1, 80.0, "rear leg, clockwise from vertical; the legs span 2 q3", _SOURCE),
        Parameter("dq3", "rad/s", 1.0, -50.0, 50.0, "rate of the rear leg before impact", _SOURCE),
        Parameter("dq4", "rad/s", 0.0, -50.0, 50.0, "rate of the angle between the legs before impact", _SOURCE),
        *contact_parameters(
            1.0,
            "ours: not printed; large enough that the foot sticks, as the paper's impulsive solution assumes",
            "ours: not printed; the crutch tip's (Crutch section 5)",
        ),
        Parameter("leg.mass", "kg", 5.0, 1e-3, 1e4, "mass of each leg", _SOURCE),
        Parameter("leg.inertia", "kg m^2", 0.0, 0.0, 1e4, "inertia about the leg's centre of mass", "Goswami: 0"),
        Parameter("leg.length", "m", 1.0, 1e-2, 10.0, "from the hip to the lowest part of the foot", _SOURCE),
        Parameter("leg.centre", "m", 0.5, -10.0, 10.0, "centre of mass from the hip", "Goswami: half; not printed"),
        Parameter("hip.mass", "kg", 10.0, 1e-3, 1e4, "point mass at the hip", _SOURCE),
    ),
    watched={"foot": "trailing foot (centre of its arc)", "hip": "hip"},
    assemble=assemble,
)
