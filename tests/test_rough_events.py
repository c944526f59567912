"""Derivatives through lift-offs, where a force like depth^1.5 ends: a ball that bounces on a Hertz spring.

Without damping it comes back to where it was let go, once in every P = 2 sqrt(2 h / g) + c, with c the time in contact.
That is an integral over the depth; so the height at any later moment, and its derivatives by the stiffness and by the
height h, are known without integrating in time.
"""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from quick import quick_jit
from scipy.integrate import quad
from scipy.optimize import brentq

from jaxcontact.integrate import hybrid
from jaxcontact.integrate.machine import RUNNING, Machine, simulate
from jaxcontact.integrate.settings import Settings

GRAVITY, UP, DOWN = 9.81, 0, 1
BOUNCES, UNTIL = 4, 2.55  # in the fifth flight, for the heights and stiffnesses below
HEIGHTS, STIFFNESSES = np.array([0.40, 0.41, 0.42, 0.43]), np.array([1e4, 2e4, 4e4, 8e4])  # m, N/m^1.5 per kg


def ball(smooth_beyond: bool) -> hybrid.HybridSystem:
    def flow(params, t, mode, y):
        depth = jnp.where(y[0] < 0, -y[0], 1.0)
        force = jnp.where((mode == DOWN) & (y[0] < 0), params["k"] * depth**1.5, 0.0)
        return jnp.stack([y[1], force - GRAVITY]), jnp.stack([-y[0], UNTIL - t + 0 * y[0]])

    return hybrid.HybridSystem(
        flow,
        guards=lambda params, mode, signals: jnp.stack([jnp.where(mode == DOWN, signals[0], -signals[0]), signals[1]]),
        transition=lambda params, t, mode, event, y, signals: (jnp.where(event == 0, 1 - mode, mode), y, event == 1),
        boundary=(True, True),
        smooth_beyond=smooth_beyond,
    )


@cache
def heights_and_slopes(smooth_beyond: bool):
    """Heights at the end, their derivatives by k and h, each times k or h: (2, ball), and machine steps."""
    system = ball(smooth_beyond)

    def run(params, rtol):
        settings = Settings(rtol=rtol, atol=1e-2 * rtol)

        def init(params):
            y = jnp.stack([params["h"], 0 * params["h"]])
            return hybrid.start(system, settings, params, 0.0, UP, y, jnp.full(y.shape[1:], RUNNING))

        def step(params, state):
            return hybrid.advance(system, settings, params, state)[0]

        machine = Machine(init, step, hybrid.done, lambda params, state: (state.y[0], state.steps))
        return simulate(machine, params)

    def along(params, rtol, share):
        tangent = {name: share[i] * value for i, (name, value) in enumerate(params.items())}
        return jax.jvp(lambda p: run(p, rtol)[0], (params,), (tangent,))[1]

    function = quick_jit(
        lambda params, rtol: (*run(params, rtol), jax.vmap(along, (None, None, 0))(params, rtol, jnp.eye(2)))
    )
    return lambda rtol: function({"h": jnp.asarray(HEIGHTS), "k": jnp.asarray(STIFFNESSES)}, rtol)


def contact_time(h: float, k: float) -> float:
    """Time in the ground: twice the integral of d depth / speed, with speed^2 = 2 g (h + depth) - 4/5 k depth^2.5."""

    def squared(depth):
        return 2 * GRAVITY * (h + depth) - 0.8 * k * depth**2.5

    deepest = brentq(squared, 0.0, 1.0, xtol=1e-16)

    def by_share(s):  # depth = deepest (1 - s^2) takes the singularity at the deepest point away
        depth = deepest * (1 - s * s)
        return 2 * deepest * s / np.sqrt(squared(depth)) if s > 0 else by_share(1e-7)

    return 2 * quad(by_share, 0.0, 1.0, epsabs=1e-14, epsrel=1e-13)[0]


def height_at_end(h: float, k: float) -> float:
    since_top = UNTIL - BOUNCES * (2 * np.sqrt(2 * h / GRAVITY) + contact_time(h, k))
    return h - 0.5 * GRAVITY * since_top**2


def central(h: float, k: float, by_h: float, by_k: float) -> float:
    """Half the change of the height between relative changes up and down."""
    after, before = (height_at_end(h * np.exp(way * by_h), k * np.exp(way * by_k)) for way in (1, -1))
    return 0.5 * (after - before)


@cache
def known():
    """Heights, and their derivatives by fourth-order differences of the quadrature: (2, ball)."""
    values, slopes = [], []
    for h, k in zip(HEIGHTS, STIFFNESSES, strict=True):
        values.append(height_at_end(h, k))
        ladder = [[central(h, k, e * a, e * b) / e for e in (1e-3, 2e-3)] for a, b in ((1, 0), (0, 1))]
        slopes.append([(4 * near - far) / 3 for near, far in ladder])
    return np.array(values), np.array(slopes).T


def errors(smooth_beyond: bool, rtol: float):
    height, steps, slope = heights_and_slopes(smooth_beyond)(rtol)
    values, slopes = known()
    return np.abs(height - values), np.abs(slope / slopes - 1), float(np.mean(steps))


def test_the_ball_is_in_its_fifth_flight_at_the_end():
    for h, k in zip(HEIGHTS, STIFFNESSES, strict=True):
        period = 2 * np.sqrt(2 * h / GRAVITY) + contact_time(h, k)
        assert abs(UNTIL - BOUNCES * period) < 0.9 * np.sqrt(2 * h / GRAVITY)


def test_heights_and_derivatives_are_those_of_the_quadrature():
    height, slope, _ = errors(smooth_beyond=False, rtol=1e-12)
    assert height.max() < 1e-9 and slope.max() < 1e-5


def test_shorter_strides_over_a_rough_event_pay():
    for rtol in (1e-7, 1e-11):
        _, rough, steps = errors(smooth_beyond=False, rtol=rtol)
        _, as_if_smooth, fewer_steps = errors(smooth_beyond=True, rtol=rtol)
        assert np.max(rough) < 0.05 * np.max(as_if_smooth)
        assert steps < 1.2 * fewer_steps
