"""Bodies in space: eq. (22) written out as one matrix, closed forms, the planar linkage, balances, and drift shown."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxcontact.bodies import linkage
from jaxcontact.bodies.joints import (
    GROUND,
    Baumgarte,
    Frame,
    Jet,
    Joint,
    attached,
    ends,
    equations,
    jet,
    joint_angle,
    motion,
    point_motion,
    violation,
)
from jaxcontact.bodies.spatial import (
    Body,
    Load,
    accelerations,
    kinetic_energy,
    potential_energy,
    reactions,
    unpack,
    weights,
    with_force,
    with_torsion_spring,
)
from jaxcontact.bodies.symmetric import solve
from jaxcontact.errors import InputError
from jaxcontact.vectors import (
    NO_TURN,
    ZERO,
    add,
    chain_turns,
    compose,
    cross,
    dot,
    of_quaternion,
    opposite_turn,
    quaternion_rate,
    rotate,
    rotate_back,
    scale,
    subtract,
    turn_about_y,
    turn_from_y_to,
)

GRAVITY = 9.81
PLAIN = Baumgarte(0.0, 0.0)  # eq. (20): no stabilisation


def on_host(tree):
    """Numbers as numpy's: thousands of small operations, one by one, are far quicker there than on a JAX device."""
    return jax.tree.map(np.asarray, tree)


def random_vector(rng, size, lanes):
    return tuple(size * rng.normal(size=(3, lanes)))


def random_motions(seed, count, lanes):
    """Bodies anywhere: joints need not hold."""
    rng = np.random.default_rng(seed)
    return [
        motion(
            random_vector(rng, 0.3, lanes),
            tuple(rng.normal(size=(4, lanes))),
            random_vector(rng, 1.0, lanes),
            random_vector(rng, 2.0, lanes),
        )
        for _ in range(count)
    ]


def random_bodies(seed, count, lanes):
    rng = np.random.default_rng(seed)
    return [Body(rng.uniform(0.5, 5.0, lanes), tuple(rng.uniform(0.05, 1.0, (3, lanes)))) for _ in range(count)]


def random_frame(seed):
    """A frame with its own axes; one number for all lanes."""
    rng = np.random.default_rng(seed)
    return Frame(tuple(rng.normal(size=3) * 0.3), tuple(rng.normal(size=4)))


def driven_path(t):
    return 0.3 * jnp.sin(2.0 * t), 0.1 * t**3, 1.0 - 0.2 * jnp.cos(3.0 * t)


def driven_angle(t):
    return 0.4 * jnp.sin(3.0 * t) + 0.2 * t * t


# Trees by name: parent, child, kind of each joint. "guided" is a fixed joint with a driven angle.
TREES = {
    "leg of three revolute joints": [(GROUND, 0, "revolute"), (0, 1, "revolute"), (1, 2, "revolute")],
    "driven knee, spherical": [(GROUND, 0, "driven spherical"), (0, 1, "revolute"), (1, 2, "spherical")],
    "all guided": [(GROUND, 0, "driven guided"), (0, 1, "guided"), (1, 2, "fixed")],
    "sagittal shank": [(GROUND, 0, "parallel"), (0, 1, "revolute"), (1, 2, "revolute")],
    "free body with two branches": [(0, 1, "revolute"), (0, 2, "spherical"), (2, 3, "revolute"), (2, 4, "fixed")],
    "two bodies apart": [(GROUND, 0, "spherical"), (GROUND, 1, "parallel"), (1, 2, "guided")],
}


def tree(name, t):
    """The joints of a tree at time t."""
    made = []
    for parent, child, kind in TREES[name]:
        driven, guided = kind.startswith("driven "), kind.endswith("guided")
        made.append(
            Joint(
                parent,
                child,
                "fixed" if guided else kind.removeprefix("driven "),
                random_frame(10 * child + 1),
                random_frame(10 * child + 2),
                path=jet(driven_path, t) if driven else None,
                angle=jet(driven_angle, t) if guided else 0.3 if kind == "fixed" else None,
            )
        )
    return made


