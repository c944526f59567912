"""Integration of systems that switch between modes: fixed or adaptive steps, events located inside the step.

A machine step of a lane is one of two things. A *stride* advances by one Runge-Kutta step, or finds that its error is
too large, or finds that a guard turned negative on the way. In the last case the next machine step is a *landing*:
the same slopes give the state inside the stride, the evaluations that would have been stages look at the guards there
instead, and the lane lands on the earliest event, where the system's transition rule picks the next mode. Both kinds
evaluate the flow equally often and share its one trace, so lanes of either kind step side by side. Events that do not
end the run cost one machine step each, and there may be any number.
"""

from collections.abc import Callable
from functools import partial
from math import isfinite
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxcontact.integrate import locate
from jaxcontact.integrate.machine import FINISHED, NON_FINITE, RUNNING, STEP_LIMIT, STEP_TOO_SMALL, TIME_LIMIT
from jaxcontact.integrate.settings import Settings
from jaxcontact.integrate.tableau import TABLEAUS, Tableau, dense_weights, weighted_sum
from jaxcontact.lanewise import arrays_are_whole, in_one_loop
from jaxcontact.safemath import power_in_lanes

# PI controller (Hairer, Norsett, Wanner II.4 and Soederlind): exponents for the error now and before, safety and
# bounds.
_NOW, _BEFORE, _SAFETY, _SHRINK, _GROW = 0.7, 0.4, 0.9, 0.2, 5.0
# A flow that breaks at a guard (a force like depth^1.5 ends there) spoils the slopes of a stride that goes beyond it.
# Its error stays within the tolerance, but derivatives lose an order more; so such a stride has to be that much better.
# On a ball that bounces on a Hertz spring this makes derivatives 50 times as exact, for a tenth more steps.
_CROSSING = 1e-3


class HybridSystem(NamedTuple):
    """A flow with modes. Components first, lanes last; `signals` are by-products of the flow that guards look at."""

    flow: Callable[..., tuple[jax.Array, jax.Array]]  # params, t, mode, y -> dy/dt (n, *lanes), signals (s, *lanes)
    guards: Callable[..., jax.Array]  # params, mode, signals (s, ...) -> (guard, ...); positive before the event
    transition: Callable[..., tuple]  # params, t, mode, event, y, signals -> mode, y, ended
    boundary: tuple[bool, ...]  # per guard: True if it bounds the mode, False if it only watches for a crossing
    positions: int = 0  # leading rows of y that are positions, then as many velocities (for semi-implicit Euler)
    ends_at_max_time: bool = True  # whether max_time is the run's end, or a limit that it should not reach
    smooth_beyond: bool = True  # whether a mode's flow goes on smoothly beyond its guards
    unseen: tuple[int, ...] = ()  # rows of y that the flow does not look at: totals, for instance
    one_loop: bool = False  # whether all its functions depend on the lanes through their arguments alone (`lanewise`)


class HybridState(NamedTuple):
    """Where each lane is. `y` is where the current stride starts, `slope` its first slope; the others serve a landing.

    `later_slopes` come in parts of the state, (s - 1, *part of y): row by row where all is done in one loop over the
    lanes, since XLA writes a stage into an array (s - 1, lanes) in place but rebuilds one of many rows; else in one.
    """

    t: jax.Array
    y: jax.Array
    mode: jax.Array
    signals: jax.Array
    armed: jax.Array
    h: jax.Array
    error_before: jax.Array
    slope: jax.Array
    later_slopes: tuple[jax.Array, ...]
    landing: jax.Array
    end_signals: jax.Array
    steps: jax.Array
    status: jax.Array

    @property
    def slopes(self) -> jax.Array:
        """All slopes: (s, n, *lanes)."""
        return _all_slopes(self.slope, self.later_slopes)


class Segment(NamedTuple):
    """What a machine step made final: the trajectory from t0 to t1 (t1 = t0: nothing), inside a stride of length h."""

    t0: jax.Array
    t1: jax.Array
    h: jax.Array
    y: jax.Array
    slope: jax.Array
    later_slopes: tuple[jax.Array, ...]
    mode: jax.Array


