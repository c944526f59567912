"""The crutch impact in compiled scalar code: numba on all cores, what the hardware does with one impact at a time.

Dormand-Prince 5(4) with dense output, on which events are located: an event costs no steps. Impulses come from the
momentum balance, and each impact runs to its own end.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numba
import numpy as np
from numba import njit, prange

from jaxcontact.bench.cases import Cases
from jaxcontact.bench.peers import Found, Solve
from jaxcontact.bench.peers.chain import start
from jaxcontact.bench.peers.numba_flow import (
    ANGLE,
    CENTRE,
    CHAIN,
    FAST,
    GRAVITY,
    HEIGHT,
    MASS,
    RATE,
    SIZE,
    STICK,
    V_X,
    V_Y,
    flow,
    tip_velocity,
)

END, STOP, LET_GO = 0, 1, 2  # events: of the impact, of sliding, of sticking
FIRST_STEP, MOST_STEPS = 1e-4, 2000
TOGETHER = 32  # impacts that a thread takes at a time, in one workspace


@contextmanager
def opened(workers: int) -> Iterator[Solve]:
    """Use so many threads; the first call compiles."""
    before = numba.get_num_threads()
    numba.set_num_threads(min(workers, before))

    def impacts(cases: Cases, rtol: float) -> Found:
        angles, rates = (np.ascontiguousarray(of.T) for of in start(CHAIN, cases.q3, cases.dq5))
        return Found(*_impacts(angles, rates, cases.mu, cases.k_n, cases.chi, rtol, 1e-2 * rtol).T)

    try:
        yield impacts
    finally:
        numba.set_num_threads(before)


# ---------------------------------------------------------------- one step


@njit(**FAST)
def _step(y, k, h, mode, mu, k_n, chi, new, inner):
    """Fill the slopes k[1] ... k[6] and the new state; return the forces there. k[0] is given, k[6] the next k[0]."""
    for i in range(SIZE):
        inner[i] = y[i] + h * (1 / 5 * k[0, i])
    flow(inner, mode, mu, k_n, chi, k[1])
    for i in range(SIZE):
        inner[i] = y[i] + h * (3 / 40 * k[0, i] + 9 / 40 * k[1, i])
    flow(inner, mode, mu, k_n, chi, k[2])
    for i in range(SIZE):
        inner[i] = y[i] + h * (44 / 45 * k[0, i] - 56 / 15 * k[1, i] + 32 / 9 * k[2, i])
    flow(inner, mode, mu, k_n, chi, k[3])
    for i in range(SIZE):
        inner[i] = y[i] + h * (
            19372 / 6561 * k[0, i] - 25360 / 2187 * k[1, i] + 64448 / 6561 * k[2, i] - 212 / 729 * k[3, i]
        )
    flow(inner, mode, mu, k_n, chi, k[4])
    for i in range(SIZE):
        inner[i] = y[i] + h * (
            9017 / 3168 * k[0, i]
            - 355 / 33 * k[1, i]
            + 46732 / 5247 * k[2, i]
            + 49 / 176 * k[3, i]
            - 5103 / 18656 * k[4, i]
        )
    flow(inner, mode, mu, k_n, chi, k[5])
    for i in range(SIZE):
        new[i] = y[i] + h * (
            35 / 384 * k[0, i] + 500 / 1113 * k[2, i] + 125 / 192 * k[3, i] - 2187 / 6784 * k[4, i] + 11 / 84 * k[5, i]
        )
    return flow(new, mode, mu, k_n, chi, k[6])


@njit(**FAST)
def _error(y, new, k, h, rtol, atol):
    """Root-mean-square local error over the tolerance."""
    total = 0.0
    for i in range(SIZE):
        error = h * (
            71 / 57600 * k[0, i]
            - 71 / 16695 * k[2, i]
            + 71 / 1920 * k[3, i]
            - 17253 / 339200 * k[4, i]
            + 22 / 525 * k[5, i]
            - 1 / 40 * k[6, i]
        )
        total += (error / (atol + rtol * max(abs(y[i]), abs(new[i])))) ** 2
    return np.sqrt(total / SIZE)


@njit(**FAST)
def _inside(y, new, k, h, part, inner):
    """Fill the state at a part of the step: Shampine's dense output of order 4."""
    rest = 1.0 - part
    for i in range(SIZE):
        whole = new[i] - y[i]
        bend = h * k[0, i] - whole
        twist = whole - h * k[6, i] - bend
        last = h * (
            -12715105075 / 11282082432 * k[0, i]
            + 87487479700 / 32700410799 * k[2, i]
            - 10690763975 / 1880347072 * k[3, i]
            + 701980252875 / 199316789632 * k[4, i]
            - 1453857185 / 822651844 * k[5, i]
            + 69997945 / 29380423 * k[6, i]
        )
        inner[i] = y[i] + part * (whole + rest * (bend + part * (twist + rest * last)))


# ---------------------------------------------------------------- events


