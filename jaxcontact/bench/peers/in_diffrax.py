"""The crutch impact by diffrax: segments restarted by hand at each change between sliding and sticking, under vmap.

An `Event` ends a solve, and does not change what is solved: so a segment is a solve of its own, and a scan strings
four of them together, which suffices for all configurations here. A lane whose impact is over solves nothing in the
segments that are left. A vmapped solve steps until its slowest lane is done, so that small batches are faster.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import optimistix
from jax.sharding import Mesh, PartitionSpec

from jaxcontact.bench.cases import Cases
from jaxcontact.bench.peers import Found, Solve
from jaxcontact.bench.peers.chain import crutch_chain, start

SEGMENTS = 4
STICK = 0.0  # modes: 1 and -1 are the direction of sliding
LONGEST, FIRST_STEP = 0.1, 1e-4  # s
# After an event, the step must not be so long that the next one is in it too: a guard that starts at zero is not seen.
RESTARTED = 1e-6  # s

CHAIN = crutch_chain()


class Impact(NamedTuple):
    """One configuration: angles and rates at touch-down, (4,), and the numbers of the contact laws."""

    angles: Any
    rates: Any
    mu: Any
    k_n: Any
    chi: Any


@contextmanager
def opened(workers: int, batch: int | None = None) -> Iterator[Solve]:
    """Use so many devices; the first call compiles. Without `batch`, a device's impacts are all solved together."""
    devices = jax.local_devices()[:workers]
    split, shared = PartitionSpec("device"), PartitionSpec()
    solve = jax.jit(
        jax.shard_map(
            jax.vmap(solve_impact, (0, None)),
            mesh=Mesh(np.array(devices), ("device",)),
            in_specs=(split, shared),
            out_specs=split,
            check_vma=False,
        )
    )

    def impacts(cases: Cases, rtol: float) -> Found:
        angles, rates = start(CHAIN, cases.q3, cases.dq5)
        whole = Impact(angles.T, rates.T, cases.mu, cases.k_n, cases.chi)
        count = len(cases.mu)
        size = (batch or -(-count // len(devices))) * len(devices)
        found = []
        for first in range(0, count, size):  # nothing waits here: calls are queued
            places = np.minimum(np.arange(first, first + size), count - 1)  # the last batch is filled up
            found.append(solve(Impact(*(values[places] for values in whole)), rtol))
        return Found(*(np.concatenate(parts)[:count] for parts in zip(*jax.device_get(found), strict=True)))

    yield impacts


def solve_impact(impact: Impact, rtol) -> tuple[jax.Array, ...]:
    """Normal and tangential impulse and duration of one impact."""
    levers = CHAIN.centre * jnp.cos(impact.angles), CHAIN.centre * jnp.sin(impact.angles)
    v_x, v_y = levers[0] @ impact.rates, -levers[1] @ impact.rates
    y = jnp.concatenate([jnp.sum(levers[0])[None], impact.angles, jnp.stack([v_x, v_y]), impact.rates])
    mode = jnp.sign(_contact(impact, 1.0, y).v_t)
    first_steps = jnp.array([FIRST_STEP] + [RESTARTED] * (SEGMENTS - 1))
    begin = jnp.zeros(()), y, mode, jnp.zeros((), bool)
    (t, y, _, over), _ = jax.lax.scan(partial(_segment, impact, rtol), begin, first_steps)
    found = CHAIN.mass * (y[6] - v_y + CHAIN.gravity * t), CHAIN.mass * (y[5] - v_x), t
    return tuple(jnp.where(over, value, jnp.nan) for value in found)


def _segment(impact: Impact, rtol, begin, first_step):
    """Solve until the mode or the impact ends; nothing, if the impact is over."""
    t, y, mode, over = begin
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, args: _flow(impact, mode, y)),
        diffrax.Tsit5(),
        t,
        jnp.where(over, t, t + LONGEST),
        first_step,
        y,
        stepsize_controller=diffrax.PIDController(rtol, 1e-2 * rtol, pcoeff=0.3, icoeff=0.4),
        # One condition for both ends: of two that are met in one step, diffrax takes the first of its list, and not the
        # earlier one. Their minimum has a kink, at which Newton's method may get lost; bisection does not.
        event=diffrax.Event(
            lambda t, y, args, **_: jnp.minimum(*_guards(impact, mode, y)),
            optimistix.Bisection(1e-10, 1e-12, flip=True),
            direction=False,
        ),
        saveat=diffrax.SaveAt(t1=True),
        max_steps=None,
        throw=False,
    )
    assert solution.ts is not None and solution.ys is not None
    t, y = jnp.where(over, t, solution.ts[-1]), jnp.where(over, y, solution.ys[-1])
    still_in, in_mode = _guards(impact, mode, y)
    at_rest = _contact(impact, STICK, y)
    holds = (mode != STICK) & (jnp.abs(at_rest.F_t) <= impact.mu * at_rest.F_n)
    ends = still_in < in_mode
    mode = jnp.where(over | ends, mode, jnp.where(holds, STICK, -jnp.sign(at_rest.F_t)))
    return (t, y, mode, over | (ends & (solution.result == diffrax.RESULTS.event_occurred))), None


