"""Many experiments: describe a study, run it, keep the result."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxcontact.study.definition import Study, study
    from jaxcontact.study.folder import load
    from jaxcontact.study.sweep import run

__all__ = ["Study", "load", "run", "study"]

_HOMES = {"Study": "definition", "study": "definition", "load": "folder", "run": "sweep"}


def __getattr__(name: str) -> Any:
    """Import what needs JAX and xarray only when it is used: `jaxcontact list` should not wait for them."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
