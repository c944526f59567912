"""The right-hand side of the crutch impact for numba: one state, in scalars.

Translation is decoupled by coordinates of the centre of mass, so that the matrix to factor is 4 x 4. What each link has
one of is a tuple of four: the compiler takes it apart, and scalars in registers are left.
"""

import numpy as np
from numba import njit

from jaxcontact.bench.peers.chain import crutch_chain

FAST = {"fastmath": {"contract", "nsz", "arcp", "reassoc"}, "error_model": "numpy"}

# State: height of the centre of mass, angles; velocity of the centre of mass, rates.
SIZE = 11
HEIGHT, ANGLE, V_X, V_Y, RATE = 0, 1, 5, 6, 7
STICK = 0  # modes: 1 and -1 are the direction of sliding

# What is global is a constant to the compiler.
CHAIN = crutch_chain()
MASS, GRAVITY = float(CHAIN.mass), float(CHAIN.gravity)
CENTRE, TIP = tuple(CHAIN.centre.tolist()), tuple(CHAIN.tip.tolist())
DIAGONAL = tuple((np.diag(CHAIN.coupling) + CHAIN.inertia).tolist())
P01, P02, P03, P12, P13, P23 = CHAIN.coupling[np.triu_indices(4, 1)].tolist()


# ---------------------------------------------------------------- four links


@njit(**FAST)
def _four(y, first):
    return y[first], y[first + 1], y[first + 2], y[first + 3]


@njit(**FAST)
def _dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3]


@njit(**FAST)
def _times(a, b):
    return a[0] * b[0], a[1] * b[1], a[2] * b[2], a[3] * b[3]


@njit(**FAST)
def _plus(a, factor, b):
    """Return a + factor b."""
    return a[0] + factor * b[0], a[1] + factor * b[1], a[2] + factor * b[2], a[3] + factor * b[3]


@njit(**FAST)
def _directions(y):
    sines = np.sin(y[1]), np.sin(y[2]), np.sin(y[3]), np.sin(y[4])
    cosines = np.cos(y[1]), np.cos(y[2]), np.cos(y[3]), np.cos(y[4])
    return sines, cosines


@njit(**FAST)
def _factored(s, c):
    """The mass matrix of the angles as L D L^T: rows of L below its diagonal, then 1/D."""
    m10, m20, m30 = (
        P01 * (c[0] * c[1] + s[0] * s[1]),
        P02 * (c[0] * c[2] + s[0] * s[2]),
        P03 * (c[0] * c[3] + s[0] * s[3]),
    )
    m21, m31, m32 = (
        P12 * (c[1] * c[2] + s[1] * s[2]),
        P13 * (c[1] * c[3] + s[1] * s[3]),
        P23 * (c[2] * c[3] + s[2] * s[3]),
    )
    d0 = 1.0 / DIAGONAL[0]
    l10, l20, l30 = m10 * d0, m20 * d0, m30 * d0
    d1 = 1.0 / (DIAGONAL[1] - l10 * m10)
    r21, r31 = m21 - l20 * m10, m31 - l30 * m10
    l21, l31 = r21 * d1, r31 * d1
    d2 = 1.0 / (DIAGONAL[2] - l20 * m20 - l21 * r21)
    r32 = m32 - l30 * m20 - l31 * r21
    l32 = r32 * d2
    d3 = 1.0 / (DIAGONAL[3] - l30 * m30 - l31 * r31 - l32 * r32)
    return (l10, l20, l21, l30, l31, l32), (d0, d1, d2, d3)


@njit(**FAST)
def _solved(factors, right):
    (l10, l20, l21, l30, l31, l32), d = factors
    x0 = right[0]
    x1 = right[1] - l10 * x0
    x2 = right[2] - l20 * x0 - l21 * x1
    x3 = (right[3] - l30 * x0 - l31 * x1 - l32 * x2) * d[3]
    x2 = x2 * d[2] - l32 * x3
    x1 = x1 * d[1] - l21 * x2 - l31 * x3
    x0 = x0 * d[0] - l10 * x1 - l20 * x2 - l30 * x3
    return x0, x1, x2, x3


@njit(**FAST)
def _velocity_terms(s, c, w2):
    """Sum over j of coupling_kj sin(theta_k - theta_j) w_j^2; the sine changes its sign with the order."""
    e01, e02, e03 = (
        P01 * (s[0] * c[1] - c[0] * s[1]),
        P02 * (s[0] * c[2] - c[0] * s[2]),
        P03 * (s[0] * c[3] - c[0] * s[3]),
    )
    e12, e13, e23 = (
        P12 * (s[1] * c[2] - c[1] * s[2]),
        P13 * (s[1] * c[3] - c[1] * s[3]),
        P23 * (s[2] * c[3] - c[2] * s[3]),
    )
    return (
        e01 * w2[1] + e02 * w2[2] + e03 * w2[3],
        -e01 * w2[0] + e12 * w2[2] + e13 * w2[3],
        -e02 * w2[0] - e12 * w2[1] + e23 * w2[3],
        -e03 * w2[0] - e13 * w2[1] - e23 * w2[2],
    )


# ---------------------------------------------------------------- one state


@njit(**FAST)
def flow(y, mode, mu, k_n, chi, slope):
    """Fill the slope of a state, and return the normal and the tangential force (N)."""
    s, c = _directions(y)
    rates = _four(y, RATE)
    squares = _times(rates, rates)
    forward, up = _times(TIP, s), _times(TIP, c)
    depth = max(-(y[HEIGHT] + up[0] + up[1] + up[2] + up[3]), 0.0)
    v_n = y[V_Y] - _dot(forward, rates)
    F_n = max(depth * np.sqrt(depth) * (k_n - chi * v_n), 0.0)

    factors = _factored(s, c)
    loads = _plus(_velocity_terms(s, c, squares), F_n, forward)
    if mode != STICK:
        F_t = -mu * mode * F_n
        spin = _solved(factors, _plus((-loads[0], -loads[1], -loads[2], -loads[3]), F_t, up))
    else:  # the force that keeps the tip from accelerating
        free = _solved(factors, (-loads[0], -loads[1], -loads[2], -loads[3]))
        to_unit = _solved(factors, up)
        F_t = -(_dot(up, free) - _dot(forward, squares)) / (1.0 / MASS + _dot(up, to_unit))
        spin = _plus(free, F_t, to_unit)

    slope[HEIGHT] = y[V_Y]
    slope[V_X], slope[V_Y] = F_t / MASS, F_n / MASS - GRAVITY
    for k in range(4):
        slope[ANGLE + k] = rates[k]
        slope[RATE + k] = spin[k]
    return F_n, F_t


@njit(**FAST)
def tip_velocity(y):
    """Up and forward."""
    s, c = _directions(y)
    rates = _four(y, RATE)
    return y[V_Y] - _dot(_times(TIP, s), rates), y[V_X] + _dot(_times(TIP, c), rates)
