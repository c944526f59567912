"""Integration of systems that switch between modes: fixed or adaptive steps, events located inside the step.

A machine step of a lane is one of two things. A *stride* advances by one Runge-Kutta step, or finds that its error is
too large, or finds that a guard turned negative on the way. In the last case the next machine step is a *landing*:
the same slopes give the state inside the stride, the evaluations that would have been stages look at the guards there
instead, and the lane lands on the earliest event, where the system's transition rule picks the next mode. Both kinds
evaluate the flow equally often and share its traces, so lanes of either kind step side by side. Events that do not
end the run cost one machine step each, and there may be any number.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from jaxcontact.integrate import evaluations, in_lanes
from jaxcontact.integrate.hybrid_state import HybridState, HybridSystem, Segment, Told, apply, chosen, for_lanes
from jaxcontact.integrate.judgement import armed_guards, error_norm, judge
from jaxcontact.integrate.machine import RUNNING
from jaxcontact.integrate.settings import Settings
from jaxcontact.integrate.stages import all_slopes
from jaxcontact.integrate.tableau import TABLEAUS, dense_weights

__all__ = [
    "HybridState",
    "HybridSystem",
    "Segment",
    "Told",
    "advance",
    "advance_and_tell",
    "done",
    "for_steps_in_lanes",
    "sample",
    "scratch",
    "start",
]


def start(system: HybridSystem, settings: Settings, params: Any, t, mode, y, status) -> HybridState:
    """Lanes that start at time t, in `mode`, at y; those whose `status` is not RUNNING are done already."""
    tableau, lanes = TABLEAUS[settings.stepper], y.shape[1:]
    one_loop = for_lanes(system, y)
    t, mode, status = (jnp.broadcast_to(a, lanes) for a in (t, mode, status))
    slope, signals = apply(one_loop, system.flow, params, t, mode, y)
    h = settings.first_step if tableau.error is not None else settings.step
    state = HybridState(
        t=t.astype(y.dtype),
        y=y,
        mode=mode.astype(jnp.int32),
        signals=signals,
        armed=armed_guards(system, system.guards(params, mode, signals)),
        h=jnp.full(lanes, jnp.minimum(h, settings.max_time), y.dtype),
        error_before=jnp.ones(lanes, y.dtype),
        slope=slope,
        later_slopes=jnp.zeros((tableau.slopes - 1, *slope.shape), y.dtype),
        end_slope=(),
        landing=jnp.zeros(lanes, bool),
        node_signals=(),
        end_signals=signals,
        steps=jnp.zeros(lanes, jnp.int32),
        status=status.astype(jnp.int32),
    )
    return for_steps_in_lanes(system, settings, state)


def for_steps_in_lanes(system: HybridSystem, settings: Settings, state: HybridState) -> HybridState:
    """A state that has just begun, also one lane of several that are started in one loop, as a step wants it."""
    return (
        in_lanes.at_the_start(system, TABLEAUS[settings.stepper], state)
        if for_lanes(system, state.y).one_loop
        else state
    )


def done(state: HybridState) -> jax.Array:
    """Lanes that have ended, well or badly."""
    return state.status != RUNNING


_FOR_A_LANDING = ("later_slopes", "end_slope", "node_signals", "end_signals")


def scratch(state: HybridState) -> HybridState:
    """What only a landing looks at, after the stride that wrote it."""
    return HybridState(
        *(jax.tree.map(lambda _, name=name: name in _FOR_A_LANDING, part) for name, part in state._asdict().items())
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
    tableau, system = TABLEAUS[settings.stepper], for_lanes(system, s.y)
    # Step sizes are not part of the answer: their derivatives are zero, and said to be so, cost nothing.
    s = s._replace(h=jax.lax.stop_gradient(s.h), error_before=jax.lax.stop_gradient(s.error_before))

    where = in_lanes if system.one_loop else evaluations
    later_slopes, end_slope, node_signals, arrival = where.evaluate_all(system, tableau, params, s)
    error = error_norm(system, tableau, settings, s, later_slopes, arrival)
    verdict = apply(
        system,
        partial(judge, system, tableau),
        settings,
        params,
        (s.t, s.h, s.error_before, s.landing, s.armed, s.steps, s.status),
        (arrival.t, arrival.mode, arrival.signals, arrival.ends, arrival.sound, arrival.event),
        error,
    )

    here = (s.t, s.y, s.mode, s.signals, s.slope)
    there = (arrival.t, arrival.y, arrival.mode, arrival.signals, arrival.slope)
    if system.one_loop:
        t, y, mode, signals, slope = apply(system, chosen, verdict.moved, there, _by_row(here))
        y, signals, slope = (jnp.stack(rows) for rows in (y, signals, slope))
        end_signals = in_lanes.kept_signals(system, verdict.landing, s, arrival)
    else:
        t, y, mode, signals, slope = chosen(verdict.moved, there, here)
        end_signals = chosen(verdict.landing, arrival.signals, s.end_signals)
    new = HybridState(
        t=t,
        y=y,
        mode=mode,
        signals=signals,
        armed=jnp.stack(verdict.armed),
        h=verdict.h,
        error_before=verdict.error_before,
        slope=slope,
        later_slopes=later_slopes,
        end_slope=end_slope,
        landing=verdict.landing,
        node_signals=node_signals,
        end_signals=end_signals,
        steps=verdict.steps,
        status=verdict.status,
    )
    told = Told(verdict.moved, s.landing, arrival.event, arrival.fraction)
    return new, told, Segment(s.t, verdict.t1, s.h, s.y, s.slope, later_slopes, end_slope, s.mode)


def _by_row(arrays) -> tuple[Any, ...]:
    """Arrays of rows as tuples of them."""
    return tuple(tuple(a) if a.ndim == 2 else a for a in arrays)


def sample(system: HybridSystem, settings: Settings, segment: Segment, t: jax.Array) -> jax.Array:
    """States (n, count, *lanes) inside a segment at times t (count, *lanes)."""
    tableau = TABLEAUS[settings.stepper]
    fraction = (t - segment.t0) / segment.h
    slopes = _all_slopes(system, tableau, segment)
    if tableau.kick_drift:
        weights = dense_weights(tableau, fraction)
        first, later = slopes[0][:, None], slopes[1:][:, :, None]
        return evaluations.inside(system, tableau, segment.y[:, None], segment.h, first, later, weights)
    # Slopes to coefficients once, then Horner for every point: a quarter of the work of weighting slopes at each.
    powers = segment.h * jnp.tensordot(jnp.asarray(tableau.dense.T, segment.y.dtype), slopes, 1)
    value = jnp.zeros_like(segment.y[:, None])
    for coefficients in powers[::-1]:
        value = (value + coefficients[:, None]) * fraction
    return segment.y[:, None] + value


def _all_slopes(system: HybridSystem, tableau, segment: Segment) -> jax.Array:
    """Slopes of all stages and rows: (s, n, *lanes)."""
    if not for_lanes(system, segment.y).one_loop:
        return jnp.concatenate([segment.slope[None], segment.later_slopes])
    rows = zip(segment.slope, segment.later_slopes, segment.end_slope, strict=True)
    own = [jnp.concatenate([first[None], later, last[None]]) for first, later, last in rows]
    return all_slopes(system, tableau, segment.y, segment.h, own)
