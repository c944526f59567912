"""Force-plate and marker files: one stance phase in SI units and one frame."""

from jaxcontact.measured.choices import Choices
from jaxcontact.measured.csv_file import write_csv
from jaxcontact.measured.export import to_dataset
from jaxcontact.measured.heel_strikes import read_heel_pads, read_heel_strikes
from jaxcontact.measured.motion import foot_motion, load_at
from jaxcontact.measured.reading import read_stances, trials
from jaxcontact.measured.stance import Stance
from jaxcontact.measured.summary import estimate_mass, summary

__all__ = [
    "Choices",
    "Stance",
    "estimate_mass",
    "foot_motion",
    "load_at",
    "read_heel_pads",
    "read_heel_strikes",
    "read_stances",
    "summary",
    "to_dataset",
    "trials",
    "write_csv",
]
