"""Which markers are the heel, the ball, the toe and the ankle of which foot: guessed from common names, or given.

Roles: `heel`, `mtp` (the ball of the foot, between the heads of the metatarsals), `mt1`, `mt2`, `mt5` (single heads),
`toe`, `ankle`, `midlat`, `midsup` (on the middle of the foot). `heading` names what the foot points at, as seen from
its heel.
"""

import re
from collections.abc import Iterable, Mapping

from jaxcontact.errors import InputError, unknown

# Names without side and separators, in capitals. `toe` also stands for a marker on the shoe above the toes.
_NAMES: Mapping[str, frozenset[str]] = {
    "heel": frozenset({"HEEL", "HEE", "CALC", "CALCANEUS", "CAL", "HEELMID", "POSTHEEL", "FCC"}),
    "mt1": frozenset({"MT1", "MTH1", "1MT", "1MTH", "FM1", "MH1", "FMH", "D1MT", "MTP1", "1MTP", "TOEMED", "MT1HEAD"}),
    "mt2": frozenset({"MT2", "MTH2", "2MT", "2MTH", "FM2", "MH2", "SMH", "D2MT", "MTP2", "2MTP", "MT2HEAD"}),
    "mt5": frozenset({"MT5", "MTH5", "5MT", "5MTH", "FM5", "MH5", "VMH", "D5MT", "MTP5", "5MTP", "TOELAT", "MT5HEAD"}),
    "mtp": frozenset({"MTP", "BALL", "MTPMID"}),
    "toe": frozenset({"TOE", "TOETIP", "HALLUX", "HLX", "BIGTOE", "GTOE", "TIP", "TOES"}),
    "ankle": frozenset({"ANKLE", "ANK", "LATMAL", "LMAL", "ANKLELAT", "LATERALMALLEOLUS", "FAL", "LM"}),
    "midlat": frozenset({"MIDFOOTLAT", "MIDLAT"}),
    "midsup": frozenset({"MIDFOOTSUP", "MIDSUP"}),
}
ROLES = (*_NAMES, "heading")
_BEFORE = re.compile(r"^(RIGHT|LEFT|R|L)[._\- ]?(.+)$", re.IGNORECASE)
_AFTER = re.compile(r"^(.+)[._\- ](RIGHT|LEFT|R|L)$", re.IGNORECASE)

Roles = Mapping[str, tuple[str, ...]]  # role -> markers whose mean it is


def split_side(name: str) -> tuple[str, str]:
    """Return the side (R, L or empty) and the rest of a marker's name: "S1:R.Toe.Lat" gives R and "TOELAT"."""
    bare = name.rpartition(":")[2].strip()  # programs put the subject before a colon
    for pattern, side, rest in ((_BEFORE, 1, 2), (_AFTER, 2, 1)):
        if match := pattern.match(bare):
            plain = _plain(match[rest])
            if any(plain in names for names in _NAMES.values()):
                return match[side][0].upper(), plain
    return "", _plain(bare)


def _plain(text: str) -> str:
    return re.sub(r"[._\- ]", "", text).upper()


def parse_markers(text: str) -> dict[str, tuple[str, ...]]:
    """Read "heel=R.Heel,mtp=R.MT5+R.Toe": a role is a marker, or the mean of several."""
    given: dict[str, tuple[str, ...]] = {}
    for part in text.split(","):
        role, equals, names = part.partition("=")
        role, markers = role.strip(), tuple(name.strip() for name in names.split("+"))
        if not equals or not all(markers):
            raise InputError(f"markers '{part}': ROLE=NAME is needed, as in heel=R.Heel,mtp=R.MT5+R.Toe")
        if role not in ROLES:
            raise unknown("role", role, ROLES, "markers")
        given[role] = markers
    return given


def find_roles(names: Iterable[str], given: Mapping[str, tuple[str, ...]] = {}) -> Mapping[str, Roles]:
    """Return for each side that has a heel and a ball which markers play which role.

    What is `given` comes first. Names given for one foot serve the other too, with the side in them exchanged, as far
    as the file has those. Markers without a side are taken for whichever foot is measured (side empty).
    """
    names = list(names)
    for role, markers in given.items():
        for name in markers:
            if name not in names:
                error = unknown("marker", name, names)
                raise InputError(f"{role}: {error}")
    found: dict[str, dict[str, tuple[str, ...]]] = {"R": {}, "L": {}, "": {}}
    for name in names:
        side, plain = split_side(name)
        for role, known in _NAMES.items():
            if plain in known:
                found[side].setdefault(role, (name,))
    for role, markers in given.items():
        sides = {split_side(name)[0] for name in markers} - {""} or _side_letters(markers)
        if len(sides) > 1:
            raise InputError(f"{role} = {'+'.join(markers)}: these markers belong to different feet")
        side = sides.pop() if sides else ""
        found[side][role] = markers
        other = tuple(_mirrored(name, names) for name in markers)
        if side and all(other):
            found["L" if side == "R" else "R"][role] = other
    usable = {side: complete for side, roles in found.items() if (complete := _completed(roles))}
    if not usable:
        raise InputError(
            "no foot has markers for both its heel and its ball or toes; name them, as in "
            f"heel=R.Heel,mtp=R.MT5\nthe markers are: {', '.join(names) or 'none'}"
        )
    return usable


def _side_letters(markers: Iterable[str]) -> set[str]:
    """Return the sides that names of unknown markers seem to have, from their first or last letter."""
    sides = set()
    for name in markers:
        bare = name.rpartition(":")[2]
        if match := (_BEFORE.match(bare) or _AFTER.match(bare)):
            word = match[1] if _BEFORE.match(bare) else match[2]
            sides.add(word[0].upper())
    return sides


def _mirrored(name: str, names: list[str]) -> str:
    """Return the same marker of the other foot, or nothing if the file has none."""
    swap = {"R": "L", "L": "R", "r": "l", "l": "r", "RIGHT": "LEFT", "LEFT": "RIGHT", "Right": "Left", "Left": "Right"}
    head, colon, bare = name.rpartition(":")
    for pattern, group in ((_BEFORE, 1), (_AFTER, 2)):
        if match := pattern.match(bare):
            start, end = match.span(group)
            other = head + colon + bare[:start] + swap.get(match[group], match[group]) + bare[end:]
            if other != name and other in names:
                return other
    return ""


def _completed(roles: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Add the ball and what the foot points at; nothing is returned for a foot without heel or ball.

    Ball: the mean of the first and fifth heads, or else a single head, or else the toe. Heading: the second head, or
    the ball if it lies between two heads, or the toe: a head at the edge of the foot points aside.
    """
    full = dict(roles)
    ball = full.get("mtp", ())
    named = len(ball) > 1 or any(split_side(name)[1] in _NAMES["mtp"] for name in ball)
    between = named or ("mtp" not in full and {"mt1", "mt5"} <= full.keys())
    if "mtp" not in full:
        pair = full["mt1"] + full["mt5"] if {"mt1", "mt5"} <= full.keys() else None
        ball = pair or next((full[role] for role in ("mt2", "mt5", "mt1", "toe") if role in full), None)
        if ball is not None:
            full["mtp"] = ball
    if not {"heel", "mtp"} <= full.keys():
        return {}
    if "heading" not in full:
        order = ("mt2", "mtp", "toe") if between else ("mt2", "toe", "mtp")
        full["heading"] = next(full[role] for role in order if role in full)
    return full
