"""Accelerations of a mechanism with one point that may be gripped: held still along a line by the force that it takes.

The derivative is that of the equations of motion, not of the elimination that solves them: with the factors of the
mass matrix at hand, each direction costs one solution. Through the elimination it cost four times as much.
"""

import jax
import jax.numpy as jnp

from jaxcontact.bodies.symmetric import factor, solve_factored
from jaxcontact.safemath import keep


def _dot(a, b):
    total = a[0] * b[0]
    for x, y in zip(a[1:], b[1:], strict=True):
        total = total + x * y
    return total


def _times(matrix, x):
    """A symmetric matrix, given by its lower triangle, times x."""
    n = range(len(x))
    return [_dot([matrix[max(i, j)][min(i, j)] for j in n], x) for i in n]


def _plus(a, b):
    return [x + y for x, y in zip(a, b, strict=True)]


def _minus(a, b):
    return [x - y for x, y in zip(a, b, strict=True)]


def _scaled(a, factor):
    return [x * factor for x in a]


def _solved(matrix, loads, arm, rest, mobility, gripped, force):
    """The solution, and what derivatives need besides: factors, answer to a unit force, gain, accelerations held."""
    factors = factor(matrix)
    free, per_unit = solve_factored(factors, loads), solve_factored(factors, arm)
    gain = mobility + _dot(arm, per_unit)
    hold = -(rest + _dot(arm, free)) / gain
    acting = jnp.where(gripped, hold, force)
    spin = _plus(free, _scaled(per_unit, acting))
    return (acting, spin, hold), (factors, per_unit, gain, _plus(free, _scaled(per_unit, hold)))


@jax.custom_jvp
def grip(matrix, loads, arm, rest, mobility, gripped, force):
    """Return the force along the line, the accelerations x, and the force that would hold the point.

    The accelerations obey  matrix x = loads + arm F,  where F is `force`, or where `gripped` the one that makes

        rest + mobility F + arm . x = 0

    the acceleration of the point along the line. All are lane-wide numbers, or lists of them; `matrix` is the lower
    triangle of a symmetric positive definite one.
    """
    return _solved(matrix, loads, arm, rest, mobility, gripped, force)[0]


@grip.defjvp
def _grip_jvp(primals, tangents):
    matrix, loads, arm, rest, mobility, gripped, force = primals
    (acting, spin, hold), (factors, per_unit, gain, held) = jax.tree.map(
        keep, _solved(matrix, loads, arm, rest, mobility, gripped, force)
    )
    d_matrix, d_loads, d_arm, d_rest, d_mobility, _, d_force = tangents

    def of_the_force(acting, spin):
        """How the accelerations change with the force as it is, and by how much it has to change for the grip."""
        missing = _minus(_plus(d_loads, _scaled(d_arm, acting)), _times(d_matrix, spin))
        change = solve_factored(factors, missing)
        slip = d_rest + d_mobility * acting + _dot(d_arm, spin) + _dot(arm, change)
        return change, -slip / gain

    change, d_hold = of_the_force(acting, spin)
    d_acting = jnp.where(gripped, d_hold, d_force)
    # What would hold a point that is not gripped goes with other accelerations; seldom wanted, and then left out.
    _, d_would_hold = of_the_force(hold, held)
    return (acting, spin, hold), (d_acting, _plus(change, _scaled(per_unit, d_acting)), d_would_hold)
