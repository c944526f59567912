"""Compile in less time what a test runs once or twice: on a CPU most of a test's time is compiling."""

from collections.abc import Callable
from functools import cache, partial

import jax

# XLA's older emitters of fused loops need half the time, and the code that they make is as fast. Without optimisation
# it is another half, for code that is up to four times slower: good for what runs for milliseconds, and not for loops
# (jaxlib 0.10.2 gets digits of a while_loop wrong without it).
_OLD_EMITTERS = {"xla_cpu_use_fusion_emitters": False}
_UNOPTIMISED = _OLD_EMITTERS | {"xla_backend_optimization_level": 0}


@cache
def _understood(optimised: bool) -> dict | None:
    """The options, or None where this version of XLA does not know them."""
    options = _OLD_EMITTERS if optimised else _UNOPTIMISED
    try:
        jax.jit(lambda x: x + 1, compiler_options=options)(1.0)
    except Exception:
        return None
    return options


def quick_jit(function: Callable, optimised: bool = True) -> Callable:
    """`jax.jit` for tests; the options are looked up at the first call, when the platform is known."""

    @cache
    def compiled():
        return jax.jit(function, compiler_options=_understood(optimised))

    return lambda *arguments: compiled()(*arguments)


hasty_jit = partial(quick_jit, optimised=False)
