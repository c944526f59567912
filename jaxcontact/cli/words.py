"""What may be typed: commands, arguments and options."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from jaxcontact.cli import benching, certifying, fitting, measuring, results, running, sensing
from jaxcontact.errors import InputError, unknown

COMMANDS = (
    "run",
    "list",
    "describe",
    "status",
    "failures",
    "merge",
    "plot",
    "table",
    "sensitivity",
    "stance",
    "fit",
    "certify",
    "bench",
)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Return the arguments, with the function to call as `command`."""
    first = next((word for word in argv if not word.startswith("-")), None)
    if first is not None and first not in COMMANDS:
        raise unknown("command", first, COMMANDS)  # argparse would only list them
    return _parser().parse_args(argv)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Bad arguments are bad input like any other."""
        raise InputError(f"{message}\n{' '.join(self.format_usage().split())}")


class _Version(argparse.Action):
    def __call__(self, parser, namespace, values, option_string=None) -> None:
        """Look the version up only when asked for."""
        from jaxcontact.study.version import package_version

        print(f"jaxcontact {package_version()}")
        parser.exit()


def _parser() -> _Parser:
    parser = _Parser(
        prog="jaxcontact",
        description="Batched parameter sweeps for contact in human gait.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)

    run = commands.add_parser("run", help="run a published study by name, or a study described in a TOML file")
    run.add_argument("study", metavar="NAME_OR_FILE.toml", help="see `jaxcontact list` for the names")
    run.add_argument("--out", metavar="DIR", type=Path, help="where to save (default: results/NAME)")
    of_file = run.add_argument_group("for a study in a file")
    of_file.add_argument("--fresh", action="store_true", help="throw away what DIR holds of a study, and start over")
    of_file.add_argument("--chunk", metavar="N", type=int, help="configurations computed and saved together")
    of_file.add_argument("--devices", metavar="N", type=int, help="use N cores or accelerators (default: all)")
    of_file.add_argument("--lanes", metavar="N", type=int, help="configurations stepped together on a device")
    of_file.add_argument("--dtype", choices=running.DTYPES, help="number type (default: float64)")
    of_file.add_argument(
        "--cluster", metavar="ADDRESS", help="run on a dask cluster: scheduler address, scheduler file, or local:N"
    )
    run.set_defaults(command=running.run)

    named = commands.add_parser("list", help="list the published studies")
    named.set_defaults(command=running.list_studies)

    describe = commands.add_parser("describe", help="a model's parameters, outcomes, methods and laws")
    describe.add_argument("model", metavar="MODEL")
    describe.set_defaults(command=running.describe)

    status = commands.add_parser("status", help="how far the run in a directory is")
    status.add_argument("folder", metavar="DIR", type=Path)
    status.set_defaults(command=results.status)

    failures = commands.add_parser("failures", help="configurations that did not finish, as cases to run again")
    failures.add_argument("folder", metavar="DIR", type=Path)
    failures.add_argument("--out", metavar="NEW", type=Path, help="write NEW/cases.csv and NEW/study.toml, to be run")
    failures.add_argument("--status", metavar="NAME", action="append", default=[], help="only failures of this kind")
    failures.set_defaults(command=results.failures)

    merge = commands.add_parser("merge", help="put failures that were run again back into their study")
    merge.add_argument("folder", metavar="DIR", type=Path, help="the study that they are from")
    merge.add_argument("rerun", metavar="RERUN", type=Path, help="the results of running them again")
    merge.set_defaults(command=results.merge)

    plot = commands.add_parser("plot", help="draw what a directory holds")
    _choose_results(plot)
    plot.add_argument("--x", metavar="NAME", help="what runs along the horizontal axis")
    plot.add_argument("--by", metavar="NAME", help="what tells lines or colours apart")
    plot.add_argument("--out", metavar="FILE", type=Path, help="picture to write (default: DIR/overview.png)")
    plot.set_defaults(command=results.plot)

    table = commands.add_parser("table", help="print what a directory holds")
    _choose_results(table)
    table.add_argument("--csv", action="store_true", help="every row, comma-separated, with all digits")
    table.add_argument("--curves", action="store_true", help="with --csv: time histories, one row a point")
    table.add_argument("--limit", metavar="N", type=int, default=20, help="rows to print (default: 20)")
    table.set_defaults(command=results.table)

    sensitivity = commands.add_parser("sensitivity", help="how results depend on parameters: derivatives, variance")
    sensing.add_options(sensitivity)

    stance = commands.add_parser("stance", help="read force plates and markers: stances as a table and a picture")
    measuring.add_options(stance)

    fit = commands.add_parser("fit", help="find a model's parameters from what was measured, as a TOML file asks")
    fitting.add_options(fit)

    certify = commands.add_parser("certify", help="hold a model's exact derivatives against differences of runs")
    certifying.add_options(certify)

    bench = commands.add_parser("bench", help="measure how fast this machine is, against other tools and settings")
    benching.add_options(bench)
    return parser


def _choose_results(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", type=Path)
    parser.add_argument("--outcome", metavar="NAME", action="append", default=[], help="may be given several times")
    parser.add_argument(
        "--select", metavar="NAME=VALUE", action="append", default=[], help="hold a dimension at its nearest value"
    )
