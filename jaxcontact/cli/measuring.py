"""The command that reads measured trials: prints the figures of each stance, writes a tidy table and a picture."""

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jaxcontact.cli.device import draw_without_a_screen
from jaxcontact.cli.running import print_columns
from jaxcontact.errors import InputError

if TYPE_CHECKING:
    from jaxcontact.measured import Choices, Stance
    from jaxcontact.measured.filtering import Butterworth
    from jaxcontact.measured.summary import Summary

OUT = Path("results") / "stances"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what may be typed after `jaxcontact stance`."""
    parser.add_argument(
        "files", metavar="FILE", nargs="+", type=Path, help=".csv, .c3d, or a .mot or .sto with its .trc"
    )
    parser.add_argument("--out", metavar="DIR", type=Path, default=OUT, help=f"where to save (default: {OUT})")
    parser.add_argument("--mass", metavar="KG", type=float, help="of the subject (default: estimated from the steps)")
    parser.add_argument("--side", choices=("R", "L"), help="only this foot; or whose foot it is, if the file is silent")
    cutting = parser.add_argument_group("cutting")
    cutting.add_argument("--threshold", metavar="N", type=float, help="load above which the foot stands (default: 20)")
    cutting.add_argument(
        "--cop-threshold", metavar="N", type=float, help="load from which a centre of pressure counts (default: 50)"
    )
    cutting.add_argument("--shortest", metavar="S", type=float, help="what is shorter is no stance (default: 0.2)")
    cutting.add_argument("--margin", metavar="S", type=float, help="kept before and after a stance (default: 0.1)")
    signals = parser.add_argument_group("signals")
    signals.add_argument(
        "--filter",
        metavar="[WHAT=]butter:ORDER:HZ",
        action="append",
        default=[],
        help="low-pass without lag; WHAT is forces or markers (default: both); without --filter nothing is filtered",
    )
    signals.add_argument("--gap", metavar="S", type=float, help="longest gap of a marker to bridge (default: 0.1)")
    signals.add_argument(
        "--baseline", action="store_true", help="C3D: subtract the mean of the unloaded frames that the file names"
    )
    naming = parser.add_argument_group("markers and plates")
    naming.add_argument(
        "--markers", metavar="ROLE=NAME[+NAME],...", help="as in heel=R.Heel,mtp=R.MT5+R.Toe (default: guessed)"
    )
    naming.add_argument("--plates", metavar="PLATE=SIDE,...", help="as in plate1=R (default: the foot near the CoP)")
    frame = parser.add_argument_group("frame")
    frame.add_argument("--axes", metavar="F,L,U", help="the file's axes that are forward, left, up, as in x,-z,y")
    frame.add_argument(
        "--forward", metavar="AXIS_OR_DEG", help="x, -x, y, -y or degrees, after --axes (default: where the feet point)"
    )
    frame.add_argument("--belt-speed", metavar="V", help="treadmill: m/s, or auto; the frame then moves with the belt")
    frame.add_argument("--level", choices=("file", "plate"), help="heights as in the file, or above the plate")
    parser.set_defaults(command=stance)


def stance(arguments: argparse.Namespace) -> None:
    """Read each trial, print its stances, and write NAME.csv, NAME.json and NAME.png."""
    from jaxcontact.measured import read_stances, summary, trials

    choices, found = _choices(arguments), trials(arguments.files)
    names = [paths[0].stem for paths in found]
    if double := [name for name in names if names.count(name) > 1]:
        raise InputError(
            f"two files are named {double[0]}: their tables would have the same name; read them one by one"
        )
    for paths in found:
        _refuse_overwriting(arguments.out / f"{paths[0].stem}.csv", arguments.files)
    read = [(paths, read_stances(paths, choices)) for paths in found]  # all, before anything is written
    draw_without_a_screen()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for number, (paths, stances) in enumerate(read):
        if number:
            print()
        _print_trial(paths, stances, [summary(each) for each in stances])
        _write(arguments.out / paths[0].stem, paths, stances)


# ---------------------------------------------------------------- what was typed


def _choices(arguments: argparse.Namespace) -> "Choices":
    from jaxcontact.measured import Choices
    from jaxcontact.measured.markers import parse_markers

    options = {
        "mass": arguments.mass,
        "side": arguments.side,
        "threshold": arguments.threshold,
        "cop_threshold": arguments.cop_threshold,
        "shortest": arguments.shortest,
        "margin": arguments.margin,
        "longest_gap": arguments.gap,
        "markers": parse_markers(arguments.markers) if arguments.markers else None,
        "plates": _plates(arguments.plates) if arguments.plates else None,
        "axes": arguments.axes,
        "forward": arguments.forward,
        "belt_speed": _belt_speed(arguments.belt_speed),
        "level": arguments.level,
        "baseline": arguments.baseline or None,
        **_filters(arguments.filter),
    }
    return Choices(**{name: value for name, value in options.items() if value is not None})


def _plates(text: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(name.strip() and side.strip() for name, _, side in pairs):
        raise InputError(f"--plates {text}: PLATE=SIDE is needed, as in plate1=R,plate2=L")
    return {name.strip(): side.strip() for name, _, side in pairs}


def _belt_speed(text: str | None) -> float | str | None:
    if text is None or text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise InputError(f"--belt-speed {text}: a speed in m/s or auto is needed") from None


def _filters(texts: Sequence[str]) -> "dict[str, Butterworth]":
    from jaxcontact.measured.filtering import parse_filter

    found = {}
    for text in texts:
        what, equals, spec = text.rpartition("=")
        if equals and what not in ("forces", "markers"):
            raise InputError(f"--filter {text}: '{what}' cannot be filtered\nallowed: forces, markers")
        for name in [what] if equals else ["forces", "markers"]:
            found[f"{name.removesuffix('s')}_filter"] = parse_filter(spec)
    return found


def _refuse_overwriting(out: Path, files: Sequence[Path]) -> None:
    if out.exists() and any(out.samefile(file) for file in files):
        raise InputError(f"--out: {out} is what is to be read; choose another directory")


# ---------------------------------------------------------------- what is shown and saved


def _print_trial(paths: Sequence[Path], stances: "Sequence[Stance]", figures: "Sequence[Summary]") -> None:
    print(f"{' + '.join(path.name for path in paths)}: {len(stances)} {'stance' if len(stances) == 1 else 'stances'}")
    weight, mass = figures[0].body_weight, stances[0].provenance.mass
    if weight is None:
        print("body weight: not known (give --mass), so forces are in N")
    else:
        print(f"body weight: {weight:.1f} N, {mass:.2f} kg ({figures[0].mass_source}); forces are in body weights")
    heading = ("STANCE", "SIDE", "TIME s", "PEAK 1", "VALLEY", "PEAK 2", "BRAKING", "PROPULSION")
    heading += ("COP mm", "NEAR FLAT mm", "PITCH deg", "ROWS")
    print_columns([heading, *(_row(each) for each in figures)])
    for note in dict.fromkeys(note for each in stances for note in each.provenance.notes):
        whose = [each.name for each in stances if note in each.provenance.notes]
        print(f"note: {note}" if len(whose) == len(stances) else f"note on {', '.join(whose)}: {note}")


def _row(figures: "Summary") -> tuple[str, ...]:
    def force(value: float) -> str:
        share = figures.in_body_weight(value)
        return f"{value:.0f}" if share is None else f"{share:.3f}"

    low, high = math.degrees(figures.pitch_low), math.degrees(figures.pitch_high)
    return (
        figures.stance,
        figures.side or "-",
        f"{figures.duration:.3f}",
        force(figures.first_peak),
        force(figures.valley),
        force(figures.second_peak),
        force(figures.braking),
        force(figures.propulsion),
        f"{1e3 * figures.cop_travel:.0f}",
        f"{1e3 * figures.cop_travel_flat:.0f}",
        f"{low:.0f} to {high:.0f}",
        str(figures.rows),
    )


def _write(out: Path, paths: Sequence[Path], stances: "Sequence[Stance]") -> None:
    from jaxcontact.cli.stance_figure import draw_stances
    from jaxcontact.measured import write_csv

    table, card, picture = (out.with_name(out.name + ending) for ending in (".csv", ".json", ".png"))
    with table.open("w", newline="") as stream:
        write_csv(stances, stream)
    card.write_text(json.dumps([each.described() for each in stances], indent=1) + "\n")
    draw_stances(stances, title=" + ".join(path.name for path in paths)).savefig(picture, dpi=150)
    print(f"saved {table}, {card.name} (where it comes from) and {picture.name}")
