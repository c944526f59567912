"""Signals of plates made fit for use: samples that are no numbers, and filters that keep the wrench whole."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from jaxcontact.errors import InputError
from jaxcontact.measured.filtering import Butterworth, runs
from jaxcontact.measured.recording import PlateSignal

LEAST_LOAD = 1.0  # N, below which a CoP is not even computed


def cleaned(plate: PlateSignal, time: np.ndarray, threshold: float, files: tuple[str, ...]) -> PlateSignal:
    """Return the plate with zeros for blank forces without load; blank forces under load are refused.

    A force blank between two unloaded samples is how some programs write "no contact". A CoP that is no number stays
    so, and is masked later.
    """
    force, free = plate.force.copy(), np.where(np.isnan(plate.free_moment), 0.0, plate.free_moment)
    blank = np.any(np.isnan(force), axis=1)
    for first, past in runs(blank):
        around = [force[i, 2] for i in (first - 1, past) if 0 <= i < len(force)]
        if any(load > threshold for load in around):
            raise InputError(
                f"{Path(files[0]).name}: the force of '{plate.name}' is blank under load, "
                f"from {time[first]:g} to {time[past - 1]:g} s"
            )
        force[first:past] = 0.0
    return replace(plate, force=force, free_moment=free)


def filtered(plate: PlateSignal, time: np.ndarray, low_pass: Butterworth, cop_threshold: float) -> PlateSignal:
    """Filter force and moment about a fixed point, and compute the CoP anew: a filtered CoP would not fit them."""
    known = np.all(np.isfinite(plate.cop), axis=1)
    loaded = plate.force[:, 2] > LEAST_LOAD
    if np.any(~known & (plate.force[:, 2] >= cop_threshold)):
        raise InputError(f"the CoP of '{plate.name}' is blank under load, so that its moments cannot be filtered")
    use = known & loaded
    if not np.any(use):
        return plate
    fixed = np.median(plate.cop[use], axis=0)
    x, y = (np.where(use, plate.cop[:, i] - fixed[i], 0.0) for i in (0, 1))
    fx, fy, fz = plate.force.T
    wrench = np.stack([fx, fy, fz, y * fz, -x * fz, x * fy - y * fx + plate.free_moment], axis=1)
    fx, fy, fz, mx, my, mz = low_pass(wrench, time).T
    load = np.where(fz > LEAST_LOAD, fz, 1.0)
    x, y = (np.where(fz > LEAST_LOAD, m / load, 0.0) for m in (-my, mx))
    return replace(
        plate,
        force=np.stack([fx, fy, fz], axis=1),
        cop=fixed + np.stack([x, y, np.zeros_like(x)], axis=1),
        free_moment=np.where(fz > LEAST_LOAD, mz - (x * fy - y * fx), 0.0),
    )


def turned(plate: PlateSignal, turn: np.ndarray) -> PlateSignal:
    """Return the plate in axes turned about the vertical."""
    corners = None if plate.corners is None else plate.corners @ turn.T
    return replace(plate, force=plate.force @ turn.T, cop=plate.cop @ turn.T, corners=corners)
