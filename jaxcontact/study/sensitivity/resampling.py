"""Bootstrap samples of studies that do not fit in memory: how often each group of runs is drawn, a block at a time."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxcontact.errors import InputError
from jaxcontact.study.checks import whole_number


def check_bootstrap(resamples: Any, confidence: Any) -> tuple[int, float]:
    """Check how confidence intervals are made."""
    resamples = whole_number(resamples, "[sensitivity] resamples", least=2)
    if isinstance(confidence, bool) or not isinstance(confidence, (int, float)) or not 0 < confidence < 1:
        raise InputError(f"[sensitivity] confidence = {confidence!r}: a number between 0 and 1 is needed")
    return resamples, float(confidence)


class Resampling:
    """Samples of n groups out of n, with repeats, where groups come in blocks of these `sizes`, in any order.

    To draw n groups is to draw how many of them lie in each block (multinomial), and then which ones in it: so no array
    is longer than a block, and the samples are those of an ordinary bootstrap.
    """

    def __init__(self, sizes: Sequence[int], resamples: int, seed: int) -> None:
        self._sizes, self._seed = tuple(sizes), seed
        total = sum(sizes)
        shares = np.asarray(sizes, float) / max(total, 1)
        self._draws = np.random.default_rng([seed, 0]).multinomial(total, shares, size=resamples)

    @property
    def samples(self) -> int:
        """How many rows weights have: the groups as they are, and every bootstrap sample."""
        return 1 + len(self._draws)

    def weights(self, block: int) -> np.ndarray:
        """How often each group of a block counts, (samples, groups of the block): in the first row once."""
        size = self._sizes[block]
        generator = np.random.default_rng([self._seed, 1 + block])
        weights = np.ones((self.samples, size))
        for row, draws in zip(weights[1:], self._draws[:, block], strict=True):
            row[:] = np.bincount(generator.integers(max(size, 1), size=draws), minlength=size)[:size]
        return weights


def half_width(estimates: np.ndarray, confidence: float) -> np.ndarray:
    """Half of a confidence interval from estimates in bootstrap samples (samples, ...), as for a normal distribution.

    A sample in which an estimate is not defined does not count; with fewer than two that do, the answer is NaN.
    """
    from scipy.stats import norm

    defined = np.isfinite(estimates)
    count = defined.sum(axis=0)
    mean = np.where(defined, estimates, 0.0).sum(axis=0) / np.maximum(count, 1)
    squares = np.where(defined, estimates - mean, 0.0) ** 2
    variance = squares.sum(axis=0) / np.maximum(count - 1, 1)
    return np.where(count > 1, norm.ppf(0.5 + confidence / 2) * np.sqrt(variance), np.nan)
