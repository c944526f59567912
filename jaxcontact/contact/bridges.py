"""Bridges to other tools: their contact forces from their published formulas, and parameters both ways.

Tools: OpenSim's HuntCrossleyForce and SmoothSphereHalfSpaceForce, Simbody's compliant contact, MuJoCo. Each `..._force`
gives what that tool computes for one sphere (or point) on a plane, as (normal force, drag) in our convention: depth
positive into the ground, depth_rate positive while pressing in, the ground's force on the body is F_n along the outward
normal and -drag v_t along the ground. The table of conversions with their limits is in LAWS.md beside this file.

Read from simbody/simbody: HuntCrossleyForce.h and .cpp, SmoothSphereHalfSpaceForce.h and .cpp, ContactSurface.h,
CompliantContactSubsystem.cpp; opensim-org/opensim-core: HuntCrossleyForce.cpp, SmoothSphereHalfSpaceForce.h;
google-deepmind/mujoco: doc/modeling.rst, doc/computation/index.rst, src/engine/engine_core_constraint.c.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jaxcontact.contact.friction import hollars_drag, stribeck_drag
from jaxcontact.contact.normal import hertz_stiffness, hunt_crossley
from jaxcontact.errors import InputError
from jaxcontact.safemath import divide, positive_power, positive_sqrt


def _refuse(condition: Any, message: str) -> None:
    """Raise where a number that is known beforehand has no equivalent; traced numbers are not checked."""
    if not isinstance(condition, Tracer) and np.any(condition):
        raise InputError(message)


# ---------------------------------------------------------------- ours


class Contact(NamedTuple):
    """One sphere on the plane in our units: `normal.hunt_crossley` with one of the drag laws of a transition velocity.

    stiffness k_n in N/m^1.5, damping chi in N s/m^2.5, static_mu and dynamic_mu without unit, viscous_mu in s/m (its
    force is viscous_mu |v_t| F_n), transition_velocity in m/s.
    """

    stiffness: Any
    damping: Any = 0.0
    static_mu: Any = 0.0
    dynamic_mu: Any = 0.0
    viscous_mu: Any = 0.0
    transition_velocity: Any = 0.01


def contact_force(contact: Contact, depth, depth_rate, speed_squared, drag=hollars_drag):
    """(F_n, drag) of our own laws; `drag` is `friction.hollars_drag` or `friction.stribeck_drag`."""
    F_n = hunt_crossley(depth, depth_rate, contact.stiffness, contact.damping)
    return F_n, drag(F_n, speed_squared, *contact[2:])


def contact_of_foot_laws(stiffness, damping, mu, slip_scale, exponent=1.5, viscous=0.0) -> Contact:
    """Our nearest Contact to `power_hunt_crossley` with `coulomb_viscous_drag`: same normal force, slope at rest, cone.

    The tools are Hertzian (exponent 1.5) and their viscous friction is proportional to F_n, so that another exponent
    or a `viscous` in N s/m has no equivalent. The friction differs by at most mu F_n min(0.293, slip_scale^2/2|v_t|^2).
    """
    _refuse(exponent != 1.5, f"exponent is {exponent}; these tools know Hertz contact only: 1.5.")
    _refuse(viscous != 0, f"viscous is {viscous} N s/m; allowed: 0, as theirs scales with F_n.")
    return Contact(stiffness, damping, mu, mu, 0.0, slip_scale)


# ---------------------------------------------------------------- Simbody, and OpenSim on top of it


class Material(NamedTuple):
    """One surface in Simbody or OpenSim, or a pair of them combined.

    stiffness is a plane strain modulus in Pa, dissipation in s/m (a bounce at small speed v keeps e = 1 - c v),
    static_friction and dynamic_friction without unit, viscous_friction in s/m.
    """

    stiffness: Any
    dissipation: Any = 0.0
    static_friction: Any = 0.0
    dynamic_friction: Any = 0.0
    viscous_friction: Any = 0.0


def plane_strain_modulus(young, poisson):
    """What Simbody calls stiffness (Pa) of a solid: E/(1 - nu^2)."""
    return young / (1.0 - poisson**2)


def combine(a: Material, b: Material) -> Material:
    """The pair's effective properties, as Simbody's HuntCrossleyForce and compliant contact combine them.

    E^(-2/3) = E_a^(-2/3) + E_b^(-2/3): two surfaces of one material have 0.354 of its modulus, where Hertz's theory
    (1/E = 1/E_a + 1/E_b, `normal.effective_modulus`) has 0.5. The softer surface gives the larger share of the
    dissipation; each friction coefficient is the harmonic mean, 0 if either surface has none.
    """
    soft_a, soft_b = a.stiffness ** (-2.0 / 3.0), b.stiffness ** (-2.0 / 3.0)
    share = soft_a / (soft_a + soft_b)
    frictions = (divide(2.0 * x * y, jnp.asarray(x + y)) for x, y in zip(a[2:], b[2:], strict=True))
    return Material((soft_a + soft_b) ** -1.5, a.dissipation * share + b.dissipation * (1.0 - share), *frictions)


def hunt_crossley_force(depth, depth_rate, speed_squared, pair: Material, radius, transition_velocity=0.01):
    """OpenSim's and Simbody's HuntCrossleyForce: f = 4/3 sqrt(R) E x^1.5 (1 + 3/2 c x'), F_n = max(f, 0).

    `pair` is combined already. Its friction takes f before the cut: a sphere that is torn off faster than 2/(3 c) is
    pushed along its slip, which our law does not do (the drag is negative there).
    """
    hertz = hertz_stiffness(pair.stiffness, radius) * positive_power(depth, 1.5)
    f = hertz * (1.0 + 1.5 * pair.dissipation * depth_rate)
    return jnp.maximum(f, 0.0), hollars_drag(f, speed_squared, *pair[2:], transition_velocity)


def compliant_contact_force(depth, depth_rate, speed_squared, pair: Material, radius, transition_velocity=0.01):
    """Simbody's CompliantContactSubsystem on a circular contact: same normal force, with Stribeck friction of it."""
    F_n, _ = hunt_crossley_force(depth, depth_rate, speed_squared, pair, radius)
    return F_n, stribeck_drag(F_n, speed_squared, *pair[2:], transition_velocity)


def contact_of_materials(sphere: Material, ground: Material, radius, transition_velocity=0.01) -> Contact:
    """Our Contact of two Simbody or OpenSim materials: k_n = 4/3 sqrt(R) E, chi = 3/2 c k_n."""
    pair = combine(sphere, ground)
    stiffness = hertz_stiffness(pair.stiffness, radius)
    return Contact(stiffness, 1.5 * pair.dissipation * stiffness, *pair[2:], transition_velocity)


def materials_of_contact(contact: Contact, radius, ground_stiffness=None) -> tuple[Material, Material]:
    """Simbody or OpenSim materials of (sphere, ground): E = 3 k_n/(4 sqrt(R)), c = 2 chi/(3 k_n).

    Both get the same dissipation and friction, which combine to themselves. Without `ground_stiffness` both get the
    same modulus, 2^1.5 E, as in a model whose one set of parameters names sphere and plane; with it (Pa) the sphere
    gets what is left. A ground that is softer than the pair has no equivalent. The transition velocity (m/s) is a
    property of the tool's whole force, not of a material.
    """
    modulus = contact.stiffness / hertz_stiffness(1.0, radius)
    if ground_stiffness is None:
        sphere_stiffness = ground_stiffness = 2.0**1.5 * modulus
    else:
        _refuse(ground_stiffness <= modulus, f"ground_stiffness is {ground_stiffness} Pa; allowed: above {modulus} Pa.")
        sphere_stiffness = (modulus ** (-2.0 / 3.0) - ground_stiffness ** (-2.0 / 3.0)) ** -1.5
    rest = (2.0 * contact.damping / (3.0 * contact.stiffness), *contact[2:5])
    return Material(sphere_stiffness, *rest), Material(ground_stiffness, *rest)


class SmoothSphere(NamedTuple):
    """Parameters of OpenSim's SmoothSphereHalfSpaceForce, with its own names and defaults.

    stiffness in Pa (of each of two equal materials), dissipation in s/m, frictions as in Material, transition_velocity
    in m/s, hertz_smoothing in 1/m, hunt_crossley_smoothing in s/m. constant_contact_force is documented in N, and is
    added to depth^2 in m^2 and to |v_t|^2 in m^2/s^2.
    """

    stiffness: Any
    dissipation: Any = 0.0
    static_friction: Any = 0.0
    dynamic_friction: Any = 0.0
    viscous_friction: Any = 0.0
    transition_velocity: Any = 0.01
    constant_contact_force: Any = 1e-5
    hertz_smoothing: Any = 300.0
    hunt_crossley_smoothing: Any = 50.0


def smooth_sphere_force(depth, depth_rate, speed_squared, sphere: SmoothSphere, radius):
    """OpenSim's SmoothSphereHalfSpaceForce; it acts out of contact, too, and pulls a little where ours is cut to 0.

    F_n = k_n (x^2 + cf)^(3/4) (1 + 3/2 c x') S(b_d x) S(b_v (x' + 2/(3 c))), S(z) = 1/2 + 1/2 tanh(z), friction as in
    HuntCrossleyForce with |v_t|^2 + cf for |v_t|^2.
    """

    def step(z):
        return jax.nn.sigmoid(2.0 * z)  # the same function, with its digits also where it is small

    cf, c = sphere.constant_contact_force, jnp.asarray(sphere.dissipation)
    hertz = contact_of_smooth_sphere(sphere, radius).stiffness * (depth**2 + cf) ** 0.75
    not_torn = jnp.where(c > 0, step(sphere.hunt_crossley_smoothing * (depth_rate + divide(2.0, 3.0 * c))), 1.0)
    F_n = hertz * step(sphere.hertz_smoothing * depth) * (1.0 + 1.5 * c * depth_rate) * not_torn
    return F_n, hollars_drag(F_n, speed_squared + cf, *sphere[2:6])


def contact_of_smooth_sphere(sphere: SmoothSphere, radius) -> Contact:
    """Our Contact that a SmoothSphereHalfSpaceForce approaches as its smoothing goes: sphere and plane alike."""
    material = Material(*sphere[:5])
    return contact_of_materials(material, material, radius, sphere.transition_velocity)


def smooth_sphere_of_contact(
    contact: Contact, radius, constant_contact_force=1e-5, hertz_smoothing=300.0, hunt_crossley_smoothing=50.0
) -> SmoothSphere:
    """SmoothSphere with our Contact's numbers and that smoothing, OpenSim's defaults; it is not our force (LAWS.md)."""
    material, _ = materials_of_contact(contact, radius)
    smoothing = (constant_contact_force, hertz_smoothing, hunt_crossley_smoothing)
    return SmoothSphere(*material, contact.transition_velocity, *smoothing)


# ---------------------------------------------------------------- MuJoCo


class Mujoco(NamedTuple):
    """MuJoCo's parameters of one contact: solref, solimp, friction[0] and the option impratio, with its defaults.

    solref is (timeconst in s, dampratio), or, negative, (-stiffness in 1/s^2, -damping in 1/s); solimp is (d_0,
    d_width, width in m, midpoint, power).
    """

    solref: tuple[Any, Any] = (0.02, 1.0)
    solimp: tuple[Any, Any, Any, Any, Any] = (0.9, 0.95, 0.001, 0.5, 2.0)
    friction: Any = 1.0
    impratio: Any = 1.0


def mujoco_impedance(depth, solimp):
    """MuJoCo's impedance d(r), 0.0001 to 0.9999: a polynomial sigmoid from d_0 at touch to d_width at depth `width`."""
    d_0, d_width, midpoint = (jnp.clip(solimp[i], 1e-4, 1.0 - 1e-4) for i in (0, 1, 3))
    width, power = jnp.asarray(solimp[2]), jnp.maximum(solimp[4], 1.0)
    x = jnp.clip(divide(depth, width), 0.0, 1.0)
    below = midpoint * positive_power(x / midpoint, power)
    above = 1.0 - (1.0 - midpoint) * positive_power((1.0 - x) / (1.0 - midpoint), power)
    share = jnp.where(width > 0, jnp.where(x <= midpoint, below, above), 0.5)
    return d_0 + share * (d_width - d_0)


def _mujoco_reference(solref, d_width):
    """(K, B) of MuJoCo's reference acceleration -B v - K d(r) r, from either format of solref."""
    first, second = jnp.asarray(solref[0]), jnp.asarray(solref[1])
    _refuse(isinstance(solref[0], int | float) and (solref[0] > 0) != (solref[1] > 0), f"solref is {solref}: one sign.")
    d_width = jnp.clip(d_width, 1e-4, 1.0 - 1e-4)
    stiffness = jnp.where(first > 0, divide(1.0, (first * second) ** 2), -first)
    damping = jnp.where(first > 0, divide(2.0, first), -second)
    return stiffness / d_width**2, damping / d_width


def mujoco_force(depth, depth_rate, speed_squared, free_acceleration, mass, contact: Mujoco):
    """MuJoCo's force on a point of `mass` (kg) with one elliptic contact: its convex problem solved in closed form.

    `free_acceleration` (m/s^2, along the outward normal, -9.81 for a weight) is what the point would have without the
    contact, none along the ground. With A = 1/mass and R = A (1 - d)/d, the force minimises 1/2 f (A + R) f +
    f (a_free - a_ref) in the cone |F_t| <= mu F_n. The mass is the one that MuJoCo sees at the contact: its
    approximation of A, made in the model's first posture.
    """
    d = mujoco_impedance(depth, contact.solimp)
    K, B = _mujoco_reference(contact.solref, contact.solimp[1])
    mu, speed = contact.friction, positive_sqrt(speed_squared)
    normal = 1.0 / (mass * d)
    tangent = (1.0 + (1.0 - d) / (d * contact.impratio)) / mass
    push = B * depth_rate + K * d * depth - free_acceleration
    sticks = (push > 0) & (B * speed * normal < mu * push * tangent)
    # On the cone the slip lifts the normal force: the solver trades one against the other.
    sliding = jnp.maximum((push + mu * B * speed) / (normal + mu**2 * tangent), 0.0)
    F_n = jnp.where(sticks, push / normal, sliding)
    drag = jnp.where(sticks, B / tangent, divide(mu * sliding, speed))
    return jnp.where(depth > 0, F_n, 0.0), jnp.where(depth > 0, drag, 0.0)


def linear_equivalent(depth, stiffness, damping, exponent=1.5):
    """(k in N/m, c in N s/m) of the `kelvin_voigt` with the force of `power_hunt_crossley` at one depth (m), any rate.

    Below that depth it is stiffer than the original, above it is softer: choose the depth at the working load.
    """
    power = positive_power(depth, exponent)
    return stiffness * power / depth, damping * power


def mujoco_of_kelvin_voigt(stiffness, damping, mass, mu=0.0, impedance=1e-4, direct=True) -> Mujoco:
    """MuJoCo parameters of `normal.kelvin_voigt` (k in N/m, c in N s/m) for the `mass` (kg) seen at the contact.

    With constant impedance d the contact is a spring k = mass stiffness and a damper c = mass damping of solref, plus
    the share d of whatever else pushes the point into the ground: d = 0.0001, the least that MuJoCo takes, leaves the
    spring. The other format is timeconst 2 mass/c, dampratio c/(2 sqrt(k mass)): it has no undamped contact, and
    MuJoCo raises its timeconst to two time steps. mu is the same cone; static over dynamic or viscous friction has no
    equivalent.
    """
    solimp = (impedance, impedance, 0.001, 0.5, 2.0)
    _refuse((impedance < 1e-4) | (impedance > 1.0 - 1e-4), f"impedance is {impedance}; allowed: 0.0001 to 0.9999.")
    if direct:
        return Mujoco((-stiffness / mass, -damping / mass), solimp, mu)
    _refuse(damping <= 0, f"damping is {damping} N s/m; allowed with timeconst: above 0. Take the direct format.")
    return Mujoco((2.0 * mass / damping, 0.5 * damping / (stiffness * mass) ** 0.5), solimp, mu)


def kelvin_voigt_of_mujoco(contact: Mujoco, mass):
    """(k in N/m, c in N s/m) of `normal.kelvin_voigt` for a MuJoCo contact of constant impedance that carries no load.

    An impedance that varies with depth (d_0 unlike d_width, as in MuJoCo's default) is no linear law.
    """
    d_0, d_width = contact.solimp[:2]
    _refuse(d_0 != d_width, f"solimp is {contact.solimp}; allowed: d_0 = d_width, a constant impedance.")
    K, B = _mujoco_reference(contact.solref, d_width)
    d = jnp.clip(d_width, 1e-4, 1.0 - 1e-4)
    return mass * d**2 * K, mass * d * B
