"""The contacts of a fitted model, one by one: what each is made of, where the fit took it, and its force there.

Other tools know one force per sphere. Here a fit is taken apart into such spheres, each with the depths, rates and
slips that it went through and the force that our laws gave, so that a conversion can be held against them.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxcontact.contact.normal import restitution_to_damping
from jaxcontact.errors import InputError
from jaxcontact.integrate.machine import FINISHED, simulate
from jaxcontact.models import get_layout, sole
from jaxcontact.models.layout import Elements, Layout
from jaxcontact.models.layouts import NINE_SPHERES, THREE_SPHERES
from jaxcontact.models.prescribed import sagittal_feet
from jaxcontact.models.shape import shaped
from jaxcontact.models.stance import FRAMES, reference_motion
from jaxcontact.study.fit.fitting import Fit
from jaxcontact.study.fit.problem import Problem
from jaxcontact.study.units import to_si
from jaxcontact.vectors import dot

POINTS = 201  # of the run that an impact's states are taken from
# Where a run does not tell how its elements moved, states are taken on a grid: rates and slips of a foot in stance.
_RATES = (-0.2, -0.1, 0.0, 0.1, 0.2)  # m/s
_SLIPS = (0.0, 0.01, 0.05, 0.2, 0.5)  # m/s
_DEPTHS = 21
_LARGER = 0.02  # m
_TIP_RADIUS = 0.05  # m, of the crutch (Crutch section 5): its model has a point there
_STILL = 1e-9  # m/s: slower than this only rounding is
CREEP = 0.01  # m/s: slip at which another tool's friction reaches its cone, for laws of ours that truly stick
_LINKS = {"crutch": ("forearm", "elbow"), "compass": ("leg", "hip")}  # which link strikes, and where it hangs


class States(NamedTuple):
    """What a contact went through, and our force there: arrays (states,). Signs as in `contact.normal` and `friction`.

    `F_t` is along the slip: negative where it brakes.
    """

    depth: Any  # m, negative above the ground
    rate: Any  # m/s, positive while pressing in
    slip: Any  # m/s, along the ground
    F_n: Any  # N
    F_t: Any  # N
    sticks: Any = False  # whether ours truly sticks, with any force in the cone: no other tool does


class Sphere(NamedTuple):
    """One sphere of a fitted model. `place` is its centre in the body's frame: x forward, y left, z up, in metres."""

    name: str
    body: str
    origin: str  # where the body's frame begins
    place: tuple[float, float, float]
    radius: float  # m
    weight: float  # stiffness relative to that of the law
    damping: float  # damping relative to that of the law, per stiffness
    friction: float  # friction coefficient relative to that of the law
    states: States


class Spheres(NamedTuple):
    """All spheres of a fitted model, with the laws that they share."""

    spheres: tuple[Sphere, ...]
    laws: Mapping[str, float]  # SI
    normal: str  # name of the law
    friction: str
    visited: str  # which states the spheres have, in words
    together: bool  # whether state i of all spheres is the same moment
    remarks: tuple[str, ...]  # what is not in the spheres


def spheres_of(fit: Fit) -> Spheres:
    """Take a fit apart into spheres; models whose contacts are no spheres are refused."""
    problem = fit.problem
    check_spheres(problem)
    stated = fit.stated()
    params = {p.name: stated[p.name] * to_si(p.unit) for p in problem.model.parameters}
    kind = problem.model.name.partition(":")[0]
    return _of_impact(fit, kind, params) if "k_n" in params else _of_foot(fit, kind, params)


def check_spheres(problem: Problem) -> None:
    """Refuse models whose contacts are no forces on spheres."""
    names = [parameter.name for parameter in problem.model.parameters]
    if "k_n" in names:
        if problem.method != "compliant":
            raise InputError(
                f'method "{problem.method}" has no contact force, only impulses\nallowed: method = "compliant"'
            )
    elif "s1.radius" not in names:
        raise InputError(
            f"model {problem.model.name} does not stand on spheres\n"
            "allowed: crutch, compass, and feet on a layout of spheres, as nine_spheres"
        )
    elif problem.method == "rolling":
        raise InputError('a rolling surface is no contact force\nallowed: method = "spheres"')


