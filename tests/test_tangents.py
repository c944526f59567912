"""What makes derivatives cheap changes none: numbers that are kept, solutions of equations, weighted sums."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick import quick_jit

from jaxcontact.bodies.symmetric import factor, solve_each, solve_factored
from jaxcontact.integrate.tableau import weighted_sum
from jaxcontact.safemath import keep, keep_if_differentiated, sine_and_cosine

RNG = np.random.default_rng(3)
LANES, SIZE = 5, 4


def entries(values):
    return [[values[i, j] for j in range(i + 1)] for i in range(SIZE)]


def matrices():
    root = RNG.normal(size=(SIZE, SIZE, LANES))
    return jnp.einsum("ikl,jkl->ijl", root, root) + SIZE * jnp.eye(SIZE)[..., None]


def test_kept_numbers_are_themselves_and_so_are_their_derivatives():
    x = jnp.asarray([-2.0, 0.0, 3.0, jnp.inf, jnp.nan])
    for same in (keep, keep_if_differentiated):
        np.testing.assert_array_equal(jax.jit(same)(x), x)
        assert jax.jit(same)(x.astype(jnp.float32)).dtype == jnp.float32

    def cubic(x):
        return keep(x) * keep_if_differentiated(x * x)

    value, slope = quick_jit(lambda x: jax.jvp(cubic, (x,), (jnp.ones_like(x),)))(x[:3])
    np.testing.assert_array_equal(slope, 3 * x[:3] ** 2)
    np.testing.assert_array_equal(value, x[:3] ** 3)
    assert jax.grad(cubic)(2.0) == 12.0 and jax.grad(jax.grad(cubic))(2.0) == 12.0
    np.testing.assert_array_equal(jax.vmap(jax.grad(cubic))(x[:3]), 3 * x[:3] ** 2)


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="XLA on CPU repeats what many places use")
def test_directions_share_the_sines_and_cosines_of_one_run():
    def function(x):
        sine, cosine = sine_and_cosine(x)
        return jnp.stack([sine * cosine, sine / (2 + cosine), sine**3])

    def along(x, directions):
        return jax.vmap(lambda d: jax.jvp(function, (x,), (d,)), out_axes=(None, 0))(directions)

    compiled = jax.jit(along).lower(jnp.ones(8), jnp.ones((3, 8))).compile().as_text()
    assert compiled is not None
    rounded = [line for line in compiled.splitlines() if " round-nearest-even(" in line]
    assert rounded and all("f64[8]" in line for line in rounded)  # never for each direction
    assert len(rounded) <= 4  # not for each result: for the value's sine and cosine, and for the derivative's


def test_solutions_have_the_derivative_of_their_equation():
    matrix, rights = matrices(), RNG.normal(size=(2, SIZE, LANES))
    matrix_slope, rights_slope = matrices(), RNG.normal(size=(2, SIZE, LANES))

    def through_the_elimination(matrix, rights):
        factors = factor(entries(matrix))
        return jnp.stack([jnp.stack(solve_factored(factors, list(right))) for right in rights])

    def ours(matrix, rights):
        found = solve_each(entries(matrix), [list(right) for right in rights])
        return jnp.stack([jnp.stack(x) for x in found])

    def both_ways(function):
        def derivatives(matrix, rights):
            forward = jax.jvp(function, (matrix, rights), (matrix_slope, rights_slope))
            return *forward, jax.grad(lambda *a: jnp.sum(jnp.sin(function(*a))), (0, 1))(matrix, rights)

        return quick_jit(derivatives)(matrix, rights)

    (x, slope, pull), (x_again, slope_again, pull_again) = both_ways(ours), both_ways(through_the_elimination)
    np.testing.assert_allclose(x, x_again, rtol=1e-13)
    np.testing.assert_allclose(slope, slope_again, rtol=1e-11)
    for mine, other in zip(pull, pull_again, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-10, atol=1e-13)
    # And the equation itself, M x = b, differentiated: dM x + M dx = db.
    left = np.einsum("ijl,rjl->ril", matrix_slope, x) + np.einsum("ijl,rjl->ril", matrix, slope)
    np.testing.assert_allclose(left, rights_slope, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("of", [(0,), (1,), (0, 1)])
def test_weighted_sums_are_bilinear(of):
    weights, slopes = RNG.normal(size=(3, 1, LANES)), RNG.normal(size=(3, SIZE, LANES))
    changes = RNG.normal(size=weights.shape), RNG.normal(size=slopes.shape)
    expected = sum(
        np.sum(change * other, axis=0)
        for i, (change, other) in enumerate(zip(changes, (slopes, weights), strict=True))
        if i in of
    )

    def function(*chosen):
        arguments = [weights, slopes]
        for i, value in zip(of, chosen, strict=True):
            arguments[i] = value
        return weighted_sum(*arguments)

    at, along = tuple((weights, slopes)[i] for i in of), tuple(changes[i] for i in of)
    value, slope = quick_jit(lambda at, along: jax.jvp(function, at, along))(at, along)
    np.testing.assert_allclose(value, np.sum(weights * slopes, axis=0), rtol=1e-14)
    np.testing.assert_allclose(slope, expected, rtol=1e-13, atol=1e-15)
