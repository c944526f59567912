"""What happened in a run, in a person's words, as far as a model's modes and regimes tell."""

from collections.abc import Mapping

import numpy as np
from jax.lax import population_count

from jaxcontact.contact.friction import STICK
from jaxcontact.integrate.history import Kinds
from jaxcontact.models.model import Model

MEANINGS: Mapping[str, Kinds] = {
    # One contact with dry friction: the mode is the way it slides, 0 where it sticks (`contact.friction`).
    "slip": {
        "sliding turned into sticking": lambda before, after: (before != STICK) & (after == STICK),
        "sticking turned into sliding": lambda before, after: (before == STICK) & (after != STICK),
        "sliding turned back": lambda before, after: before * after < 0,
    },
    # Many elements: bit i of the mode says whether element i is down (`models.touchdown`).
    "elements": {
        "touch-downs": lambda before, after: population_count(after & ~before),
        "lift-offs": lambda before, after: population_count(before & ~after),
    },
    # A foot on a rolling surface: bits say on which side, and whether the ground pulls or holds (`models.roller`).
    "rolling": {
        "passages from one side of the surface to the other": lambda before, after: (before ^ after) & 1,
        "begins or ends of pulling or slipping": lambda before, after: population_count((before ^ after) >> 1),
    },
}


def what_modes_mean(model: Model, method: str) -> str:
    """The one of MEANINGS that suits a model."""
    if _labels(model):
        return "slip"
    return "rolling" if method == "rolling" else "elements"


def regimes(model: Model, outcomes: Mapping[str, np.ndarray]) -> dict[str, int]:
    """How many runs of a model of single impacts had each regime; nothing for other models."""
    codes = outcomes.get("regime", np.zeros(0, int))
    return {label: int(np.sum(codes == code)) for code, label in enumerate(_labels(model)) if np.any(codes == code)}


def _labels(model: Model) -> tuple[str, ...]:
    return next((q.labels for q in model.outcomes if q.name == "regime"), ())
