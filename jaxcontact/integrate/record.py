"""Time histories of a run: the state at evenly spaced times, from the dense output of the run's own steps.

A lane runs twice, first for its length and then for the record, so that memory follows the number of points and not
the number of steps. Both runs are one machine: a lane that has found its length starts over by itself, while its
neighbours may be anywhere in theirs.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxcontact.integrate import hybrid
from jaxcontact.integrate.settings import Settings


class Recording(NamedTuple):
    """Where each lane is (`run`), where it began, and what has been recorded: (count, *lanes), y (n, count, *lanes)."""

    run: hybrid.HybridState
    first: hybrid.HybridState
    second_time: jax.Array
    t: jax.Array
    y: jax.Array
    mode: jax.Array


def start(first: hybrid.HybridState, count: int) -> Recording:
    """Lanes about to run from `first`, with room for `count` points."""
    t = jnp.broadcast_to(first.t, (count, *first.t.shape))
    y = jnp.broadcast_to(first.y[:, None], (first.y.shape[0], *t.shape))
    mode = jnp.broadcast_to(first.mode, t.shape)
    return Recording(first, first, jnp.zeros(first.t.shape, bool), t, y, mode)


def done(recording: Recording) -> jax.Array:
    """Lanes whose second run has ended."""
    return recording.second_time & hybrid.done(recording.run)


def advance(system: hybrid.HybridSystem, settings: Settings, params: Any, r: Recording) -> Recording:
    """One machine step; in the second run, the points that it passes are recorded."""
    run, segment = hybrid.advance(system, settings, params, r.run)
    here = r.second_time & (r.t > segment.t0) & (r.t <= segment.t1)
    y = jnp.where(here, hybrid.sample(system, settings, segment, r.t), r.y)
    mode = jnp.where(here, segment.mode, r.mode)

    # The first run's end says where the points lie.
    length_known = ~r.second_time & hybrid.done(run)
    fractions = jnp.linspace(0.0, 1.0, r.t.shape[0], dtype=r.t.dtype).reshape(-1, *(1,) * run.t.ndim)
    t = jnp.where(length_known, r.first.t + fractions * (run.t - r.first.t), r.t)
    run = jax.tree.map(lambda begin, now: jnp.where(length_known, begin, now), r.first, run)
    return Recording(run, r.first, r.second_time | length_known, t, y, mode)
