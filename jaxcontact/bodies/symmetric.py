"""Solving small symmetric positive definite systems, written out over lanes.

A batched `jnp.linalg.solve` of many 4 x 4 systems spends its time on bookkeeping; the same L D L^T elimination
written in lane-wide numbers vectorises over the lanes. A matrix is a list of rows of lane-wide numbers; only its
lower triangle is read.
"""

import jax

from jaxcontact.safemath import keep


def factor(matrix):
    """L D L^T factors of a symmetric positive definite matrix: rows of L below the diagonal, and 1/D."""
    lower, inverse_pivots = [], []
    for i, row in enumerate(matrix):
        # scaled[j] = L_ij D_j
        scaled, entries = [], []
        for j in range(i):
            value = row[j]
            for k in range(j):
                value = value - scaled[k] * lower[j][k]
            scaled.append(value)
            entries.append(value * inverse_pivots[j])
        pivot = row[i]
        for j in range(i):
            pivot = pivot - scaled[j] * entries[j]
        lower.append(entries)
        inverse_pivots.append(1.0 / pivot)
    return lower, inverse_pivots


def solve_factored(factors, right):
    """Solve L D L^T x = right for one right-hand side, a list of lane-wide numbers."""
    lower, inverse_pivots = factors
    x = list(right)
    for i in range(len(x)):
        for j in range(i):
            x[i] = x[i] - lower[i][j] * x[j]
    x = [value * inverse for value, inverse in zip(x, inverse_pivots, strict=True)]
    for i in reversed(range(len(x))):
        for j in range(i + 1, len(x)):
            x[i] = x[i] - lower[j][i] * x[j]
    return x


@jax.custom_jvp
def solve_each(matrix, rights):
    """Solve matrix x = right for several right-hand sides, a list of lists of lane-wide numbers.

    The derivative is not that of the elimination, but of the equation, with the same factors: M dx = db - dM x.
    """
    factors = factor(matrix)
    return [solve_factored(factors, right) for right in rights]


@solve_each.defjvp
def _solve_each_jvp(primals, tangents):
    (matrix, rights), (matrix_slope, rights_slope) = primals, tangents
    factors = jax.tree.map(keep, factor(matrix))
    found = jax.tree.map(keep, [solve_factored(factors, right) for right in rights])
    n = range(len(matrix))

    def slope(x, right):
        change = list(right)
        for i in n:
            for j in n:
                change[i] = change[i] - matrix_slope[max(i, j)][min(i, j)] * x[j]
        return solve_factored(factors, change)

    return found, [slope(x, right) for x, right in zip(found, rights_slope, strict=True)]


def solve(matrix, right):
    """Solve matrix x = right by L D L^T for one right-hand side; both are lists of lane-wide numbers.

    Every entry of L, and of x, is a quotient on purpose. XLA on CPU repeats sums and products in each place that uses
    them but keeps quotients: where x goes into many results, this is what keeps the whole elimination from being
    computed, and compiled, once for each of them.
    """
    rows = []  # of D L^T, from the diagonal on
    x = []
    for i, row in enumerate(matrix):
        # What is left of this row after the rows above it; by symmetry its column.
        entries = [row[i], *(matrix[j][i] for j in range(i + 1, len(matrix)))]
        value = right[i]
        for j, above in enumerate(rows):
            factor = above[i - j] / above[0]
            entries = [e - factor * a for e, a in zip(entries, above[i - j :], strict=True)]
            value = value - factor * x[j]
        rows.append(entries)
        x.append(value)
    for i in reversed(range(len(x))):
        for j in range(i + 1, len(x)):
            x[i] = x[i] - rows[i][j - i] * x[j]
        x[i] = x[i] / rows[i][0]
    return x
