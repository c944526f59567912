"""A model that follows a measured motion, and what was measured along it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxcontact.models.model import Model


class Target(NamedTuple):
    """What was measured of one curve, at the frames of its model: arrays (frames,) in `unit` (SI)."""

    values: Any  # 0 where not valid, never NaN
    valid: Any  # bool: where the measurement counts
    sd: float  # standard deviation (Lopes eq. 3), in `unit`
    unit: str


class Tracked(NamedTuple):
    """A model under a measured motion. Its recorder, asked for `frames` points, gives curves to hold against `targets`.

    `targets` are by the names of the model's curves.
    """

    model: Model
    targets: Mapping[str, Target]
    frames: int
    body_weight: float | None = None  # N, if known
    source: Mapping[str, Any] = {}  # where the measurement comes from: file, stance, choices made on the way
