"""Powers, roots, signs and quotients whose values and derivatives are defined at every kink.

Each guard replaces the argument before the dangerous operation, not its result after it (a "double where"): a result
that is only masked afterwards still sends 0 * inf = NaN into the derivative.
"""

import jax
import jax.numpy as jnp


def positive_power(x, exponent: float):
    """Power x ** exponent for x > 0, and 0 with derivative 0 for x <= 0, whatever the exponent."""
    inside = x > 0
    return jnp.where(inside, jnp.where(inside, x, 1.0) ** exponent, 0.0)


def positive_sqrt(x):
    """Square root for x > 0, and 0 with derivative 0 for x <= 0 (at 0 the one-sided slope is infinite; not used)."""
    inside = x > 0
    return jnp.where(inside, jnp.sqrt(jnp.where(inside, x, 1.0)), 0.0)


def positive_three_halves(x):
    """Power x ** 1.5 for x > 0, else 0, with derivative 0 there: x sqrt(x), far cheaper than a general power."""
    inside = x > 0
    safe = jnp.where(inside, x, 1.0)
    return jnp.where(inside, safe * jnp.sqrt(safe), 0.0)


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
