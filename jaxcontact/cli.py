"""The command `jaxcontact`: reads what a person typed, calls the library, prints. Heavy imports wait until needed."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from jaxcontact.errors import InputError, unknown

if TYPE_CHECKING:
    import xarray as xr

COMMANDS = ("run", "list", "describe")
BAD_INPUT, INTERRUPTED = 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, 2 for bad input, 130 for Ctrl-C."""
    argv = sys.argv[1:] if argv is None else list(argv)
    try:
        _check_command(argv)
        arguments = _parser().parse_args(argv)
        arguments.command(arguments)
        sys.stdout.flush()
        return 0
    except SystemExit as stop:  # --help and --version
        return int(stop.code or 0)
    except InputError as error:
        return _complain(str(error), BAD_INPUT)
    except KeyboardInterrupt:
        return _complain("stopped; nothing more was saved", INTERRUPTED)
    except MemoryError:
        return _complain("not enough memory for so many configurations; make the study smaller", BAD_INPUT)
    except BrokenPipeError:  # the reader of our output (head, less) has gone: that is no error
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except OSError as error:  # a full disk, a directory that may not be written
        place = f"{error.filename}: " if error.filename else ""
        return _complain(f"{place}{error.strerror or error}", BAD_INPUT)


def _complain(message: str, code: int) -> int:
    print(f"jaxcontact: {message}", file=sys.stderr)
    return code


# ---------------------------------------------------------------- what may be typed


