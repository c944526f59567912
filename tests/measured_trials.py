"""A made-up stance of known force, CoP, free moment and foot pose, and files of each format that hold it.

Ours: x forward, y left, z up. The foot rolls over heel and ball, which do not slip; the right one unless `left`.
"""

import csv
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

FORCE_RATE, CAMERA_RATE = 1000, 100
TOUCH, LEAVE, END = 0.2, 0.9, 1.2
HEEL, LENGTH, HEIGHT = np.array([0.10, -0.05]), 0.18, 0.03


@dataclass
class Trial:
    time: np.ndarray
    force: np.ndarray
    cop: np.ndarray  # (rows, 3)
    free_moment: np.ndarray
    marker_time: np.ndarray
    markers: dict[str, np.ndarray] = field(default_factory=dict)


def pitch_at(time):
    """0 over the middle, the toes up by 0.3 at touch-down, the heel up by 0.8 at the end."""
    share = np.clip((time - TOUCH) / (LEAVE - TOUCH), -0.2, 1.2)
    return -0.3 * np.clip(1 - share / 0.2, 0, None) ** 3 + 0.8 * np.clip((share - 0.5) / 0.5, 0, None) ** 3


def make_trial(*, left=False, delay=0.0, shift=0.0, scale=1.0):
    """Return a trial; `delay` (s) and `shift` (m, forward) move the stance in time and space."""
    time = np.arange(round(FORCE_RATE * (END + delay))) / FORCE_RATE
    share = np.clip((time - delay - TOUCH) / (LEAVE - TOUCH), 0, 1)
    hump = np.sin(np.pi * share)
    side = -1.0 if left else 1.0
    force = scale * np.stack(
        [-150 * hump * np.cos(np.pi * share), side * 30 * hump, 900 * hump**0.7 * (1 - 0.3 * hump**4)], axis=1
    )
    middle = np.array([HEEL[0] + shift, side * HEEL[1]])
    cop = np.stack([middle[0] + 0.02 + 0.2 * share, middle[1] + side * 0.01 * share, np.zeros_like(share)], axis=1)
    free = side * 4 * hump * np.sin(2 * np.pi * share)
    clock = np.arange(round(CAMERA_RATE * (END + delay))) / CAMERA_RATE
    pitch = pitch_at(clock - delay)
    # Heel down: it turns about the heel; heel up: about the ball.
    ball = np.stack([middle[0] + LENGTH * np.cos(np.minimum(pitch, 0)), -LENGTH * np.sin(np.minimum(pitch, 0))], axis=1)
    ball[pitch > 0] = [middle[0] + LENGTH, 0]
    heel = ball - LENGTH * np.stack([np.cos(pitch), -np.sin(pitch)], axis=1)
    letter = "L" if left else "R"

    def marker(line, y):
        return np.stack([line[:, 0], np.full(len(clock), middle[1] + side * y), HEIGHT + line[:, 1]], axis=1)

    markers = {
        f"{letter}HEE": marker(heel, 0.0),
        f"{letter}MT1": marker(ball, 0.04),
        f"{letter}MT5": marker(ball, -0.04),
        "HEAD": np.tile([0.0, 0.0, 1.7], (len(clock), 1)),
    }
    return Trial(time, force, cop, free, clock, markers)


# ---------------------------------------------------------------- text


