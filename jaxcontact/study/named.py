"""The published studies by name: the modules of `jaxcontact.sweeps`, which in a clone is the folder `sweeps/`."""

import ast
import hashlib
import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import jaxcontact
from jaxcontact.errors import unknown

PACKAGE = "jaxcontact.sweeps"


def list_named() -> list[tuple[str, str]]:
    """List every published study's name and title. Titles are read from the source, so that nothing is imported."""
    files = sorted(path for path in _folder().glob("*.py") if not path.name.startswith("_"))
    return [(path.stem, _title(path)) for path in files]


def load_named(name: str) -> ModuleType:
    """Import a published study; its `run(progress)` returns a `Published`."""
    names = [known for known, _ in list_named()]
    if name not in names:
        raise unknown("study", name, names)
    _ensure_package()
    return importlib.import_module(f"{PACKAGE}.{name}")


def named_fingerprint(name: str) -> str:
    """Return the fingerprint of a published study, known before it is run: its name makes it what it is."""
    return hashlib.sha256(f"published study {name}".encode()).hexdigest()


def _title(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0].rstrip(".")


def _folder() -> Path:
    """Find where the studies lie: inside the installed package, or beside it in a clone."""
    spec = importlib.util.find_spec(PACKAGE)
    inside = spec.submodule_search_locations if spec else None
    return Path(next(iter(inside))) if inside else Path(next(iter(jaxcontact.__path__))).parent / "sweeps"


def _ensure_package() -> None:
    """In a clone, make the folder `sweeps/` importable under the name that it has when installed."""
    if importlib.util.find_spec(PACKAGE) is not None:
        return
    folder = _folder()
    start = folder / "__init__.py"
    spec = importlib.util.spec_from_file_location(PACKAGE, start, submodule_search_locations=[str(folder)])
    if spec is None or spec.loader is None:
        raise ImportError(f"{start} cannot be imported")
    package = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = package
    spec.loader.exec_module(package)
    setattr(jaxcontact, PACKAGE.rpartition(".")[2], package)
