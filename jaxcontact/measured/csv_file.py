"""Stances in comma-separated tables: the tidy form, which is read and written, and tables of one's own.

A tidy table says in `in_stance` where its stances are, and is taken as it is. Any other table with the needed columns
is a recording, out of which stances are cut. Several stances or feet in a table are told apart by `stance` and `side`.
"""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

import numpy as np

from jaxcontact.errors import InputError
from jaxcontact.measured.assemble import assemble
from jaxcontact.measured.choices import Choices
from jaxcontact.measured.columns import BALL, FLAGS, NEEDED, ROLE_ORDER, TEXTS, marker_roles, split_heading
from jaxcontact.measured.export import table_columns
from jaxcontact.measured.filtering import fill_gaps
from jaxcontact.measured.markers import find_roles
from jaxcontact.measured.recording import OUR_AXES, PlateSignal, Recording, turn_from_axes
from jaxcontact.measured.stance import FootFlat, Provenance, Stance, find_foot_flat, flat_window, raw_pitch
from jaxcontact.measured.textfile import Rows, check_time, check_widths, even_clock, numbers, read_lines

_SIDES = {"r": "R", "right": "R", "l": "L", "left": "L", "": ""}
FIT = 1e-4  # m, to which the columns along the foot must fit those in space


@dataclass(frozen=True, eq=False)
class _Part:
    """The rows of one stance or foot: columns by name in SI units, NaN where blank."""

    path: Path
    name: str
    side: str
    time: np.ndarray
    values: dict[str, np.ndarray]
    lines: tuple[int, ...]

    def stacked(self, *names: str) -> np.ndarray:
        return np.stack([self.values[name] for name in names], axis=1)


def read_csv(path: Path, choices: Choices) -> list[Stance]:
    """Read a table of stances, or cut stances out of a table."""
    parts = _parts(path)
    # Whoever changes how stances are made wants them made anew, also from a table that has them.
    as_it_is = choices == replace(Choices(), mass=choices.mass, side=choices.side, longest_gap=choices.longest_gap)
    stances, reasons = [], []
    for part in parts:
        if choices.side and part.side not in (choices.side, ""):
            continue
        if "in_stance" in part.values and as_it_is:
            stances.append(_tidy(part, choices))
            continue
        try:
            stances += _cut(part, choices)
        except InputError as error:
            reasons.append(str(error))
    if not stances:
        raise InputError("\n".join(reasons) or f"{path}: there is no stance of side {choices.side}")
    return stances


def write_csv(stances: Iterable[Stance], stream: TextIO) -> None:
    """Write the tidy table: one row a sample, all digits, blank where a value is not valid."""
    stances = list(stances)
    roles = [role for role in ROLE_ORDER if any(role in stance.markers for stance in stances)]
    roles += sorted({role for stance in stances for role in stance.markers} - set(roles))
    writer, heading = csv.writer(stream, lineterminator="\n"), False
    for stance in stances:
        columns = table_columns(stance, roles)
        if not heading:
            writer.writerow([*TEXTS, *columns])
            heading = True
        cells = [_texts(values) for values in columns.values()]
        writer.writerows([stance.name, stance.side, *row] for row in zip(*cells, strict=True))


def _texts(values: np.ndarray) -> list:
    """The cells of a column: csv writes a float by its repr, the shortest text that reads back as the same number."""
    if values.dtype == bool:
        return values.astype(int).tolist()
    return ["" if np.isnan(value) else value for value in values.tolist()]


# ---------------------------------------------------------------- reading


def _parts(path: Path) -> list[_Part]:
    lines = read_lines(path)
    found = [(i + 1, row) for i, row in enumerate(csv.reader(lines)) if any(cell.strip() for cell in row)]
    if len(found) < 2:
        raise InputError(f"{path}: there are no rows below the column names")
    where, headings = str(path), found[0][1]
    pairs = [split_heading(text, where) for text in headings]
    names = [name for name, _ in pairs]
    if double := [name for name in names if names.count(name) > 1]:
        raise InputError(f"{path}: there are two columns '{double[0]}'")
    rows = Rows(path, tuple(names), tuple(tuple(row) for _, row in found[1:]), tuple(line for line, _ in found[1:]))
    check_widths(rows)
    _check_columns(path, names)
    chosen = [i for i, name in enumerate(names) if name not in TEXTS]
    values = numbers(rows, chosen) * [pairs[i][1] for i in chosen]
    table = {names[i]: values[:, place] for place, i in enumerate(chosen)}
    labels = [tuple(row[names.index(text)].strip() if text in names else "" for text in TEXTS) for row in rows.cells]
    groups: dict[tuple[str, ...], list[int]] = {}
    for place, label in enumerate(labels):
        groups.setdefault(label, []).append(place)
    return [_part(rows, table, label, np.array(places)) for label, places in groups.items()]


