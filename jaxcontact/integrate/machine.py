"""A simulation as a machine that can be paused: init, step, done, finish (DESIGN: one lane or many, the same code)."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxcontact.lanewise import whole_arrays

# Every lane ends with one of these. Failure is data: a bad configuration never harms its neighbours.
STATUS = (
    ("running", "the run has not ended yet"),
    ("finished", "the run reached its end"),
    ("step_limit", "the run used up max_steps before its end; raise max_steps or loosen the tolerance"),
    ("step_too_small", "the tolerance asked for steps below min_step"),
    ("non_finite", "the state stopped being finite"),
    ("cannot_touch", "no posture with these numbers puts the contact point on the ground"),
    ("moving_up", "the contact point leaves the ground at the start, so there is no impact"),
    ("bad_value", "a parameter is not finite, or outside its bounds"),
    ("time_limit", "max_time came before the end of the run"),
    ("excluded", "a condition in [require] does not hold for these numbers, so it was not run"),
)
STATUS_NAMES = tuple(name for name, _ in STATUS)
(
    RUNNING,
    FINISHED,
    STEP_LIMIT,
    STEP_TOO_SMALL,
    NON_FINITE,
    CANNOT_TOUCH,
    MOVING_UP,
    BAD_VALUE,
    TIME_LIMIT,
    EXCLUDED,
) = range(len(STATUS))
NOT_FAILED = (RUNNING, FINISHED, EXCLUDED)  # not run yet, run to its end, not to be run


class Variation(NamedTuple):
    """How a machine carries derivatives along that knows better than to differentiate its step.

    Derivatives are carried of a part of the state, from which all else follows.
    """

    applies: Callable[[Any], bool]  # state -> whether it can be done for such a state
    part: Callable[[Any], Any]  # state -> the part: arrays of real numbers
    restored: Callable[[Any, Any, Any], Any]  # params, state, part -> the state with that part
    prepare: Callable[[Any], Any]  # params -> what its step wants to know instead of them
    # prepared, slopes of the real arrays among its leaves (None: all zero), state, slopes of the part -> the latter two
    step: Callable[[Any, list[Any], Any, list[Any]], tuple[Any, list[Any]]]


class Machine(NamedTuple):
    """A pausable simulation. Leaves of `params` have shape () or (lanes,); every state array ends with the lanes."""

    init: Callable[[Any], Any]  # params -> state
    step: Callable[[Any, Any], Any]  # params, state -> state; a lane that is done stays as it is
    done: Callable[[Any], jax.Array]  # state -> bool per lane
    finish: Callable[
        [Any, Any], Any
    ]  # params, state -> results by name: () where nothing varied enters, or (..., lanes)
    # state -> the same tree; True: a run that has just begun does not look at it, it may hold another run's numbers
    scratch: Callable[[Any], Any] = lambda state: jax.tree.map(lambda _: False, state)
    # params -> (state -> state): the step, with all that follows from params alone worked out, once for many steps
    bind: Callable[[Any], Callable[[Any], Any]] | None = None
    variation: Variation | None = None
    # params -> arrays like those of a state and of results, where there is a quicker way to them than to make those
    alike: Callable[[Any], tuple[Any, Any]] | None = None
    steps: int = 1  # steps of a run that one call of `step` takes

    def bound(self, params: Any) -> Callable[[Any], Any]:
        """The step for these parameters, for a loop that takes many."""
        return self.bind(params) if self.bind else lambda state: self.step(params, state)


def simulate(machine: Machine, params: Any) -> Any:
    """Run every lane of `params` to its end and return the outcomes. Forward-mode differentiable, jit it yourself."""
    state = jax.lax.while_loop(lambda state: ~jnp.all(machine.done(state)), machine.bound(params), machine.init(params))
    return machine.finish(params, state)


def simulate_steps(machine: Machine, params: Any, count: int) -> Any:
    """Run `count` machine steps and return the outcomes. The loop has a fixed length, so reverse mode works too."""
    with whole_arrays():
        state, _ = jax.lax.scan(
            lambda state, _: (machine.step(params, state), None), machine.init(params), length=count
        )
        return machine.finish(params, state)


def is_real_array(leaf: Any) -> bool:
    """Whether a leaf is an array of real numbers: one of Python's is part of the program."""
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating)


def lane_wide(tree: Any, lanes: tuple[int, ...]) -> Any:
    """Give every lane its own copy of numbers that nothing varied enters."""
    return jax.tree.map(lambda a: jnp.broadcast_to(a, lanes) if jnp.ndim(a) == 0 else a, tree)
