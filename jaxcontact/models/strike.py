"""A linkage that strikes the ground with one round tip: what the crutch and the compass biped have in common.

A model says in one `Strike` what it is made of and how it arrives; the compliant and the impulsive solution are then
the same code for every model. The equations use centre-of-mass coordinates: translation decouples from the angles,
gravity leaves the angle equations, and the impulses follow exactly from the change of momentum.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxcontact.bodies import linkage
from jaxcontact.bodies.symmetric import factor, solve_factored
from jaxcontact.contact.impulse import PointResponse
from jaxcontact.safemath import positive_sqrt, rounding


class Strike(NamedTuple):
    """A linkage at the moment when its tip touches the ground at y = 0. SI units; lane-wide numbers.

    `tip` is the centre of the round tip, `tip_radius` (m) its radius and `tip_link` the link that carries it; a
    pointed tip has radius 0. `base` and `base_velocity` belong to the base of the linkage. `watched` are points whose
    velocities are outcomes. `contact` holds the numbers of the contact laws by name. `status` is RUNNING, or why this
    lane cannot start.
    """

    links: Sequence[linkage.Link]
    tip: linkage.Point
    tip_radius: Any
    tip_link: int
    base: tuple
    base_velocity: tuple
    angles: Sequence
    rates: Sequence
    watched: Mapping[str, linkage.Point]
    contact: Mapping[str, Any]
    gravity: Any
    push: Any  # constant horizontal force on the centre of mass (N)
    status: Any


class Tables(NamedTuple):
    """Constants of the motion, made once from the masses and lengths."""

    mass: Any
    pair: linkage.Pairing
    centre: linkage.Point
    tip: linkage.Point  # from the centre of mass to the centre of the tip


class TipMotion(NamedTuple):
    """Lowest point of the tip: height (m), velocities (m/s), rows A_n, A_t by the angles, rate-made accelerations."""

    height: Any
    v_n: Any
    v_t: Any
    by_n: list
    by_t: list
    swirl_n: Any
    swirl_t: Any


def tables(strike: Strike) -> Tables:
    """Coupling tables about the centre of mass."""
    centre = linkage.centre_of_mass(strike.links)
    return Tables(
        mass=linkage.total_mass(strike.links),
        pair=linkage.pairing(strike.links, about_centre_of_mass=True),
        centre=centre,
        tip=linkage.difference(strike.tip, centre),
    )


def centre_start(strike: Strike, table: Tables):
    """Position and velocity of the centre of mass at touch-down: ((x, y), (v_x, v_y))."""
    sines, cosines = linkage.directions(strike.angles)
    return (
        linkage.position(table.centre, strike.base, sines, cosines),
        linkage.velocity(table.centre, strike.base_velocity, strike.rates, sines, cosines),
    )


def tip_motion(strike: Strike, table: Tables, height, v_centre, rates, sines, cosines) -> TipMotion:
    """Motion of the tip's lowest material point, for a centre of mass at `height` with velocity `v_centre`."""
    by_t, by_n = linkage.jacobian(table.tip, sines, cosines)
    if strike.tip_radius is not None:
        # The lowest point of a wheel that turns clockwise moves back: v_t = v_centre - R rate.
        by_t = [a - strike.tip_radius if k == strike.tip_link else a for k, a in enumerate(by_t)]
    v_t, v_n = v_centre[0], v_centre[1]
    for a_t, a_n, rate in zip(by_t, by_n, rates, strict=True):
        v_t, v_n = v_t + a_t * rate, v_n + a_n * rate
    y = linkage.position(table.tip, (0.0, height), sines, cosines)[1]
    swirl_t, swirl_n = linkage.centripetal(table.tip, rates, sines, cosines)
    return TipMotion(y if strike.tip_radius is None else y - strike.tip_radius, v_n, v_t, by_n, by_t, swirl_n, swirl_t)


def grazing(v_n) -> float:
    """Approach slower than this (m/s) is no impact: it ends where it begins."""
    return max(1e-9, rounding(v_n))


def tip_start(strike: Strike, table: Tables) -> TipMotion:
    """Motion of the tip at touch-down."""
    (_, height), v_centre = centre_start(strike, table)
    return tip_motion(strike, table, height, v_centre, strike.rates, *linkage.directions(strike.angles))


def respond(table: Tables, tip: TipMotion, sines, cosines):
    """Response of the tip to impulses, and of the angles to a normal and a tangential unit impulse at the tip."""
    factors = factor(linkage.angle_matrix(table.pair, sines, cosines))
    to_normal, to_tangential = solve_factored(factors, tip.by_n), solve_factored(factors, tip.by_t)
    response = PointResponse(
        nn=1.0 / table.mass + dot(tip.by_n, to_normal),
        nt=dot(tip.by_t, to_normal),
        tt=1.0 / table.mass + dot(tip.by_t, to_tangential),
    )
    return response, to_normal, to_tangential


def lanes(*values) -> tuple[int, ...]:
    """Shape of the lanes that all numbers in these trees share: () or (lanes,)."""
    return jnp.broadcast_shapes(*(jnp.shape(value) for value in jax.tree.leaves(values)))


def dot(a, b):
    """Sum of products of lane-wide numbers."""
    total = a[0] * b[0]
    for x, y in zip(a[1:], b[1:], strict=True):
        total = total + x * y
    return total


def watched_velocities(strike: Strike, table: Tables, v_centre, rates, angles):
    """By name: rates of the links, and velocities of each watched point: v_n (up), v_t (forward), speed (m/s)."""
    sines, cosines = linkage.directions(angles)
    seen = {f"rate_{k + 1}": rate for k, rate in enumerate(rates)}
    for name, watched in strike.watched.items():
        v_x, v_y = linkage.velocity(linkage.difference(watched, table.centre), v_centre, rates, sines, cosines)
        seen |= {f"v_n_{name}": v_y, f"v_t_{name}": v_x, f"speed_{name}": positive_sqrt(v_x**2 + v_y**2)}
    return seen
