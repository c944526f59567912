"""A fit in a TOML file: it asks the same as Python does, its mistakes are named, and the command tells and saves."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from fit_model import FRAMES, MODEL, TIMES
from toy_model import toy_model

import jaxcontact.models
from jaxcontact import cli
from jaxcontact.errors import InputError, unknown
from jaxcontact.measured import read_heel_strikes
from jaxcontact.study import Study
from jaxcontact.study.fit.fit_file import fit_of_tables, read_fit

TOML = """
[fit]
model = "formulas"
title = "a line"
starts = 3
seed = 2
mass = 70
stages = [["offset"], ["slope"]]
profile = ["slope"]
points = 21

[data]
file = "line.csv"

[unknown]
slope = { from = -50, to = 50, prior = { mean = 6, sd = 5 } }
offset = { from = -40, to = 60, start = 1 }

[tie]
b1 = "2 * offset"

[residual]
F_x = { sd = 0.5 }
impulse = { value = 6.5, sd = 0.1, weight = 2.0 }

[set]
radius = { value = 40, unit = "mm" }
"""


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    """Models of formulas known by name, a file of measurements, and an empty folder to work in."""
    toys = {"formulas": MODEL, "toy": toy_model()}

    def get_model(name):
        if name not in toys:
            raise unknown("model", name, toys)
        return toys[name]

    monkeypatch.setattr(jaxcontact.models, "get_model", get_model)
    monkeypatch.setattr("jaxcontact.cli.fitting.prepare_jax", lambda *choice: None)
    monkeypatch.chdir(tmp_path)
    rows = "\n".join(f"{1e3 * t:.6f},{3 + 7 * t:.9f}" for t in TIMES)
    Path("line.csv").write_text(f"t [ms],F_x\n{rows}\n")
    return tmp_path


def asked(text=TOML):
    Path("fit.toml").write_text(text)
    return read_fit("fit.toml")


def test_a_file_asks_what_it_says():
    found = asked()
    problem = found.problem
    assert problem.names == ("slope", "offset") and problem.title == "a line"
    assert problem.unknowns[0].prior == (6.0, 5.0) and problem.unknowns[1].start == 1.0
    assert problem.fixed == {"radius": 0.04} and problem.body_weight == pytest.approx(70 * 9.80665)
    curve, scalar = problem.channels
    assert (curve.kind, curve.count) == ("time", FRAMES) and np.allclose(curve.times, TIMES, atol=1e-9)
    assert np.allclose(curve.values, 3 + 7 * TIMES) and np.all(curve.sd == 0.5)
    assert (scalar.kind, scalar.values[0], scalar.weight) == ("outcome", 6.5, 2.0)
    assert problem.stated(np.array([1.0, 4.0]))["b1"] == 8.0
    assert found.options == {"starts": 3, "seed": 2, "stages": [("offset",), ("slope",)]}
    assert found.profiles == ("slope",)


def test_units_stars_and_dotted_names():
    tables = {
        "fit": {"model": "toy", "method": "compliant", "optimiser": "adam", "tolerance": 1e-3},
        "unknown": {
            "ball": {"mass": {"from": 100, "to": 900, "unit": "g", "prior": {"mean": 500, "sd": 50}}},
            "h*": {"from": 0.5, "to": 3.0, "scale": "log"},
        },
        "residual": {"weight": {"value": 4.9, "sd": 0.1}},
    }
    found = fit_of_tables(tables)
    mass, height = found.problem.unknowns
    assert (mass.name, mass.low, mass.high, mass.prior) == ("ball.mass", 0.1, 0.9, (0.5, 0.05))
    assert (height.name, height.scale) == ("height", "log")
    assert found.options == {"method": "adam", "tolerance": 1e-3}


def change(old, new):
    assert old in TOML
    return TOML.replace(old, new)


MISTAKES = [
    ("[fit", "is not valid TOML"),
    (change('model = "formulas"', ""), "must name a model"),
    (change('model = "formulas"', 'model = "formula"'), "formulas"),
    (change("starts = 3", "start = 3"), "starts"),
    (change("starts = 3", "starts = 0"), "starts"),
    (change("starts = 3", 'optimiser = 3'), "lbfgs"),
    (change("seed = 2", "tolerance = 2"), "tolerance = 2"),
    (change("seed = 2", 'seed = "x"'), "seed"),
    (change("mass = 70", "mass = -1"), "mass in kg"),
    (change("points = 21", "points = 2"), "points"),
    (change('[["offset"], ["slope"]]', '"offset"'), "list of lists"),
    (change('[["offset"], ["slope"]]', '["offset"]'), "a list of names"),
    (change('profile = ["slope"]', 'profile = "slope"'), "a list of names"),
    (change('file = "line.csv"', 'file = "lines.csv"'), "lines.csv"),
    (change('file = "line.csv"', 'path = "line.csv"'), "file"),
    (change("[unknown]", "[unknowns]"), "unknown"),
    (change("slope = { from = -50, to", "slop = { from = -50, to"), "slope"),
    (change("from = -50, to = 50", "from = -50"), "'to' is missing"),
    (change("from = -50, to = 50", "from = 50, to = -50"), "no range"),
    (change("from = -50, to = 50", 'from = "low", to = 50'), "not a number"),
    (change("from = -50, to = 50", "from = -500, to = 50"), "beyond the bounds"),
    (change("start = 1", "begin = 1"), "start"),
    (change("start = 1", 'unit = "m"'), "unit 'm'"),
    (change("{ mean = 6, sd = 5 }", "{ mean = 6 }"), "a prior needs mean and sd"),
    (change("{ mean = 6, sd = 5 }", "6"), "a table is needed"),
    (change('"2 * offset"', '"2 * ofset"'), "offset"),
    (change('"2 * offset"', '"2 *"'), "b1"),
    (change('b1 = "2 * offset"', 'slope = "offset"'), "keep one of them"),
    (change("F_x = { sd = 0.5 }", ""), "must say what the sd of F_x is"),
    (change("F_x = { sd = 0.5 }", "F_x = 0.5"), "standard deviation is needed"),
    (change("F_x = { sd = 0.5 }", "F_x = { sd = 0 }"), "sd must be above 0"),
    (change("F_x = { sd = 0.5 }", "F_x = { sd = 0.5 }\nF_z = { sd = 1 }"), "neither a value nor a column"),
    (change("impulse = { value = 6.5, sd", "impuls = { value = 6.5, sd"), "impulse"),
    (change("radius = {", "slope = 1\nradius = {"), "both unknown and given"),
    (change("[set]", "[measured]"), "follow a motion"),
    (change("[set]", "[laws]\nnormal = 1\n[set]"), "normal"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words"), MISTAKES)
def test_mistakes_are_named(text, words):
    with pytest.raises(InputError) as error:
        asked(text)
    assert words in str(error.value)


def test_rows_of_measurements_must_go_forward_in_time():
    Path("line.csv").write_text("t,F_x\n0,1\n0,2\n")
    with pytest.raises(InputError, match="t must increase"):
        asked()
    Path("line.csv").write_text("F_x\n1\n2\n")
    with pytest.raises(InputError, match="a column t"):
        asked()


def test_the_command_tells_and_saves(capsys):
    Path("fit.toml").write_text(change('stages = [["offset"], ["slope"]]', ""))
    assert cli.main(["fit", "fit.toml", "--starts", "2", "--out", "found"]) == 0
    out = capsys.readouterr().out
    assert "a line" in out and "22 samples, 2 starts" in out and "converged" in out
    assert "profile of slope (N/s)" in out and "saved in found" in out
    data = xr.open_zarr("found/results.zarr", consolidated=False)
    # Bayes by hand: exact data of a line (3, 7), a prior of 6 +- 5 on the slope, and an impulse of 6.5 = 3 + 7 / 2.
    assert data.value.sel(unknown="offset") == pytest.approx(3.0, abs=0.02)
    assert data.value.sel(unknown="slope") == pytest.approx(7.0, abs=0.02)
    assert data.low.sel(unknown="slope") < 7.0 < data.high.sel(unknown="slope")
    assert Path("found/fit.png").stat().st_size > 5_000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing.toml"], "there is no file nothing.toml"),
        (["fit.toml", "--starts", "0"], "starts"),
        (["fit.toml", "--profile", "slop"], "slop is not among the unknowns"),
    ],
)
def test_the_command_refuses_in_words(arguments, words, capsys):
    Path("fit.toml").write_text(TOML)
    assert cli.main(["fit", *arguments]) == 2
    told = capsys.readouterr().err
    assert words in told and "Traceback" not in told
    assert not Path("results").exists()


HEELS = Path(__file__).parents[2] / "shared" / "data" / "baines_heelstrike_windows.csv"


@pytest.mark.skipif(not HEELS.is_file(), reason="the measured data are not beside the project")
def test_a_study_of_a_measured_motion_knows_it_by_what_its_file_holds():
    """The same measurements elsewhere are the same study; other ones in the same place are not."""
    for folder in ("here", "there"):
        Path(folder).mkdir()
        Path(folder, "heels.csv").write_bytes(HEELS.read_bytes())
    strike = read_heel_strikes(HEELS)[0]
    tables = {
        "study": {"model": "heel"},
        "measured": {"file": "heels.csv", "subject": strike.subject, "trial": strike.trial},
    }
    here, there = (Study.from_dict(tables, folder=folder) for folder in ("here", "there"))
    assert here.fingerprint() == there.fingerprint()
    # Written down, it is found from anywhere.
    again = Study.from_dict(here.to_tables(), folder="there")
    assert again.measured == here.measured and again.fingerprint() == here.fingerprint()
    text = Path("there", "heels.csv").read_text().splitlines()
    Path("there", "heels.csv").write_text("\n".join(text[:-1]) + "\n")
    assert Study.from_dict(tables, folder="there").fingerprint() != here.fingerprint()
    with pytest.raises(InputError, match="follow a motion"):
        Study.from_dict({"study": {"model": "toy"}, "measured": {"file": "heels.csv"}})
