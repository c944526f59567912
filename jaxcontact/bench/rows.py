"""What `jaxcontact bench` says: parts, each a list of rows with one ratio, as a table and as JSON."""

import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

Tell = Callable[[int, int], None]  # how many of how many turns are done

WIDTH = 120
_WHAT, _RATIO, _GAP = 56, 7, 3


def silent(done: int, total: int) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class Row:
    """One comparison. `ratio` is None where it could not be made, and `computed` then says why and what to do.

    `what` says of which to which the ratio is; `computed` what the other side did, and `error` how far it was off.
    """

    what: str
    ratio: float | None
    computed: str
    error: str = ""


@dataclass(frozen=True)
class Part:
    """Rows that belong together. `numbers` is everything behind them, as JSON can hold it; the table leaves it out."""

    name: str
    compares: str
    rows: tuple[Row, ...]
    numbers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """All parts of a run, and the machine on which the ratios were taken."""

    machine: Mapping[str, Any]
    parts: tuple[Part, ...]

    def write_json(self, file: Path) -> None:
        """Keep everything, the numbers behind the ratios too."""
        file.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    @staticmethod
    def read_json(file: Path) -> "Report":
        """Return what was kept."""
        kept = json.loads(file.read_text(encoding="utf-8"))
        parts = (Part(**(part | {"rows": tuple(Row(**row) for row in part["rows"])})) for part in kept["parts"])
        return Report(kept["machine"], tuple(parts))


def table(report: Report) -> str:
    """One table of ratios, in parts."""
    machine = ", ".join(f"{name} {value}" for name, value in report.machine.items())
    lines = [
        "Ratios within one run: rounds interleaved, the best of each taken.",
        machine,
        "",
        _line("compared", "ratio", ["what the other side computed, and its error"]),
    ]
    for part in report.parts:
        lines += ["", *textwrap.wrap(f"{part.name}: {part.compares}", WIDTH)]
        lines += [_row(row) for row in part.rows]
    return "\n".join(lines) + "\n"


def _row(row: Row) -> str:
    ratio = "-" if row.ratio is None else f"{row.ratio:,.{_digits(row.ratio)}f}"
    said = f"{row.computed}; {row.error}" if row.error else row.computed
    room = WIDTH - _WHAT - _RATIO - _GAP
    return _line(row.what, ratio, textwrap.wrap(said, room) or [""])


def _line(what: str, ratio: str, said: Sequence[str]) -> str:
    names = textwrap.wrap(what, _WHAT, initial_indent="  ", subsequent_indent="    ") or [""]
    count = max(len(names), len(said))
    names, said = ([*column, *[""] * (count - len(column))] for column in (names, said))
    ratios = [ratio, *[""] * (count - 1)]
    return "\n".join(
        f"{name:{_WHAT}}{ratio:>{_RATIO}}{'':{_GAP}}{words}".rstrip()
        for name, ratio, words in zip(names, ratios, said, strict=True)
    )


def _digits(ratio: float) -> int:
    """Three digits that count, no more than two of them behind the point."""
    size = abs(ratio)
    return 0 if size >= 100 else 1 if size >= 10 else 2
