"""A typical stance phase of level walking, as a prescribed motion of the foot in the sagittal plane.

Three things are prescribed: how the foot and the toes turn, the vertical load and the shear. Pitch and toes follow
smooth steps between the events of stance. Load and shear are Alexander's two-term and one-term Fourier curves
(Alexander and Jayes, 1980): with s from -1/2 to 1/2 over stance, duty factor beta and shape factor q,

    F_z = m g 3 pi / (4 beta (3 + q)) (cos(pi s) - q cos(3 pi s)),      F_x = -m g B sin(2 pi (s + 1/2))

Where the foot must then be is found from a reference sole: as low as its elastic forces carry the load, and creeping
as fast as its friction gives the shear. Under another sole the same motion gives other forces, and that is what it is
for. With dampers the reference sole's own load differs a little from F_z.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxcontact.models.layout import Layout
from jaxcontact.models.model import Params
from jaxcontact.models.prescribed import SagittalMotion, sagittal_feet, segment_contacts

DEGREE = np.pi / 180.0
_HALVINGS = 60


@dataclass(frozen=True)
class Gait:
    """One stance of level walking. Fractions are of stance, angles in rad clockwise (positive: heel up)."""

    duration: float = 0.66  # s
    mass: float = 70.0  # kg (Foot: the subject)
    gravity: float = 9.81  # m/s^2
    duty: float = 0.6  # beta: share of the stride that the foot is down
    shape: float = 0.4  # q: how deep the valley between the two peaks of the load is
    braking: float = 0.18  # B: largest shear, in body weights
    strike_pitch: float = -20.0 * DEGREE  # at heel strike
    flat_from: float = 0.17
    flat_until: float = 0.43
    roll: float = 1.8 * DEGREE  # while flat the foot rolls from -roll to roll: the centre of pressure moves forward
    off_pitch: float = 65.0 * DEGREE  # of the main foot when the toes leave
    toes_rise_from: float = 0.82
    toes_off_pitch: float = 25.0 * DEGREE

    def load(self, phase):
        """Vertical load (N) at a fraction of stance."""
        s = phase - 0.5
        height = 3.0 * jnp.pi / (4.0 * self.duty * (3.0 + self.shape))
        curve = jnp.cos(jnp.pi * s) - self.shape * jnp.cos(3.0 * jnp.pi * s)
        return self.mass * self.gravity * height * jnp.maximum(curve, 0.0)

    def shear(self, phase):
        """Shear (N), positive forward."""
        return -self.mass * self.gravity * self.braking * jnp.sin(2.0 * jnp.pi * phase)

    def pitch(self, phase):
        """Pitch of the main foot (rad): down from the heel, a slow roll over the flat foot, up from the ball."""
        rolling = (phase - self.flat_from) / (self.flat_until - self.flat_from)
        rising = (phase - self.flat_until) / (1.0 - self.flat_until)
        return (
            self.strike_pitch
            - (self.strike_pitch + self.roll) * _step(phase / self.flat_from)
            + 2.0 * self.roll * _step(rolling)
            + (self.off_pitch - self.roll) * _step(rising)
        )

    def toe_pitch(self, phase):
        """Pitch of the toes (rad): with the foot until it is flat, flat, and up at the end."""
        return self.strike_pitch * (1.0 - _step(phase / self.flat_from)) + self.toes_off_pitch * _step(
            (phase - self.toes_rise_from) / (1.0 - self.toes_rise_from)
        )


def _step(x):
    """Smooth step from 0 at x = 0 to 1 at x = 1, with two derivatives 0 at both ends."""
    x = jnp.clip(x, 0.0, 1.0)
    return x * x * x * (10.0 + x * (6.0 * x - 15.0))


def stance_motion(
    gait: Gait, layout: Layout, params: Params, choices: Mapping[str, str], frames: int = 201
) -> SagittalMotion:
    """The motion that makes the reference sole (`layout`, with the laws and places in `params`) carry the gait's load.

    The first and the last frame are those where the sole just touches.
    """
    return motion_at(jnp.linspace(0.0, 1.0, frames), gait, layout, params, choices)


def motion_at(phase: Any, gait: Gait, layout: Layout, params: Params, choices: Mapping[str, str]) -> SagittalMotion:
    """`stance_motion` at given fractions of stance, an array (frames,), evenly spaced from 0 to 1."""
    pitch, pitch_rate = jax.vmap(jax.value_and_grad(gait.pitch))(phase)
    toes, toe_rate = jax.vmap(jax.value_and_grad(gait.toe_pitch))(phase)
    zero = jnp.zeros_like(phase)
    turning = {
        "pitch": pitch,
        "bend": toes - pitch,
        "pitch_rate": pitch_rate / gait.duration,
        "bend_rate": (toe_rate - pitch_rate) / gait.duration,
    }
    still = SagittalMotion(phase * gait.duration, zero, zero, pitch, toes - pitch, zero, zero, zero, zero)
    elements = layout.elements(params).over(1)

    def contacts(motion: SagittalMotion):
        return segment_contacts(sagittal_feet(motion, params), layout, elements, params, choices)

    # Lower is more load, and faster forward is less shear: both by halving, frame by frame.
    target = jnp.maximum(gait.load(phase), 1e-6)

    def load_missing(z):
        return sum(jnp.sum(each.F_n, axis=0) for each in contacts(still._replace(z=z))) - target

    z = _falling_root(load_missing, zero - 0.2, zero + 0.2)
    moving = still._replace(z=z, v_z=_rate(z, gait.duration), **turning)

    def shear_missing(v_x):
        return sum(jnp.sum(each.force[0], axis=0) for each in contacts(moving._replace(v_x=v_x))) - gait.shear(phase)

    v_x = _falling_root(shear_missing, zero - 5.0, zero + 5.0)
    travelled = jnp.cumsum(0.5 * (v_x[1:] + v_x[:-1]) * jnp.diff(moving.time))
    return moving._replace(v_x=v_x, x=jnp.concatenate([jnp.zeros(1), travelled]))


def _falling_root(function, low, high):
    """Where a falling function is 0, element by element."""

    def halve(_, bracket):
        low, high = bracket
        middle = 0.5 * (low + high)
        above = function(middle) > 0
        return jnp.where(above, middle, low), jnp.where(above, high, middle)

    low, high = jax.lax.fori_loop(0, _HALVINGS, halve, (low, high))
    return 0.5 * (low + high)


def _rate(values: Any, duration: float):
    """Time derivative of evenly spaced values, by central differences of second order."""
    return jnp.gradient(values, duration / (values.shape[0] - 1))
