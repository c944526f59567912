"""Optimisers as machines that can be paused: a start goes in, the best that it leads to comes out.

So many starts go through lanes like any other runs: a lane whose start has converged is refilled with the next one, on
all devices, and one that crawls holds up nobody.

Jacobians are exact: one forward pass carries all directions, so that it works through events too.

Levenberg-Marquardt is written here and not taken from optimistix, because optimistix cannot go through lanes: its
linear solves (lineax 0.1) refuse to be traced inside `shard_map`. In a plain batch, with the Jacobian handed to it, its
steps cost 1.2 (rolling surface, 12 unknowns) to 1.9 (heel, 4 unknowns) times as much as these: it keeps residuals and
Jacobian twice and solves by QR, where the normal equations will do. It also needed more of them (median 61 against 37
on the heel; a tenth of its starts used up 100), since it neither scales the damping by unknown nor limits a turn. It is
the tests' referee, and `method="optimistix"` asks it for a second opinion (see `second_opinion`).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from jaxcontact.integrate.machine import Machine
from jaxcontact.integrate.settings import Settings
from jaxcontact.study.fit.problem import Problem

RUNNING, CONVERGED, STUCK, MAX_STEPS, NOT_FINITE, NO_EFFECT = range(6)
REASONS = (
    "still running",
    "converged: no step changes cost or unknowns any more",
    "stopped where no step lowers the cost: a kink, runs that fail beyond it, or the limit of the numbers' precision",
    "stopped at the step limit before it converged: raise max_steps, or look for unknowns that nothing holds",
    "stopped at the start: the run fails there, or cost and slopes are not finite",
    "stopped at the start: no unknown changes anything there (is it out of contact?)",
)
OPTIMISERS = ("lm", "adam", "lbfgs", "optimistix")
REASON_NAMES = ("running", "converged", "stuck", "max_steps", "not_finite", "no_effect")
_LEARNING_RATE = 0.02  # of Adam, in turns: a range is pi of them
_DAMPING, _MOST_DAMPING = 1e-2, 1e12  # of Levenberg-Marquardt: at first, and where it gives up
_LONGEST_TURN = 0.5  # of one unknown in a step: a sixth of its range, so that no step goes round in circles


class Optimiser(NamedTuple):
    """Which optimiser, and when it stops: `tolerance` on the change of unknowns and residuals, `max_steps`."""

    name: str = "lm"
    tolerance: float = 1e-6
    max_steps: int = 100


def value_and_jacobian(function: Callable, u, has_aux: bool = False):
    """A function's value (m,) and its Jacobian (m, n), forward, the value computed once; then what else it gives."""
    directions = jnp.eye(u.shape[0], dtype=u.dtype)
    axes = (None, -1, None) if has_aux else (None, -1)
    return jax.vmap(lambda along: jax.jvp(function, (u,), (along,), has_aux=has_aux), out_axes=axes)(directions)


def start_names(problem: Problem) -> tuple[str, ...]:
    """The names under which a start's coordinates go through lanes."""
    return tuple(f"u{i}" for i in range(len(problem.unknowns)))


def fit_machine(
    problem: Problem,
    optimiser: Optimiser,
    active: Sequence[int],
    noise: Callable[[Any], Any] | None = None,
    finish: Callable[[Any, Any], dict] | None = None,
) -> Callable[[Settings], Machine]:
    """Return what builds the machine for `LaneDriver`. Unknowns that are not `active` stay where the start has them.

    With `noise`, a start brings the number `repeat` too, and noise(repeat) (samples + priors,) is added to the data.
    `finish(u, noise)` adds results of one lane to those that every fit has: u (n,), cost, first_cost, steps, reason.
    """
    index = jnp.asarray(list(active), int)
    steps = _STEPPERS[optimiser.name]
    names = start_names(problem)

    def lane_noise(params):
        return None if noise is None else noise(params["repeat"])

    def residuals(part, args):
        whole, shift = args
        return problem.residuals(problem.values_at(whole.at[index].set(part)), shift)

    def begin(params):
        whole = jnp.stack([params[name] for name in names])
        args = (whole, lane_noise(params))
        inner = steps.init(optimiser, residuals, whole[index], args)
        zero = jnp.zeros((), jnp.int32)
        infinite = jnp.full((), jnp.inf, whole.dtype)
        return _State(whole[index], inner, infinite, infinite, zero, zero + RUNNING)

    def advance(params, state):
        whole = jnp.stack([params[name] for name in names])
        args = (whole, lane_noise(params))
        part, inner, cost, stop = steps.step(optimiser, residuals, state.part, args, state.inner)
        count = state.steps + 1
        first = jnp.where(state.steps == 0, cost, state.first_cost)
        reason = jnp.where((stop == RUNNING) & (count >= optimiser.max_steps), MAX_STEPS, stop)
        new = _State(part, inner, cost, first, count, reason.astype(jnp.int32))
        return jax.tree.map(lambda after, before: jnp.where(state.reason == RUNNING, after, before), new, state)

    def complete(params, state):
        whole = jnp.stack([params[name] for name in names]).at[index].set(state.part)
        found = {"u": whole, "cost": state.cost, "first_cost": state.first_cost}
        found |= {"steps": state.steps, "reason": state.reason}
        return found if finish is None else found | finish(whole, lane_noise(params))

    def over_lanes(function):  # lanes are the last axis of everything
        return jax.vmap(function, in_axes=-1, out_axes=-1)

    def build(settings: Settings) -> Machine:
        return Machine(
            init=lambda params: over_lanes(begin)(params),
            step=lambda params, state: over_lanes(advance)(params, state),
            done=lambda state: state.reason != RUNNING,
            finish=lambda params, state: over_lanes(complete)(params, state),
        )

    return build