class _Contact(NamedTuple):
    F_n: jax.Array
    F_t: jax.Array
    v_n: jax.Array
    v_t: jax.Array
    spin: jax.Array


def _flow(impact: Impact, mode, y):
    now = _contact(impact, mode, y)
    a_centre = jnp.stack([now.F_t / CHAIN.mass, now.F_n / CHAIN.mass - CHAIN.gravity])
    return jnp.concatenate([y[6:], a_centre, now.spin])


def _guards(impact: Impact, mode, y):
    """What is positive as long as compression lasts, and as long as the mode does."""
    now = _contact(impact, mode, y)
    margin = 1.0 - jnp.abs(now.F_t) / (impact.mu * now.F_n + 1e-3)
    return -now.v_n, jnp.where(mode == STICK, margin, mode * now.v_t)


def _contact(impact: Impact, mode, y) -> _Contact:
    """Forces, velocities of the tip and angular accelerations. y: height, angles, velocities and rates."""
    angles, rates = y[1:5], y[7:]
    forward, up = CHAIN.tip * jnp.sin(angles), CHAIN.tip * jnp.cos(angles)
    depth = jnp.maximum(-(y[0] + jnp.sum(up)), 0.0)
    v_n, v_t = y[6] - forward @ rates, y[5] + up @ rates
    F_n = jnp.maximum(depth * jnp.sqrt(depth) * (impact.k_n - impact.chi * v_n), 0.0)
    apart = angles[:, None] - angles
    matrix = CHAIN.coupling * jnp.cos(apart) + jnp.diag(CHAIN.inertia)
    loads = -F_n * forward - (CHAIN.coupling * jnp.sin(apart)) @ rates**2
    free, to_unit = _solved(matrix, loads, up)
    F_hold = -(up @ free - forward @ rates**2) / (1.0 / CHAIN.mass + up @ to_unit)
    F_t = jnp.where(mode == STICK, F_hold, -impact.mu * mode * F_n)
    return _Contact(F_n, F_t, v_n, v_t, free + F_t * to_unit)


def _solved(matrix, *rights):
    """Solve a small symmetric system by L D L^T, written out: with `jnp.linalg.solve` all takes an eighth longer."""
    n = len(matrix)
    below: list[list[Any]] = [[None] * n for _ in range(n)]
    diagonal: list[Any] = [None] * n
    for j in range(n):
        diagonal[j] = matrix[j, j] - sum(below[j][k] ** 2 * diagonal[k] for k in range(j))
        for i in range(j + 1, n):
            rest = matrix[i, j] - sum(below[i][k] * below[j][k] * diagonal[k] for k in range(j))
            below[i][j] = rest / diagonal[j]
    solutions = []
    for right in rights:
        x = list(right)
        for i in range(n):
            x[i] = x[i] - sum(below[i][k] * x[k] for k in range(i))
        x = [value / scale for value, scale in zip(x, diagonal, strict=True)]
        for i in reversed(range(n)):
            x[i] = x[i] - sum(below[k][i] * x[k] for k in range(i + 1, n))
        solutions.append(jnp.stack(x))
    return solutions
