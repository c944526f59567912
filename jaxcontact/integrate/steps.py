"""Step lengths along a recorded run: how hard the equations were to integrate, and when."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from jaxcontact.integrate.machine import Machine


def with_step_lengths(recorder: Machine, finish: Callable[[Any, Any, Any], Any]) -> Machine:
    """A machine made of `record`, which also keeps the length (s) of the step that passed each recorded point.

    `finish(params, recording, lengths)` gives the results; lengths are (count, *lanes). A landing on an event is as
    long as the way to the event.
    """

    def init(params):
        recording = recorder.init(params)
        return recording, jnp.zeros_like(recording.t)

    def step(params, state):
        before, lengths = state
        after = recorder.step(params, before)
        length = after.run.t - before.run.t
        # Every point from here on, until a later step passes it too.
        passed = before.second_time & (length > 0) & (after.t >= before.run.t)
        return after, jnp.where(passed, length, lengths)

    return Machine(
        init=init,
        step=step,
        done=lambda state: recorder.done(state[0]),
        finish=lambda params, state: finish(params, *state),
    )
