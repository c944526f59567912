"""The models: a second derivation, closed forms, balances, both methods against each other, true sticking."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import referee

from jaxcontact.bodies import linkage
from jaxcontact.bodies.linkage import Link, directions, jacobian, mass_matrix, point
from jaxcontact.contact import impulse
from jaxcontact.integrate.machine import (
    BAD_VALUE,
    CANNOT_TOUCH,
    FINISHED,
    MOVING_UP,
    NON_FINITE,
    RUNNING,
    TIME_LIMIT,
    simulate,
)
from jaxcontact.integrate.settings import Settings
from jaxcontact.models import compass, compliant, crutch, get_model
from jaxcontact.models.model import DEGREE, default_params
from jaxcontact.models.strike import Strike, respond, tables, tip_start
from jaxcontact.study.definition import SINGLE_PRECISION

LAWS = {"normal": "hunt_crossley", "friction": "coulomb"}


WIDTH = 64  # lanes that run together: one program serves the tests, however many configurations each of them has


@cache
def compiled(name, method, laws):
    """One function for all tests; tolerances are arguments, so only other shapes compile again."""
    machine_of = get_model(name).machine
    return jax.jit(lambda params, settings: simulate(machine_of(method, dict(laws), settings), params))


def numbers(name, params):
    """All parameters of a model, at the defaults but for `params` (SI)."""
    return {k: jnp.asarray(v, float) for k, v in (default_params(get_model(name)) | params).items()}


def outcomes(name, method="compliant", settings=None, laws=None, **params):
    """Outcomes at the defaults but for `params` (SI), as numpy."""
    function = compiled(name, method, tuple((LAWS | (laws or {})).items()))
    return in_lanes(function, numbers(name, params), settings or Settings(), WIDTH)


def in_lanes(function, params, settings, width):
    """Trace a function with numbers and lanes as they come, which it must accept in any mix, and run `width` lanes."""
    shapes = jax.eval_shape(function, params, settings)
    (count,) = np.broadcast_shapes(*(v.shape for v in params.values())) or (0,)
    if count == 0:  # one configuration, without lanes
        return jax.tree.map(np.asarray, function(params, settings))
    filled = -(-count // width) * width
    lanes = {k: np.resize(np.broadcast_to(v, count), filled) for k, v in params.items()}
    parts = [function({k: v[i : i + width] for k, v in lanes.items()}, settings) for i in range(0, filled, width)]

    def whole(shape, *found):
        lanes_last = np.concatenate([np.broadcast_to(a, (*np.shape(a)[:-1], width)) for a in found], axis=-1)
        return lanes_last[..., :count] if shape.shape else lanes_last[0]

    return jax.tree.map(whole, shapes, *parts)


# Sliding then sticking, reversal, permanent sliding backwards and forwards, and a long slide that just sticks.
REFEREE_CASES = [(12, -0.2, 0.75), (21, 0.4, 0.5), (18, -0.2, 0.5), (15, 0.3, 0.4), (9, 0.4, 0.62), (6, -0.2, 1.0)]


@pytest.fixture(scope="module")
def refereed():
    q3, dq5, mu = (np.array(x, float) for x in zip(*REFEREE_CASES, strict=True))
    ours = outcomes("crutch", q3=q3 * DEGREE, dq5=dq5, mu=mu)
    theirs = [referee.crutch_impact(np.radians(a), b, c) for a, b, c in REFEREE_CASES]
    return ours, theirs


def test_scipy_in_other_coordinates_gives_the_same_impact(refereed):
    ours, theirs = refereed
    for i, other in enumerate(theirs):
        for name in ("P_n", "P_t", "W_n", "W_t", "t_end"):
            assert ours[name][i] == pytest.approx(other[name], rel=1e-6), (name, REFEREE_CASES[i])
        for name in ("v_n_foot", "v_t_tip"):
            assert ours[name][i] == pytest.approx(other[name], abs=1e-6), (name, REFEREE_CASES[i])


def test_scipy_goes_through_the_same_modes(refereed):
    ours, theirs = refereed
    expected = {(1, 0): "sliding_sticking", (-1, 0): "sliding_sticking", (1,): "permanent_sliding"}
    expected |= {(-1,): "permanent_sliding", (-1, 1): "sliding_reversal", (1, -1): "sliding_reversal"}
    assert [impulse.REGIMES[r] for r in ours["regime"]] == [expected[tuple(o["modes"])] for o in theirs]


def test_default_tolerance_gives_impulses_converged_to_a_millionth():
    rng = np.random.default_rng(4)
    n = 64
    params = {
        "q3": rng.uniform(3, 21, n) * DEGREE, "dq5": rng.uniform(-0.2, 0.4, n), "mu": rng.uniform(0.4, 1.1, n),
        "k_n": referee.K_N * 10 ** rng.uniform(-0.5, 0.5, n), "chi": 1e7 * 10 ** rng.uniform(-0.7, 0.7, n),
    }  # fmt: skip
    usual = outcomes("crutch", **params)
    fine = outcomes("crutch", settings=Settings(rtol=1e-11, atol=1e-13), **params)
    for name in ("P_n", "P_t"):
        np.testing.assert_allclose(usual[name], fine[name], rtol=1e-6)
    for name in ("W_n", "t_end", "F_n_peak"):
        np.testing.assert_allclose(usual[name], fine[name], rtol=2e-6)


@pytest.mark.parametrize("stepper", ["rk4", "semi_implicit_euler"])
def test_fixed_steps_converge_to_the_adaptive_impact(stepper):
    # Hertz contact starts as t^1.5, whose third derivative is infinite: no method exceeds order 2.5 on the velocities.
    exact = outcomes("crutch", settings=Settings(rtol=1e-12, atol=1e-14))
    steps = np.array([8e-5, 4e-5, 2e-5])
    errors = []
    for step in steps:
        run = outcomes("crutch", settings=Settings(stepper=stepper, step=float(step)))
        assert run["status"] == FINISHED and run["regime"] == exact["regime"]
        errors.append(abs(run["P_n"] - exact["P_n"]))
    order = np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert order > (2.2 if stepper == "rk4" else 0.8), errors


def test_energy_balance_of_the_compliant_impact():
    # What the contact takes is what kinetic and potential energy lose (eq. 39 with the potential term).
    params = {
        "q3": np.array([6.0, 12.0, 21.0]) * DEGREE,
        "dq5": np.array([0.4, -0.2, 0.4]),
        "mu": np.array([1, 0.75, 0.5]),
    }
    values = numbers("crutch", params)
    machine = compliant.machine(crutch.assemble, LAWS, Settings(rtol=1e-11, atol=1e-13))
    start = state = jax.jit(machine.init)(values)
    step = jax.jit(machine.step)
    while not np.all(machine.done(state)):
        state = step(values, state)

    @jax.jit
    def energy(y):
        strike = crutch.assemble(values)
        table = tables(strike)
        sines, cosines = linkage.directions([y[2 + k] for k in range(4)])
        matrix = linkage.angle_matrix(table.pair, sines, cosines)
        rates = [y[8 + k] for k in range(4)]
        spin = sum(
            (0.5 if j == k else 1.0) * matrix[k][j] * rates[k] * rates[j] for k in range(4) for j in range(k + 1)
        )
        return spin + table.mass * (0.5 * (y[6] ** 2 + y[7] ** 2) + strike.gravity * y[1])

    work = state.y[12] + state.y[13]
    np.testing.assert_allclose(work, energy(state.y) - energy(start.y), rtol=1e-8)


def test_tip_response_is_that_of_the_full_mass_matrix():
    strike = crutch.assemble(default_params(get_model("crutch")))
    table = tables(strike)
    tip = tip_start(strike, table)
    sines, cosines = directions(strike.angles)
    response, _, _ = respond(table, tip, sines, cosines)
    by_x, by_y = jacobian(strike.tip, sines, cosines)
    rows = np.array([[0, 1, *by_y], [1, 0, *by_x]])
    full = impulse.point_response(np.linalg.inv(np.asarray(mass_matrix(strike.links, strike.angles))), rows)
    np.testing.assert_allclose(response, full, rtol=1e-11)


@pytest.mark.parametrize("name", ["crutch", "compass"])
def test_impulsive_energy_balance_to_rounding(name):
    out = outcomes(name, method="impulsive")
    assert out["energy_loss"] == pytest.approx(-(out["W_n"] + out["W_t"]))
    strike = {"crutch": crutch.assemble, "compass": compass.assemble}[name](default_params(get_model(name)))
    mass = np.asarray(mass_matrix(strike.links, strike.angles))
    before = np.array([*strike.base_velocity, *strike.rates], float)
    by_x, by_y = jacobian(strike.tip, *directions(strike.angles))
    if strike.tip_radius is not None:
        by_x = [*by_x[:-1], by_x[-1] - strike.tip_radius]  # the lowest material point of a wheel
    rows = np.array([[0, 1, *by_y], [1, 0, *by_x]])
    after = before + np.linalg.solve(mass, rows.T @ [out["P_n"], out["P_t"]])
    change = 0.5 * after @ mass @ after - 0.5 * before @ mass @ before
    assert out["W_n"] + out["W_t"] == pytest.approx(change, rel=1e-12)
    assert out["v_n_foot"] == pytest.approx(after[1], rel=1e-11)


def test_stiff_contact_approaches_the_impulsive_solution():
    # In the limit of infinite stiffness the posture is frozen: the difference falls with the duration, k_n^(-2/5).
    stiffness = referee.K_N * 10.0 ** np.array([1, 2, 3, 4])
    soft = outcomes("crutch", k_n=stiffness, chi=0.0)
    hard = outcomes("crutch", method="impulsive")
    for name in ("P_n", "P_t", "W_n", "v_n_foot"):
        error = np.abs(soft[name] - hard[name])
        assert np.polyfit(np.log(stiffness), np.log(error), 1)[0] == pytest.approx(-0.4, abs=0.1), name


def test_compass_with_feet_as_long_as_its_legs_is_a_wheel():
    for method in ("compliant", "impulsive"):
        out = outcomes("compass", method=method, R=1.0)
        assert out["status"] == FINISHED and abs(out["energy_loss"]) < 1e-12
        assert out["speed_hip"] == pytest.approx(1.0)  # R times the rate


def test_compass_without_leg_masses_has_a_closed_form():
    # A point mass on massless legs with pointed feet: the front leg takes the velocity along it, leaving cos(2 q3).
    light = {"leg.mass": 1e-3, "hip.mass": 1e3, "R": 0.0}
    out = outcomes("compass", method="impulsive", mu=10.0, **light)
    assert out["regime"] in (impulse.SLIDING_STICKING, impulse.PERMANENT_STICKING)
    assert out["speed_hip"] == pytest.approx(np.cos(40 * DEGREE), rel=1e-4)
    assert out["energy_loss"] == pytest.approx(0.5 * 1e3 * np.sin(40 * DEGREE) ** 2, rel=1e-4)


def test_lanes_that_cannot_run_say_why():
    q3 = np.array([12.0, 12.0, 12.0, 12.0, np.nan]) * DEGREE
    out = outcomes("crutch", q3=q3, q5=np.array([150, 10, 150, 150, 150]) * DEGREE,
                   dq6=np.array([0, 0, -5.0, 0, 0]), mu=np.array([0.75, 0.75, 0.75, -1.0, 0.75]))  # fmt: skip
    assert list(out["status"]) == [FINISHED, CANNOT_TOUCH, MOVING_UP, BAD_VALUE, BAD_VALUE]
    assert np.isfinite(out["P_n"][0]) and np.all(np.isnan(out["P_n"][1:]))
    assert out["P_n"][0] == pytest.approx(outcomes("crutch")["P_n"], rel=1e-10)


@cache
def recorder():
    recorder_of = get_model("crutch").recorder
    return jax.jit(lambda params, settings: simulate(recorder_of("compliant", LAWS, settings, 4001), params)["curves"])


def test_peak_force_is_the_maximum_of_its_curve():
    settings, chi = Settings(rtol=1e-9, atol=1e-11), np.array([0.0, 1e7, 5e7])
    curves = in_lanes(recorder(), numbers("crutch", {"chi": chi}), settings, 4)
    out = outcomes("crutch", settings=settings, chi=chi)
    np.testing.assert_allclose(out["F_n_peak"], curves["F_n"].max(axis=0), rtol=1e-6)
    assert np.all(out["F_n_peak"] >= curves["F_n"].max(axis=0) * (1 - 1e-9))
    # Curves end where the run ends, and impulses are areas under the forces.
    np.testing.assert_allclose(curves["t"][-1], out["t_end"], rtol=1e-12)
    np.testing.assert_allclose(np.trapezoid(curves["F_n"], curves["t"], axis=0), out["P_n"], rtol=1e-5)
    np.testing.assert_allclose(np.trapezoid(curves["F_t"], curves["t"], axis=0), out["P_t"], rtol=1e-4)
    np.testing.assert_allclose(curves["P_n"][-1], out["P_n"], rtol=1e-9)


def test_coulomb_force_lies_in_its_cone_and_opposes_slip_all_along():
    params = {"q3": np.array([12.0, 21.0, 15.0, 18.0]) * DEGREE, "dq5": np.array([-0.2, 0.4, 0.0, 0.0])}
    params |= {"mu": np.array([0.75, 0.5, 0.75, 0.75])}
    curves = in_lanes(recorder(), numbers("crutch", params), Settings(), 4)
    assert np.all(curves["F_n"] >= 0)
    assert np.all(np.abs(curves["F_t"]) <= params["mu"] * curves["F_n"] * (1 + 1e-6) + 1e-6)
    assert np.all(curves["F_t"] * curves["v_t_tip"] <= 1e-3)  # W, of thousands; sticking leaves 1e-9 m/s
    np.testing.assert_allclose(curves["depth"][0], 0, atol=1e-14)


# ---- a block on the ground: loaded, pushed sideways, held for minutes


def block(push, speed=0.0, mass=70.0, mu=0.5, mu_ratio=1.0):
    """A block at rest in its own print, or sliding; `push` is a constant horizontal force (N)."""
    links = [Link(-1, mass, 1.0, 0.0)]
    contact = {"mu": mu, "mu_ratio": mu_ratio, "k_n": 4e7, "chi": 1e7, "k_t": 5e7, "v_slip": 0.01}
    depth = (mass * 9.81 / 4e7) ** (2 / 3)

    def assemble(_params):
        return Strike(
            links=links, tip=point(links, 0, 0.0), tip_radius=None, tip_link=0, base=(0.0, -depth),
            base_velocity=(speed, 0.0), angles=[0.0], rates=[0.0], watched={}, contact=contact, gravity=9.81, push=push,
            status=jnp.asarray(RUNNING),
        )  # fmt: skip

    return assemble


def hold(assemble, seconds, friction="coulomb", stepper="dopri5"):
    settings = Settings(max_time=seconds, max_steps=200_000, stepper=stepper, step=2e-3, rtol=1e-9, atol=1e-12)
    machine = compliant.machine(assemble, LAWS | {"friction": friction}, settings, ends="max_time")

    def run():
        state = jax.lax.while_loop(lambda s: ~jnp.all(machine.done(s)), lambda s: machine.step({}, s), machine.init({}))
        return state.t, state.y[0], state.y[3], state.mode, state.status

    return [float(x) for x in jax.jit(run)()]


@pytest.mark.parametrize("stepper", ["dopri5", "rk4", "semi_implicit_euler"])
def test_a_loaded_sticking_contact_does_not_creep(stepper):
    seconds = 300.0
    load = 0.9 * 0.5 * 70.0 * 9.81
    t, x, v, mode, status = hold(block(load), seconds, stepper=stepper)
    assert (t, mode, status) == (pytest.approx(seconds), 0, FINISHED)
    assert abs(x) < 1e-12 and abs(v) < 1e-12


def test_regularised_friction_creeps_where_coulomb_holds():
    load = 0.9 * 0.5 * 70.0 * 9.81
    _, x, v, *_ = hold(block(load), 10.0, friction="regularised")
    assert v == pytest.approx(0.01 * np.arctanh(0.9), rel=1e-3)  # the slip at which it carries the load
    assert x == pytest.approx(v * 10.0, rel=0.02)


def test_tangential_compliance_gives_way_elastically_and_no_further():
    load = 0.5 * 0.5 * 70.0 * 9.81
    _, x, *_ = hold(block(load), 10.0, friction="tangential_compliance")
    depth = (70.0 * 9.81 / 4e7) ** (2 / 3)
    assert (
        0 <= x <= 2.001 * load / (5e7 * np.sqrt(depth))
    )  # applied at once, an undamped spring swings to twice its rest


def test_static_friction_holds_what_dynamic_friction_cannot_stop():
    # The load lies between mu_d N and mu_s N: at rest it is held for good, moving it speeds up.
    load = 1.2 * 0.5 * 70.0 * 9.81
    assert abs(hold(block(load, mu_ratio=1.4), 20.0)[1]) < 1e-12
    t, x, v, mode, _ = hold(block(load, speed=0.1, mu_ratio=1.4), 2.0)
    assert mode == 1
    acceleration = 0.2 * 0.5 * 9.81
    assert v == pytest.approx(0.1 + acceleration * t, rel=1e-6)
    assert x == pytest.approx(0.1 * t + 0.5 * acceleration * t**2, rel=1e-6)


def test_a_sliding_block_stops_where_coulomb_says_and_stays():
    t, x, v, mode, _ = hold(block(0.0, speed=1.0), 5.0)
    assert mode == 0 and abs(v) < 1e-12
    assert x == pytest.approx(1.0 / (2 * 0.5 * 9.81), rel=1e-6)


def test_float32_gives_the_same_regimes_and_impulses_to_a_ten_thousandth():
    model = get_model("crutch")
    swept = {"q3": np.repeat(np.arange(3, 22, 3), 3) * DEGREE, "dq5": np.tile([-0.2, 0.0, 0.4], 7)}
    double = outcomes("crutch", **swept)
    with jax.enable_x64(False):
        machine = model.machine("compliant", LAWS, Settings(**SINGLE_PRECISION))
        params = {k: jnp.asarray(v, jnp.float32) for k, v in (default_params(model) | swept).items()}
        single = jax.tree.map(np.asarray, jax.jit(lambda p: simulate(machine, p))(params))
    assert single["P_n"].dtype == np.float32
    np.testing.assert_array_equal(single["regime"], double["regime"])
    for name, accuracy in (("P_n", 1e-4), ("P_t", 1e-4), ("W_n", 1e-4), ("t_end", 1e-3), ("F_n_peak", 1e-3)):
        np.testing.assert_allclose(single[name], double[name], rtol=accuracy)


def test_a_tip_on_the_edge_of_the_cone_lets_go():
    # Without slip the tip sticks for microseconds until the cone breaks; on its edge rounding decides whether it
    # "holds". Lanes that stayed there forever were few: hence many here.
    q3, mu = np.meshgrid(np.linspace(3, 21, 31), np.linspace(0.4, 0.8, 31))
    settings = Settings(max_steps=120)
    for gravity in (9.81, 0.0):
        out = outcomes("crutch", settings=settings, q3=q3.ravel() * DEGREE, mu=mu.ravel(), dq5=0.0, gravity=gravity)
        assert np.all(out["status"] == FINISHED)


def test_one_contact_number_may_be_all_that_varies():
    for method in ("compliant", "impulsive"):
        run = compiled("crutch", method, tuple(LAWS.items()))  # with three lanes and all else single numbers
        out = run(numbers("crutch", {"mu": np.array([0.5, 0.75, 1.0])}), Settings())
        one = outcomes("crutch", method=method, mu=0.75)
        assert out["P_n"].shape == (3,) and out["P_n"][1] == pytest.approx(one["P_n"], rel=1e-10)


def test_a_dashpot_peaks_at_touch_down():
    # Kelvin-Voigt with much damping: the force jumps to c times the approach velocity and falls from there.
    strike = crutch.assemble(default_params(get_model("crutch")))
    approach = -float(tip_start(strike, tables(strike)).v_n)
    for friction in ("coulomb", "tangential_compliance", "regularised"):
        laws = {"normal": "kelvin_voigt", "friction": friction}
        out = outcomes("crutch", laws=laws, c_linear=np.array([5e3, 2e4]), k_linear=1e5)
        assert np.all(out["status"] == FINISHED)
        np.testing.assert_allclose(out["F_n_peak"], np.array([5e3, 2e4]) * approach, rtol=1e-9)


def test_time_that_runs_out_is_no_end():
    assert outcomes("crutch", settings=Settings(max_time=1e-4))["status"] == TIME_LIMIT
    assert outcomes("crutch", settings=Settings(max_time=1.0))["status"] == FINISHED


def test_a_first_step_far_too_long_is_taken_back():
    usual, hasty = outcomes("crutch"), outcomes("crutch", settings=Settings(first_step=1.0))
    assert hasty["status"] == FINISHED
    assert hasty["P_n"] == pytest.approx(usual["P_n"], rel=1e-7)


def test_a_singular_mass_matrix_is_not_finished():
    # A massless-inertia leg with its mass at the hip can turn freely: no impulse is defined by the algebra.
    for method in ("impulsive", "compliant"):
        out = outcomes("compass", method=method, **{"leg.centre": np.array([0.0, 0.5])})
        assert out["status"][0] == NON_FINITE and out["status"][1] == FINISHED


def test_bounds_forgive_rounding_only():
    out = outcomes("crutch", k_n=np.array([-5e4, referee.K_N]), chi=np.array([1e7, -9e4]))
    assert list(out["status"]) == [BAD_VALUE, BAD_VALUE]


def test_a_gripping_spring_converges_also_where_the_load_falls():
    # Much damping makes the normal force fall from touch-down, so the cone shrinks under a spring at its edge.
    laws = {"normal": "kelvin_voigt", "friction": "tangential_compliance"}
    rng = np.random.default_rng(8)
    params = {
        "q3": rng.uniform(5, 24, 60) * DEGREE,
        "dq5": rng.choice([-0.2, 0.0, 0.4], 60),
        "mu": rng.choice([0.1, 0.3, 0.6], 60),
        "k_linear": 10 ** rng.uniform(4, 6.5, 60),
        "c_linear": rng.choice([500.0, 5000.0], 60),
        "k_t": 10 ** rng.uniform(7, 9.5, 60),
    }
    usual = outcomes("crutch", laws=laws, **params)
    fine = outcomes("crutch", laws=laws, settings=Settings(rtol=1e-10, atol=1e-12), **params)
    both = (usual["status"] == FINISHED) & (fine["status"] == FINISHED)
    assert both.sum() >= 58
    np.testing.assert_allclose(usual["P_n"][both], fine["P_n"][both], rtol=1e-4)


def test_regimes_of_the_other_laws_say_what_happened():
    swept = {"mu": np.array([5.0, 0.3]), "q3": 15 * DEGREE, "dq5": 0.4}
    spring = outcomes("crutch", laws={"friction": "tangential_compliance"}, **swept)
    assert impulse.REGIMES[spring["regime"][0]] == "permanent_sticking"
    smooth = outcomes("crutch", laws={"friction": "regularised"}, **swept)
    assert impulse.REGIMES[smooth["regime"][1]] == "sliding_reversal"