# ---------------------------------------------------------------- one tip


def _of_impact(fit: Fit, kind: str, params: Mapping[str, float]) -> Spheres:
    problem = fit.problem
    machine = problem.model.recorder(problem.method, problem.choices, problem.settings, POINTS)
    found = jax.jit(lambda p: simulate(machine, p))({name: jnp.asarray(value) for name, value in params.items()})
    if int(found["outcomes"]["status"]) != FINISHED:
        raise InputError("the fitted model's run does not finish: there is no contact to convert")
    seen = {name: np.asarray(values) for name, values in found["curves"].items()}
    direction = np.where(seen["v_t_tip"] < 0, -1.0, 1.0)
    states = States(
        seen["depth"],
        -seen["v_n_tip"],
        np.abs(seen["v_t_tip"]),
        seen["F_n"],
        seen["F_t"] * direction,
        (problem.choices["friction"] == "coulomb") & (seen["F_n"] > 0) & (np.abs(seen["v_t_tip"]) < _STILL),
    )
    link, joint = _LINKS.get(kind, ("link", "joint"))
    radius = params.get("R", _TIP_RADIUS)
    remarks = []
    if "R" not in params:
        remarks.append(
            f"the model's tip is a point; the sphere has the radius {radius:g} m of Crutch section 5, its lowest point "
            "is the tip where the link is upright"
        )
    if problem.choices["friction"] != "regularised":
        remarks.append(f"true sticking has no equivalent: under load the tip creeps, at up to about {CREEP:g} m/s")
    down = -(params[f"{link}.length"] - radius)
    sphere = Sphere("tip", link, joint, (0.0, 0.0, down), radius, 1.0, 1.0, 1.0, states)
    return Spheres(
        (sphere,),
        params,
        problem.choices["normal"],
        problem.choices["friction"],
        f"{POINTS} moments of the fitted impact",
        True,
        tuple(remarks),
    )


# ---------------------------------------------------------------- spheres under a foot


def _of_foot(fit: Fit, kind: str, params: Mapping[str, float]) -> Spheres:
    problem = fit.problem
    layout = _layout(problem.model.name, kind)
    if "restitution" in params and "chi" not in params:
        rule = problem.choices["restitution"]
        chi = restitution_to_damping(params["restitution"], params["approach_speed"], params["k"], rule)
        params = {**params, "chi": float(chi)}
    toes = params.get("toe_joint.x", 0.0) + params.get("toes.x", 0.0)
    forward = jnp.asarray([toes if segment == "toes" else 0.0 for segment in layout.segments])
    elements = layout.elements(params)
    if "arch" in params:
        elements = shaped(elements, forward, params)
    if kind == "stance":
        frames = problem.points if any(channel.kind == "frames" for channel in problem.channels) else FRAMES
        states = _along_the_gait(layout, elements, params, problem.choices, frames)
        visited = f"{frames} frames of the fitted stance"
    elif kind == "walk":
        moves = probed(fit, layout, {"normal": "hunt_crossley", "friction": "coulomb"})
        states = [
            States(*move, *_force(elements.take([i]), params, problem.choices, *move)) for i, move in enumerate(moves)
        ]
        visited = f"{problem.points} frames of the measured stance"
    else:
        states, visited = _on_a_grid(fit, elements, params)
    spheres = tuple(
        Sphere(
            name,
            segment,
            f"the centre of mass of the {'main foot' if segment == 'foot' else 'toes'}",
            (float(elements.x[i]), float(elements.y[i]), float(elements.z[i])),
            float(elements.radius[i]),
            float(elements.weight[i]),
            float(elements.damping[i]),
            float(elements.friction[i]),
            states[i],
        )
        for i, (name, segment) in enumerate(zip(layout.names(), layout.segments, strict=True))
    )
    chosen = problem.choices["normal"], problem.choices["friction"]
    return Spheres(spheres, params, *chosen, visited, kind in ("stance", "walk"), _remarks(problem.source, params))


