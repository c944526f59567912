"""Whose folder is it? A card says which study's results lie in a folder, and a lock who is writing to it now.

Nothing that belongs to someone else is ever overwritten, and what is written appears whole or not at all.
"""

import json
import os
import shutil
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from jaxcontact.errors import InputError
from jaxcontact.study.version import package_version

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

CARD, RESULTS, JOURNAL = "study.json", "results.zarr", "chunks.jsonl"
NUMBER_TYPE = "number type"
LOCK = ".lock"
_WRITING, _OLD = ".writing-", ".old-"  # what a killed run may leave behind; swept up by the next one
_PARTIAL = ".partial"  # Zarr too writes beside and moves into place
_OURS = (LOCK, _WRITING, _OLD)
_PATIENCE = 0.3  # s: `status` holds the lock for an instant when it looks whether somebody else does


def check_free(folder: str | Path, identity: Mapping[str, Any], *, fresh: bool = False) -> None:
    """Refuse, before anything is computed, a folder that cannot take the results of the study with this identity.

    A new or empty folder can, and so can one with an earlier result of the same study; with `fresh` also one with
    another study's. `identity` is what the card has to say: a fingerprint, and what else must be the same.
    """
    folder = Path(folder)
    _check_writable(folder)
    if not folder.exists():
        return
    inside = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith(_OURS))
    if not inside:
        return
    if CARD not in inside or _is_strangers(folder / CARD):
        raise InputError(f"{folder} already holds other files ({_some(inside)})\nallowed: a new or empty directory")
    if fresh:
        return
    card = read_card(folder)
    for what, mine in identity.items():
        if card.get(what) == mine:
            continue
        if what == "fingerprint":
            title, other = card.get("title") or "no title", ""
            if card.get(NUMBER_TYPE) != identity.get(NUMBER_TYPE):  # tolerances follow it, so this may be all
                other = f", with {NUMBER_TYPE} {card.get(NUMBER_TYPE)}, not {identity.get(NUMBER_TYPE)}"
            raise InputError(
                f"{folder} already holds another study's results ({title}){other}\n"
                "allowed: a new or empty directory, the one where this same study was saved before, or --fresh"
            )
        raise InputError(
            f"{folder} holds results of this study with {what.replace('_', ' ')} {card.get(what)}, not {mine}\n"
            "allowed: another directory, or --fresh to throw them away and start over"
        )


def read_card(folder: str | Path) -> dict[str, Any]:
    """Read which study's results lie in a folder."""
    path = Path(folder) / CARD
    if not path.is_file():
        raise InputError(f"there are no results in {folder}: {path} does not exist")
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError):
        card = None
    if not isinstance(card, dict):
        raise InputError(
            f"{path} is damaged, so whose results these are is unknown\nallowed: a new or empty directory, or --fresh"
        )
    return card


def write_card(folder: Path, identity: Mapping[str, Any], title: str, **more: Any) -> None:
    """Say whose folder this is."""
    card = {**identity, "title": title, **{"jaxcontact_version": package_version()}, **more}
    text = json.dumps(card, indent=2) + "\n"
    place(folder, CARD, lambda path: _write_to_disk(path, text))


def save(
    folder: str | Path,
    *,
    fingerprint: str,
    title: str = "",
    dataset: "xr.Dataset | None" = None,
    figures: "Mapping[str, Figure] | None" = None,
) -> Path:
    """Write finished results, all at once; an earlier result of the same study is replaced."""
    folder, identity = Path(folder), {"fingerprint": fingerprint}
    check_free(folder, identity)
    folder.mkdir(parents=True, exist_ok=True)
    with Lock(folder):
        sweep_up(folder)
        # The card goes first: killed after it, the folder is this study's without results, so it may be run again.
        write_card(folder, identity, title)
        if dataset is not None:
            # Zarr format 2 has consolidated metadata in its specification: readers open it quickly, without a warning.
            place(folder, RESULTS, lambda path: dataset.to_zarr(path, mode="w", zarr_format=2, consolidated=True))
        for stem, figure in (figures or {}).items():
            place(folder, f"{stem}.png", lambda path, figure=figure: figure.savefig(path, dpi=150, format="png"))
    return folder