@njit(**FAST)
def _guard(event, y, mode, mu, k_n, chi, slope):
    """What turns positive at an event."""
    if event == LET_GO:
        F_n, F_t = flow(y, STICK, mu, k_n, chi, slope)
        return abs(F_t) - mu * F_n
    v_n, v_t = tip_velocity(y)
    return v_n if event == END else -v_t * mode


@njit(**FAST)
def _located(event, y, new, k, h, mode, mu, k_n, chi, before, after, inner, slope):
    """Which part of the step comes before an event: regula falsi (Illinois) on the dense output."""
    low, high, side, part = 0.0, 1.0, 0, 1.0
    if before > -1e-12:  # the step begins on the guard: find where it has left it
        before, part = -1e-300, 0.5
        for _ in range(12):
            _inside(y, new, k, h, part, inner)
            value = _guard(event, inner, mode, mu, k_n, chi, slope)
            if value < 0:
                low, before = part, value
                break
            part *= 0.5
    for turn in range(60):
        part = high - after * (high - low) / (after - before) if turn <= 12 else 0.5 * (low + high)
        _inside(y, new, k, h, part, inner)
        value = _guard(event, inner, mode, mu, k_n, chi, slope)
        if value > 0:
            high, after = part, value
            before = 0.5 * before if side == 1 else before
            side = 1
        else:
            low, before = part, value
            after = 0.5 * after if side == -1 else after
            side = -1
        if high - low < 1e-13 or abs(value) < 1e-14:
            break
    return part


# ---------------------------------------------------------------- one impact, and many


@njit(**FAST)
def _impact(angles, rates, mu, k_n, chi, rtol, atol, work, found):
    """Fill P_n, P_t, t_end of one impact; NaN if it does not end."""
    y, new, inner, slope, k = work[0], work[1], work[2], work[3], work[4:11]
    y[HEIGHT] = y[V_X] = y[V_Y] = 0.0
    for j in range(4):
        sine, cosine = np.sin(angles[j]), np.cos(angles[j])
        y[HEIGHT] += CENTRE[j] * cosine
        y[V_X] += CENTRE[j] * cosine * rates[j]
        y[V_Y] -= CENTRE[j] * sine * rates[j]
        y[ANGLE + j], y[RATE + j] = angles[j], rates[j]
    v_x, v_y = y[V_X], y[V_Y]
    v_n, v_t = tip_velocity(y)
    mode = STICK if abs(v_t) <= 1e-12 else (1 if v_t > 0 else -1)
    flow(y, mode, mu, k_n, chi, k[0])
    t, h = 0.0, FIRST_STEP
    leaving = -v_t * mode if mode != STICK else -1.0  # the guard of the mode

    found[:] = np.nan
    for _ in range(MOST_STEPS):
        F_n, F_t = _step(y, k, h, mode, mu, k_n, chi, new, inner)
        error = _error(y, new, k, h, rtol, atol)
        factor = min(5.0, max(0.2, 0.9 * max(error, 1e-10) ** -0.2))
        if not error <= 1.0:
            h *= factor
            continue

        new_v_n, v_t = tip_velocity(new)
        new_leaving = -v_t * mode if mode != STICK else abs(F_t) - mu * F_n
        if new_v_n <= 0 and new_leaving <= 0:
            for i in range(SIZE):
                y[i], k[0, i] = new[i], k[6, i]
            t, v_n, leaving, h = t + h, new_v_n, new_leaving, h * factor
            continue

        # The earlier of the two events, and what follows it.
        event, part = END, 2.0
        if new_v_n > 0:
            part = _located(END, y, new, k, h, mode, mu, k_n, chi, v_n, new_v_n, inner, slope)
        if new_leaving > 0:
            other = STOP if mode != STICK else LET_GO
            at = _located(other, y, new, k, h, mode, mu, k_n, chi, leaving, new_leaving, inner, slope)
            if at < part:
                event, part = other, at
        _inside(y, new, k, h, part, inner)
        t += part * h
        for i in range(SIZE):
            y[i] = inner[i]
        if event == END:
            found[0], found[1], found[2] = MASS * (y[V_Y] - v_y + GRAVITY * t), MASS * (y[V_X] - v_x), t
            break
        F_n, F_hold = flow(y, STICK, mu, k_n, chi, k[0])
        v_n, _ = tip_velocity(y)
        leaving = abs(F_hold) - mu * F_n
        if event == STOP and leaving <= 0:
            mode = STICK
        else:
            mode, leaving = -1 if F_hold > 0 else 1, -1e-30
            flow(y, mode, mu, k_n, chi, k[0])


@njit(parallel=True, **FAST)
def _impacts(angles, rates, mu, k_n, chi, rtol, atol):
    count = len(mu)
    found = np.empty((count, 3))
    for batch in prange((count + TOGETHER - 1) // TOGETHER):
        work = np.empty((11, SIZE))
        for i in range(batch * TOGETHER, min(count, (batch + 1) * TOGETHER)):
            _impact(angles[i], rates[i], mu[i], k_n[i], chi[i], rtol, atol, work, found[i])
    return found
