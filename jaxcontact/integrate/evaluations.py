"""All evaluations of the flow in a machine step, in one loop that holds it once, and where they lead."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxcontact.integrate import locate
from jaxcontact.integrate.hybrid_state import HybridState, HybridSystem, apply, chosen, parts_of, whole_of
from jaxcontact.integrate.tableau import Tableau, dense_weights, weighted_sum


class Target(NamedTuple):
    """Where the flow is evaluated: time, mode, state in parts; an event, where in its stride, whether it ends all."""

    t: jax.Array
    mode: jax.Array
    y: tuple[jax.Array, ...]
    event: jax.Array
    fraction: jax.Array
    ends: jax.Array


class Arrival(NamedTuple):
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


def evaluate_all(system: HybridSystem, tableau: Tableau, params, s: HybridState):
    """All evaluations of the flow in a machine step, in one loop that holds it once: slopes in parts, and the arrival.

    First the inner stages of a stride, or the guards at the inner nodes of the stride before, for a landing; then where
    the lane arrives. Slopes that are not finite are written as zeros: kept, they would spoil every smaller try.
    """
    inner = len(tableau.stages)
    kind = s.y.dtype
    stages, at_nodes = jnp.asarray(tableau.stages, kind), jnp.asarray(_weights_at_nodes(tableau), kind)
    times, node_times = jnp.asarray(tableau.times, kind), jnp.asarray(locate.nodes(inner)[1:-1], kind)
    lanes = (1,) * (s.y.ndim - 1)
    start = parts_of(system, s.y)

    def on_the_way(i, slopes, _signals) -> Target:
        weights = jnp.where(s.landing, at_nodes[i].reshape(-1, *lanes), stages[i].reshape(-1, *lanes))
        # In one loop, what the flow does not look at need not be known here.
        y = inside(system, tableau, s.y, s.h, s.slope, slopes, weights, system.unseen if system.one_loop else ())
        t = s.t + s.h * jnp.where(s.landing, node_times[i], times[i])
        return Target(t, s.mode, y, jnp.zeros_like(s.mode), jnp.zeros_like(s.h), jnp.zeros_like(s.landing))

    def at_the_end(_i, slopes, signals) -> Target:
        seen = [
            jnp.concatenate([first[None], nodes[:inner], last[None]])
            for first, nodes, last in zip(s.signals, signals, s.end_signals, strict=True)
        ]
        frozen = jax.lax.stop_gradient((params, s.mode, s.armed, seen))
        event, root = apply(system, partial(_first_event, system), *frozen)
        fraction, event_signals = apply(system, partial(_at_event, system), params, s.mode, seen, event, root)
        weights = [
            jnp.where(s.landing, w, b) for w, b in zip(dense_weights(tableau, fraction), tableau.weights, strict=True)
        ]
        y = inside(system, tableau, s.y, s.h, s.slope, slopes, jnp.stack(weights))
        return apply(
            system, partial(_arrive, system), params, s.t, s.h, s.mode, s.landing, y, event, fraction, event_signals
        )

    def flow(params, t, mode, y):
        slope, signals = system.flow(params, t, mode, whole_of(system, y))
        finite = jnp.isfinite(slope)
        return parts_of(system, jnp.where(finite, slope, 0.0)), tuple(signals), jnp.all(finite, axis=0)

    def evaluation(so_far, i):
        slopes, signals, _, _, sound = so_far
        if inner:
            target = jax.lax.cond(i < inner, on_the_way, at_the_end, jnp.minimum(i, inner - 1), slopes, signals)
        else:
            target = at_the_end(i, slopes, signals)
        slope, here, finite = apply(system, flow, params, target.t, target.mode, target.y)
        # A landing keeps the slopes of the stride that it is inside of.
        kept = apply(system, chosen, s.landing, tuple(_row(part, i) for part in slopes), slope)
        slopes = tuple(_with_row(part, i, k) for part, k in zip(slopes, kept, strict=True))
        signals = tuple(_with_row(rows, i, row) for rows, row in zip(signals, here, strict=True))
        return (slopes, signals, target, slope, sound & finite), None

    blank = Target(s.t, s.mode, start, jnp.zeros_like(s.mode), jnp.zeros_like(s.h), jnp.zeros_like(s.landing))
    room = tuple(jnp.zeros((inner + 1, *row.shape), kind) for row in s.signals)
    first = (s.later_slopes, room, blank, start, jnp.ones_like(s.landing))
    (slopes, signals, target, slope, sound), _ = jax.lax.scan(evaluation, first, jnp.arange(inner + 1))
    return slopes, Arrival(*target, slope, tuple(rows[-1] for rows in signals), sound)


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


def _arrive(system: HybridSystem, params, t, h, mode, landing, y, event, fraction, signals) -> Target:
    """The end of a stride; or the event, where the transition rule picks the next mode."""
    y, signals = whole_of(system, y), jnp.stack(signals)
    t_event = t + h * fraction
    event_mode, y_event, ends = system.transition(params, t_event, mode, event, y, signals)
    return Target(
        t=jnp.where(landing, t_event, t + h),
        mode=jnp.where(landing, event_mode, mode),
        y=parts_of(system, jnp.where(landing, y_event, y)),
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


def inside(system, tableau: Tableau, y, h, first, later, weights, but=()) -> tuple[jax.Array, ...]:
    """The start plus h times a weighted sum of slopes, in parts; `weights` is (slopes, *lanes). Rows of `but` stay."""
    if tableau.kick_drift:
        new = list(_sums(h, weights, parts_of(system, y), parts_of(system, first), later))
        n, share = system.positions, jnp.sum(weights, axis=0)
        whole = whole_of(system, new)  # positions move with the new velocities
        return parts_of(system, whole.at[:n].set(y[:n] + h * share * whole[n : 2 * n]))
    parts = parts_of(system, y), parts_of(system, first), later
    chosen = [k for k in range(len(later)) if k not in but]
    found = iter(apply(system, _sums, h, weights, *(tuple(part[k] for k in chosen) for part in parts)))
    return tuple(row if k in but else next(found) for k, row in enumerate(parts[0]))


def _sums(h, weights, y, first, later) -> tuple[jax.Array, ...]:
    new = []
    for start, slope, part in zip(y, first, later, strict=True):
        shaped = weights.reshape(len(weights), *(1,) * (slope.ndim + 1 - weights.ndim), *weights.shape[1:])
        new.append(start + h * weighted_sum(list(shaped), [slope, *part]))
    return tuple(new)