def _part(rows: Rows, table: dict[str, np.ndarray], label: tuple[str, ...], places: np.ndarray) -> _Part:
    lines = tuple(rows.lines[i] for i in places)
    if label[1].lower() not in _SIDES:
        raise InputError(f"{rows.path}, line {lines[0]}: side {label[1]!r} is not known\nallowed: R, L")
    time = table["time"][places]
    check_time(time, lines, rows.path)
    texts = [rows.cells[i][rows.names.index("time")] for i in places]
    values = {name: column[places] for name, column in table.items()}
    return _Part(rows.path, label[0], _SIDES[label[1].lower()], even_clock(time, texts), values, lines)


def _check_columns(path: Path, names: Sequence[str]) -> None:
    missing = [name for name in NEEDED if name not in names]
    roles = marker_roles(list(names), str(path))
    if not ({"mtp", "mt2", "mt5", "mt1", "toe"} & set(roles)):
        missing.append(BALL)
    if missing:
        raise InputError(
            f"{path}: columns are missing: {', '.join(missing)}\n"
            f"needed are time, Fx, Fy, Fz, CoPx, CoPy, heel_x, heel_y, heel_z and {BALL}, in SI units or with the unit "
            f"as in heel_x[mm]\nthe columns are: {', '.join(names)}"
        )


# ---------------------------------------------------------------- a table that has its stances


def _tidy(part: _Part, choices: Choices) -> Stance:
    name, values = part.name or "stance", part.values
    flags = {flag: _flag(part, flag) for flag in FLAGS if flag in values}
    if not np.any(flags["in_stance"]):
        raise InputError(f"{part.path}: no row of stance '{name}' is marked in_stance")
    force, place = part.stacked("Fx", "Fy", "Fz"), part.stacked("CoPx", "CoPy")
    _refuse_blank(part, force, "force")
    known = np.all(np.isfinite(place), axis=1)
    if "cop_valid" in flags:
        valid = flags["cop_valid"]
    else:
        valid = known & flags["in_stance"] & (force[:, 2] >= choices.cop_threshold)
    if np.any(valid & ~known):
        raise InputError(f"{part.path}, line {part.lines[int(np.argmax(valid & ~known))]}: cop_valid, but CoP is blank")
    markers, notes = _markers(part, name, choices)
    free = values.get("Tz", np.zeros(len(part.time)))
    _refuse_blank(part, free[:, None], "Tz")
    cop = np.where(valid[:, None], place, 0.0)
    return Stance(
        name=name,
        side=part.side or choices.side or "",
        time=part.time.copy(),
        in_stance=flags["in_stance"],
        marker_frame=flags.get("marker_frame", np.ones(len(part.time), dtype=bool)),
        markers=markers,
        force=force,
        free_moment=free.copy(),
        cop=cop,
        cop_valid=valid,
        flat=_told_flat(part) or _found_flat(markers, flags["in_stance"]),
        provenance=Provenance(
            files=(part.path.name,),
            cop_threshold=choices.cop_threshold,
            markers={role: (role,) for role in markers},
            notes=tuple(notes),
        ),
    )


def _flag(part: _Part, name: str) -> np.ndarray:
    values = part.values[name]
    if not np.all((values == 0) | (values == 1)):
        line = part.lines[int(np.argmin((values == 0) | (values == 1)))]
        raise InputError(f"{part.path}, line {line}, column '{name}': 0 or 1 is needed")
    return values == 1


def _refuse_blank(part: _Part, values: np.ndarray, what: str) -> None:
    blank = np.any(np.isnan(values), axis=1)
    if np.any(blank):
        raise InputError(f"{part.path}, line {part.lines[int(np.argmax(blank))]}: {what} is blank")


