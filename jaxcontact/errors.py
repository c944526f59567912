"""The one exception for bad input: what was wrong, where, and what is allowed, in a sentence or two."""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Bad input from a person. The command line prints it without a traceback and exits with code 2."""


def unknown(kind: str, name: str, allowed: Iterable[str], where: str = "") -> InputError:
    """The error for a name that does not exist: where, the nearest valid name, and all that are allowed."""
    allowed = list(allowed)
    near = difflib.get_close_matches(str(name), allowed, n=1, cutoff=0.5)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    place = f" in {where}" if where else ""
    return InputError(f"unknown {kind} '{name}'{place}.{hint}\nallowed: {', '.join(allowed)}")
