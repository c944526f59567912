"""Normal force of one contact, from how deep and how fast it is pressed in.

Sign and frame, for every law here: `depth` (m) is positive into the ground, `depth_rate` (m/s) is its time
derivative, positive while pressing in, and the force (N) is the ground's on the body along the outward normal, never
negative (no adhesion). Out of contact (depth <= 0) the value and every derivative are 0.
"""

import jax.numpy as jnp

from jaxcontact.safemath import positive_three_halves


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