def moved(m, velocity, spin, s):
    """A body after s seconds at constant velocity and spin: Rodrigues' turn, by its series where it is short."""
    half = 0.5 * s
    square = half * half * dot(spin, spin)
    cosine, sine = 1.0 - square / 2.0, half * (1.0 - square / 6.0)
    return motion(add(m.position, scale(s, velocity)), chain_turns(m.quaternion, (cosine, *scale(sine, spin))))


def constraint_terms(name, motions, t):
    """Phi, its Jacobian by velocities, its rate, and its second derivative without accelerations, per lane.

    All by differentiating Phi(q, t) of eq. (19) along motions of constant velocity: the real one, none, and a unit of
    each velocity in turn, side by side.
    """
    n, lanes = len(motions), len(motions[0].position[0])
    real = np.array([[*m.velocity, *m.spin] for m in motions]).reshape(6 * n, 1, lanes)
    units = np.broadcast_to(np.eye(6 * n)[:, :, None], (6 * n, 6 * n, lanes))
    u = np.concatenate([real, np.zeros_like(real), units], axis=1)

    def phi(s):
        bodies = [
            moved(m, tuple(u[6 * b : 6 * b + 3]), tuple(u[6 * b + 3 : 6 * b + 6]), s) for b, m in enumerate(motions)
        ]
        numbers = []
        for joint in tree(name, t + s):
            held = equations(joint, *ends(joint, bodies))
            numbers += list(held.point.value) if held.point else []
            numbers += [e.value for e in held.axis] if held.axis else []
            numbers += [held.angle.value] if held.angle else []
        return jnp.stack(numbers)

    value, rate, bend = (np.asarray(part) for part in jet(phi, jnp.zeros(())))
    jacobian = rate[:, 2:] - rate[:, 1:2]
    return value[:, 0], jacobian, rate[:, 0], bend[:, 0]


@pytest.mark.parametrize("name", TREES)
def test_accelerations_and_reactions_solve_the_saddle_point_system(name):
    # Eq. (22) as one matrix, at poses where the joints do not hold, so that every term of it counts.
    count, lanes, t = max(child for _, child, _ in TREES[name]) + 1, 4, 0.7
    bodies, motions = random_bodies(1, count, lanes), random_motions(2, count, lanes)
    rng = np.random.default_rng(3)
    loads = [Load(random_vector(rng, 10.0, lanes), random_vector(rng, 3.0, lanes)) for _ in range(count)]
    feedback = Baumgarte(3.0, 5.0)
    joints = on_host(tree(name, t))
    ours = accelerations(bodies, joints, motions, loads, feedback)
    held = reactions(bodies, joints, motions, loads, ours)
    terms = constraint_terms(name, motions, t)
    for lane in range(lanes):
        phi, jacobian, rate, bend = (term[..., lane] for term in terms)
        assert np.linalg.matrix_rank(jacobian) == len(jacobian)  # no equation is redundant
        mass = np.diag(np.concatenate([[*[b.mass[lane]] * 3, *(i[lane] for i in b.inertia)] for b in bodies]))
        applied = []
        for body, m, load in zip(bodies, motions, loads, strict=True):
            momentum = tuple(i * w for i, w in zip(body.inertia, m.spin, strict=True))
            torque = subtract(rotate_back(m.rotation, load.torque), cross(m.spin, momentum))
            applied += [number[lane] for number in (*load.force, *torque)]
        rows = len(phi)
        matrix = np.block([[mass, jacobian.T], [jacobian, np.zeros((rows, rows))]])
        right = np.concatenate([applied, -bend - 2 * feedback.alpha * rate - feedback.beta**2 * phi])
        both = np.linalg.solve(matrix, right)
        results = np.array([[number[lane] for number in (*a.linear, *a.spin)] for a in ours]).ravel()
        np.testing.assert_allclose(results, both[: 6 * count], rtol=1e-9, atol=1e-9 * np.abs(both).max())

        # -J^T lambda is what the joints do: each to its child, and the opposite to its parent.
        forces = np.zeros((count, 6))
        for joint, load in zip(joints, held, strict=True):
            for body, end, sign in zip((joint.parent, joint.child), ends(joint, motions), (-1.0, 1.0), strict=True):
                if body != GROUND:
                    torque = rotate_back(motions[body].rotation, add(load.torque, cross(end.arm, load.force)))
                    forces[body] += [sign * number[lane] for number in (*load.force, *torque)]
        expected = -jacobian.T @ both[6 * count :]
        np.testing.assert_allclose(forces.ravel(), expected, rtol=1e-8, atol=1e-8 * np.abs(expected).max())