def _check_command(argv: Sequence[str]) -> None:
    """Offer the nearest command; argparse would only list them."""
    first = next((word for word in argv if not word.startswith("-")), None)
    if first is not None and first not in COMMANDS:
        raise unknown("command", first, COMMANDS)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Bad arguments are bad input like any other."""
        raise InputError(f"{message}\n{self.format_usage().strip()}")


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
    run.add_argument("--chunk", metavar="N", type=int, help="configurations at a time, for a file (default: 1024)")
    run.set_defaults(command=_run)

    named = commands.add_parser("list", help="list the published studies")
    named.set_defaults(command=_list)

    describe = commands.add_parser("describe", help="a model's parameters, outcomes, methods and laws")
    describe.add_argument("model", metavar="MODEL")
    describe.set_defaults(command=_describe)
    return parser


# ---------------------------------------------------------------- the commands


def _list(arguments: argparse.Namespace) -> None:
    from jaxcontact.study.named import list_named

    _print_columns([("NAME", "STUDY"), *list_named()])


def _describe(arguments: argparse.Namespace) -> None:
    from jaxcontact.models import get_model
    from jaxcontact.study.units import unit_label

    model = get_model(arguments.model)
    print(f"{model.name}: {model.summary}\nsource: {model.source}\n")
    _print_columns(
        [("PARAMETER", "UNIT", "DEFAULT", "BOUNDS", "MEANING", "SOURCE")]
        + [
            (p.name, unit_label(p.unit), f"{p.default:.6g}", f"{p.low:g} to {p.high:g}", p.meaning, p.source)
            for p in model.parameters
        ]
    )
    for heading, quantities in (("OUTCOME", model.outcomes), ("CURVE", model.curve_outcomes)):
        if quantities:
            print()
            _print_columns(
                [(heading, "UNIT", "MEANING")]
                + [
                    (q.name, unit_label(q.unit), q.meaning + (f" ({', '.join(q.labels)})" if q.labels else ""))
                    for q in quantities
                ]
            )
    print(f"\nmethods: {', '.join(model.methods)}")
    for name, allowed in model.choices.items():
        print(f"law {name}: {', '.join(allowed)} (the first is the default)")


def _run(arguments: argparse.Namespace) -> None:
    if arguments.chunk is not None and arguments.chunk < 1:
        raise InputError(f"--chunk {arguments.chunk}: a whole number of at least 1 is needed")
    if arguments.study.endswith(".toml"):
        _run_file(Path(arguments.study), arguments.out, arguments.chunk or 1024)
    elif arguments.chunk is None:
        _run_named(arguments.study, arguments.out)
    else:
        raise InputError("--chunk is for a study in a .toml file: a published study chooses for itself")


def _run_file(path: Path, out: Path | None, chunk: int) -> None:
    if not path.exists():
        raise InputError(f"there is no file {path}")  # at once, without waiting for JAX
    _prepare_jax()
    from jaxcontact.study.definition import Study
    from jaxcontact.study.progress import ProgressDisplay
    from jaxcontact.study.store import RESULTS, check_free, save
    from jaxcontact.study.sweep import describe_failures, raise_if_single_failure, run

    study = Study.from_file(path)
    out = out or Path("results") / path.stem
    check_free(out, study.fingerprint())
    with ProgressDisplay(path.stem) as progress:
        dataset = run(study, progress=progress, chunk=chunk)
    raise_if_single_failure(dataset)
    save(out, fingerprint=study.fingerprint(), title=dataset.attrs["title"], dataset=dataset)

    print(_shape_line(dataset))
    print(describe_failures(dataset) or "every configuration finished")
    if not dataset.sizes:
        _print_outcomes(dataset)
    place = str(out / RESULTS)
    print(f"saved in {out}\nopen it in Python: xarray.open_zarr({place!r})")


def _run_named(name: str, out: Path | None) -> None:
    from jaxcontact.study.named import list_named, load_named, named_fingerprint
    from jaxcontact.study.progress import ProgressDisplay
    from jaxcontact.study.store import check_free, save

    titles = dict(list_named())
    if name not in titles:
        raise unknown("study", name, [*titles, "or a file whose name ends in .toml"])
    out = out or Path("results") / name
    check_free(out, named_fingerprint(name))
    _prepare_jax()
    _draw_without_a_screen()
    module = load_named(name)
    with ProgressDisplay(name) as progress:
        published = module.run(progress)
    print(published.text)
    save(
        out,
        fingerprint=named_fingerprint(name),
        title=titles[name],
        dataset=published.dataset,
        figures=published.figures,
    )
    print(f"saved in {out}")


# ---------------------------------------------------------------- how it is printed


def _shape_line(dataset: "xr.Dataset") -> str:
    shape = {dim: size for dim, size in dataset["status"].sizes.items()}
    count = dataset["status"].size
    axes = f" ({' x '.join(f'{dim} {size}' for dim, size in shape.items())})" if shape else ""
    many = "configuration" if count == 1 else "configurations"
    return f"{dataset.attrs['model']}, {dataset.attrs['method']}: {count} {many}{axes}"


def _print_outcomes(dataset: "xr.Dataset") -> None:
    rows = []
    for name, variable in dataset.data_vars.items():
        if variable.ndim == 0:
            value = f"{variable.item():.8g}"
            if "flag_meanings" in variable.attrs:
                names = variable.attrs["flag_meanings"].split()
                value = names[variable.item()] if variable.item() >= 0 else "-"
            rows.append((str(name), value, variable.attrs["units"], variable.attrs["long_name"]))
    _print_columns(rows)


def _print_columns(rows: Sequence[Sequence[str]]) -> None:
    """Align every column but the last."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


# ---------------------------------------------------------------- the machine it runs on


def _prepare_jax() -> None:
    """Choose double precision and keep compiled programs for the next call: the caller chooses, never the library."""
    import jax

    jax.config.update("jax_enable_x64", True)
    if getattr(jax.config, "jax_compilation_cache_dir", None):
        return  # the user's own setting (JAX_COMPILATION_CACHE_DIR)
    folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "jaxcontact" / "xla"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return  # no home, or a read-only one: compile every time
    if os.access(folder, os.W_OK):
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def _draw_without_a_screen() -> None:
    import matplotlib

    matplotlib.use("Agg")


if __name__ == "__main__":
    sys.exit(main())
