"""Which elements are down, as the mode of a lane: bit i of a whole number says whether element i is in the ground.

Each element has a guard that turns negative when it touches down or lifts off, so that forces which jump there have an
event of their own, and what comes after it has exact derivatives.
"""

import jax.numpy as jnp

from jaxcontact.errors import InputError

MOST_ELEMENTS = 31  # bits of the mode


def check_count(count: int) -> int:
    """Refuse more elements than the mode has bits."""
    if count > MOST_ELEMENTS:
        raise InputError(f"a layout of {count} elements\nallowed in a simulation of motion: at most {MOST_ELEMENTS}")
    return count


def down(mode, first: int, count: int):
    """Whether elements first ... first + count - 1 are down: (element, *lanes)."""
    bits = jnp.arange(first, first + count).reshape(-1, *(1,) * jnp.ndim(mode))
    return (mode >> bits) & 1 == 1


def start_mode(depths):
    """The mode in which the elements that are in the ground are down; `depths` (element, *lanes) in m."""
    weights = (1 << jnp.arange(depths.shape[0])).reshape(-1, *(1,) * (depths.ndim - 1))
    return jnp.sum(jnp.where(depths > 0, weights, 0), axis=0).astype(jnp.int32)


def guards(mode, depths):
    """Positive as long as each element stays as it is, down or up: (element, ...)."""
    is_down = (mode >> jnp.arange(depths.shape[0]).reshape(-1, *(1,) * (depths.ndim - 1))) & 1 == 1
    return jnp.where(is_down, depths, -depths)


def flipped(mode, event, count: int):
    """The mode after element number `event` touched down or lifted off; the same if there is no such element."""
    change = (1 << jnp.minimum(event, count - 1)).astype(mode.dtype)
    return jnp.where(event < count, mode ^ change, mode)
