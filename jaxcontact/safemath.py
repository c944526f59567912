"""Powers, roots, signs and quotients whose values and derivatives are defined at every kink.

Each guard replaces the argument before the dangerous operation, not its result after it (a "double where"): a result
that is only masked afterwards still sends 0 * inf = NaN into the derivative. The stand-in argument is tiny, not 1: a
compiler may compute the argument twice, rounded differently, so that one copy is just above zero and the other is not,
and then the stand-in's power is what comes out. It has to be next to nothing.
"""

import math

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

_TINY = 1e-30


def positive_sqrt(x):
    """Square root for x > 0, and 0 with derivative 0 for x <= 0 (at 0 the one-sided slope is infinite; not used)."""
    return jnp.where(x > 0, jnp.sqrt(jnp.maximum(x, _TINY)), 0.0)


def positive_three_halves(x):
    """Power x ** 1.5 for x > 0, else 0, with derivative 0 there: x sqrt(x), far cheaper than a general power."""
    safe = jnp.maximum(x, _TINY)
    return jnp.where(x > 0, safe * jnp.sqrt(safe), 0.0)


def positive_power(x, exponent):
    """Power x ** exponent for x > 0, else 0, with every derivative 0 there; differentiable by x and by the exponent.

    exp(m log x) takes half the time of the library's own power and is right to 1e-14. Just inside zero the slope is
    that of the power, huge but finite for an exponent below 1. The Python number 1.5 costs a square root only.
    """
    if isinstance(exponent, float) and exponent == 1.5:
        return positive_three_halves(x)
    return jnp.where(x > 0, jnp.exp(exponent * jnp.log(jnp.maximum(x, _TINY))), 0.0)


def power_in_lanes(x, exponent: float):
    """Power x ** exponent of a normal number x > 0, right to a few roundings; without a derivative.

    Written out, because XLA on CPU calls the general power for one lane after the other, and a loop with such a call
    in it is not vectorised at all: an adaptive step took twice as long.
    """
    kind = jnp.finfo(jnp.result_type(x))
    whole = {16: jnp.int16, 32: jnp.int32, 64: jnp.int64}[kind.bits]
    one = jax.lax.bitcast_convert_type(jnp.ones_like(x), whole)
    bits = jax.lax.bitcast_convert_type(jax.lax.stop_gradient(x), whole)
    twos = (bits >> kind.nmant) - (one >> kind.nmant)  # x = 2^twos m, 1 <= m < 2
    m = jax.lax.bitcast_convert_type((bits & ((1 << kind.nmant) - 1)) | one, jnp.result_type(x))
    large = m > 1.5
    m, twos = jnp.where(large, 0.5 * m, m), twos + large.astype(whole)
    ratio = (m - 1.0) / (m + 1.0)  # ln m = 2 artanh(ratio), |ratio| <= 1/5
    logarithm = 2.0 * ratio * _polynomial([1.0 / k for k in range(23, 0, -2)], ratio * ratio)
    y = exponent * (twos.astype(x.dtype) + logarithm / math.log(2.0))
    rounded = jnp.round(y)
    rest = (y - rounded) * math.log(2.0)
    shifted = jax.lax.bitcast_convert_type((rounded.astype(whole) << kind.nmant) + one, jnp.result_type(x))
    return shifted * _polynomial([1.0 / math.factorial(k) for k in range(13, -1, -1)], rest)


def signed_power(x, exponent):
    """Odd power sign(x) |x| ** exponent; at 0 the value is 0 and the slope 0, 1 or huge for an exponent >, = or < 1."""
    if isinstance(exponent, int | float) and exponent == 1:
        return x
    return x * jnp.exp((exponent - 1.0) * jnp.log(jnp.maximum(jnp.abs(x), _TINY)))


def _divided_by_one(x):
    return x / jnp.where(x == x, 1.0, jnp.nan).astype(x.dtype)


# XLA on CPU repeats sums and products in every place that uses them, quotients never; it takes its own barriers away
# before that. So what should be computed once is lowered to a quotient by a one that the compiler does not see.
keep_p = Primitive("keep")
keep_p.def_impl(lambda x: x)
keep_p.def_abstract_eval(lambda x: x)
ad.deflinear(keep_p, lambda cotangent: [keep(cotangent)])
batching.defvectorized(keep_p)
mlir.register_lowering(keep_p, mlir.lower_fun(_divided_by_one, multiple_results=False))


def keep(x):
    """The same array, computed once and kept: linear, and so are its derivatives."""
    return keep_p.bind(x)


@jax.custom_jvp
def keep_if_differentiated(x):
    """The same array. Where derivatives are taken, it and its derivative are computed once; a plain run is left alone.

    Many directions share one run: whatever XLA repeats of that run, it would repeat for each of them.
    """
    return x


@keep_if_differentiated.defjvp
def _keep_if_differentiated_jvp(primals, tangents):
    return keep(primals[0]), keep(tangents[0])


# Remainders by pi/2 in three parts whose products with small integers are exact (Cody and Waite), and polynomials on
# [-pi/4, pi/4], lowest power last (S. Moshier, Cephes): right to the last place or two for |x| < 1e4.
_HALF_PI = (1.57079625129699707031, 7.54978941586159635336e-8, 5.39030285815811905290e-15)
_SINE = (
    1.58962301576546568060e-10,
    -2.50507477628578072866e-8,
    2.75573136213857245213e-6,
    -1.98412698295895385996e-4,
    8.33333333332211858878e-3,
    -1.66666666666666307295e-1,
)
_COSINE = (
    -1.13585365213876817300e-11,
    2.08757008419747316778e-9,
    -2.75573141792967388112e-7,
    2.48015872888517045348e-5,
    -1.38888888888730564116e-3,
    4.16666666666665929218e-2,
)


def _polynomial(coefficients, x):
    value = coefficients[0]
    for c in coefficients[1:]:
        value = value * x + c
    return value


@jax.custom_jvp
def sine_and_cosine(x):
    """Sine and cosine by polynomials: XLA computes its own one number at a time, and again wherever they are used.

    In the right-hand side of the crutch that was most of the time; this form vectorises and is cheap to repeat.
    """
    quarter = jnp.round(x * (2.0 / jnp.pi))
    for part in _HALF_PI:
        x = x - quarter * part
    z = x * x
    sine = x + x * z * _polynomial(_SINE, z)
    cosine = 1.0 - 0.5 * z + z * z * _polynomial(_COSINE, z)
    # Each quarter turn swaps them and changes one sign.
    odd = quarter - 2.0 * jnp.floor(0.5 * quarter)
    half = 0.5 * (quarter - odd)
    flip = 1.0 - 2.0 * (half - 2.0 * jnp.floor(0.5 * half))
    swap = odd > 0.5
    return flip * jnp.where(swap, cosine, sine), flip * jnp.where(swap, -sine, cosine)


@sine_and_cosine.defjvp
def _sine_and_cosine_jvp(primals, tangents):
    sine, cosine = (keep(value) for value in sine_and_cosine(*primals))
    return (sine, cosine), (cosine * tangents[0], -sine * tangents[0])


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
