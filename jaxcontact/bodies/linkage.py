"""Planar trees of rigid links in absolute angles.

Frame: x forward, y up. The angle of a link is clockwise from vertical, so its axis is u = (sin a, cos a) and the
direction across it is w = du/da = (cos a, -sin a). Every point of the tree is

    base + sum_k (along_k u_k + across_k w_k)

so a point is two rows of coefficients, and a mechanism is a table. Coordinates are (x, y) of the base, then the angles.
All numbers are lane-wide: shape () or (lanes,). Coefficients that are the literal 0.0 are left out of the computation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxcontact.safemath import keep, sine_and_cosine


class Point(NamedTuple):
    """A point of the tree: its coefficients along and across each link (m)."""

    along: tuple
    across: tuple


class Link(NamedTuple):
    """One link. Its joint sits at (joint_along, joint_across) from the joint of link `parent` (m); -1: at the base.

    `mass` kg, `inertia` about the centre of mass kg m^2, centre of mass at (centre, centre_across) from the link's
    own joint (m).
    """

    parent: int
    mass: Any
    inertia: Any
    centre: Any
    centre_across: Any = 0.0
    joint_along: Any = 0.0
    joint_across: Any = 0.0


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Pairing:
    """Couplings of the angles: M_kj = cosine_kj cos(a_k - a_j) + sine_kj sin(a_k - a_j) for k >= j."""

    cosine: tuple
    sine: tuple


def _zero(value) -> bool:
    return isinstance(value, (int, float)) and value == 0


def _times(a, b):
    return 0.0 if _zero(a) or _zero(b) else a * b


def _sum(terms):
    terms = [term for term in terms if not _zero(term)]
    total = terms[0] if terms else 0.0
    for term in terms[1:]:
        total = total + term
    return total


def _minus(a, b):
    return a if _zero(b) else (-b if _zero(a) else a - b)


def point(links: Sequence[Link], link: int, along, across=0.0) -> Point:
    """The point at (along, across) from the joint of `link`, in metres."""
    alongs, acrosses = [0.0] * len(links), [0.0] * len(links)
    alongs[link], acrosses[link] = along, across
    while (parent := links[link].parent) >= 0:
        if parent >= link:
            raise ValueError(f"link {link} has parent {parent}: a parent must come before its children")
        alongs[parent], acrosses[parent] = links[link].joint_along, links[link].joint_across
        link = parent
    return Point(tuple(alongs), tuple(acrosses))


def total_mass(links: Sequence[Link]):
    """Mass of the whole tree (kg)."""
    return _sum([link.mass for link in links])


def first_moment(links: Sequence[Link]) -> Point:
    """Sum of mass times centre of mass, as coefficients (kg m): the base couples to the angles through it."""
    centres = [point(links, i, link.centre, link.centre_across) for i, link in enumerate(links)]
    n = range(len(links))
    return Point(
        tuple(_sum([_times(link.mass, c.along[k]) for link, c in zip(links, centres, strict=True)]) for k in n),
        tuple(_sum([_times(link.mass, c.across[k]) for link, c in zip(links, centres, strict=True)]) for k in n),
    )


def centre_of_mass(links: Sequence[Link]) -> Point:
    """The centre of mass of the tree, as a point."""
    moment, mass = first_moment(links), total_mass(links)
    return Point(
        tuple(0.0 if _zero(a) else a / mass for a in moment.along),
        tuple(0.0 if _zero(a) else a / mass for a in moment.across),
    )


def difference(a: Point, b: Point) -> Point:
    """Coefficients of the vector from point b to point a; the base drops out."""
    return Point(
        tuple(_minus(x, y) for x, y in zip(a.along, b.along, strict=True)),
        tuple(_minus(x, y) for x, y in zip(a.across, b.across, strict=True)),
    )


def pairing(links: Sequence[Link], about_centre_of_mass: bool = False) -> Pairing:
    """Coupling tables of the angles, with the base held still, or with the centre of mass held still.

    About the centre of mass translation decouples, gravity leaves the angle equations, and the matrix to factor has
    two rows less.
    """
    centres = [point(links, i, link.centre, link.centre_across) for i, link in enumerate(links)]
    masses = [link.mass for link in links]
    if about_centre_of_mass:  # Huygens: subtract the whole mass placed at the centre of mass
        centres = [*centres, centre_of_mass(links)]
        masses = [*masses, -total_mass(links)]

    def couple(k, j, product):
        return _sum([_times(m, product(c, k, j)) for m, c in zip(masses, centres, strict=True)])

    def cosine(c, k, j):
        return _sum([_times(c.along[k], c.along[j]), _times(c.across[k], c.across[j])])

    def sine(c, k, j):
        return _minus(_times(c.along[k], c.across[j]), _times(c.across[k], c.along[j]))

    rows = range(len(links))
    return Pairing(
        tuple(
            tuple(_sum([couple(k, j, cosine), links[k].inertia if j == k else 0.0]) for j in range(k + 1)) for k in rows
        ),
        tuple(tuple(couple(k, j, sine) for j in range(k)) for k in rows),
    )


def directions(angles):
    """Sine and cosine of each angle: the axes u_k = (sine_k, cosine_k)."""
    sines, cosines = sine_and_cosine(stack(angles))  # stacked: XLA repeats less of it than of separate numbers
    return list(sines), list(cosines)


def _between(sines, cosines):
    n = range(len(sines))
    return (
        [[cosines[k] * cosines[j] + sines[k] * sines[j] for j in range(k)] for k in n],
        [[sines[k] * cosines[j] - cosines[k] * sines[j] for j in range(k)] for k in n],
    )


@jax.custom_jvp
def between(angles, sines, cosines):
    """Cosines and sines of a_k - a_j for k > j, as rows; `sines` and `cosines` are those of the angles.

    The derivative is by the angles alone: one product for each, where through sines and cosines it is four.
    """
    return _between(sines, cosines)


@between.defjvp
def _between_jvp(primals, tangents):
    cosine, sine = jax.tree.map(keep, between(*primals))
    turn = tangents[0]
    rows = [[turn[k] - turn[j] for j in range(k)] for k in range(len(turn))]
    return (cosine, sine), (
        [[-s * d for s, d in zip(*row, strict=True)] for row in zip(sine, rows, strict=True)],
        [[c * d for c, d in zip(*row, strict=True)] for row in zip(cosine, rows, strict=True)],
    )


def contributions(point: Point, sines, cosines):
    """What each link adds to a point's position: lists of x and y parts (m)."""
    x = [_sum([_times(a, s), _times(b, c)]) for a, b, s, c in zip(*point, sines, cosines, strict=True)]
    y = [_minus(_times(a, c), _times(b, s)) for a, b, s, c in zip(*point, sines, cosines, strict=True)]
    return x, y


