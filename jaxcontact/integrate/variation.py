"""Derivatives carried along the steps of a hybrid run by the linearised equations of motion.

The derivative of a whole machine step, taken by the rule of the chain, repeats much for every direction: values, guards
at all nodes, stages that are kept for a landing. Here the run goes on as ever, and beside each of its steps

    d(delta)/dt = (df/dy) delta + (df/dp) dp

is integrated over the same stretch of the trajectory, with the same Runge-Kutta method. What is linear is worked out
once for all directions, at points of the trajectory that the step has made known; for each direction a stage is then a
hundred and fifty products and sums. With twelve parameters that made derivatives of crutch impacts four times as fast.

A landing goes from the start of its stride to the event, in one step of its own length. The event's time moves by

    dt = -(dg/dp dp + dg/dy delta) / (dg/dt)

and the state there with it; then comes the derivative of the transition.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxcontact.integrate import hybrid, locate
from jaxcontact.integrate.machine import is_real_array
from jaxcontact.integrate.settings import Settings
from jaxcontact.integrate.stages import Weights, moved, one_of, weights_inside, weights_of, with_all, with_own
from jaxcontact.integrate.tableau import TABLEAUS, Tableau, weighted_sum
from jaxcontact.lanewise import arrays_are_whole, in_one_loop
from jaxcontact.lanewise.linear import LinearPart


class Moving(NamedTuple):
    """What of a state has derivatives: when, and where. `y` comes row by row."""

    t: Any
    y: tuple[Any, ...]


def moving(state: hybrid.HybridState) -> Moving:
    """The part of a state that derivatives are carried of; all else follows from it."""
    return Moving(state.t, tuple(state.y))


def restored(system: hybrid.HybridSystem, params: Any, state: hybrid.HybridState, part: Moving) -> hybrid.HybridState:
    """The state with that part in it, and what the flow says there."""
    y = jnp.stack(part.y)
    slope, signals = in_one_loop(system.flow, params, part.t, state.mode, y)
    return state._replace(t=part.t, y=y, slope=jnp.stack(with_own(system, slope)), signals=signals)


def applies(settings: Settings, state: hybrid.HybridState) -> bool:
    """Whether it is for such a state, with lanes, and stages as in a table. The system has to be one of `one_loop`."""
    return state.y.ndim == 2 and not arrays_are_whole() and not TABLEAUS[settings.stepper].kick_drift


def advance(
    system: hybrid.HybridSystem,
    settings: Settings,
    params: Any,
    params_slopes: list[Any],
    s: hybrid.HybridState,
    slopes: list[Any],
) -> tuple[hybrid.HybridState, list[Any]]:
    """One machine step of every lane, and of the derivatives of its moving part along each direction.

    `params_slopes` belong to the real arrays among the leaves of `params`, None to those that depend on nothing;
    `slopes` belong to the leaves of the moving part. Both have an axis over the directions first.
    """
    reals = _Reals([slope is not None for slope in params_slopes])
    params_slopes = [slope for slope in params_slopes if slope is not None]
    tableau = TABLEAUS[settings.stepper]
    after, told = hybrid.advance_and_tell(system, settings, params, s)
    trajectory = _Trajectory(s.t, s.h, tuple(s.y), tuple(s.slope), after.later_slopes, after.end_slope)
    path = _path_of(system, tableau, told, trajectory)
    numbers, end_slope, flow = _along_the_path(system, reals, params, s.mode, path)
    event, passing = _at_the_end(system, reals, params, s.mode, told, path, end_slope)
    walk = _Walk(tableau, flow, len(params_slopes) + 1, len(trajectory.y), system.unseen)
    length = jnp.where(told.landing, told.fraction, 1.0) * s.h

    def one_direction(params_slopes, slopes):
        end = walk.to_the_end(numbers, length, params_slopes, slopes)
        past = _past_the_event(passing)
        return in_one_loop(past, told, event, params_slopes, slopes, end, over_blocks="inner")

    return after, jax.vmap(one_direction)(params_slopes, slopes)


class _Trajectory(NamedTuple):
    """A stride of the run: its start, its length, and slopes of the rows that have own ones."""

    t: Any
    h: Any
    y: tuple[Any, ...]
    slope: tuple[Any, ...]
    later_slopes: tuple[Any, ...]
    end_slope: tuple[Any, ...]

    def at(self, system: hybrid.HybridSystem, tableau: Tableau, weights: Weights) -> tuple[Any, ...]:
        """The state inside it, for these weights of its slopes."""
        slopes = [[a, *k, b] for a, k, b in zip(self.slope, self.later_slopes, self.end_slope, strict=True)]
        return moved(system, tableau, self.y, self.h, slopes, weights)


class _Event(NamedTuple):
    """What there is to know about an event: the linear part of its guard and its transition, and how they go on."""

    numbers: list[Any]
    onwards: tuple[Any, ...]  # how the state after the transition changes with the time of the event
    delay: Any  # how much later the event is for each unit that its guard is larger: 0 where the guard does not fall


class _Reals:
    """The real arrays of a tree that have derivatives, and how to put others in their place."""

    def __init__(self, moves: list[bool]) -> None:
        self._moves = moves

    def of(self, params: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
        """Those of this tree."""
        leaves, tree = jax.tree.flatten(params)
        each = iter(self._moves)
        chosen = [is_real_array(leaf) and next(each) for leaf in leaves]

        def with_others(reals):
            rest = iter(reals)
            return tree.unflatten([next(rest) if c else leaf for leaf, c in zip(leaves, chosen, strict=True)])

        return [leaf for leaf, c in zip(leaves, chosen, strict=True) if c], with_others


def _path_of(system, tableau: Tableau, told: hybrid.Told, trajectory: _Trajectory) -> tuple[Any, tuple[Any, ...]]:
    """Times and states (stage, lanes) at the stages of a step to the end of the stride or, in a landing, to the event.

    The former are those of the run itself, the latter are found by its dense output. The last stage is at the end.
    """
    times = jnp.asarray(np.concatenate([[0.0], tableau.times]), trajectory.t.dtype)
    stages = [weights_of(tableau, row) for row in tableau.matrix[:-1]]

    def at_stage(trajectory, told, time, stage):
        weights = one_of(told.landing, weights_inside(tableau, time * told.fraction), stage)
        t = trajectory.t + trajectory.h * time * jnp.where(told.landing, told.fraction, 1.0)
        return t, trajectory.at(system, tableau, weights)

    stages = jnp.asarray([w.as_list() for w in stages], trajectory.t.dtype)
    return jax.vmap(lambda time, stage: in_one_loop(at_stage, trajectory, told, time, Weights.of_list(list(stage))))(
        times, stages
    )


def _along_the_path(system, chosen: _Reals, params, mode, path):
    """Linearise the flow at all stages: numbers (stage, lanes), own slopes at the last, and the linear part itself."""
    flow = LinearPart()

    def at_point(params, mode, t, y):
        reals, with_others = chosen.of(params)

        def of_reals(reals, t, y):
            return tuple(system.flow(with_others(reals), t, mode, jnp.stack(y))[0])

        slope, numbers = flow.found(of_reals, reals, t, y)
        return numbers, with_own(system, slope)

    numbers, slopes = jax.vmap(lambda t, y: in_one_loop(at_point, params, mode, t, y))(*path)
    return numbers, [k[-1] for k in slopes], flow


def _at_the_end(system, chosen: _Reals, params, mode, told: hybrid.Told, path, own_slopes):
    """Linearise guard and transition at the last stage, where the event of a landing is.

    Where a lane does not land, nobody looks at this.
    """
    passing = LinearPart()
    t, y = jax.tree.map(lambda a: a[-1], path)

    def linearised(params, mode, event, t, y):
        reals, with_others = chosen.of(params)

        def guard_and_state(reals, t, y):
            params, y = with_others(reals), jnp.stack(y)
            signals = system.flow(params, t, mode, y)[1]
            guard = locate.of_event(system.guards(params, mode, signals), event)
            return (guard, *system.transition(params, t, mode, event, y, signals)[1])

        return passing.found(guard_and_state, reals, t, y)[1]

    def as_time_goes_on(numbers, still, on, y, own):
        falling, *onwards = passing.along(numbers, still, on, with_all(system, y, own))
        falls = falling != 0
        return tuple(onwards), jnp.where(falls, -1.0 / jnp.where(falls, falling, 1.0), 0.0)

    numbers = in_one_loop(linearised, params, mode, told.event, t, y)
    still = [jnp.zeros_like(r) for r in chosen.of(params)[0]]
    return _Event(numbers, *in_one_loop(as_time_goes_on, numbers, still, jnp.ones_like(t), y, own_slopes)), passing


class _Walk:
    """The derivative along one direction through the stages of a Runge-Kutta step of the linearised equations.

    Each stage is a loop over the lanes; the last one goes on to the end of the step. Rows of the state whose slope is
    another row, as positions have it, need no slopes of their own: with the table's A, their stages are
    y + h c v + h^2 (A A) dv. Rows with no slope stay, and those that no slope depends on are summed up on the way.
    """

    def __init__(self, tableau: Tableau, flow: LinearPart, before: int, rows: int, unseen: tuple[int, ...]) -> None:
        self._flow = flow
        stages = np.concatenate([np.zeros((1, len(tableau.weights) - 1)), tableau.stages[:, :-1]])
        self._weights = np.concatenate([stages, tableau.weights[None, :-1]])  # (stages + 1, stages): the end is last
        self._twice = self._weights @ stages
        alike = [flow.alike(row) for row in range(rows)]
        followed = [None if a is None or a < before or alike[a - before] is not None else a - before for a in alike]
        self._follows = followed
        own = [row for row in range(rows) if followed[row] is None and not flow.is_zero(row)]
        self._totals = [row for row in own if row in unseen and row not in followed]
        self._own = [row for row in own if row not in self._totals]
        self._moving = [*self._own, *(row for row in range(rows) if followed[row] is not None)]

    def to_the_end(self, numbers, length, params_slopes, slopes):
        """The state's derivative at the end of the step; `numbers` (stage, lanes) are those of the linearised flow."""
        found: list[dict[int, Any]] = []
        totals = {row: slopes[1 + row] for row in self._totals}
        last = len(self._weights) - 2
        for i in range(last + 1):

            def stage(numbers, length, params_slopes, slopes, found, totals, i=i):
                t, *y = slopes
                k = self._flow.along(numbers, params_slopes, t, self._at(i, length, y, found))
                new = {row: k[row] for row in self._own}
                totals = {row: total + float(self._weights[-1][i]) * length * k[row] for row, total in totals.items()}
                if i < last:
                    return new, totals
                end = self._at(last + 1, length, y, [*found, new])
                return {row: end[row] for row in self._moving} | totals, {}

            given = [n[i] for n in numbers], length, params_slopes, slopes, found, totals
            new, totals = in_one_loop(stage, *given, over_blocks="outer")
            found.append(new)
        *_, end = found  # of the rows that move
        return [end.get(row, start) for row, start in enumerate(slopes[1:])]

    def _at(self, i, length, y, found):
        """The state at a stage, or at the end; totals are left as they were."""

        def plus(start, weights, row, factor):
            used = [(float(w), k[row]) for w, k in zip(weights, found, strict=False) if w != 0 and row in k]
            return start + factor * weighted_sum(*map(list, zip(*used, strict=True))) if used else start

        state = list(y)
        for row, followed in enumerate(self._follows):
            if followed is not None:
                along = y[row] + float(np.sum(self._weights[i])) * length * y[followed]
                state[row] = plus(along, self._twice[i], followed, length * length)
            elif row in self._own:
                state[row] = plus(y[row], self._weights[i], row, length)
        return state


def _past_the_event(passing: LinearPart) -> Callable:
    """What the derivatives of the moving part are behind a machine step: with a transition, if the lane landed."""

    def past(told: hybrid.Told, event: _Event, params_slopes, slopes, end):
        t = slopes[0]
        guard, *after = passing.along(event.numbers, params_slopes, t, end)
        later = event.delay * guard
        landed = [t + later, *(a + later * k for a, k in zip(after, event.onwards, strict=True))]
        new = [jnp.where(told.landing, a, b) for a, b in zip(landed, [t, *end], strict=True)]
        return [jnp.where(told.moved, a, b) for a, b in zip(new, slopes, strict=True)]

    return past
