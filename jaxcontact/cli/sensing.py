"""The command that says how results depend on parameters: prints tables, saves the analysis and a picture."""

import argparse
import hashlib
import json
import shutil
import sys
from dataclasses import asdict
from pathlib import Path

from jaxcontact.cli.device import draw_without_a_screen, prepare_jax
from jaxcontact.cli.running import DTYPES, saved_when_stopped
from jaxcontact.errors import InputError

RUNS = "runs"  # where in the directory the runs of a Sobol or Morris analysis are kept


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what may be typed after `jaxcontact sensitivity`."""
    parser.add_argument("study", metavar="FILE.toml", type=Path, help="a study, with a table [sensitivity] if need be")
    parser.add_argument("--out", metavar="DIR", type=Path, help="where to save (default: results/NAME-sensitivity)")
    parser.add_argument("--fresh", action="store_true", help="throw away what DIR holds of a study, and start over")
    parser.add_argument("--chunk", metavar="N", type=int, help="configurations computed and saved together")
    parser.add_argument("--devices", metavar="N", type=int, help="use N cores or accelerators (default: all)")
    parser.add_argument("--lanes", metavar="N", type=int, help="configurations stepped together on a device")
    parser.add_argument("--dtype", choices=DTYPES, help="number type (default: float64)")
    parser.set_defaults(command=sensitivity)


def sensitivity(arguments: argparse.Namespace) -> None:
    """Do the analysis that a study file asks for."""
    for name in ("chunk", "devices", "lanes"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise InputError(f"--{name} {value}: a whole number of at least 1 is needed")
    path = arguments.study
    if not path.exists():
        raise InputError(f"there is no file {path}")  # at once, without waiting for JAX
    if path.suffix != ".toml":
        raise InputError(f"{path}: a study file is needed, whose name ends in .toml")
    prepare_jax(arguments.dtype or DTYPES[0], arguments.devices)
    draw_without_a_screen()
    from jaxcontact.cli.sensing_figure import draw
    from jaxcontact.study.execute import LocalExecutor
    from jaxcontact.study.folder import check_free, save
    from jaxcontact.study.progress import ProgressDisplay
    from jaxcontact.study.sensitivity import analyse, keeps_runs, read_request
    from jaxcontact.study.sensitivity.report import report

    study, request = read_request(path)
    asked = json.dumps({"study": study.fingerprint(), **asdict(request)}, sort_keys=True)
    fingerprint = hashlib.sha256(f"sensitivity {asked}".encode()).hexdigest()
    out, title = arguments.out or Path("results") / f"{path.stem}-sensitivity", f"sensitivity of {path.stem}"
    check_free(out, {"fingerprint": fingerprint}, fresh=arguments.fresh)
    if keeps_runs(study, request):  # the card goes first: a run that is stopped may go on in this directory
        _claim(out, fingerprint, title)
    executor = LocalExecutor(arguments.devices, arguments.lanes)
    with ProgressDisplay(path.stem) as display, saved_when_stopped(out / RUNS, display) as progress:
        found = analyse(
            study,
            request,
            out=out / RUNS,
            fresh=arguments.fresh,
            chunk=arguments.chunk,
            executor=executor,
            progress=progress,
            notice=lambda text: print(text, file=sys.stderr),
        )
    print(report(found))
    _claim(out, fingerprint, title)  # with --fresh it was another study's until now
    if not keeps_runs(study, request) and (out / RUNS).exists():
        shutil.rmtree(out / RUNS)
    save(out, fingerprint=fingerprint, title=title, dataset=found, figures={"sensitivity": draw(found, title)})
    print(f"saved in {out}\nopen it in Python: xarray.open_zarr({str(out / 'results.zarr')!r})")


def _claim(out: Path, fingerprint: str, title: str) -> None:
    """Say whose directory this is."""
    from jaxcontact.study.folder import write_card

    out.mkdir(parents=True, exist_ok=True)
    write_card(out, {"fingerprint": fingerprint}, title)
