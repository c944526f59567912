"""Bodies in space in motion: closed forms, one angle, the planar linkage, energy, and the drift of joints shown."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from jaxcontact.bodies import linkage
from jaxcontact.bodies.joints import (
    GROUND,
    Baumgarte,
    Frame,
    Joint,
    attached,
    ends,
    jet,
    joint_angle,
    motion,
    violation,
)
from jaxcontact.bodies.spatial import (
    Body,
    Load,
    accelerations,
    kinetic_energy,
    pack,
    potential_energy,
    reactions,
    state_rates,
    unpack,
    weights,
    with_torsion_spring,
)
from jaxcontact.integrate import hybrid
from jaxcontact.integrate.machine import FINISHED, Machine, simulate
from jaxcontact.integrate.settings import Settings
from jaxcontact.vectors import (
    chain_turns,
    of_quaternion,
    opposite_turn,
    rotate,
    turn_about_y,
    turn_from_y_to,
)

GRAVITY = 9.81


# --- One body


def test_a_free_top_keeps_energy_and_angular_momentum_and_precesses_as_it_should():
    # Lanes: a symmetric top (closed form below) and one that tumbles about its middle axis.
    inertia = (np.array([0.3, 0.2]), np.array([0.3, 0.4]), np.array([0.5, 0.7]))
    body, spin = Body(2.0, inertia), (np.array([1.0, 0.01]), np.array([0.4, 5.0]), np.array([6.0, 0.02]))
    start = motion((0.1, 0.2, 0.3), (0.3, -0.5, 0.7, 0.4), (1.0, 0.0, 2.0), spin)
    times = np.linspace(0.0, 3.0, 7)

    @jax.jit
    def flow(t, y):
        motions = unpack(y.reshape(13, 2))
        return state_rates(motions, accelerations([body], [], motions, [Load()])).ravel()

    run = solve_ivp(flow, (0, 3), np.asarray(pack([start])).ravel(), "DOP853", times, rtol=1e-12, atol=1e-12)
    after = unpack(jnp.asarray(run.y.reshape(13, 2, 7)))
    spread = Body(2.0, tuple(i[:, None] for i in inertia))
    np.testing.assert_allclose(kinetic_energy([spread], after).T - kinetic_energy([body], [start]), 0.0, atol=1e-9)
    turned = rotate(after[0].rotation, tuple(i[:, None] * w for i, w in zip(inertia, after[0].spin, strict=True)))
    before = rotate(start.rotation, tuple(i * w for i, w in zip(inertia, spin, strict=True)))
    np.testing.assert_allclose(turned, np.asarray(before)[..., None] + 0 * np.asarray(turned), atol=1e-9)
    np.testing.assert_allclose(after[0].position[2], 0.3 + 2.0 * times + np.zeros((2, 1)), atol=1e-10)
    length = sum(q**2 for q in after[0].quaternion)
    np.testing.assert_allclose(length, sum(q**2 for q in start.quaternion), rtol=1e-10)
    assert np.ptp(after[0].spin[1][1]) > 9.0  # the second one did tumble over

    # Symmetric: it precesses about its angular momentum L at L/I and spins about its axis at (I - I3)/I w3.
    momentum = np.asarray(before)[:, 0]
    rate = np.linalg.norm(momentum) / 0.3
    half = 0.5 * rate * times
    about = (np.cos(half), *(np.sin(half) * n for n in momentum / np.linalg.norm(momentum)))
    own = 0.5 * (0.3 - 0.5) / 0.3 * spin[2][0] * times
    quaternion = chain_turns(about, chain_turns(start.quaternion, (np.cos(own), 0 * own, 0 * own, np.sin(own))))
    found = of_quaternion(tuple(q[0] for q in after[0].quaternion))
    np.testing.assert_allclose(found, np.asarray(of_quaternion(quaternion)), atol=1e-8)


# --- One body on a revolute joint, several experiments side by side
#
# The body's y is the axis and its centre of mass hangs `ARM` below the joint. With G the gravity that a passenger of
# the joint feels, in the ground's frame of the joint, one angle is left:
#     (I_y + m l^2) angle'' = m l (G_z sin - G_x cos) - k (angle - rest) - c angle'

SWING = {  # per lane: a pendulum about an oblique axis; a torsional spring; a steadily accelerated pivot; a shaken one
    "gravity": np.array([GRAVITY, 0.0, GRAVITY, GRAVITY]),
    "axis": np.array([[0.6, 0.0, 0.0, 0.0], [0.64, 1.0, 1.0, 1.0], [0.48, 0.0, 0.0, 0.0]]),
    "stiffness": np.array([0.0, 12.0, 0.0, 0.0]),
    "damping": np.array([0.0, 0.5, 0.0, 0.2]),
    "rest": np.array([0.0, 2.5, 0.0, 0.0]),
    "steady": np.array([0.0, 0.0, 4.0, 0.0]),
    "shaken": np.array([0.0, 0.0, 0.0, 0.1]),
}
ARM, MASS, INERTIA_Y = 0.35, 1.33, 0.02
SWING_START = np.array([1.4, 2.5 + 0.5, np.arctan2(4.0, GRAVITY), 0.3]), np.array([0.5, -1.0, 0.0, 2.0])
SWING_TIMES = np.linspace(0.0, 2.0, 9)


def swing_joint(t):
    def path(t):
        shaken = SWING["shaken"] * jnp.sin(7.0 * t)
        return 0.5 * SWING["steady"] * t * t + shaken, 0.2 * t, 1.0 + 2.0 * shaken

    frame = Frame(turn=turn_from_y_to(tuple(SWING["axis"])))
    return Joint(GROUND, 0, "revolute", frame, Frame((0.0, 0.0, ARM)), path=jet(path, t))


@pytest.fixture(scope="module")
def swung():
    body = Body(MASS, (0.05, INERTIA_Y, 0.03))

    @jax.jit
    def flow(t, y):
        motions, joint = unpack(y.reshape(13, 4)), swing_joint(t)
        loads = weights([body], SWING["gravity"])
        numbers = SWING["stiffness"], SWING["damping"], SWING["rest"]
        loads = with_torsion_spring(loads, joint, motions, *numbers)
        return state_rates(motions, accelerations([body], [joint], motions, loads)).ravel()

    angle, rate = SWING_START
    start = attached(swing_joint(0.0), [], turn_about_y(angle), (0.0, rate, 0.0))
    y0 = np.asarray(pack([start])).ravel()
    run = solve_ivp(flow, (0.0, 2.0), y0, "DOP853", SWING_TIMES, rtol=1e-11, atol=1e-11)
    states = run.y.reshape(13, 4, -1)
    seen = [ends(swing_joint(t), unpack(states[..., k])) for k, t in enumerate(SWING_TIMES)]
    return {
        "angle": np.array([joint_angle(*pair)[0] for pair in seen]),
        "from_rest": np.array([joint_angle(*pair, SWING["rest"])[0] for pair in seen]),
        "rate": np.array([joint_angle(*pair)[1] for pair in seen]),
        "violation": [np.max(violation([swing_joint(t)], unpack(states[..., k]))) for k, t in enumerate(SWING_TIMES)],
    }


def test_one_revolute_joint_moves_as_its_single_angle(swung):
    to_frame = np.array(of_quaternion(turn_from_y_to(tuple(SWING["axis"]))))  # [space, frame, lane]
    inertia = INERTIA_Y + MASS * ARM**2

    def single(t, z):
        angle, rate = z[:4], z[4:]
        shaken = -49.0 * SWING["shaken"] * np.sin(7.0 * t)
        felt = np.array([-SWING["steady"] - shaken, 0 * shaken, -SWING["gravity"] - 2.0 * shaken])
        g_x, _, g_z = np.einsum("sfl,sl->fl", to_frame, felt)
        spring = SWING["stiffness"] * (angle - SWING["rest"]) + SWING["damping"] * rate
        return [*rate, *((MASS * ARM * (g_z * np.sin(angle) - g_x * np.cos(angle)) - spring) / inertia)]

    run = solve_ivp(single, (0, 2), np.ravel(SWING_START), "DOP853", SWING_TIMES, rtol=1e-11, atol=1e-11)
    turns = (swung["angle"] - run.y[:4].T) / (2 * np.pi)
    np.testing.assert_allclose(turns, np.round(turns), atol=1e-9)
    np.testing.assert_allclose(swung["rate"], run.y[4:].T, atol=1e-7)
    assert np.max(swung["violation"]) < 1e-8


def test_a_torsional_spring_swings_at_its_frequency_and_dies_out_at_its_rate(swung):
    inertia = INERTIA_Y + MASS * ARM**2
    decay = 0.5 / (2 * inertia)
    frequency = np.sqrt(12.0 / inertia - decay**2)
    t = SWING_TIMES
    wave = 0.5 * np.cos(frequency * t) + (-1.0 + decay * 0.5) / frequency * np.sin(frequency * t)
    # Around 2.5 rad it passes half a turn, where the plain angle jumps and the one from rest does not.
    np.testing.assert_allclose(swung["from_rest"][:, 1], np.exp(-decay * t) * wave, atol=1e-9)


def test_a_pendulum_on_a_steadily_accelerated_pivot_stays_in_its_slanted_rest(swung):
    np.testing.assert_allclose(swung["angle"][:, 2], np.arctan2(4.0, GRAVITY), atol=1e-9)


def test_a_guided_angle_needs_the_torque_that_newton_says():
    # The joint is taken through angle(t); torque about the axis = (I + m l^2) angle'' + m g l sin(angle).
    body, t = Body(MASS, (0.05, INERTIA_Y, 0.03)), 0.6
    angle = jet(lambda t: 0.4 * jnp.sin(3.0 * t) + 0.2 * t * t, t)
    joint = Joint(GROUND, 0, "fixed", Frame((0.0, 0.0, 1.0)), Frame((0.0, 0.0, ARM)), angle=angle)
    body_motion = attached(joint, [])
    assert max(violation([joint], [body_motion])) < 1e-14
    loads = weights([body], GRAVITY)
    found = accelerations([body], [joint], [body_motion], loads)
    assert found[0].spin[1] == pytest.approx(float(angle.bend), rel=1e-12)
    torque = reactions([body], [joint], [body_motion], loads, found)[0].torque
    inertia = INERTIA_Y + MASS * ARM**2
    expected = inertia * angle.bend + MASS * GRAVITY * ARM * np.sin(angle.value)
    np.testing.assert_allclose(torque, [0.0, expected, 0.0], atol=1e-12)


# --- A leg in motion: knee spherical, ankle and toes revolute, torsional spring at the toes (Foot, Fig. 6)


def leg(p):
    """Shank, main foot and toes: masses of Foot Table 1, our own inertias and lengths; oblique axes where p says."""
    masses, inertias = (4.76, 1.33, 0.35), ((0.07, 0.07, 0.006), (0.002, 0.005, 0.006), (4e-4, 3e-4, 6e-4))
    ankle, toes = ((0.0, 0.0, -0.23), (-0.06, 0.0, 0.06)), ((0.1, 0.0, -0.02), (-0.03, 0.0, 0.0))
    bodies = [Body(m, i) for m, i in zip(masses, inertias, strict=True)]
    tilt = turn_from_y_to((p["oblique"], jnp.sqrt(1.0 - p["oblique"] ** 2), 0.0 * p["oblique"]))
    return bodies, [
        Joint(GROUND, 0, "spherical", Frame((0.0, 0.0, 0.5)), Frame((0.0, 0.0, 0.18))),
        Joint(0, 1, "revolute", Frame(ankle[0], tilt), Frame(ankle[1], tilt)),
        Joint(1, 2, "revolute", Frame(toes[0], opposite_turn(tilt)), Frame(toes[1], opposite_turn(tilt))),
    ]


def leg_flow(p, y):
    bodies, joints = leg(p)
    motions = unpack(y)
    loads = with_torsion_spring(weights(bodies, GRAVITY), joints[2], motions, p["stiffness"], p["damping"])
    return state_rates(motions, accelerations(bodies, joints, motions, loads, Baumgarte(p["alpha"], p["beta"])))


@partial(jax.jit, static_argnums=(2, 3))
def march(p, y, samples, between):
    """Classical Runge-Kutta, steps of p["step"] seconds: states (samples, rows, lanes). One trace of the flow."""
    nodes, shares = jnp.array([0.0, 0.5, 0.5, 1.0]), jnp.array([1.0, 2.0, 2.0, 1.0]) / 6.0

    def step(y, _):
        def stage(carry, k):
            total, slope = carry
            slope = leg_flow(p, y + nodes[k] * p["step"] * slope)
            return (total + shares[k] * slope, slope), None

        (total, _), _ = jax.lax.scan(stage, (jnp.zeros_like(y), jnp.zeros_like(y)), jnp.arange(4))
        return y + p["step"] * total, None

    def sample(y, _):
        y, _ = jax.lax.scan(step, y, length=between)
        return y, y

    return jax.lax.scan(sample, y, length=samples)[1]


# Lanes. Feedback off, at two steps; on, from weak to strong; then a fine sagittal motion, and a fine oblique one.
LEG = {
    "alpha": np.array([0.0, 0.0, 1.0, 5.0, 20.0, 50.0, 50.0, 50.0]),
    "beta": np.array([0.0, 0.0, 1.0, 5.0, 20.0, 50.0, 50.0, 50.0]),
    "step": np.array([4e-3, 2e-3, 4e-3, 4e-3, 4e-3, 4e-3, 5e-4, 5e-4]),
    "oblique": np.array([0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.0, 0.5]),
    "stiffness": np.array([12.0, 12.0, 12.0, 12.0, 12.0, 12.0, 0.0, 12.0]),
    "damping": np.zeros(8),
}
SAMPLES, BETWEEN = 40, 50
LEG_ANGLES, LEG_RATES = (0.8, 1.1, 0.9), (1.0, -2.0, 3.0)


def leg_start():
    _, joints = leg(LEG)
    lanes = np.ones(8)
    swing = np.where(LEG["oblique"] > 0, 1.0, 0.0)
    motions = [attached(joints[0], [], turn_about_y(LEG_ANGLES[0] * lanes), (swing, LEG_RATES[0] * lanes, 2.0 * swing))]
    for k in (1, 2):
        angle, rate = LEG_ANGLES[k] - LEG_ANGLES[k - 1], LEG_RATES[k] - LEG_RATES[k - 1]
        motions.append(attached(joints[k], motions, turn_about_y(angle * lanes), (0.0, rate, 0.0)))
    return motions


@pytest.fixture(scope="module")
def leg_run():
    """States (rows, samples, lanes) after each 50 steps."""
    return jnp.moveaxis(march(LEG, pack(leg_start()), SAMPLES, BETWEEN), 0, 1)


def test_joints_drift_without_feedback_and_hold_with_it(leg_run):
    bad = violation(leg(LEG)[1], unpack(leg_run))
    position, angle = np.asarray(bad.position), np.asarray(bad.angle)
    coarse = LEG["step"] == 4e-3
    rows = [
        "violation of the joints in mm (and mrad), Runge-Kutta, steps of 4 ms",
        "alpha = beta   1 s   2 s   4 s   8 s",
    ]
    for lane in np.flatnonzero(coarse):
        shown = (f"{1e3 * position[k, lane]:.1e} ({1e3 * angle[k, lane]:.1e})" for k in (4, 9, 19, 39))
        rows.append(f"{LEG['alpha'][lane]:8.0f}/s   " + "   ".join(shown))
    print("\n".join(rows))

    # Off: Phi'' is zero but for the integrator's errors, which add up twice: t^1.5 if they scatter, t^2 if they do not.
    times = np.arange(1, SAMPLES + 1)
    for drift in (position, angle):
        growth = np.polyfit(np.log(times[5:]), np.log(drift[5:, 0]), 1)[0]
        assert 1.3 < growth < 2.4
    assert position[-1, 0] > 1e-3 and angle[-1, 0] > 1e-2
    # With half the step, at the same time, far less: they are the integrator's.
    assert position[39, 1] < position[19, 0] / 5 and angle[39, 1] < angle[19, 0] / 5

    # On: bounded over 8 s, the later half no worse than the first, and the better the stronger the feedback.
    for drift, bound in ((position, 2e-5), (angle, 1e-4)):
        held = drift[:, 4:6]
        assert held.max() < bound
        assert np.all(held[20:].max(axis=0) <= held[:20].max(axis=0))
        worst = drift[:, [0, 2, 3, 4, 5]].max(axis=0)
        assert np.all(np.diff(worst) < 0)
    np.testing.assert_array_less(np.max(position[:, 6:]), 1e-9)  # at a fine step it hardly matters at all


def test_a_sagittal_leg_moves_as_the_planar_linkage(leg_run):
    # A second of motion: the linkage in absolute angles, integrated by scipy.
    lane = 6
    bodies, joints = leg(LEG)
    links = []
    for k, (body, joint) in enumerate(zip(bodies, joints, strict=True)):
        x, _, z = joint.child_frame.origin
        at = np.subtract(joint.parent_frame.origin, joints[k - 1].child_frame.origin) if k else np.zeros(3)
        links.append(linkage.Link(k - 1, body.mass, body.inertia[1], -z, -x, joint_along=at[2], joint_across=at[0]))

    @jax.jit
    def planar(t, z):
        mass = linkage.mass_matrix(links, list(z[:3]))[2:, 2:]
        speed, weight = linkage.bias(links, list(z[:3]), list(z[3:]), GRAVITY)
        return jnp.concatenate([z[3:], jnp.linalg.solve(mass, -(speed + weight)[2:])])

    times = LEG["step"][lane] * BETWEEN * np.arange(1, SAMPLES + 1)
    assert times[-1] == pytest.approx(1.0)
    start = np.array([*LEG_ANGLES, *LEG_RATES])
    run = solve_ivp(planar, (0, 1.0), start, "DOP853", times, rtol=1e-11, atol=1e-11)
    for k, m in enumerate(unpack(leg_run[..., lane])):
        np.testing.assert_allclose(m.rotation[0][2], np.sin(run.y[k]), atol=2e-8)
        np.testing.assert_allclose(m.rotation[2][2], np.cos(run.y[k]), atol=2e-8)
        np.testing.assert_allclose(m.spin[1], run.y[3 + k], atol=5e-7)
        np.testing.assert_allclose(m.position[1], 0.0, atol=1e-12)
    assert np.ptp(run.y[:3]) > 2.0  # it did move


def test_energy_is_kept_but_for_the_integrator(leg_run):
    # Gravity and an undamped spring, oblique axes, feedback on: the feedback feeds on violations only.
    lane = 7
    bodies, joints = leg(LEG)

    def energy(motions):
        angle = joint_angle(*ends(joints[2], motions))[0]
        stored = 0.5 * LEG["stiffness"] * angle**2
        return (kinetic_energy(bodies, motions) + potential_energy(bodies, motions, GRAVITY) + stored)[..., lane]

    start = float(energy(leg_start()))
    assert np.ptp(kinetic_energy(bodies, unpack(leg_run))[:, lane]) > 1.0
    np.testing.assert_allclose(energy(unpack(leg_run)), start, atol=5e-6)


# --- In the integrator


def test_bodies_run_in_the_hybrid_integrator_with_derivatives():
    # A torsional spring alone: the angle is a cosine, and so is its derivative by the stiffness known.
    body, joint = Body(2.0, (0.1, 0.3, 0.2)), Joint(GROUND, 0)
    stiffness = jnp.array([3.0, 12.0, 30.0])

    def flow(k, t, mode, y):
        motions = unpack(y)
        loads = with_torsion_spring([Load()], joint, motions, k, 0.0)
        return state_rates(motions, accelerations([body], [joint], motions, loads)), jnp.ones((1, *y.shape[1:]))

    system = hybrid.HybridSystem(
        flow=flow,
        guards=lambda k, mode, signals: signals,
        transition=lambda k, t, mode, event, y, signals: (mode, y, jnp.zeros(y.shape[1:], bool)),
        boundary=(True,),
    )
    settings = Settings(rtol=1e-9, atol=1e-11, first_step=1e-3, max_time=0.5)
    y0 = pack([attached(joint, [], turn_about_y(0.4 * jnp.ones(3)))])
    machine = Machine(
        init=lambda k: hybrid.start(system, settings, k, 0.0, 0, y0, 0),
        step=lambda k, state: hybrid.advance(system, settings, k, state)[0],
        done=hybrid.done,
        finish=lambda k, state: (joint_angle(*ends(joint, unpack(state.y)))[0], state.status),
    )
    run = jax.jit(lambda k: jax.jvp(lambda k: simulate(machine, k), (k,), (jnp.ones(3),)))
    (angle, status), (by_stiffness, _) = run(stiffness)
    assert np.all(status == FINISHED)
    frequency = np.sqrt(stiffness / 0.3)
    np.testing.assert_allclose(angle, 0.4 * np.cos(0.5 * frequency), atol=1e-8)
    expected = -0.4 * np.sin(0.5 * frequency) * 0.5 * frequency / (2 * stiffness)
    np.testing.assert_allclose(by_stiffness, expected, atol=1e-8)
