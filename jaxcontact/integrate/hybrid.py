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
from jax.custom_derivatives import SymbolicZero

from jaxcontact.integrate import locate
from jaxcontact.integrate.machine import FINISHED, NON_FINITE, RUNNING, STEP_LIMIT, STEP_TOO_SMALL, TIME_LIMIT
from jaxcontact.integrate.settings import Settings
from jaxcontact.integrate.tableau import TABLEAUS, Tableau
from jaxcontact.safemath import keep

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


class HybridState(NamedTuple):
    """Where each lane is. `y` is where the current stride starts; `slopes` are its slopes, kept for a landing."""

    t: jax.Array
    y: jax.Array
    mode: jax.Array
    signals: jax.Array
    armed: jax.Array
    h: jax.Array
    error_before: jax.Array
    slopes: jax.Array
    landing: jax.Array
    end_signals: jax.Array
    steps: jax.Array
    status: jax.Array


class Segment(NamedTuple):
    """What a machine step made final: the trajectory from t0 to t1 (t1 = t0: nothing), inside a stride of length h."""

    t0: jax.Array
    t1: jax.Array
    h: jax.Array
    y: jax.Array
    slopes: jax.Array
    mode: jax.Array


def start(system: HybridSystem, settings: Settings, params: Any, t, mode, y, status) -> HybridState:
    """Lanes that start at time t, in `mode`, at y; those whose `status` is not RUNNING are done already."""
    tableau = TABLEAUS[settings.stepper]
    lanes = y.shape[1:]
    t, mode, status = (jnp.broadcast_to(a, lanes) for a in (t, mode, status))
    slope, signals = system.flow(params, t, mode, y)
    slopes = jnp.zeros((tableau.slopes, *y.shape), y.dtype).at[0].set(slope)
    h = settings.first_step if tableau.error is not None else settings.step
    return HybridState(
        t=t.astype(y.dtype),
        y=y,
        mode=mode.astype(jnp.int32),
        signals=signals,
        armed=_armed(system, system.guards(params, mode, signals)),
        h=jnp.full(lanes, jnp.minimum(h, settings.max_time), y.dtype),
        error_before=jnp.ones(lanes, y.dtype),
        slopes=slopes,
        landing=jnp.zeros(lanes, bool),
        end_signals=signals,
        steps=jnp.zeros(lanes, jnp.int32),
        status=status.astype(jnp.int32),
    )


def done(state: HybridState) -> jax.Array:
    """Lanes that have ended, well or badly."""
    return state.status != RUNNING