def start(system: HybridSystem, settings: Settings, params: Any, t, mode, y, status) -> HybridState:
    """Lanes that start at time t, in `mode`, at y; those whose `status` is not RUNNING are done already."""
    tableau, system = TABLEAUS[settings.stepper], _for_lanes(system, y)
    lanes = y.shape[1:]
    t, mode, status = (jnp.broadcast_to(a, lanes) for a in (t, mode, status))
    slope, signals = _apply(system, system.flow, params, t, mode, y)
    later = tuple(jnp.zeros((tableau.slopes - 1, *k.shape), y.dtype) for k in _parts(system, slope))
    h = settings.first_step if tableau.error is not None else settings.step
    return HybridState(
        t=t.astype(y.dtype),
        y=y,
        mode=mode.astype(jnp.int32),
        signals=signals,
        armed=_armed(system, system.guards(params, mode, signals)),
        h=jnp.full(lanes, jnp.minimum(h, settings.max_time), y.dtype),
        error_before=jnp.ones(lanes, y.dtype),
        slope=slope,
        later_slopes=later,
        landing=jnp.zeros(lanes, bool),
        end_signals=signals,
        steps=jnp.zeros(lanes, jnp.int32),
        status=status.astype(jnp.int32),
    )


def in_parts(state: HybridState) -> HybridState:
    """The state of lanes that were started in one loop, one at a time: what they start without, as a step wants it."""
    if state.t.ndim == 0 or arrays_are_whole():
        return state
    (later,) = state.later_slopes
    return state._replace(later_slopes=tuple(jnp.zeros_like(later[:, k]) for k in range(later.shape[1])))


def done(state: HybridState) -> jax.Array:
    """Lanes that have ended, well or badly."""
    return state.status != RUNNING


def scratch(state: HybridState) -> HybridState:
    """What only a landing looks at, after the stride that wrote it."""
    return HybridState(
        *(
            jax.tree.map(lambda _, name=name: name in ("later_slopes", "end_signals"), part)
            for name, part in state._asdict().items()
        )
    )


def advance(system: HybridSystem, settings: Settings, params: Any, s: HybridState) -> tuple[HybridState, Segment]:
    """One machine step of every lane that is not done, and the piece of trajectory it made final."""
    new, _, segment = _advance(system, settings, params, s)
    return new, segment


def advance_and_tell(
    system: HybridSystem, settings: Settings, params: Any, s: HybridState
) -> tuple[HybridState, "Told"]:
    """One machine step of every lane that is not done, and what happened in it."""
    return _advance(system, settings, params, s)[:2]


def _advance(system: HybridSystem, settings: Settings, params: Any, s: HybridState):
    tableau, system = TABLEAUS[settings.stepper], _for_lanes(system, s.y)
    # Step sizes are not part of the answer: their derivatives are zero, and said to be so, cost nothing.
    s = s._replace(h=jax.lax.stop_gradient(s.h), error_before=jax.lax.stop_gradient(s.error_before))

    slopes, arrival = _evaluations(system, tableau, params, s)
    error = _error_norm(system, tableau, settings, s, slopes, arrival)
    verdict = _apply(
        system,
        partial(_judge, system, tableau),
        settings,
        params,
        (s.t, s.h, s.error_before, s.landing, s.armed, s.steps, s.status),
        (arrival.t, arrival.mode, arrival.signals, arrival.ends, arrival.sound, arrival.event),
        error,
    )

    t, y, mode, signals, slope = _apply(
        system,
        _chosen,
        verdict.moved,
        (arrival.t, arrival.y, arrival.mode, arrival.signals, arrival.slope),
        (s.t, _parts(system, s.y), s.mode, tuple(s.signals), _parts(system, s.slope)),
    )
    new = HybridState(
        t=t,
        y=_whole(system, y),
        mode=mode,
        signals=jnp.stack(signals),
        armed=jnp.stack(verdict.armed),
        h=verdict.h,
        error_before=verdict.error_before,
        slope=_whole(system, slope),
        later_slopes=slopes,
        landing=verdict.landing,
        end_signals=jnp.stack(_apply(system, _chosen, verdict.landing, arrival.signals, tuple(s.end_signals))),
        steps=verdict.steps,
        status=verdict.status,
    )
    told = Told(verdict.moved, s.landing, arrival.event, arrival.fraction)
    return new, told, Segment(s.t, verdict.t1, s.h, s.y, s.slope, slopes, s.mode)


