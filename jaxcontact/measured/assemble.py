"""A recorded trial -> its stances: cut by the load, foot by foot, forward along x."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from jaxcontact.errors import InputError, unknown
from jaxcontact.measured.choices import Choices
from jaxcontact.measured.cutting import cut
from jaxcontact.measured.feet import NEEDED, Foot, Track, camera_rows, distance_to_foot, feet_on_clock
from jaxcontact.measured.filtering import runs
from jaxcontact.measured.markers import find_roles
from jaxcontact.measured.plate_signals import cleaned, filtered, turned
from jaxcontact.measured.recording import PlateSignal, Recording, heading_turn
from jaxcontact.measured.stance import Provenance, Stance, find_foot_flat, flat_window

FAR = 0.25  # m, a CoP that is farther from a foot is not under it
NOTE_HEIGHT = 1e-3  # m


@dataclass(frozen=True, eq=False)
class _Contact:
    """A stance that was found: on which plate, from which row to which, and of which foot."""

    plate: PlateSignal
    first: int
    past: int
    side: str
    notes: tuple[str, ...] = ()


def assemble(recording: Recording, choices: Choices) -> list[Stance]:
    """Return the stances of a trial in the order of their touch-downs; one without any is an error that says why."""
    plates = [_prepared(plate, recording, choices) for plate in recording.plates]
    roles = recording.roles or find_roles(recording.markers, choices.markers)
    feet = feet_on_clock(recording, roles, longest_gap=choices.longest_gap, low_pass=choices.marker_filter)
    contacts, reasons = _contacts(plates, feet, recording, choices)
    angle, frame_notes = _forward(contacts, feet, recording, choices)
    if angle != 0:
        turn = heading_turn(angle)
        feet = {side: _turned(foot, turn) for side, foot in feet.items()}
        contacts = [replace(contact, plate=turned(contact.plate, turn)) for contact in contacts]
    frame = f"axes {recording.axes} of the file, forward {np.degrees(angle):g} deg from their x"
    belt = _belt_speed(contacts, feet, recording.time, choices)
    cameras, stances = camera_rows(recording.marker_time, recording.time), []
    for contact in contacts:
        try:
            built = _stance(contact, feet[contact.side], recording, choices, belt, cameras, contacts)
        except InputError as error:
            reasons.append(str(error))
            continue
        stances.append(_noted(built, [*recording.notes, *frame_notes], frame))
    if not stances:
        raise InputError(f"{', '.join(recording.files)}: no stance found. " + "; ".join(reasons))
    return [_noted(stance, reasons) for stance in stances]


def _noted(stance: Stance, notes: list[str], frame: str | None = None) -> Stance:
    old = stance.provenance
    return replace(stance, provenance=replace(old, frame=frame or old.frame, notes=(*old.notes, *notes)))


# ---------------------------------------------------------------- contacts


def _prepared(plate: PlateSignal, recording: Recording, choices: Choices) -> PlateSignal:
    plate = cleaned(plate, recording.time, choices.threshold, recording.files)
    if choices.force_filter is None:
        return plate
    return filtered(plate, recording.time, choices.force_filter, choices.cop_threshold)


def _contacts(plates: list, feet: Mapping[str, Foot], recording: Recording, choices: Choices) -> tuple[list, list[str]]:
    """Find what may be a stance on each plate, and its foot; the reasons say what was left out."""
    for name in choices.plates:
        if name not in [plate.name for plate in plates]:
            raise unknown("plate", name, [plate.name for plate in plates], ", ".join(recording.files))
    contacts, reasons = [], []
    for plate in plates:
        limits = {"threshold": choices.threshold, "shortest": choices.shortest, "bounce": choices.bounce}
        cuts = cut(plate.force[:, 2], recording.time, **limits)
        for first, past in cuts.stances:
            contact, reason = _assigned(plate, first, past, feet, recording, choices)
            contacts += [contact] if contact else []
            reasons += [reason] if reason else []
        if cuts.open_ended:
            reasons.append(f"{plate.name}: {cuts.open_ended} not whole in the recording, left out")
        if cuts.too_short:
            reasons.append(f"{plate.name}: {cuts.too_short} shorter than {choices.shortest:g} s, left out")
        if not (cuts.stances or cuts.open_ended or cuts.too_short):
            most = float(np.max(plate.force[:, 2]))
            reasons.append(f"{plate.name}: the load is at most {most:.4g} N, the threshold {choices.threshold:g} N")
    return sorted(contacts, key=lambda contact: contact.first), reasons


def _assigned(plate: PlateSignal, first: int, past: int, feet: Mapping[str, Foot], recording: Recording, choices):
    """Return the contact with its foot: as chosen, as the file says, or the one that is nearest to the CoP."""
    rows = np.zeros(len(recording.time), dtype=bool)
    rows[first:past] = plate.force[first:past, 2] >= choices.cop_threshold
    rows &= np.all(np.isfinite(plate.cop), axis=1)
    place = np.where(rows[:, None], plate.cop, 0.0)
    far = {side: distance_to_foot(foot, place, rows) for side, foot in feet.items()}
    nearest = min(far, key=lambda side: far[side])
    side = choices.plates.get(plate.name) or plate.side or nearest
    when = f"{plate.name} at {recording.time[first]:.3f} s"
    if side not in feet:
        if "" not in feet:
            return None, f"{when}: there are no markers of the foot on side {side}"
        feet_side = ""
    else:
        feet_side = side
    if choices.side is not None and side not in (choices.side, ""):
        return None, ""
    notes = []
    if far[feet_side] > FAR and side == nearest and not plate.side and plate.name not in choices.plates:
        return None, f"{when}: no foot is near; the nearest is {far[nearest]:.2f} m from the CoP"
    if far[feet_side] > FAR:
        notes.append(f"the CoP is {far[feet_side]:.2f} m from the foot")
    elif far[nearest] < 0.5 * far[feet_side] and nearest != feet_side:
        notes.append(f"the CoP is nearer to the foot on side {nearest}")
    return _Contact(plate, first, past, feet_side, tuple(notes)), ""


# ---------------------------------------------------------------- frame


def _forward(contacts: list, feet: Mapping[str, Foot], recording: Recording, choices: Choices):
    """Return the angle of forward in the file's floor (rad), and remarks: given, or the axis along which feet point."""
    asked = choices.forward if choices.forward != "auto" else recording.forward
    if asked != "auto":
        axes = {"x": 0.0, "y": 90.0, "-x": 180.0, "-y": -90.0}
        return np.radians(axes[asked] if asked in axes else float(asked)), ()
    pointing = np.zeros(2)
    for contact in contacts:
        foot = feet[contact.side]
        rows = np.arange(contact.first, contact.past)
        rows = rows[foot.seen[rows]]
        if len(rows):
            line = np.median((foot.tracks["heading"].places - foot.tracks["heel"].places)[rows, :2], axis=0)
            pointing += line / max(float(np.linalg.norm(line)), 1e-12)
    if not np.any(pointing):
        return 0.0, ()
    angle = float(np.arctan2(pointing[1], pointing[0]))
    nearest = float(np.round(angle / (np.pi / 2))) * np.pi / 2
    off = np.degrees(angle - nearest)
    notes = (f"the feet point {off:+.0f} deg from the axis that is taken for forward",) if abs(off) > 20 else ()
    return nearest, notes