def advance(system: HybridSystem, settings: Settings, params: Any, s: HybridState) -> tuple[HybridState, Segment]:
    """One machine step of every lane that is not done, and the piece of trajectory it made final."""
    tableau = TABLEAUS[settings.stepper]
    # Step sizes are not part of the answer: their derivatives are zero, and said to be so, cost nothing.
    s = s._replace(h=jax.lax.stop_gradient(s.h), error_before=jax.lax.stop_gradient(s.error_before))

    # The inner stages of a stride; or, for a landing, the guards at the inner nodes of the stride before.
    slopes, node_signals = _inner_evaluations(system, tableau, params, s)

    # Where the lane arrives, and in which mode; the flow there is the first slope of what follows.
    y_stride = _inside(system, tableau, s.y, s.h, slopes, tableau.weights)
    landed = _land(system, tableau, params, s, slopes, node_signals)
    t = jnp.where(s.landing, landed.t, s.t + s.h)
    y = jnp.where(s.landing, landed.y, y_stride)
    mode = jnp.where(s.landing, landed.mode, s.mode)
    slope, signals = system.flow(params, t, mode, y)
    slopes = jnp.where(s.landing, slopes, slopes.at[-1].set(slope))

    # A stride counts if its error is small and no guard turned negative on the way; a landing always counts.
    error = _error_norm(tableau, settings, s, slopes, y_stride)
    finite = jnp.isfinite(error) & jnp.all(jnp.isfinite(slope), axis=0)
    guards = system.guards(params, mode, signals)
    crosses = ~s.landing & jnp.any(s.armed & (guards < 0), axis=0)
    if not system.smooth_beyond:
        error = jnp.where(crosses, error / _CROSSING, error)
    good = finite & (error <= 1.0)
    crossed = good & crosses
    moved = s.landing | (good & ~crossed)

    h = jnp.where(s.landing | crossed, s.h, s.h * _step_factor(tableau, error, s.error_before, good))
    ended, timed_out = s.landing & landed.ended, jnp.zeros_like(s.landing)
    if isfinite(settings.max_time):  # the last step lands on it
        left = settings.max_time - jnp.where(moved, t, s.t)
        timed_out = moved & ~ended & (left <= 1e-12 * settings.max_time)
        h = jnp.where(crossed, h, jnp.minimum(h, left))
    h = jax.lax.stop_gradient(h)  # step sizes are not part of the answer; event times are, and keep their derivative
    retry = ~moved & ~crossed & (tableau.error is not None)

    new = HybridState(
        t=jnp.where(moved, t, s.t),
        y=jnp.where(moved, y, s.y),
        mode=jnp.where(moved, mode, s.mode),
        signals=jnp.where(moved, signals, s.signals),
        armed=jnp.where(moved, _armed(system, guards, just_fired=jnp.where(s.landing, landed.event, -1)), s.armed),
        h=h,
        error_before=jnp.where(s.landing, 1.0, jnp.where(moved, jnp.maximum(error, 1e-4), s.error_before)),
        # Only a landing needs the slopes again; kept otherwise, a NaN among them would spoil every smaller try.
        slopes=jnp.where(crossed, slopes, jnp.zeros_like(slopes).at[0].set(jnp.where(moved, slope, s.slopes[0]))),
        landing=crossed,
        end_signals=jnp.where(crossed, signals, s.end_signals),
        steps=s.steps + 1,
        status=_status(system, settings, s.steps + 1, h, finite, retry, ended, timed_out),
    )
    running = s.status == RUNNING
    new = jax.tree.map(lambda after, before: jnp.where(running, after, before), new, s)
    t1 = jnp.where(running & moved, jnp.where(ended | timed_out, jnp.inf, t), s.t)
    return new, Segment(s.t, t1, s.h, s.y, slopes, s.mode)


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
    if not tableau.kick_drift:
        # Slopes to coefficients once, then Horner for every point: a quarter of the work of weighting slopes at each.
        powers = segment.h * jnp.tensordot(jnp.asarray(tableau.dense.T, segment.y.dtype), segment.slopes, 1)
        value = jnp.zeros_like(segment.y[:, None])
        for coefficients in powers[::-1]:
            value = (value + coefficients[:, None]) * fraction
        return segment.y[:, None] + value
    return _inside(
        system, tableau, segment.y[:, None], segment.h, segment.slopes[:, :, None], _dense_weights(tableau, fraction)
    )


def _inner_evaluations(system, tableau: Tableau, params, s: HybridState):
    """Flow at the inner stages (stride) or inner nodes (landing): slopes (s, n, *lanes), signals (inner, s, *lanes)."""
    inner = len(tableau.stages)
    stages = jnp.asarray(tableau.stages, s.y.dtype)
    at_nodes = jnp.asarray(_weights_at_nodes(tableau), s.y.dtype)
    times = jnp.asarray(tableau.times, s.y.dtype)
    node_times = jnp.asarray(locate.nodes(inner)[1:-1], s.y.dtype)
    lanes = (1,) * (s.y.ndim - 1)

    def evaluation(slopes, i):
        weights = jnp.where(s.landing, at_nodes[i].reshape(-1, *lanes), stages[i].reshape(-1, *lanes))
        y = _inside(system, tableau, s.y, s.h, slopes, weights)
        t = s.t + s.h * jnp.where(s.landing, node_times[i], times[i])
        slope, signals = system.flow(params, t, s.mode, y)
        return slopes.at[i + 1].set(jnp.where(s.landing, slopes[i + 1], slope)), signals

    if inner == 0:
        return s.slopes, jnp.zeros((0, *s.signals.shape), s.y.dtype)
    return jax.lax.scan(evaluation, s.slopes, jnp.arange(inner))


def _weights_at_nodes(tableau: Tableau):
    """Weights of the slopes that give the state at each inner node of a step: (inner, slopes)."""
    fractions = locate.nodes(len(tableau.stages))[1:-1]
    powers = fractions[:, None] ** range(1, tableau.dense.shape[1] + 1)
    return powers @ tableau.dense.T


def _dense_weights(tableau: Tableau, fraction):
    """Weights of the slopes at a lane's own fraction of the step: (slopes, *lanes)."""
    weights = []
    for row in tableau.dense:
        value = 0.0
        for c in row[::-1]:
            value = (value + c) * fraction
        weights.append(value * jnp.ones_like(fraction))
    return jnp.stack(weights)


