"""Models under a measured motion by name: which model, and which measurement ([measured] in a file)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxcontact.errors import InputError, unknown
from jaxcontact.measured import Choices, Stance, read_heel_strikes, read_stances
from jaxcontact.models.layouts import get_layout
from jaxcontact.tracked.heel import heel_model
from jaxcontact.tracked.roll import roll_model
from jaxcontact.tracked.tracked import Tracked
from jaxcontact.tracked.walk import walk_model

KINDS = ("walk", "roll", "heel")
_ROLLS: Mapping[str, Mapping[str, Any]] = {"1": {"terms": 1}, "2": {"terms": 2}, "constrained": {"constrained": True}}
_NUMBERS = ("mass", "threshold", "cop_threshold")
_READING = (*_NUMBERS, "side", "belt_speed", "axes", "forward", "level")  # of measured.Choices


def tracked_model(name: str, measured: Mapping[str, Any] | None, folder: Path = Path()) -> Tracked:
    """Return the model of that name under the motion that a [measured] table names; files are found from `folder`.

    "walk" or "walk:LAYOUT": a sole under a measured stance. "roll:1", "roll:2", "roll:constrained": a rolling surface
    under its pitch. "heel": the pad under the heel's compression.
    """
    kind, _, variant = name.partition(":")
    if kind not in KINDS:
        raise unknown("model under a measured motion", name, KINDS)
    if not measured or "file" not in measured:
        raise InputError(f'model {name} follows a measured motion: [measured] must say which, as in file = "walk.csv"')
    files = measured["file"] if isinstance(measured["file"], (list, tuple)) else [measured["file"]]
    if not files:
        raise InputError("[measured] file = []: at least one file is needed")
    paths = [folder / str(file) for file in files]
    for path in paths:
        if not path.is_file():
            raise InputError(f"[measured] there is no file {path}")
    if kind == "heel":
        found = _heel(variant, measured, paths)
    else:
        found = _foot(kind, variant, measured, _stance(kind, measured, paths))
    # As it was written, so that the table can be written again and means the same.
    return found._replace(source={**found.source, "measured": dict(measured)})


def _foot(kind: str, variant: str, measured: Mapping[str, Any], stance: Stance) -> Tracked:
    frames = _frames(measured)
    if kind == "roll":
        if variant and variant not in _ROLLS:
            raise unknown("rolling surface", variant, _ROLLS, "roll:...")
        return roll_model(stance, **_ROLLS[variant or "1"], **frames)
    correction = measured.get("correction")
    if correction is not None and not isinstance(correction, Mapping):
        raise InputError(
            f"[measured] correction = {correction!r}: a table is needed, as in {{ height = 6, pitch = 6 }}"
        )
    return walk_model(stance, get_layout(variant or "nine_spheres"), **frames, correction=correction)


def _stance(kind: str, measured: Mapping[str, Any], paths: list[Path]) -> Stance:
    allowed = ("file", "stance", "frames", *(["correction"] if kind == "walk" else []), *_READING)
    _check_keys(measured, allowed)
    for name in _NUMBERS:
        if isinstance(measured.get(name, 0.0), bool) or not isinstance(measured.get(name, 0.0), (int, float)):
            raise InputError(f"[measured] {name} = {measured[name]!r}: a number is needed")
    stances = read_stances(paths, Choices(**{key: measured[key] for key in _READING if key in measured}))
    names = [stance.name for stance in stances]
    if "stance" not in measured:
        if len(stances) > 1:
            raise InputError(f"[measured] {paths[0].name} holds several stances: name one\nallowed: {', '.join(names)}")
        return stances[0]
    if measured["stance"] not in names:
        raise unknown("stance", str(measured["stance"]), names, "[measured]")
    return stances[names.index(measured["stance"])]


def _heel(variant: str, measured: Mapping[str, Any], paths: list[Path]) -> Tracked:
    if variant:
        raise InputError(f"model heel:{variant}: heel has no variants")
    _check_keys(measured, ("file", "subject", "trial", "frames"))
    strikes = [strike for path in paths for strike in read_heel_strikes(path)]
    chosen = [
        s for s in strikes if all(str(measured.get(k, getattr(s, k))) == getattr(s, k) for k in ("subject", "trial"))
    ]
    if len(chosen) != 1:
        listed = ", ".join(f"subject {s.subject} trial {s.trial}" for s in (chosen or strikes)[:6])
        raise InputError(
            f"[measured] subject and trial must name one heel strike, not {len(chosen)}; there are {listed}, ..."
        )
    return heel_model(chosen[0], **_frames(measured))


def _check_keys(measured: Mapping[str, Any], allowed: Sequence[str]) -> None:
    for key in measured:
        if key not in allowed:
            raise unknown("key", key, allowed, "[measured]")


def _frames(measured: Mapping[str, Any], least: int = 3) -> dict[str, Any]:
    """How many moments were asked for, if it was said."""
    if "frames" not in measured:
        return {}
    value = measured["frames"]
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"[measured] frames = {value!r}: a whole number of at least {least} is needed")
    return {"frames": value}
