"""Commands that compute: run a study, list what can be run, describe models."""

import argparse
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from jaxcontact.cli import BAD_INPUT, INTERRUPTED, Stopped
from jaxcontact.cli.device import draw_without_a_screen, prepare_jax
from jaxcontact.errors import InputError, unknown

if TYPE_CHECKING:
    import xarray as xr

    from jaxcontact.study.execute import Executor
    from jaxcontact.study.sweep import Progress

DTYPES = ("float64", "float32")
_FOR_FILES = ("fresh", "chunk", "devices", "lanes", "dtype", "cluster")


def list_studies(arguments: argparse.Namespace) -> None:
    """Print the published studies."""
    from jaxcontact.study.named import list_named

    print_columns([("NAME", "STUDY"), *list_named()])


def describe(arguments: argparse.Namespace) -> None:
    """Print everything that there is to know about a model before using it."""
    from jaxcontact.models import get_model
    from jaxcontact.study.units import unit_label

    model = get_model(arguments.model)
    print(f"{model.name}: {model.summary}\nsource: {model.source}\n")
    print_columns(
        [("PARAMETER", "UNIT", "DEFAULT", "BOUNDS", "MEANING", "SOURCE")]
        + [
            (p.name, unit_label(p.unit), f"{p.default:.6g}", f"{p.low:g} to {p.high:g}", p.meaning, p.source)
            for p in model.parameters
        ]
    )
    for heading, quantities in (("OUTCOME", model.outcomes), ("CURVE", model.curve_outcomes)):
        if quantities:
            print()
            print_columns(
                [(heading, "UNIT", "MEANING")]
                + [
                    (q.name, unit_label(q.unit), q.meaning + (f" ({', '.join(q.labels)})" if q.labels else ""))
                    for q in quantities
                ]
            )
    print(f"\nmethods: {', '.join(model.methods)}")
    for name, allowed in model.choices.items():
        print(f"law {name}: {', '.join(allowed)} (the first is the default)")


def run(arguments: argparse.Namespace) -> None:
    """Run a study in a file, or a published one."""
    for name in ("chunk", "devices", "lanes"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise InputError(f"--{name} {value}: a whole number of at least 1 is needed")
    if arguments.cluster is not None and arguments.devices is not None:
        raise InputError("--devices is for this machine: each worker of a --cluster uses all its own")
    if arguments.study.endswith(".toml"):
        _run_file(Path(arguments.study), arguments)
        return
    for name in _FOR_FILES:
        if getattr(arguments, name):
            raise InputError(f"--{name} is for a study in a .toml file: a published study chooses for itself")
    _run_named(arguments.study, arguments.out)


# ---------------------------------------------------------------- a study in a file


def _run_file(path: Path, arguments: argparse.Namespace) -> None:
    if not path.exists():
        raise InputError(f"there is no file {path}")  # at once, without waiting for JAX
    prepare_jax(arguments.dtype or DTYPES[0], arguments.devices)
    from jaxcontact.study.definition import Study
    from jaxcontact.study.failures import describe_failures
    from jaxcontact.study.progress import ProgressDisplay
    from jaxcontact.study.sweep import run as run_study

    study = Study.from_file(path)
    out = arguments.out or Path("results") / path.stem
    with (
        _executor(arguments) as executor,
        ProgressDisplay(path.stem) as display,
        saved_when_stopped(out, display) as progress,
    ):
        dataset = run_study(
            study,
            out=out,
            fresh=arguments.fresh,
            chunk=arguments.chunk,
            executor=executor,
            progress=progress,
            notice=lambda text: print(text, file=sys.stderr),
        )
    print(_shape_line(dataset))
    print(describe_failures(dataset) or "every configuration finished")
    if not dataset.sizes:
        from jaxcontact.study.table import print_table

        print_table(dataset, sys.stdout)
    print(f"saved in {out}\nopen it in Python: xarray.open_zarr({str(out / 'results.zarr')!r})")
    if dataset.sizes:
        print(f"look at it: jaxcontact plot {out}    jaxcontact table {out}")


@contextmanager
def _executor(arguments: argparse.Namespace) -> "Iterator[Executor]":
    from jaxcontact.study.execute import LocalExecutor

    if arguments.cluster is None:
        yield LocalExecutor(arguments.devices, arguments.lanes)
        return
    from jaxcontact.study.cluster import ClusterExecutor

    with ClusterExecutor(arguments.cluster, lanes=arguments.lanes) as executor:
        yield executor


@contextmanager
def saved_when_stopped(out: Path, progress: "Progress") -> "Iterator[Progress]":
    """Whatever ends a run early, say what is saved and how to go on. A scheduler's SIGTERM counts as Ctrl-C.

    Yields `progress`, to be told instead: an interrupt that comes while garbage is collected, for one, is printed by
    Python and forgotten, and is raised again when progress is next told.
    """
    asked = False

    def interrupt(*_: object) -> None:
        nonlocal asked
        asked = True
        raise KeyboardInterrupt

    def tell(*counts: int) -> None:
        if asked:
            raise KeyboardInterrupt
        progress(*counts)

    ours = [signal.SIGTERM]
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored, as behind `nohup`
        ours.append(signal.SIGINT)
    before = {number: signal.signal(number, interrupt) for number in ours}
    try:
        yield tell
    except KeyboardInterrupt:
        raise Stopped(f"stopped; {_what_is_saved(out)}", INTERRUPTED) from None
    except OSError as error:  # a full disk, most likely
        reason = f"{error.filename}: {error.strerror}" if error.filename else f"{error.strerror or error}"
        raise Stopped(f"{reason}; {_what_is_saved(out)}", BAD_INPUT) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _what_is_saved(out: Path) -> str:
    from jaxcontact.study.status import progress_of

    try:
        done, total = progress_of(out)
    except InputError:
        return "nothing was saved"
    return f"{done:,} of {total:,} configurations are saved in {out}, and the same command goes on from there"


# ---------------------------------------------------------------- a published study


def _run_named(name: str, out: Path | None) -> None:
    from jaxcontact.study.folder import check_free, save
    from jaxcontact.study.named import list_named, load_named, named_fingerprint
    from jaxcontact.study.progress import ProgressDisplay

    titles = dict(list_named())
    if name not in titles:
        raise unknown("study", name, [*titles, "or a file whose name ends in .toml"])
    out, fingerprint = out or Path("results") / name, named_fingerprint(name)
    check_free(out, {"fingerprint": fingerprint})
    prepare_jax()
    draw_without_a_screen()
    module = load_named(name)
    with ProgressDisplay(name) as progress:
        published = module.run(progress)
    print(published.text)
    save(out, fingerprint=fingerprint, title=titles[name], dataset=published.dataset, figures=published.figures)
    print(f"saved in {out}")


# ---------------------------------------------------------------- how it is printed


def _shape_line(dataset: "xr.Dataset") -> str:
    shape, count = dict(dataset["status"].sizes), dataset["status"].size
    axes = f" ({' x '.join(f'{dim} {size:,}' for dim, size in shape.items())})" if shape else ""
    many = "configuration" if count == 1 else "configurations"
    return f"{dataset.attrs['model']}, {dataset.attrs['method']}: {count:,} {many}{axes}"


def print_columns(rows: Sequence[Sequence[str]]) -> None:
    """Align every column but the last."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