def test_the_written_out_jets_are_derivatives_in_time():
    # Rates and bends of every equation, also the driven ones, against differentiating Phi along the motion.
    name, t, motions = "all guided", 0.4, random_motions(5, 3, 4)
    _, _, rate, bend = constraint_terms(name, motions, t)
    jets = []
    for joint in tree(name, t):
        held = equations(joint, *ends(joint, motions))
        jets += [*zip(*held.point, strict=True), *held.axis, held.angle]
    np.testing.assert_allclose(np.array([j[1] for j in jets]), rate, atol=1e-12)
    np.testing.assert_allclose(np.array([j[2] for j in jets]), bend, atol=1e-11)


# --- Chains in the sagittal plane are planar linkages


def planar_links(seed, lanes):
    rng = np.random.default_rng(seed)

    def number(low, high):
        return rng.uniform(low, high, lanes)

    return [
        linkage.Link(
            k - 1, number(0.3, 5), number(0.01, 0.3), number(-0.4, 0.4), number(-0.1, 0.1),
            joint_along=number(-0.4, 0.4) if k else 0.0, joint_across=number(-0.1, 0.1) if k else 0.0,
        )
        for k in range(3)
    ]  # fmt: skip


def as_spatial(links, knee="revolute"):
    """The same chain in space: a link's axis is the body's z, across it is x; the other two inertias do not matter."""
    bodies = [Body(link.mass, (0.7 * link.inertia, link.inertia, 1.3 * link.inertia)) for link in links]
    joints = []
    for k, link in enumerate(links):
        above = links[k - 1]
        at = (link.joint_across - above.centre_across, 0.0, link.joint_along - above.centre) if k else ZERO
        child = Frame((-link.centre_across, 0.0, -link.centre))
        joints.append(Joint(k - 1, k, "revolute" if k else knee, Frame(at), child))
    return bodies, joints


def chain_motions(joints, angles, rates):
    """Bodies at absolute angles about y: each joint holds."""
    motions = []
    for k, joint in enumerate(joints):
        angle, rate = (angles[k] - angles[k - 1], rates[k] - rates[k - 1]) if k else (angles[0], rates[0])
        motions.append(on_host(attached(joint, motions, turn_about_y(angle), (0.0, rate, 0.0))))
    return motions


def planar_accelerations(links, angles, rates):
    """Angular accelerations of the linkage with its base held, lanes last."""
    mass = np.moveaxis(np.asarray(linkage.mass_matrix(links, list(angles))), -1, 0)[:, 2:, 2:]
    speed, weight = linkage.bias(links, list(angles), list(rates), GRAVITY)
    return np.linalg.solve(mass, -np.asarray(speed + weight)[2:].T[..., None])[..., 0].T


@pytest.mark.parametrize("knee", ["revolute", "spherical"])
def test_a_sagittal_chain_accelerates_as_the_planar_linkage(knee):
    lanes, rng = 50, np.random.default_rng(7)
    links = planar_links(8, lanes)
    bodies, joints = as_spatial(links, knee)
    angles, rates = rng.uniform(-3, 3, (3, lanes)), rng.normal(size=(3, lanes)) * 3
    motions = chain_motions(joints, angles, rates)
    np.testing.assert_allclose(violation(joints, motions), 0.0, atol=1e-13)
    loads = weights(bodies, GRAVITY)
    ours = accelerations(bodies, joints, motions, loads)
    expected = planar_accelerations(links, angles, rates)
    scale_of = np.abs(expected).max(axis=0)
    np.testing.assert_allclose([a.spin[1] for a in ours] / scale_of, expected / scale_of, atol=1e-10)
    still = np.abs([number for a in ours for number in (a.linear[1], a.spin[0], a.spin[2])]) / scale_of
    assert still.max() < 1e-12

    # The energies are the linkage's too.
    kinetic = linkage.kinetic_energy(links, (0.0, 0.0), list(angles), list(rates))
    np.testing.assert_allclose(kinetic_energy(bodies, motions), kinetic, rtol=1e-12)
    potential = linkage.potential_energy(links, (0.0, 0.0), list(angles), GRAVITY)
    np.testing.assert_allclose(potential_energy(bodies, motions, GRAVITY), potential, rtol=1e-11, atol=1e-12)


