"""The crutch impact by scipy's `solve_ivp`: RK45 with events, restarted at each of them, in a pool of processes.

Workers import numpy and scipy, and nothing of JAX.
"""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from jaxcontact.bench.cases import Cases
from jaxcontact.bench.peers import Found, Solve
from jaxcontact.bench.peers.chain import Chain, crutch_chain, start

STICK = 0  # modes: 1 and -1 are the direction of sliding
LONGEST, FIRST_STEP = 1.0, 1e-4  # s; no impact takes a tenth of that


@contextmanager
def opened(workers: int) -> Iterator[Solve]:
    """Start the processes; they stay until the end, so that only the first call waits for them."""
    chain = crutch_chain()
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:

        def impacts(cases: Cases, rtol: float) -> Found:
            rows = case_rows(chain, cases)
            share = max(1, len(rows) // (8 * workers))  # small enough for all to end at about the same time
            found = pool.map(partial(impact, chain, rtol=rtol), rows, chunksize=share)
            return Found(*np.array(list(found)).T)

        yield impacts


def case_rows(chain: Chain, cases: Cases) -> np.ndarray:
    """What `impact` takes, a row for each configuration: angles, rates, friction, stiffness, damping."""
    angles, rates = start(chain, cases.q3, cases.dq5)
    return np.stack([*angles, *rates, cases.mu, cases.k_n, cases.chi], axis=1)


def impact(chain: Chain, row: np.ndarray, rtol: float, method: str = "RK45") -> tuple[float, float, float]:
    """Normal and tangential impulse and duration of one impact."""
    angles, rates, (mu, k_n, chi) = row[:4], row[4:8], row[8:]
    v_x, v_y = chain.centre * np.cos(angles) @ rates, -(chain.centre * np.sin(angles)) @ rates
    y = np.concatenate([[chain.centre @ np.cos(angles)], angles, [v_x, v_y], rates])
    contact = partial(_contact, chain, mu, k_n, chi)

    def flow(t, y, mode):
        F_n, F_t, spin, *_ = contact(y, mode)
        return np.concatenate([y[6:], [F_t / chain.mass, F_n / chain.mass - chain.gravity], spin])

    def ends(t, y, mode):
        return _tip_velocity(chain, y)[0]

    def leaves(t, y, mode):
        if mode != STICK:
            return mode * _tip_velocity(chain, y)[1]
        F_n, F_t, _ = contact(y, STICK)
        return mu * F_n - abs(F_t)

    events = _ending(ends, upwards=True), _ending(leaves, upwards=False)
    t, mode = 0.0, int(np.sign(_tip_velocity(chain, y)[1]))
    while True:
        piece = solve_ivp(
            flow,
            (t, LONGEST),
            y,
            method,
            events=events,
            args=(mode,),
            rtol=rtol,
            atol=1e-2 * rtol,
            first_step=FIRST_STEP,
        )
        t, y = float(piece.t[-1]), piece.y[:, -1]
        if t >= LONGEST:
            return np.nan, np.nan, np.nan
        if piece.t_events[0].size:
            break
        F_n, F_hold, _ = contact(y, STICK)
        mode = STICK if mode != STICK and abs(F_hold) <= mu * F_n else -int(np.sign(F_hold))
    return chain.mass * (y[6] - v_y + chain.gravity * t), chain.mass * (y[5] - v_x), t


def _ending(event: Any, upwards: bool) -> Any:
    """Let a function end the solve where it crosses zero that way."""
    event.terminal, event.direction = True, 1 if upwards else -1
    return event


def _tip_velocity(chain: Chain, y: np.ndarray) -> tuple[float, float]:
    """Up and forward."""
    angles, rates = y[1:5], y[7:]
    return y[6] - (chain.tip * np.sin(angles)) @ rates, y[5] + (chain.tip * np.cos(angles)) @ rates


def _contact(chain: Chain, mu, k_n, chi, y: np.ndarray, mode: int):
    """Normal and tangential force (N), and the angular accelerations."""
    angles, rates = y[1:5], y[7:]
    forward, up = chain.tip * np.sin(angles), chain.tip * np.cos(angles)
    depth = max(-(y[0] + up.sum()), 0.0)
    v_n = y[6] - forward @ rates
    F_n = max(depth**1.5 * (k_n - chi * v_n), 0.0)
    apart = angles[:, None] - angles
    squares = rates**2
    matrix = chain.coupling * np.cos(apart)
    matrix[_DIAGONAL] += chain.inertia
    loads = -F_n * forward - (chain.coupling * np.sin(apart)) @ squares
    if mode != STICK:
        F_t = -mu * mode * F_n
        return F_n, F_t, np.linalg.solve(matrix, loads + F_t * up)
    free, to_unit = np.linalg.solve(matrix, np.stack([loads, up], axis=1)).T
    F_t = -(up @ free - forward @ squares) / (1.0 / chain.mass + up @ to_unit)
    return F_n, F_t, free + F_t * to_unit


_DIAGONAL = np.diag_indices(4)