class Told(NamedTuple):
    """What a machine step was: whether it counts, whether it landed, on which event, at what fraction of its stride."""

    moved: jax.Array
    landing: jax.Array
    event: jax.Array
    fraction: jax.Array


class _Target(NamedTuple):
    """Where the flow is evaluated: time, mode, state in parts; an event, where in its stride, whether it ends all."""

    t: jax.Array
    mode: jax.Array
    y: tuple[jax.Array, ...]
    event: jax.Array
    fraction: jax.Array
    ends: jax.Array


class _Arrival(NamedTuple):
    """Where a machine step leads: the target that was evaluated last, and what was found there."""

    t: jax.Array
    mode: jax.Array
    y: tuple[jax.Array, ...]
    event: jax.Array
    fraction: jax.Array
    ends: jax.Array
    slope: tuple[jax.Array, ...]  # in parts; 0 where it is not finite
    signals: tuple[jax.Array, ...]
    sound: jax.Array  # whether all that was evaluated on the way is finite


class _Verdict(NamedTuple):
    """Whether a machine step counts, and what the controller makes of it; t1 is the end of its segment."""

    moved: jax.Array
    armed: tuple[jax.Array, ...]
    h: jax.Array
    error_before: jax.Array
    landing: jax.Array
    steps: jax.Array
    status: jax.Array
    t1: jax.Array


def _for_lanes(system: HybridSystem, y) -> HybridSystem:
    """One loop over the lanes needs lanes: a single run, y of shape (n,), has none."""
    return system._replace(one_loop=system.one_loop and y.ndim == 2 and not arrays_are_whole())


def _parts(system: HybridSystem, rows) -> tuple[jax.Array, ...]:
    """A state, or a slope, in parts: row by row, or all in one."""
    return tuple(rows) if system.one_loop else (rows,)


def _whole(system: HybridSystem, parts) -> jax.Array:
    return jnp.stack(parts) if system.one_loop else parts[0]


def _all_slopes(first, later) -> jax.Array:
    """Slopes (s, n, *lanes); the later ones come in parts."""
    whole = later[0] if later[0].ndim > first.ndim else jnp.stack(later, axis=1)
    return jnp.concatenate([first[None], whole])


def _apply(system: HybridSystem, function: Callable, *arguments):
    """Apply a function of lane-wide arrays, in one loop over the lanes where the system allows it."""
    return in_one_loop(function, *arguments) if system.one_loop else function(*arguments)


def _judge(system: HybridSystem, tableau: Tableau, settings: Settings, params, before, arrival, error) -> _Verdict:
    """Whether a machine step counts: a stride if its error is small and no guard turned negative; a landing always."""
    t_before, h_before, error_before, landing, armed, steps, status = before
    t, mode, signals, ends, finite, event = arrival
    guards = system.guards(params, mode, jnp.stack(signals))
    finite = finite & jnp.isfinite(error)
    ended = landing & ends
    crosses = ~landing & jnp.any(armed & (guards < 0), axis=0)
    if not system.smooth_beyond:
        error = jnp.where(crosses, error / _CROSSING, error)
    good = finite & (error <= 1.0)
    crossed = good & crosses
    moved = landing | (good & ~crossed)

    h = jnp.where(landing | crossed, h_before, h_before * _step_factor(tableau, error, error_before, good))
    timed_out = jnp.zeros_like(landing)
    if isfinite(settings.max_time):  # the last step lands on it
        left = settings.max_time - jnp.where(moved, t, t_before)
        timed_out = moved & ~ended & (left <= 1e-12 * settings.max_time)
        h = jnp.where(crossed, h, jnp.minimum(h, left))
    h = jax.lax.stop_gradient(h)  # step sizes are not part of the answer; event times are, and keep their derivative
    retry = ~moved & ~crossed & (tableau.error is not None)

    running = status == RUNNING

    def going(after, before):  # lanes that are done stay as they are
        return jnp.where(running, after, before)

    error_now = jnp.where(landing, 1.0, jnp.where(moved, jnp.maximum(error, 1e-4), error_before))
    rearmed = _armed(system, guards, just_fired=jnp.where(landing, event, -1))
    return _Verdict(
        moved=running & moved,
        armed=tuple(jnp.where(running & moved, rearmed, armed)),
        h=going(h, h_before),
        error_before=going(error_now, error_before),
        landing=going(crossed, landing),
        steps=going(steps + 1, steps),
        status=going(_status(system, settings, steps + 1, h, finite, retry, ended, timed_out), status),
        t1=jnp.where(running & moved, jnp.where(ended | timed_out, jnp.inf, t), t_before),
    )


