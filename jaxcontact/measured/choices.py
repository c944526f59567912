"""What a person may choose when a trial is read, with defaults; each is written into the provenance of the stances."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from jaxcontact.errors import InputError
from jaxcontact.measured.filtering import Butterworth

SIDES = ("R", "L")
FORWARD = ("auto", "x", "-x", "y", "-y")


@dataclass(frozen=True)
class Choices:
    """How to read a trial. Times in s, forces in N, speeds in m/s."""

    mass: float | None = None  # kg; estimated from the load where it is not given
    side: str | None = None  # only stances of this foot; and the foot of a file that does not say
    threshold: float = 20.0  # load above which the foot stands
    cop_threshold: float = 50.0  # load from which the CoP is trusted
    shortest: float = 0.2  # what is shorter is no stance
    bounce: float = 0.02  # an unloaded moment that is shorter does not end a stance
    margin: float = 0.1  # kept before and after a stance
    longest_gap: float = 0.1  # of a marker, to be bridged
    markers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    plates: Mapping[str, str] = field(default_factory=dict)  # plate -> side
    force_filter: Butterworth | None = None
    marker_filter: Butterworth | None = None
    axes: str = "auto"  # forward, left and up in terms of the file's axes
    forward: str = "auto"  # auto: the axis along which the feet point; an axis; or degrees anticlockwise from x
    belt_speed: float | str | None = None  # of a treadmill; "auto": how fast the flat foot moves back
    level: str = "file"  # "plate": heights are measured from the plates' surface
    baseline: bool = False  # C3D: subtract each channel's mean over the frames of FORCE_PLATFORM:ZERO

    def __post_init__(self) -> None:
        for name in ("threshold", "cop_threshold", "shortest", "bounce", "margin", "longest_gap"):
            value = getattr(self, name)
            if not np.isfinite(value) or value < 0:
                raise InputError(f"{name} = {value:g}: a number of at least 0 is needed")
        if self.threshold <= 0:
            raise InputError("threshold = 0: a load above 0 N is needed, as an unloaded plate never reads exactly 0")
        if self.mass is not None and not (np.isfinite(self.mass) and self.mass > 0):
            raise InputError(f"mass = {self.mass:g} kg: a number above 0 is needed")
        for side in (self.side, *self.plates.values()):
            if side is not None and side not in SIDES:
                raise InputError(f"side = {side!r} is not known\nallowed: {', '.join(SIDES)}")
        if self.level not in ("file", "plate"):
            raise InputError(f"level = {self.level!r} is not known\nallowed: file, plate")
        if isinstance(self.belt_speed, str) and self.belt_speed != "auto":
            raise InputError(f"belt_speed = {self.belt_speed!r}: a speed in m/s or auto is needed")
        if self.forward not in FORWARD:
            try:
                float(self.forward)
            except ValueError:
                raise InputError(
                    f"forward = {self.forward!r}: an angle in degrees or one of these is needed\n"
                    f"allowed: {', '.join(FORWARD)}"
                ) from None
