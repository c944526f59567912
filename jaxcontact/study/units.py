"""Units that a person may write instead of a parameter's stated one, and the step from stated units to SI."""

from math import pi

from jaxcontact.errors import InputError

_DEGREE = pi / 180.0  # rad

# stated unit -> other spelling -> how many stated units one of it is
_OTHERS = {
    "deg": {"rad": 1.0 / _DEGREE},
    "rad": {"deg": _DEGREE},
    "rad/s": {"deg/s": _DEGREE},
    "deg/s": {"rad/s": 1.0 / _DEGREE},
    "m": {"cm": 1e-2, "mm": 1e-3},
    "m/s": {"cm/s": 1e-2, "mm/s": 1e-3},
    "m/s^2": {"cm/s^2": 1e-2},
    "s": {"ms": 1e-3},
    "kg": {"g": 1e-3},
    "kg m^2": {"kg cm^2": 1e-4, "g m^2": 1e-3},
    "N": {"kN": 1e3},
    "N s": {"kN s": 1e3},
    "J": {"mJ": 1e-3, "kJ": 1e3},
    "Pa": {"kPa": 1e3, "MPa": 1e6, "GPa": 1e9},
    # Stiffness and damping keep their exponent: 1 N/mm^1.5 is 1000^1.5 N/m^1.5, which is where tools disagree silently.
    "N/m": {"kN/m": 1e3, "MN/m": 1e6, "N/mm": 1e3},
    "N/m^1.5": {"kN/m^1.5": 1e3, "MN/m^1.5": 1e6, "N/mm^1.5": 1e3**1.5},
    "N s/m": {"kN s/m": 1e3, "N s/mm": 1e3},
    "N s/m^2": {"kN s/m^2": 1e3, "N s/mm^2": 1e6},
    "N s/m^2.5": {"kN s/m^2.5": 1e3, "MN s/m^2.5": 1e6, "N s/mm^2.5": 1e3**2.5},
    "s/m": {"s/mm": 1e3},
    "N m": {"kN m": 1e3, "N mm": 1e-3},
    "N m/rad": {"N m/deg": 1.0 / _DEGREE},
    "N m s/rad": {"N m s/deg": 1.0 / _DEGREE},
}


def unit_label(unit: str) -> str:
    """Return the unit as printed: a pure number is "1", as in the CF conventions."""
    return unit or "1"


def allowed_units(stated: str) -> tuple[str, ...]:
    """List every spelling that a file may use for a parameter stated in `stated`, the stated one first."""
    return (unit_label(stated), *_OTHERS.get(stated, {}))


def to_stated(unit: str, stated: str, *, name: str) -> float:
    """Return the factor from `unit` to the stated unit of parameter `name`."""
    if unit == stated or unit == unit_label(stated):
        return 1.0
    factor = _OTHERS.get(stated, {}).get(unit) if isinstance(unit, str) else None
    if factor is None:
        raise InputError(f"{name}: unit {unit!r} is not known here\nallowed: {', '.join(allowed_units(stated))}")
    return factor


def base_unit(unit: str, *, name: str) -> tuple[str, float]:
    """Return the stated unit of the same kind, and the factor to it: 5 cm enter an expression as 0.05 m.

    For a name that no model knows, whose unit nobody has stated; "1" is a pure number.
    """
    if unit in _OTHERS or unit in ("", "1"):
        return ("" if unit == "1" else unit), 1.0
    for stated, others in _OTHERS.items():
        if unit in others:
            return stated, others[unit]
    known = sorted({"1", *_OTHERS, *(other for others in _OTHERS.values() for other in others)})
    raise InputError(f"{name}: unit {unit!r} is not known\nallowed: {', '.join(known)}")


def to_si(stated: str) -> float:
    """Return the factor from a stated unit to the unit inside the models. Only degrees differ from SI."""
    return {"deg": _DEGREE, "deg/s": _DEGREE}.get(stated, 1.0)