# --- Balances


def test_newton_and_euler_hold_for_each_body_and_momentum_for_all():
    # A free tree with springs inside and one force from outside: what is inside cancels.
    lanes, rng = 20, np.random.default_rng(11)
    bodies = random_bodies(12, 4, lanes)
    joints = [
        Joint(0, 1, "revolute", random_frame(1), random_frame(2)),
        Joint(0, 2, "spherical", random_frame(3), random_frame(4)),
        Joint(2, 3, "revolute", random_frame(5), random_frame(6)),
    ]
    motions = random_motions(13, 1, lanes)
    for joint in joints:
        turn = tuple(rng.normal(size=(4, lanes)))
        spin = random_vector(rng, 2.0, lanes)
        if joint.kind == "revolute":
            turn, spin = turn_about_y(rng.uniform(-3, 3, lanes)), (0.0, spin[1], 0.0)
        motions.append(on_host(attached(joint, motions, turn, spin)))
    np.testing.assert_allclose(violation(joints, motions), 0.0, atol=1e-13)

    force, place = random_vector(rng, 20.0, lanes), random_vector(rng, 1.0, lanes)
    loads = with_force([Load()] * 4, motions, 3, force, place)
    for joint in (joints[0], joints[2]):
        loads = with_torsion_spring(loads, joint, motions, 12.0, 0.5, 0.2)
    found = accelerations(bodies, joints, motions, loads)

    pull, moment = ZERO, ZERO
    for body, m, a in zip(bodies, motions, found, strict=True):
        momentum = tuple(i * w for i, w in zip(body.inertia, m.spin, strict=True))
        torque = add(tuple(i * w for i, w in zip(body.inertia, a.spin, strict=True)), cross(m.spin, momentum))
        inertial = scale(body.mass, a.linear)
        pull = add(pull, inertial)
        moment = add(moment, add(rotate(m.rotation, torque), cross(m.position, inertial)))
    np.testing.assert_allclose(pull, force, atol=1e-11)
    np.testing.assert_allclose(moment, cross(place, force), atol=1e-11)

    # A revolute joint carries no torque about its axis, a spherical one none at all.
    held = reactions(bodies, joints, motions, loads, found)
    for joint, load in zip(joints, held, strict=True):
        axis = ends(joint, motions)[1].axes[1]
        np.testing.assert_allclose(dot(axis, load.torque), 0.0, atol=1e-11)
    np.testing.assert_allclose(held[1].torque, 0.0, atol=1e-11)


def test_a_chain_at_rest_carries_what_hangs_below():
    links = [linkage.Link(k - 1, 1.0 + k, 0.1, -0.3, joint_along=-0.6 if k else 0.0) for k in range(3)]
    bodies, joints = as_spatial(links)
    motions = chain_motions(joints, [0.0] * 3, [0.0] * 3)
    loads = weights(bodies, GRAVITY)
    found = accelerations(bodies, joints, motions, loads)
    np.testing.assert_allclose(np.array([[*a.linear, *a.spin] for a in found], float), 0.0, atol=1e-11)
    held = reactions(bodies, joints, motions, loads, found)
    below = np.cumsum([body.mass for body in bodies][::-1])[::-1] * GRAVITY
    np.testing.assert_allclose([load.force[2] for load in held], below, rtol=1e-12)


# --- Lanes and derivatives


def test_lanes_do_not_mix_and_scalars_stay_scalars():
    lanes = 3
    bodies, motions = random_bodies(1, 3, lanes), random_motions(2, 3, lanes)
    joints, name = tree("driven knee, spherical", 0.3), "driven knee, spherical"
    many = accelerations(bodies, joints, motions, weights(bodies, GRAVITY))
    for lane in range(lanes):
        pick = partial(jax.tree.map, lambda a, lane=lane: float(np.asarray(a)[lane]) if np.ndim(a) else a)
        one = accelerations(pick(bodies), tree(name, 0.3), pick(motions), weights(pick(bodies), GRAVITY))
        for a, b in zip(many, one, strict=True):
            assert np.ndim(b.spin[0]) == 0
            np.testing.assert_allclose(np.array([*a.linear, *a.spin])[:, lane], [*b.linear, *b.spin], rtol=1e-11)


