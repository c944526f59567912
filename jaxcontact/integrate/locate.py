"""Where inside a step an event happens, with the exact derivative of that moment.

The guards are known at a few nodes of the step. The polynomial through them is as accurate as the step itself, its
root costs a few multiplications, and its derivative is what the implicit function theorem needs. A guard is positive
before its event.
"""

from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

_ROOT_ITERATIONS = 12  # Newton converges in about five; the rest is for brackets that need bisection first


class Crossing(NamedTuple):
    """The earliest event of a step: which guard, and at what fraction of the step."""

    event: jax.Array
    fraction: jax.Array


@cache
def nodes(inner: int) -> np.ndarray:
    """Fractions of the step where guards are known: both ends and `inner` Chebyshev-Lobatto points between."""
    return 0.5 - 0.5 * np.cos(np.pi * np.arange(inner + 2) / (inner + 1))


@cache
def _to_polynomial(inner: int) -> np.ndarray:
    """Matrix from values at the nodes to coefficients, highest power first, in x = 2 fraction - 1."""
    x = 2.0 * nodes(inner) - 1.0
    return np.linalg.inv(np.vander(x))


def fit(values: jax.Array) -> jax.Array:
    """Coefficients, highest power first, of the polynomials through `values` (node, ...) at the nodes."""
    matrix = jnp.asarray(_to_polynomial(values.shape[0] - 2), values.dtype)
    return jnp.tensordot(matrix, values, 1)


def evaluate(coefficients: jax.Array, fraction: jax.Array) -> jax.Array:
    """Value of fitted polynomials at a fraction of the step."""
    return _horner(coefficients, 2.0 * fraction - 1.0)[0]


def weights_at(count: int, fraction: jax.Array) -> list[jax.Array]:
    """Weights of the values at `count` nodes in their polynomial's value at a fraction of the step (Lagrange)."""
    x = 2.0 * fraction - 1.0
    return [_horner(column.astype(x.dtype), x)[0] for column in _to_polynomial(count - 2).T]


def _horner(coefficients, x):
    """Value and slope by x."""
    value, slope = coefficients[0] + 0.0 * x, jnp.zeros_like(coefficients[0] + x)
    for c in coefficients[1:]:
        slope = slope * x + value
        value = value * x + c
    return value, slope


def first_crossing(guards: jax.Array, armed: jax.Array) -> Crossing:
    """Earliest fraction where an armed guard turns negative; `guards` (node, guard, *lanes), `armed` (guard, *lanes).

    Precondition: some armed guard is negative at the last node (else the fraction is 1). The start of the step counts
    as positive, because a mode is entered on its boundary, where the guard is zero but for rounding. The fraction
    carries the exact derivative.
    """
    event, root = first_root(guards, armed)
    return Crossing(event, with_derivative(guards, event, root))


def first_root(guards: jax.Array, armed: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The event of `first_crossing`, and where it is, from -1 at the start of the step to 1 at its end: values alone.

    Apart from the derivative, so that a run which carries many looks for the root once.
    """
    x_nodes = (2.0 * nodes(guards.shape[0] - 2) - 1.0).astype(guards.dtype)
    guards = jax.lax.stop_gradient(guards)
    negative = guards[1:] < 0
    after = jnp.argmax(negative, axis=0)  # index of the node before the first negative one
    low, high = jnp.full(after.shape, x_nodes[0]), jnp.full(after.shape, x_nodes[1])
    for i in range(1, len(x_nodes) - 1):  # chosen one by one: looking them up by lane is slow
        low, high = jnp.where(after == i, x_nodes[i], low), jnp.where(after == i, x_nodes[i + 1], high)
    coefficients = fit(guards)

    def narrow(_, bracket):
        low, high, x = bracket
        value, slope = _horner(coefficients, x)
        low, high = jnp.where(value > 0, x, low), jnp.where(value > 0, high, x)
        newton = x - value / jnp.where(slope == 0, 1.0, slope)
        return low, high, jnp.where((newton >= low) & (newton <= high), newton, 0.5 * (low + high))

    _, _, x = jax.lax.fori_loop(0, _ROOT_ITERATIONS, narrow, (low, high, 0.5 * (low + high)))
    crosses = armed & negative[-1]
    x = jnp.where(crosses, x, jnp.inf)
    event = jnp.argmin(x, axis=0).astype(jnp.int32)
    x = jnp.where(jnp.isfinite(x), x, 1.0)  # before the sum: 0 * inf is NaN
    return event, of_event(x, event)


def with_derivative(guards: jax.Array, event: jax.Array, root: jax.Array) -> jax.Array:
    """The fraction of the step that belongs to a root, with its exact derivative by the guards (node, guard, *lanes).

    x = x* - p(x*) / stop_gradient(p'(x*)),   value: the root; derivative: the implicit function theorem's
    """
    root = jax.lax.stop_gradient(root)
    value, slope = _horner(fit(of_event(guards, event)), root)
    slope = jax.lax.stop_gradient(slope)
    value = value - jax.lax.stop_gradient(value)  # the root is found; only its derivative is added here
    root = root - jnp.where(slope == 0, 0.0, value / jnp.where(slope == 0, 1.0, slope))
    return 0.5 * (root + 1.0)


def of_event(array, event):
    """Of an array (..., guard, *lanes) what belongs to the event, by a one-hot sum: gathers by lane are slow."""
    chosen = jnp.arange(array.shape[-1 - event.ndim]).reshape((-1,) + (1,) * event.ndim) == event
    return jnp.sum(jnp.where(chosen, array, 0.0), axis=-1 - event.ndim)
