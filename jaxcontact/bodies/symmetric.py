"""Solving small symmetric positive definite systems, written out over lanes.

A batched `jnp.linalg.solve` of many 4 x 4 systems spends its time on bookkeeping; the same L D L^T elimination
written in lane-wide numbers vectorises over the lanes. A matrix is a list of rows of lane-wide numbers; only its
lower triangle is read.
"""


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
