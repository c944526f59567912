"""Systems with modes, and where each of their lanes is: what the stages of a machine step hand to each other."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxcontact.lanewise import arrays_are_whole, in_one_loop


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
        return all_slopes(self.slope, self.later_slopes)


class Segment(NamedTuple):
    """What a machine step made final: the trajectory from t0 to t1 (t1 = t0: nothing), inside a stride of length h."""

    t0: jax.Array
    t1: jax.Array
    h: jax.Array
    y: jax.Array
    slope: jax.Array
    later_slopes: tuple[jax.Array, ...]
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


def parts_of(system: HybridSystem, rows) -> tuple[jax.Array, ...]:
    """A state, or a slope, in parts: row by row, or all in one."""
    return tuple(rows) if system.one_loop else (rows,)


def whole_of(system: HybridSystem, parts) -> jax.Array:
    """A state, or a slope, of its parts."""
    return jnp.stack(parts) if system.one_loop else parts[0]


def all_slopes(first, later) -> jax.Array:
    """Slopes (s, n, *lanes); the later ones come in parts."""
    whole = later[0] if later[0].ndim > first.ndim else jnp.stack(later, axis=1)
    return jnp.concatenate([first[None], whole])


def apply(system: HybridSystem, function: Callable, *arguments):
    """Apply a function of lane-wide arrays, in one loop over the lanes where the system allows it."""
    return in_one_loop(function, *arguments) if system.one_loop else function(*arguments)


def chosen(condition, yes, no):
    """Of two trees, part by part, the one that a lane's condition chooses."""
    return jax.tree.map(lambda one, other: jnp.where(condition, one, other), yes, no)
