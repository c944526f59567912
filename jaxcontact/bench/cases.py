"""The configurations that every peer gets: crutch impacts over all regimes, drawn once and for all. numpy only."""

from typing import NamedTuple

import numpy as np

COUNT, SEED = 20_000, 0


class Cases(NamedTuple):
    """What differs between configurations, arrays (count,): SI units, angles in radians."""

    q3: np.ndarray
    dq5: np.ndarray
    mu: np.ndarray
    k_n: np.ndarray
    chi: np.ndarray

    def first(self, count: int) -> "Cases":
        """Some of them: peers that are slow get fewer."""
        return Cases(*(values[:count] for values in self))


def draw_cases(count: int, k_n: float, chi: float, seed: int = SEED) -> Cases:
    """Postures and rates evenly; stiffness and damping evenly in the logarithm about the given ones.

    The stiffness spans a decade, as between the rubber tips of Crutch Table 3 and beyond; the damping a factor of 25.
    """
    random = np.random.default_rng(seed)
    return Cases(
        q3=np.radians(random.uniform(3.0, 21.0, count)),
        dq5=random.uniform(-0.2, 0.4, count),
        mu=random.uniform(0.4, 1.1, count),
        k_n=k_n * 10.0 ** random.uniform(-0.5, 0.5, count),
        chi=chi * 10.0 ** random.uniform(-0.7, 0.7, count),
    )
