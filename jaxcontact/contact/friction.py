"""Tangential force of one contact in the plane.

Sign and frame: `slip` (m/s) is the velocity of the body's contact point along the ground, positive forward; the force
(N) is the ground's on the body in that direction. Dry friction has three modes: sliding back, sticking, sliding
forward. In sticking the force is not given by a law at all: it is whatever keeps the point still, as long as it lies
within the friction cone.
"""

import jax.numpy as jnp

from jaxcontact.safemath import divide, positive_sqrt, sign

SLIDE_BACK, STICK, SLIDE_FORWARD = -1, 0, 1


def coulomb_sliding(mode, mu, normal_force):
    """Dry friction while sliding: F_t = -mu sigma F_n with sigma = mode (+1 forward, -1 back) (Crutch eq. 38)."""
    return -mu * mode * normal_force


def cone_margin(sticking_force, static_mu, normal_force):
    """Margin of a sticking force inside the static cone: mu_s F_n - |F_t| (N); sticking ends where it is negative."""
    return static_mu * normal_force - jnp.abs(sticking_force)


def mode_at_rest(sticking_force, static_mu, normal_force):
    """Mode of a point whose slip has just become zero: it sticks if the cone holds it, otherwise it slides away.

    The point slides against the force that would have been needed (Crutch section 4.2). Integer, no derivative.
    """
    holds = cone_margin(sticking_force, static_mu, normal_force) >= 0
    return jnp.where(holds, STICK, -sign(sticking_force)).astype(jnp.int32)


def regularised(slip, mu, normal_force, slip_scale):
    """Smooth stand-in for dry friction: F_t = -mu F_n tanh(slip / slip_scale), slip_scale in m/s.

    It never sticks: any load is carried by creeping at about slip_scale. Here for comparison with true sticking.
    """
    return -mu * normal_force * jnp.tanh(slip / slip_scale)


def shear_modulus(young, poisson):
    """Shear modulus G (Pa) of an isotropic solid."""
    return young / (2.0 * (1.0 + poisson))


def mindlin_stiffness(shear_a, poisson_a, shear_b, poisson_b, radius):
    """Tangential stiffness k_t (N/m^1.5) of a sphere of `radius` (m) on a plane: 8 G* sqrt(R) (Johnson, 1985).

    1/G* = (2 - nu_a)/G_a + (2 - nu_b)/G_b, moduli in Pa. The partner of the Hertz stiffness in Two approaches eq. 3.
    """
    return 8.0 / ((2.0 - poisson_a) / shear_a + (2.0 - poisson_b) / shear_b) * radius**0.5


def tangential_compliance(stretch, depth, tangential_stiffness):
    """Elastic tangential force without slip: F_t = -k_t sqrt(depth) stretch, k_t in N/m^1.5 (Two approaches eq. 3).

    `stretch` (m) is how far the body's point has moved along the ground since it gripped; `depth` (m) as in the
    normal laws.
    """
    return -tangential_stiffness * positive_sqrt(depth) * stretch


def stretch_on_the_cone(mode, mu, normal_force, depth, tangential_stiffness):
    """Stretch (m) with which a point that slid in direction `mode` grips again, so that the force stays continuous."""
    return divide(mode * mu * normal_force, tangential_stiffness * positive_sqrt(depth))
