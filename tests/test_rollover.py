"""A leg that rolls over its foot: multipliers, closed forms, balances, derivatives, and spheres in the stiff limit."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxcontact.bodies import linkage
from jaxcontact.contact import rolling
from jaxcontact.integrate.machine import BAD_VALUE, FINISHED, RUNNING, simulate, simulate_steps
from jaxcontact.integrate.settings import Settings
from jaxcontact.models import roller, rollover, sagittal
from jaxcontact.models.layouts import THREE_SPHERES
from jaxcontact.models.model import DEGREE, default_params

MODEL = rollover.rollover_model()
LAWS = {name: options[0] for name, options in MODEL.choices.items()}
LANES = 8  # of every run here, so that each method compiles once
TIGHT = Settings(rtol=1e-9, atol=1e-11)
LEVEL = {"xla_backend_optimization_level": 0}  # runs are short: what costs is the compiler


@cache
def compiled(method, varied):
    """Outcomes of many lanes, and their derivatives, each lane by its own direction in the varied parameters."""

    def of(params, direction, settings):
        machine = MODEL.machine(method, LAWS, settings)
        chosen = {name: params[name] for name in varied}
        found, slopes = jax.jvp(lambda chosen: simulate(machine, params | chosen), (chosen,), (direction,))
        return found, {name: slope for name, slope in slopes.items() if name not in ("status", "n_steps")}

    lanes = {name: jax.ShapeDtypeStruct((LANES,), float) for name in default_params(MODEL)}
    return jax.jit(of).lower(lanes, {name: lanes[name] for name in varied}, TIGHT).compile(LEVEL)


VARIED = {"rolling": ("front.A", "rear.C", "rear.circle", "ankle.stiffness"), "spheres": ("k", "s1.radius")}


def run(method, settings=TIGHT, direction=None, **changed):
    """Outcomes and slopes, as numpy, at the defaults but for `changed` (SI), each a number or up to LANES of them."""
    params = {name: _lanes(value) for name, value in (default_params(MODEL) | changed).items()}
    along = {name: _lanes((direction or {}).get(name, 0.0)) for name in VARIED[method]}
    return jax.tree.map(np.asarray, compiled(method, VARIED[method])(params, along, settings))


def _lanes(value):
    values = np.atleast_1d(np.asarray(value, float))
    return np.append(values, np.full(LANES - len(values), values[-1]))


def around(names, relative=1e-4):
    """Two lanes for each parameter, below and above its default, and the direction in which each differs."""
    params = default_params(MODEL)
    lanes, direction = {name: np.full(2 * len(names), params[name]) for name in names}, {}
    for i, name in enumerate(names):
        lanes[name][2 * i : 2 * i + 2] *= [1 - relative, 1 + relative]
        direction[name] = np.repeat(np.arange(len(names)) == i, 2) * params[name]
    return lanes, direction


def check_slopes(found, names, outcomes, rel, first=0, relative=1e-4):
    """The mean slope of two neighbours is their difference, but for the third derivative."""
    values, slopes = found
    for i, name in enumerate(names):
        pair = slice(first + 2 * i, first + 2 * i + 2)
        for outcome in outcomes:
            difference = np.diff(values[outcome][pair])[0] / (2 * relative)
            assert np.mean(slopes[outcome][pair]) == pytest.approx(difference, rel=rel, abs=1e-9), (name, outcome)


# ---------------------------------------------------------------- equations of the rolling method


def test_multipliers_give_the_same_accelerations_and_forces():
    """The tree with its base free, and rolling as a constraint on ankle and foot: a second derivation."""
    rng = np.random.default_rng(1)
    n = 40
    params = default_params(MODEL) | {"rear.A": 0.05, "rear.C": 4.0, "surface.tilt": 0.03, "front.C": 5.0}
    r = rollover.roller_of(params, RUNNING)
    y = np.array([rng.uniform(-0.4, 0.5, n), rng.uniform(-0.4, 0.4, n), *rng.normal(0, 2, (2, n)), *np.zeros((3, n))])
    t = rng.uniform(0, 0.6, n)
    now = roller.look(r, t, np.where(y[0] >= 0.03, roller.FRONT, roller.REAR), y)

    links = (r.foot, r.body)
    ankle = rolling.roll(r.surface, y[0] - r.flat, r.ankle)
    held = rolling.constraint(
        r.surface, (*ankle.position, y[0] - r.flat), (*rolling.velocity(ankle, y[2]), y[2]), r.ankle
    )
    np.testing.assert_allclose(held.rate, 0.0, atol=1e-14)
    mass = np.asarray(linkage.mass_matrix(links, [y[0], y[1]]))
    speed, weight = (np.asarray(part) for part in linkage.bias(links, [y[0], y[1]], [y[2], y[3]], r.gravity))
    torque = rollover.ankle_torque(params, t, y[1] - y[0], y[3] - y[2])
    for i in range(n):
        J = np.array([[float(np.broadcast_to(x, (n,))[i]) for x in (*row, 0.0)] for row in held.jacobian])
        matrix = np.block([[mass[..., i], -J.T], [J, np.zeros((2, 2))]])
        forces = np.array([0.0, 0.0, -torque[i], torque[i]]) - speed[:, i] - weight[:, i]
        found = np.linalg.solve(matrix, np.append(forces, [-held.drift[0][i], -held.drift[1][i]]))
        np.testing.assert_allclose([now.spin[0][i], now.spin[1][i]], found[2:4], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose([now.force[0][i], now.force[1][i]], found[4:], rtol=1e-9, atol=1e-8)


def test_a_side_goes_on_smoothly_beyond_flat():
    """Seen from one mode, position and its derivatives have no jump at alpha = 0; inside the mode they are the true."""
    params = default_params(MODEL) | {"rear.A": 0.05, "rear.C": 4.0}
    r = rollover.roller_of(params, RUNNING)

    def ankle(angle, mode):
        y = jnp.array([angle, 0.1, 1.0, 1.0, 0.0, 0.0, 0.0])
        return jnp.stack(sum(roller.look(r, 0.0, mode, y).ankle, ()))

    for mode, sign in ((roller.FRONT, 1.0), (roller.REAR, -1.0)):
        inside, beyond = ankle(sign * 1e-7, mode), ankle(-sign * 1e-7, mode)
        np.testing.assert_allclose(inside, beyond, atol=5e-6)
        np.testing.assert_allclose(
            ankle(sign * 0.2, mode), jnp.stack(sum(rolling.roll(r.surface, sign * 0.2, r.ankle), ())), rtol=1e-12
        )
    assert abs(float((ankle(1e-9, roller.FRONT) - ankle(-1e-9, roller.REAR))[-1])) > 0.3  # radii of curvature differ


def test_the_default_contour_is_convex_and_meets_heel_and_ball_of_the_spheres():
    params = default_params(MODEL)
    r = rollover.roller_of(params, RUNNING)
    tilts = np.linspace(-30, 30, 121) * DEGREE
    assert np.all(rolling.curvature_radius(r.surface, tilts) > 0.001)
    for sphere, sign in (("s1", -1.0), ("s2", 1.0)):
        x, _ = rolling.contour(r.surface, sign * 20.0 * DEGREE)
        lowest = params[f"{sphere}.x"] + sign * params[f"{sphere}.radius"] * np.sin(20.0 * DEGREE)
        assert float(x) + params["surface.x"] == pytest.approx(lowest, abs=1e-3)


# ---------------------------------------------------------------- runs of the rolling method


@pytest.fixture(scope="module")
def rolled():
    """One run with its curves."""
    recorder = MODEL.recorder("rolling", LAWS, TIGHT, 801)
    params = {name: jnp.asarray(value) for name, value in default_params(MODEL).items()}
    return jax.tree.map(np.asarray, jax.jit(lambda p: simulate(recorder, p))(params))


def test_a_foot_without_load_rocks_like_a_disk_whose_centre_of_mass_is_low():
    """Foot alone on a circle R with its centre at height h: small swings at omega^2 = m g (R - h) / (I + m h^2)."""
    m, inertia, radius, h, swing = 100.0, 0.5, 0.3, 0.2, 0.01
    nothing = dict.fromkeys(("front.A", "rear.A", "surface.x", "ankle.x", "ankle.z", "toes.x", "toes.z"), 0.0)
    nothing |= dict.fromkeys(("toe_joint.x", "toe_joint.z", "ankle.stiffness", "ankle.damping", "foot.rate"), 0.0)
    light = {"body.mass": 1e-3, "body.inertia": 1e-6, "body.centre": 0.3, "toes.mass": 1e-3, "leg.rate": 0.0}
    ends = np.array([0.02, 0.05, 0.1, 0.2])
    values, _ = run(
        "rolling", **nothing, **light, foot=swing, leg=0.01,
        **{"front.circle": radius, "rear.circle": radius, "surface.z": -h, "foot.mass": m, "foot.inertia": inertia},
        **{"leg.end": ends},
    )  # fmt: skip
    omega = np.sqrt(m * 9.81 * (radius - h) / (inertia + m * h * h))
    assert np.ptp(omega * values["t_end"]) > 1.5  # a good part of a swing, through flat
    np.testing.assert_allclose(values["foot_end"], swing * np.cos(omega * values["t_end"]), atol=2e-3 * swing)


def test_the_material_point_at_the_contact_stands_still(rolled):
    """Follow the points that were at the contact, by differences of their places, against how fast the ankle goes."""
    curves = rolled["curves"]
    r = rollover.roller_of(default_params(MODEL), RUNNING)
    tilt, middle = curves["foot_angle"], slice(20, -20, 20)
    at = rolling.contour(r.surface, tilt[middle])

    def velocity(point):
        ahead, behind = (rolling.roll(r.surface, tilt[20 + k : -20 + k or None : 20], point).position for k in (1, -1))
        return np.array([(a - b) for a, b in zip(ahead, behind, strict=True)]) / (2 * curves["t"][1])

    np.testing.assert_allclose(velocity(at), 0.0, atol=2e-5)
    assert np.max(np.abs(velocity(r.ankle))) > 0.1  # m/s


def test_forces_add_up_to_the_change_of_momentum(rolled):
    curves, outcomes = rolled["curves"], rolled["outcomes"]
    params = default_params(MODEL)
    r = rollover.roller_of(params, RUNNING)
    links = (r.foot, r.body)

    def momentum(angles, rates):
        sines, cosines = linkage.directions(angles)
        velocity = rolling.velocity(rolling.roll(r.surface, angles[0], r.ankle), rates[0])
        mass = linkage.total_mass(links)
        return mass * np.array(linkage.velocity(linkage.centre_of_mass(links), velocity, rates, sines, cosines))

    foot_rate = np.polyfit(curves["t"][-9:] - curves["t"][-1], curves["foot_angle"][-9:], 4)[-2]
    end = momentum([outcomes["foot_end"], params["leg.end"]], [foot_rate, outcomes["leg_rate_end"]])
    begin = momentum([params["foot"], params["leg"]], [params["foot.rate"], params["leg.rate"]])
    impulse = [np.trapezoid(curves[name], curves["t"]) for name in ("F_t", "F_n")]
    impulse[1] -= 65.002 * 9.81 * outcomes["t_end"]
    np.testing.assert_allclose(impulse, end - begin, atol=2e-3)  # N s


def test_rolling_is_a_run_that_a_floor_could_give(rolled):
    curves, outcomes = rolled["curves"], rolled["outcomes"]
    assert outcomes["status"] == FINISHED
    assert outcomes["P_pull"] == 0.0 and outcomes["P_slip"] == 0.0
    assert np.all(curves["F_n"] > 0) and np.all(np.abs(curves["F_t"]) < 0.5 * curves["F_n"])
    assert np.all(np.diff(curves["cop_x"][:100]) > 0) and curves["cop_x"][0] < -0.08 < 0.08 < curves["cop_x"][-1]
    # The steps that passed the points are those of the run.
    np.testing.assert_allclose(np.max(curves["t"]), outcomes["t_end"], rtol=1e-12)
    assert np.min(curves["step"]) <= outcomes["mean_step"] <= np.max(curves["step"]) < outcomes["t_end"]


def test_what_a_floor_could_not_give_is_told():
    """A slippery floor needs more friction than there is, by just as much as is missing; a throw makes it pull."""
    values, _ = run("rolling", mu=np.array([0.5, 0.0]))
    assert values["P_slip"][0] == 0.0 and 20.0 < values["P_slip"][1] < 100.0
    fast, _ = run("rolling", **{"leg.rate": 4.5})
    assert fast["P_pull"][0] > 1.0


def test_energy_is_what_the_ankle_adds():
    values, _ = run("rolling", **{"leg.rate": np.array([1.4, 1.55, 1.8]), "rear.C": 5.0})
    assert np.all(values["status"] == FINISHED)
    assert np.min(np.abs(values["W_joint"])) > 0.1
    np.testing.assert_allclose(values["energy_error"], 0.0, atol=1e-6)


def test_derivatives_of_rolling_by_its_shape_meet_differences():
    """Through the event at foot flat, where the radius of curvature jumps."""
    names = VARIED["rolling"]
    lanes, direction = around(names)
    found = run("rolling", **lanes, direction=direction)
    check_slopes(found, names, ("t_end", "foot_end", "leg_rate_end", "cop_end", "W_joint"), rel=2e-5)


@pytest.mark.slow
def test_reverse_mode_is_forward_mode():
    machine = MODEL.machine("rolling", LAWS, Settings(rtol=1e-4, atol=1e-6))
    params = {name: jnp.asarray(value) for name, value in default_params(MODEL).items()}
    params["foot"], params["leg.end"] = -1.0 * DEGREE, -14.0 * DEGREE  # through flat, in a few steps

    def outcome(chosen):
        found = simulate_steps(machine, params | chosen, 30)
        return found["foot_end"] + found["W_joint"], found["status"]

    chosen = {name: params[name] for name in ("front.A", "rear.C", "ankle.stiffness")}
    backward, status = jax.jit(jax.grad(outcome, has_aux=True))(chosen)
    forward, _ = jax.jit(jax.jacfwd(outcome, has_aux=True))(chosen)
    assert status == FINISHED
    for name in chosen:
        assert backward[name] == pytest.approx(float(forward[name]), rel=1e-9)


# ---------------------------------------------------------------- spheres


def test_spheres_start_with_the_load_asked_for_and_without_slip():
    loads = np.array([0.0, 0.3, 1.0])

    @jax.jit
    def heel(params):
        mechanism = rollover.mechanism_on(THREE_SPHERES, LAWS, params, RUNNING)
        state = sagittal.start(mechanism, TIGHT, params)
        contacts = sagittal.see(mechanism, state.y).contacts
        total = sum(jnp.sum(each.F_n, axis=0) for each in contacts)
        return total, contacts[0].touch.v_n[0], contacts[0].touch.v_t[0][0]

    total, rise, slip = heel(default_params(MODEL) | {"start_load": loads})
    np.testing.assert_allclose(total, loads * 65.002 * 9.81, atol=1e-6)
    np.testing.assert_allclose([rise, slip], 0.0, atol=1e-14)


# One big sphere under the foot, so that it rolls on a circle; toes next to weightless.
DISK = {
    **dict.fromkeys(("front.A", "rear.A", "s2.weight", "s3.weight", "toe_joint.damping"), 0.0),
    **dict.fromkeys(("front.circle", "rear.circle", "s1.radius"), 0.15),
    **{"s1.x": -0.0165, "s1.z": 0.15 - 0.0495, "toes.mass": 1e-3, "toes.inertia": 1e-6, "toe_joint.stiffness": 0.02},
    **{"mu": 3.0, "v_slip": 0.02, "leg.end": -14.0 * DEGREE},
}


@pytest.fixture(scope="module")
def spheres():
    """Disks of rising stiffness; the default foot with stiffness and radius of its heel below and above; a bad lane."""
    params = default_params(MODEL)
    lanes, direction = around(VARIED["spheres"])
    rows = [DISK | {"k": k} for k in (1e7, 1e8, 1e9)]
    rows += [{name: values[i] for name, values in lanes.items()} | {"leg.end": -13.0 * DEGREE} for i in range(4)]
    rows.append({"mu": np.nan})
    changed = {name: [row.get(name, params[name]) for row in rows] for row in rows for name in row}
    direction = {name: np.concatenate([np.zeros(3), along, np.zeros(1)]) for name, along in direction.items()}
    return run("spheres", Settings(rtol=1e-8, atol=1e-10), direction, **changed)


def test_spheres_balance_energy_and_one_bad_lane_harms_no_other(spheres):
    values, _ = spheres
    assert values["status"].tolist() == [FINISHED] * 7 + [BAD_VALUE]
    np.testing.assert_allclose(values["energy_error"][:7], 0.0, atol=1e-6)
    assert np.all(values["W_t"][:7] < 0)


def test_a_stiff_sphere_rolls_as_the_rolling_joint_does(spheres):
    """A hundred times stiffer it is 20 times less deep, and comes so much nearer; while it rings, not steadily so."""
    values, _ = spheres
    joint, _ = run("rolling", **DISK)
    assert joint["foot_end"][0] - default_params(MODEL)["foot"] > 0.04  # rad that it has turned
    for name, within in (("foot_end", 1e-4), ("cop_end", 1e-4), ("t_end", 5e-5)):
        apart = np.abs(values[name][:3] - joint[name][0])
        assert apart[2] < within and apart[2] < 0.2 * apart[0], name


def test_derivatives_of_spheres_by_stiffness_and_radius_meet_differences(spheres):
    check_slopes(spheres, VARIED["spheres"], ("t_end", "foot_end", "W_n"), rel=1e-3, first=3)
