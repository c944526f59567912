"""How far another tool's force is from ours, over what the fit went through."""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxcontact.study.fit.spheres import Spheres

# (depth, rate, slip) -> (F_n, drag), as the `..._force` functions of contact.bridges.
ToolForce = Callable[[Any, Any, Any], tuple[Any, Any]]


_ROUNDING = 1e-9  # of the peak


class Carried(NamedTuple):
    """A fit in another tool's words: the text of a file, and what the conversion costs, a sentence each."""

    text: str
    errors: tuple[str, ...]


class Difference(NamedTuple):
    """Largest and root-mean-square difference of two forces (N), and the largest of ours."""

    most: float
    rms: float
    peak: float

    def __str__(self) -> str:
        """In words: N, and percent of the peak."""
        if not self.peak > 0:
            return f"max {self.most:.3g} N, RMS {self.rms:.3g} N (ours is 0 everywhere)"
        if self.most <= _ROUNDING * self.peak:
            return f"none beyond rounding (peak {self.peak:.4g} N)"
        most, rms = (100.0 * part / self.peak for part in (self.most, self.rms))
        largest = f"max {self.most:.3g} N ({most:.2g} % of the peak of {self.peak:.4g} N)"
        return f"{largest}, RMS {self.rms:.3g} N ({rms:.2g} %)"


def difference(ours: np.ndarray, theirs: np.ndarray) -> Difference:
    """Compare two forces, sample by sample."""
    off = theirs - ours
    return Difference(float(np.max(np.abs(off))), float(np.sqrt(np.mean(off**2))), float(np.max(np.abs(ours))))


def compared(parts: Spheres, forces: Sequence[ToolForce], tool: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return sentences about the whole, and one about each sphere. Friction is compared where ours does not stick."""
    ours, theirs, each = [], [], []
    for sphere, force in zip(parts.spheres, forces, strict=True):
        s = sphere.states
        F_n, drag = (np.asarray(a) for a in force(*(jnp.asarray(a) for a in (s.depth, s.rate, s.slip))))
        moves = ~np.broadcast_to(s.sticks, s.F_n.shape)
        ours.append((s.F_n, np.where(moves, s.F_t, 0.0)))
        theirs.append((F_n, np.where(moves, -drag * s.slip, 0.0)))
        normal, friction = (difference(a, b) for a, b in zip(ours[-1], theirs[-1], strict=True))
        deepest = 1e3 * max(float(np.max(s.depth)), 0.0)
        each.append(f"{sphere.name}: normal {normal}; friction {friction}; deepest {deepest:.3g} mm")
    if parts.together:
        sums = (np.sum([pair[i] for pair in side], axis=0) for i in (0, 1) for side in (ours, theirs))
        a, b, c, d = sums
        normal, friction = difference(a, b), difference(c, d)
        of = "all spheres together, " if len(parts.spheres) > 1 else ""
    else:
        normal, friction = (
            max((difference(a[i], b[i]) for a, b in zip(ours, theirs, strict=True)), key=_share) for i in (0, 1)
        )
        of = "the worst sphere, "
    stuck = sum(int(np.sum(np.broadcast_to(sphere.states.sticks, sphere.states.F_n.shape))) for sphere in parts.spheres)
    where = f" (where ours does not stick: it does in {stuck} states)" if stuck else ""
    return (
        f"{tool} against ours, over {parts.visited}: normal force, {of}{normal}",
        f"friction{where}, {of}{friction}",
    ), tuple(each)


def _share(found: Difference) -> float:
    return found.rms / found.peak if found.peak > 0 else 0.0


def comment(text: str) -> str:
    """Return an XML comment; neither two hyphens together nor control characters may stand in one."""
    text = re.sub(r"[\x00-\x1f\x7f]+", " ", text)
    return f"<!-- {re.sub(r'-(?=-)', '- ', text)}{' ' if not text.endswith('-') else '. '}-->"
