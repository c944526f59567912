"""A second derivation of the crutch impact: numpy, joint by joint, integrated by scipy in segments restarted by hand.

It shares nothing with the library but the laws on paper: the mass matrix comes from the Jacobians of the four centres
of mass with the foot as base, not from centre-of-mass tables, and impulses and work are integrated as states.
"""

import numpy as np
from scipy.integrate import solve_ivp

MASS = np.array([22.54, 40.46, 3.92, 4.28])
INERTIA = np.array([2.07, 2.66, 0.044, 0.433])
LENGTH = np.array([0.93, 0.51, 0.33, 1.25])
CENTRE = np.array([0.93 - 0.42, 0.34, 0.14, 0.33])
K_N = 4 / 3 * np.sqrt(0.05) / (0.75 / 0.1e9 + 0.96 / 30e9)
CHI = 1e7
GRAVITY = 9.81


def chain(levers, angles, rates):
    """Jacobian (2 x 6, rows x and y) and velocity-made acceleration of a point levers[k] along each link."""
    jacobian = np.zeros((2, 6))
    jacobian[0, 0] = jacobian[1, 1] = 1
    jacobian[0, 2:], jacobian[1, 2:] = levers * np.cos(angles), -levers * np.sin(angles)
    swirl = -np.array([np.sum(levers * np.sin(angles) * rates**2), np.sum(levers * np.cos(angles) * rates**2)])
    return jacobian, swirl


def mechanics(q, dq):
    """Mass matrix, right-hand side without contact, Jacobian of the tip and its velocity-made acceleration."""
    angles, rates = q[2:], dq[2:]
    matrix, right = np.zeros((6, 6)), np.zeros(6)
    for i in range(4):
        levers = np.where(np.arange(4) < i, LENGTH, np.where(np.arange(4) == i, CENTRE, 0.0))
        jacobian, swirl = chain(levers, angles, rates)
        matrix += MASS[i] * jacobian.T @ jacobian
        matrix[2 + i, 2 + i] += INERTIA[i]
        right += jacobian.T @ (MASS[i] * (np.array([0, -GRAVITY]) - swirl))
    return matrix, right, *chain(LENGTH, angles, rates)


def contact(y, mode, mu, k_n, chi):
    """Accelerations and what the events need: (ddq, F_n, F_t, F_stick, v_n, v_t)."""
    q, dq = y[:6], y[6:12]
    matrix, right, tip, swirl = mechanics(q, dq)
    height = q[1] + np.sum(LENGTH * np.cos(q[2:]))
    v_t, v_n = tip @ dq
    F_n = max(max(-height, 0.0) ** 1.5 * (k_n - chi * v_n), 0.0)
    free = np.linalg.solve(matrix, right + tip[1] * F_n)
    gain = tip[0] @ np.linalg.solve(matrix, tip[0])
    F_stick = -(tip[0] @ free + swirl[0]) / gain
    F_t = F_stick if mode == 0 else -mu * mode * F_n
    return free + np.linalg.solve(matrix, tip[0] * F_t), F_n, F_t, F_stick, v_n, v_t


def crutch_impact(q3, dq5, mu, k_n=K_N, chi=CHI, rtol=1e-11):
    """Outcomes of one impact; angles in radians."""
    angles = np.cumsum([q3, np.radians(10), np.radians(150)])
    angles = np.append(angles, np.arccos(-np.sum(LENGTH[:3] * np.cos(angles)) / LENGTH[3]))
    y = np.concatenate([[0, 0], angles, [0, 0], np.cumsum([1.0, 0.0, dq5, 0.0]), np.zeros(4)])
    v_t = contact(y, 1, mu, k_n, chi)[5]
    mode, t, modes = int(np.sign(v_t)), 0.0, []

    def flow(t, y, mode):
        ddq, F_n, F_t, _, v_n, v_t = contact(y, mode, mu, k_n, chi)
        return np.concatenate([y[6:12], ddq, [F_n, F_t, F_n * v_n, F_t * v_t]])

    def ends(t, y, mode):
        return contact(y, mode, mu, k_n, chi)[4]

    def leaves(t, y, mode):
        _, F_n, _, F_stick, _, v_t = contact(y, mode, mu, k_n, chi)
        return mu * F_n - abs(F_stick) + 1e-9 if mode == 0 else mode * v_t

    ends.terminal = leaves.terminal = True
    ends.direction, leaves.direction = 1, -1
    while True:
        modes.append(mode)
        piece = solve_ivp(
            flow, (t, t + 0.1), y, args=(mode,), events=(ends, leaves), rtol=rtol, atol=1e-13, method="DOP853",
            first_step=1e-7,
        )  # fmt: skip
        y, t = piece.y[:, -1], piece.t[-1]
        if piece.t_events[0].size:
            break
        _, F_n, _, F_stick, *_ = contact(y, 0, mu, k_n, chi)
        mode = 0 if abs(F_stick) <= mu * F_n else -int(np.sign(F_stick))
    tip = mechanics(y[:6], y[6:12])[2]
    names = ("P_n", "P_t", "W_n", "W_t")
    return dict(zip(names, y[12:], strict=True)) | {
        "t_end": t, "v_n_foot": y[7], "v_t_tip": tip[0] @ y[6:12], "modes": modes
    }  # fmt: skip
