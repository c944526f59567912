"""Where stances begin and end: the load crosses a threshold."""

from dataclasses import dataclass

import numpy as np

from jaxcontact.measured.filtering import runs


@dataclass(frozen=True)
class Cuts:
    """Stances as pairs (first row, one past the last), and how many were left out, and why."""

    stances: tuple[tuple[int, int], ...]
    open_ended: int  # already loaded at the first row, or still at the last
    too_short: int


def cut(load: np.ndarray, time: np.ndarray, *, threshold: float, shortest: float, bounce: float) -> Cuts:
    """Return the stretches where the load (N) is above the threshold.

    An unloaded stretch shorter than `bounce` (s) between two loaded ones does not end a stance: the signal only grazed
    the threshold. What is then shorter than `shortest` (s) is no stance. One that the recording does not hold whole
    is left out, as its touch-down or its end is not known.
    """
    loaded = load > threshold
    for first, past in runs(~loaded):
        if first > 0 and past < len(load) and time[past] - time[first] < bounce:
            loaded[first:past] = True
    whole, open_ended, too_short = [], 0, 0
    for first, past in runs(loaded):
        if first == 0 or past == len(load):
            open_ended += 1
        elif time[past - 1] - time[first] < shortest:
            too_short += 1
        else:
            whole.append((first, past))
    return Cuts(tuple(whole), open_ended, too_short)
