"""A foot that rolls without slip on a rolling surface and carries a body on its ankle: the rolling surface as a joint.

Frame: x forward, y up; angles clockwise from vertical. The coordinates are the angles of foot and body alone; where the
ankle is follows from the foot's tilt (`contact.rolling.roll`), so nothing is stiff and nothing drifts. The ground's
force follows from Newton. It acts at the centre of pressure, may pull, and holds without slip: a run adds up the
impulse by which it would have to pull (`P_pull`, N s) and that of friction beyond `mu` (`P_slip`, N s).

State rows: angles of foot and body, their rates, then SUMS. The mode has a bit for each of STATES. An event leads from
one side of the surface to the other, since the radius of curvature may jump between them, and another whenever the
ground begins or ceases to pull or to hold what would slip: P_pull and P_slip add up from there, and have exact
derivatives.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp

from jaxcontact.bodies import linkage
from jaxcontact.bodies.symmetric import factor, solve_factored
from jaxcontact.contact import rolling
from jaxcontact.integrate import hybrid, record
from jaxcontact.integrate.machine import FINISHED, Machine
from jaxcontact.integrate.settings import Settings
from jaxcontact.models import touchdown
from jaxcontact.models.strike import lanes

SUMS = ("W_joint", "P_pull", "P_slip")
STATES = ("front", "pulls", "slips_forward", "slips_back")  # bits of the mode, in this order
REAR, FRONT = 0, 1


class Roller(NamedTuple):
    """A foot on its rolling surface, and a body on its ankle. SI units; lane-wide numbers.

    `torque(t, angle, rate)` (N m) is the ankle's on the body, clockwise, at the ankle's angle, body minus foot.
    """

    foot: linkage.Link  # from the ankle, as is the body
    body: linkage.Link
    surface: rolling.Surface
    flat: Any  # angle of the foot when the surface's tilt is 0, rad
    ankle: tuple[Any, Any]  # in the frame of the surface, m
    torque: Callable[[Any, Any, Any], Any]
    angles: tuple[Any, Any]  # of foot and body at the start, rad
    rates: tuple[Any, Any]
    end: Any  # angle of the body at which the run ends, rad
    mu: Any
    gravity: Any
    status: Any


class Rolled(NamedTuple):
    """A rolling foot at one moment: rates of change, and the ground's force."""

    tilt: Any  # of the surface, rad
    cop: Any  # centre of pressure from the footprint centre, m
    ankle: rolling.Rolling
    spin: tuple[Any, Any]  # accelerations of foot and body, rad/s^2
    torque: Any  # of the ankle on the body, N m
    force: tuple[Any, Any]  # forward and up, N


def look(r: Roller, t, mode, y) -> Rolled:
    """Equations of motion, with the place of the ankle a function p(alpha) of the foot's tilt.

    In the tree's equations for (x, y of the ankle, foot, body) put p' alpha_ddot + p'' alpha_dot^2 for the ankle's
    acceleration. The ground's force F has no power along (p', 1, 0), since the foot turns about the contact; so that
    row of the equations is free of it, and the first two give it afterwards.
    """
    links, angles, rates, spin_2 = (r.foot, r.body), [y[0], y[1]], [y[2], y[3]], y[2] ** 2
    surface = _one_side(r.surface, (mode & 1) == FRONT)
    tilt = y[0] - r.flat
    p = rolling.roll(surface, tilt, r.ankle)
    torque = r.torque(t, y[1] - y[0], y[3] - y[2])

    # Foot and body share the ankle and nothing else: their couplings with it (kg m), and none between them.
    mass, moment = linkage.total_mass(links), linkage.first_moment(links)
    sines, cosines = linkage.directions(angles)
    levers, _ = linkage.contributions(moment, sines, cosines)
    foot, body = zip(*linkage.jacobian(moment, sines, cosines), strict=True)
    (foot_inertia,), (_, body_inertia) = linkage.angle_matrix(linkage.pairing(links), sines, cosines)

    # What the ankle has to carry without any angular acceleration (N).
    swirl = linkage.centripetal(moment, rates, sines, cosines)
    bend = p.bend[0] * spin_2, p.bend[1] * spin_2
    load = mass * bend[0] + swirl[0], mass * (bend[1] + r.gravity) + swirl[1]
    matrix = [
        [foot_inertia + 2.0 * _dot(p.slope, foot) + mass * _dot(p.slope, p.slope)],
        [_dot(p.slope, body), body_inertia],
    ]
    right = [
        r.gravity * levers[0] - torque - _dot(foot, bend) - _dot(p.slope, load),
        r.gravity * levers[1] + torque - _dot(body, bend),
    ]
    spin = solve_factored(factor(matrix), right)
    F_t, F_n = ((mass * p.slope[i] + foot[i]) * spin[0] + body[i] * spin[1] + load[i] for i in range(2))
    return Rolled(tilt, rolling.centre_of_pressure(surface, tilt), p, (spin[0], spin[1]), torque, (F_t, F_n))


