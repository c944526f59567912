"""Systems with modes, and where each of their lanes is: what the stages of a machine step hand to each other."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxcontact.lanewise import arrays_are_whole, in_one_loop


class HybridSystem(NamedTuple):
    """A flow with modes. Components first, lanes last; `signals` are by-products of the flow that guards look at."""

    flow: Callable[..., tuple[jax.Array, jax.Array]]  # params, t, mode, y -> dy/dt (n, *lanes), signals (s, *lanes)
    guards: Callable[..., jax.Array]  # params, mode, signals (s, ...) -> (guard, ...); positive before the event
    transition: Callable[..., tuple]  # params, t, mode, event, y, signals -> mode, y, ended
    boundary: tuple[bool, ...]  # per guard: True if it bounds the mode, False if it only watches for a crossing
    positions: int = 0  # leading rows of y that are positions; their slopes are as many rows behind them, velocities
    ends_at_max_time: bool = True  # whether max_time is the run's end, or a limit that it should not reach
    smooth_beyond: bool = True  # whether a mode's flow goes on smoothly beyond its guards
    unseen: tuple[int, ...] = ()  # rows of y that the flow does not look at: totals, for instance
    still: tuple[int, ...] = ()  # rows of y that only transitions change
    watched: tuple[int, ...] = ()  # signals that guards or the transition look at; (): all
    one_loop: bool = False  # whether all its functions depend on the lanes through their arguments alone (`lanewise`)


class HybridState(NamedTuple):
    """Where each lane is. `y` is where the current stride starts, `slope` its first slope; the others serve a landing.

    Slopes are those of all rows of y, and the later ones (s - 1, *shape of y) end with that at the stride's end. Where
    all is done in one loop over the lanes they are those of the rows that have slopes of their own (`stages`), and what
    serves a landing comes row by row, a tuple of arrays (stages, lanes), of the signals those that are watched: XLA
    writes a stage into such an array in place, but rebuilds one of many rows.
    """

    t: jax.Array
    y: jax.Array
    mode: jax.Array
    signals: jax.Array
    armed: jax.Array
    h: jax.Array
    error_before: jax.Array
    slope: jax.Array
    later_slopes: Any
    end_slope: Any  # row by row; () where it is the last of the later ones
    landing: jax.Array
    node_signals: Any  # row by row, at the nodes inside the stride; () where they need not be kept
    end_signals: Any
    steps: jax.Array
    status: jax.Array


class Segment(NamedTuple):
    """What a machine step made final: the trajectory from t0 to t1 (t1 = t0: nothing), inside a stride of length h."""

    t0: jax.Array
    t1: jax.Array
    h: jax.Array
    y: jax.Array
    slope: jax.Array  # this and the next two as in a state
    later_slopes: Any
    end_slope: Any
    mode: jax.Array


class Told(NamedTuple):
    """What a machine step was: whether it counts, whether it landed, on which event, at what fraction of its stride."""

    moved: jax.Array
    landing: jax.Array
    event: jax.Array
    fraction: jax.Array


def for_lanes(system: HybridSystem, y) -> HybridSystem:
    """One loop over the lanes needs lanes: a single run, y of shape (n,), has none."""
    return system._replace(one_loop=system.one_loop and y.ndim == 2 and not arrays_are_whole())


def apply(system: HybridSystem, function: Callable, *arguments):
    """Apply a function of lane-wide arrays, in one loop over the lanes where the system allows it."""
    return in_one_loop(function, *arguments) if system.one_loop else function(*arguments)


def chosen(condition, yes, no):
    """Of two trees, part by part, the one that a lane's condition chooses."""
    return jax.tree.map(lambda one, other: jnp.where(condition, one, other), yes, no)
