"""TOML files: read with errors in words, and tables of a study as text that reads back the same."""

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxcontact.errors import InputError


def read_toml(path: str | Path) -> dict[str, Any]:
    """Return the tables of a file."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:  # its text ends with the line and column
        raise InputError(f"{path} is not valid TOML: {error}") from None


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
