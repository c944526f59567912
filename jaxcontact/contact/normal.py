"""Normal force of one contact, from how deep and how fast it is pressed in.

Sign and frame, for every law here: `depth` (m) is positive into the ground, `depth_rate` (m/s) is its time
derivative, positive while pressing in, and the force (N) is the ground's on the body along the outward normal, never
negative (no adhesion). Out of contact (depth <= 0) the value and every derivative are 0.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jaxcontact.errors import InputError, unknown
from jaxcontact.safemath import positive_power, positive_three_halves, signed_power


def effective_modulus(young_a, poisson_a, young_b, poisson_b):
    """Effective modulus E* (Pa) of two elastic bodies in contact (Crutch eq. 37)."""
    return 1.0 / ((1.0 - poisson_a**2) / young_a + (1.0 - poisson_b**2) / young_b)


def hertz_stiffness(modulus, radius):
    """Hertz stiffness k_n (N/m^1.5) of a sphere of `radius` (m) on a plane, E* = `modulus` in Pa (Crutch eq. 36)."""
    return 4.0 / 3.0 * modulus * radius**0.5


def hertz(depth, stiffness):
    """Elastic sphere on a plane: F = k_n depth^1.5, k_n in N/m^1.5."""
    return stiffness * positive_three_halves(depth)


def hunt_crossley(depth, depth_rate, stiffness, damping):
    """Hunt-Crossley: F = depth^1.5 (k_n + chi depth_rate), k_n in N/m^1.5, chi in N s/m^2.5 (Crutch eq. 35).

    While the surfaces part faster than k_n/chi the formula would pull; the force is 0 there, with derivative 0.
    """
    return positive_three_halves(depth) * jnp.maximum(stiffness + damping * depth_rate, 0.0)


def kelvin_voigt(depth, depth_rate, stiffness, damping):
    """Linear spring and damper in parallel: F = k depth + c depth_rate in contact, k in N/m, c in N s/m.

    The force jumps to c depth_rate at first touch, and is 0 (derivative 0) where it would pull.
    """
    return jnp.where(depth > 0, jnp.maximum(stiffness * depth + damping * depth_rate, 0.0), 0.0)


def sphere_stiffness(young_i, poisson_i, young_j, poisson_j, radius):
    """Hertz stiffness K (N/m^1.5) of a sphere of `radius` (m) on a plane, from Young's moduli (Pa) (Foot eq. 12).

    The printed factor 0.424 with 1/pi inside the denominator is 0.424 pi = 1.3320, Hertz's 4/3 rounded; this is 4/3.
    """
    return hertz_stiffness(effective_modulus(young_i, poisson_i, young_j, poisson_j), radius)


def hertz_power(depth, stiffness, exponent):
    """Elastic contact of any exponent m > 0: F = K depth^m, K in N/m^m (Foot eq. 10)."""
    return stiffness * positive_power(depth, exponent)


def power_kelvin_voigt(depth, depth_rate, stiffness, exponent, damping):
    """Spring and constant damper in parallel: F = K depth^m + c depth_rate in contact, K in N/m^m, c in N s/m.

    Foot eq. 11. The force jumps to c depth_rate at first touch, and is 0 (derivative 0) where it would pull.
    """
    pressed = stiffness * positive_power(depth, exponent) + damping * depth_rate
    return jnp.where(depth > 0, jnp.maximum(pressed, 0.0), 0.0)


def power_hunt_crossley(depth, depth_rate, stiffness, exponent, damping):
    """Hysteresis damping: F = depth^m (K + chi depth_rate), K in N/m^m, chi in N s/m^(m+1) (Foot eqs 11 to 13).

    While the surfaces part faster than K/chi the formula would pull; the force is 0 there, with derivative 0.
    """
    return positive_power(depth, exponent) * jnp.maximum(stiffness + damping * depth_rate, 0.0)


def shoe(depth, depth_rate, area, c1, c2, c3, c4, c5=1.0):
    """Shoe sole: F = area (c1 depth^c2 + c3 depth^c4 sign(v) |v|^c5), v = depth_rate, never below 0 (Lopes eq. 1).

    `area` is the element's share of the tested area, without unit; c1 in N/m^c2, c3 in N s^c5/m^(c4+c5), and c2, c4,
    c5 without unit. Lopes names c5 and does not print it: it is the power of the rate in the law of Neptune et al.
    (2000) that the paper takes over, and 1 gives the printed equation. Lopes prints no values. Where the formula would
    pull, the force is 0 with derivative 0; at first touch it is continuous for c4 > 0, with infinite slope for c4 < 1.
    """
    elastic = c1 * positive_power(depth, c2)
    return area * jnp.maximum(elastic + c3 * positive_power(depth, c4) * signed_power(depth_rate, c5), 0.0)


RESTITUTION_RULES = ("exact", "hunt_crossley", "lankarani_nikravesh")


def restitution_to_damping(restitution, approach_speed, stiffness, rule="exact"):
    """Hysteresis damping chi (N s/m^(m+1)) with which a free body bounces off with e = `restitution`, 0 < e <= 1.

    The body meets the ground at `approach_speed` (m/s) and no other force acts; K = `stiffness` in N/m^m of
    `power_hunt_crossley`. All rules hold for every exponent m and every mass, which cancel:

    - "exact": d = chi v/K solves d - ln(1 + d) = -e d - ln(1 - e d), the energy integrals of the way in and out.
      At e = 1 it is 0 with slope -3/2; for e -> 0 it grows like 1/e: no finite damping stops a body dead.
    - "hunt_crossley": d = 3/2 (1 - e), Hunt and Crossley (1975), where e = 1 - a v and chi = 3/2 a K; for e near 1.
    - "lankarani_nikravesh": d = 3/4 (1 - e^2), Lankarani and Nikravesh (1990); for e near 1.

    A restitution or speed that is traced is not checked: outside its range the result is not finite, or senseless.
    """
    if rule not in RESTITUTION_RULES:
        raise unknown("restitution rule", rule, RESTITUTION_RULES)
    if not isinstance(restitution, Tracer) and not np.all((np.asarray(restitution) > 0) & (restitution <= 1)):
        raise InputError(f"restitution is {restitution}; allowed: above 0 and up to 1.")
    if not isinstance(approach_speed, Tracer) and not np.all(np.asarray(approach_speed) > 0):
        raise InputError(f"approach_speed is {approach_speed}; allowed: above 0 m/s.")
    if rule == "hunt_crossley":
        relative = 1.5 * (1.0 - restitution)
    elif rule == "lankarani_nikravesh":
        relative = 0.75 * (1.0 - restitution**2)
    else:
        relative = _relative_damping(jnp.asarray(restitution, jnp.result_type(restitution, float)))
    return relative * stiffness / approach_speed


def _relative_damping(e):
    """Exact d = chi v/K: bisection for the value, one Newton step for the last digits and the derivative.

    Divided by d^2 the relation is p(d) = e^2 p(-e d), which falls steadily from d = 0 to 1/e and keeps its digits for
    e near 1, where both sides of the printed form vanish.
    """

    def residual(d, e):
        return _loss(d) - e**2 * _loss(-e * d)

    def halve(_, bracket):
        low, high = bracket
        middle = 0.5 * (low + high)
        too_low = residual(middle / fixed, fixed) > 0
        return jnp.where(too_low, middle, low), jnp.where(too_low, high, middle)

    fixed = jax.lax.stop_gradient(e)
    # The unknown is e d, between 0 and 1; of the bracket's ends only the lower keeps away from ln(0).
    low, _ = jax.lax.fori_loop(0, 60, halve, (jnp.zeros_like(fixed), jnp.ones_like(fixed)))
    d = low / fixed
    _, slope = jax.jvp(lambda d: residual(d, fixed), (d,), (jnp.ones_like(d),))
    return d - residual(d, e) / slope


def _loss(x):
    """(x - ln(1 + x)) / x^2 for x > -1, by its series where the difference would lose its digits."""
    small = jnp.abs(x) < 0.1
    near = jnp.where(small, x, 0.0)
    series = 1.0 / 18.0
    for k in range(17, 1, -1):
        series = 1.0 / k - near * series
    far = jnp.where(small, 1.0, x)
    return jnp.where(small, series, (far - jnp.log1p(far)) / far**2)
