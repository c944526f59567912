"""Leaves of a tree put together by shape and number type: what costs a kernel for each leaf then costs a few in all.

The two dozen outcomes of a crutch were two dozen arrays to be written to at each refill of the lanes, a fourth of its
time.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp


def groups_of(tree: Any) -> list[list[int]]:
    """Which leaves, all with an axis over the lanes last, belong together."""
    groups: dict[Any, list[int]] = {}
    for place, leaf in enumerate(jax.tree.leaves(tree)):
        groups.setdefault((leaf.shape[:-1], jnp.dtype(leaf.dtype)), []).append(place)
    return list(groups.values())


def together(tree: Any, stack: Callable[[list[Any]], Any] = jnp.stack) -> list[Any]:
    """The leaves in one array for each group, an axis over its leaves first."""
    leaves = jax.tree.leaves(tree)
    return [stack([leaves[place] for place in group]) for group in groups_of(tree)]


def apart(tree: Any, arrays: Sequence[Any]) -> list[Any]:
    """The leaves again, of a tree like this one."""
    leaves = dict[int, Any]()
    for group, array in zip(groups_of(tree), arrays, strict=True):
        leaves |= {place: array[k] for k, place in enumerate(group)}
    return [leaves[place] for place in range(len(leaves))]


def rooms_for(tree: Any, rooms: int) -> list[jax.ShapeDtypeStruct]:
    """The shapes that leaves put together have, with so much room along their last axis."""

    def room(leaves: list[Any]) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((len(leaves), *leaves[0].shape[:-1], rooms), leaves[0].dtype)

    return together(tree, room)
