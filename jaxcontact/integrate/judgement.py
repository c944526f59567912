"""Whether a machine step counts, how long the next one is, and how a lane stands after it."""

from math import isfinite
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxcontact.integrate.evaluations import Arrival
from jaxcontact.integrate.hybrid_state import HybridState, HybridSystem
from jaxcontact.integrate.machine import FINISHED, NON_FINITE, RUNNING, STEP_LIMIT, STEP_TOO_SMALL, TIME_LIMIT
from jaxcontact.integrate.settings import Settings
from jaxcontact.integrate.stages import moved, weights_of
from jaxcontact.integrate.tableau import Tableau, weighted_sum
from jaxcontact.safemath import power_in_lanes

# PI controller (Hairer, Norsett, Wanner II.4 and Soederlind): exponents for the error now and before, safety and
# bounds.
_NOW, _BEFORE, _SAFETY, _SHRINK, _GROW = 0.7, 0.4, 0.9, 0.2, 5.0
# A flow that breaks at a guard (a force like depth^1.5 ends there) spoils the slopes of a stride that goes beyond it.
# Its error stays within the tolerance, but derivatives lose an order more; so such a stride has to be that much better.
# On a ball that bounces on a Hertz spring this makes derivatives 50 times as exact, for a tenth more steps.
_CROSSING = 1e-3


class Verdict(NamedTuple):
    """Whether a machine step counts, and what the controller makes of it; t1 is the end of its segment."""

    moved: jax.Array
    armed: tuple[jax.Array, ...]
    h: jax.Array
    error_before: jax.Array
    landing: jax.Array
    steps: jax.Array
    status: jax.Array
    t1: jax.Array


def judge(system: HybridSystem, tableau: Tableau, settings: Settings, params, before, arrival, error) -> Verdict:
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
    rearmed = armed_guards(system, guards, just_fired=jnp.where(landing, event, -1))
    return Verdict(
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


def error_norm(
    system: HybridSystem, tableau: Tableau, settings: Settings, s: HybridState, later_slopes, arrival: Arrival
):
    """Root-mean-square local error over the tolerance; 0 for fixed steps and for landings."""
    if tableau.error is None:
        return jnp.zeros_like(s.h)
    first, later, last = jax.lax.stop_gradient((s.slope, later_slopes, arrival.slope))
    old, new, h = jax.lax.stop_gradient((s.y, arrival.y, s.h))
    if system.one_loop:
        slopes = [[one, *rest, end] for one, rest, end in zip(first, later, last, strict=True)]
        errors = moved(system, tableau, [0.0] * len(old), h, slopes, weights_of(tableau, tableau.error))
        total = sum(_square(settings, *row) for row in zip(errors, old, new, strict=True))
    else:
        weights = [np.asarray(w, s.y.dtype) for w in tableau.error]
        error = h * weighted_sum(weights, [first, *later[:-1], last])
        total = jnp.sum(_square(settings, error, old, new), axis=0)
    return jnp.where(s.landing, 0.0, jnp.sqrt(total / len(s.y)))


def _square(settings: Settings, error, old, new):
    """A row's share of the error, over its tolerance; nothing of a row that only transitions change."""
    if isinstance(error, float):
        return 0.0
    return (error / (settings.atol + settings.rtol * jnp.maximum(jnp.abs(old), jnp.abs(new)))) ** 2


def _step_factor(tableau: Tableau, error, error_before, good):
    """By how much the next step grows or shrinks: PI control after a good step, plain control after a bad one."""
    if tableau.error is None:
        return jnp.ones_like(error)
    order = tableau.order
    error = jnp.where(jnp.isfinite(error), jnp.maximum(error, 1e-10), 1e10)
    after_good = _SAFETY * power_in_lanes(error, -_NOW / order) * power_in_lanes(error_before, _BEFORE / order)
    after_bad = jnp.minimum(_SAFETY * power_in_lanes(error, -1.0 / order), 0.9)
    return jnp.clip(jnp.where(good, after_good, after_bad), _SHRINK, _GROW)


def armed_guards(system: HybridSystem, guards, just_fired: jax.Array | int = -1):
    """Guards that may fire: those that bound the mode always; those that only watch, once seen positive.

    A guard that has just fired is zero but for rounding, so its sign says nothing yet.
    """
    column = (-1,) + (1,) * (guards.ndim - 1)
    index = jnp.arange(len(system.boundary)).reshape(column)
    return ((guards > 0) & (index != just_fired)) | jnp.asarray(system.boundary).reshape(column)