def _status(system: HybridSystem, settings: Settings, steps, h, finite, retry, ended, timed_out):
    """How a lane stands after a machine step."""
    status = jnp.where(steps >= settings.max_steps, STEP_LIMIT, RUNNING)
    status = jnp.where(~finite & ~retry, NON_FINITE, status)
    status = jnp.where(retry & (h < settings.min_step), jnp.where(finite, STEP_TOO_SMALL, NON_FINITE), status)
    status = jnp.where(timed_out & finite, FINISHED if system.ends_at_max_time else TIME_LIMIT, status)
    return jnp.where(ended & finite, FINISHED, status).astype(jnp.int32)


def sample(system: HybridSystem, settings: Settings, segment: Segment, t: jax.Array) -> jax.Array:
    """States (n, count, *lanes) inside a segment at times t (count, *lanes)."""
    tableau = TABLEAUS[settings.stepper]
    fraction = (t - segment.t0) / segment.h
    slopes = _all_slopes(segment.slope, segment.later_slopes)
    if not tableau.kick_drift:
        # Slopes to coefficients once, then Horner for every point: a quarter of the work of weighting slopes at each.
        powers = segment.h * jnp.tensordot(jnp.asarray(tableau.dense.T, segment.y.dtype), slopes, 1)
        value = jnp.zeros_like(segment.y[:, None])
        for coefficients in powers[::-1]:
            value = (value + coefficients[:, None]) * fraction
        return segment.y[:, None] + value
    wide = system._replace(one_loop=False)
    weights = dense_weights(tableau, fraction)
    first, later = slopes[0][:, None], slopes[1:][:, :, None]
    return _inside(wide, tableau, segment.y[:, None], segment.h, first, (later,), weights)[0]