def _belt_speed(contacts: list, feet: Mapping[str, Foot], time: np.ndarray, choices: Choices) -> float:
    """Return the speed of the belt: given, or how fast the flat feet move backwards, in the mean."""
    if choices.belt_speed is None:
        return 0.0
    if not isinstance(choices.belt_speed, str):
        return float(choices.belt_speed)
    speeds = []
    for contact in contacts:
        foot, rows = feet[contact.side], slice(contact.first, contact.past)
        if not np.all(foot.seen[rows]):
            continue
        markers = {role: foot.tracks[role].places[rows] for role in NEEDED}
        window = flat_window(markers, np.ones(contact.past - contact.first, dtype=bool), markers["heading"])
        places = np.stack([markers["heel"][window, 0], markers["mtp"][window, 0]], axis=1)
        speeds.append(-np.mean(np.polyfit(time[rows][window], places, 1)[0]))
    if not speeds:
        raise InputError("belt_speed = auto: no foot is seen over a whole stance; give the speed in m/s")
    return float(np.mean(speeds))


def _turned(foot: Foot, turn: np.ndarray) -> Foot:
    tracks = {role: Track(track.places @ turn.T, track.seen, track.bridged) for role, track in foot.tracks.items()}
    return Foot(foot.roles, tracks)


# ---------------------------------------------------------------- one stance


