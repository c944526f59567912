"""Forces of many soles along a motion with numpy: whole arrays, in pieces that stay in the cache.

Each operation runs over spheres, frames and layouts at once. Pieces of about 20,000 numbers were fastest: larger ones
leave the cache, smaller ones pay for numpy's own steps. numpy uses one core; here each thread takes pieces of its own.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from jaxcontact.bench.peers.soles import Foot, Seen, Soles

_FRAMES, _LAYOUTS = 5, 500  # of a piece


def forces(foot: Foot, soles: Soles, threads: int = 1) -> Seen:
    """What a plate sees of all soles in all frames."""
    frames, count = len(foot.segments), len(soles.mu)
    found = Seen(*(np.zeros((frames, count)) for _ in Seen._fields))

    def piece(first: int) -> None:
        some = soles.some(first, first + _LAYOUTS)
        for begin in range(0, frames, _FRAMES):
            seen = _piece(foot._replace(segments=foot.segments[begin : begin + _FRAMES]), some)
            for whole, part in zip(found, seen, strict=True):
                whole[begin : begin + _FRAMES, first : first + _LAYOUTS] = part

    firsts = range(0, count, _LAYOUTS)
    if threads == 1:
        for first in firsts:
            piece(first)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(piece, firsts))
    return found


def _piece(foot: Foot, soles: Soles) -> Seen:
    x, z, sine, cosine, v_x, v_z, rate = np.moveaxis(foot.segments[..., None], 2, 0)  # (frame, sphere, 1)
    over = cosine * soles.x + sine * soles.z
    up = cosine * soles.z - sine * soles.x - soles.radius
    depth = -(z + up)
    down = depth > 0
    depth = np.maximum(depth, 0.0)
    slip, rise = v_x + rate * up, v_z - rate * over

    F_n = depth * np.sqrt(depth) * np.maximum(soles.k - soles.chi * rise, 0.0)
    drag = np.where(down, soles.mu * F_n / np.sqrt(slip * slip + foot.v_slip**2) + foot.mu_viscous, 0.0)
    F_t = -drag * slip

    F_x, F_z = F_t.sum(axis=1), F_n.sum(axis=1)
    carried = F_z > foot.threshold
    share = np.where(carried, 1.0 / np.where(carried, F_z, 1.0), 0.0)
    cop_x = share * ((x + over) * F_n).sum(axis=1)
    cop_y = share * (soles.y * F_n).sum(axis=1)
    free_moment = np.where(carried, cop_y * F_x - (soles.y * F_t).sum(axis=1), 0.0)
    return Seen(F_x, np.zeros_like(F_x), F_z, cop_x, cop_y, free_moment)