def _evaluations(system: HybridSystem, tableau: Tableau, params, s: HybridState):
    """All evaluations of the flow in a machine step, in one loop that holds it once: slopes in parts, and the arrival.

    First the inner stages of a stride, or the guards at the inner nodes of the stride before, for a landing; then where
    the lane arrives. Slopes that are not finite are written as zeros: kept, they would spoil every smaller try.
    """
    inner = len(tableau.stages)
    kind = s.y.dtype
    stages, at_nodes = jnp.asarray(tableau.stages, kind), jnp.asarray(_weights_at_nodes(tableau), kind)
    times, node_times = jnp.asarray(tableau.times, kind), jnp.asarray(locate.nodes(inner)[1:-1], kind)
    lanes = (1,) * (s.y.ndim - 1)
    start = _parts(system, s.y)

    def on_the_way(i, slopes, _signals) -> _Target:
        weights = jnp.where(s.landing, at_nodes[i].reshape(-1, *lanes), stages[i].reshape(-1, *lanes))
        # In one loop, what the flow does not look at need not be known here.
        y = _inside(system, tableau, s.y, s.h, s.slope, slopes, weights, system.unseen if system.one_loop else ())
        t = s.t + s.h * jnp.where(s.landing, node_times[i], times[i])
        return _Target(t, s.mode, y, jnp.zeros_like(s.mode), jnp.zeros_like(s.h), jnp.zeros_like(s.landing))

    def at_the_end(_i, slopes, signals) -> _Target:
        seen = [
            jnp.concatenate([first[None], nodes[:inner], last[None]])
            for first, nodes, last in zip(s.signals, signals, s.end_signals, strict=True)
        ]
        frozen = jax.lax.stop_gradient((params, s.mode, s.armed, seen))
        event, root = _apply(system, partial(_first_event, system), *frozen)
        fraction, event_signals = _apply(system, partial(_at_event, system), params, s.mode, seen, event, root)
        weights = [
            jnp.where(s.landing, w, b) for w, b in zip(dense_weights(tableau, fraction), tableau.weights, strict=True)
        ]
        y = _inside(system, tableau, s.y, s.h, s.slope, slopes, jnp.stack(weights))
        return _apply(
            system, partial(_arrive, system), params, s.t, s.h, s.mode, s.landing, y, event, fraction, event_signals
        )

    def flow(params, t, mode, y):
        slope, signals = system.flow(params, t, mode, _whole(system, y))
        finite = jnp.isfinite(slope)
        return _parts(system, jnp.where(finite, slope, 0.0)), tuple(signals), jnp.all(finite, axis=0)

    def evaluation(so_far, i):
        slopes, signals, _, _, sound = so_far
        target = at_the_end(i, slopes, signals)
        if inner:
            target = jax.lax.cond(i < inner, on_the_way, at_the_end, jnp.minimum(i, inner - 1), slopes, signals)
        slope, here, finite = _apply(system, flow, params, target.t, target.mode, target.y)
        # A landing keeps the slopes of the stride that it is inside of.
        kept = _apply(system, _chosen, s.landing, tuple(_row(part, i) for part in slopes), slope)
        slopes = tuple(_with_row(part, i, k) for part, k in zip(slopes, kept, strict=True))
        signals = tuple(_with_row(rows, i, row) for rows, row in zip(signals, here, strict=True))
        return (slopes, signals, target, slope, sound & finite), None

    blank = _Target(s.t, s.mode, start, jnp.zeros_like(s.mode), jnp.zeros_like(s.h), jnp.zeros_like(s.landing))
    room = tuple(jnp.zeros((inner + 1, *row.shape), kind) for row in s.signals)
    first = (s.later_slopes, room, blank, start, jnp.ones_like(s.landing))
    (slopes, signals, target, slope, sound), _ = jax.lax.scan(evaluation, first, jnp.arange(inner + 1))
    return slopes, _Arrival(*target, slope, tuple(rows[-1] for rows in signals), sound)


def _first_event(system: HybridSystem, params, mode, armed, signals):
    """Which event comes first in a stride, and where; each of `signals` is known at the nodes (node, *lanes)."""
    guards = system.guards(params, mode, jnp.stack(signals))
    return locate.first_root(jnp.moveaxis(guards, 1, 0), armed)


def _at_event(system: HybridSystem, params, mode, signals, event, root):
    """The fraction of the stride at which the event happens, with its derivative, and the signals there."""
    signals = jnp.stack(signals)
    guards = system.guards(params, mode, signals)
    fraction = locate.with_derivative(jnp.moveaxis(guards, 1, 0), event, root)
    weights = locate.weights_at(signals.shape[1], fraction)
    return fraction, tuple(weighted_sum(weights, list(values)) for values in signals)


def _arrive(system: HybridSystem, params, t, h, mode, landing, y, event, fraction, signals) -> _Target:
    """The end of a stride; or the event, where the transition rule picks the next mode."""
    y, signals = _whole(system, y), jnp.stack(signals)
    t_event = t + h * fraction
    event_mode, y_event, ends = system.transition(params, t_event, mode, event, y, signals)
    return _Target(
        t=jnp.where(landing, t_event, t + h),
        mode=jnp.where(landing, event_mode, mode),
        y=_parts(system, jnp.where(landing, y_event, y)),
        event=event,
        fraction=fraction,
        ends=jnp.broadcast_to(ends, landing.shape),
    )


def _with_row(rows, index, row):
    return jax.lax.dynamic_update_index_in_dim(rows, row, index, 0)


