"""A planar mechanism put on the ground: pressed in by a given load, turning about its lowest element without slip."""

import jax
import jax.numpy as jnp

from jaxcontact.bodies import linkage
from jaxcontact.models import sagittal, sole
from jaxcontact.models.strike import lanes
from jaxcontact.safemath import divide

_DEEPEST = 0.1  # m: how deep the lowest element may have to be


def standing(mechanism: sagittal.Mechanism, load) -> sagittal.Mechanism:
    """The same mechanism, which nothing holds, with such a height and velocity of its base that it stands.

    At rest it would press on the ground with `load` (N), and the contact point of its lowest element has no velocity.
    Posture, rates and the base's x stay as they are. With load 0 it just touches.
    """
    # Posture and rates, seen with the centre of mass held at the origin.
    nothing = jnp.zeros(lanes(load, mechanism.laws, mechanism.angles, mechanism.rates))
    rows = [nothing, nothing, *mechanism.angles, nothing, nothing, *mechanism.rates, *(nothing for _ in sagittal.WORKS)]
    seen = sagittal.see(mechanism, linkage.stack(rows))
    touches = [each.touch for each in seen.contacts]
    gaps = jnp.concatenate([touch.gap for touch in touches])
    lowest = jnp.argmin(gaps, axis=0) == jnp.arange(len(gaps)).reshape(-1, *(1,) * (gaps.ndim - 1))
    slip, rise = (
        jnp.sum(jnp.where(lowest, jnp.concatenate(speeds), 0.0), axis=0)
        for speeds in ([touch.v_t[0] for touch in touches], [touch.v_n for touch in touches])
    )

    def excess(depth):
        """Normal force at rest, above the load, with the lowest element at that depth (m)."""
        total, first = -load, 0
        for each in mechanism.soles:
            elements = each.elements.over(gaps.ndim - 1)
            depths = depth + jnp.min(gaps, axis=0) - gaps[first : first + elements.x.shape[0]]
            law = sole.NORMAL_LAWS[mechanism.choices["normal"]]
            total = total + jnp.sum(law(mechanism.laws, elements, depths, jnp.zeros_like(depths)), axis=0)
            first += elements.x.shape[0]
        return total

    depth = _zero_of(excess, nothing, _DEEPEST)
    return mechanism._replace(
        start=(mechanism.start[0], seen.base[1] - jnp.min(gaps, axis=0) - depth),
        start_velocity=(seen.base_velocity[0] - slip, seen.base_velocity[1] - rise),
    )


def _zero_of(rising, low, most):
    """Where a function that rises with a lane-wide number is zero, between `low` and low + most.

    Bisection for the value, a Newton step for the last digits and the derivative; without slope there is no step.
    """

    def halve(_, bracket):
        low, high = bracket
        middle = 0.5 * (low + high)
        below = rising(middle) < 0
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    low, _ = jax.lax.fori_loop(0, 50, halve, (low, low + most))
    x = jax.lax.stop_gradient(low)
    value, slope = jax.jvp(rising, (x,), (jnp.ones_like(x),))
    return x - divide(value, jax.lax.stop_gradient(slope))
