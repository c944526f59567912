"""The hybrid integrator: coefficient identities, orders of convergence, events with closed forms, referees."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from jaxcontact.errors import InputError
from jaxcontact.integrate import hybrid, locate
from jaxcontact.integrate.machine import (
    FINISHED,
    NON_FINITE,
    STEP_LIMIT,
    STEP_TOO_SMALL,
    Machine,
    simulate,
    simulate_steps,
)
from jaxcontact.integrate.settings import Settings
from jaxcontact.integrate.tableau import DOPRI5, RK4, SEMI_IMPLICIT_EULER, TABLEAUS

GRAVITY, RESTITUTION = 9.81, 0.8


def machine_of(system, settings, y0, mode=0):
    """A machine whose outcome is its final time, state and counters; y0(params) gives the start."""

    def init(params):
        y = y0(params)
        return hybrid.start(system, settings, params, 0.0, mode, y, jnp.zeros(y.shape[1:], jnp.int32))

    return Machine(
        init=init,
        step=lambda params, state: hybrid.advance(system, settings, params, state)[0],
        done=hybrid.done,
        finish=lambda params, state: {
            "t": state.t, "y": state.y, "status": state.status, "steps": state.steps, "mode": state.mode
        },
    )  # fmt: skip


def smooth_system(flow, positions=0):
    """A flow without events."""
    return hybrid.HybridSystem(
        flow=lambda params, t, mode, y: (flow(params, t, y), jnp.ones((1, *y.shape[1:]), y.dtype)),
        guards=lambda params, mode, signals: signals,
        transition=lambda params, t, mode, event, y, signals: (mode, y, jnp.zeros(y.shape[1:], bool)),
        boundary=(True,),
        positions=positions,
    )


def pendulum(params, t, y):
    return jnp.stack([y[1], -jnp.sin(y[0])])


PENDULUM = smooth_system(pendulum, positions=1)

# A ball that bounces: each landing reverses the velocity; it ends when the params' number of bounces is reached.
# Rows: height, velocity, bounces left.
BALL = hybrid.HybridSystem(
    flow=lambda params, t, mode, y: (jnp.stack([y[1], -params["g"] + 0 * y[1], 0 * y[2]]), y[:1]),
    guards=lambda params, mode, signals: signals,
    transition=lambda params, t, mode, event, y, signals: (
        mode, jnp.stack([0 * y[0], -params["e"] * y[1], y[2] - 1]), y[2] <= 1.5
    ),
    boundary=(True,),
    positions=1,
)  # fmt: skip


def ball_start(params):
    return jnp.stack(jnp.broadcast_arrays(params["height"], 0.0 * params["height"], params["bounces"]))


def ball_time(height, g, e, bounces):
    """Time of the n-th bounce of a ball dropped from rest."""
    fall = np.sqrt(2 * height / g)
    return fall * (1 + 2 * sum(e**k for k in range(1, bounces)))


def test_tableaus_satisfy_their_order_conditions():
    for tableau in (DOPRI5, RK4):
        s = tableau.slopes - 1
        a = np.vstack([np.zeros(s), tableau.stages[:, :s]])
        b, c = tableau.weights[:s], np.concatenate([[0], tableau.times])
        np.testing.assert_allclose(a.sum(1), c)
        for k in range(tableau.order):
            assert b @ c**k == pytest.approx(1 / (k + 1))
        assert b @ a @ c == pytest.approx(1 / 6)
        assert b @ a @ a @ c == pytest.approx(1 / 24)
        assert b @ (c * (a @ c)) == pytest.approx(1 / 8)


@pytest.mark.parametrize("tableau", TABLEAUS.values(), ids=lambda t: t.name)
def test_dense_output_joins_the_steps_with_their_slopes(tableau):
    np.testing.assert_allclose(tableau.dense.sum(1), tableau.weights, atol=1e-14)  # at the end: the step itself
    powers = np.arange(1, tableau.dense.shape[1] + 1)
    np.testing.assert_allclose(tableau.dense[:, 0], np.eye(tableau.slopes)[0], atol=1e-14)  # slope at the start
    if tableau is not SEMI_IMPLICIT_EULER:
        np.testing.assert_allclose(tableau.dense @ powers, np.eye(tableau.slopes)[-1], atol=1e-12)  # and at the end


def order_of(errors, steps):
    return np.polyfit(np.log(steps), np.log(errors), 1)[0]


@pytest.mark.parametrize("stepper", ["rk4", "semi_implicit_euler"])
def test_fixed_steps_converge_at_their_order(stepper):
    exact = solve_ivp(
        lambda t, y: [y[1], -np.sin(y[0])], (0, 2), [1.0, 0.3], rtol=1e-13, atol=1e-13, method="DOP853"
    ).y[:, -1]
    steps, errors = [0.1, 0.05, 0.025, 0.0125], []
    for step in steps:
        machine = machine_of(PENDULUM, Settings(stepper=stepper, step=step, max_time=2.0), lambda p: p)
        out = simulate(machine, jnp.array([1.0, 0.3]))
        assert out["status"] == FINISHED and out["t"] == pytest.approx(2.0, abs=1e-12)
        errors.append(np.abs(out["y"] - exact).max())
    assert order_of(errors, steps) == pytest.approx(TABLEAUS[stepper].order, abs=0.15)


@pytest.mark.parametrize("stepper", ["rk4", "semi_implicit_euler"])
def test_events_do_not_lower_the_order(stepper):
    # A driven oscillator that switches sides: its spring is stiffer below zero. No polynomial solves it exactly.
    def flow(params, t, mode, y):
        stiffness = jnp.where(mode > 0, 1.0, 9.0)
        return jnp.stack([y[1], jnp.cos(t) - stiffness * y[0]]), y[:1]

    system = hybrid.HybridSystem(
        flow=flow,
        guards=lambda params, mode, signals: mode * signals,
        transition=lambda params, t, mode, event, y, signals: (-mode, y, jnp.zeros(y.shape[1:], bool)),
        boundary=(True,),
        positions=1,
    )
    fine = solve_ivp(
        lambda t, y: [y[1], np.cos(t) - (1.0 if y[0] > 0 else 9.0) * y[0]],
        (0, 6), [1.0, 0.0], rtol=1e-12, atol=1e-13, max_step=1e-3, method="DOP853",
    ).y[:, -1]  # fmt: skip
    steps, errors = [0.08, 0.04, 0.02, 0.01], []
    for step in steps:
        settings = Settings(stepper=stepper, step=step, max_time=6.0)
        out = simulate(machine_of(system, settings, lambda p: p, mode=1), jnp.array([1.0, 0.0]))
        errors.append(np.abs(out["y"] - fine).max())
    assert order_of(errors, steps) == pytest.approx(TABLEAUS[stepper].order, abs=0.4)


def test_adaptive_error_follows_the_tolerance():
    exact = solve_ivp(
        lambda t, y: [y[1], -np.sin(y[0])], (0, 20), [1.0, 0.3], rtol=1e-13, atol=1e-13, method="DOP853"
    ).y[:, -1]
    errors, steps = [], []
    for rtol in (1e-4, 1e-6, 1e-8, 1e-10):
        machine = machine_of(PENDULUM, Settings(rtol=rtol, atol=rtol, max_time=20.0), lambda p: p)
        out = simulate(machine, jnp.array([1.0, 0.3]))
        errors.append(np.abs(out["y"] - exact).max())
        steps.append(int(out["steps"]))
    assert all(error < 100 * rtol for error, rtol in zip(errors, (1e-4, 1e-6, 1e-8, 1e-10), strict=True))
    # A method of order 5 pays for each decade of accuracy with 10^(1/5) times the steps.
    slope = np.polyfit(np.log(steps[1:]), np.log(errors[1:]), 1)[0]
    assert slope == pytest.approx(-5, abs=1.0)


def test_diffrax_agrees_step_for_step_in_accuracy():
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, args: pendulum(None, t, y)),
        diffrax.Dopri5(), 0.0, 5.0, 1e-3, jnp.array([1.0, 0.3]),
        stepsize_controller=diffrax.PIDController(rtol=1e-11, atol=1e-12), max_steps=10_000,
    )  # fmt: skip
    machine = machine_of(PENDULUM, Settings(rtol=1e-11, atol=1e-12, max_time=5.0), lambda p: p)
    out = simulate(machine, jnp.array([1.0, 0.3]))
    np.testing.assert_allclose(out["y"], solution.ys[-1], rtol=1e-9)


@pytest.mark.parametrize("stepper", ["dopri5", "rk4"])
def test_many_events_that_do_not_end_the_run(stepper):
    # Flight is a parabola, which both methods integrate exactly, so only the events can be wrong.
    params = {
        "height": jnp.array([0.5, 1.0, 2.0]),
        "g": GRAVITY,
        "e": RESTITUTION,
        "bounces": jnp.array([1.0, 7.0, 20.0]),
    }
    out = simulate(machine_of(BALL, Settings(stepper=stepper, step=7e-3), ball_start), params)
    expected = [ball_time(h, GRAVITY, RESTITUTION, n) for h, n in ((0.5, 1), (1.0, 7), (2.0, 20))]
    np.testing.assert_allclose(out["t"], expected, rtol=1e-11)
    assert np.all(out["status"] == FINISHED)


def test_event_times_have_exact_derivatives():
    machine = machine_of(BALL, Settings(), ball_start)

    def last_bounce(height, g, e):
        return simulate(machine, {"height": height, "g": g, "e": e, "bounces": jnp.asarray(6.0)})["t"]

    height, g, e = 1.3, GRAVITY, RESTITUTION
    by_height, by_g, by_e = jax.jacfwd(last_bounce, (0, 1, 2))(height, g, e)
    t = ball_time(height, g, e, 6)
    assert by_height == pytest.approx(t / (2 * height), rel=1e-9)
    assert by_g == pytest.approx(-t / (2 * g), rel=1e-9)
    assert by_e == pytest.approx(np.sqrt(2 * height / g) * 2 * sum(k * e ** (k - 1) for k in range(1, 6)), rel=1e-9)


def test_fixed_steps_have_reverse_mode_through_events():
    machine = machine_of(BALL, Settings(stepper="rk4", step=0.02), ball_start)

    def last_bounce(height):
        params = {"height": height, "g": GRAVITY, "e": RESTITUTION, "bounces": jnp.asarray(3.0)}
        return simulate_steps(machine, params, 150)["t"]

    height = 1.3
    assert jax.grad(last_bounce)(height) == pytest.approx(ball_time(height, GRAVITY, RESTITUTION, 3) / (2 * height))


def test_a_watching_guard_fires_once_per_crossing_and_does_not_disturb():
    # Count the maxima of a pendulum's angle: its rate crosses from positive to negative once per period.
    def flow(params, t, mode, y):
        return jnp.stack([y[1], -jnp.sin(y[0]), 0 * y[0]]), y[1:2]

    system = hybrid.HybridSystem(
        flow=flow,
        guards=lambda params, mode, signals: signals,
        transition=lambda p, t, mode, event, y, signals: (mode, y.at[2].add(1.0), jnp.zeros(y.shape[1:], bool)),
        boundary=(False,),
    )
    settings = Settings(rtol=1e-10, atol=1e-10, max_time=40.0)
    out = simulate(machine_of(system, settings, lambda p: p), jnp.array([0.5, 0.0, 0.0]))
    plain = simulate(machine_of(PENDULUM, settings, lambda p: p), jnp.array([0.5, 0.0]))
    np.testing.assert_allclose(out["y"][:2], plain["y"], atol=1e-7)
    # Period 4 K(sin(0.25)) = 6.3817: six maxima after the start, which begins at one and is not counted.
    assert out["y"][2] == 6


def test_failed_lanes_say_why_and_leave_their_neighbours_alone():
    # dy/dt = rate y^2 blows up at t = 1 / (rate y0): the first lane never gets there, by whichever limit it meets
    # first.
    system = smooth_system(lambda params, t, y: params["rate"] * y**2)
    settings = Settings(max_time=2.0, max_steps=3000)
    machine = machine_of(system, settings, lambda p: p["y0"][None])
    params = {"rate": jnp.array([1.0, 1.0, jnp.nan, 0.2]), "y0": jnp.array([1.0, 0.1, 1.0, 1.0])}
    out = simulate(machine, params)
    assert out["status"][0] in (NON_FINITE, STEP_TOO_SMALL, STEP_LIMIT)
    assert out["status"][2] == NON_FINITE
    assert out["status"][1] == out["status"][3] == FINISHED
    np.testing.assert_allclose(out["y"][0, [1, 3]], [0.1 / (1 - 0.2), 1 / (1 - 0.4)], rtol=1e-6)
    few = simulate(machine_of(system, Settings(max_time=2.0, max_steps=3), lambda p: p["y0"][None]), params)
    assert few["status"][1] == STEP_LIMIT

    # Derivatives of the good lanes are right, whatever became of the others.
    slope = jax.jvp(lambda y0: simulate(machine, params | {"y0": y0})["y"], (params["y0"],), (jnp.ones(4),))[1][0]
    np.testing.assert_allclose(slope[jnp.array([1, 3])], [1 / 0.8**2, 1 / 0.6**2], rtol=1e-5)


def test_lanes_do_not_depend_on_each_other():
    machine = machine_of(BALL, Settings(), ball_start)
    heights = jnp.linspace(0.2, 3.0, 9)
    params = {"g": GRAVITY, "e": RESTITUTION, "bounces": jnp.asarray(4.0)}
    together = simulate(machine, params | {"height": heights})["t"]
    alone = [simulate(machine, params | {"height": h})["t"] for h in heights[:3]]
    np.testing.assert_allclose(together[:3], alone, rtol=1e-13)


def test_the_polynomial_of_a_guard_reproduces_it_and_finds_the_first_crossing():
    x = locate.nodes(5)
    values = jnp.asarray(np.cos(7.0 * x) + 0.2)[:, None]  # crosses down at arccos(-0.2)/7, up, and down again near 1
    values = values.at[-1].set(-0.3)
    fraction = locate.first_crossing(values, jnp.array([True])).fraction
    cubic = jnp.asarray((0.3 - x) * (1 + x) * (2 - x))[:, None]
    assert locate.first_crossing(cubic, jnp.array([True])).fraction == pytest.approx(0.3, abs=1e-14)
    assert fraction == pytest.approx(np.arccos(-0.2) / 7, abs=0.05)
    # Two guards: the earlier one wins; one that is not armed is not considered.
    both = jnp.concatenate([jnp.asarray(0.7 - x)[:, None], jnp.asarray(0.2 - x)[:, None]], axis=1)
    assert locate.first_crossing(both, jnp.array([True, True])).event == 1
    crossing = locate.first_crossing(both, jnp.array([True, False]))
    assert crossing.event == 0 and crossing.fraction == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("field", "value"),
    [("rtol", 0), ("rtol", -1), ("rtol", [1]), ("step", "x"), ("max_steps", 2.5), ("atol", float("nan"))],
)
def test_settings_that_no_run_can_honour_are_refused(field, value):
    with pytest.raises(InputError, match=field):
        Settings(**{field: value})


def test_unknown_stepper_names_the_nearest():
    with pytest.raises(InputError, match="dopri5"):
        Settings(stepper="dopri")