def _one_side(surface: rolling.Surface, front) -> rolling.Surface:
    """A surface whose other side goes on smoothly with the one that the foot is on.

    A step that ends beyond alpha = 0 then stays smooth, and a foot that is there but for rounding is on the right side.
    Continued to negative angles, A (1 - exp(-C a)) is the other side's term with -A and -C; a circle is the same.
    """

    def chosen(own: rolling.Side, other: rolling.Side, mine) -> rolling.Side:
        (a,), (b,) = own.terms, other.terms
        term = rolling.Term(jnp.where(mine, a.amplitude, -b.amplitude), jnp.where(mine, a.rate, -b.rate))
        return rolling.Side((term,), jnp.where(mine, own.circle, other.circle))

    rear = jnp.logical_not(front)
    return rolling.Surface(chosen(surface.front, surface.rear, front), chosen(surface.rear, surface.front, rear))


def _dot(a, b):
    return a[0] * b[0] + a[1] * b[1]


def _excess(r: Roller, now: Rolled, pulls):
    """By how much each of STATES is so: tilt (rad), then forces (N): pull, friction beyond mu one way and the other.

    The direction is that in which the foot would slip, against the friction on it.
    """
    F_t, F_n = now.force
    cone = r.mu * jnp.where(pulls, 0.0, F_n)
    return jnp.stack(jnp.broadcast_arrays(now.tilt, -F_n, -F_t - cone, F_t - cone))


def system(r: Roller) -> hybrid.HybridSystem:
    """Flow, guards and transitions of a rolling foot."""
    count = len(STATES)

    def flow(_params, t, mode, y):
        now = look(r, t, mode, y)
        is_so = touchdown.down(mode, 0, count)
        excess = _excess(r, now, pulls=is_so[1])
        pull, slips_forward, slips_back = jnp.where(is_so, excess, 0.0)[1:]
        power = now.torque * (y[3] - y[2])
        rates = [y[2], y[3], *now.spin, power, pull, slips_forward + slips_back]
        return linkage.stack(rates), jnp.concatenate([excess, jnp.broadcast_to(r.end - y[1], excess[:1].shape)])

    def guards(_params, mode, signals):
        return jnp.concatenate([touchdown.guards(mode, signals[:count]), signals[count:]])

    def transition(_params, _t, mode, event, y, _signals):
        return touchdown.flipped(mode, event, count), y, event == count

    boundary = (True,) * count + (False,)
    return hybrid.HybridSystem(flow, guards, transition, boundary, positions=2, ends_at_max_time=False)


def start(r: Roller, settings: Settings, params: Any) -> hybrid.HybridState:
    """Lanes at the start."""
    y = linkage.stack([*r.angles, *r.rates, *jnp.zeros((len(SUMS), *lanes(params, r.status)))])
    side = jnp.where(y[0] - r.flat >= 0, FRONT, REAR)
    now = look(r, 0.0, side, y)
    mode = touchdown.start_mode(_excess(r, now, now.force[1] < 0).at[0].set(side - 0.5))
    return hybrid.start(system(r), settings, params, 0.0, mode, y, r.status)


def energy(r: Roller, y):
    """Kinetic and potential energy (J)."""
    links, angles = (r.foot, r.body), [y[0], y[1]]
    p = rolling.roll(r.surface, y[0] - r.flat, r.ankle)
    kinetic = linkage.kinetic_energy(links, rolling.velocity(p, y[2]), angles, [y[2], y[3]])
    return kinetic + linkage.potential_energy(links, p.position, angles, r.gravity)


def machine(assemble: Callable[[Any], Roller], settings: Settings, outcomes: Callable) -> Machine:
    """The pausable simulation; `outcomes(roller, t, y, rolled)` gives results by name from where a run ended."""
    return Machine(
        init=lambda params: start(assemble(params), settings, params),
        step=lambda params, state: hybrid.advance(system(assemble(params)), settings, params, state)[0],
        done=hybrid.done,
        finish=lambda params, state: _outcomes(assemble(params), state, outcomes),
    )


def recorder(
    assemble: Callable[[Any], Roller], settings: Settings, outcomes: Callable, curves: Callable, count: int
) -> Machine:
    """Like `machine`, with time histories; `curves(roller, t, y, rolled)` gives them by name, (count, *lanes)."""

    def finish(params, recording):
        r = assemble(params)
        found = curves(r, recording.t, recording.y, look(r, recording.t, recording.mode, recording.y))
        ok = recording.run.status == FINISHED
        return {
            "outcomes": _outcomes(r, recording.run, outcomes),
            "curves": {
                name: jnp.where(ok, jnp.broadcast_to(value, recording.t.shape), jnp.nan)
                for name, value in found.items()
            },
        }

    return Machine(
        init=lambda params: record.start(start(assemble(params), settings, params), count),
        step=lambda params, state: record.advance(system(assemble(params)), settings, params, state),
        done=record.done,
        finish=finish,
    )


def _outcomes(r: Roller, state: hybrid.HybridState, outcomes: Callable) -> dict[str, Any]:
    found = outcomes(r, state.t, state.y, look(r, state.t, state.mode, state.y))
    finished = state.status == FINISHED
    numbers = {name: jnp.where(finished, value, jnp.nan) for name, value in found.items()}
    return numbers | {"status": state.status, "n_steps": state.steps}


def energy_gained(r: Roller, y):
    """Kinetic and potential energy above that at the start (J)."""
    return energy(r, y) - energy(r, linkage.stack([*r.angles, *r.rates]))


def sums(y) -> dict[str, Any]:
    """The rows of a state that add up, by name."""
    return {name: y[4 + i] for i, name in enumerate(SUMS)}
