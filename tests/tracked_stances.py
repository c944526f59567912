"""A stance of a rigid foot whose turns, places and loads are known formulas, as a file would give it."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxcontact.measured.stance import Provenance, Stance, find_foot_flat, flat_window

DATA = Path(__file__).parent.parent.parent / "shared" / "data"
ABSENT = "the measured data are not beside the project"

DURATION, MARGIN, RATE = 0.6, 0.05, 400
REST = np.array([0.18, 0.0, 0.0])  # from the heel marker to the ball at foot-flat, m
HEIGHT = 0.03  # of both above the floor
HALF_WIDTH = 0.04  # from the ball to the outermost heads
HEADING, PLACE = 0.4, np.array([0.7, -0.2])  # of the foot in the file's frame


class Known(NamedTuple):
    """Formulas of the right foot in the frame of its pose, at times since touch-down."""

    ball: np.ndarray  # m, (times, 3)
    turn: np.ndarray  # rad, (times, 3): roll, pitch, yaw
    force: np.ndarray  # N, (times, 3)
    cop: np.ndarray  # m, (times, 2)
    free_moment: np.ndarray  # N m


def known_at(time) -> Known:
    """Nothing turns and nothing moves between 30 and 60 % of the stance."""
    share = np.asarray(time) / DURATION
    early, late = np.clip(0.3 - share, 0, None) ** 3, np.clip(share - 0.6, 0, None) ** 3
    turn = np.stack([4 * early - 3 * late, -12 * early + 14 * late, -3 * early + 5 * late], axis=-1)
    ball = REST + [0, 0, HEIGHT] + np.stack([0.5 * late, -0.2 * late + 0.1 * early, 0.8 * early], axis=-1)
    hump = np.sin(np.pi * np.clip(share, 0, 1))
    force = np.stack([-90 * hump * np.cos(np.pi * share), 30 * hump, 800 * hump], axis=-1)
    cop = np.stack([0.02 + 0.2 * share, 0.01 * share - 0.004], axis=-1)
    return Known(ball, turn, force, cop, 4 * hump * np.sin(2 * np.pi * share))


def rotation(turn) -> np.ndarray:
    """Yaw about z after pitch about y after roll about x: matrices (..., 3, 3) of turns (..., 3)."""
    turn = np.asarray(turn)
    (cr, cp, cy), (sr, sp, sy) = np.moveaxis(np.cos(turn), -1, 0), np.moveaxis(np.sin(turn), -1, 0)
    zero, one = np.zeros_like(cr), np.ones_like(cr)

    def matrix(*rows):
        return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)

    x = matrix((one, zero, zero), (zero, cr, -sr), (zero, sr, cr))
    y = matrix((cp, zero, sp), (zero, one, zero), (-sp, zero, cp))
    z = matrix((cy, -sy, zero), (sy, cy, zero), (zero, zero, one))
    return z @ y @ x


def make_stance(side: str = "R", *, heads: tuple[str, str] | None = ("mt5", "mt1"), moved=None) -> Stance:
    """The stance in a file's frame. A left foot is the right one seen in a mirror.

    `heads` are the labels of the outermost markers, little toe first; None for a ball with one marker only. `moved` is
    a function of the time that says how far all markers are off (m, (times, 3)), along, to the big toe's side, up.
    """
    time = np.arange(round((DURATION + 2 * MARGIN) * RATE) + 1) / RATE
    since = time - MARGIN
    known = known_at(since)
    mirror = -1.0 if side == "L" else 1.0
    c, s = np.cos(HEADING), np.sin(HEADING)

    def filed(vectors, place=(0.0, 0.0)):
        x, y = vectors[..., 0], mirror * vectors[..., 1]
        turned = [c * x - s * y + place[0], s * x + c * y + place[1], *np.moveaxis(vectors[..., 2:], -1, 0)]
        return np.stack(turned, axis=-1)

    turned, off = rotation(known.turn), np.zeros((len(since), 3)) if moved is None else moved(since)
    across = turned @ [0.0, HALF_WIDTH, 0.0]
    markers = {"heel": known.ball - turned @ REST, "mtp": known.ball}
    if heads is not None:
        markers |= {heads[0]: known.ball - across, heads[1]: known.ball + across}
    markers = {name: filed(places + off, PLACE) for name, places in markers.items()}
    in_stance = (since > -1e-9) & (since < DURATION + 1e-9)
    loaded = in_stance & (known.force[:, 2] > 50)
    flat = find_foot_flat(markers, flat_window(markers, in_stance, markers["mtp"]), markers["mtp"])
    return Stance(
        name=f"{side}_known",
        side=side,
        time=time,
        in_stance=in_stance,
        marker_frame=np.ones(len(time), bool),
        markers=markers,
        force=filed(known.force) * in_stance[:, None],
        free_moment=mirror * known.free_moment * in_stance,
        cop=np.where(loaded[:, None], filed(known.cop, PLACE), 0.0),
        cop_valid=loaded,
        flat=flat,
        provenance=Provenance(files=("known.csv",), mass=70.0),
    )