def write_table(path: Path, trial: Trial, *, lengths=("", 1.0), extra=()):
    """A table of one's own: the markers at every row, lengths in another unit if asked."""
    unit, factor = lengths
    columns = {"time": trial.time}
    columns |= {name: trial.force[:, i] for i, name in enumerate(("Fx", "Fy", "Fz"))}
    columns |= {f"{name}{unit}": trial.cop[:, i] * factor for i, name in enumerate(("CoPx", "CoPy"))}
    columns["Tz"] = trial.free_moment
    for role, name in (("heel", "RHEE"), ("mt1", "RMT1"), ("mt5", "RMT5")):
        for i, letter in enumerate("xyz"):
            places = np.interp(trial.time, trial.marker_time, trial.markers[name][:, i])
            columns[f"{role}_{letter}{unit}"] = places * factor
    columns |= dict(extra)
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def write_mot(path: Path, trials, stems=("ground_force_r",), *, rows=None):
    """Forces in OpenSim's axes: x forward, y up, z right."""
    columns = {"time": trials[0].time}
    for stem, trial in zip(stems, trials, strict=True):
        torque = stem.replace("force", "torque")
        columns |= {f"{stem}_v{c}": trial.force @ row for c, row in zip("xyz", OPENSIM, strict=True)}
        columns |= {f"{stem}_p{c}": trial.cop @ row for c, row in zip("xyz", OPENSIM, strict=True)}
        zero = np.zeros_like(trial.free_moment)
        columns |= {f"{torque}_x": zero, f"{torque}_y": trial.free_moment, f"{torque}_z": zero}
    lines = [
        f"forces\nversion=1\nnRows={rows or len(trials[0].time)}\nnColumns={len(columns)}\ninDegrees=yes\nendheader"
    ]
    lines.append("\t".join(columns))
    lines += ["\t".join(repr(float(v)) for v in row) for row in zip(*columns.values(), strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return path


OURS = np.eye(3)
OPENSIM = np.array([[1.0, 0, 0], [0, 0, 1.0], [0, -1.0, 0]])  # the file's axes in ours


def write_trc(path: Path, trial: Trial, *, frames=None, units="mm"):
    factor = {"mm": 1e3, "m": 1.0}[units]
    names, count = list(trial.markers), len(trial.marker_time)
    lines = [
        f"PathFileType\t4\t(X/Y/Z)\t{path.name}",
        "DataRate\tCameraRate\tNumFrames\tNumMarkers\tUnits\tOrigDataRate\tOrigDataStartFrame\tOrigNumFrames",
        f"{CAMERA_RATE}\t{CAMERA_RATE}\t{frames or count}\t{len(names)}\t{units}\t{CAMERA_RATE}\t1\t{count}",
        "Frame#\tTime\t" + "\t\t\t".join(names) + "\t\t",
        "\t\t" + "\t".join(f"{c}{i + 1}" for i in range(len(names)) for c in "XYZ"),
        "",
    ]
    for i, moment in enumerate(trial.marker_time):
        cells = [str(i + 1), f"{moment:.2f}"]
        for name in names:
            place = OPENSIM @ trial.markers[name][i] * factor
            cells += ["" if np.isnan(v) else repr(float(v)) for v in place]
        lines.append("\t".join(cells))
    path.write_text("\n".join(lines) + "\n")
    return path


# ---------------------------------------------------------------- C3D


@dataclass
class PlateMade:
    """A force plate as a laboratory would set it up; lengths in m, `lab` turns our axes into the file's."""

    kind: int = 2
    middle: tuple = (0.2, -0.05, 0.0)
    size: tuple = (0.6, 0.4)
    turn: float = 0.0  # of the plate's x axis about the vertical
    origin: tuple = (0.003, -0.002, -0.04)  # of types 2 and 4: sensors to surface, in the plate's axes
    action: bool = False  # the signals are the force on the plate
    upside: bool = False  # corners numbered so that the plate's z points up

    @property
    def axes(self):
        c, s = np.cos(self.turn), np.sin(self.turn)
        x = np.array([c, s, 0.0])
        z = np.array([0.0, 0.0, 1.0 if self.upside else -1.0])
        return np.stack([x, np.cross(z, x), z], axis=1)

    @property
    def corners(self):
        half = np.array(self.size) / 2
        signs = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]])
        return np.array(self.middle) + (signs * half) @ self.axes[:, :2].T


