"""Rigid bodies in space, held together by joints: the equations of motion of Foot eqs. (19) to (22).

Frame: x forward, y left, z up. State rows of n bodies: 7 per body (position of the centre of mass, quaternion), then 6
per body (velocity, spin); the spin is the angular velocity in the body's own frame, whose axes are its principal ones,
so that the mass matrix is constant and diagonal. The paper writes natural coordinates (points and unit vectors of each
body), which need a dozen more equations per body only to keep it rigid. A quaternion needs none: its length carries no
meaning (`of_quaternion` divides by it) and is constant but for the integrator's error, so nothing has to hold it.

Every equation of eq. (22) is solved for, exactly, but not as one large matrix:

    [ M  J^T ] [ a ]   [ g                                     ]
    [ J   0  ] [ l ] = [ gamma - 2 alpha dPhi/dt - beta^2 Phi  ]

In a tree each joint's rows of J tell how its child accelerates relative to its parent (`joints.demand`) up to the
directions that the joint leaves free. So a = a_0 + T f with J T = 0, from the ground outwards, and T^T (M a - g) = 0
is left: one equation for each free direction, three for a leg of three revolute joints where J M^-1 J^T would be
15 x 15. It is symmetric positive definite whatever the pose, for the joints of a tree are never redundant. The
multipliers come back as the forces and torques in the joints (`reactions`).
Loops of joints are refused: each body has one joint towards the ground, or none; without any it is free.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax

from jaxcontact.bodies.joints import (
    FEEDBACK,
    GROUND,
    KINDS,
    Baumgarte,
    Demand,
    Joint,
    Motion,
    demand,
    ends,
    joint_angle,
    motion,
)
from jaxcontact.bodies.linkage import stack
from jaxcontact.bodies.symmetric import solve
from jaxcontact.errors import InputError
from jaxcontact.vectors import (
    ZERO,
    Rotation,
    Vector,
    add,
    cross,
    dot,
    quaternion_rate,
    rotate,
    rotate_back,
    scale,
    subtract,
)


class Body(NamedTuple):
    """Mass (kg) and principal moments of inertia about the centre of mass, along the body's x, y, z (kg m^2)."""

    mass: Any
    inertia: Vector


class Load(NamedTuple):
    """A force (N) and a torque about the point where it acts (N m), both in space."""

    force: Vector = ZERO
    torque: Vector = ZERO


class Acceleration(NamedTuple):
    """Acceleration of a body's centre of mass (m/s^2, space) and the rate of its spin (rad/s^2, body's own frame)."""

    linear: Vector
    spin: Vector


def pack(motions: Sequence[Motion]) -> jax.Array:
    """State rows (13 n, *lanes) of bodies: positions and quaternions first, then velocities and spins."""
    places = [number for m in motions for number in (*m.position, *m.quaternion)]
    return stack([*places, *(number for m in motions for number in (*m.velocity, *m.spin))])


def unpack(y: jax.Array) -> list[Motion]:
    """Bodies from state rows (13 n, *lanes)."""
    count, rest = divmod(len(y), 13)
    if rest:
        raise InputError(f"{len(y)} state rows: bodies have 13 each")
    places = [[y[7 * b + k] for k in range(7)] for b in range(count)]
    speeds = [[y[7 * count + 6 * b + k] for k in range(6)] for b in range(count)]
    return [
        motion((x, y, z), (q_w, q_x, q_y, q_z), (v_x, v_y, v_z), (w_x, w_y, w_z))
        for (x, y, z, q_w, q_x, q_y, q_z), (v_x, v_y, v_z, w_x, w_y, w_z) in zip(places, speeds, strict=True)
    ]


def state_rates(motions: Sequence[Motion], accelerations: Sequence[Acceleration]) -> jax.Array:
    """Rates of the state rows."""
    places = [number for m in motions for number in (*m.velocity, *quaternion_rate(m.quaternion, m.spin))]
    return stack([*places, *(number for a in accelerations for number in (*a.linear, *a.spin))])


def weights(bodies: Sequence[Body], gravity) -> list[Load]:
    """Weight of each body in a field of `gravity` (m/s^2) pointing down."""
    return [Load((0.0, 0.0, -body.mass * gravity)) for body in bodies]