def position(point: Point, base, sines, cosines):
    """Position (x, y) of a point (m), for a base at `base`."""
    x, y = contributions(point, sines, cosines)
    return _sum([base[0], *x]), _sum([base[1], *y])


def jacobian(point: Point, sines, cosines):
    """Derivatives of a point's x and y by the angles: two lists (m/rad). By the base they are the identity."""
    x, y = contributions(point, sines, cosines)
    return y, [_minus(0.0, value) for value in x]


def velocity(point: Point, base_velocity, rates, sines, cosines):
    """Velocity (x, y) of a point (m/s)."""
    by_x, by_y = jacobian(point, sines, cosines)
    return (
        _sum([base_velocity[0], *map(_times, by_x, rates)]),
        _sum([base_velocity[1], *map(_times, by_y, rates)]),
    )


def centripetal(point: Point, rates, sines, cosines):
    """Acceleration that the present rates alone give a point: -sum rate_k^2 (its part from link k) (m/s^2)."""
    x, y = contributions(point, sines, cosines)
    squares = [rate * rate for rate in rates]
    return (
        _minus(0.0, _sum(list(map(_times, x, squares)))),
        _minus(0.0, _sum(list(map(_times, y, squares)))),
    )


def angle_matrix(pair: Pairing, sines, cosines, differences=None):
    """Mass matrix of the angles (kg m^2), as lower-triangle rows. `differences`: what `between` says, where known."""
    cosine, sine = differences or _between(sines, cosines)
    return [
        [
            pair.cosine[k][j]
            if j == k
            else _sum([_times(pair.cosine[k][j], cosine[k][j]), _times(pair.sine[k][j], sine[k][j])])
            for j in range(k + 1)
        ]
        for k in range(len(sines))
    ]


