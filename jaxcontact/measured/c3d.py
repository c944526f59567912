"""C3D files: markers and force plates, read with ezc3d (an extra), computed here.

Positive is whatever makes the load push the foot up: no parameter says whether a plate's signals are the force on the
plate or on the foot. Up is the axis of the file nearest to the plates' normal, on the side where the markers are.
"""

from pathlib import Path
from typing import Any

import numpy as np

from jaxcontact.errors import InputError
from jaxcontact.measured.force_plate import CHANNELS, Plate, surface_load, to_surface
from jaxcontact.measured.recording import PlateSignal, Recording, axes_with_up, turn_from_axes
from jaxcontact.measured.trc import LENGTHS

_FORCES = {"": 1.0, "N": 1.0, "NEWTON": 1.0, "NEWTONS": 1.0, "KN": 1e3}
BLOCK = 512  # bytes
LONGEST = 65535  # frames that the header can count


def read_c3d(path: Path, *, axes: str = "auto", baseline: bool = False) -> Recording:
    """Read a C3D file. `baseline` subtracts each channel's mean over the frames that FORCE_PLATFORM:ZERO names."""
    _check_length(path)
    content = _open(path)
    point, unit = _group(content, "POINT", path), _length_unit(content, path)
    rate = float(np.ravel(_value(point, "RATE", [0.0]))[0])
    if rate <= 0:
        raise InputError(f"{path}: POINT:RATE is {rate:g}; a rate in Hz is needed")
    markers = _markers(content, unit)
    frames = content["data"]["points"].shape[2]
    plates, notes = _plates(content, path, unit, baseline, frames)
    if axes == "auto":
        axes = _axes(path, [plate for plate, _ in plates], markers)
    turn = turn_from_axes(axes)
    signals = []
    for number, (plate, load) in enumerate(plates, 1):
        signals.append(_signal(plate, load, turn, number))
    count = len(signals[0].force)
    samples_per_frame = max(count // max(frames, 1), 1)
    processing = content["parameters"]["PROCESSING"] if "PROCESSING" in content["parameters"] else {}
    mass = next((float(np.ravel(v["value"])[0]) for k, v in processing.items() if k.upper() == "BODYMASS"), 0.0)
    return Recording(
        files=(path.name,),
        time=np.arange(count) / (rate * samples_per_frame),
        plates=tuple(signals),
        marker_time=np.arange(frames) / rate,
        markers={name: places @ turn.T for name, places in markers.items()},
        axes=axes,
        mass=mass if mass > 0 else None,
        mass_source="PROCESSING:BODYMASS of the file",
        notes=tuple(notes),
    )


# ---------------------------------------------------------------- the file


def _open(path: Path) -> Any:
    try:
        import ezc3d
    except ImportError:
        raise InputError("a C3D file needs ezc3d: pip install 'jaxcontact[c3d]'") from None
    try:
        return ezc3d.c3d(str(path))
    except Exception as error:  # whatever goes wrong in there is a fault of the file
        reason = " ".join(str(error).split())
        raise InputError(f"{path} cannot be read as C3D: {reason}") from None


def _check_length(path: Path) -> None:
    """Refuse a file that is shorter than its header says: the reader would fill what is missing with zeros."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        start, head = stream.read(BLOCK), b""
        if len(start) == BLOCK and 1 <= start[0]:
            stream.seek(BLOCK * (start[0] - 1))
            head = stream.read(4)
    if len(start) < BLOCK or len(head) < 4:
        raise InputError(f"{path}: {size} bytes; the file is cut short in its header")
    # The fourth byte of the parameters tells whose order the bytes have: 84 Intel, 85 DEC, 86 MIPS.
    order = ">" if head[3] == 86 else "<"
    words = np.frombuffer(start, dtype=f"{order}u2")
    points, analog, first, last = (int(words[i]) for i in (1, 2, 3, 4))
    scale = start[12:16] if head[3] != 85 else start[14:16] + start[12:14]  # DEC swaps the halves of a number
    data, frames = int(words[8]), last - first + 1
    bytes_each = 4 if np.frombuffer(scale, dtype=f"{order}f4")[0] < 0 else 2  # a negative scale: stored as floats
    if last < LONGEST and frames > 0 and data > 1:
        needed = BLOCK * (data - 1) + frames * bytes_each * (4 * points + analog)
        if size < needed:
            raise InputError(f"{path}: {size} bytes, but the header needs {needed}; the file is cut short")


def _group(content: Any, name: str, path: Path) -> Any:
    if name not in content["parameters"]:
        raise InputError(f"{path}: the file has no group {name}")
    return content["parameters"][name]


def _value(group: Any, name: str, default: Any = None) -> Any:
    found = group[name]["value"] if name in group else None
    return default if found is None or len(found) == 0 else found


def _length_unit(content: Any, path: Path) -> float:
    text = str(_value(_group(content, "POINT", path), "UNITS", ["mm"])[0]).strip().lower()
    if text not in LENGTHS:
        raise InputError(f"{path}: POINT:UNITS is {text!r}\nallowed: {', '.join(LENGTHS)}")
    return LENGTHS[text]


def _markers(content: Any, unit: float) -> dict[str, np.ndarray]:
    """Return the markers (frames, 3) in m by label; NaN where the residual says that a point was not seen."""
    point = content["parameters"]["POINT"]
    labels = [str(name).strip() for key in ("LABELS", "LABELS2", "LABELS3") for name in _value(point, key, [])]
    places = np.array(content["data"]["points"][:3], dtype=float) * unit
    unseen = np.array(content["data"]["meta_points"]["residuals"][0]) < 0
    places[:, unseen | np.any(np.isnan(places), axis=0) | np.all(places == 0, axis=0)] = np.nan
    return {name: places[:, i].T for i, name in enumerate(labels[: places.shape[1]]) if name}


# ---------------------------------------------------------------- plates


def _plates(content: Any, path: Path, unit: float, baseline: bool, frames: int) -> tuple[list, list[str]]:
    """Return each plate with its force, CoP and free moment in the file's axes, and remarks."""
    group = content["parameters"]["FORCE_PLATFORM"] if "FORCE_PLATFORM" in content["parameters"] else {}
    used = int(np.ravel(_value(group, "USED", [0]))[0])
    if used < 1:
        raise InputError(f"{path}: the file has no force plates (FORCE_PLATFORM:USED is 0 or missing)")
    needed = ("TYPE", "CORNERS", "ORIGIN", "CHANNEL")
    if missing := [name for name in needed if _value(group, name) is None]:
        raise InputError(f"{path}: FORCE_PLATFORM has no {', '.join(missing)}")
    analogs = np.asarray(content["data"]["analogs"])[0].T
    if baseline:
        analogs = analogs - _baseline(analogs, group, frames, path)
    plates, notes = [], []
    for number in range(used):
        try:
            plate, remarks = _plate(group, number, unit)
            channels = _channels(content, group, plate.kind, number, analogs, unit)
        except IndexError:
            raise InputError(f"{path}, plate {number + 1}: FORCE_PLATFORM has too few values for it") from None
        except InputError as error:
            raise InputError(f"{path}, plate {number + 1}: {error}") from None
        plates.append((plate, surface_load(plate, channels)))
        notes += [f"plate {number + 1}: {remark}" for remark in remarks]
    return plates, notes


def _plate(group: Any, number: int, unit: float) -> tuple[Plate, list[str]]:
    kind = int(np.ravel(group["TYPE"]["value"])[number])
    remarks = []
    origin = np.asarray(group["ORIGIN"]["value"], dtype=float).reshape(3, -1)[:, number] * unit
    origin, turned = to_surface(origin, kind)
    if turned:
        remarks.append("ORIGIN had a positive z, and was reversed")
    matrix = np.eye(6)
    if kind == 4:
        stored = _value(group, "CAL_MATRIX")
        if stored is None:
            raise InputError("a plate of type 4 needs CAL_MATRIX")
        matrix = np.asarray(stored, dtype=float)[:6, :6, number].copy()
        matrix[3:] *= unit  # moments come in N times the unit of length
    if kind == 3 and np.any(np.asarray(_value(group, "FPCOPPOLY", [0.0])) != 0):
        remarks.append("the maker's polynomial for the CoP (FPCOPPOLY) is not applied")
    corners = np.asarray(group["CORNERS"]["value"], dtype=float)[:, :, number].T * unit
    return Plate(kind, corners, origin, matrix), remarks


def _channels(content: Any, group: Any, kind: int, number: int, analogs: np.ndarray, unit: float) -> np.ndarray:
    """Return the plate's channels in N and, for type 2, N m."""
    listed = np.asarray(group["CHANNEL"]["value"]).astype(int)
    places = listed.reshape(listed.shape[0], -1)[: CHANNELS[kind], number] - 1  # counted from 1
    if len(places) < CHANNELS[kind] or np.any(places < 0) or np.any(places >= analogs.shape[1]):
        raise InputError(
            f"CHANNEL names {places + 1} of {analogs.shape[1]} analog channels; type {kind} needs {CHANNELS[kind]}"
        )
    values = analogs[:, places]
    if kind == 4:
        return values  # volts, of which the matrix makes forces
    units = [str(text) for text in _value(content["parameters"]["ANALOG"], "UNITS", [])]
    texts = [units[i] if i < len(units) else "" for i in places]
    forces = 8 if kind == 3 else 3
    factors = [_force_factor(text) for text in texts[:forces]] + [_moment_factor(t, unit) for t in texts[forces:]]
    return values * factors


def _force_factor(text: str) -> float:
    key = text.strip().upper()
    if key not in _FORCES:
        raise InputError(f"a force channel is in {text.strip()!r}; N or kN is needed")
    return _FORCES[key]


def _moment_factor(text: str, unit: float) -> float:
    """Return N m per stored unit; without a stated one moments are in N times the unit of length, as the guide asks."""
    key = "".join(letter for letter in text.upper() if letter.isalpha())
    known = {"": unit, "NM": 1.0, "NMM": 1e-3, "NCM": 1e-2, "KNM": 1e3}
    if key not in known:
        raise InputError(f"a moment channel is in {text.strip()!r}; N m, N cm or N mm is needed")
    return known[key]


def _baseline(analogs: np.ndarray, group: Any, frames: int, path: Path) -> np.ndarray:
    first, last = (int(i) for i in np.ravel(_value(group, "ZERO", [0, 0]))[:2])
    if last < 1 or last > frames or first > last:
        raise InputError(
            f"{path}: FORCE_PLATFORM:ZERO is {first}, {last}; frames without load are needed for a baseline"
        )
    per_frame = len(analogs) // frames
    return analogs[(max(first, 1) - 1) * per_frame : last * per_frame].mean(axis=0)


# ---------------------------------------------------------------- axes and signs


def _axes(path: Path, plates: list[Plate], markers: dict[str, np.ndarray]) -> str:
    """Return our axes in terms of the file's, from the plates' normal and from where the markers are."""
    normal = plates[0].axes[:, 2]
    axis = int(np.argmax(np.abs(normal)))
    if np.abs(normal[axis]) < np.cos(np.radians(10)):
        raise InputError(f"{path}: the first plate is not level along any axis of the file; say which with --axes")
    height = -np.sign(normal[axis])  # the plate's z points into the floor, unless markers say otherwise
    seen = np.concatenate([places[~np.isnan(places[:, 0])] for places in markers.values()] or [np.zeros((0, 3))])
    if len(seen):
        above = np.median(seen[:, axis]) - plates[0].middle[axis]
        height = np.sign(above) or height
    return axes_with_up(axis, float(height))


def _signal(plate: Plate, load: tuple, turn: np.ndarray, number: int) -> PlateSignal:
    force, place, free = load
    force, up = force @ turn.T, float(np.sign((plate.axes @ [0, 0, 1]) @ turn[2]))
    free = free * up  # about our z instead of the plate's
    biggest = int(np.argmax(np.abs(force[:, 2])))
    sign = -1.0 if force[biggest, 2] < 0 else 1.0
    return PlateSignal(
        name=f"plate{number}",
        side="",
        force=sign * force,
        cop=place @ turn.T,
        free_moment=sign * free,
        corners=plate.corners @ turn.T,
    )
