"""Another Levenberg-Marquardt on the same starts: optimistix's, as it is. Why it is not the default: see `solvers`."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from jaxcontact.study.fit.problem import Problem
from jaxcontact.study.fit.solvers import (
    CONVERGED,
    MAX_STEPS,
    NOT_FINITE,
    Optimiser,
    start_names,
    value_and_jacobian,
)

_TOGETHER = 32  # starts in a batch, which goes on until its slowest has ended


def run_optimistix(
    problem: Problem,
    optimiser: Optimiser,
    active: tuple[int, ...],
    begin: dict[str, np.ndarray],
    *,
    watch: Callable[[int], None] | None = None,
) -> dict[str, np.ndarray]:
    """Send starts through `optimistix.LevenbergMarquardt`; results are those of `fitting.run_starts`."""
    import optimistix  # slow to import, and only needed here

    solver = optimistix.LevenbergMarquardt(rtol=optimiser.tolerance, atol=optimiser.tolerance)
    index = jnp.asarray(list(active), int)

    def plain(part, whole):
        return problem.residuals(problem.values_at(whole.at[index].set(part)))

    def with_slopes(primals, tangents):
        # The Jacobian as a matrix: linearised as usual, a loop in time would be run again for every product with it.
        value, jacobian = value_and_jacobian(lambda part: plain(part, primals[1]), primals[0])
        return value, jacobian @ tangents[0]

    residuals = jax.custom_jvp(plain)
    residuals.defjvp(with_slopes)

    def one(whole):
        found = optimistix.least_squares(
            residuals, solver, whole[index], args=whole, max_steps=optimiser.max_steps, throw=False
        )
        cost = jnp.sum(residuals(found.value, whole) ** 2)
        ended = jnp.where(found.result == optimistix.RESULTS.successful, CONVERGED, MAX_STEPS)
        return {
            "u": whole.at[index].set(found.value),
            "cost": cost,
            "first_cost": jnp.sum(residuals(whole[index], whole) ** 2),
            "steps": found.stats["num_steps"].astype(jnp.int32),
            "reason": jnp.where(jnp.isfinite(cost), ended, NOT_FINITE).astype(jnp.int32),
        }

    turns = jnp.stack([jnp.asarray(begin[name]) for name in start_names(problem)], axis=-1)
    run = jax.jit(jax.vmap(one))
    parts = []
    for first in range(0, len(turns), _TOGETHER):
        parts.append(jax.tree.map(np.asarray, run(turns[first : first + _TOGETHER])))
        if watch is not None:
            watch(min(first + _TOGETHER, len(turns)))
    found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return found | {"u": found["u"].T}
