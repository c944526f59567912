"""Forces on all elements of a sole, in space: geometry, then the chosen laws, then sums.

A law that jumps when an element touches down (a dashpot, viscous friction) needs to know which elements are down:
`down` is that, element by element; without it, an element is down where it is in the ground.
"""

from collections.abc import Callable, Mapping, Sequence
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
from jaxcontact.vectors import Vector, add, cross, dot, scale, subtract

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


LAW_NAMES = tuple(p.name for p in law_parameters(1.0, 0.0, 0.0, ""))


class Contacts(NamedTuple):
    """What the ground does to each element: arrays (element, ...)."""

    touch: Touch
    F_n: Any  # along the normal, N, never negative
    force: Vector  # with friction, in space, N


class Load(NamedTuple):
    """What elements carry together, seen from a point of the plane. Loads seen from the same point add up."""

    force: Vector  # N
    F_n: Any  # N
    weighted: Vector  # places from that point times F_n, N m
    moment: Any  # about the normal through that point, N m


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
    given = down is not None
    if given:  # an element that has just touched down is in the ground for sure, not only but for rounding
        depth = depth + jax.lax.stop_gradient(jnp.where(down, jnp.maximum(_INSIDE - depth, 0.0), 0.0))
    else:
        down = depth > 0
    F_n = NORMAL_LAWS[choices["normal"]](laws, elements, depth, -touch.v_n)  # 0 out of the ground
    F_n = jnp.where(down, F_n, 0.0) if given else F_n
    drag = FRICTION_LAWS[choices["friction"]](laws, elements, F_n, dot(touch.v_t, touch.v_t), down)
    return Contacts(touch, F_n, subtract(scale(F_n, touch.normal), scale(drag, touch.v_t)))


def sum_and_moment(contacts: Contacts, about: Vector) -> tuple[Vector, Vector]:
    """Total force (N) and moment (N m) about a point, of forces at the material points that slip and press."""
    moments = cross(subtract(contacts.touch.on_body, about), contacts.force)
    force, moment, _ = summed(_alike((contacts.force, moments, contacts.F_n)))
    return force, moment


def reaction(segments: tuple[Contacts, ...], plane: Plane = GROUND, threshold: Any = 0.0) -> Reaction:
    """What a force plate sees: total force, centre of pressure (Foot eqs 15-18), moment about the normal there.

    Forces count where they cross the plane, straight above the material points. The centre of pressure exists where the
    normal load is above `threshold` (N); elsewhere it is 0 with derivative 0, and `loaded` says so.
    """
    about = somewhere(segments[0])
    loads = [summed(_alike(load_of_each(each, about, plane))) for each in segments]
    return reaction_to(sum_of(loads), about, plane, threshold)


def somewhere(contacts: Contacts) -> Vector:
    """A point of the plane near the elements: seen from it, sums of moments keep their digits.

    What is told in the end does not depend on it, so it carries no derivatives.
    """

    def fixed(part):
        return part if isinstance(part, float) else jax.lax.stop_gradient(part[0] if jnp.ndim(part) else part)

    return tuple(map(fixed, contacts.touch.on_plane))  # type: ignore[return-value]


def load_of_each(contacts: Contacts, about: Vector, plane: Plane = GROUND) -> Load:
    """The load of each element, seen from a point of the plane: arrays (element, ...), numbers where nothing varies."""
    arms = subtract(contacts.touch.on_plane, about)
    turned = dot(plane.normal, cross(arms, contacts.force))
    return Load(contacts.force, contacts.F_n, scale(contacts.F_n, arms), turned)


def _alike(tree: Any) -> Any:
    """All parts with one shape: one that no element or lane changes may be a number."""
    shape = jnp.broadcast_shapes(*(jnp.shape(part) for part in jax.tree.leaves(tree)))
    return jax.tree.map(lambda part: jnp.broadcast_to(part, shape), tree)


def summed(tree: Any) -> Any:
    """Sums over the elements of a tree of arrays (element, ...)."""
    return jax.tree.map(lambda part: jnp.sum(part, axis=0), tree)


def sum_of(loads: Sequence[Load]) -> Load:
    """Several loads, seen from the same point, as one."""
    return jax.tree.map(lambda *parts: sum(parts[1:], parts[0]), *loads)


def reaction_to(load: Load, about: Vector, plane: Plane = GROUND, threshold: Any = 0.0) -> Reaction:
    """What a force plate sees of a load that is seen from `about`, see `reaction`."""
    loaded = load.F_n > threshold
    share = divide(1.0, jnp.where(loaded, load.F_n, 0.0))
    arm = scale(share, load.weighted)
    cop = tuple(jnp.where(loaded, part, 0.0) for part in add(about, arm))
    free = load.moment - dot(plane.normal, cross(arm, load.force))
    return Reaction(load.force, load.F_n, cop, jnp.where(loaded, free, 0.0), loaded)  # type: ignore[arg-type]


def change_of_reaction(
    change: Load, force: Vector, F_n: Any, plane: Plane = GROUND, threshold: Any = 0.0
) -> tuple[Vector, Vector, Any]:
    """How force, centre of pressure and free moment change with a small change of a load that they have been found of.

    The change is seen from the centre of pressure, where the load weighs nothing: so the sums of the load, `force` and
    `F_n`, are all that is needed of it.
    """
    loaded = F_n > threshold
    cop = scale(divide(1.0, jnp.where(loaded, F_n, 0.0)), change.weighted)
    free = change.moment - dot(plane.normal, cross(cop, force))
    return change.force, cop, jnp.where(loaded, free, 0.0)