def _stance(contact, foot: Foot, recording: Recording, choices: Choices, belt: float, cameras, contacts) -> Stance:
    time, plate = recording.time, contact.plate
    side = contact.side or choices.side or plate.side
    name = f"{side or 'stance'}_{time[contact.first]:.3f}s"
    _check_seen(name, foot, time, slice(contact.first, contact.past), choices)
    rows = _rows_about(contact, foot.seen, time, choices.margin, contacts)
    clock, ground, notes = time[rows], _ground(plate, choices), list(contact.notes)
    in_stance = (np.arange(rows.start, rows.stop) >= contact.first) & (np.arange(rows.start, rows.stop) < contact.past)
    known = np.all(np.isfinite(plate.cop[rows]), axis=1)
    valid = in_stance & known & (plate.force[rows, 2] >= choices.cop_threshold)
    shift = belt * (clock - time[contact.first])  # a belt moves back: added, what stands on it is at rest
    tracks = {role: track for role, track in foot.tracks.items() if np.all(track.seen[rows])}
    notes += [f"{role} is not always seen, left out" for role in foot.tracks if role not in tracks]
    notes += _remarks(plate, foot, ground, rows, in_stance, time, choices)
    markers = {role: track.places[rows] + np.outer(shift, [1, 0, 0]) for role, track in tracks.items()}
    if choices.level == "plate":
        markers = {role: places - [0, 0, ground] for role, places in markers.items()}
    pointer = markers.pop("heading")
    place = np.where(known[:, None], plate.cop[rows, :2], 0.0) + np.outer(shift, [1, 0])
    provenance = Provenance(
        files=recording.files,
        plate=plate.name,
        threshold=choices.threshold,
        cop_threshold=choices.cop_threshold,
        force_filter=str(choices.force_filter or "none"),
        marker_filter=str(choices.marker_filter or "none"),
        belt_speed=belt,
        markers=dict(foot.roles),
        notes=tuple(notes),
    )
    return Stance(
        name=name,
        side=side,
        time=clock.copy(),
        in_stance=in_stance,
        marker_frame=cameras[rows].copy(),
        markers=markers,
        force=plate.force[rows].copy(),
        free_moment=plate.free_moment[rows].copy(),
        cop=np.where(valid[:, None], place, 0.0),
        cop_valid=valid,
        flat=find_foot_flat(markers, flat_window(markers, in_stance, pointer), pointer),
        provenance=provenance,
    )


def _check_seen(name: str, foot: Foot, time: np.ndarray, rows: slice, choices: Choices) -> None:
    for role in NEEDED:
        track = foot.tracks[role]
        lost = runs(~track.seen[rows])
        if lost:
            first, past = lost[0][0] + rows.start, lost[0][1] + rows.start
            raise InputError(
                f"{name}: {'+'.join(foot.roles[role])} is not seen from {time[first]:.3f} to {time[past - 1]:.3f} s, "
                f"and gaps of more than {choices.longest_gap:g} s are not bridged"
            )


def _rows_about(contact, seen: np.ndarray, time: np.ndarray, margin: float, contacts) -> slice:
    """Add the margin, as far as the foot is seen and no other stance on the same plate is touched."""
    others = [c for c in contacts if c.plate.name == contact.plate.name and c is not contact]
    low = max([c.past for c in others if c.past <= contact.first], default=0)
    high = min([c.first for c in others if c.first >= contact.past], default=len(time))
    first, past = contact.first, contact.past
    while first > low and seen[first - 1] and time[contact.first] - time[first - 1] <= margin + 1e-9:
        first -= 1
    while past < high and seen[past] and time[past] - time[contact.past - 1] <= margin + 1e-9:
        past += 1
    return slice(first, past)


def _ground(plate: PlateSignal, choices: Choices) -> float:
    """Return the height of the surface: where the CoP is."""
    loaded = (plate.force[:, 2] >= choices.cop_threshold) & np.isfinite(plate.cop[:, 2])
    return float(np.median(plate.cop[loaded, 2])) if np.any(loaded) else 0.0


def _remarks(plate, foot: Foot, ground: float, rows: slice, in_stance, time, choices: Choices) -> list[str]:
    """Return what a person should know of this stance."""
    notes = []
    if abs(ground) > NOTE_HEIGHT and choices.level == "file":
        notes.append(f"the CoP is {1e3 * ground:+.1f} mm above z = 0; heights are kept; level plate subtracts it")
    for role in NEEDED:
        for start, end in foot.tracks[role].bridged:
            if start <= time[rows.stop - 1] and end >= time[rows.start]:
                notes.append(f"{role}: a gap from {start:.3f} to {end:.3f} s is bridged")
    if plate.corners is not None and _overhangs(plate.corners, foot, rows, in_stance):
        notes.append("the foot stands partly beside the plate")
    return notes


def _overhangs(corners: np.ndarray, foot: Foot, rows: slice, in_stance: np.ndarray) -> bool:
    """Say whether the heel or the ball is outside of the plate's corners at some time in mid-stance."""
    count = int(np.count_nonzero(in_stance))
    middle = np.flatnonzero(in_stance)[count // 4 : max(count // 2, count // 4 + 1)] + rows.start
    edges = np.roll(corners, -1, axis=0)[:, :2] - corners[:, :2]
    for role in ("heel", "mtp"):
        offset = foot.tracks[role].places[middle, None, :2] - corners[None, :, :2]
        turn = edges[None, :, 0] * offset[..., 1] - edges[None, :, 1] * offset[..., 0]
        if not np.all(np.all(turn >= 0, axis=1) | np.all(turn <= 0, axis=1)):
            return True
    return False
