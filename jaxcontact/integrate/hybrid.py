"""Integration of systems that switch between modes: fixed or adaptive steps, events located inside the step.

A machine step of a lane is one of two things. A *stride* advances by one Runge-Kutta step, or finds that its error is
too large, or finds that a guard turned negative on the way. In the last case the next machine step is a *landing*:
the same slopes give the state inside the stride, the evaluations that would have been stages look at the guards there
instead, and the lane lands on the earliest event, where the system's transition rule picks the next mode. Both kinds
evaluate the flow equally often and share its one trace, so lanes of either kind step side by side. Events that do not
end the run cost one machine step each, and there may be any number.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from jaxcontact.integrate.evaluations import evaluate_all, inside
from jaxcontact.integrate.hybrid_state import (
    HybridState,
    HybridSystem,
    Segment,
    Told,
    all_slopes,
    apply,
    chosen,
    for_lanes,
    parts_of,
    whole_of,
)
from jaxcontact.integrate.judgement import armed_guards, error_norm, judge
from jaxcontact.integrate.machine import RUNNING
from jaxcontact.integrate.settings import Settings
from jaxcontact.integrate.tableau import TABLEAUS, dense_weights
from jaxcontact.lanewise import arrays_are_whole

__all__ = [
    "HybridState",
    "HybridSystem",
    "Segment",
    "Told",
    "advance",
    "advance_and_tell",
    "done",
    "in_parts",
    "sample",
    "scratch",
    "start",
]


def start(system: HybridSystem, settings: Settings, params: Any, t, mode, y, status) -> HybridState:
    """Lanes that start at time t, in `mode`, at y; those whose `status` is not RUNNING are done already."""
    tableau, system = TABLEAUS[settings.stepper], for_lanes(system, y)
    lanes = y.shape[1:]
    t, mode, status = (jnp.broadcast_to(a, lanes) for a in (t, mode, status))
    slope, signals = apply(system, system.flow, params, t, mode, y)
    later = tuple(jnp.zeros((tableau.slopes - 1, *k.shape), y.dtype) for k in parts_of(system, slope))
    h = settings.first_step if tableau.error is not None else settings.step
    return HybridState(
        t=t.astype(y.dtype),
        y=y,
        mode=mode.astype(jnp.int32),
        signals=signals,
        armed=armed_guards(system, system.guards(params, mode, signals)),
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
    tableau, system = TABLEAUS[settings.stepper], for_lanes(system, s.y)
    # Step sizes are not part of the answer: their derivatives are zero, and said to be so, cost nothing.
    s = s._replace(h=jax.lax.stop_gradient(s.h), error_before=jax.lax.stop_gradient(s.error_before))

    slopes, arrival = evaluate_all(system, tableau, params, s)
    error = error_norm(system, tableau, settings, s, slopes, arrival)
    verdict = apply(
        system,
        partial(judge, system, tableau),
        settings,
        params,
        (s.t, s.h, s.error_before, s.landing, s.armed, s.steps, s.status),
        (arrival.t, arrival.mode, arrival.signals, arrival.ends, arrival.sound, arrival.event),
        error,
    )

    t, y, mode, signals, slope = apply(
        system,
        chosen,
        verdict.moved,
        (arrival.t, arrival.y, arrival.mode, arrival.signals, arrival.slope),
        (s.t, parts_of(system, s.y), s.mode, tuple(s.signals), parts_of(system, s.slope)),
    )
    new = HybridState(
        t=t,
        y=whole_of(system, y),
        mode=mode,
        signals=jnp.stack(signals),
        armed=jnp.stack(verdict.armed),
        h=verdict.h,
        error_before=verdict.error_before,
        slope=whole_of(system, slope),
        later_slopes=slopes,
        landing=verdict.landing,
        end_signals=jnp.stack(apply(system, chosen, verdict.landing, arrival.signals, tuple(s.end_signals))),
        steps=verdict.steps,
        status=verdict.status,
    )
    told = Told(verdict.moved, s.landing, arrival.event, arrival.fraction)
    return new, told, Segment(s.t, verdict.t1, s.h, s.y, s.slope, slopes, s.mode)


def sample(system: HybridSystem, settings: Settings, segment: Segment, t: jax.Array) -> jax.Array:
    """States (n, count, *lanes) inside a segment at times t (count, *lanes)."""
    tableau = TABLEAUS[settings.stepper]
    fraction = (t - segment.t0) / segment.h
    slopes = all_slopes(segment.slope, segment.later_slopes)
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
    return inside(wide, tableau, segment.y[:, None], segment.h, first, (later,), weights)[0]
