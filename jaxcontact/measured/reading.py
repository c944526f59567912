"""Files -> stances, whatever their format: the one function to call."""

from collections.abc import Sequence
from pathlib import Path

from jaxcontact.errors import InputError
from jaxcontact.measured.assemble import assemble
from jaxcontact.measured.c3d import read_c3d
from jaxcontact.measured.choices import Choices
from jaxcontact.measured.csv_file import read_csv
from jaxcontact.measured.recording import OPENSIM_AXES, Recording, turn_from_axes
from jaxcontact.measured.stance import Stance
from jaxcontact.measured.storage import plate_signals, read_storage, torque_notes
from jaxcontact.measured.summary import estimate_mass
from jaxcontact.measured.textfile import check_kind
from jaxcontact.measured.trc import read_trc

DEFAULT = Choices()


def trials(files: Sequence[Path | str]) -> list[tuple[Path, ...]]:
    """Group files into trials: a storage and a marker file belong together, any other file is a trial by itself."""
    paths = [Path(file) for file in files]
    if not paths:
        raise InputError("no file was given")
    kinds = [check_kind(path) for path in paths]
    forces = [path for path, kind in zip(paths, kinds, strict=True) if kind in (".mot", ".sto")]
    markers = [path for path, kind in zip(paths, kinds, strict=True) if kind == ".trc"]
    if len(forces) != len(markers) or len(forces) > 1:
        have = f"{len(forces)} with forces (.mot, .sto) and {len(markers)} with markers (.trc)"
        raise InputError(f"one file with forces and one with markers belong together; there are {have}")
    alone = [(path,) for path, kind in zip(paths, kinds, strict=True) if kind in (".csv", ".c3d")]
    return ([(forces[0], markers[0])] if forces else []) + alone


def read_stances(files: Sequence[Path | str], choices: Choices = DEFAULT) -> list[Stance]:
    """Return the stances of one trial (one .csv or .c3d, or a .mot/.sto with its .trc), in SI units and our axes.

    The mass is the one given, or the one in the file, or estimated from the load of several steps, or left unknown;
    `provenance.mass_source` says which.
    """
    found = trials(files)
    if len(found) > 1:
        raise InputError(f"{len(found)} trials were given; read them one at a time")
    mass, source = choices.mass, "given"
    if found[0][0].suffix.lower() == ".csv":
        stances = read_csv(found[0][0], choices)
    else:
        recording = _recording(found[0], choices)
        stances = assemble(recording, choices)
        if mass is None and recording.mass is not None:
            mass, source = recording.mass, recording.mass_source
    if mass is None and (estimate := estimate_mass(stances)):
        mass, source = estimate
    return stances if mass is None else [stance.with_mass(mass, source) for stance in stances]


def _recording(paths: tuple[Path, ...], choices: Choices) -> Recording:
    if paths[0].suffix.lower() == ".c3d":
        return read_c3d(paths[0], axes=choices.axes, baseline=choices.baseline)
    axes = OPENSIM_AXES if choices.axes == "auto" else choices.axes
    turn = turn_from_axes(axes)
    forces, markers = read_storage(paths[0]), read_trc(paths[1])
    if forces.time[0] >= markers.time[-1] or markers.time[0] >= forces.time[-1]:
        raise InputError(
            f"{paths[0].name} runs from {forces.time[0]:g} to {forces.time[-1]:g} s and {paths[1].name} from "
            f"{markers.time[0]:g} to {markers.time[-1]:g} s: they are not of the same trial"
        )
    return Recording(
        files=tuple(path.name for path in paths),
        time=forces.time,
        plates=plate_signals(forces, turn),
        marker_time=markers.time,
        markers={name: places @ turn.T for name, places in markers.markers.items()},
        axes=axes,
        notes=torque_notes(forces, turn, choices.cop_threshold),
    )
