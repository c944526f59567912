"""Many experiments: describe a study, run it, keep the result."""

from typing import TYPE_CHECKING, Any

from jaxcontact.study.study import Study, study

if TYPE_CHECKING:
    from jaxcontact.study.store import load
    from jaxcontact.study.sweep import run

__all__ = ["Study", "load", "run", "study"]


def __getattr__(name: str) -> Any:
    """Import what needs JAX and xarray only when it is used: `jaxcontact list` should not wait for them."""
    if name == "run":
        from jaxcontact.study.sweep import run

        return run
    if name == "load":
        from jaxcontact.study.store import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
