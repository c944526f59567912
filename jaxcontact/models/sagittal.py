"""Planar mechanisms on soles of many elements, integrated in time.

A model says in one `Mechanism` what it is made of; this file makes the equations of motion, with an event whenever an
element touches down or lifts off (`touchdown`), so that laws which jump there (a dashpot, viscous friction) have exact
derivatives.

Frame: x forward, y up; link angles clockwise from vertical, so that a foot at angle 0 stands flat and a positive angle
is heel up. State rows: positions, then their rates, then WORKS. Positions are the angles, and in front of them, for a
mechanism that nothing holds, x and y of the centre of mass.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxcontact.bodies import linkage
from jaxcontact.bodies.symmetric import factor, solve_factored
from jaxcontact.contact.geometry import Body
from jaxcontact.integrate import hybrid, record
from jaxcontact.integrate.machine import FINISHED, Machine
from jaxcontact.integrate.settings import Settings
from jaxcontact.models import sole, touchdown
from jaxcontact.models.layout import Elements
from jaxcontact.models.model import Params
from jaxcontact.models.strike import lanes
from jaxcontact.vectors import about_y

WORKS = ("W_n", "W_t", "W_joint")  # work of normal forces, of friction and of the joints on the mechanism, J


class Sole(NamedTuple):
    """Elements under one link, in the frame of its centre of mass."""

    link: int
    kind: str
    elements: Elements


class Mechanism(NamedTuple):
    """A planar tree of links with soles, and how it starts. SI units; lane-wide numbers.

    `base` is where the first link's joint is held, or None if nothing holds it; then `start` and `start_velocity` are
    those of the base, and otherwise they are `base` and 0. `torques(t, angles, rates)` (N m) act on the angles.
    `ending` is positive before the run's end and turns negative there; None: the run ends at max_time.
    """

    links: Sequence[linkage.Link]
    soles: Sequence[Sole]
    base: tuple | None
    start: tuple
    start_velocity: tuple
    angles: Sequence
    rates: Sequence
    torques: Callable[[Any, Sequence, Sequence], Sequence]
    ending: Callable[["Seen"], Any] | None
    laws: Params
    choices: Mapping[str, str]
    gravity: Any
    status: Any


class Seen(NamedTuple):
    """Everything that can be told from a state: motion of the links, and what the ground does."""

    angles: list
    rates: list
    sines: list
    cosines: list
    base: tuple
    base_velocity: tuple
    contacts: tuple[sole.Contacts, ...]

    def position(self, point: linkage.Point):
        """Position (x, y) of a point of the tree, m."""
        return linkage.position(point, self.base, self.sines, self.cosines)

    def velocity(self, point: linkage.Point):
        """Velocity (x, y) of a point of the tree, m/s."""
        return linkage.velocity(point, self.base_velocity, self.rates, self.sines, self.cosines)


def count_elements(mechanism: Mechanism) -> int:
    """How many elements all soles have together."""
    return touchdown.check_count(sum(each.elements.x.shape[0] for each in mechanism.soles))


def see(mechanism: Mechanism, y, mode=None) -> Seen:
    """Read a state; `mode` tells which elements are down (None: those in the ground)."""
    n = len(mechanism.links)
    first = 2 if mechanism.base is None else 0
    angles = [y[first + k] for k in range(n)]
    rates = [y[2 * first + n + k] for k in range(n)]
    sines, cosines = linkage.directions(angles)
    if mechanism.base is None:
        # The base, seen from the centre of mass.
        centre = linkage.centre_of_mass(mechanism.links)
        from_base = linkage.position(centre, (0.0, 0.0), sines, cosines)
        swing = linkage.velocity(centre, (0.0, 0.0), rates, sines, cosines)
        base = (y[0] - from_base[0], y[1] - from_base[1])
        base_velocity = (y[n + 2] - swing[0], y[n + 3] - swing[1])
    else:
        base, base_velocity = mechanism.base, (0.0, 0.0)
    seen = Seen(angles, rates, sines, cosines, base, base_velocity, ())
    contacts, bit = [], 0
    for each in mechanism.soles:
        elements = each.elements.over(jnp.ndim(y[0]))
        count = elements.x.shape[0]
        down = None if mode is None else touchdown.down(mode, bit, count)
        body = _body(mechanism, seen, each.link)
        contacts.append(sole.contact_forces(body, each.kind, elements, mechanism.laws, mechanism.choices, down=down))
        bit += count
    return seen._replace(contacts=tuple(contacts))


def _centre(links: Sequence[linkage.Link], link: int) -> linkage.Point:
    """A link's own centre of mass, as a point of the tree."""
    return linkage.point(links, link, links[link].centre, links[link].centre_across)


