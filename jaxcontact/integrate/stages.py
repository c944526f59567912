"""Where a step leads, row by row, if only rows with a slope of their own have it kept.

The slope of a position is a velocity, another row of the state; so, with the method's table A and weights w,

    position + h (sum_j w_j) velocity + h^2 sum_k (w A)_k k_k,      k: the velocity's slopes

is what weighting the position's own slopes would give. Rows that stay need nothing. On the crutch that leaves eight of
seventeen rows to be kept at each stage: less to write, and less for the cache to hold.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxcontact.integrate.hybrid_state import HybridSystem
from jaxcontact.integrate.tableau import Tableau


class Weights(NamedTuple):
    """Of the slopes of a step: those of a row's own, those of a velocity's slopes in its position, and their total."""

    each: Any
    twice: Any  # each @ A
    total: Any

    def as_list(self) -> list[Any]:
        """All of them, one after the other."""
        return [*self.each, *self.twice, self.total]

    @staticmethod
    def of_list(numbers: list[Any]) -> "Weights":
        """Made again from all of them."""
        count = len(numbers) // 2
        return Weights(numbers[:count], numbers[count:-1], numbers[-1])


def weights_of(tableau: Tableau, each: np.ndarray) -> Weights:
    """Weights that are known."""
    return Weights(each.tolist(), (each @ tableau.matrix).tolist(), float(each.sum()))


def weights_inside(tableau: Tableau, fraction) -> Weights:
    """Weights of the dense output at a fraction of the step; their total is the fraction."""
    each, twice = (_polynomials(table, fraction) for table in (tableau.dense, tableau.matrix.T @ tableau.dense))
    return Weights(each, twice, fraction)


def _polynomials(table: np.ndarray, fraction) -> list[Any]:
    """Sums of c_p fraction^(p + 1), a row of the table each; 0 for rows of zeros."""
    found = []
    for row in table:
        value: Any = 0.0
        for c in row[::-1] if np.any(row) else ():
            value = (value + c) * fraction
        found.append(value)
    return found


def one_of(condition, yes: Weights, no: Weights) -> Weights:
    """Of two, those that a lane's condition chooses; what is zero in both is known to be."""

    def either(one, other):
        return 0.0 if _is_zero(one) and _is_zero(other) else jnp.where(condition, one, other)

    def both(ones, others):
        return [either(*pair) for pair in zip(ones, others, strict=True)]

    return Weights(both(yes.each, no.each), both(yes.twice, no.twice), either(yes.total, no.total))


def _is_zero(weight: Any) -> bool:
    return isinstance(weight, float) and weight == 0.0


def own_rows(system: HybridSystem, count: int) -> tuple[int, ...]:
    """Rows of a state of so many with slopes of their own: neither positions nor at rest."""
    return tuple(row for row in range(system.positions, count) if row not in system.still)


def with_own(system: HybridSystem, rows) -> tuple[Any, ...]:
    """Of something that every row of a state has, what belongs to those with slopes of their own."""
    return tuple(rows[row] for row in own_rows(system, len(rows)))


def with_all(system: HybridSystem, y, own) -> list[Any]:
    """The slopes of all rows of y, where those are known that rows have of their own."""
    known = dict(zip(own_rows(system, len(y)), own, strict=True))
    positions = system.positions
    return [y[row + positions] if row < positions else known.get(row, jnp.zeros_like(y[row])) for row in range(len(y))]


def moved(system: HybridSystem, tableau: Tableau, y, h, slopes, weights: Weights, but=()) -> tuple[Any, ...]:
    """The state, row by row, after `weights` of a step of length h; rows of `but` are left as they were.

    `slopes` of the rows with own ones, each a list over the stages.
    """
    own = dict(zip(own_rows(system, len(y)), slopes, strict=True))

    def added(start, factor, chosen, row):
        terms = [w * k for w, k in zip(chosen, own[row], strict=True) if not _is_zero(w)] if row in own else []
        return start + factor * sum(terms[1:], terms[0]) if terms else start

    new = list(y)
    for row in (row for row in own if row not in but):
        new[row] = added(y[row], h, weights.each, row)
    for row in (row for row in range(system.positions) if row not in but):
        velocity = row + system.positions
        if tableau.kick_drift:  # with its new velocity
            new[row] = y[row] + h * weights.total * new[velocity]
        else:
            new[row] = added(y[row] + h * weights.total * y[velocity], h * h, weights.twice, velocity)
    return tuple(new)


def all_slopes(system: HybridSystem, tableau: Tableau, y, h, own) -> Any:
    """Slopes (stage, row, *lanes) of all rows of y, from those of the rows that have own ones (row, stage, *lanes)."""
    slopes = dict(zip(own_rows(system, len(y)), own, strict=True))
    still = jnp.zeros_like(next(iter(slopes.values())))
    rows = []
    for row in range(len(y)):
        if row < system.positions:
            velocity = row + system.positions
            stages = jnp.tensordot(jnp.asarray(tableau.matrix, y.dtype), slopes.get(velocity, still), 1)
            rows.append(y[velocity] + h * stages)
        else:
            rows.append(slopes.get(row, still))
    return jnp.stack(rows, axis=1)
