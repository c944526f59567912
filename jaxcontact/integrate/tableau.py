"""Runge-Kutta methods as tables, with their dense output.

All methods here end by evaluating the flow at the new state, and use that value as the first stage of the next step.
Inside a step

    y(theta) = y0 + h sum_j w_j(theta) k_j,     w_j(theta) = sum_p dense[j][p] theta^(p + 1),    0 <= theta <= 1

so stages, steps, dense output and event location are all one operation: the start plus h times a weighted sum of
slopes.
"""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True)
class Tableau:
    """One method. `stages[i]` makes stage i + 2 from the slopes before it; the last slope is at the new state."""

    name: str
    order: int
    stages: np.ndarray  # (s - 1, s + 1): weights of the inner stages; s slopes, plus the one at the new state
    times: np.ndarray  # (s - 1,): where in the step each inner stage lies
    weights: np.ndarray  # (s + 1,): the step itself
    dense: np.ndarray  # (s + 1, p): coefficients of theta, theta^2, ...
    error: np.ndarray | None = None  # (s + 1,): the step minus its embedded partner; None: fixed steps
    kick_drift: bool = False  # positions move with the new velocity (semi-implicit Euler)

    @property
    def slopes(self) -> int:
        """Number of slopes that a step uses, with the one at its end."""
        return len(self.weights)

    @property
    def matrix(self) -> np.ndarray:
        """A, of all slopes: (slopes, slopes). The first is at the start; the last is where the step itself leads."""
        return np.concatenate([np.zeros_like(self.weights)[None], self.stages, self.weights[None]])


def _hermite(weights: np.ndarray) -> np.ndarray:
    """Cubic through both ends of the step with their slopes: third-order dense output for any method."""
    dense = np.outer(np.append(weights, 0.0), [0.0, 3.0, -2.0])
    dense[0] += [1.0, -2.0, 1.0]
    dense[-1] += [0.0, -1.0, 1.0]
    return dense


def _pad(rows: list[list[float]], width: int) -> np.ndarray:
    return np.array([row + [0.0] * (width - len(row)) for row in rows]).reshape(len(rows), width)


# Dormand and Prince (1980), 5(4); dense output of order 4 by Shampine (1986).
DOPRI5 = Tableau(
    name="dopri5",
    order=5,
    stages=_pad(
        [
            [1 / 5],
            [3 / 40, 9 / 40],
            [44 / 45, -56 / 15, 32 / 9],
            [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
            [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
        ],
        7,
    ),
    times=np.array([1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0]),
    weights=np.array([35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0]),
    error=np.array([71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40]),
    dense=np.array(
        [
            [1, -8048581381 / 2820520608, 8663915743 / 2820520608, -12715105075 / 11282082432],
            [0, 0, 0, 0],
            [0, 131558114200 / 32700410799, -68118460800 / 10900136933, 87487479700 / 32700410799],
            [0, -1754552775 / 470086768, 14199869525 / 1410260304, -10690763975 / 1880347072],
            [0, 127303824393 / 49829197408, -318862633887 / 49829197408, 701980252875 / 199316789632],
            [0, -282668133 / 205662961, 2019193451 / 616988883, -1453857185 / 822651844],
            [0, 40617522 / 29380423, -110615467 / 29380423, 69997945 / 29380423],
        ]
    ),
)

# The classical method of order 4, with a cubic inside the step.
RK4 = Tableau(
    name="rk4",
    order=4,
    stages=_pad([[1 / 2], [0, 1 / 2], [0, 0, 1]], 5),
    times=np.array([1 / 2, 1 / 2, 1.0]),
    weights=np.array([1 / 6, 1 / 3, 1 / 3, 1 / 6, 0]),
    dense=_hermite(np.array([1 / 6, 1 / 3, 1 / 3, 1 / 6])),
)

# Semi-implicit (symplectic) Euler: velocities first, then positions with the new velocities. Inside a step: a shorter
# step.
SEMI_IMPLICIT_EULER = Tableau(
    name="semi_implicit_euler",
    order=1,
    stages=np.zeros((0, 2)),
    times=np.zeros(0),
    weights=np.array([1.0, 0.0]),
    dense=np.array([[1.0], [0.0]]),
    kick_drift=True,
)

TABLEAUS = {tableau.name: tableau for tableau in (DOPRI5, RK4, SEMI_IMPLICIT_EULER)}


def dense_weights(tableau: Tableau, fraction):
    """Weights of the slopes at a lane's own fraction of the step: (slopes, *lanes)."""
    weights = []
    for row in tableau.dense:
        value = 0.0
        for c in row[::-1]:
            value = (value + c) * fraction
        weights.append(value * jnp.ones_like(fraction))
    return jnp.stack(weights)


def weighted_sum(weights, slopes):
    """Sum of weights times slopes, term by term: a sum over an axis XLA hands to a library, which takes longer."""
    total = weights[0] * slopes[0]
    for weight, slope in zip(weights[1:], slopes[1:], strict=True):
        total = total + weight * slope
    return total
