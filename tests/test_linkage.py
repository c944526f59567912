"""Planar linkages against Lagrange's equations, which autodiff derives from the energies alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxcontact.bodies import linkage
from jaxcontact.bodies.linkage import Link
from jaxcontact.bodies.symmetric import factor, solve_factored


def random_tree(seed: int, n: int, across: bool = True) -> list[Link]:
    rng = np.random.default_rng(seed)
    off = rng.uniform(-0.3, 0.3, (n, 2)) if across else np.zeros((n, 2))
    return [
        Link(
            parent=int(rng.integers(-1, i)) if i else -1,
            mass=rng.uniform(1, 5),
            inertia=rng.uniform(0.1, 1),
            centre=rng.uniform(0, 1),
            centre_across=off[i, 0],
            joint_along=rng.uniform(0, 1),
            joint_across=off[i, 1],
        )
        for i in range(n)
    ]


def random_motion(seed: int, n: int):
    rng = np.random.default_rng(1000 + seed)
    return jnp.asarray(rng.normal(size=n + 2)), jnp.asarray(rng.normal(size=n + 2))


def lagrangian(links, q, dq, gravity=9.81):
    kinetic = linkage.kinetic_energy(links, dq[:2], list(q[2:]), list(dq[2:]))
    return kinetic - linkage.potential_energy(links, q[:2], list(q[2:]), gravity)


@pytest.mark.parametrize("seed", range(8))
def test_equations_of_motion_are_lagranges(seed):
    n = 1 + seed % 6
    links = random_tree(seed, n, across=seed % 2 == 0)

    @jax.jit
    def from_energies(q, dq):
        mass = jax.hessian(lagrangian, 2)(links, q, dq)
        momentum_rate = jax.jvp(lambda q: jax.grad(lagrangian, 2)(links, q, dq), (q,), (dq,))[1]
        return mass, momentum_rate - jax.grad(lagrangian, 1)(links, q, dq)

    @jax.jit
    def ours(q, dq):
        return linkage.mass_matrix(links, list(q[2:])), linkage.bias(links, list(q[2:]), list(dq[2:]), 9.81)

    q, dq = random_motion(seed, n)
    mass, terms = from_energies(q, dq)
    our_mass, (speed, weight) = ours(q, dq)
    np.testing.assert_allclose(our_mass, mass, atol=1e-13)
    np.testing.assert_allclose(speed + weight, terms, atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_any_point_moves_as_its_position_says(seed):
    n = 5
    links = random_tree(seed, n)
    q, dq = random_motion(seed, n)
    spot = linkage.point(links, n - 1, 0.7, -0.2)

    def position(q):
        return jnp.stack(linkage.position(spot, q[:2], *linkage.directions(list(q[2:]))))

    def velocity(q):
        return jax.jvp(position, (q,), (dq,))[1]

    sines, cosines = linkage.directions(list(q[2:]))
    rates = list(dq[2:])
    np.testing.assert_allclose(linkage.velocity(spot, dq[:2], rates, sines, cosines), velocity(q), atol=1e-13)
    by_x, by_y = linkage.jacobian(spot, sines, cosines)
    np.testing.assert_allclose(np.stack([by_x, by_y]), jax.jacfwd(position)(q)[:, 2:], atol=1e-13)
    # With constant rates the acceleration is the centripetal part alone.
    acceleration = jax.jvp(velocity, (q,), (dq,))[1]
    np.testing.assert_allclose(linkage.centripetal(spot, rates, sines, cosines), acceleration, atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_centre_of_mass_form_is_the_full_one_with_the_base_eliminated(seed):
    n = 4
    links = random_tree(seed, n)
    q, dq = random_motion(seed, n)
    full = np.asarray(linkage.mass_matrix(links, list(q[2:])))
    speed, weight = (np.asarray(x) for x in linkage.bias(links, list(q[2:]), list(dq[2:]), 9.81))
    free = np.linalg.solve(full, -speed - weight)

    sines, cosines = linkage.directions(list(q[2:]))
    pair = linkage.pairing(links, about_centre_of_mass=True)
    reduced = linkage.angle_matrix(pair, sines, cosines)
    schur = full[2:, 2:] - full[2:, :2] @ np.linalg.solve(full[:2, :2], full[:2, 2:])
    np.testing.assert_allclose([reduced[k][j] for k in range(n) for j in range(k + 1)], schur[np.tril_indices(n)])
    terms = linkage.velocity_terms(pair, list(dq[2:]), sines, cosines)
    spin = solve_factored(factor(reduced), [-t for t in terms])
    np.testing.assert_allclose(spin, free[2:], atol=1e-11)


def test_lanes_are_independent_and_scalars_stay_scalars():
    links = random_tree(3, 4)
    angles = np.random.default_rng(0).normal(size=(4, 7))
    swept = [links[0]._replace(mass=jnp.linspace(1.0, 2.0, 7)), *links[1:]]
    many = linkage.mass_matrix(swept, list(jnp.asarray(angles)))
    for lane in range(7):
        one = linkage.mass_matrix([links[0]._replace(mass=1.0 + lane / 6), *links[1:]], list(angles[:, lane]))
        np.testing.assert_allclose(many[..., lane], one, rtol=1e-14)
    assert jnp.shape(linkage.total_mass(links)) == ()


def test_every_number_of_a_link_can_be_differentiated():
    links = random_tree(5, 3)
    q, dq = random_motion(5, 3)

    def energy(numbers):
        tree = [Link(link.parent, *row) for link, row in zip(links, numbers, strict=True)]
        return lagrangian(tree, q, dq)

    numbers = [list(map(float, link[1:])) for link in links]
    slopes = jax.grad(energy)(numbers)
    step = 1e-6
    for i in range(3):
        for j in range(6):
            up, down = ([list(row) for row in numbers] for _ in range(2))
            up[i][j] += step
            down[i][j] -= step
            difference = (energy(up) - energy(down)) / (2 * step)
            assert slopes[i][j] == pytest.approx(float(difference), rel=1e-7, abs=1e-8)


def test_a_parent_must_come_first():
    links = [Link(1, 1.0, 1.0, 0.5), Link(-1, 1.0, 1.0, 0.5)]
    with pytest.raises(ValueError, match="parent must come before"):
        linkage.point(links, 0, 1.0)


def test_factorisation_solves():
    rng = np.random.default_rng(2)
    root = rng.normal(size=(5, 5))
    matrix = root @ root.T + np.eye(5)
    right = rng.normal(size=5)
    np.testing.assert_allclose(solve_factored(factor(matrix.tolist()), right.tolist()), np.linalg.solve(matrix, right))