def channels(plate: PlateMade, trial: Trial, matrix):
    """What the sensors measure, by statics alone: forces in N, moments about their origin in N mm."""
    sign = -1.0 if plate.action else 1.0
    force = sign * trial.force @ plate.axes
    twist = sign * trial.free_moment[:, None] * np.array([0.0, 0.0, 1.0]) @ plate.axes
    depth = np.array([0, 0, plate.origin[2]]) if plate.kind == 3 else np.array(plate.origin)
    arm = depth + (trial.cop - np.array(plate.middle)) @ plate.axes
    moment = np.cross(arm, force) + twist
    if plate.kind == 3:
        a, b = plate.origin[:2]
        (fx, fy, fz), (mx, my, mz) = force.T, moment.T
        corner = [fz / 4 + sy * mx / (4 * b) - sx * my / (4 * a) for sx, sy in ((1, 1), (-1, 1), (-1, -1), (1, -1))]
        return np.stack([fx / 2 - mz / (2 * b), fx / 2 + mz / (2 * b), fy / 2, fy / 2, *corner], axis=1)
    values = np.hstack([force, 1e3 * moment])
    return np.linalg.solve(matrix, values.T).T if plate.kind == 4 else values


def write_c3d(path: Path, trials, plates, *, lab=OURS, units="mm", zero=(0, 0), offset=0.0, mass=None, **replaced):
    """Write markers of all trials, and one plate each. `replaced` are FORCE_PLATFORM parameters put in their place."""
    import ezc3d

    factor = {"mm": 1e3, "m": 1.0}[units]
    content = ezc3d.c3d()
    markers = {name: places for trial in trials for name, places in trial.markers.items()}
    points = np.ones((4, len(markers), len(trials[0].marker_time)))
    for i, places in enumerate(markers.values()):
        points[:3, i] = factor * (lab @ places.T)
    content["parameters"]["POINT"]["RATE"]["value"] = [CAMERA_RATE]
    content["parameters"]["POINT"]["LABELS"]["value"] = tuple(markers)
    content["parameters"]["POINT"]["UNITS"]["value"] = [units]
    matrix = np.eye(6) + 0.05 * np.random.default_rng(3).normal(size=(6, 6)) * np.array([1, 1, 1, 0.01, 0.01, 0.01])
    signals = [channels(plate, trial, matrix) for plate, trial in zip(plates, trials, strict=True)]
    content["parameters"]["ANALOG"]["RATE"]["value"] = [FORCE_RATE]
    count = sum(signal.shape[1] for signal in signals)
    content["parameters"]["ANALOG"]["LABELS"]["value"] = tuple(f"C{i}" for i in range(count))
    names = {2: ("N",) * 3 + ("Nmm",) * 3, 3: ("N",) * 8, 4: ("V",) * 6}
    content["parameters"]["ANALOG"]["UNITS"]["value"] = tuple(u for plate in plates for u in names[plate.kind])
    content["data"]["points"] = points
    content["data"]["analogs"] = np.hstack(signals).T[None] + offset
    _add_plates(content, plates, signals, lab, factor, matrix, zero, replaced)
    if mass:
        content.add_parameter("PROCESSING", "Bodymass", [mass])
    content.write(str(path))
    return path


def _add_plates(content, plates, signals, lab, factor, matrix, zero, replaced):
    width = max(signal.shape[1] for signal in signals)
    numbers, start = np.zeros((width, len(plates)), dtype=int), 1
    for i, signal in enumerate(signals):
        numbers[: signal.shape[1], i] = np.arange(start, start + signal.shape[1])
        start += signal.shape[1]
    # The matrix makes N and N times the unit of length.
    scaled = np.diag([1, 1, 1, *3 * [factor / 1e3]]) @ matrix
    values = {
        "USED": [len(plates)],
        "TYPE": [plate.kind for plate in plates],
        "ZERO": list(zero),
        "CORNERS": factor * np.stack([(plate.corners @ lab.T).T for plate in plates], axis=2),
        "ORIGIN": factor * np.stack([np.array(plate.origin, dtype=float) for plate in plates], axis=1),
        "CHANNEL": numbers,
        "CAL_MATRIX": np.stack([scaled] * len(plates), axis=2),
    }
    for name, value in {**values, **replaced}.items():
        if value is not None:
            _add_parameter(content, name, np.asarray(value))


def _add_parameter(content, name, value):
    """Whole numbers as such: the convenience of ezc3d would store them as floats."""
    group = content["parameters"]["FORCE_PLATFORM"]
    content.add_parameter("FORCE_PLATFORM", name, value.astype(float))
    if np.issubdtype(value.dtype, np.integer):
        group[name] |= {"type": 2, "value": value}
