"""Tangential force of one contact.

Sign and frame: `slip` (m/s) is the velocity of the body's contact point along the ground, positive forward; the force
(N) is the ground's on the body in that direction. Dry friction has three modes: sliding back, sticking, sliding
forward. In sticking the force is not given by a law at all: it is whatever keeps the point still, as long as it lies
within the friction cone.

The laws whose names end in `drag` never stick, and hold for any number of tangential directions: the force on the body
is -drag v_t, with the drag (N s/m, never negative for F_n >= 0) a function of `speed_squared` = |v_t|^2 (m^2/s^2), so
that nothing is divided by zero at rest.
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


def coulomb_viscous_drag(normal_force, speed_squared, mu, viscous, slip_scale, in_contact):
    """Coulomb and viscous friction: drag = mu F_n / sqrt(|v_t|^2 + slip_scale^2) + viscous in contact, else 0.

    Foot eq. 14, |F_t| = mu F_n + viscous |v_t|, with the jump of its direction at rest smoothed over slip_scale > 0
    (m/s): at that speed the Coulomb part has 71 % of mu F_n, at ten times that speed 99.5 %, and it never has more.
    `viscous` is in N s/m and does not depend on F_n. `in_contact` is a boolean, depth > 0; the viscous part begins and
    ends with a jump where the point slides.
    """
    return jnp.where(in_contact, mu * normal_force / jnp.sqrt(speed_squared + slip_scale**2) + viscous, 0.0)


_SPEED_FLOOR = 1e-9  # m/s: far below any slip that matters, and its powers are finite in single precision


def shoe_drag(normal_force, speed_squared, area, c6, c7):
    """Friction of a shoe sole: viscous up to the cone, then on the cone (Lopes eq. 2): min(area c6, c7 F_n/|v_t|).

    c6 in N s/m, c7 the friction coefficient, `area` the element's share as in the normal law. The second branch is
    printed as -c7 f_t for |f_t| < c7 f_n; it is read as c7 f_n against the sliding where the viscous force would leave
    the cone. Without normal force the drag is 0. At the kink the value is continuous and the derivative the mean of
    both sides; at rest the derivative by speed_squared is 0.
    """
    speed = jnp.maximum(positive_sqrt(speed_squared), _SPEED_FLOOR)
    return jnp.minimum(area * c6, c7 * normal_force / speed)


def hollars_drag(normal_force, speed_squared, static_mu, dynamic_mu, viscous_mu, transition_velocity):
    """Friction of OpenSim's HuntCrossleyForce: F_n [min(s, 1) (mu_d + 2 (mu_s - mu_d)/(1 + s^2)) + mu_v |v_t|].

    s = |v_t|/v_t with the transition velocity v_t (m/s), where the force peaks at mu_s F_n; mu_v in s/m multiplies F_n.
    At the kink s = 1 the value is continuous and the derivative the mean of both sides.
    """
    v_squared = transition_velocity**2
    dry = dynamic_mu + 2.0 * (static_mu - dynamic_mu) * v_squared / (v_squared + speed_squared)
    return normal_force * (dry / jnp.sqrt(jnp.maximum(speed_squared, v_squared)) + viscous_mu)


def stribeck_drag(normal_force, speed_squared, static_mu, dynamic_mu, viscous_mu, transition_velocity):
    """Friction of Simbody's compliant contact: quintic steps from 0 up to mu_s at v_t and down to mu_d at 3 v_t.

    |F_t| = F_n (mu_dry + mu_v |v_t|), transition velocity v_t in m/s, mu_v in s/m. Twice continuously differentiable
    in the velocity; unlike `hollars_drag` it is flat at rest, so that a small load creeps much faster.
    """
    s = positive_sqrt(speed_squared) / transition_velocity
    rise, fall = jnp.minimum(s, 1.0), jnp.clip(0.5 * (s - 1.0), 0.0, 1.0)
    beyond = jnp.maximum(s, 1.0)
    # Both steps are divided by s here: one power less of the rise inside v_t, a division outside.
    up = rise**2 * (10.0 + rise * (6.0 * rise - 15.0))
    down = fall**3 * (10.0 + fall * (6.0 * fall - 15.0))
    dry = (static_mu * up - (static_mu - dynamic_mu) * down) / (beyond * transition_velocity)
    return normal_force * (dry + viscous_mu)
