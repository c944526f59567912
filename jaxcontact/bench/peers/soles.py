"""The task of `jaxcontact bench prescribed`: many soles of nine spheres under one motion of the foot. numpy only.

What all peers get, and what they give back. Where the segments are is worked out here once, by numpy.
"""

from typing import NamedTuple

import numpy as np


class Soles(NamedTuple):
    """What differs between layouts: arrays (sphere, n) of places and radii (m), and (n,) of the laws' numbers (SI)."""

    x: np.ndarray
    y: np.ndarray
    z: np.ndarray
    radius: np.ndarray
    k: np.ndarray
    chi: np.ndarray
    mu: np.ndarray

    def some(self, first: int, last: int) -> "Soles":
        """Some of them."""
        return Soles(*(np.ascontiguousarray(values[..., first:last]) for values in self))


class Foot(NamedTuple):
    """What all layouts share: where the segments are, and the numbers that do not vary."""

    segments: np.ndarray  # (frames, sphere, 7) x, z, sine and cosine of the pitch, v_x, v_z and pitch rate
    mu_viscous: float
    v_slip: float
    threshold: float  # N: below it there is no centre of pressure


class Seen(NamedTuple):
    """What a plate sees: arrays (frames, n)."""

    F_x: np.ndarray
    F_y: np.ndarray
    F_z: np.ndarray
    cop_x: np.ndarray
    cop_y: np.ndarray
    free_moment: np.ndarray


def draw_soles(places: np.ndarray, count: int, k: float, chi: float, seed: int = 0) -> Soles:
    """Soles about places (sphere, 4) of x, y, z and radius: a few millimetres off, laws within a factor of two."""
    random = np.random.default_rng(seed)
    spread = np.array([0.004, 0.01, 0.002, 0.002])[:, None, None]  # m
    x, y, z, radius = places.T[:, :, None] + spread * random.uniform(-1, 1, (4, len(places), count))
    stiffer, lossier = 2.0 ** random.uniform(-1, 1, (2, count))
    return Soles(x, y, z, radius, k * stiffer, chi * lossier, random.uniform(0.4, 1.0, count))


def segments_of(motion, joint: tuple[float, float], toes: tuple[float, float], on_toes: np.ndarray) -> np.ndarray:
    """Where each sphere's segment is: `joint` and `toes` are x and z (m) of the joint and, from there, of the toes."""
    x, z, v_x, v_z = (np.asarray(values, float) for values in (motion.x, motion.z, motion.v_x, motion.v_z))
    both = []
    angle, rate = np.zeros_like(x), np.zeros_like(x)
    turns = ((motion.pitch, motion.pitch_rate, None), (motion.bend, motion.bend_rate, (joint, toes)))
    for turn, turn_rate, arms in turns:
        for number, arm in enumerate(arms or ()):
            # The arm to the joint turns with the main foot, that from there on with the toes.
            a, w = (angle, rate) if number == 0 else (angle + turn, rate + turn_rate)
            over, up = arm[0] * np.cos(a) + arm[1] * np.sin(a), arm[1] * np.cos(a) - arm[0] * np.sin(a)
            x, z, v_x, v_z = x + over, z + up, v_x + w * up, v_z - w * over
        angle, rate = angle + turn, rate + turn_rate
        both.append(np.stack([x, z, np.sin(angle), np.cos(angle), v_x, v_z, rate], axis=-1))
    return np.ascontiguousarray(np.stack(both, axis=1)[:, on_toes.astype(int)])
