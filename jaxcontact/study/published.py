"""What a published study hands back: labelled results, a table to print, and figures."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Published:
    """The outcome of a study in `sweeps/`. Figures are by file stem."""

    text: str
    dataset: "xr.Dataset | None" = None
    figures: "dict[str, Figure]" = field(default_factory=dict)
