"""The models, by name."""

from collections.abc import Callable
from functools import lru_cache

from jaxcontact.errors import InputError, unknown
from jaxcontact.models.compass import COMPASS
from jaxcontact.models.crutch import CRUTCH
from jaxcontact.models.foot import foot_model
from jaxcontact.models.foot_space import foot_space_model
from jaxcontact.models.layout import Layout
from jaxcontact.models.layouts import LAYOUTS, NINE_SPHERES, THREE_SPHERES, get_layout
from jaxcontact.models.model import Model
from jaxcontact.models.rollover import rollover_model
from jaxcontact.models.stance import stance_model

# Models of a foot stand on a layout: "stance" on the one that is named here, "stance:points_31" on another.
_ON_A_LAYOUT: dict[str, tuple[Callable[[Layout], Model], Layout]] = {
    "foot": (foot_model, NINE_SPHERES),
    "foot_space": (foot_space_model, NINE_SPHERES),
    "rollover": (rollover_model, THREE_SPHERES),
    "stance": (stance_model, NINE_SPHERES),
}
MODELS: dict[str, Model] = {
    model.name: model for model in (CRUTCH, COMPASS, *(make(layout) for make, layout in _ON_A_LAYOUT.values()))
}


def get_model(name: str) -> Model:
    """The model of that name; a foot's may name a layout, or a file with one, after a colon."""
    if name in MODELS:
        return MODELS[name]
    first, colon, layout = name.partition(":")
    if colon and first in _ON_A_LAYOUT:
        return _on_layout(first, get_layout(layout))
    if colon and first in MODELS:
        raise InputError(f"model {first} has no layouts\nthose that have: {', '.join(_ON_A_LAYOUT)}")
    hint = [f"{each}:LAYOUT" for each in _ON_A_LAYOUT]
    raise unknown("model", name, [*MODELS, *hint, f"with LAYOUT one of {', '.join(LAYOUTS)}, or a .csv file"])


# The same object for the same name: lanes then use the program that they have.
@lru_cache(maxsize=32)
def _on_layout(name: str, layout: Layout) -> Model:
    make, usual = _ON_A_LAYOUT[name]
    return MODELS[name] if layout == usual else make(layout)
