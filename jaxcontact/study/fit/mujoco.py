"""Fitted spheres as contact pairs of MuJoCo, with what the conversion costs.

MuJoCo has no Hunt-Crossley law. Its contact pushes towards a reference acceleration, as much as its impedance d and the
mass that it sees allow (LAWS.md). With a small d it is a spring and a damper that the impedance shapes over depth:

    F_n = k x s^2 + c x' s,    s = d/d_width = r + (1 - r) min(x/width, 1)

(solimp with power 1; stiffness k/mass and damping c/mass in solref; r = d_0/d_width). r = 1 is the linear
`kelvin_voigt`, which is carried over as it is. Of other laws k, c and r are the nearest over what the fit went through,
by least squares. Friction keeps the cone; below it MuJoCo has a damper, whose size is the nearest too. It is given to
the pair alone (solreffriction) and made small, with impratio in its place, since MuJoCo's normal force rises by it.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple
from xml.sax.saxutils import quoteattr

import jax
import jax.numpy as jnp
import numpy as np

from jaxcontact.contact.bridges import mujoco_impedance
from jaxcontact.errors import InputError
from jaxcontact.safemath import divide
from jaxcontact.study.fit.comparison import Carried, comment, compared
from jaxcontact.study.fit.fitting import Fit
from jaxcontact.study.fit.spheres import Sphere, Spheres, friction_of, spheres_of, without_idle
from jaxcontact.study.version import package_version

IMPRATIO = 100.0
LEAST_IMPEDANCE = 1e-4  # that MuJoCo takes; the contact takes this share of every other load, beside its spring
_RATIOS = np.geomspace(0.02, 50.0, 205)  # d_0/d_width that are tried, 1 among them
_DRAGS = np.geomspace(1e-3, 1e2, 101)  # dampers below the cone that are tried, relative to that of our law
_STEPS = 20.0  # time steps in sqrt(mass/stiffness)


class Pair(NamedTuple):
    """One contact pair: k in N/m and c in N s/m at depth `width` (m) and beyond, r = d_0/d_width, and friction."""

    stiffness: float
    damping: float
    ratio: float
    width: float
    mu: float
    drag: float  # N s/m, below the cone, at depth `width`

    @property
    def solimp(self) -> tuple[Any, Any, float, float, float]:
        """MuJoCo's d_0, d_width, width, midpoint, power; the smaller impedance is the least that there is."""
        d_width = LEAST_IMPEDANCE / jnp.minimum(self.ratio, 1.0)  # or a traced one
        return self.ratio * d_width, d_width, self.width, 0.5, 1.0

    def time_step(self, mass: float) -> float:
        """A time step (s) that resolves the spring where it is stiffest: at `width`, or at touch where it softens."""
        stiffest = self.stiffness * max(3.0 - 2.0 * self.ratio, self.ratio**2)
        return float(np.sqrt(mass / stiffest)) / _STEPS


def to_mujoco(fit: Fit, *, mass: float = 1.0) -> Carried:
    """Write fitted contacts as geoms and contact pairs of MJCF.

    `mass` (kg) is what MuJoCo sees at the contacts, 1/body_invweight0 of their body: its solref are accelerations. The
    text is a model by itself, of free bodies with that mass, so that it can be loaded and looked at.
    """
    if not (np.isfinite(mass) and mass > 0):
        raise InputError(f"mass = {mass:g} kg: a mass above 0 is needed")
    parts = without_idle(spheres_of(fit))
    pairs = [_pair(parts, sphere) for sphere in parts.spheres]
    forces = [lambda depth, rate, slip, pair=pair: _pair_force(depth, rate, slip, pair, mass) for pair in pairs]
    errors, of_each = compared(parts, forces, "MuJoCo")
    errors = (*errors, *_left_out(parts), *_to_know(pairs, mass), *parts.remarks)
    return Carried(_document(fit, parts, pairs, mass, of_each, errors), errors)


# ---------------------------------------------------------------- what MuJoCo makes of a pair


def pair_force(depth, rate, slip, pair: Pair, mass):
    """(F_n, drag) of MuJoCo for one pair on a body of `mass` without other loads, slip along one direction.

    Its convex problem in closed form, as `bridges.mujoco_force`, with a reference of its own for friction. On the cone
    the slip lifts the normal force: the solver trades one against the other.
    """
    d = mujoco_impedance(depth, pair.solimp)
    s, speed = d / pair.solimp[1], jnp.abs(slip)
    normal, tangent = 1.0 / (mass * d), (1.0 + (1.0 - d) / (d * IMPRATIO)) / mass
    push = (pair.stiffness * depth * s**2 + pair.damping * rate * s) * normal
    pull = _friction_damping(pair, mass) / pair.solimp[1]
    sticks = (push > 0) & (pull * speed * normal < pair.mu * push * tangent)
    sliding = jnp.maximum((push + pair.mu * pull * speed) / (normal + pair.mu**2 * tangent), 0.0)
    F_n = jnp.where(sticks, push / normal, sliding)
    drag = jnp.where(sticks, pull / tangent, divide(pair.mu * sliding, speed))
    return jnp.where(depth > 0, F_n, 0.0), jnp.where(depth > 0, drag, 0.0)


