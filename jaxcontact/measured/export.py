"""A stance as a labelled dataset, and as the columns of a tidy table."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from jaxcontact.measured.columns import QUANTITIES
from jaxcontact.measured.stance import Stance


def table_columns(stance: Stance, roles: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """Return the columns of the tidy table in their order; NaN where a value is not valid or a marker is not there."""
    roles = list(stance.markers) if roles is None else roles
    blank = np.full((len(stance.time), 3), np.nan)
    columns: dict[str, np.ndarray] = {
        "time": stance.time,
        "t_stance": stance.since_touch_down,
        "phase": stance.phase,
        "in_stance": stance.in_stance,
        "marker_frame": stance.marker_frame,
    }
    for role in roles:
        places = stance.markers.get(role, blank)
        columns |= {f"{role}_{letter}": places[:, i] for i, letter in enumerate("xyz")}
    columns |= {"foot_pitch": stance.pitch, "foot_pitch_raw": stance.pitch_raw}
    columns |= {name: stance.force[:, i] for i, name in enumerate(("Fx", "Fy", "Fz"))}

    def masked(values: np.ndarray) -> np.ndarray:
        return np.where(stance.cop_valid, values, np.nan)

    columns |= {"CoPx": masked(stance.cop[:, 0]), "CoPy": masked(stance.cop[:, 1]), "Tz": stance.free_moment}
    columns |= {
        "cop_valid": stance.cop_valid,
        "cop_along": masked(stance.cop_along),
        "cop_lat": masked(stance.cop_left),
    }
    in_foot = stance.cop_in_foot
    return columns | {"cop_foot_x": masked(in_foot[:, 0]), "cop_foot_z": masked(in_foot[:, 1])}


def to_dataset(stance: Stance) -> xr.Dataset:
    """Return the stance along `time`, with units; what is not valid is NaN, as labelled data have it."""
    dataset = xr.Dataset(attrs={"stance": stance.name, "side": stance.side})
    for name, values in table_columns(stance).items():
        unit, meaning = QUANTITIES.get(name, ("m", f"marker {name[:-2]}, {name[-1]}"))
        attributes = {"units": unit, "long_name": meaning}
        if name == "time":
            dataset = dataset.assign_coords(time=("time", values, attributes))
        elif name in ("t_stance", "phase"):
            dataset = dataset.assign_coords({name: ("time", values, attributes)})
        else:
            dataset[name] = ("time", values, attributes)
    provenance = stance.provenance
    dataset.attrs |= {
        "files": ", ".join(provenance.files),
        "plate": provenance.plate,
        "frame": provenance.frame,
        "threshold_N": provenance.threshold,
        "cop_threshold_N": provenance.cop_threshold,
        "force_filter": provenance.force_filter,
        "marker_filter": provenance.marker_filter,
        "belt_speed_m_per_s": provenance.belt_speed,
        "notes": "; ".join(provenance.notes),
    }
    if provenance.mass is not None:
        dataset.attrs |= {"mass_kg": provenance.mass, "mass_source": provenance.mass_source}
    return dataset
