"""Random configurations around a model's defaults, and how large a change of each leaf counts as relative.

How far a leaf may lie from its default depends on its unit, with a few leaves that deserve more or less; whatever a
bound would cut off is left out, with room for the steps of a difference.
"""

from typing import NamedTuple

import numpy as np

from jaxcontact.models.model import Model, Parameter
from jaxcontact.study.sampling import random

ROOM = 2e-3  # of a leaf's size that stays free between a draw and a bound


class Range(NamedTuple):
    """Where a leaf is drawn, in its stated unit; `log`: evenly by its logarithm."""

    low: float
    high: float
    log: bool = False


# Around a default that is not 0: a share of it. Lengths are few per cent, for a posture has to reach the ground.
_SHARES = {"m": 0.03, "kg": 0.2, "kg m^2": 0.2, "1": 0.1, "s": 0.1, "m/s": 0.2, "m/s^2": 0.05, "1/rad": 0.1, "1/s": 0.2}
# Angles and rates, and defaults of 0: so much on either side, in the stated unit.
_WIDTHS = {
    "deg": 3.0,
    "rad/s": 0.2,
    "m": 2e-3,
    "kg m^2": 0.1,
    "1": 0.05,
    "N m/rad": 1.0,
    "N m s/rad": 0.1,
}
_DECADES = 0.3  # stiffness, damping and the like: up to twice or half the default
# Widths in the stated unit of what decides how an impact slides: all regimes should be met.
_WIDE = {"q3": 9.0, "q4": 6.0, "dq5": 0.4}
_BY_NAME = {"mu": 0.4, "R": 0.5, "m": 0.05, "c2": 0.05, "c4": 0.05}  # shares: all regimes of friction; exponents


def range_of(parameter: Parameter) -> Range:
    """Where a parameter is drawn: around its default, inside its bounds."""
    p, default = parameter, parameter.default
    if p.name in _BY_NAME:
        low, high, log = default * (1 - _BY_NAME[p.name]), default * (1 + _BY_NAME[p.name]), False
    elif p.name in _WIDE:
        low, high, log = default - _WIDE[p.name], default + _WIDE[p.name], False
    elif default != 0 and p.unit not in ("deg", "rad/s") and p.unit not in _SHARES:
        low, high, log = default * 10**-_DECADES, default * 10**_DECADES, True
    else:
        width = abs(default) * _SHARES[p.unit] if default != 0 and p.unit in _SHARES else _WIDTHS.get(p.unit, 0.1)
        low, high, log = default - width, default + width, False
    low, high = sorted((low, high))
    room = ROOM * max(abs(p.low), abs(p.high), 0.0) if p.low == p.high else ROOM * max(abs(default), 0.5 * (high - low))
    return Range(max(low, p.low + room), min(high, p.high - room), log)


def draw(model: Model, count: int, seed: int) -> dict[str, np.ndarray]:
    """`count` random configurations by leaf, in SI units; a seed always means the same ones."""
    points = random(0, count, len(model.parameters), count, seed)
    drawn = {}
    for p, share in zip(model.parameters, points.T, strict=True):
        low, high, log = range_of(p)
        value = low * (high / low) ** share if log else low + (high - low) * share
        drawn[p.name] = value * p.si
    return drawn


def sizes(model: Model, drawn: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What a relative change of 1 is, in SI units: the leaf's own value, or half its range where that is more."""
    found = {}
    for p in model.parameters:
        low, high, _ = range_of(p)
        found[p.name] = np.maximum(np.abs(drawn[p.name]), 0.5 * (high - low) * p.si)
    return found