class _State(NamedTuple):
    part: Any  # the active unknowns, as far as accepted
    inner: Any  # the optimiser's own
    cost: Any  # sum of squared residuals there
    first_cost: Any
    steps: Any
    reason: Any


class _Stepper(NamedTuple):
    init: Callable[..., Any]  # optimiser, residuals, u, args -> state (arrays only)
    step: Callable[..., Any]  # optimiser, residuals, u, args, state -> u, state, cost, reason to stop


# ---------------------------------------------------------------- Levenberg-Marquardt


class _Normal(NamedTuple):
    """The normal equations where the last accepted step led to: all that the next step needs, however many samples."""

    matrix: Any  # J^T J (n, n), and how the transform to turns bends the cost
    slope: Any  # J^T r (n,)
    scale: Any  # of the damping (n,): the largest diagonal so far (More 1978)
    cost: Any
    damping: Any
    growth: Any  # of the damping, at the next step that fails


def _lm_init(optimiser, residuals, u, args):
    n, number = u.shape[0], u.dtype
    # Nothing is known yet: the first step stays where it is and has a look, so that residuals are compiled once.
    start = jnp.full((), jnp.inf, number), jnp.full((), _DAMPING, number), jnp.full((), 2.0, number)
    return _Normal(jnp.eye(n, dtype=number), jnp.zeros(n, number), jnp.zeros(n, number), *start)


def _normal(value, jacobian, u, before: _Normal) -> _Normal:
    """The normal equations at u, for the next step.

    At a bound the slope of the transform vanishes and with it the column of J; what holds the unknown there is the
    transform's own curvature, d^2 size / du^2 = -tan(u) d size / du. Without it steps overshoot the bound for ever.
    """
    matrix, slope = jacobian.T @ jacobian, value @ jacobian
    bend = jnp.maximum(-slope * jnp.tan(u), 0.0)
    scale = jnp.maximum(before.scale, jnp.diagonal(matrix) + bend)
    return before._replace(matrix=matrix + jnp.diag(bend), slope=slope, scale=scale, cost=jnp.sum(value**2))


def _solve_positive(matrix, right):
    """Solve a symmetric positive definite system by elimination, scaled to a diagonal of ones, which needs no pivots.

    Not by `jnp.linalg.solve`: a batch of large matrices is shared out (jaxlib 0.10) among the very threads that run the
    devices, and with as many devices as cores each waits for the others for ever.
    """
    size = jnp.sqrt(jnp.diagonal(matrix))
    whole = jnp.concatenate([matrix / jnp.outer(size, size), (right / size)[:, None]], axis=1)

    def eliminate(i, rows):
        pivot = rows[i] / rows[i, i]
        return (rows - jnp.outer(rows[:, i], pivot)).at[i].set(pivot)

    return jax.lax.fori_loop(0, len(right), eliminate, whole)[:, -1] / size


