"""The crutch as its peers see it: tables of a chain of links about its centre of mass, and how the impact starts.

A second derivation of what `bodies.linkage` makes from links: numpy only, and no code in common. Link k is at the angle
theta_k clockwise from vertical, the chain begins at the foot and ends at the tip, and every point of it is

    foot + sum_k c_k (sin theta_k, cos theta_k).
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

SEGMENTS = ("leg", "torso", "upper_arm", "forearm")


class Chain(NamedTuple):
    """Constants of the motion. Along each link, (4,): `centre`: foot to centre of mass, `tip`: on to the tip."""

    mass: float  # kg
    gravity: float  # m/s^2
    coupling: np.ndarray  # (4, 4): times cos(theta_k - theta_j) and with inertias on its diagonal, the mass matrix
    inertia: np.ndarray  # (4,), kg m^2
    centre: np.ndarray
    tip: np.ndarray
    length: np.ndarray
    posture: tuple[float, float]  # q4, q5 (rad)
    rates: tuple[float, float, float]  # of q3, q4, q6 (rad/s)


def chain_of(params: Mapping[str, float]) -> Chain:
    """Return the tables of a crutch model with these parameters (SI units)."""
    mass, inertia, length, along = (
        np.array([params[f"{segment}.{what}"] for segment in SEGMENTS])
        for what in ("mass", "inertia", "length", "centre")
    )
    along[0] = length[0] - along[0]  # the leg's is given from the hip
    # Row i: how far along each link the centre of mass of link i lies.
    levers = np.tril(np.broadcast_to(length, (4, 4)), -1) + np.diag(along)
    total = float(np.sum(mass))
    centre = mass @ levers / total
    return Chain(
        mass=total,
        gravity=params["gravity"],
        coupling=levers.T @ (mass[:, None] * levers) - total * np.outer(centre, centre),
        inertia=inertia,
        centre=centre,
        tip=length - centre,
        length=length,
        posture=(params["q4"], params["q5"]),
        rates=(params["dq3"], params["dq4"], params["dq6"]),
    )


def start(chain: Chain, q3: np.ndarray, dq5: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Absolute angles and rates of the links at touch-down, (4, count) each: the tip on the ground, the foot at 0."""
    q4, q5 = chain.posture
    dq3, dq4, dq6 = chain.rates
    angles = np.stack([q3, q3 + q4, q3 + q4 + q5])
    # Of the two forearms that reach the ground, the one with the tip in front of the elbow.
    forearm = np.arccos(-(chain.length[:3] @ np.cos(angles)) / chain.length[3])
    rates = np.cumsum(np.stack(np.broadcast_arrays(dq3, dq4, dq5, dq6)), axis=0)
    return np.concatenate([angles, forearm[None]]), rates


def crutch_chain() -> Chain:
    """Return the tables of the model `crutch` with its default parameters."""
    from jaxcontact.models import get_model  # here: a process that is handed the tables need not wait for JAX
    from jaxcontact.models.model import default_params

    return chain_of(default_params(get_model("crutch")))
