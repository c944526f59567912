"""The models, by name."""

from jaxcontact.errors import unknown
from jaxcontact.models.compass import COMPASS
from jaxcontact.models.crutch import CRUTCH
from jaxcontact.models.model import Model

MODELS: dict[str, Model] = {model.name: model for model in (CRUTCH, COMPASS)}


def get_model(name: str) -> Model:
    """The model of that name."""
    if name not in MODELS:
        raise unknown("model", name, MODELS)
    return MODELS[name]