_pair_force = jax.jit(pair_force)


def _friction_damping(pair: Pair, mass: float) -> float:
    """Damping (1/s) of solreffriction that gives the pair its drag at depth `width`."""
    d = pair.solimp[1]
    return pair.drag * d * (1.0 + (1.0 - d) / (d * IMPRATIO)) / mass


# ---------------------------------------------------------------- the nearest pair


def _pair(parts: Spheres, sphere: Sphere) -> Pair:
    states = sphere.states
    if not sphere.radius > 0:
        raise InputError(f"{sphere.name}: radius = {sphere.radius:g} m\nallowed in MuJoCo: above 0")
    carries = (states.depth > 0) & (states.F_n > 0)
    width = float(np.max(states.depth[carries]))
    if linear := _linear(parts, sphere):
        stiffness, damping, ratio = (*linear, 1.0)
    else:
        stiffness, damping, ratio = _nearest(states.depth[carries], states.rate[carries], states.F_n[carries], width)
    _, mu, slip = friction_of(parts, sphere)
    pair = Pair(stiffness, damping, ratio, width, float(mu), 0.0)
    return pair._replace(drag=_nearest_drag(pair, sphere, mu * float(np.max(states.F_n)) / slip))


def _linear(parts: Spheres, sphere: Sphere) -> tuple[float, float] | None:
    """(k, c) of a law that MuJoCo has, else None."""
    laws = parts.laws
    if parts.normal == "kelvin_voigt" and "k_linear" in laws:
        return float(laws["k_linear"]), float(laws["c_linear"])
    if laws.get("m") != 1.0:
        return None
    if parts.normal == "kelvin_voigt":
        return float(laws["k"] * sphere.weight), float(laws["c"] * sphere.weight * sphere.damping)
    if parts.normal == "hunt_crossley" and laws["chi"] * sphere.damping == 0:
        return float(laws["k"] * sphere.weight), 0.0
    return None


def _nearest(depth: np.ndarray, rate: np.ndarray, F_n: np.ndarray, width: float) -> tuple[float, float, float]:
    """(k, c, r) by least squares over states that carry load; k > 0, c >= 0."""
    best = (np.inf, 0.0, 0.0, 1.0)
    for ratio in _RATIOS:
        s = ratio + (1.0 - ratio) * depth / width
        spring, damper = depth * s**2, rate * s
        stiffness, damping = np.linalg.lstsq(np.column_stack([spring, damper]), F_n, rcond=None)[0]
        if damping < 0 or stiffness <= 0:
            stiffness, damping = spring @ F_n / (spring @ spring), 0.0
        off = float(np.sum((stiffness * spring + damping * damper - F_n) ** 2))
        best = min(best, (off, float(stiffness), float(damping), float(ratio)))
    return best[1:]


def _nearest_drag(pair: Pair, sphere: Sphere, scale: float) -> float:
    """The damper below the cone, N s/m: nearest to our friction where it slides, by least squares; else `scale`."""
    states = sphere.states
    slides = (states.depth > 0) & (states.slip > 0) & (states.F_n > 0) & ~np.asarray(states.sticks)
    if not slides.any() or pair.mu == 0:
        return scale
    tried = pair._replace(drag=jnp.asarray(scale * _DRAGS))  # type: ignore[arg-type]
    depth, rate, slip = (jnp.asarray(a)[:, None] for a in states[:3])
    F_n, drag = (np.asarray(a) for a in _pair_force(depth, rate, slip, tried, 1.0))
    # Both forces count: a damper that lifts the normal force is not near.
    off = (drag * states.slip[:, None] + states.F_t[:, None]) ** 2 + (F_n - states.F_n[:, None]) ** 2
    return float(scale * _DRAGS[int(np.argmin(np.sum(off[slides], axis=0)))])


# ---------------------------------------------------------------- in words


