"""Forces on all elements of a sole, in space: geometry, then the chosen laws, then sums.

A law that jumps when an element touches down (a dashpot, viscous friction) needs to know which elements are down:
`down` is that, element by element; without it, an element is down where it is in the ground.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxcontact.contact import friction, normal
from jaxcontact.contact.geometry import (
    GROUND,
    Body,
    Plane,
    Touch,
    touch_ellipsoid,
    touch_point,
    touch_sphere,
    touch_superellipsoid,
)
from jaxcontact.models.layout import Elements
from jaxcontact.models.model import Parameter, Params
from jaxcontact.safemath import divide
from jaxcontact.vectors import Vector, cross, dot, scale, subtract

NORMAL_LAWS: dict[str, Callable] = {
    # Foot eqs 11-13: hysteresis damping grows with the force.
    "hunt_crossley": lambda p, e, depth, rate: normal.power_hunt_crossley(
        depth, rate, p["k"] * e.weight, p["m"], p["chi"] * e.weight * e.damping
    ),
    # Foot eq. 11 alone: a constant dashpot.
    "kelvin_voigt": lambda p, e, depth, rate: normal.power_kelvin_voigt(
        depth, rate, p["k"] * e.weight, p["m"], p["c"] * e.weight * e.damping
    ),
    # Lopes eq. 1.
    "shoe": lambda p, e, depth, rate: normal.shoe(
        depth, rate, e.weight, p["c1"], p["c2"], p["c3"] * e.damping, p["c4"], p["c5"]
    ),
}
FRICTION_LAWS: dict[str, Callable] = {
    # Foot eq. 14; "coulomb" is its first case, without the viscous part.
    "coulomb_viscous": lambda p, e, F_n, speed2, down: friction.coulomb_viscous_drag(
        F_n, speed2, p["mu"] * e.friction, p["mu_viscous"], p["v_slip"], down
    ),
    "coulomb": lambda p, e, F_n, speed2, down: friction.coulomb_viscous_drag(
        F_n, speed2, p["mu"] * e.friction, 0.0, p["v_slip"], down
    ),
    # Lopes eq. 2.
    "shoe": lambda p, e, F_n, speed2, down: friction.shoe_drag(F_n, speed2, e.weight, p["c6"], p["c7"] * e.friction),
}
_INSIDE = 1e-15  # m

CHOICES = {"normal": tuple(NORMAL_LAWS), "friction": tuple(FRICTION_LAWS)}


def law_parameters(stiffness: float, damping: float, mu: float, source: str) -> tuple[Parameter, ...]:
    """Parameters of the laws; each law uses its own."""
    foot, lopes = "Foot section 'Foot model application'", "ours: Lopes names it and prints no number"
    return (
        Parameter("k", "N/m^m", stiffness, 1.0, 1e14, "stiffness of an element of weight 1", source),
        Parameter("m", "1", 1.5, 1.0, 3.0, "exponent of the depth (hunt_crossley, kelvin_voigt)", foot),
        Parameter("chi", "N s/m^(m+1)", damping, 0.0, 1e14, "hysteresis damping (hunt_crossley)", source),
        Parameter("c", "N s/m", 300.0, 0.0, 1e9, "damping (kelvin_voigt)", f"{foot}, read as the c of eq. 11"),
        Parameter("mu", "1", mu, 0.0, 10.0, "friction coefficient", source),
        Parameter("mu_viscous", "N s/m", 3.0, 0.0, 1e6, "viscous friction of an element (coulomb_viscous)", foot),
        Parameter("v_slip", "m/s", 0.02, 1e-6, 10.0, "slip at which friction is 71 % of dry", "ours: smooths eq. 14"),
        Parameter("c1", "N/m^c2", 1.2e6, 0.0, 1e14, "shoe: stiffness of an element of weight 1", lopes),
        Parameter("c2", "1", 2.0, 1.0, 5.0, "shoe: exponent of the depth", lopes),
        Parameter("c3", "N s^c5/m^(c4+c5)", 1.2e6, 0.0, 1e14, "shoe: damping of an element of weight 1", lopes),
        Parameter("c4", "1", 2.0, 0.0, 5.0, "shoe: exponent of the depth in the damping", lopes),
        Parameter("c5", "1", 1.0, 0.5, 3.0, "shoe: exponent of the rate; 1 is Lopes eq. 1 as printed", lopes),
        Parameter("c6", "N s/m", 600.0, 0.0, 1e9, "shoe: viscous friction below the cone, weight 1", lopes),
        Parameter("c7", "1", 0.8, 0.0, 10.0, "shoe: friction coefficient", lopes),
    )


class Contacts(NamedTuple):
    """What the ground does to each element: arrays (element, ...)."""

    touch: Touch
    F_n: Any  # along the normal, N, never negative
    force: Vector  # with friction, in space, N


class Reaction(NamedTuple):
    """The sum over elements, as a force plate would see it."""

    force: Vector  # N
    F_n: Any  # N
    cop: Vector  # centre of pressure on the plane, m; 0 where `loaded` is not
    free_moment: Any  # about the normal, at the centre of pressure, N m; 0 where `loaded` is not
    loaded: Any  # whether the load carries a centre of pressure


def touch_elements(body: Body, kind: str, elements: Elements, plane: Plane = GROUND) -> Touch:
    """Geometry of all elements of a segment against the plane."""
    centre = elements.x, elements.y, elements.z
    if kind == "point":
        return touch_point(body, centre, plane)
    if kind == "sphere":
        return touch_sphere(body, centre, elements.radius, plane)
    axes = elements.a, elements.b, elements.c
    if kind == "ellipsoid":
        return touch_ellipsoid(body, centre, axes, plane)
    return touch_superellipsoid(body, centre, axes, (elements.e1, elements.e2), plane)


def contact_forces(
    body: Body,
    kind: str,
    elements: Elements,
    laws: Params,
    choices: Mapping[str, str],
    plane: Plane = GROUND,
    down: Any = None,
) -> Contacts:
    """Forces of the ground on all elements of a segment."""
    touch = touch_elements(body, kind, elements, plane)
    depth = -touch.gap
    if down is None:
        down = depth > 0
    else:  # an element that has just touched down is in the ground for sure, not only but for rounding
        depth = depth + jax.lax.stop_gradient(jnp.where(down, jnp.maximum(_INSIDE - depth, 0.0), 0.0))
    F_n = jnp.where(down, NORMAL_LAWS[choices["normal"]](laws, elements, depth, -touch.v_n), 0.0)
    drag = FRICTION_LAWS[choices["friction"]](laws, elements, F_n, dot(touch.v_t, touch.v_t), down)
    force = tuple(F_n * n - drag * v for n, v in zip(touch.normal, touch.v_t, strict=True))
    return Contacts(touch, F_n, force)  # type: ignore[arg-type]


def sum_and_moment(contacts: Contacts, about: Vector) -> tuple[Vector, Vector]:
    """Total force (N) and moment (N m) about a point, of forces at the material points that slip and press."""
    arms = subtract(contacts.touch.on_body, about)
    return _sum(contacts.force), _sum(cross(arms, contacts.force))


def reaction(segments: tuple[Contacts, ...], plane: Plane = GROUND, threshold: Any = 0.0) -> Reaction:
    """What a force plate sees: total force, centre of pressure (Foot eqs 15-18), moment about the normal there.

    Forces count where they cross the plane, straight above the material points. The centre of pressure exists where the
    normal load is above `threshold` (N); elsewhere it is 0 with derivative 0, and `loaded` says so.
    """
    F_n = sum(jnp.sum(each.F_n, axis=0) for each in segments)
    loaded = F_n > threshold
    load = jnp.where(loaded, F_n, 0.0)
    weighted = [_sum(scale(each.F_n, each.touch.on_plane)) for each in segments]
    cop = tuple(divide(jnp.where(loaded, sum(parts), 0.0), load) for parts in zip(*weighted, strict=True))
    free = 0.0
    for each in segments:
        arms = tuple(at - centre for at, centre in zip(each.touch.on_plane, cop, strict=True))
        free = free + jnp.sum(dot(plane.normal, cross(arms, each.force)), axis=0)  # type: ignore[arg-type]
    force = tuple(sum(parts) for parts in zip(*(_sum(each.force) for each in segments), strict=True))
    return Reaction(force, F_n, cop, jnp.where(loaded, free, 0.0), loaded)  # type: ignore[arg-type]


def _sum(a: Vector) -> Vector:
    return tuple(jnp.sum(component, axis=0) for component in a)  # type: ignore[return-value]
