"""`jaxcontact stance`: what it prints and writes, and that bad input gives words, exit code 2 and no files."""

import json
import re

import pytest
from measured_trials import PlateMade, make_trial, write_c3d, write_mot, write_table, write_trc
from test_measured_c3d import two_steps

from jaxcontact import cli
from jaxcontact.measured import read_stances


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    right, left = two_steps()
    right.markers |= left.markers
    stems = ["ground_force_r", "ground_force_l"]
    return [str(write_mot(tmp_path / "walk.mot", [right, left], stems)), str(write_trc(tmp_path / "walk.trc", right))]


def test_table_and_picture(files, tmp_path, capsys):
    assert cli.main(["stance", *files, "--mass", "70", "--out", "here"]) == 0
    printed = capsys.readouterr().out
    assert "walk.mot + walk.trc: 2 stances" in printed and "686.5 N, 70.00 kg (given)" in printed
    lines = printed.splitlines()
    heading = next(line for line in lines if line.startswith("STANCE"))
    assert all(word in heading for word in ("TIME s", "PEAK 1", "VALLEY", "BRAKING", "COP mm", "PITCH deg"))
    row = next(line for line in lines if line.startswith("R_0.201s"))
    cells = dict(zip(re.split(r"  +", heading), re.split(r"  +", row), strict=True))
    # The made-up load has its valley of 630 N in the middle; the CoP runs over 200 mm, less what is below 50 N.
    assert cells["VALLEY"] == f"{630 / (70 * 9.80665):.3f}" and cells["COP mm"] == "198" and cells["SIDE"] == "R"
    assert (tmp_path / "here" / "walk.png").stat().st_size > 20_000
    card = json.loads((tmp_path / "here" / "walk.json").read_text())
    assert [each["side"] for each in card] == ["R", "L"] and card[0]["mass_source"] == "given"
    assert card[0]["markers"]["mtp"] == ["RMT1", "RMT5"]
    again = read_stances([tmp_path / "here" / "walk.csv"])
    assert [stance.side for stance in again] == ["R", "L"]


def test_every_option_is_heard(files, tmp_path, capsys):
    options = ["--side", "R", "--threshold", "30", "--cop-threshold", "60", "--margin", "0.05", "--shortest", "0.3"]
    options += [
        "--filter",
        "forces=butter:4:50",
        "--filter",
        "markers=butter:2:10",
        "--gap",
        "0.05",
        "--axes",
        "x,-z,y",
    ]
    options += ["--markers", "heel=RHEE,mtp=RMT1+RMT5", "--forward", "x", "--belt-speed", "0.5", "--level", "plate"]
    options += ["--plates", "ground_force_r=R"]
    assert cli.main(["stance", *files, *options]) == 0
    (card,) = json.loads((tmp_path / "results" / "stances" / "walk.json").read_text())
    assert (card["threshold"], card["cop_threshold"], card["belt_speed"]) == (30, 60, 0.5)
    assert (card["force_filter"], card["marker_filter"]) == ("butter:4:50", "butter:2:10")
    assert "not known (give --mass)" in capsys.readouterr().out


def test_several_trials_at_once(files, tmp_path, capsys):
    write_table(tmp_path / "own.csv", make_trial())
    write_c3d(tmp_path / "lab.c3d", [make_trial()], [PlateMade()])
    assert cli.main(["stance", *files, "own.csv", "lab.c3d", "--filter", "butter:4:20", "--out", "all"]) == 0
    assert {path.suffix for path in (tmp_path / "all").iterdir()} == {".csv", ".json", ".png"}
    assert len(list((tmp_path / "all").iterdir())) == 9
    assert "own.csv: 1 stance\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["none.c3d"], "there is no file none.c3d"),
        (["walk.mot"], "belong together"),
        (["walk.mot", "walk.trc", "--threshold", "9999"], "no stance found"),
        (["walk.mot", "walk.trc", "--threshold", "many"], "invalid float value"),
        (["walk.mot", "walk.trc", "--filter", "butter:3:20"], "even number"),
        (["walk.mot", "walk.trc", "--filter", "all=butter:4:20"], "'all' cannot be filtered"),
        (["walk.mot", "walk.trc", "--belt-speed", "quick"], "--belt-speed quick"),
        (["walk.mot", "walk.trc", "--plates", "R"], "PLATE=SIDE"),
        (["walk.mot", "walk.trc", "--markers", "heel=R.Heel"], "unknown marker 'R.Heel'"),
        (["walk.mot", "walk.trc", "--mass", "-1"], "mass"),
        (["walk.mot", "walk.trc", "--forward", "up"], "forward"),
        (["walk.mot", "walk.trc", "--axes", "x,z"], "axes"),
        ([], "required"),
    ],
)
def test_bad_input_is_said_and_nothing_is_written(files, tmp_path, capsys, options, words):
    before = sorted(tmp_path.rglob("*"))
    assert cli.main(["stance", *options]) == 2
    error = capsys.readouterr().err
    assert words in error and "Traceback" not in error
    assert sorted(tmp_path.rglob("*")) == before


def test_what_is_read_is_not_written_over(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = write_table(tmp_path / "own.csv", make_trial())
    before = path.read_text()
    assert cli.main(["stance", "own.csv", "--out", "."]) == 2
    assert "is what is to be read" in capsys.readouterr().err and path.read_text() == before
    (tmp_path / "other").mkdir()
    write_table(tmp_path / "other" / "own.csv", make_trial())
    assert cli.main(["stance", "own.csv", "other/own.csv", "--out", "new"]) == 2
    assert "two files are named own" in capsys.readouterr().err