def _left_out(parts: Spheres) -> tuple[str, ...]:
    found = []
    if not all(_linear(parts, sphere) for sphere in parts.spheres):
        exponent = f" with exponent {parts.laws['m']:.6g}" if "m" in parts.laws and parts.normal != "shoe" else ""
        found.append(
            f"the normal law ({parts.normal}{exponent}) has no equivalent: each pair has the spring and damper, shaped "
            "by MuJoCo's impedance, that is nearest to it by least squares over the states named above"
        )
    if parts.laws.get("mu_ratio", 1.0) != 1.0 and parts.friction != "regularised":
        found.append("static friction above dynamic is left out: MuJoCo has one coefficient")
    if parts.friction == "coulomb_viscous" and parts.laws["mu_viscous"] != 0:
        found.append(f"viscous friction of {parts.laws['mu_viscous']:.6g} N s/m beyond the cone is left out")
    if parts.friction == "tangential_compliance":
        found.append("the tangential spring is left out")
    return tuple(found)


def _to_know(pairs: list[Pair], mass: float) -> tuple[str, ...]:
    most = max(max(pair.solimp[:2]) for pair in pairs)
    coupled = (
        "errors are of one pair at a time: MuJoCo solves pairs of one body together, and where several very stiff ones "
        "are pressed in at once, friction of one may differ by several times what is stated",
    )
    return (coupled if len(pairs) > 1 else ()) + (
        f"solref and solreffriction are for bodies whose body_invweight0 is {1 / mass:.6g} /kg: in your model multiply "
        f"them by its body_invweight0 times {mass:.6g} kg",
        f"a contact takes up to {100 * most:.2g} % of the other loads on its body, beside these forces",
        f"the spring is explicit: time steps must resolve it, as {_time_step(pairs, mass):.1g} s do for {mass:.6g} kg",
    )


def _time_step(pairs: list[Pair], mass: float) -> float:
    return min(pair.time_step(mass) for pair in pairs)


# ---------------------------------------------------------------- as MJCF


def _numbers(*values: Any) -> str:
    return " ".join(f"{float(value):.15g}" for value in values)


def _document(fit: Fit, parts: Spheres, pairs: list[Pair], mass: float, of_each, errors) -> str:
    bodies: dict[str, list[Sphere]] = {}
    for sphere in parts.spheres:
        bodies.setdefault(sphere.body, []).append(sphere)
    head = [
        f"Contact pairs fitted by jaxcontact {package_version()}: {fit.problem.title or fit.problem.model.name}. "
        f"Laws: normal {parts.normal}, friction {parts.friction}. Units: m, kg, s, N.",
        "Copy geoms and pairs into your model, with this cone and impratio. Frames: "
        + "; ".join(
            f"{body} begins at {spheres[0].origin}, x forward, y left, z up" for body, spheres in bodies.items()
        ),
        *errors,
    ]
    lines = [*(comment(line) for line in head), '<mujoco model="fitted_contacts">']
    step = f"{_time_step(pairs, mass):.1g}"
    lines += [f'  <option cone="elliptic" impratio="{_numbers(IMPRATIO)}" timestep="{step}"/>', "  <worldbody>"]
    lines += ['    <geom name="floor" type="plane" size="0 0 1" contype="0" conaffinity="0"/>']
    for body, spheres in bodies.items():
        lines += [f"    <body name={quoteattr(body)}>", "      <freejoint/>"]
        still = _numbers(mass, mass, mass)  # kg m^2: so large that the body hardly turns
        lines += [f'      <inertial pos="0 0 0" mass="{_numbers(mass)}" diaginertia="{still}"/>']
        lines += [f"      {_geom(sphere)}" for sphere in spheres]
        lines += ["    </body>"]
    lines += ["  </worldbody>", "  <contact>"]
    for sphere, pair, told in zip(parts.spheres, pairs, of_each, strict=True):
        lines += [f"    {comment(told)}", f"    {_pair_element(sphere, pair, mass)}"]
    return "\n".join([*lines, "  </contact>", "</mujoco>"]) + "\n"


def _geom(sphere: Sphere) -> str:
    place, size = _numbers(*sphere.place), _numbers(sphere.radius)
    return (
        f'<geom name={quoteattr(sphere.name)} type="sphere" pos="{place}" size="{size}" contype="0" conaffinity="0"/>'
    )


def _pair_element(sphere: Sphere, pair: Pair, mass: float) -> str:
    values: Mapping[str, str] = {
        "geom1": "floor",
        "geom2": sphere.name,
        "condim": "3",
        "friction": _numbers(pair.mu, pair.mu, 0, 0, 0),
        "solref": _numbers(-pair.stiffness / mass, -pair.damping / mass),
        "solreffriction": _numbers(-1.0, -_friction_damping(pair, mass)),
        "solimp": _numbers(*pair.solimp),
    }
    return f"<pair {' '.join(f'{name}={quoteattr(value)}' for name, value in values.items())}/>"
