"""How finely to integrate: one immutable record, checked when it is made, kept with every result."""

from dataclasses import dataclass, fields
from functools import partial
from math import isfinite

import jax

from jaxcontact.errors import InputError, unknown

STEPPERS = ("dopri5", "rk4", "semi_implicit_euler")


@partial(
    jax.tree_util.register_dataclass,
    data_fields=("rtol", "atol", "first_step", "step", "min_step", "max_steps"),
    meta_fields=("stepper", "max_time"),
)
@dataclass(frozen=True)
class Settings:
    """Tolerances and limits of a run.

    `rtol` and `atol` bound the local error of an adaptive step, per unit of each state (m, rad, m/s, rad/s, J);
    a fixed-step method ignores them and takes steps of `step` seconds. `first_step` starts the adaptive controller.
    All numbers but `max_time` may be arguments of a compiled function, so that another tolerance compiles nothing.
    """

    stepper: str = "dopri5"
    rtol: float = 1e-7
    atol: float = 1e-9
    first_step: float = 1e-4
    step: float = 1e-5
    min_step: float = 1e-14
    max_steps: int = 20_000
    max_time: float = float("inf")

    def __post_init__(self) -> None:
        """Refuse settings that no run could honour."""
        if self.stepper not in STEPPERS:
            raise unknown("stepper", self.stepper, STEPPERS, "[solver]")
        for name in ("rtol", "atol", "first_step", "step", "min_step", "max_steps", "max_time"):
            value = getattr(self, name)
            if not isinstance(value, (int, float, str, list, tuple, dict)):
                continue  # a traced number, checked when it was made
            if (
                not isinstance(value, (int, float))
                or isinstance(value, bool)
                or not value > 0
                or not (isfinite(value) or name == "max_time")
            ):
                raise InputError(f"[solver] {name} = {value!r}: a number above 0 is needed")
            if name == "max_steps" and (value != int(value) or value >= 2**31):
                raise InputError(f"[solver] max_steps = {value!r}: a whole number below 2^31 is needed")

    def as_dict(self) -> dict[str, str | float | int]:
        """The settings by name, for the record kept with a result."""
        return {f.name: getattr(self, f.name) for f in fields(self)}
