"""Small fits to carry away: a heel with a made-up strike, really fitted, and feet whose answer is given."""

import re
from dataclasses import fields
from functools import cache
from pathlib import Path

import numpy as np

from jaxcontact.models import get_model
from jaxcontact.study.fit.channels import make_channel
from jaxcontact.study.fit.diagnosis import Diagnosis
from jaxcontact.study.fit.fit_file import fit_of_tables
from jaxcontact.study.fit.fitting import Fit, Starts, fit, score
from jaxcontact.study.fit.mujoco import to_mujoco
from jaxcontact.study.fit.opensim import to_opensim
from jaxcontact.study.fit.problem import Problem
from jaxcontact.study.fit.solvers import Optimiser
from jaxcontact.study.fit.unknowns import Unknown

HEEL = {"k": 5e4, "c": 250.0, "offset": 0.002}  # what the strike below was made with; m = 1
FRAMES = 21  # of the stance
TITLE = "a heel <script>alert('x')</script> & more"


def write_strike(path: Path) -> None:
    """A heel strike of 40 ms: 12 mm of compression, force by F = d (k + c d_rate / 5 mm), noise of 5 N."""
    t = np.arange(-10, 121) / 3000.0
    phase = np.clip(t, 0.0, None) / 0.04
    squeezed, rate = 0.012 * np.sin(0.5 * np.pi * phase), 0.012 * 0.5 * np.pi / 0.04 * np.cos(0.5 * np.pi * phase)
    d = np.clip(squeezed - HEEL["offset"], 0.0, None)
    force = d * (HEEL["k"] + HEEL["c"] / 0.005 * rate) + np.random.default_rng(0).normal(0.0, 5.0, t.shape)
    names = "subject,trial,speed,mass_kg,t,Fx,Fy,Fz,CoPx,CoPy,heel_x,heel_y,heel_z,heel_vz,compression"
    rows = [f"{names},compression_10N,shank_pitch"]
    for time, newtons, metres in zip(t, force, squeezed, strict=True):
        rows.append(f"1,7,normal,70,{time:.9f},0,0,{newtons:.9f},,,0,0,0,0,{metres:.12f},{metres:.12f},0")
    path.write_text("\n".join(rows) + "\n")


def fit_heel(folder: Path) -> Fit:
    """Fit the strike in `folder`, whose file it writes."""
    write_strike(folder / "strike.csv")
    tables = {
        "fit": {"model": "heel", "title": TITLE},
        "measured": {"file": "strike.csv", "subject": "1", "trial": "7", "frames": 46},
        "unknown": {
            "k": {"from": 1e3, "to": 1e6, "scale": "log"},
            "c": {"from": 10.0, "to": 1e4, "scale": "log", "prior": {"mean": 300.0, "sd": 1.0}},
            "offset": {"from": -0.004, "to": 0.01},
        },
        "residual": {"F_z": {"sd": 5.0}},
        "set": {"m": 1.0},
    }
    return fit(fit_of_tables(tables, folder=folder).problem, starts=4)


def given_fit(problem: Problem, values: dict[str, float], predictions: dict | None = None) -> Fit:
    """A fit that ended at these values after one step; nothing is looked for."""
    n, names = len(problem.names), problem.names
    told: dict = {
        "reason": "given",
        "converged": True,
        "misfit": 1.0,
        "alike": 0.0,
        "widened": 1.0,
        "covariance": np.eye(n),
        "sd": np.ones(n),
        "intervals": {name: (values[name] - 1.0, values[name] + 1.0) for name in names},
        "correlation": np.eye(n),
        "bounds": dict.fromkeys(names, ""),
        "unused": (),
        "blind": (),
        "equals": 1,
        "places": 1,
        "spread": np.zeros(n),
        "moved": 0.0,
        "findings": ("the answer was given",),
    }
    # What nobody asks of a given answer is not there.
    told |= {field.name: None for field in fields(Diagnosis) if field.name not in told}
    one = np.ones(1)
    starts = Starts(np.zeros((1, n)), np.zeros((1, n)), one, one, one, one.astype(int))
    found = score(problem, values) if predictions is None else predictions
    return Fit(problem, values, starts, Optimiser("lm"), (names,), found, Diagnosis(**told))


# ---------------------------------------------------------------- a foot in other tools


@cache
def stance(scored=False, mu_viscous=0.0, **fixed):
    """A stance on nine spheres, of a fit that found k and mu; `scored`: with what the model says, which takes time."""
    model = get_model("stance")
    channels = [make_channel(model, name, "frames", np.zeros(FRAMES), 1.0) for name in ("F_z", "F_x")]
    problem = Problem.of_model(
        model,
        unknowns=[Unknown("k", 1e3, 1e7, "log"), Unknown("mu", 0.1, 2.0)],
        channels=channels,
        fixed={"mu_viscous": mu_viscous, **fixed},
        points=FRAMES,
    )
    return given_fit(problem, {"k": 9e4, "mu": 0.6}, None if scored else {})


@cache
def carry_stance(kind):
    """The stance in the words of "mujoco", or of a kind of OpenSim force."""
    return to_mujoco(stance()) if kind == "mujoco" else to_opensim(stance(), kind)


def stated(text, name):
    """(max of normal, max of friction) that the comment about a sphere states, N; 0 for rounding."""
    line = re.search(rf"<!-- {name}: normal (.*?); friction (.*?); deepest", text)
    assert line
    return [0.0 if "rounding" in part else float(re.match(r"max (\S+) N", part).group(1)) for part in line.groups()]
