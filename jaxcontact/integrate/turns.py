"""A machine that takes several steps of its own at a time, each time in one kernel if asked to.

Drivers look after every step whether lanes are done, and on a GPU that takes a while: three small kernels, and one
number that the host waits for. A lane that is done stays as it is, so nothing but the count of steps depends on how
often one looks. See lanewise/ACCELERATORS.md for what it buys.
"""

from typing import Any, NamedTuple

import jax

from jaxcontact.errors import InputError
from jaxcontact.integrate.machine import Machine
from jaxcontact.lanewise.block_kernel import steps_in_one_kernel

KERNELS = ("xla", "pallas")

# Steps of a turn by default. What looking takes, L, is saved k - 1 times in k, and a lane that is done waits for k / 2
# steps of the n that a run has: the best k is sqrt(2 n L / T) for steps of length T. As one kernel T is about 90 us on
# an A100, L 17 us, and n 39: 4. XLA's own kernels take some 650 us: 1.
_STEPS = {"xla": 1, "pallas": 4}


class Turns(NamedTuple):
    """How steps are carried out: by whose kernels, and how many at a time; `interpret`: a kernel without a GPU."""

    kernel: str = "xla"
    steps: int = 1
    interpret: bool = False


def turns_on(platform: str, kernel: str = "xla", steps: int | None = None) -> Turns:
    """Check what was asked for, and say how it is done on a platform."""
    if kernel not in KERNELS:
        raise InputError(f"step_kernel = {kernel!r}: allowed are {', '.join(KERNELS)}")
    if steps is not None and (isinstance(steps, bool) or not isinstance(steps, int) or steps < 1):
        raise InputError(f"steps_per_turn = {steps!r}: a whole number of at least 1 is needed")
    return Turns(kernel, steps or _STEPS[kernel], kernel == "pallas" and platform == "cpu")


def in_turns(machine: Machine, turns: Turns) -> Machine:
    """The same machine, so many steps at a time."""

    def step(params: Any, state: Any) -> Any:
        if turns.kernel == "pallas":
            try:
                return steps_in_one_kernel(machine.step, params, state, steps=turns.steps, interpret=turns.interpret)
            except NotImplementedError as error:
                why = str(error).splitlines()[0]
                raise InputError(f"step_kernel = 'pallas' cannot hold a step of this kind, 'xla' can: {why}") from error
        return jax.lax.fori_loop(0, turns.steps, lambda _, now: machine.step(params, now), state)

    def bind(params: Any) -> Any:
        one = machine.bound(params)
        return lambda state: jax.lax.fori_loop(0, turns.steps, lambda _, now: one(now), state)

    if turns == Turns():
        return machine
    return machine._replace(
        step=step, bind=bind if turns.kernel == "xla" else None, steps=turns.steps * machine.steps, variation=None
    )