def _remarks(source: Mapping[str, Any], params: Mapping[str, float]) -> tuple[str, ...]:
    """What a tool must be told besides its forces: how the foot hangs in its motion."""
    found = []
    moved = [name for name in params if name.startswith("pose.") and params[name] != 0]
    if moved:
        told = ", ".join(f"{name} = {params[name]:.6g}" for name in moved)
        found.append(f"the foot's pose was moved ({told}; m and rad): move your foot alike")
    if "mount.x" in params:
        x, y, z = (params[f"mount.{axis}"] for axis in "xyz")
        found.append(
            f"the main foot's frame begins {x:.6g} m in front of the heel marker at foot-flat, {y:.6g} m towards the "
            f"big toe, {z:.6g} m above, turned heel up by {params['mount.pitch']:.6g} rad; y is towards the big toe"
            + (": the left foot is told as a right one" if source.get("mirrored") else "")
        )
    if any(name.startswith("correct.") and params[name] != 0 for name in params):
        found.append("the measured pose was corrected by the fit: without that correction forces differ")
    return tuple(found)


def _layout(name: str, kind: str) -> Layout:
    named = name.partition(":")[2]
    if named:
        return get_layout(named)
    return THREE_SPHERES if kind == "rollover" else NINE_SPHERES


def without_idle(parts: Spheres, idle: Callable[[Sphere], bool] | None = None) -> Spheres:
    """Leave out spheres that tell nothing about a force: those that never carry load, or those that are `idle`."""
    idle = idle or (lambda sphere: not np.any((sphere.states.depth > 0) & (sphere.states.F_n > 0)))
    left_out = [sphere.name for sphere in parts.spheres if idle(sphere)]
    if len(left_out) == len(parts.spheres):
        raise InputError("no sphere carries load in the fit: there is nothing to convert")
    if not left_out:
        return parts
    kept = tuple(sphere for sphere in parts.spheres if sphere.name not in left_out)
    told = f"left out, since they carry no load in the fit: {', '.join(left_out)}"
    return parts._replace(spheres=kept, remarks=(*parts.remarks, told))


def friction_of(parts: Spheres, sphere: Sphere) -> tuple[float, float, float]:
    """Static and dynamic coefficient of a sphere, and the slip (m/s) at which its friction reaches the cone."""
    laws = parts.laws
    if parts.friction == "shoe":
        mu, peak = laws["c7"] * sphere.friction, float(np.max(sphere.states.F_n))
        grip = sphere.weight * laws["c6"]
        return mu, mu, mu * peak / grip if grip > 0 and mu * peak > 0 else CREEP
    mu = laws["mu"] * sphere.friction
    static = mu * laws.get("mu_ratio", 1.0)
    sticks = "mu_ratio" in laws and parts.friction != "regularised"
    return static, mu, CREEP if sticks else laws["v_slip"]


def _force(element: Elements, laws, choices, depth, rate, slip) -> tuple[np.ndarray, np.ndarray]:
    depth, rate, slip = (jnp.asarray(a, float) for a in (depth, rate, slip))
    down = depth > 0
    F_n = jnp.where(down, sole.NORMAL_LAWS[choices["normal"]](laws, element, depth, rate), 0.0)
    drag = sole.FRICTION_LAWS[choices["friction"]](laws, element, F_n, slip**2, down)
    return np.asarray(F_n), np.asarray(-drag * slip)


def _along_the_gait(layout: Layout, elements: Elements, params, choices, frames: int) -> list[States]:
    """What each element goes through in the motion that the model prescribes, in the layout's order."""
    motion = reference_motion(layout, choices, frames)
    feet = sagittal_feet(motion, params, params["pose.height"], params["pose.pitch"])
    found = []
    for i, segment in enumerate(layout.segments):
        one = elements.take([i])
        touch = sole.touch_elements(getattr(feet, segment), layout.kind, one)
        depth, rate = -np.ravel(touch.gap), -np.ravel(touch.v_n)
        slip = np.sqrt(np.ravel(np.broadcast_to(dot(touch.v_t, touch.v_t), np.shape(touch.gap))))
        found.append(States(depth, rate, slip, *_force(one, params, choices, depth, rate, slip)))
    return found