def with_force(loads: Sequence[Load], motions: Sequence[Motion], body: int, force: Vector, place: Vector) -> list[Load]:
    """Loads with one more force (N) on `body`, at a place in space (m)."""
    arm = subtract(place, motions[body].position)
    return _with(loads, body, Load(force, cross(arm, force)))


def with_torsion_spring(
    loads: Sequence[Load], joint: Joint, motions: Sequence[Motion], stiffness, damping, rest=0.0, near=None
) -> list[Load]:
    """Loads with a torsional spring and damper in a joint, about its axis: the child's torque is the parent's opposite.

    Torque on the child: -(stiffness (angle - rest) + damping rate), with N m/rad, N m s/rad and rad; `joint_angle`
    tells where it jumps, and that it does not with `near`. For the toes (Foot, below eq. 22) the paper prints 12 and
    0.5, in N/m and N s/m.
    """
    parent, child = ends(joint, motions)
    angle, rate = joint_angle(parent, child, rest, near)
    torque = scale(-(stiffness * angle + damping * rate), parent.axes[1])
    loads = _with(loads, joint.child, Load(ZERO, torque))
    return loads if joint.parent == GROUND else _with(loads, joint.parent, Load(ZERO, scale(-1.0, torque)))


def _with(loads: Sequence[Load], body: int, more: Load) -> list[Load]:
    sums = list(loads)
    sums[body] = Load(add(sums[body].force, more.force), add(sums[body].torque, more.torque))
    return sums


def kinetic_energy(bodies: Sequence[Body], motions: Sequence[Motion]):
    """Kinetic energy of all bodies (J)."""
    energy = 0.0
    for body, m in zip(bodies, motions, strict=True):
        energy = energy + 0.5 * (body.mass * dot(m.velocity, m.velocity) + dot(m.spin, _times(body.inertia, m.spin)))
    return energy


def potential_energy(bodies: Sequence[Body], motions: Sequence[Motion], gravity):
    """Potential energy of all bodies in a field of `gravity` (m/s^2) pointing down (J), zero at z = 0."""
    energy = 0.0
    for body, m in zip(bodies, motions, strict=True):
        energy = energy + body.mass * gravity * m.position[2]
    return energy


class _Hold(NamedTuple):
    """How a body hangs on its parent: by the arms from both centres of mass to the joint, and in which directions."""

    parent: int
    reach: Vector  # from the parent's centre of mass to its end of the joint
    arm: Vector  # from the body's own
    demand: Demand
    slides: bool  # free directions: the joint's point moves,
    swivels: bool  # the body turns any way,
    axis: Vector | None  # or only about this axis


_FREE = _Hold(GROUND, ZERO, ZERO, Demand(ZERO, ZERO), slides=True, swivels=True, axis=None)


def _holds(count: int, joints: Sequence[Joint], motions: Sequence[Motion], feedback: Baumgarte) -> list[_Hold]:
    """For each body how it hangs on its parent; bodies without a joint are free."""
    holds = [_FREE] * count
    for joint in joints:
        if joint.child >= count:
            raise InputError(f"joint to body {joint.child}: there are {count} bodies, numbered from 0")
        if holds[joint.child] is not _FREE:
            raise InputError(f"body {joint.child} is the child of two joints: loops of joints are not supported")
        kind, (parent, child) = KINDS[joint.kind], ends(joint, motions)
        asked = demand(joint, parent, child, feedback)
        axis = child.axes[1] if kind.axis and not kind.angle else None
        holds[joint.child] = _Hold(joint.parent, parent.arm, child.arm, asked, not kind.point, not kind.axis, axis)
    return holds


