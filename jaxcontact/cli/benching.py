"""The command `bench`: how fast this machine is, as ratios within one run."""

import argparse
import sys
from pathlib import Path

from jaxcontact.bench.parts import DRAWN, PARTS
from jaxcontact.cli.device import draw_without_a_screen, prepare_jax
from jaxcontact.errors import InputError

EVERYTHING = "all"
# Two words have tables of their own, with more than ratios; the table of all ratios has them as parts too.
OWN_TABLES = {"sweep": "scale", "fit": "fit"}
WORDS = (EVERYTHING, *OWN_TABLES, *(name for name in PARTS if name not in OWN_TABLES.values()))
_FOR = {"most": "sweep", "starts": "fit", "file": "fit"}
_PICTURES = (".png", ".pdf", ".svg")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what may be typed after `jaxcontact bench`."""
    parts = "; ".join(f"{name}: {place.words}" for name, place in PARTS.items())
    parser.description = (
        f"Measures this machine, always against something else in the same run, and prints a table of ratios. {parts}."
        " `bench sweep` and `bench fit` measure one of them at length. Other tools are an extra: jaxcontact[bench]."
    )
    parser.add_argument("what", nargs="?", choices=WORDS, default=EVERYTHING, help=f"default: {EVERYTHING}")
    parser.add_argument("--short", action="store_true", help="a few configurations of everything: does it work?")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the numbers there too")
    parser.add_argument("--figure", metavar="FILE", type=Path, help="draw rate against accuracy, ours and everybody's")
    parser.add_argument("--most", metavar="N", type=int, help="sweep: the largest (default: 1000000)")
    parser.add_argument("--starts", metavar="N", type=int, help="fit: starts of ours (default: 1000)")
    parser.add_argument(
        "--file", metavar="FILE", type=Path, help="fit: measured stances (default: one that is made up)"
    )
    parser.set_defaults(command=bench)


def bench(arguments: argparse.Namespace) -> None:
    """Measure this machine."""
    what = arguments.what
    _check(what, arguments)
    prepare_jax()
    draw_without_a_screen()
    if what == "sweep":
        from jaxcontact.bench.sweep import MOST, bench_sweep

        bench_sweep(arguments.most or MOST, sys.stdout, arguments.json)
    elif what == "fit":
        from jaxcontact.bench.fit import STARTS, bench_fit

        bench_fit(sys.stdout, starts=arguments.starts or STARTS, file=arguments.file, to_json=arguments.json)
    else:
        from jaxcontact.bench.whole import bench as bench_parts

        names = list(PARTS) if what == EVERYTHING else [what]
        bench_parts(names, sys.stdout, short=arguments.short, to_json=arguments.json, to_figure=arguments.figure)


def _check(what: str, arguments: argparse.Namespace) -> None:
    """Refuse options at once, and not after minutes."""
    for name, word in _FOR.items():
        if what != word and getattr(arguments, name) is not None:
            raise InputError(f"--{name} is for `jaxcontact bench {word}`")
    if arguments.most is not None and arguments.most < 1000:
        raise InputError(f"--most {arguments.most}: at least 1000 configurations are needed to measure anything")
    if arguments.starts is not None and arguments.starts < 1:
        raise InputError(f"--starts {arguments.starts}: a whole number of at least 1 is needed")
    if arguments.file is not None and not arguments.file.is_file():
        raise InputError(f"there is no file {arguments.file}")
    if arguments.short and what in OWN_TABLES:
        raise InputError(f"--short is for the table of ratios: `jaxcontact bench --short`, not `bench {what}`")
    if arguments.figure is not None:
        if what not in (EVERYTHING, DRAWN):
            raise InputError(f"--figure is for `jaxcontact bench` and `jaxcontact bench {DRAWN}`")
        if arguments.figure.suffix not in _PICTURES:
            raise InputError(f"--figure {arguments.figure}: a name that ends in {', '.join(_PICTURES)} is needed")
    for name in ("json", "figure"):
        file = getattr(arguments, name)
        if file is not None and not file.parent.is_dir():
            raise InputError(f"--{name} {file}: there is no directory {file.parent}")