def _markers(part: _Part, name: str, choices: Choices) -> tuple[dict[str, np.ndarray], list[str]]:
    """Return the markers without gaps, and remarks; one that is lost for too long is left out, or refused if needed."""
    markers, notes = {}, []
    for role in marker_roles(list(part.values), str(part.path)):
        places = part.stacked(*(f"{role}_{letter}" for letter in "xyz"))
        filled = fill_gaps(places, part.time, choices.longest_gap)
        if np.all(filled.seen):
            markers[role] = filled.places.copy()
            notes += [f"{role}: a gap from {start:.3f} to {end:.3f} s is bridged" for start, end in filled.bridged]
        elif role in ("heel", "mtp"):
            line = part.lines[int(np.argmin(filled.seen))]
            raise InputError(
                f"{part.path}, line {line}: {role} of stance '{name}' is blank, and gaps of more than "
                f"{choices.longest_gap:g} s are not bridged"
            )
        else:
            notes.append(f"{role} is not always seen, left out")
    found = find_roles(markers)[""]
    if "mtp" not in markers:
        markers["mtp"] = np.mean([markers[each] for each in found["mtp"]], axis=0)
    return markers, notes


def _told_flat(part: _Part) -> FootFlat | None:
    """Return how the foot lies when flat as the table itself tells it, by its columns along the foot; or nothing."""
    needed = ("foot_pitch", "cop_along", "cop_lat", "CoPx", "CoPy", *(f"mtp_{letter}" for letter in "xyz"))
    if any(name not in part.values for name in needed):
        return None
    # (along, lat) is the CoP seen from the heel, turned by the heading: one complex factor and a shift.
    seen = part.values["cop_along"] + 1j * part.values["cop_lat"]
    place = part.values["CoPx"] + 1j * part.values["CoPy"]
    use = np.isfinite(seen) & np.isfinite(place)
    if np.count_nonzero(use) < 3:
        return None
    seen, place = seen[use], place[use]
    factor = np.sum((seen - seen.mean()) * np.conj(place - place.mean()))
    factor /= max(abs(factor), 1e-300)
    heel, heading = place.mean() - seen.mean() / factor, -float(np.angle(factor))
    back, front = (part.stacked(*(f"{role}_{letter}" for letter in "xyz")) for role in ("heel", "mtp"))
    pitch = raw_pitch(back, front, heading) - part.values["foot_pitch"]
    if np.max(np.abs(seen - (place - heel) * factor)) > FIT or not np.all(np.isfinite(pitch)):
        return None
    return FootFlat(float(np.median(pitch)), (float(heel.real), float(heel.imag)), heading)


def _found_flat(markers: dict[str, np.ndarray], in_stance: np.ndarray) -> FootFlat:
    front = np.mean([markers[role] for role in find_roles(markers)[""]["heading"]], axis=0)
    return find_foot_flat(markers, flat_window(markers, in_stance, front), front)


# ---------------------------------------------------------------- a table of one's own


def _cut(part: _Part, choices: Choices) -> list[Stance]:
    """Cut stances out of the rows: z is up and x forward, unless the choices say otherwise."""
    axes = OUR_AXES if choices.axes == "auto" else choices.axes
    turn, rows = turn_from_axes(axes), len(part.time)
    height = np.zeros((rows, 1))
    force, place = part.stacked("Fx", "Fy", "Fz"), np.hstack([part.stacked("CoPx", "CoPy"), height])
    if axes != OUR_AXES:
        if "CoPz" not in part.values:
            raise InputError(f"{part.path}: with axes {axes} the column CoPz is needed beside CoPx and CoPy")
        place[:, 2] = part.values["CoPz"]
    free = part.values.get("Tz", np.zeros(rows))
    plate = PlateSignal("table", part.side, force @ turn.T, place @ turn.T, free)
    markers = {
        role: part.stacked(*(f"{role}_{letter}" for letter in "xyz")) @ turn.T
        for role in marker_roles(list(part.values), str(part.path))
    }
    roles = {**{role: (role,) for role in markers}, **find_roles(markers, choices.markers)[""]}
    notes = () if "Tz" in part.values else ("there is no column Tz: the free moment is taken as 0",)
    recording = Recording(
        files=(part.path.name,),
        time=part.time,
        plates=(plate,),
        marker_time=part.time,
        markers=markers,
        axes=axes,
        roles={"": roles},
        forward="x",
        notes=notes,
    )
    stances = assemble(recording, choices)
    same_frame = (choices.axes, choices.forward, choices.belt_speed) == ("auto", "auto", None) and not choices.markers
    if same_frame and (flat := _told_flat(part)):
        stances = [replace(each, flat=flat) for each in stances]
    if part.name and len(stances) == 1:
        return [replace(stances[0], name=part.name)]
    return stances