def test_the_length_of_a_quaternion_does_not_matter():
    bodies, motions = random_bodies(1, 3, 5), random_motions(2, 3, 5)
    longer = [motion(m.position, tuple(3.7 * q for q in m.quaternion), m.velocity, m.spin) for m in motions]
    joints = tree("leg of three revolute joints", 0.0)
    for a, b in zip(
        accelerations(bodies, joints, motions, weights(bodies, GRAVITY)),
        accelerations(bodies, joints, longer, weights(bodies, GRAVITY)),
        strict=True,
    ):
        np.testing.assert_allclose([*a.linear, *a.spin], [*b.linear, *b.spin], rtol=1e-9)
    for m, n in zip(motions, longer, strict=True):
        rate = np.array(quaternion_rate(n.quaternion, n.spin))
        np.testing.assert_allclose(rate, 3.7 * np.array(quaternion_rate(m.quaternion, m.spin)), rtol=1e-12)
        np.testing.assert_allclose(dot(rate[1:], n.quaternion[1:]) + rate[0] * n.quaternion[0], 0.0, atol=1e-12)


def spread(numbers):
    """A weighted sum of all that comes out of a small tree, from 40 numbers (..., lanes) that go into it."""
    n = iter(numbers)

    def take(count):
        return tuple(next(n) for _ in range(count))

    bodies = [Body(2.0 + 0.1 * next(n), (0.2 + 0.01 * next(n), 0.3, 0.4)) for _ in range(2)]
    state = [take(13) for _ in range(2)]
    motions = [motion(s[:3], (1.0 + s[3], *s[4:7]), s[7:10], s[10:]) for s in state]
    knee, toes = Frame(take(3)), Frame(take(3), (1.0, 0.1, next(n), 0.2))
    joints = [Joint(GROUND, 0, "spherical", child_frame=knee), Joint(0, 1, "revolute", toes)]
    loads = with_torsion_spring(weights(bodies, GRAVITY), joints[1], motions, 5.0 + next(n), 0.4, next(n))
    found = accelerations(bodies, joints, motions, loads, Baumgarte(2.0, 3.0))
    held = reactions(bodies, joints, motions, loads, found)
    weight = np.random.default_rng(0).normal(size=24)
    outs = [x for part in (*found, *held) for vector in part for x in vector]
    return sum(w * x for w, x in zip(weight, outs, strict=True))


def test_derivatives_against_differences():
    rng = np.random.default_rng(4)
    at, step = 0.4 * rng.normal(size=39), 1e-5
    both = spread(list(at[:, None] + step * np.concatenate([np.eye(39), -np.eye(39)], axis=1)))
    differences = np.asarray(both[:39] - both[39:]) / (2 * step)
    tolerance = 1e-7 * np.abs(differences).max()
    reverse = jax.grad(spread)([jnp.asarray(x) for x in at])
    np.testing.assert_allclose(reverse, differences, rtol=1e-6, atol=tolerance)
    direction = rng.normal(size=39)
    forward = jax.jvp(spread, ([*at],), ([*direction],))[1]
    np.testing.assert_allclose(forward, differences @ direction, rtol=1e-6, atol=39 * tolerance)


def test_an_angle_passes_half_a_turn_from_zero_and_has_no_bad_derivative():
    frames = [motion(ZERO, turn_about_y(a)) for a in (np.array([3.0, 3.2, -3.2]), np.array([0.0, 0.1, -0.1]))]
    joint = Joint(0, 1)
    angle, _ = joint_angle(*ends(joint, [frames[1], frames[0]]), 3.0)
    np.testing.assert_allclose(angle, [0.0, 0.1, 2 * np.pi - 6.1], atol=1e-14)
    # Three turns and a bit, told near what the turns were counted to be.
    wound = np.array([19.0, -9.3, 3.1])
    angle, _ = joint_angle(*ends(Joint(GROUND, 0), [motion(ZERO, turn_about_y(wound))]), 0.5, wound + [1.0, -2.0, 0.0])
    np.testing.assert_allclose(angle, wound - 0.5, atol=1e-13)

    def half_turned(extra):  # about x: the axes point opposite ways, and there is no angle
        turned = motion(ZERO, (extra, 1.0, 0.0, 0.0))
        return joint_angle(*ends(Joint(GROUND, 0), [turned]))[0]

    value, slope = jax.value_and_grad(half_turned)(0.0)
    assert value == 0.0 and np.isfinite(slope)


