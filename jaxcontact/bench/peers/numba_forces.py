"""Forces of many soles along a motion in compiled scalar code: numba, a loop over layouts on all threads.

A sphere that is not in the ground costs its depth only. Layouts are taken some at a time, so that what is written lies
side by side.
"""

import numba
import numpy as np
from numba import njit, prange

from jaxcontact.bench.peers.numba_flow import FAST
from jaxcontact.bench.peers.soles import Foot, Seen, Soles

_TOGETHER = 64


def forces(foot: Foot, soles: Soles, threads: int = 1) -> Seen:
    """What a plate sees of all soles in all frames; the first call compiles."""
    before = numba.get_num_threads()
    numba.set_num_threads(min(threads, before))
    try:
        return Seen(*_forces(foot.segments, *soles, foot.mu_viscous, foot.v_slip, foot.threshold))
    finally:
        numba.set_num_threads(before)


@njit(parallel=True, **FAST)
def _forces(segments, xs, ys, zs, radii, ks, chis, mus, mu_viscous, v_slip, threshold):
    frames, (spheres, count) = segments.shape[0], xs.shape
    found = np.empty((6, frames, count))
    for batch in prange((count + _TOGETHER - 1) // _TOGETHER):
        for frame in range(frames):
            for n in range(batch * _TOGETHER, min(count, (batch + 1) * _TOGETHER)):
                F_x = F_z = at_x = at_y = moment = 0.0
                for i in range(spheres):
                    at = segments[frame, i]
                    x, z, sine, cosine, v_x, v_z, rate = at[0], at[1], at[2], at[3], at[4], at[5], at[6]
                    up = cosine * zs[i, n] - sine * xs[i, n] - radii[i, n]
                    depth = -(z + up)
                    if depth <= 0:
                        continue
                    over = cosine * xs[i, n] + sine * zs[i, n]
                    slip, rise = v_x + rate * up, v_z - rate * over
                    F_n = depth * np.sqrt(depth) * max(ks[n] - chis[n] * rise, 0.0)
                    F_t = -slip * (mus[n] * F_n / np.sqrt(slip * slip + v_slip * v_slip) + mu_viscous)
                    F_x += F_t
                    F_z += F_n
                    at_x += (x + over) * F_n
                    at_y += ys[i, n] * F_n
                    moment -= ys[i, n] * F_t
                share = 1.0 / F_z if F_z > threshold else 0.0
                found[0, frame, n] = F_x
                found[1, frame, n] = 0.0
                found[2, frame, n] = F_z
                found[3, frame, n] = share * at_x
                found[4, frame, n] = share * at_y
                found[5, frame, n] = moment + share * at_y * F_x if F_z > threshold else 0.0
    return found
