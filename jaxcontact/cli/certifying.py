"""The command that holds a model's exact derivatives against differences of whole runs, and says what came of it."""

import argparse
import json
from pathlib import Path

from jaxcontact.cli.device import prepare_jax
from jaxcontact.errors import InputError

DOES_NOT_HOLD = 1  # exit code


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what may be typed after `jaxcontact certify`."""
    parser.description = (
        "Draws random configurations around a model's defaults, compares the exact derivative of every outcome by every"
        " parameter with differences of whole runs, and reports errors, worst cases, and where an outcome has a kink."
        f" Exit code: 0 if the certificate holds, {DOES_NOT_HOLD} if it does not, 2 for bad input."
    )
    parser.add_argument("model", metavar="MODEL", help="crutch, compass, foot, stance:points_31, ...")
    parser.add_argument("--method", metavar="NAME", help="the model's method (default: its first)")
    parser.add_argument(
        "--law", metavar="NAME=CHOICE", action="append", default=[], help="may be given several times: friction=coulomb"
    )
    parser.add_argument("--count", metavar="N", type=int, default=64, help="configurations (default: 64)")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="another seed, other configurations")
    parser.add_argument(
        "--by",
        metavar="NAME",
        action="append",
        default=[],
        help="by these parameters only: --by mu,k_n",
    )
    parser.add_argument("--outcomes", metavar="NAME", action="append", default=[], help="only of these outcomes")
    parser.add_argument("--rtol", metavar="X", type=float, default=1e-12, help="tolerance of the runs (default: 1e-12)")
    parser.add_argument("--limit", metavar="X", type=float, default=1e-5, help="largest error allowed (default: 1e-5)")
    parser.add_argument("--out", metavar="FILE.json", type=Path, help="write all that was found there")
    parser.set_defaults(command=certify)


def certify(arguments: argparse.Namespace) -> None:
    """Draw, run, compare, print; the exit code says whether it holds."""
    laws = dict(_law(text) for text in arguments.law)
    if arguments.seed < 0:
        raise InputError(f"--seed {arguments.seed}: a whole number of at least 0 is needed")
    out = arguments.out
    if out is not None and not out.parent.is_dir():
        raise InputError(f"--out {out}: there is no directory {out.parent}")  # now, and not after all the runs
    prepare_jax()
    from jaxcontact.models import get_model
    from jaxcontact.study.certificates.certify import certify as run_certificate
    from jaxcontact.study.certificates.report import as_dict, text
    from jaxcontact.study.progress import ProgressDisplay

    model = get_model(arguments.model)
    with ProgressDisplay(f"certify {arguments.model}") as progress:
        certificate = run_certificate(
            model,
            arguments.method,
            laws,
            count=arguments.count,
            seed=arguments.seed,
            by=_names(arguments.by),
            outcomes=_names(arguments.outcomes),
            rtol=arguments.rtol,
            limit=arguments.limit,
            progress=progress,
        )
    print(text(certificate))
    if out is not None:
        out.write_text(json.dumps(as_dict(certificate, model), indent=1, allow_nan=False) + "\n", encoding="utf-8")
        print(f"saved in {out}")
    if not certificate.holds:
        raise SystemExit(DOES_NOT_HOLD)


def _law(text: str) -> tuple[str, str]:
    name, equals, choice = text.partition("=")
    if not (name and equals and choice):
        raise InputError(f"--law {text}: NAME=CHOICE is needed, as in friction=coulomb")
    return name, choice


def _names(given: list[str]) -> list[str]:
    """Names from options that may be given several times, each with one name or several with commas between."""
    return list(dict.fromkeys(name for text in given for name in text.split(",") if name))
