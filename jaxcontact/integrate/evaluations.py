"""All evaluations of the flow in a machine step, in one loop that holds it once, and where they lead."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxcontact.integrate import locate
from jaxcontact.integrate.hybrid_state import HybridState, HybridSystem
from jaxcontact.integrate.tableau import Tableau, dense_weights, weighted_sum


class Target(NamedTuple):
    """Where the flow is evaluated: time, mode, state; an event, where in its stride, whether it ends all."""

    t: jax.Array
    mode: jax.Array
    y: Any
    event: jax.Array
    fraction: jax.Array
    ends: jax.Array


class Arrival(NamedTuple):
    """Where a machine step leads: the target that was evaluated last, and what was found there."""

    t: jax.Array
    mode: jax.Array
    y: Any
    event: jax.Array
    fraction: jax.Array
    ends: jax.Array
    slope: Any  # 0 where it is not finite
    signals: Any
    sound: jax.Array  # whether all that was evaluated on the way is finite


class Evaluated(NamedTuple):
    """What the evaluations of a machine step leave behind: parts of the state that serve a landing, and the arrival."""

    later_slopes: Any
    end_slope: Any
    node_signals: Any
    arrival: Arrival


def evaluate_all(system: HybridSystem, tableau: Tableau, params, s: HybridState) -> Evaluated:
    """All evaluations of the flow in a machine step, in one loop that holds it once.

    First the inner stages of a stride, or the guards at the inner nodes of the stride before, for a landing; then where
    the lane arrives. Slopes that are not finite are written as zeros: kept, they would spoil every smaller try.
    """
    inner = len(tableau.stages)
    kind = s.y.dtype
    stages, at_nodes = jnp.asarray(tableau.stages, kind), jnp.asarray(weights_at_nodes(tableau), kind)
    times, node_times = jnp.asarray(tableau.times, kind), jnp.asarray(locate.nodes(inner)[1:-1], kind)
    lanes = (1,) * (s.y.ndim - 1)

    def on_the_way(i, slopes, _signals) -> Target:
        weights = jnp.where(s.landing, at_nodes[i].reshape(-1, *lanes), stages[i].reshape(-1, *lanes))
        y = inside(system, tableau, s.y, s.h, s.slope, slopes, weights)
        t = s.t + s.h * jnp.where(s.landing, node_times[i], times[i])
        return Target(t, s.mode, y, jnp.zeros_like(s.mode), jnp.zeros_like(s.h), jnp.zeros_like(s.landing))

    def at_the_end(_i, slopes, signals) -> Target:
        seen = jnp.concatenate([s.signals[:, None], jnp.moveaxis(signals[:inner], 0, 1), s.end_signals[:, None]], 1)
        event, root = first_event(system, *jax.lax.stop_gradient((params, s.mode, s.armed, seen)))
        fraction, event_signals = at_event(system, params, s.mode, seen, event, root)
        b = jnp.asarray(tableau.weights, kind).reshape(-1, *lanes)
        weights = jnp.where(s.landing, dense_weights(tableau, fraction), b)
        y = inside(system, tableau, s.y, s.h, s.slope, slopes, weights)
        return arrive(system, params, s.t, s.h, s.mode, s.landing, y, event, fraction, event_signals)

    def evaluation(so_far, i):
        slopes, signals, _, _, sound = so_far
        if inner:
            target = jax.lax.cond(i < inner, on_the_way, at_the_end, jnp.minimum(i, inner - 1), slopes, signals)
        else:
            target = at_the_end(i, slopes, signals)
        slope, here = system.flow(params, target.t, target.mode, target.y)
        finite = jnp.isfinite(slope)
        slope = jnp.where(finite, slope, 0.0)
        # A landing keeps the slopes of the stride that it is inside of.
        slopes = _with_row(slopes, i, jnp.where(s.landing, _row(slopes, i), slope))
        return (slopes, _with_row(signals, i, here), target, slope, sound & jnp.all(finite, axis=0)), None

    blank = Target(s.t, s.mode, s.y, jnp.zeros_like(s.mode), jnp.zeros_like(s.h), jnp.zeros_like(s.landing))
    room = jnp.zeros((inner + 1, *s.signals.shape), kind)
    first = (s.later_slopes, room, blank, s.y, jnp.ones_like(s.landing))
    (slopes, signals, target, slope, sound), _ = jax.lax.scan(evaluation, first, jnp.arange(inner + 1))
    return Evaluated(slopes, (), (), Arrival(*target, slope, signals[-1], sound))


def first_event(system: HybridSystem, params, mode, armed, signals):
    """Which event comes first in a stride, and where; signals (signal, node, *lanes) are known at the nodes."""
    guards = system.guards(params, mode, signals)
    return locate.first_root(jnp.moveaxis(guards, 1, 0), armed)


def at_event(system: HybridSystem, params, mode, signals, event, root):
    """The fraction of the stride at which the event happens, with its derivative, and the signals there."""
    guards = system.guards(params, mode, signals)
    fraction = locate.with_derivative(jnp.moveaxis(guards, 1, 0), event, root)
    weights = locate.weights_at(signals.shape[1], fraction)
    return fraction, weighted_sum(weights, list(jnp.moveaxis(signals, 1, 0)))


def arrive(system: HybridSystem, params, t, h, mode, landing, y, event, fraction, signals) -> Target:
    """The end of a stride; or the event, where the transition rule picks the next mode."""
    t_event = t + h * fraction
    event_mode, y_event, ends = system.transition(params, t_event, mode, event, y, signals)
    return Target(
        t=jnp.where(landing, t_event, t + h),
        mode=jnp.where(landing, event_mode, mode),
        y=jnp.where(landing, y_event, y),
        event=event,
        fraction=fraction,
        ends=jnp.broadcast_to(ends, landing.shape),
    )


def _with_row(rows, index, row):
    return jax.lax.dynamic_update_index_in_dim(rows, row, index, 0)


def _row(rows, index):
    return jax.lax.dynamic_index_in_dim(rows, index, keepdims=False)


def weights_at_nodes(tableau: Tableau):
    """Weights of the slopes that give the state at each inner node of a step: (inner, slopes)."""
    fractions = locate.nodes(len(tableau.stages))[1:-1]
    powers = fractions[:, None] ** range(1, tableau.dense.shape[1] + 1)
    return powers @ tableau.dense.T


def inside(system, tableau: Tableau, y, h, first, later, weights) -> jax.Array:
    """The start plus h times a weighted sum of slopes; `weights` is (slopes, *lanes)."""
    shaped = weights.reshape(len(weights), *(1,) * (first.ndim + 1 - weights.ndim), *weights.shape[1:])
    new = y + h * weighted_sum(list(shaped), [first, *later])
    if tableau.kick_drift:  # positions move with the new velocities
        n, share = system.positions, jnp.sum(weights, axis=0)
        return new.at[:n].set(y[:n] + h * share * new[n : 2 * n])
    return new
