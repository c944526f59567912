"""Powers, roots, signs and quotients whose values and derivatives are defined at every kink.

Each guard replaces the argument before the dangerous operation, not its result after it (a "double where"): a result
that is only masked afterwards still sends 0 * inf = NaN into the derivative. The stand-in argument is tiny, not 1: a
compiler may compute the argument twice, rounded differently, so that one copy is just above zero and the other is not,
and then the stand-in's power is what comes out. It has to be next to nothing.
"""

import jax
import jax.numpy as jnp

_TINY = 1e-30


def positive_sqrt(x):
    """Square root for x > 0, and 0 with derivative 0 for x <= 0 (at 0 the one-sided slope is infinite; not used)."""
    return jnp.where(x > 0, jnp.sqrt(jnp.maximum(x, _TINY)), 0.0)


def positive_three_halves(x):
    """Power x ** 1.5 for x > 0, else 0, with derivative 0 there: x sqrt(x), far cheaper than a general power."""
    safe = jnp.maximum(x, _TINY)
    return jnp.where(x > 0, safe * jnp.sqrt(safe), 0.0)


def sign(x):
    """+1 for x > 0, -1 for x < 0, 0 at 0; the derivative is 0 everywhere."""
    return jax.lax.stop_gradient(jnp.sign(x))


def divide(numerator, denominator, otherwise=0.0):
    """Quotient numerator / denominator, and `otherwise` (with derivative 0) where the denominator is exactly 0."""
    defined = denominator != 0
    return jnp.where(defined, numerator / jnp.where(defined, denominator, 1.0), otherwise)


def arccos(x):
    """Angle in (0, pi) whose cosine is x; pi/2 with derivative 0 for |x| >= 1, where there is none or no finite slope.

    The caller must check |x| < 1 and flag the lane: the value outside only keeps the arithmetic finite.
    """
    inside = jnp.abs(x) < 1
    return jnp.arccos(jnp.where(inside, x, 0.0))


def rounding(x):
    """What rounding may leave of a number near 1 that should be 0: a hundred units in the last place of x's type."""
    return 100.0 * float(jnp.finfo(jnp.result_type(x)).eps)
