"""The compliant (continuous) solution of a strike: contact forces integrated in time, dry friction with true sticking.

State rows: x, y of the centre of mass and the angles; their velocities; then the work done by the normal and the
tangential force (J), the largest normal force so far (N), the tangential stretch (m), and the number of mode changes.
The run starts at touch-down and ends when the tip stops moving into the ground (Crutch eq. 3), or at max_time when
`ends` is "max_time".
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxcontact.bodies import linkage
from jaxcontact.bodies.gripped import grip
from jaxcontact.bodies.symmetric import solve_each
from jaxcontact.contact import friction, normal
from jaxcontact.contact.impulse import (
    IMMEDIATE_SLIDING,
    NONE,
    PERMANENT_SLIDING,
    PERMANENT_STICKING,
    SLIDING_REVERSAL,
    SLIDING_STICKING,
    critical_friction,
    has_slip,
)
from jaxcontact.integrate import hybrid, record, variation
from jaxcontact.integrate.machine import FINISHED, MOVING_UP, RUNNING, Machine, Variation
from jaxcontact.integrate.settings import Settings
from jaxcontact.lanewise import in_one_loop
from jaxcontact.models.strike import (
    Strike,
    Tables,
    centre_start,
    dot,
    grazing,
    lanes,
    respond,
    tables,
    tip_motion,
    tip_start,
    watched_velocities,
)
from jaxcontact.safemath import keep_if_differentiated, sign

NORMAL_LAWS: dict[str, Callable] = {
    "hunt_crossley": lambda p, depth, rate: normal.hunt_crossley(depth, rate, p["k_n"], p["chi"]),
    "hertz": lambda p, depth, rate: normal.hertz(depth, p["k_n"]),
    "kelvin_voigt": lambda p, depth, rate: normal.kelvin_voigt(depth, rate, p["k_linear"], p["c_linear"]),
}
FRICTION_LAWS = ("coulomb", "tangential_compliance", "regularised")

# Sticking holds the tip's velocity at zero, not only its acceleration: leftovers of rounding fade at this rate (1/s).
_STICK_RATE = 1e3
# A moment (s) after touch-down, at which tangential compliance tells whether the tip grips at once (the ratio F_t/F_n
# is constant).
_PROBE = 1e-9

# How far inside the ground the tip starts, in roundings of a metre.
_INSIDE = 4.0

_END, _MODE, _PEAK = range(3)
_WATCHED = (0, 2, 3, 4, 6)  # of the flow's signals: v_n, F_n and its rate, F_hold, v_slip


class Prepared(NamedTuple):
    """What a machine step needs to know: a strike, and its tables, made once for all evaluations."""

    strike: Strike
    table: Tables


def prepare(strike: Strike) -> Prepared:
    """Make the tables."""
    return Prepared(strike, tables(strike))


def system(links: int, choices: Mapping[str, str], ends: str = "compression_end") -> hybrid.HybridSystem:
    """Flow, guards and transitions of a `Prepared` strike of so many links, with the chosen laws."""
    n = links
    normal_law, friction_law = NORMAL_LAWS[choices["normal"]], choices["friction"]
    # Without damping the force is largest where compression ends: one event, not two whose order rounding decides.
    peaks_at_the_end = choices["normal"] == "hertz" and ends == "compression_end"

    def flow(prepared: Prepared, _t, mode, y):
        strike, table = prepared
        laws = strike.contact
        angles, rates = [y[2 + k] for k in range(n)], [y[n + 4 + k] for k in range(n)]
        v_centre, stretch = (y[n + 2], y[n + 3]), y[2 * n + 7]
        sines, cosines = linkage.directions(angles)
        # What many numbers below depend on is kept: with derivatives, it would be computed again for each of them.
        tip = _kept(tip_motion(strike, table, y[1], v_centre, rates, sines, cosines))
        depth, depth_rate = -tip.height, -tip.v_n
        F_n = _kept(normal_law(laws, depth, depth_rate))

        # Translation decouples; angles answer to the forces at the tip.
        apart = linkage.between(angles, sines, cosines)
        matrix = _kept(linkage.angle_matrix(table.pair, sines, cosines, apart))
        inertial = linkage.velocity_terms(table.pair, rates, sines, cosines, apart)
        loads = _kept([a * F_n - c for a, c in zip(tip.by_n, inertial, strict=True)])
        slide = friction.coulomb_sliding(mode, laws["mu"], F_n)
        if friction_law == "tangential_compliance":  # a spring that remembers where it gripped
            F_hold = friction.tangential_compliance(stretch, depth, laws["k_t"])
            F_t = _kept(jnp.where(mode == friction.STICK, F_hold, slide))
            (spin,) = _kept(solve_each(matrix, [[q + a * F_t for q, a in zip(loads, tip.by_t, strict=True)]]))
        else:  # dry friction that sticks keeps the tip still
            sticks = mode == friction.STICK
            if friction_law == "regularised":
                sticks, slide = jnp.zeros_like(sticks), friction.regularised(tip.v_t, laws["mu"], F_n, laws["v_slip"])
            rest = strike.push / table.mass + tip.swirl_t + _STICK_RATE * tip.v_t
            F_t, spin, F_hold = _kept(grip(matrix, loads, tip.by_t, rest, 1.0 / table.mass, sticks, slide))
            # Of what would hold a tip that slides, only sign and size are looked at: to differentiate it is vain.
            F_hold = jnp.where(sticks, F_t, jax.lax.stop_gradient(F_hold))
        a_centre = ((F_t + strike.push) / table.mass, F_n / table.mass - strike.gravity)
        a_n = a_centre[1] + dot(tip.by_n, spin) + tip.swirl_n
        _, F_n_rate = jax.jvp(lambda d, v: normal_law(laws, d, v), (depth, depth_rate), (depth_rate, -a_n))
        zero = jnp.zeros_like(depth)
        # What slips under a tangential spring is its foot: the tip, less the rate at which the cone stretches it.
        stretching, v_slip = zero, tip.v_t
        if friction_law == "tangential_compliance":
            stretching = jnp.where(mode == friction.STICK, tip.v_t, 0.0)
            _, relaxing = jax.jvp(
                lambda F, d: friction.stretch_on_the_cone(mode, laws["mu"], F, d, laws["k_t"]),
                (F_n, depth),
                (F_n_rate, depth_rate),
            )
            v_slip = tip.v_t - relaxing
        slope = [*v_centre, *rates, *a_centre, *spin, F_n * tip.v_n, F_t * tip.v_t, zero, stretching, zero]
        return linkage.stack(slope), linkage.stack([tip.v_n, tip.v_t, F_n, F_n_rate, F_hold, F_t, v_slip])

    def guards(prepared: Prepared, mode, signals):
        v_n, _, F_n, F_n_rate, F_hold, _, v_slip = signals
        static_mu = _static_mu(prepared.strike)
        still_in = -v_n if ends == "compression_end" else jnp.ones_like(v_n)
        if friction_law == "regularised":
            in_mode = jnp.ones_like(v_slip)
        else:
            in_mode = jnp.where(mode == friction.STICK, friction.cone_margin(F_hold, static_mu, F_n), mode * v_slip)
        return jnp.stack([still_in, in_mode, jnp.ones_like(v_n) if peaks_at_the_end else F_n_rate])

    def transition(prepared: Prepared, _t, mode, event, y, signals):
        strike, table = prepared
        laws, static_mu = strike.contact, _static_mu(strike)
        _, _, F_n, _, F_hold, *_ = signals
        *motion, peak, stretch, changes = y
        switches = event == _MODE
        slid = mode != friction.STICK
        # On the cone's edge rounding decides whether it "still holds": a tip that reached it has to let go.
        let_go = -sign(F_hold).astype(jnp.int32)
        if friction_law == "tangential_compliance":
            depth = -_tip(strike, table, y).height
            grip = friction.stretch_on_the_cone(mode, laws["mu"], F_n, depth, laws["k_t"])
            stretch = jnp.where(switches & slid, grip, stretch)
            new_mode = jnp.where(slid, friction.STICK, let_go)
        else:
            new_mode = jnp.where(slid, friction.mode_at_rest(F_hold, static_mu, F_n), let_go)
        peak = jnp.where(F_n > peak, F_n, peak)
        y = linkage.stack([*motion, peak, stretch, changes + jnp.where(switches, 1.0, 0.0)])
        return jnp.where(switches, new_mode, mode), y, event == _END

    without_a_spring = () if friction_law == "tangential_compliance" else (2 * n + 7,)
    return hybrid.HybridSystem(
        flow,
        guards,
        transition,
        boundary=(True, True, False),
        positions=n + 2,
        ends_at_max_time=ends == "max_time",
        # How far it has come, work, largest force, stretch (but of a spring) and number of changes.
        unseen=(0, *(2 * n + k for k in (4, 5, 6, 8)), *without_a_spring),
        # Largest force, number of changes, and the stretch of a tip that has no spring.
        still=(*(2 * n + k for k in (6, 8)), *without_a_spring),
        watched=_WATCHED,
        one_loop=True,
    )


def _links(y: jax.Array) -> int:
    """How many links a state belongs to."""
    return (len(y) - 9) // 2


def _static_mu(strike: Strike):
    return strike.contact["mu"] * strike.contact["mu_ratio"]


def start_state(strike: Strike, table: Tables, shape: tuple[int, ...]) -> jax.Array:
    """State rows at touch-down; `shape` is that of the lanes: a number of the contact law may be all that varies.

    The tip starts a few roundings inside the ground: a law whose force jumps at touch-down is then in contact for sure.
    """
    (x, y), v_centre = centre_start(strike, table)
    y = y - _INSIDE * jnp.finfo(jnp.result_type(y)).eps
    return linkage.stack([x, y, *strike.angles, *v_centre, *strike.rates, *jnp.zeros((5, *shape))])


def start_mode(strike: Strike, choices: Mapping[str, str], flow_signals: jax.Array):
    """Mode at touch-down: a tip that slips slides; one at rest is held only if the cone, still unloaded, allows it."""
    laws, static_mu = strike.contact, _static_mu(strike)
    v_n, v_t, F_n, _, F_hold, *_ = flow_signals
    slips = has_slip(v_t)
    if choices["friction"] == "tangential_compliance":
        depth = jnp.maximum(-v_n, 0.0) * _PROBE
        pull = friction.tangential_compliance(v_t * _PROBE, depth, laws["k_t"])
        grips = friction.cone_margin(pull, static_mu, NORMAL_LAWS[choices["normal"]](laws, depth, -v_n)) >= 0
        return jnp.where(grips, friction.STICK, sign(v_t).astype(jnp.int32))
    return jnp.where(slips, sign(v_t).astype(jnp.int32), friction.mode_at_rest(F_hold, static_mu, F_n))


def machine(
    assemble: Callable[[Any], Strike],
    choices: Mapping[str, str],
    settings: Settings,
    ends: str = "compression_end",
) -> Machine:
    """The pausable compliant simulation of a model."""

    def start(settings, params):
        return _start(assemble(params), choices, settings, params, ends)

    def init(params):
        # In one loop, as a step: it is run for a few lanes at a time, where what counts is how many operations it has.
        state = in_one_loop(start, settings, params)
        return hybrid.for_steps_in_lanes(system(_links(state.y), choices, ends), settings, state)

    def prepared(params):
        return prepare(assemble(params))

    def bind(params):
        table = prepared(params)
        return lambda state: hybrid.advance(_system_of(table, choices, ends), settings, table, state)[0]

    def restored(params, state, part):
        table = prepared(params)
        return variation.restored(_system_of(table, choices, ends), table, state, part)

    def carry(table, table_slopes, state, slopes):
        return variation.advance(_system_of(table, choices, ends), settings, table, table_slopes, state, slopes)

    def outcomes(params, state):
        return _outcomes(assemble(params), choices, state)

    def finish(params, state):
        return outcomes(params, state) if state.t.ndim == 0 else in_one_loop(outcomes, params, state)

    return Machine(
        init,
        lambda params, state: bind(params)(state),
        hybrid.done,
        finish,
        hybrid.scratch,
        bind,
        Variation(lambda state: variation.applies(settings, state), variation.moving, restored, prepared, carry),
    )


def recorder(
    assemble: Callable[[Any], Strike],
    choices: Mapping[str, str],
    settings: Settings,
    count: int,
    ends: str = "compression_end",
) -> Machine:
    """Like `machine`, with time histories (count, *lanes) at evenly spaced times: finish gives "outcomes", "curves"."""

    def init(params):
        return record.start(_start(assemble(params), choices, settings, params, ends), count)

    def step(params, recording):
        prepared = prepare(assemble(params))
        return record.advance(_system_of(prepared, choices, ends), settings, prepared, recording)

    def finish(params, recording):
        strike, run = assemble(params), recording.run
        prepared = prepare(strike)
        _, signals = _system_of(prepared, choices, ends).flow(prepared, recording.t, recording.mode, recording.y)
        seen = _observe(strike, recording.t, recording.y, signals)
        curves = {name: jnp.where(run.status == FINISHED, value, jnp.nan) for name, value in seen.items()}
        return {"outcomes": _outcomes(strike, choices, run), "curves": curves}

    return Machine(init, step, record.done, finish)


def _start(strike: Strike, choices, settings: Settings, params, ends: str) -> hybrid.HybridState:
    """Touch-down, with the reason why a lane cannot run where there is one."""
    prepared = prepare(strike)
    dynamics = _system_of(prepared, choices, ends)
    y = start_state(strike, prepared.table, lanes(params, strike.status))
    signals = dynamics.flow(prepared, 0.0, jnp.zeros(y.shape[1:], jnp.int32), y)[1]
    mode = start_mode(strike, choices, signals)
    *motion, _, stretch, changes = y
    y = linkage.stack([*motion, signals[2], stretch, changes])  # the largest force: a dashpot's is at touch-down
    status, v_n = strike.status, signals[0]
    if ends == "compression_end":
        status = jnp.where((status == RUNNING) & (v_n > grazing(v_n)), MOVING_UP, status)
        status = jnp.where((status == RUNNING) & (v_n >= -grazing(v_n)), FINISHED, status)
    return hybrid.start(dynamics, settings, prepared, 0.0, mode, y, status)


def _system_of(prepared: Prepared, choices: Mapping[str, str], ends: str) -> hybrid.HybridSystem:
    return system(len(prepared.strike.links), choices, ends)


def _kept(numbers):
    """The same lane-wide numbers, each computed once where derivatives are taken."""
    return jax.tree.map(keep_if_differentiated, numbers)


def _parts(strike: Strike, y):
    """Angles, rates and velocity of the centre of mass, out of the state rows."""
    n = len(strike.links)
    return [y[2 + k] for k in range(n)], [y[n + 4 + k] for k in range(n)], (y[n + 2], y[n + 3])


def _tip(strike: Strike, table: Tables, y):
    angles, rates, v_centre = _parts(strike, y)
    return tip_motion(strike, table, y[1], v_centre, rates, *linkage.directions(angles))


def _observe(strike: Strike, t, y, signals) -> dict[str, jax.Array]:
    """What can be seen of the motion at times t: the same names for a curve and for its last point."""
    table, n = tables(strike), len(strike.links)
    angles, rates, v_centre = _parts(strike, y)
    tip = _tip(strike, table, y)
    _, v_before = centre_start(strike, table)
    seen = {
        "t": t,
        # Momentum balance: exact for any Runge-Kutta method, and cheaper than integrating the forces.
        "P_n": table.mass * (v_centre[1] - v_before[1] + strike.gravity * t),
        "P_t": table.mass * (v_centre[0] - v_before[0]) - strike.push * t,
        "W_n": y[2 * n + 4],
        "W_t": y[2 * n + 5],
        "F_n": signals[2],
        "F_t": signals[5],
        "v_n_tip": tip.v_n,
        "v_t_tip": tip.v_t,
        "depth": -tip.height,
    }
    return seen | watched_velocities(strike, table, v_centre, rates, angles)


def _outcomes(strike: Strike, choices: Mapping[str, str], state: hybrid.HybridState) -> dict[str, jax.Array]:
    """Named results of a run that has ended; NaN where it did not finish."""
    table, n = tables(strike), len(strike.links)
    before = tip_start(strike, table)
    response, _, _ = respond(table, before, *linkage.directions(strike.angles))
    finished = state.status == FINISHED
    seen = _observe(strike, state.t, state.y, state.signals)
    numbers = seen | {
        "t_end": seen["t"],
        "depth_end": seen["depth"],
        "F_n_peak": jnp.maximum(state.y[2 * n + 6], seen["F_n"]),
        "energy_loss": -(seen["W_n"] + seen["W_t"]),
        "mu_c": critical_friction(response),
    }
    numbers = {name: jnp.where(finished, value, jnp.nan) for name, value in numbers.items()}
    mode, v_t_before = state.mode, jnp.broadcast_to(before.v_t, state.t.shape)
    if choices["friction"] == "regularised":  # it has no modes: it always slides, one way or the other
        mode = sign(seen["v_t_tip"]).astype(mode.dtype)
    regime = _regime(v_t_before, mode)
    if choices["friction"] == "tangential_compliance":  # a spring may hold a tip that moves, from the first touch
        never_slid = (mode == friction.STICK) & (state.y[2 * n + 8] == 0)
        regime = jnp.where(never_slid, PERMANENT_STICKING, regime)
    regime = jnp.where(finished & (state.steps > 0), regime, NONE)
    return numbers | {"regime": regime, "status": state.status, "n_steps": state.steps}


def _regime(v_t_before, mode):
    """Table 2's name for a run, from the slip before impact and the mode at its end.

    A tip without slip is not held in the first instants, when it carries no load yet; that micro-slip is not called
    sliding.
    """
    slipped = has_slip(v_t_before)
    stuck = mode == friction.STICK
    same_way = mode == sign(v_t_before).astype(mode.dtype)
    after_slip = jnp.where(stuck, SLIDING_STICKING, jnp.where(same_way, PERMANENT_SLIDING, SLIDING_REVERSAL))
    return jnp.where(slipped, after_slip, jnp.where(stuck, PERMANENT_STICKING, IMMEDIATE_SLIDING))