def accelerations(
    bodies: Sequence[Body],
    joints: Sequence[Joint],
    motions: Sequence[Motion],
    loads: Sequence[Load],
    feedback: Baumgarte = FEEDBACK,
) -> list[Acceleration]:
    """Accelerations of bodies under loads (each at the body's centre of mass) and in their joints: Foot eq. (22).

    A joint whose axes have come to stand at right angles has no solution; its lane's numbers are not finite.
    """
    holds = _holds(len(bodies), joints, motions, feedback)

    # What the joints alone ask for, with their free directions at rest, and the force and torque missing for it.
    forced = _outward(holds, [[0.0] * _freedom(hold) for hold in holds])
    missing = [
        Load(subtract(load.force, need.force), subtract(load.torque, need.torque))
        for load, need in zip(loads, _needs(bodies, motions, _body_frame(motions, forced)), strict=True)
    ]
    totals = _carried_loads(holds, missing)

    # One equation per free direction.
    right = [value for hold, load in zip(holds, totals, strict=True) for value in _work(hold, load)]
    if right:
        matrix = _free_matrix(holds, _composites(bodies, holds, motions))
        rates = iter(solve(matrix, right))
        forced = _outward(holds, [[next(rates) for _ in range(_freedom(hold))] for hold in holds])
    return _body_frame(motions, forced)


def reactions(
    bodies: Sequence[Body],
    joints: Sequence[Joint],
    motions: Sequence[Motion],
    loads: Sequence[Load],
    results: Sequence[Acceleration],
) -> list[Load]:
    """What each joint does to its child, at the child's end of it; to its parent it does the opposite, at its end.

    These are Foot's multipliers in words of mechanics: for a row of J that belongs to the joint, force or torque is
    -multiplier times the row. `results` are the `accelerations` under the same `loads`.
    """
    holds = _holds(len(bodies), joints, motions, FEEDBACK)
    lacking = [
        Load(subtract(need.force, load.force), subtract(need.torque, load.torque))
        for load, need in zip(loads, _needs(bodies, motions, results), strict=True)
    ]
    totals = _carried_loads(holds, lacking)
    return [totals[joint.child] for joint in joints]


def _freedom(hold: _Hold) -> int:
    return 3 * hold.slides + 3 * hold.swivels + (hold.axis is not None)


def _outward(holds: Sequence[_Hold], rates) -> list[tuple[Vector, Vector]]:
    """Accelerations of the bodies, linear and angular (both in space), from those of the free directions."""
    results: list[tuple[Vector, Vector]] = []
    for hold, free in zip(holds, rates, strict=True):
        linear, angular = hold.demand
        if hold.parent != GROUND:
            linear_parent, angular_parent = results[hold.parent]
            linear = add(linear, add(linear_parent, cross(angular_parent, hold.reach)))
            angular = add(angular, angular_parent)
        if hold.slides:
            linear = add(linear, tuple(free[:3]))
        if hold.swivels:
            angular = add(angular, tuple(free[-3:]))
        if hold.axis is not None:
            angular = add(angular, scale(free[-1], hold.axis))
        results.append((subtract(linear, cross(angular, hold.arm)), angular))
    return results


def _body_frame(motions: Sequence[Motion], results) -> list[Acceleration]:
    """The rate of the spin is the angular acceleration in the body's frame: turning with itself changes nothing."""
    return [
        Acceleration(linear, rotate_back(m.rotation, angular))
        for m, (linear, angular) in zip(motions, results, strict=True)
    ]


def _needs(bodies: Sequence[Body], motions: Sequence[Motion], results: Sequence[Acceleration]) -> list[Load]:
    """Force and torque that accelerate each body so (Newton and Euler)."""
    needs = []
    for body, m, a in zip(bodies, motions, results, strict=True):
        spinning = add(_times(body.inertia, a.spin), cross(m.spin, _times(body.inertia, m.spin)))
        needs.append(Load(scale(body.mass, a.linear), rotate(m.rotation, spinning)))
    return needs


def _carried_loads(holds: Sequence[_Hold], loads: Sequence[Load]) -> list[Load]:
    """Sum of the loads on a body and all that hang on it, about its own end of its joint."""
    totals = [Load(load.force, load.torque) for load in loads]
    for b in reversed(range(len(holds))):
        force, torque = totals[b]
        totals[b] = Load(force, subtract(torque, cross(holds[b].arm, force)))
        if (parent := holds[b].parent) != GROUND:
            torque = add(totals[b].torque, cross(holds[b].reach, force))
            totals[parent] = Load(add(totals[parent].force, force), add(totals[parent].torque, torque))
    return totals