def _body(mechanism: Mechanism, seen: Seen, link: int) -> Body:
    """A link as a body in space: the sagittal plane is y = 0, and clockwise is a turn about y."""
    centre = _centre(mechanism.links, link)
    (x, height), (v_x, v_y) = seen.position(centre), seen.velocity(centre)
    return Body(
        (x, 0.0, height), about_y(seen.sines[link], seen.cosines[link]), (v_x, 0.0, v_y), (0.0, seen.rates[link], 0.0)
    )


def _loads(mechanism: Mechanism, seen: Seen, links, centre: linkage.Point | None):
    """Force of the ground on the mechanism (N), its moments on the angles (N m), power of normal forces and friction.

    Moments are about the centre of mass if `centre` is given, else about the base, which is held.
    """
    force, power_n, power_t = (0.0, 0.0), 0.0, 0.0
    moments = [0.0] * len(links)
    for each, contacts in zip(mechanism.soles, seen.contacts, strict=True):
        at = _centre(links, each.link)
        x, height = seen.position(at)
        total, moment = sole.sum_and_moment(contacts, (x, 0.0, height))
        by_x, by_y = linkage.jacobian(
            at if centre is None else linkage.difference(at, centre), seen.sines, seen.cosines
        )
        moments = [q + a * total[0] + b * total[2] for q, a, b in zip(moments, by_x, by_y, strict=True)]
        moments[each.link] = moments[each.link] + moment[1]
        force = (force[0] + total[0], force[1] + total[2])
        touch = contacts.touch
        power_n = power_n + jnp.sum(contacts.F_n * touch.v_n, axis=0)
        power_t = power_t + jnp.sum(contacts.force[0] * touch.v_t[0], axis=0)
    return force, moments, power_n, power_t


def system(mechanism: Mechanism) -> hybrid.HybridSystem:
    """Flow, guards and transitions of a mechanism."""
    links, n, free = mechanism.links, len(mechanism.links), mechanism.base is None
    elements = count_elements(mechanism)
    mass = linkage.total_mass(links)
    pair = linkage.pairing(links, about_centre_of_mass=free)
    moment_of_mass = linkage.first_moment(links)
    centre = linkage.centre_of_mass(links) if free else None

    def flow(_params, t, mode, y):
        seen = see(mechanism, y, mode)
        force, moments, power_n, power_t = _loads(mechanism, seen, links, centre)
        torques = mechanism.torques(t, seen.angles, seen.rates)
        inertial = linkage.velocity_terms(pair, seen.rates, seen.sines, seen.cosines)
        right = [q + a - c for q, a, c in zip(moments, torques, inertial, strict=True)]
        if not free:  # gravity turns the links about the point that is held
            levers, _ = linkage.contributions(moment_of_mass, seen.sines, seen.cosines)
            right = [q + mechanism.gravity * x for q, x in zip(right, levers, strict=True)]
        spin = solve_factored(factor(linkage.angle_matrix(pair, seen.sines, seen.cosines)), right)
        power_joint = sum(q * rate for q, rate in zip(torques, seen.rates, strict=True))
        motion = [*seen.rates, *spin]
        if free:
            a_centre = [force[0] / mass, force[1] / mass - mechanism.gravity]
            motion = [y[n + 2], y[n + 3], *seen.rates, *a_centre, *spin]
        depths = jnp.concatenate([-each.touch.gap for each in seen.contacts])
        ending = jnp.ones_like(depths[0]) if mechanism.ending is None else mechanism.ending(seen)
        return linkage.stack([*motion, power_n, power_t, power_joint]), jnp.concatenate([depths, ending[None]])

    def guards(_params, mode, signals):
        return jnp.concatenate([touchdown.guards(mode, signals[:elements]), signals[elements:]])

    def transition(_params, _t, mode, event, y, _signals):
        return touchdown.flipped(mode, event, elements), y, event == elements

    return hybrid.HybridSystem(
        flow,
        guards,
        transition,
        boundary=(True,) * elements + (False,),
        positions=n + 2 * free,
        ends_at_max_time=mechanism.ending is None,
        smooth_beyond=False,
    )