def _lm_step(optimiser, residuals, u, args, now: _Normal):
    """One try: damp, solve, look; keep it if the cost fell. Damping after Nielsen (1999), scaled after Marquardt."""
    scale = jnp.maximum(now.scale, 1e-12 * jnp.max(now.scale)) + jnp.finfo(u.dtype).tiny
    step = -_solve_positive(now.matrix + jnp.diag(now.damping * scale), now.slope)
    step = jnp.clip(step, -_LONGEST_TURN, _LONGEST_TURN)
    value, jacobian = value_and_jacobian(lambda u: residuals(u, args), u + step)
    found = _normal(value, jacobian, u + step, now)
    cost = found.cost

    first = ~jnp.isfinite(now.cost)
    promised = -step @ (2.0 * now.slope + now.matrix @ step)
    gained = jnp.where(first, 0.0, now.cost - cost)
    # A step that was cut may promise a loss: it has to gain all the same.
    fell = (gained > 1e-4 * promised) & (gained > 0)
    accept = jnp.isfinite(cost) & jnp.all(jnp.isfinite(jacobian)) & (first | fell)
    ratio = gained / jnp.where(promised > 0, promised, 1.0)
    eased = jnp.where(first, 1.0, jnp.maximum(1.0 / 3.0, 1.0 - (2.0 * ratio - 1.0) ** 3))
    tried = found._replace(damping=now.damping * eased, growth=jnp.full_like(now.growth, 2.0))
    held = now._replace(damping=now.damping * now.growth, growth=2.0 * now.growth)
    after = jax.tree.map(lambda yes, no: jnp.where(accept, yes, no), tried, held)

    # Converged: a step changes nothing any more, or residuals are at right angles to all slopes, or nothing is left to
    # explain. (small^2: near its lowest point the cost is even.) A step that was made small by its damping tells
    # nothing. One that was refused does, where it promised nothing either: the cost's last digits are noise.
    small = jnp.maximum(optimiser.tolerance, 4.0 * jnp.sqrt(jnp.finfo(u.dtype).eps))
    whole = ~first & (now.damping <= 1.0)
    settled = whole & (jnp.abs(promised) <= small**2 * after.cost) & (~accept | (gained <= small**2 * after.cost))
    still = whole & accept & (jnp.max(jnp.abs(step)) <= small * (small + jnp.max(jnp.abs(u))))
    length = jnp.sqrt(jnp.diagonal(after.matrix) * after.cost)
    flat = accept & jnp.all(jnp.abs(after.slope) <= small**2 * length)
    exact = after.cost <= 1e-20 * value.size
    without = first & accept & jnp.all(after.matrix == 0)
    stop = jnp.where(after.damping > _MOST_DAMPING, STUCK, RUNNING)
    stop = jnp.where(settled | still | flat | exact, CONVERGED, stop)
    stop = jnp.where(without & ~exact, NO_EFFECT, stop)
    return jnp.where(accept, u + step, u), after, after.cost, jnp.where(first & ~accept, NOT_FINITE, stop)


# ---------------------------------------------------------------- optax


def _cost_and_gradient(residuals, u, args):
    """Sum of squares and its gradient: backward where that works, forward where a loop in time forbids it."""

    def cost(u):
        return jnp.sum(residuals(u, args) ** 2)

    try:
        return jax.value_and_grad(cost)(u)
    except ValueError as error:
        if "Reverse-mode" not in str(error):
            raise
    value, jacobian = value_and_jacobian(lambda u: residuals(u, args), u)
    return jnp.sum(value**2), 2.0 * value @ jacobian


class _OptaxState(NamedTuple):
    inner: Any
    at: Any  # where the optimiser is; the best so far is kept beside it
    best: Any
    idle: Any  # steps since the best became noticeably better


_PATIENCE = 50  # steps without progress


def _tally(optimiser, u, state, inner, at, value, here):
    """Keep the best place seen, and stop when it has not become better for a while."""
    better = value < state.best * (1.0 - optimiser.tolerance)
    idle = jnp.where(better, 0, state.idle + 1)
    lower = value < state.best
    best = jnp.where(lower, value, state.best)
    stop = jnp.where(idle >= _PATIENCE, CONVERGED, RUNNING)
    stop = jnp.where(jnp.all(jnp.isfinite(at)), stop, STUCK)
    stop = jnp.where(jnp.isfinite(best), stop, NOT_FINITE)
    return jnp.where(lower, here, u), _OptaxState(inner, at, best, idle), best, stop


def _adam(optimiser):
    # The rate falls along a cosine, so that the end is quiet.
    return optax.adam(optax.cosine_decay_schedule(_LEARNING_RATE, optimiser.max_steps, alpha=0.02))


def _adam_init(optimiser, residuals, u, args):
    return _OptaxState(_adam(optimiser).init(u), u, jnp.full((), jnp.inf, u.dtype), jnp.zeros((), jnp.int32))


def _adam_step(optimiser, residuals, u, args, state):
    value, slope = _cost_and_gradient(residuals, state.at, args)
    # Scale of the cost does not matter to Adam, but an overflow would.
    updates, inner = _adam(optimiser).update(slope, state.inner, state.at)
    return _tally(optimiser, u, state, inner, optax.apply_updates(state.at, updates), value, state.at)


def _lbfgs_init(optimiser, residuals, u, args):
    return _OptaxState(optax.lbfgs().init(u), u, jnp.full((), jnp.inf, u.dtype), jnp.zeros((), jnp.int32))


def _lbfgs_step(optimiser, residuals, u, args, state):
    cost = jax.custom_vjp(lambda u: _cost_and_gradient(residuals, u, args)[0])
    cost.defvjp(lambda u: _cost_and_gradient(residuals, u, args), lambda slope, out: (out * slope,))
    value, slope = jax.value_and_grad(cost)(state.at)
    updates, inner = optax.lbfgs().update(slope, state.inner, state.at, value=value, grad=slope, value_fn=cost)
    return _tally(optimiser, u, state, inner, optax.apply_updates(state.at, updates), value, state.at)


_STEPPERS = {
    "lm": _Stepper(_lm_init, _lm_step),
    "adam": _Stepper(_adam_init, _adam_step),
    "lbfgs": _Stepper(_lbfgs_init, _lbfgs_step),
}