def probed(fit: Fit, layout: Layout, choices: Mapping[str, str]) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(depth, rate, slip) of each sphere along a motion that only its model knows, as the model's own forces tell.

    One sphere carries at a time: by a linear spring its force is the depth, with hysteresis the rate, and by friction
    far below its slip scale the slip. Spheres that are larger by `_LARGER` tell how far above the ground they are:
    their lowest point has the same normal velocity. Slip is told in contact, elsewhere it is 0.
    """
    model, n = fit.problem.model, len(layout)
    stated = fit.stated()
    lanes = {p.name: np.full(3 * n, stated[p.name] * to_si(p.unit)) for p in model.parameters}
    for i, name in enumerate(layout.names()):
        lanes[f"{name}.weight"] = np.tile(np.arange(n) == i, 3).astype(float)
        lanes[f"{name}.damping"] = lanes[f"{name}.friction"] = np.ones(3 * n)
        lanes[f"{name}.radius"] = lanes[f"{name}.radius"] + np.repeat([_LARGER, _LARGER, 0.0], n)
    lanes |= {"m": np.ones(3 * n), "k": np.full(3 * n, 1e6), "chi": np.repeat([0.0, 1e5, 0.0], n)}
    lanes |= {"mu": np.repeat([0.0, 0.0, 1.0], n), "v_slip": np.full(3 * n, 10.0)}
    machine = model.recorder(fit.problem.method, choices, fit.problem.settings, fit.problem.points)
    curves = jax.jit(lambda p: machine.finish(p, machine.init(p))["curves"])(lanes)
    still, damped, sliding = np.split(np.asarray(curves["F_z"]), 3, axis=1)
    near = still > 0
    spring = np.where(near, still, 1.0)
    depth = np.where(near, still / 1e6 - _LARGER, -_LARGER)
    rate = np.where(near, (damped / spring - 1.0) * 1e6 / 1e5, 0.0)
    shear = sum(np.split(np.asarray(curves[name]), 3, axis=1)[2] ** 2 for name in ("F_x", "F_y") if name in curves)
    share = np.sqrt(np.where(sliding > 0, shear / np.where(sliding > 0, sliding, 1.0) ** 2, 0.0))
    slip = 10.0 * share / np.sqrt(np.maximum(1.0 - share**2, 1e-12))
    return [(depth[:, i], rate[:, i], slip[:, i]) for i in range(n)]


def _on_a_grid(fit: Fit, elements: Elements, params) -> tuple[list[States], str]:
    """Depths from 0 to where the element alone bears the peak load, at rates and slips of a foot in stance."""
    peak = peak_load(fit)
    choices = fit.problem.choices
    found = []
    for i in range(len(elements.x)):
        one = elements.take([i])
        depths = np.geomspace(1e-6, 0.1, 2001)
        bears, _ = _force(one, params, choices, depths, 0.0 * depths, 0.0 * depths)
        deepest = depths[min(int(np.searchsorted(bears, peak)), len(depths) - 1)]
        grid = np.meshgrid(np.linspace(0.0, deepest, _DEPTHS), _RATES, _SLIPS, indexing="ij")
        depth, rate, slip = (axis.ravel() for axis in grid)
        found.append(States(depth, rate, slip, *_force(one, params, choices, depth, rate, slip)))
    return found, (
        f"depths from 0 to where a sphere alone bears the peak load of {peak:.4g} N, at rates of {_RATES[0]:g} to "
        f"{_RATES[-1]:g} m/s and slips of up to {_SLIPS[-1]:g} m/s"
    )


def peak_load(fit: Fit) -> float:
    """Largest normal load (N) that the fitted model has: of its vertical force, or the body's weight."""
    for name in ("F_z", "F_n", "F_z_peak"):
        if name in fit.predictions and np.isfinite(fit.predictions[name]).any():
            return float(np.nanmax(fit.predictions[name]))
    if fit.problem.body_weight is not None:
        return fit.problem.body_weight
    raise InputError("the peak load is not known: fit the vertical force F_z, or give the body weight")