def start(mechanism: Mechanism, settings: Settings, params: Params) -> hybrid.HybridState:
    """Lanes at the mechanism's start."""
    shape = lanes(params, mechanism.status)
    positions, velocities = [*mechanism.angles], [*mechanism.rates]
    if mechanism.base is None:
        sines, cosines = linkage.directions(mechanism.angles)
        centre = linkage.centre_of_mass(mechanism.links)
        positions = [*linkage.position(centre, mechanism.start, sines, cosines), *positions]
        moving = linkage.velocity(centre, mechanism.start_velocity, mechanism.rates, sines, cosines)
        velocities = [*moving, *velocities]
    y = linkage.stack([*positions, *velocities, *jnp.zeros((len(WORKS), *shape))])
    depths = jnp.concatenate([-each.touch.gap for each in see(mechanism, y).contacts])
    mode = touchdown.start_mode(depths)
    return hybrid.start(system(mechanism), settings, params, 0.0, mode, y, mechanism.status)


def machine(assemble: Callable[[Any], Mechanism], settings: Settings, outcomes: Callable) -> Machine:
    """The pausable simulation; `outcomes(mechanism, t, y, seen)` gives results by name from where a run ended."""

    def finish(params, state):
        return _outcomes(assemble(params), state, outcomes)

    return Machine(
        init=lambda params: start(assemble(params), settings, params),
        step=lambda params, state: hybrid.advance(system(assemble(params)), settings, params, state)[0],
        done=hybrid.done,
        finish=finish,
    )


def recorder(
    assemble: Callable[[Any], Mechanism], settings: Settings, outcomes: Callable, curves: Callable, count: int
) -> Machine:
    """Like `machine`, with time histories; `curves(mechanism, t, y, seen)` gives them by name, (count, *lanes)."""

    def finish(params, recording):
        mechanism = assemble(params)
        found = curves(mechanism, recording.t, recording.y, see(mechanism, recording.y, recording.mode))
        ok = recording.run.status == FINISHED
        return {
            "outcomes": _outcomes(mechanism, recording.run, outcomes),
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


def _outcomes(mechanism: Mechanism, state: hybrid.HybridState, outcomes: Callable) -> dict[str, jax.Array]:
    found = outcomes(mechanism, state.t, state.y, see(mechanism, state.y, state.mode))
    finished = state.status == FINISHED
    numbers = {name: jnp.where(finished, value, jnp.nan) for name, value in found.items()}
    return numbers | {"status": state.status, "n_steps": state.steps}


def works(y) -> dict[str, jax.Array]:
    """The work rows of a state by name."""
    return {name: y[y.shape[0] - len(WORKS) + i] for i, name in enumerate(WORKS)}


def energy_gained(mechanism: Mechanism, seen: Seen):
    """Kinetic and potential energy above that at the start, without that of springs (J)."""

    def total(base, velocity, angles, rates):
        kinetic = linkage.kinetic_energy(mechanism.links, velocity, angles, rates)
        return kinetic + linkage.potential_energy(mechanism.links, base, angles, mechanism.gravity)

    now = total(seen.base, seen.base_velocity, seen.angles, seen.rates)
    return now - total(mechanism.start, mechanism.start_velocity, mechanism.angles, mechanism.rates)