def load(folder: str | Path) -> "xr.Dataset":
    """Open the results saved in `folder`; values are read when they are used."""
    import xarray as xr

    path = Path(folder) / RESULTS
    if not path.is_dir():
        raise InputError(f"there are no results in {folder}: {path} does not exist")
    try:
        return xr.open_zarr(path, chunks=None)
    except Exception as error:  # whatever a reader stumbles over, the remedy is the same
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"{path} cannot be read ({reason})\nallowed: run its study again, which mends what is damaged"
        ) from error


def place(folder: Path, name: str, write: Callable[[Path], Any]) -> None:
    """Write beside, then move into place: what is there is always whole."""
    fresh, old, there = folder / f"{_WRITING}{name}", folder / f"{_OLD}{name}", folder / name
    write(fresh)
    if there.is_dir():  # a directory cannot be replaced in one move
        there.rename(old)
    os.replace(fresh, there)
    if old.exists():
        shutil.rmtree(old)


def sweep_up(folder: Path) -> None:
    """Remove what a killed run left half written."""
    for leftover in [entry for entry in folder.iterdir() if entry.name.startswith((_WRITING, _OLD))]:
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
    for leftover in (folder / RESULTS).rglob(f"*{_PARTIAL}"):
        leftover.unlink()


class Lock:
    """One writer at a time: a lock that the operating system takes back when its holder dies, however it dies."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOCK
        self._file: IO[str] | None = None

    def __enter__(self) -> "Lock":
        """Take the lock, or say who has it."""
        give_up = time.monotonic() + _PATIENCE
        while not self._take():
            if time.monotonic() > give_up:
                holder = _read(self._path)
                raise InputError(
                    f"{self._path.parent} is being written to by another run{f' ({holder})' if holder else ''}\n"
                    "allowed: wait until it ends, stop it, or choose another directory"
                )
            time.sleep(0.05)
        return self

    def __exit__(self, *exception: object) -> None:
        """Give the lock back."""
        if self._file is not None:
            self._path.unlink(missing_ok=True)  # while we hold it; who opened this file before will look again
            self._file.close()
            self._file = None

    def _take(self) -> bool:
        file = self._path.open("a+", encoding="utf-8")
        try:
            if not _lock_file(file) or not _still_there(file, self._path):
                file.close()
                return False
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}")
            file.flush()
        except BaseException:
            file.close()
            raise
        self._file = file
        return True


def is_locked(folder: str | Path) -> bool:
    """Whether somebody is writing to the folder now."""
    path = Path(folder) / LOCK
    try:
        # To read is enough, so that a colleague may ask who must not write.
        with path.open("r", encoding="utf-8") as file:
            return not _lock_file(file)  # ours for an instant, given back on closing
    except OSError:
        return False


def locked_since(folder: str | Path) -> float | None:
    """When the run that is writing to the folder began, by the clock (s); None if nobody is."""
    try:
        return (Path(folder) / LOCK).stat().st_mtime if is_locked(folder) else None
    except FileNotFoundError:
        return None


def _lock_file(file: IO[str]) -> bool:
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        try:
            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
            return True
        except OSError:
            return False
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False


def _still_there(file: IO[str], path: Path) -> bool:
    """Whether the file that we locked is the one that others will find: its last holder may have removed it."""
    try:
        return os.fstat(file.fileno()).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _check_writable(folder: Path) -> None:
    """Fail now rather than after the computation."""
    there = folder.absolute()
    while not there.exists():
        there = there.parent
    if not there.is_dir():
        raise InputError(f"{folder} cannot be a directory: {there} is a file")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"{folder} cannot be written: no permission in {there}")


def _is_strangers(card: Path) -> bool:
    """Whether a file with the name of our card says something else: then even --fresh must leave it alone."""
    try:
        content = json.loads(card.read_text(encoding="utf-8"))
    except (ValueError, OSError):
        return False  # damaged: it may well be ours
    return isinstance(content, dict) and bool(content) and "fingerprint" not in content


def _write_to_disk(path: Path, text: str) -> None:
    """Write so that it survives a power cut: without its card, all that a folder holds would be nobody's."""
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