def _row(rows, index):
    return jax.lax.dynamic_index_in_dim(rows, index, keepdims=False)


def _weights_at_nodes(tableau: Tableau):
    """Weights of the slopes that give the state at each inner node of a step: (inner, slopes)."""
    fractions = locate.nodes(len(tableau.stages))[1:-1]
    powers = fractions[:, None] ** range(1, tableau.dense.shape[1] + 1)
    return powers @ tableau.dense.T


def _inside(system, tableau: Tableau, y, h, first, later, weights, but=()) -> tuple[jax.Array, ...]:
    """The start plus h times a weighted sum of slopes, in parts; `weights` is (slopes, *lanes). Rows of `but` stay."""
    if tableau.kick_drift:
        new = list(_sums(h, weights, _parts(system, y), _parts(system, first), later))
        n, share = system.positions, jnp.sum(weights, axis=0)
        whole = _whole(system, new)  # positions move with the new velocities
        return _parts(system, whole.at[:n].set(y[:n] + h * share * whole[n : 2 * n]))
    parts = _parts(system, y), _parts(system, first), later
    chosen = [k for k in range(len(later)) if k not in but]
    found = iter(_apply(system, _sums, h, weights, *(tuple(part[k] for k in chosen) for part in parts)))
    return tuple(row if k in but else next(found) for k, row in enumerate(parts[0]))


def _sums(h, weights, y, first, later) -> tuple[jax.Array, ...]:
    new = []
    for start, slope, part in zip(y, first, later, strict=True):
        shaped = weights.reshape(len(weights), *(1,) * (slope.ndim + 1 - weights.ndim), *weights.shape[1:])
        new.append(start + h * weighted_sum(list(shaped), [slope, *part]))
    return tuple(new)


def _chosen(condition, yes, no):
    """Of two trees, part by part, the one that a lane's condition chooses."""
    return jax.tree.map(lambda one, other: jnp.where(condition, one, other), yes, no)


def _error_norm(system: HybridSystem, tableau: Tableau, settings: Settings, s: HybridState, slopes, arrival: _Arrival):
    """Root-mean-square local error over the tolerance; 0 for fixed steps and for landings."""
    if tableau.error is None:
        return jnp.zeros_like(s.h)
    total = 0.0
    parts = _parts(system, s.slope), slopes, arrival.slope, arrival.y, _parts(system, s.y)
    for first, part, last, new, old in zip(*jax.lax.stop_gradient(parts), strict=True):
        weights = [np.asarray(w, s.y.dtype) for w in tableau.error]
        error = s.h * weighted_sum(weights, [first, *part[:-1], last])
        squares = (error / (settings.atol + settings.rtol * jnp.maximum(jnp.abs(old), jnp.abs(new)))) ** 2
        total = total + (squares if system.one_loop else jnp.sum(squares, axis=0))
    return jnp.where(s.landing, 0.0, jnp.sqrt(total / len(s.y)))


def _step_factor(tableau: Tableau, error, error_before, good):
    """By how much the next step grows or shrinks: PI control after a good step, plain control after a bad one."""
    if tableau.error is None:
        return jnp.ones_like(error)
    order = tableau.order
    error = jnp.where(jnp.isfinite(error), jnp.maximum(error, 1e-10), 1e10)
    after_good = _SAFETY * power_in_lanes(error, -_NOW / order) * power_in_lanes(error_before, _BEFORE / order)
    after_bad = jnp.minimum(_SAFETY * power_in_lanes(error, -1.0 / order), 0.9)
    return jnp.clip(jnp.where(good, after_good, after_bad), _SHRINK, _GROW)


def _armed(system: HybridSystem, guards, just_fired: jax.Array | int = -1):
    """Guards that may fire: those that bound the mode always; those that only watch, once seen positive.

    A guard that has just fired is zero but for rounding, so its sign says nothing yet.
    """
    column = (-1,) + (1,) * (guards.ndim - 1)
    index = jnp.arange(len(system.boundary)).reshape(column)
    return ((guards > 0) & (index != just_fired)) | jnp.asarray(system.boundary).reshape(column)
