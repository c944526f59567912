"""The command that fits: reads a file, looks for the unknowns, prints and saves what was found."""

import argparse
import hashlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from jaxcontact.cli.device import draw_without_a_screen, prepare_jax
from jaxcontact.errors import InputError

if TYPE_CHECKING:
    import xarray as xr

    from jaxcontact.study.fit.fitting import Fit
    from jaxcontact.study.fit.problem import Problem
    from jaxcontact.study.fit.profile import Profile


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what may be typed after `jaxcontact fit`."""
    parser.add_argument("file", metavar="FILE.toml", type=Path)
    parser.add_argument("--out", metavar="DIR", type=Path, help="where to save (default: results/NAME)")
    parser.add_argument("--starts", metavar="N", type=int, help="instead of what the file says")
    parser.add_argument(
        "--profile", metavar="NAME", action="append", default=[], help="profile likelihood of an unknown"
    )
    away = parser.add_argument_group("carry it away")
    away.add_argument("--report", metavar="FILE.html", type=Path, help="one page with everything, to read or print")
    away.add_argument("--toml", metavar="FILE", type=Path, help="a study for `jaxcontact run` with what was found")
    away.add_argument("--opensim", metavar="FILE", type=Path, help="HuntCrossleyForce as XML")
    away.add_argument("--opensim-smooth", metavar="FILE", type=Path, help="SmoothSphereHalfSpaceForce as XML")
    away.add_argument("--mujoco", metavar="FILE", type=Path, help="contact pairs as MJCF, the nearest that there are")
    away.add_argument(
        "--mujoco-mass",
        metavar="KG",
        type=float,
        default=1.0,
        help="1/body_invweight0 of the bodies that the pairs are for (default: 1)",
    )
    parser.set_defaults(command=fit)


def fit(arguments: argparse.Namespace) -> None:
    """Fit what a file asks, print it in words, save starts and curves, write what was asked for."""
    if not arguments.file.exists():
        raise InputError(f"there is no file {arguments.file}")  # at once, without waiting for JAX
    prepare_jax()
    draw_without_a_screen()
    from jaxcontact.study.fit.fit_file import read_fit
    from jaxcontact.study.fit.fitting import fit as run_fit
    from jaxcontact.study.fit.profile import profile
    from jaxcontact.study.fit.words import describe_fit, describe_profile
    from jaxcontact.study.folder import check_free, save
    from jaxcontact.study.progress import ProgressDisplay

    asked = read_fit(arguments.file)
    out = arguments.out or Path("results") / arguments.file.stem
    fingerprint = hashlib.sha256(b"fit " + arguments.file.read_bytes()).hexdigest()
    check_free(out, {"fingerprint": fingerprint})
    _check_places(arguments, asked.problem)
    options = asked.options | ({} if arguments.starts is None else {"starts": arguments.starts})
    names = list(dict.fromkeys([*asked.profiles, *arguments.profile]))
    for name in names:
        if name not in asked.problem.names:
            raise InputError(f"profile: {name} is not among the unknowns ({', '.join(asked.problem.names)})")
    with ProgressDisplay(arguments.file.stem) as progress:
        found = run_fit(asked.problem, **options, progress=progress)
        profiles = [profile(found, name, progress=progress) for name in names]
    print(describe_fit(found))
    for each in profiles:
        print(describe_profile(each))
    title = asked.problem.title or arguments.file.stem
    save(out, fingerprint=fingerprint, title=title, dataset=_dataset(found), figures=_figures(found))
    print(f"saved in {out}")
    _carry(arguments, found, profiles, title)


def _check_places(arguments: argparse.Namespace, problem: "Problem") -> None:
    """Refuse before a long fit what could not be written after it."""
    from jaxcontact.study.fit.spheres import check_spheres

    for path in (arguments.report, arguments.toml, arguments.opensim, arguments.opensim_smooth, arguments.mujoco):
        if path and path.is_dir():
            raise InputError(f"{path} cannot be written: it is a folder")
        if path and not path.absolute().parent.is_dir():
            raise InputError(f"{path} cannot be written: there is no folder {path.parent}")
    if arguments.opensim or arguments.opensim_smooth or arguments.mujoco:
        check_spheres(problem)


def _carry(arguments: argparse.Namespace, found: "Fit", profiles: "list[Profile]", title: str) -> None:
    """Write what was asked for; what a conversion costs goes to the screen too. A refusal comes after all others."""
    from jaxcontact.study.fit import carry

    refused = []
    if arguments.report:
        from jaxcontact.reports.html import write_report

        write_report(found, arguments.report, title=title, profiles=profiles)
        print(f"wrote {arguments.report}")
    jobs = (
        (arguments.toml, lambda: (carry.to_toml(found, path=arguments.toml, folder=arguments.file.parent), ())),
        (arguments.opensim, lambda: carry.to_opensim(found, "hunt_crossley")),
        (arguments.opensim_smooth, lambda: carry.to_opensim(found, "smooth_sphere")),
        (arguments.mujoco, lambda: carry.to_mujoco(found, mass=arguments.mujoco_mass)),
    )
    for path, make in jobs:
        if not path:
            continue
        try:
            text, errors = make()
            path.write_text(text, encoding="utf-8")
        except InputError as error:
            refused.append(f"{path} was not written: {error}")
        except OSError as error:
            refused.append(f"{path} cannot be written: {error.strerror or error}")
        else:
            print(f"wrote {path}" + (f": jaxcontact run {path}" if path is arguments.toml else ""))
            for line in errors:
                print(f"  {line}", file=sys.stderr)
    if refused:
        raise InputError("\n".join(refused))


def _figures(found: "Fit") -> dict:
    from jaxcontact.reports.figures import draw_channels

    return {"fit": draw_channels(found)}


def _dataset(found: "Fit") -> "xr.Dataset":
    from jaxcontact.study.fit.labelled import fit_dataset

    return fit_dataset(found)