def _inside(system, tableau: Tableau, y, h, slopes, weights):
    """The start plus h times a weighted sum of slopes; `weights` is (slopes,) or (slopes, *lanes)."""
    weights = jnp.asarray(weights, y.dtype)
    weights = weights.reshape(-1, *(1,) * y.ndim) if weights.ndim == 1 else weights[:, None]
    new = y + h * _weighted_sum(weights, slopes)
    if tableau.kick_drift:  # positions move with the new velocities
        n = system.positions
        share = jnp.sum(weights, axis=0)
        new = new.at[:n].set(y[:n] + h * share * new[n : 2 * n])
    return new


@jax.custom_jvp
def _weighted_sum(weights, slopes):
    """Sum over the first axis of both."""
    return jnp.sum(weights * slopes, axis=0)


@partial(_weighted_sum.defjvp, symbolic_zeros=True)
def _weighted_sum_jvp(primals, tangents):
    """The same, term by term: a sum over an axis is slow where directions come before it, and weights are few."""
    (weights, slopes), (weights_slope, slopes_slope) = primals, tangents
    weights = keep(weights)

    def added(terms):
        return keep(sum(terms[1:], terms[0]))

    value = added([w * k for w, k in zip(weights, slopes, strict=True)])
    terms = []
    if not isinstance(slopes_slope, SymbolicZero):
        terms += [w * k for w, k in zip(weights, slopes_slope, strict=True)]
    if not isinstance(weights_slope, SymbolicZero):
        terms += [w * k for w, k in zip(weights_slope, slopes, strict=True)]
    return value, added(terms) if terms else jnp.zeros_like(value)


class _Landed(NamedTuple):
    t: jax.Array
    y: jax.Array
    mode: jax.Array
    event: jax.Array
    ended: jax.Array


def _land(system, tableau: Tableau, params, s: HybridState, slopes, node_signals) -> _Landed:
    """Time, state and mode after the earliest event of the stride, which event it was, and whether it ends the run."""
    signals = jnp.concatenate([s.signals[None], node_signals, s.end_signals[None]])
    guards = jnp.moveaxis(system.guards(params, s.mode, jnp.moveaxis(signals, 1, 0)), 1, 0)
    event, fraction = locate.first_crossing(guards, s.armed)
    y = _inside(system, tableau, s.y, s.h, slopes, _dense_weights(tableau, fraction))
    t = s.t + s.h * fraction
    signals = locate.evaluate(locate.fit(signals), fraction)
    mode, y, ended = system.transition(params, t, s.mode, event, y, signals)
    return _Landed(t, y, mode, event, ended)


def _error_norm(tableau: Tableau, settings: Settings, s: HybridState, slopes, y_new):
    """Root-mean-square local error over the tolerance; 0 for fixed steps and for landings."""
    if tableau.error is None:
        return jnp.where(jnp.all(jnp.isfinite(y_new), axis=0), 0.0, jnp.inf)
    weights = jnp.asarray(tableau.error, s.y.dtype).reshape(-1, *(1,) * s.y.ndim)
    error = jax.lax.stop_gradient(s.h * jnp.sum(weights * slopes, axis=0))
    scale = settings.atol + settings.rtol * jax.lax.stop_gradient(jnp.maximum(jnp.abs(s.y), jnp.abs(y_new)))
    return jnp.where(s.landing, 0.0, jnp.sqrt(jnp.mean((error / scale) ** 2, axis=0)))


def _step_factor(tableau: Tableau, error, error_before, good):
    """By how much the next step grows or shrinks: PI control after a good step, plain control after a bad one."""
    if tableau.error is None:
        return jnp.ones_like(error)
    order = tableau.order
    error = jnp.where(jnp.isfinite(error), jnp.maximum(error, 1e-10), 1e10)
    after_good = _SAFETY * error ** (-_NOW / order) * error_before ** (_BEFORE / order)
    after_bad = jnp.minimum(_SAFETY * error ** (-1.0 / order), 0.9)
    return jnp.clip(jnp.where(good, after_good, after_bad), _SHRINK, _GROW)


def _armed(system: HybridSystem, guards, just_fired: jax.Array | int = -1):
    """Guards that may fire: those that bound the mode always; those that only watch, once seen positive.

    A guard that has just fired is zero but for rounding, so its sign says nothing yet.
    """
    column = (-1,) + (1,) * (guards.ndim - 1)
    index = jnp.arange(len(system.boundary)).reshape(column)
    return ((guards > 0) & (index != just_fired)) | jnp.asarray(system.boundary).reshape(column)
