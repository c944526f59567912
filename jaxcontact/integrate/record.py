"""Time histories of a run: the state at evenly spaced times, from the dense output of the run's own steps."""

from typing import Any

import jax
import jax.numpy as jnp

from jaxcontact.integrate import hybrid
from jaxcontact.integrate.settings import Settings


def record(system: hybrid.HybridSystem, settings: Settings, params: Any, start: hybrid.HybridState, count: int):
    """Times (count, *lanes), modes, states (n, count, *lanes) from the start to each lane's own end, and the status.

    The run is made twice: first for its length, then for the record, so that memory follows `count` and not the
    number of steps.
    """

    def run(step, first):
        return jax.lax.while_loop(lambda c: ~jnp.all(hybrid.done(c[0])), step, first)

    def step(carry):
        return (hybrid.advance(system, settings, params, carry[0])[0],)

    (end,) = run(step, (start,))
    fractions = jnp.linspace(0.0, 1.0, count, dtype=start.y.dtype).reshape(-1, *(1,) * start.t.ndim)
    t = start.t + fractions * (end.t - start.t)

    def step_and_sample(carry):
        state, y, mode = carry
        state, segment = hybrid.advance(system, settings, params, state)
        here = (t > segment.t0) & (t <= segment.t1)
        y = jnp.where(here, hybrid.sample(system, settings, segment, t), y)
        return state, y, jnp.where(here, segment.mode, mode)

    y = jnp.broadcast_to(start.y[:, None], (start.y.shape[0], *t.shape))
    mode = jnp.broadcast_to(start.mode, t.shape)
    _, y, mode = run(step_and_sample, (start, y, mode))
    return t, mode, y, end.status