def _work(hold: _Hold, load: Load) -> list:
    """Work of a load per unit of each free direction."""
    about_axis = [] if hold.axis is None else [dot(hold.axis, load.torque)]
    return [*(load.force if hold.slides else ()), *(load.torque if hold.swivels else ()), *about_axis]


class _Composite(NamedTuple):
    """A body and all that hangs on it, as if frozen, seen from its joint: kg, mass times centre (kg m), kg m^2."""

    mass: Any
    moment: Vector
    inertia: Rotation


def _composites(bodies: Sequence[Body], holds: Sequence[_Hold], motions: Sequence[Motion]) -> list[_Composite]:
    sums = [_Composite(b.mass, ZERO, _in_space(b.inertia, m.rotation)) for b, m in zip(bodies, motions, strict=True)]
    for b in reversed(range(len(holds))):
        sums[b] = _moved(sums[b], scale(-1.0, holds[b].arm))
        if (parent := holds[b].parent) != GROUND:
            mass, moment, inertia = _moved(sums[b], holds[b].reach)
            above = sums[parent]
            inertia = _symmetric(lambda i, j, a=above.inertia, c=inertia: a[i][j] + c[i][j])
            sums[parent] = _Composite(above.mass + mass, add(above.moment, moment), inertia)
    return sums


def _moved(part: _Composite, by: Vector) -> _Composite:
    """The same masses seen from a point that lies at -`by` (Huygens)."""
    mean = add(part.moment, scale(0.5 * part.mass, by))
    lever = 2.0 * dot(mean, by)
    rows = part.inertia

    def entry(i, j):
        change = -(mean[i] * by[j] + by[i] * mean[j])
        return rows[i][j] + (change + lever if i == j else change)

    return _Composite(part.mass, add(part.moment, scale(part.mass, by)), _symmetric(entry))


def _in_space(inertia: Vector, rotation: Rotation) -> Rotation:
    """Inertia about the centre of mass, along the axes of space."""
    rows: list[Vector] = list(rotation)
    return _symmetric(lambda i, j: dot(_times(inertia, rows[i]), rows[j]))


def _symmetric(entry) -> Rotation:
    xx, xy, xz, yy, yz, zz = (entry(i, j) for i, j in ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)))
    return (xx, xy, xz), (xy, yy, yz), (xz, yz, zz)


def _free_matrix(holds: Sequence[_Hold], composites: Sequence[_Composite]) -> list[list]:
    """Mass matrix of the free directions, as lower-triangle rows: T^T M T.

    A unit of a free direction moves all that hangs on it as one: its momentum, seen from the joints towards the
    ground, is what their free directions have to work against.
    """
    first = [0]
    for hold in holds:
        first.append(first[-1] + _freedom(hold))
    matrix = [[0.0] * (row + 1) for row in range(first[-1])]
    for b, (hold, part) in enumerate(zip(holds, composites, strict=True)):
        for k, (momentum, spin) in enumerate(_momenta(hold, part)):
            row, at = first[b] + k, b
            while True:
                for column, work in enumerate(_work(holds[at], Load(momentum, spin)), start=first[at]):
                    if column <= row:
                        matrix[row][column] = work
                if (parent := holds[at].parent) == GROUND:
                    break
                across = subtract(holds[at].reach, holds[parent].arm)
                spin, at = add(spin, cross(across, momentum)), parent
    return matrix


def _momenta(hold: _Hold, part: _Composite) -> list[tuple[Vector, Vector]]:
    """Momentum, and angular momentum about the joint, of what hangs on it per unit of each free direction."""
    mass, (x, y, z) = part.mass, part.moment
    across = (0.0, -z, y), (z, 0.0, -x), (-y, x, 0.0)  # each axis of space x the moment
    momenta = []
    if hold.slides:
        straight = (mass, 0.0, 0.0), (0.0, mass, 0.0), (0.0, 0.0, mass)
        momenta += [(p, scale(-1.0, c)) for p, c in zip(straight, across, strict=True)]
    if hold.swivels:
        momenta += list(zip(across, part.inertia, strict=True))
    if hold.axis is not None:
        momenta.append((cross(hold.axis, part.moment), rotate(part.inertia, hold.axis)))
    return momenta


def _times(a: Vector, b: Vector) -> Vector:
    return a[0] * b[0], a[1] * b[1], a[2] * b[2]
