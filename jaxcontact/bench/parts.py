"""What `jaxcontact bench` consists of, by name: known before anything heavy is imported."""

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from jaxcontact.bench.rows import Part, Row


class Place(NamedTuple):
    """Where a part is measured: `function(tell, short=...)` in a module of this package gives a `Part`, or its rows."""

    module: str
    function: str
    words: str

    @property
    def exists(self) -> bool:
        """Whether there is such a module."""
        return importlib.util.find_spec(f"{__package__}.{self.module}") is not None

    def measure(self) -> "Callable[..., Part | Sequence[Row]]":
        """Import the function."""
        return getattr(importlib.import_module(f"{__package__}.{self.module}"), self.function)


# In the order in which they are run. Memory is told of the process as a whole: sweeps of a million come first.
_PLACES = {
    "scale": Place("sweep", "measure_scale", "cost from small sweeps to large ones, on one device and on all"),
    "peers": Place("precision", "measure_peers", "rate at equal error against numba, diffrax, scipy; fixed steps"),
    "compile": Place("compiling", "measure_compiling", "first calls in fresh processes"),
    "derivatives": Place("derivatives", "derivatives_part", "exact derivatives against plain runs and differences"),
    "prescribed": Place("prescribed", "measure_prescribed", "forces under given motions against numpy and numba"),
    "headlines": Place("headlines", "measure_headlines", "rolling surface and spheres, ellipsoids and points"),
    "float32": Place("single", "measure_single", "float32 against float64"),
    "fit": Place("fit", "fit_part", "fits against scipy's least_squares"),
    "accelerator": Place("accelerator", "measure_accelerator", "what a step's program asks of an accelerator"),
}
PARTS = {name: place for name, place in _PLACES.items() if place.exists}
DRAWN = "peers"  # the part that there is a figure of