# --- Turns, solving, refusals


def test_turns_are_rotations():
    rng = np.random.default_rng(6)
    a, b = tuple(rng.normal(size=(4, 9))), tuple(rng.normal(size=(4, 9)))
    both = np.array(compose(of_quaternion(a), of_quaternion(b)))
    np.testing.assert_allclose(of_quaternion(chain_turns(a, b)), both, atol=1e-13)
    np.testing.assert_allclose(np.array(of_quaternion(chain_turns(a, opposite_turn(a))))[..., 0], np.eye(3), atol=1e-14)
    axis = rng.normal(size=(3, 9))
    axis = tuple(axis / np.linalg.norm(axis, axis=0))
    np.testing.assert_allclose(np.array(of_quaternion(turn_from_y_to(axis)))[:, 1], axis, atol=1e-13)
    np.testing.assert_allclose(rotate(of_quaternion(turn_about_y(0.3)), (0.0, 0.0, 1.0)), [np.sin(0.3), 0, np.cos(0.3)])
    np.testing.assert_allclose(np.array(of_quaternion(turn_from_y_to((0.0, -1.0, 0.0))))[:, 1], [0.0, -1.0, 0.0])
    slopes = jax.jacobian(lambda axis: jnp.stack(turn_from_y_to(tuple(axis))))(jnp.array([0.0, -1.0, 0.0]))
    assert np.all(slopes == 0.0)


def test_a_point_of_a_body_moves_with_it():
    position, velocity = point_motion(
        motion((1.0, 2.0, 3.0), NO_TURN, (0.1, 0.0, 0.0), (0.0, 0.0, 2.0)), (0.5, 0.0, 0.0)
    )
    np.testing.assert_allclose(position, [1.5, 2.0, 3.0])
    np.testing.assert_allclose(velocity, [0.1, 1.0, 0.0])


@pytest.mark.parametrize("size", [1, 2, 6])
def test_elimination_by_quotients_solves(size):
    rng = np.random.default_rng(size)
    root = rng.normal(size=(size, size, 4))
    matrix = np.einsum("ikl,jkl->ijl", root, root) + 0.1 * np.eye(size)[..., None]
    right = rng.normal(size=(size, 4))
    found = solve([[matrix[i, j] for j in range(i + 1)] for i in range(size)], list(right))
    expected = np.linalg.solve(np.moveaxis(matrix, -1, 0), right.T[..., None])[..., 0].T
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_joints_that_make_no_sense_are_refused():
    with pytest.raises(InputError, match="revolute"):
        Joint(0, 1, "revolut")
    with pytest.raises(InputError, match="parent has a smaller number"):
        Joint(2, 1)
    with pytest.raises(InputError, match="along a path"):
        Joint(0, 1, path=Jet(ZERO, ZERO, ZERO))
    with pytest.raises(InputError, match="along a path"):
        Joint(GROUND, 1, "parallel", path=Jet(ZERO, ZERO, ZERO))
    with pytest.raises(InputError, match="only a fixed joint"):
        Joint(0, 1, "revolute", angle=0.3)
    bodies, motions = random_bodies(1, 2, 1), random_motions(2, 2, 1)
    with pytest.raises(InputError, match="loops"):
        accelerations(bodies, [Joint(0, 1), Joint(GROUND, 1)], motions, weights(bodies, GRAVITY))
    with pytest.raises(InputError, match="there are 2 bodies"):
        accelerations(bodies, [Joint(0, 2)], motions, weights(bodies, GRAVITY))
    with pytest.raises(InputError, match="13 each"):
        unpack(jnp.zeros(14))
