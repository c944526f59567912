"""What was measured, and how far a prediction is from it.

The cost of a fit is that of Lopes eq. 3, J = sum over channels and samples of W (Y - Y^)^2 / SD^2: a channel has a
standard deviation and a weight. Its residuals are sqrt(W) (Y^ - Y) / SD, so J is their sum of squares.

A channel holds a scalar outcome of the model ("outcome"), a curve at the model's own evenly spaced moments ("frames",
as under a measured motion), or a curve at times of its own ("time", s since the run began). A model's run may be
shorter than the measurement: beyond its end its last value counts, which keeps the residuals continuous.

Where a prediction does not exist (a centre of pressure without load) the residual is `MISSING` standard deviations,
with derivative 0: worse than any sensible prediction, so that no fit gains by unloading a foot. Where a whole run fails
all residuals are infinite, so that no optimiser goes there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxcontact.errors import InputError, unknown
from jaxcontact.models.model import Model

KINDS = ("outcome", "frames", "time")
MISSING = 30.0  # standard deviations


@dataclass(frozen=True, eq=False)
class Channel:
    """Samples of one outcome or curve: arrays (samples,), SI units; `sd` may differ from sample to sample."""

    name: str
    kind: str
    values: np.ndarray
    sd: np.ndarray
    unit: str
    valid: np.ndarray
    times: np.ndarray | None = None  # s, for kind "time"
    weight: float = 1.0  # W of Lopes eq. 3

    def __post_init__(self) -> None:
        """Refuse what cannot be compared with anything."""
        if self.kind not in KINDS:
            raise unknown("kind of channel", self.kind, KINDS, f"channel {self.name}")
        for name in ("values", "sd", "valid"):
            if getattr(self, name).shape != self.values.shape or self.values.ndim != 1:
                raise InputError(f"channel {self.name}: {name} has shape {getattr(self, name).shape}")
        if not np.all(np.isfinite(self.values[self.valid])):
            raise InputError(f"channel {self.name}: values that count are not numbers")
        if not np.all((self.sd > 0) & np.isfinite(self.sd)):
            raise InputError(f"channel {self.name}: sd must be above 0")
        if not self.weight > 0:
            raise InputError(f"channel {self.name}: weight = {self.weight:g} must be above 0")
        if not self.valid.any():
            raise InputError(f"channel {self.name}: no sample counts, so there is nothing to fit")
        if (self.kind == "time") != (self.times is not None):
            raise InputError(f"channel {self.name}: times go with kind 'time', and with no other")
        if self.times is not None and (self.times.shape != self.values.shape or not np.all(np.isfinite(self.times))):
            raise InputError(f"channel {self.name}: every value needs a time, which is a number")

    @property
    def count(self) -> int:
        """How many samples count."""
        return int(self.valid.sum())


def make_channel(
    model: Model,
    name: str,
    kind: str,
    values: Any,
    sd: Any,
    *,
    valid: Any = None,
    times: Any = None,
    weight: float = 1.0,
) -> Channel:
    """Check a channel's name against the model and fill in what follows from it."""
    quantities = model.outcomes if kind == "outcome" else model.curve_outcomes
    known = {quantity.name: quantity for quantity in quantities if not quantity.labels and quantity.name != "t"}
    if name not in known:
        raise unknown("outcome" if kind == "outcome" else "curve", name, known, f"a channel of {model.name}")
    values = np.atleast_1d(np.asarray(values, float))
    valid = np.ones(values.shape, bool) if valid is None else np.asarray(valid, bool)
    return Channel(
        name=name,
        kind=kind,
        values=np.where(valid, values, 0.0),
        sd=np.array(np.broadcast_to(np.asarray(sd, float), values.shape)),
        unit=known[name].unit,
        valid=valid,
        times=None if times is None else np.asarray(times, float),
        weight=float(weight),
    )


def predicted(channel: Channel, outcomes: Mapping[str, Any], curves: Mapping[str, Any]):
    """What the model says about a channel's samples: (samples,). NaN where it says nothing."""
    if channel.kind == "outcome":
        return jnp.broadcast_to(outcomes[channel.name], channel.values.shape)
    if channel.kind == "frames":
        return curves[channel.name]
    return at_times(jnp.asarray(channel.times), curves["t"], curves[channel.name])


def at_times(times, t, values):
    """A curve known at evenly spaced times t (points,), at others: cubic between points, held beyond the ends.

    The cubic is Catmull-Rom's, through the points with central slopes: its error is of third order in their spacing.
    """
    points = t.shape[0]
    length = t[-1] - t[0]
    length = jnp.where(length > 0, length, 1.0)  # a run that failed has none, and its status says so
    place = jnp.clip((times - t[0]) / length, 0.0, 1.0) * (points - 1)
    left = jnp.clip(jnp.floor(place).astype(int), 0, points - 2)
    part = place - left
    slopes = jnp.concatenate(
        [
            jnp.atleast_1d(2.0 * (values[1] - values[0]) - 0.5 * (values[2] - values[0])),
            0.5 * (values[2:] - values[:-2]),
            jnp.atleast_1d(2.0 * (values[-1] - values[-2]) - 0.5 * (values[-1] - values[-3])),
        ]
    )
    a, b, da, db = values[left], values[left + 1], slopes[left], slopes[left + 1]
    return a + part * (da + part * ((3 * (b - a) - 2 * da - db) + part * (da + db - 2 * (b - a))))


def residuals(
    channels: Sequence[Channel], outcomes: Mapping[str, Any], curves: Mapping[str, Any], finished, noise=None
):
    """Whitened differences of all samples that count, one after the other: (samples,). `finished`: the run's success.

    `noise` (samples,) in standard deviations is added to what was measured: for experiments with synthetic data.
    """
    parts, first = [], 0
    for channel in channels:
        rows = np.flatnonzero(channel.valid)
        found = predicted(channel, outcomes, curves)[rows]
        measured = channel.values[rows]
        if noise is not None:
            measured = measured + noise[first : first + len(rows)] * channel.sd[rows]
            first += len(rows)
        exists = finished & jnp.isfinite(found)
        off = (jnp.where(exists, found, 0.0) - measured) / channel.sd[rows]
        parts.append(np.sqrt(channel.weight) * jnp.where(exists, off, jnp.where(finished, MISSING, jnp.inf)))
    return jnp.concatenate(parts)
