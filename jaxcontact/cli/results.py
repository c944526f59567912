"""Commands that look at results: status, failures, merge, plot, table. None of them simulates."""

import argparse
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from jaxcontact.cli.device import draw_without_a_screen
from jaxcontact.errors import InputError

if TYPE_CHECKING:
    import xarray as xr


@contextmanager
def _damage_is_said(folder: Path) -> Iterator[None]:
    """Results that were damaged after they were written are refused by their checksum, not shown."""
    try:
        yield
    except RuntimeError as error:
        if "decompression" not in str(error):
            raise
        raise InputError(f"{folder} is damaged: run its study again, which mends what is damaged") from None


def _not_run_yet(folder: Path) -> str:
    """Say how much of a study is missing; nothing for one that is complete."""
    from jaxcontact.study.folder import read_card
    from jaxcontact.study.status import progress_of

    if "sizes" not in read_card(folder):
        return ""  # a published study, which is saved when it is complete
    done, total = progress_of(folder)
    if done == 0:
        raise InputError(f"nothing of {folder} has been run yet (0 of {total:,} configurations)")
    return f"{total - done:,} of {total:,} configurations have not been run yet" if done < total else ""


def _refuse_analysis(folder: Path, dataset: "xr.Dataset") -> None:
    """A sensitivity analysis is no sweep: say where its picture is, and where its runs are if they were kept."""
    if "sensitivity" in dataset.attrs:
        runs = folder / "runs"
        allowed = f"\nallowed: {runs}, which holds its runs" if runs.is_dir() else ""
        raise InputError(f"{folder} holds a sensitivity analysis, drawn in {folder / 'sensitivity.png'}{allowed}")


def status(arguments: argparse.Namespace) -> None:
    """Print how far the run in a directory is."""
    from jaxcontact.study.status import describe_status

    print(describe_status(arguments.folder))


def failures(arguments: argparse.Namespace) -> None:
    """Print the failures as cases, or write them with a study that runs them again; the summary goes to stderr."""
    from jaxcontact.study.failures import describe_failures, write_failed_cases, write_rerun
    from jaxcontact.study.folder import load

    _refuse_analysis(arguments.folder, load(arguments.folder))
    with _damage_is_said(arguments.folder):
        if arguments.out is None:
            write_failed_cases(arguments.folder, sys.stdout, arguments.status)
            sys.stdout.flush()
            print(describe_failures(load(arguments.folder)) or "every configuration finished", file=sys.stderr)
            return
        count = write_rerun(arguments.folder, arguments.out, arguments.status)
    again, rerun = arguments.out / "study.toml", arguments.out / "results"
    print(f"{count:,} cases in {arguments.out / 'cases.csv'}")
    print(f"change [solver] in {again} as you like, then:")
    print(f"  jaxcontact run {again} --out {rerun}\n  jaxcontact merge {arguments.folder} {rerun}")


def merge(arguments: argparse.Namespace) -> None:
    """Put results of a rerun back."""
    import jax

    # Layouts follow the number type that the results were made with.
    from jaxcontact.study.folder import read_card

    jax.config.update("jax_enable_x64", read_card(arguments.folder).get("number type") != "float32")
    from jaxcontact.study.failures import describe_failures
    from jaxcontact.study.folder import load
    from jaxcontact.study.merge import merge as merge_results

    count = merge_results(arguments.folder, arguments.rerun)
    print(f"{count:,} configurations of {arguments.folder} replaced by those of {arguments.rerun} that finished")
    print(describe_failures(load(arguments.folder)) or "every configuration finished")


def plot(arguments: argparse.Namespace) -> None:
    """Draw an overview to a file."""
    draw_without_a_screen()
    from jaxcontact.overview import draw
    from jaxcontact.study.folder import load

    out = arguments.out or arguments.folder / "overview.png"
    if out.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise InputError(f"--out {out}: the kind of picture is told by its ending\nallowed: .png, .pdf, .svg")
    if not out.parent.is_dir():
        raise InputError(f"--out {out}: there is no directory {out.parent}")
    dataset = load(arguments.folder)
    _refuse_analysis(arguments.folder, dataset)
    _not_run_yet(arguments.folder)
    with _damage_is_said(arguments.folder):
        figure = draw(
            dataset, outcomes=arguments.outcome, x=arguments.x, by=arguments.by, select=_selection(arguments.select)
        )
    figure.savefig(out, dpi=150)
    print(f"drawn in {out}")


def table(arguments: argparse.Namespace) -> None:
    """Print rows of numbers."""
    from jaxcontact.study.folder import load
    from jaxcontact.study.table import print_table, write_csv

    dataset, select = load(arguments.folder), _selection(arguments.select)
    if arguments.curves and not arguments.csv:
        raise InputError("--curves needs --csv: a time history has too many rows to print")
    if arguments.limit < 1:
        raise InputError(f"--limit {arguments.limit}: a whole number of at least 1 is needed")
    missing = _not_run_yet(arguments.folder)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    with _damage_is_said(arguments.folder):
        if arguments.csv:
            write_csv(dataset, sys.stdout, outcomes=arguments.outcome, select=select, curves=arguments.curves)
        else:
            print_table(
                dataset, sys.stdout, outcomes=arguments.outcome, select=select, limit=arguments.limit, width=width
            )
    if missing:
        sys.stdout.flush()
        print(missing, file=sys.stderr)


def _selection(words: list[str]) -> dict[str, str]:
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name and equals and value):
            raise InputError(f"--select {word}: NAME=VALUE is needed, as in --select mu=0.75")
        found[name] = value
    return found
