"""A function of lanes on all devices: each gets an equal share of them, as sweeps do.

For what is no study, such as forces under a given motion (`models.prescribed`). On a CPU there are as many devices as
JAX is told to make (`jax_num_cpu_devices`); one for each core uses them all.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from jaxcontact.study.lane_program import compiler_options


def on_all_devices(function: Callable[..., Any], devices: int | None = None) -> Callable[..., Any]:
    """Compile a function whose arguments and results are trees of arrays (..., lanes), and of numbers without lanes.

    Lanes must not depend on each other: the function sees only some of them. Results stay where they were computed. A
    number of lanes that cannot be divided costs a copy of the results.
    """
    used = jax.local_devices()[:devices]

    def whole(*arguments):
        lanes = max((leaf.shape[-1] for leaf in jax.tree.leaves(arguments) if leaf.ndim), default=0)
        if len(used) == 1 or not lanes:
            return function(*arguments)
        missing = -lanes % len(used)
        padded = jax.tree.map(lambda a: _longer(a, missing) if a.ndim else a, arguments)
        share = (lanes + missing) // len(used)
        seen = jax.tree.map(
            lambda a: jax.ShapeDtypeStruct((*a.shape[:-1], share) if a.ndim else (), a.dtype), arguments
        )
        mapped = jax.shard_map(
            function,
            mesh=Mesh(np.array(used), ("lanes",)),
            in_specs=jax.tree.map(_split, padded),
            out_specs=jax.tree.map(_split, jax.eval_shape(function, *seen)),
            check_vma=False,
        )
        found = mapped(*padded)
        return jax.tree.map(lambda a: a[..., :lanes] if a.ndim and missing else a, found)

    return jax.jit(whole, compiler_options=compiler_options(used[0].platform))


def _longer(values: jax.Array, missing: int) -> jax.Array:
    """Copies of the last lane behind it."""
    if not missing:
        return values
    return jnp.concatenate([values, jnp.repeat(values[..., -1:], missing, axis=-1)], axis=-1)


def _split(leaf: Any) -> PartitionSpec:
    return PartitionSpec(*(None,) * (leaf.ndim - 1), "lanes") if leaf.ndim else PartitionSpec()
