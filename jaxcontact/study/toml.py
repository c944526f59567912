"""Tables of a study as TOML text that reads back the same."""

import json
import re
from collections.abc import Mapping
from typing import Any


def write_toml(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the tables as text; a table within a table is written in one line."""
    blocks = []
    for name, table in tables.items():
        lines = [f"[{_key(name)}]"] + [f"{_key(key)} = {_value(value)}" for key, value in table.items()]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _quoted(name)


def _quoted(text: str) -> str:
    """Quote as JSON does, which TOML reads; but TOML knows no surrogate pairs, and no bare delete character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_value(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(inner) for inner in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value)
    return repr(value)