def velocity_terms(pair: Pairing, rates, sines, cosines, differences=None):
    """Inertial terms c of M a + c = Q from the present rates (N m): c_k = sum_j (S sin - T cos)(a_k - a_j) rate_j^2."""
    cosine, sine = differences or _between(sines, cosines)
    n = len(sines)
    terms = [[] for _ in range(n)]
    for k in range(n):
        for j in range(k):
            lever = _minus(_times(pair.cosine[k][j], sine[k][j]), _times(pair.sine[k][j], cosine[k][j]))
            terms[k].append(_times(lever, rates[j] * rates[j]))
            terms[j].append(_times(lever, -rates[k] * rates[k]))
    return [_sum(row) for row in terms]


def mass_matrix(links: Sequence[Link], angles) -> jax.Array:
    """Full mass matrix for (x, y of the base, angles): array (n + 2, n + 2, *lanes)."""
    sines, cosines = directions(angles)
    block = angle_matrix(pairing(links), sines, cosines)
    by_x, by_y = jacobian(first_moment(links), sines, cosines)
    mass, n = total_mass(links), len(links)
    rows = [[mass, 0.0, *by_x], [0.0, mass, *by_y]]
    rows += [[by_x[k], by_y[k], *(block[max(k, j)][min(k, j)] for j in range(n))] for k in range(n)]
    return stack([stack(row) for row in rows])


def bias(links: Sequence[Link], angles, rates, gravity) -> tuple[jax.Array, jax.Array]:
    """Velocity terms c(q, dq) and gravity terms G(q) of M ddq + c + G = Q, for (x, y of the base, angles)."""
    sines, cosines = directions(angles)
    moment = first_moment(links)
    moment_x, _ = contributions(moment, sines, cosines)
    base = centripetal(moment, rates, sines, cosines)
    speed = stack([*base, *velocity_terms(pairing(links), rates, sines, cosines)])
    weight = stack([0.0, total_mass(links) * gravity, *(_times(-gravity, x) for x in moment_x)])
    return speed, weight


def kinetic_energy(links: Sequence[Link], base_velocity, angles, rates):
    """Kinetic energy of the tree (J), summed over the links."""
    sines, cosines = directions(angles)
    energy = 0.0
    for i, link in enumerate(links):
        v_x, v_y = velocity(point(links, i, link.centre, link.centre_across), base_velocity, rates, sines, cosines)
        energy = energy + 0.5 * link.mass * (v_x**2 + v_y**2) + 0.5 * link.inertia * rates[i] ** 2
    return energy


def potential_energy(links: Sequence[Link], base, angles, gravity):
    """Potential energy in a field of `gravity` (m/s^2) pointing down (J), zero at y = 0."""
    sines, cosines = directions(angles)
    height = position(first_moment(links), (0.0, 0.0), sines, cosines)[1]
    return gravity * (total_mass(links) * base[1] + height)


def stack(values) -> jax.Array:
    """Lane-wide numbers as one array, components first and lanes last."""
    return jnp.stack(jnp.broadcast_arrays(*[jnp.asarray(v) for v in values]))
