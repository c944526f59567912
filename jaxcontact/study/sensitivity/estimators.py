"""Sobol indices and their confidence from the rows of a Saltelli design, as they come block by block; pure numpy.

The estimators are SALib's (first order and total: Saltelli et al. 2010; second order: Saltelli 2002), and like SALib's
they are taken of values less their mean, over their standard deviation. All are ratios of means over base points, so
sums are enough: memory is that of a block, whatever the length of the study. Bootstrap samples are weights of the base
points, so that a block adds to all of them by one product of matrices.

An output is a scalar outcome or one point of a curve. A base point counts for an output if that is a number in all its
rows.
"""

from itertools import combinations

import numpy as np

from jaxcontact.study.sensitivity.resampling import half_width

CONSTANT = 1e-12  # spread, relative to the largest value of all outputs, below which an output is called constant


class Spread:
    """Count, mean and standard deviation of each output over base points (Chan, Golub and LeVeque 1983)."""

    def __init__(self, outputs: int) -> None:
        self.groups = np.zeros(outputs, np.int64)  # that count
        self.mean = np.zeros(outputs)
        self._count, self._squares = np.zeros(outputs), np.zeros(outputs)
        self._low, self._high = np.full(outputs, np.inf), np.full(outputs, -np.inf)

    def add(self, values: np.ndarray) -> None:
        """Add a block: (base points, rows of each, outputs)."""
        defined = is_defined(values)
        count = defined.sum(axis=0) * values.shape[1]
        mean = np.where(defined[:, None], values, 0.0).sum(axis=(0, 1)) / np.maximum(count, 1)
        off = np.where(defined[:, None], values - mean, 0.0)
        total = np.maximum(self._count + count, 1)
        shift = mean - self.mean
        self._squares += (off**2).sum(axis=(0, 1)) + shift**2 * self._count * count / total
        self.mean += shift * count / total
        self._count += count
        self.groups += defined.sum(axis=0)
        if len(values):
            self._low = np.minimum(self._low, np.where(defined[:, None], values, np.inf).min(axis=(0, 1)))
            self._high = np.maximum(self._high, np.where(defined[:, None], values, -np.inf).max(axis=(0, 1)))

    @property
    def std(self) -> np.ndarray:
        """Standard deviation of each output over all rows that count."""
        return np.sqrt(self._squares / np.maximum(self._count, 1))

    @property
    def constant(self) -> np.ndarray:
        """Which outputs do not vary but for rounding; a point of a curve is judged by the curve's largest value."""
        here = self._count > 0
        size = np.max(np.abs(np.concatenate([self._low[here], self._high[here]])), initial=0.0)
        spread = np.where(here, self._high, 0.0) - np.where(here, self._low, 0.0)
        return np.asarray(spread <= CONSTANT * size)


def is_defined(values: np.ndarray) -> np.ndarray:
    """For which outputs a base point counts: (base points, outputs) of (base points, rows of each, outputs)."""
    return np.all(np.isfinite(values), axis=1)


class SobolSums:
    """Sums from which all indices follow; `samples` are the rows of the weights, the first of them the estimate's."""

    def __init__(self, spread: Spread, factors: int, samples: int, *, second_order: bool) -> None:
        self._spread, self._factors, self._second_order = spread, factors, second_order
        self._scale = np.where(spread.constant, 1.0, spread.std)
        pairs = factors * (factors - 1) // 2 if second_order else 0
        self._weight = np.zeros((samples, len(self._scale)))
        self._sums = np.zeros((2 + 2 * factors + pairs, samples, len(self._scale)))

    def add(self, values: np.ndarray, weights: np.ndarray) -> None:
        """Add a block: values (base points, rows of each, outputs), weights (samples, base points)."""
        defined = is_defined(values)
        counts = (defined & ~self._spread.constant)[:, None]
        values = np.where(counts, (values - self._spread.mean) / self._scale, 0.0)
        n = self._factors
        A, B, AB, BA = values[:, 0], values[:, -1], values[:, 1 : n + 1], values[:, n + 1 : -1]
        self._weight += weights @ defined
        products = [(A**2 + B**2) / 2, (A + B) / 2]
        products += [B * (AB[:, i] - A) for i in range(n)]
        products += [(A - AB[:, i]) ** 2 / 2 for i in range(n)]
        if self._second_order:
            products += [BA[:, i] * AB[:, k] - A * B for i, k in combinations(range(n), 2)]
        for total, product in zip(self._sums, products, strict=True):
            total += weights @ product

    def indices(self, confidence: float, least: int) -> dict[str, np.ndarray]:
        """S1, ST (factors, outputs) and S2 (factors, factors, outputs), each with `*_conf`, half its interval.

        What does not vary has indices 0. What fewer than `least` base points count for is NaN. A pair's index stands on
        both sides of the diagonal, which is NaN.
        """
        n = self._factors
        means = self._sums / np.maximum(self._weight, 1.0)
        variance = means[0] - means[1] ** 2
        shares = means[2:] / np.where(variance > np.finfo(float).eps, variance, np.inf)
        shares[..., self._spread.groups < least] = np.nan
        found = {"S1": shares[:n], "ST": shares[n : 2 * n]}
        if self._second_order:
            pairs = np.full((n, n, *shares.shape[1:]), np.nan)
            for (i, k), pair in zip(combinations(range(n), 2), shares[2 * n :], strict=True):
                pairs[i, k] = pairs[k, i] = pair - shares[i] - shares[k]
            found["S2"] = pairs
        estimates = {key: values[..., 0, :] for key, values in found.items()}
        return estimates | {
            f"{key}_conf": half_width(np.moveaxis(values[..., 1:, :], -2, 0), confidence)
            for key, values in found.items()
        }
