"""Results on disk: DIR/results.zarr beside DIR/study.json, which says whose they are. Nothing else is overwritten."""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from jaxcontact.errors import InputError
from jaxcontact.study.version import package_version

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

RESULTS = "results.zarr"
CARD = "study.json"
_WRITING, _OLD = ".writing-", ".old-"  # what a killed run may leave behind; swept up by the next save


def check_free(folder: str | Path, fingerprint: str) -> None:
    """Refuse, before anything is computed, a folder that cannot take the results of the study with this fingerprint.

    A new or empty folder can, and so can one with an earlier result of the same study, which a save will replace.
    """
    folder = Path(folder)
    _check_writable(folder)
    if not folder.exists():
        return
    inside = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith((_WRITING, _OLD)))
    if not inside:
        return
    if CARD not in inside:
        raise InputError(f"{folder} already holds other files ({_some(inside)})\nallowed: a new or empty directory")
    card = _read_card(folder)
    if card.get("fingerprint") != fingerprint:
        raise InputError(
            f"{folder} already holds another study's results ({card.get('title', 'no title')})\n"
            "allowed: a new or empty directory, or the one where this same study was saved before"
        )


def save(
    folder: str | Path,
    *,
    fingerprint: str,
    title: str = "",
    dataset: "xr.Dataset | None" = None,
    figures: "Mapping[str, Figure] | None" = None,
) -> Path:
    """Write the results. Each appears whole or not at all: it is written beside its place and then moved there."""
    folder = Path(folder)
    check_free(folder, fingerprint)
    folder.mkdir(parents=True, exist_ok=True)
    for leftover in (e for e in folder.iterdir() if e.name.startswith((_WRITING, _OLD))):
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()

    # The card goes first: killed after it, the folder is this study's without results, so it may be run again.
    card = {"fingerprint": fingerprint, "title": title, "jaxcontact_version": package_version()}
    _place(folder, CARD, lambda path: path.write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8"))
    if dataset is not None:
        # Zarr format 2 has consolidated metadata in its specification: readers open it quickly, without a warning.
        _place(folder, RESULTS, lambda path: dataset.to_zarr(path, mode="w", zarr_format=2, consolidated=True))
    for stem, figure in (figures or {}).items():
        _place(folder, f"{stem}.png", lambda path, figure=figure: figure.savefig(path, dpi=150, format="png"))
    return folder


def load(folder: str | Path) -> "xr.Dataset":
    """Open the results saved in `folder`; values are read when they are used."""
    import xarray as xr

    path = Path(folder) / RESULTS
    if not path.is_dir():
        raise InputError(f"there are no results in {folder}: {path} does not exist")
    return xr.open_zarr(path, chunks=None)


def _place(folder: Path, name: str, write) -> None:
    fresh, old, place = folder / f"{_WRITING}{name}", folder / f"{_OLD}{name}", folder / name
    write(fresh)
    if place.is_dir():  # a directory cannot be replaced in one move
        place.rename(old)
    os.replace(fresh, place)
    if old.exists():
        shutil.rmtree(old)


def _read_card(folder: Path) -> dict:
    try:
        card = json.loads((folder / CARD).read_text(encoding="utf-8"))
    except (ValueError, OSError):
        card = None
    if not isinstance(card, dict):
        raise InputError(
            f"{folder / CARD} is damaged, so whose results these are is unknown\nallowed: a new or empty directory"
        )
    return card


def _check_writable(folder: Path) -> None:
    """Fail now rather than after the computation."""
    there = folder.absolute()
    while not there.exists():
        there = there.parent
    if not there.is_dir():
        raise InputError(f"{folder} cannot be a directory: {there} is a file")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"{folder} cannot be written: no permission in {there}")


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
