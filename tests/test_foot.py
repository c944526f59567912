"""The falling foot: a second derivation, balances, derivatives through touch-downs, the paper's statement."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick import hasty_jit, quick_jit
from scipy.integrate import solve_ivp
from scipy.special import ellipk

from jaxcontact.integrate.machine import BAD_VALUE, FINISHED, TIME_LIMIT, simulate
from jaxcontact.integrate.settings import Settings
from jaxcontact.models import sagittal, touchdown
from jaxcontact.models.foot import PRINTED_INERTIAS, foot_model, joint_torques, segment_links, soles
from jaxcontact.models.layouts import LAYOUTS
from jaxcontact.models.model import DEGREE, default_params
from jaxcontact.study import run, study

FOOT = foot_model()
LAWS = {"normal": "hunt_crossley", "friction": "coulomb_viscous", "inertia": "plausible"}
DASHPOT = LAWS | {"normal": "kelvin_voigt"}  # its force jumps at touch-down, and so does viscous friction
LANES, MAX_TIME = 40, 2.0
TIGHT = Settings(rtol=1e-13, atol=1e-15, max_steps=200_000, max_time=MAX_TIME)
DEFAULTS = default_params(FOOT)


@cache
def compiled(laws):
    """One program for each choice of laws: tolerances are arguments, and all parameters have all lanes."""
    return quick_jit(lambda params, settings: simulate(FOOT.machine("compliant", dict(laws), settings), params))


def outcomes(laws=LAWS, settings=None, **params):
    """Outcomes at the defaults but for `params` (SI), as numpy, one for each lane that is asked for."""
    values = {name: np.atleast_1d(np.asarray(value, float)) for name, value in (DEFAULTS | params).items()}
    lanes = max(len(value) for value in values.values())
    index = np.minimum(np.arange(LANES), lanes - 1)
    values = {name: jnp.asarray(np.broadcast_to(value, lanes)[index]) for name, value in values.items()}
    found = compiled(tuple(laws.items()))(values, settings or Settings(max_time=MAX_TIME))
    return {name: np.asarray(value)[:lanes] for name, value in found.items()}


# The leg starts in front and the foot points down, as in Fig. 7; or behind, with the foot level.
KNEES = np.linspace(0.42, 0.54, 13)
FALLS = {
    "knee": np.concatenate([KNEES, KNEES]),
    "shank": np.repeat([-90.0, 90.0], 13) * DEGREE,
    "foot": np.repeat([-90.0, 0.0], 13) * DEGREE,
}


# ---- a second derivation: the paper's own (Foot eqs 19 to 21), with Lagrange multipliers and nothing of the library

# Bodies are shank, foot, toes. Coordinates are x, z and the angle of each; a place of a body is (forward, up) from its
# centre of mass, and clockwise turns up towards forward.
MASS = np.array([4.76, 1.33, 0.35])
INERTIA = np.array([0.0760, 0.0052, 0.00022])
KNEE, ANKLE, ANKLE_OF_FOOT = (0.0, 0.181), (0.0, 0.181 - 0.418), (-0.065, 0.012)
TOE_JOINT, TOE_JOINT_OF_TOES = (0.070, -0.027), (-0.022, -0.005)
JOINTS = ((0, KNEE, None, None), (0, ANKLE, 1, ANKLE_OF_FOOT), (1, TOE_JOINT, 2, TOE_JOINT_OF_TOES))
TABLE_2 = np.array([
    (-94.70, -15.34, 30.81), (-94.70, -15.89, 39.53), (-75.20, -22.89, 31.10),
    (0.00, -25.89, 15.10), (26.97, -32.36, 12.94), (56.09, -34.52, 15.10),
    (-22.70, -15.10, 12.94), (0.00, -17.26, 10.78), (21.60, -12.94, 10.79),
]) / 1e3  # fmt: skip
CARRIER = np.array([1] * 6 + [2] * 3)


def turned(place, angle):
    s, c = np.sin(angle), np.cos(angle)
    return np.array([c * place[0] + s * place[1], -s * place[0] + c * place[1]])


def referee_spheres(y):
    """Depth, velocity of the lowest material points and their levers from the centre of mass."""
    q, dq = y[:9].reshape(3, 3)[CARRIER].T, y[9:18].reshape(3, 3)[CARRIER].T
    lever = turned(TABLE_2[:, :2].T, q[2])
    depth = TABLE_2[:, 2] - (q[1] + lever[1])
    lever = lever - np.array([0 * depth, TABLE_2[:, 2]])
    return depth, dq[0] + dq[2] * lever[1], dq[1] - dq[2] * lever[0], lever


def referee_flow(_t, y, down, law):
    q, dq = y[:9].reshape(3, 3), y[9:18].reshape(3, 3)
    force = np.zeros((3, 3))
    force[:, 1] = -9.81 * MASS
    torque = -12.0 * (q[2, 2] - q[1, 2]) - 0.5 * (dq[2, 2] - dq[1, 2])
    force[2, 2] += torque
    force[1, 2] -= torque
    depth, v_x, v_z, lever = referee_spheres(y)
    F_n = np.where(down, law(np.maximum(depth, 0.0), -v_z), 0.0)
    F_t = -np.where(down, 1.0 * F_n / np.sqrt(v_x**2 + 0.02**2) + 3.0, 0.0) * v_x
    pushed = np.array([F_t, F_n, F_t * lever[1] - F_n * lever[0]])
    np.add.at(force, CARRIER, pushed.T)

    # M a + Phi_q^T lambda = g, Phi_q a = gamma
    matrix, right = np.zeros((15, 15)), np.zeros(15)
    matrix[range(9), range(9)] = np.column_stack([MASS, MASS, INERTIA]).ravel()
    right[:9] = force.ravel()
    for j, (one, at_one, other, at_other) in enumerate(JOINTS):
        for body, place, sign in ((one, at_one, 1.0), (other, at_other, -1.0)):
            if body is None:
                continue
            r = turned(place, q[body, 2])
            rows = slice(9 + 2 * j, 11 + 2 * j)
            matrix[rows, 3 * body : 3 * body + 3] += sign * np.array([[1, 0, r[1]], [0, 1, -r[0]]])
            right[rows] += sign * dq[body, 2] ** 2 * r
    matrix[:9, 9:] = matrix[9:, :9].T
    acceleration = np.linalg.solve(matrix, right)[:9]
    powers = [F_n @ v_z, F_t @ v_x, torque * (dq[2, 2] - dq[1, 2])]
    return np.concatenate([y[9:18], acceleration, powers])


def referee_fall(law, knee, shank, foot, side):
    """Outcomes of one fall, and which spheres were down from one event to the next."""
    angles = np.radians([shank, foot, foot])
    centre = np.array([0.0, knee]) - turned(KNEE, angles[0])
    places = [centre]
    for one, at_one, other, at_other in JOINTS[1:]:
        places.append(places[one] + turned(at_one, angles[one]) - turned(at_other, angles[other]))
    y, t = np.concatenate([np.column_stack([places, angles]).ravel(), np.zeros(12)]), 0.0
    down, history = np.zeros(9, bool), [0]

    def ends(_t, y, *_):
        return side * (y[9] + y[11] * turned(ANKLE, y[2])[1]) - 0.02

    def flips(_t, y, *_, sphere):
        return referee_spheres(y)[0][sphere]

    ends.terminal, ends.direction = True, -1
    while True:
        events = [ends]
        for sphere in range(9):
            event = partial(flips, sphere=sphere)
            event.terminal, event.direction = True, -1 if down[sphere] else 1
            events.append(event)
        piece = solve_ivp(
            referee_flow, (t, t + 2.0), y, args=(down, law), events=events, rtol=1e-9, atol=1e-11, method="DOP853"
        )
        y, t = piece.y[:, -1], piece.t[-1]
        assert piece.status == 1
        if piece.t_events[0].size:
            break
        for sphere in range(9):
            if piece.t_events[1 + sphere].size:
                down[sphere] = not down[sphere]
        history.append(int(np.sum(down * 2 ** np.arange(9))))
    numbers = {"turning_angle": -side * y[2], "t_end": t, "foot_angle": y[5], "W_n": y[18], "W_t": y[19]}
    return numbers | {"W_joint": y[20]}, history


REFEREE_LAWS = {
    "hunt_crossley": lambda d, v: d**1.5 * (40e3 + 300.0 * v),
    "kelvin_voigt": lambda d, v: np.where(d > 0, np.maximum(40e3 * d**1.5 + 300.0 * v, 0), 0),
}
# A normal law; height of the knee (m), angles of shank and foot (deg), and which way the leg swings.
REFEREED = [
    ("hunt_crossley", 0.48, -90.0, -90.0, -1.0),
    ("kelvin_voigt", 0.48, -90.0, -90.0, -1.0),
    ("kelvin_voigt", 0.45, 90.0, 0.0, 1.0),
]


@pytest.mark.parametrize("normal, knee, shank, foot, side", REFEREED)
def test_scipy_with_lagrange_multipliers_falls_the_same_way(normal, knee, shank, foot, side):
    theirs, history = referee_fall(REFEREE_LAWS[normal], knee, shank, foot, side)
    params = {"knee": knee, "shank": shank * DEGREE, "foot": foot * DEGREE}
    ours = outcomes(LAWS | {"normal": normal}, Settings(rtol=1e-10, atol=1e-12, max_time=MAX_TIME), **params)
    assert ours["status"][0] == FINISHED
    for name, value in theirs.items():
        assert ours[name][0] == pytest.approx(value, rel=1e-6), name
    if normal == "kelvin_voigt":  # the same spheres touch down and lift off in the same order
        assert history == followed(normal, **params)[2]
    lifted = sum(bool(before & ~after) for before, after in zip(history, history[1:], strict=False))
    assert len(history) >= 7 and (side > 0 or lifted >= 4)


@cache
def stepper(normal):
    machine = FOOT.machine("compliant", LAWS | {"normal": normal}, Settings(max_time=MAX_TIME))
    return hasty_jit(machine.init), quick_jit(machine.step), machine.done


def followed(normal, **params):
    """States and modes of a run as it goes, and the modes without repetition."""
    init, step, done = stepper(normal)
    values = {name: jnp.asarray(value, float) for name, value in (DEFAULTS | params).items()}
    state = init(values)
    states, modes, changes = [np.asarray(state.y)], [int(state.mode)], [int(state.mode)]
    while not done(state):
        state = step(values, state)
        states.append(np.asarray(state.y))
        modes.append(int(state.mode))
        if modes[-1] != changes[-1]:
            changes.append(modes[-1])
    return np.array(states), np.array(modes), changes


def test_elements_that_are_down_are_in_the_ground_and_the_others_are_not():
    # By positions of the spheres that are computed again here, at the end of every step of the run.
    normal, knee, shank, foot, _ = REFEREED[1]
    states, modes, _ = followed(normal, knee=knee, shank=shank * DEGREE, foot=foot * DEGREE)
    down = (modes[:, None] >> np.arange(9)) & 1 == 1
    angles = states[:, :3].T
    shank_end = np.array([0.0, knee])[:, None] + turned((0.0, -0.418), angles[0])
    centre = shank_end - turned(ANKLE_OF_FOOT, angles[1])
    toes = centre + turned(TOE_JOINT, angles[1]) - turned(TOE_JOINT_OF_TOES, angles[2])
    height = [
        (centre, toes)[body - 1][1] + turned(place, angles[body])[1]
        for place, body in zip(TABLE_2[:, :2], CARRIER, strict=True)
    ]
    depth = (TABLE_2[:, 2][:, None] - np.array(height)).T
    assert np.all(depth[down] > -1e-9) and np.all(depth[~down] < 1e-9)
    assert down.any(0).sum() >= 3 and np.unique(modes).size >= 5


# ---- balances and convergence


@cache
def falls(normal, rtol):
    return outcomes(LAWS | {"normal": normal}, Settings(rtol=rtol, atol=1e-2 * rtol, max_time=MAX_TIME), **FALLS)


@pytest.mark.parametrize("normal", REFEREE_LAWS)
def test_what_the_fall_loses_is_the_work_of_contact_and_joints(normal):
    out = falls(normal, 1e-7)
    assert np.all(out["status"] == FINISHED)
    assert np.max(np.abs(out["energy_error"])) < 1e-6  # of tens of J
    assert np.all(out["W_n"] < 0) and np.all(out["W_t"] < 0)
    assert np.max(np.abs(falls(normal, 1e-10)["energy_error"])) < 1e-8


@pytest.mark.parametrize("normal", REFEREE_LAWS)
def test_tighter_tolerances_converge(normal):
    exact = falls(normal, 1e-10)
    errors = {
        rtol: [np.abs(falls(normal, rtol)[name] - exact[name]) for name in ("turning_angle", "t_end", "W_n", "W_t")]
        for rtol in (1e-5, 1e-7, 1e-9)
    }
    for coarse, fine in zip(errors[1e-5], errors[1e-9], strict=True):
        assert np.median(fine) < np.median(coarse) / 100
    for error in errors[1e-7][:2]:  # rad and s, at the default tolerance
        assert np.max(error) < 1e-5


def test_a_stiff_leg_in_the_air_is_a_pendulum():
    # The foot reaches forward of the leg, so that the centre of mass hangs ahead of the line from knee to ankle, by
    # `lean`: a leg let go level is that much nearer to rest, and turns back twice that much before level.
    stiff = {"ankle.stiffness": 2e4, "ankle.damping": 10.0, "toe_joint.stiffness": 2e4, "toe_joint.damping": 10.0}
    settings = Settings(max_time=MAX_TIME, max_steps=100_000)
    out = outcomes(LAWS, settings, knee=1.5, shank=90 * DEGREE, foot=90 * DEGREE, v_rest=0.0, **stiff)
    assert out["status"][0] == FINISHED and out["W_n"][0] == out["W_t"][0] == 0
    centres = [np.array([0.0, -0.181]), np.array([0.0, -0.418]) - ANKLE_OF_FOOT]
    centres.append(centres[1] + TOE_JOINT - TOE_JOINT_OF_TOES)
    about_knee = np.sum(INERTIA) + sum(m * c @ c for m, c in zip(MASS, centres, strict=True))
    moment = sum(m * c for m, c in zip(MASS, centres, strict=True))
    lean = np.arctan2(moment[0], -moment[1])
    amplitude = np.pi / 2 - lean
    half_period = 2 * ellipk(np.sin(amplitude / 2) ** 2) * np.sqrt(about_knee / (9.81 * np.linalg.norm(moment)))
    assert out["t_end"][0] == pytest.approx(half_period, rel=1e-3)
    assert out["turning_angle"][0] == pytest.approx(np.pi / 2 - 2 * lean, rel=1e-3)


# ---- mechanics of every layout, without integrating


def mechanism_on(layout, params, free):
    links = segment_links(params, LAWS)
    return sagittal.Mechanism(
        links=links, soles=soles(layout, params, (1, 2)), base=None if free else (0.0, params["knee"]),
        start=(0.0, 0.0), start_velocity=(0.0, 0.0), angles=[0.0] * 3, rates=[0.0] * 3, torques=joint_torques(params),
        ending=None, laws=params, choices=LAWS, gravity=params["gravity"], status=1,
    )  # fmt: skip


def states_on_the_ground(rng, free, lanes=20):
    """Standing feet, pressed in and moving: rows as `sagittal` has them."""
    angles, rates = rng.normal(0, 0.15, (3, lanes)), rng.normal(0, 2, (3, lanes))
    works = np.zeros((3, lanes))
    if not free:
        return jnp.asarray(np.concatenate([angles, rates, works]))
    centre = np.array([rng.normal(0, 1, lanes), rng.uniform(0.2, 0.25, lanes)])
    return jnp.asarray(np.concatenate([centre, angles, rng.normal(0, 1, (2, lanes)), rates, works]))


@pytest.mark.parametrize("free", [False, True], ids=["held", "free"])
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=lambda layout: layout.name)
def test_power_is_the_rate_of_energy_on_every_layout(layout, free):
    params = default_params(foot_model(layout)) | {"knee": 0.47, "ankle.stiffness": 30.0, "ankle.damping": 2.0}
    mechanism = mechanism_on(layout, params, free)
    y = states_on_the_ground(np.random.default_rng(1), free)

    def energy(y):
        return sagittal.energy_gained(mechanism, sagittal.see(mechanism, y))

    @hasty_jit
    def rates(y):
        seen = sagittal.see(mechanism, y)
        mode = touchdown.start_mode(jnp.concatenate([-each.touch.gap for each in seen.contacts]))
        slope, _ = sagittal.system(mechanism).flow({}, 0.0, mode, y)
        force = sum(jnp.sum(each.F_n, axis=0) for each in seen.contacts)
        drag = sum(jnp.sum(each.force[0], axis=0) for each in seen.contacts)
        return slope, jax.jvp(energy, (y,), (slope,))[1], force, drag

    slope, power, F_n, F_t = map(np.asarray, rates(y))
    assert np.mean(F_n > 0) > 0.3
    np.testing.assert_allclose(power, slope[-3:].sum(0), rtol=1e-9, atol=1e-8 * np.abs(power).max())
    if free:  # Newton for the whole: the ground's force and gravity move the centre of mass
        mass = MASS.sum()
        np.testing.assert_allclose(slope[5], F_t / mass, atol=1e-9 * np.abs(F_t).max())
        np.testing.assert_allclose(slope[6], F_n / mass - 9.81, atol=1e-9 * F_n.max())


def test_printed_inertias_are_a_choice():
    printed, plausible = (segment_links(DEFAULTS, LAWS | {"inertia": choice}) for choice in ("printed", "plausible"))
    assert tuple(link.inertia for link in printed) == (8.230, 2.250, 0.471) == tuple(PRINTED_INERTIAS.values())
    np.testing.assert_allclose([link.inertia for link in plausible], INERTIA)
    # A leg let go level, with inertias typed in as parameters or by the choice, starts to turn alike.
    typed = DEFAULTS | {f"{name}.inertia": value for name, value in PRINTED_INERTIAS.items()}
    starts = [
        hasty_jit(FOOT.machine("compliant", LAWS | {"inertia": choice}, Settings()).init)(params).slope
        for choice, params in (("printed", DEFAULTS), ("plausible", typed))
    ]
    assert np.max(np.abs(starts[0][3:6])) > 0.1  # rad/s^2
    np.testing.assert_allclose(*starts, rtol=1e-12)


# ---- derivatives through touch-downs and lift-offs

LEAVES = ("knee", "mu", "mu_viscous", "k", "arch", "s3.radius", "shank.mass", "foot.mass", "toes.mass")
KEPT = ("turning_angle", "t_end", "W_t")


def slopes(laws, params, leaves):
    """Exact derivatives by every leaf, (leaf, lane) for each outcome."""
    machine = FOOT.machine("compliant", laws, TIGHT)
    lanes = len(params["knee"])

    def kept(moved):
        out = simulate(machine, params | moved)
        return {name: out[name] for name in KEPT}

    def along(direction):
        tangent = {name: jnp.full(lanes, direction[i]) for i, name in enumerate(leaves)}
        return jax.jvp(kept, ({name: params[name] for name in leaves},), (tangent,))[1]

    return quick_jit(jax.vmap(along))(jnp.eye(len(leaves)))


def differences(laws, params, leaves, sizes, step):
    """Differences of fourth order by relative changes of every leaf, (leaf, lane) for each outcome."""

    def central(width):
        moved = {name: [] for name in params}
        for leaf in leaves:
            for sign in (1.0, -1.0):
                for name, value in params.items():
                    moved[name].append(value + (sign * width * sizes[leaf] if name == leaf else 0.0))
        out = outcomes(laws, TIGHT, **{name: np.concatenate(values) for name, values in moved.items()})
        assert np.all(out["status"] == FINISHED)
        pairs = {name: out[name].reshape(len(leaves), 2, -1) for name in KEPT}
        return {name: (pair[:, 0] - pair[:, 1]) / (2 * width) for name, pair in pairs.items()}

    near, far = central(step), central(2 * step)
    return {name: (4 * near[name] - far[name]) / 3 for name in KEPT}


@pytest.mark.parametrize(
    "normal, damping, knee",
    [("kelvin_voigt", "c", 0.48), pytest.param("hunt_crossley", "chi", 0.455, marks=pytest.mark.slow)],
)
def test_derivatives_through_touch_downs_are_those_of_differences(normal, damping, knee):
    # The first leg bounces: about ten events. At lift-offs the force's slope is not smooth inside the step that finds
    # them, and derivatives lose digits. The second leg only touches down.
    laws, leaves = LAWS | {"normal": normal}, (*LEAVES, damping)
    start = {"knee": [knee, 0.5], "shank": np.array([-90, 90]) * DEGREE, "foot": np.array([-90, 0]) * DEGREE}
    params = {name: jnp.broadcast_to(jnp.asarray(value, float), 2) for name, value in (DEFAULTS | start).items()}
    sizes = {name: np.maximum(np.abs(params[name]), 1e-2) for name in leaves}
    exact, difference = slopes(laws, params, leaves), differences(laws, params, leaves, sizes, 1e-5)
    for name in KEPT:
        ours = np.asarray(exact[name]) * np.array([sizes[leaf] for leaf in leaves])
        scale = np.maximum(np.abs(difference[name]), 1e-2 * np.abs(difference[name]).max(0))
        error = np.max(np.abs(ours - difference[name]) / scale, axis=0)
        assert np.all(error < [1e-5, 1e-6]), (name, error)
        assert np.all(np.abs(ours).max(1)[[leaves.index("mu"), leaves.index("k"), leaves.index(damping)]] > 0)


# ---- the paper's statement


def test_coulomb_friction_alone_lets_the_foot_pass_the_vertical_and_viscous_friction_stops_it():
    # Foot, Fig. 7: a leg let go level. How high its knee is held is not printed: far down no friction lets it pass, far
    # up none stops it, and in a window between the viscous part decides. It is narrow: less than a millimetre.
    knee = np.linspace(0.449, 0.455, 25)
    dry = outcomes(knee=knee, mu_viscous=0.0)["turning_angle"]
    viscous = outcomes(knee=knee)["turning_angle"]
    window = knee[(dry > 0) & (viscous < 0)]
    assert not np.any((dry < 0) & (viscous > 0))
    assert dry[0] < 0 and viscous[0] < 0 and dry[-1] > 0 and viscous[-1] > 0
    assert 2 <= len(window) <= 6 and np.ptp(window) < 1e-3
    assert window[0] <= DEFAULTS["knee"] <= window[-1]


# ---- how runs end


def test_a_leg_that_jams_has_stopped():
    # Between knee and ground, where dry friction would hold it for good; smoothed friction lets it creep for seconds.
    jammed = {"knee": np.linspace(0.466, 0.486, 6), "shank": 90 * DEGREE, "foot": 0.0}
    out = outcomes(DASHPOT, **jammed)
    assert np.all(out["status"] == FINISHED) and np.all(out["t_end"] < 0.5)
    creeping = outcomes(DASHPOT, v_rest=0.0, **jammed)
    assert np.sum(creeping["status"] == TIME_LIMIT) >= 4
    # The slower the creep, the more of friction is dry: where the leg stops no longer depends on it.
    drier = outcomes(DASHPOT, v_slip=0.005, v_rest=0.005, **jammed)
    np.testing.assert_allclose(drier["turning_angle"], out["turning_angle"], atol=0.02)


def test_a_leg_that_turns_back_ends_there_whatever_counts_as_rest():
    slow, exact = (outcomes(v_rest=value, **FALLS) for value in (0.005, 0.0))
    np.testing.assert_allclose(slow["turning_angle"], exact["turning_angle"], atol=2e-3)


def test_bad_values_are_the_status_of_their_own_lane():
    knee = np.array([0.46, np.nan, 0.46, 0.46, np.inf, 0.46])
    mass = np.array([1.33, 1.33, -1.0, 1.33, 1.33, 1.33])
    radius = np.array([0.0311, 0.0311, 0.0311, 0.6, 0.0311, 0.0311])
    out = outcomes(knee=knee, **{"foot.mass": mass, "s3.radius": radius})
    assert list(out["status"]) == [FINISHED, BAD_VALUE, BAD_VALUE, BAD_VALUE, BAD_VALUE, FINISHED]
    for name in ("turning_angle", "t_end", "W_n"):
        assert np.all(np.isnan(out[name][1:5]))
        np.testing.assert_allclose(out[name][[0, 5]], outcomes(knee=0.46)[name][0], rtol=1e-12)


# ---- in studies


def test_a_study_of_knees_gives_outcomes_and_curves():
    knees = [0.44, 0.46, 0.5]
    result = run(
        study(FOOT, vary={"knee": knees}, solver={"max_time": MAX_TIME}, output={"curves": True, "points": 101})
    )
    direct = outcomes(knee=knees)
    for name in ("turning_angle", "t_end", "W_n", "W_t", "energy_error"):
        np.testing.assert_allclose(result[name], direct[name], rtol=1e-6, atol=1e-9)
    assert np.all(result["status"] == FINISHED)
    t, F_n, F_t, cop, down = (
        np.asarray(result[name].transpose("knee", ...)) for name in ("t", "F_n", "F_t", "cop_x", "down")
    )
    np.testing.assert_allclose(t[:, -1], direct["t_end"], rtol=1e-9)
    shank = np.asarray(result["shank_angle"].transpose("knee", ...))
    np.testing.assert_allclose(shank[:, 0], -90 * DEGREE)
    np.testing.assert_allclose(shank[:, -1], direct["turning_angle"], rtol=1e-6)  # it starts in front: side is -1
    assert np.all(F_n >= 0) and np.all(F_n[down == 0] == 0) and np.all(F_n[:, 0] == 0)
    assert F_n.max() > 100 and F_t.max() > 50  # the leg comes from the front, and friction pushes it forward
    assert np.all(np.abs(cop) < 0.7)
