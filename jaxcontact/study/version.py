"""Which jaxcontact made a result."""

import tomllib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


@cache
def package_version() -> str:
    """Return the installed version, or that of the clone we run from."""
    try:
        return version("jaxcontact")
    except PackageNotFoundError:
        pyproject = Path(__file__).parents[2] / "pyproject.toml"
        return tomllib.loads(pyproject.read_text())["project"]["version"] if pyproject.is_file() else "unknown"
