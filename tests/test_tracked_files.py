"""Models under a measured motion in TOML files: `jaxcontact run` takes them, and bad input gives words."""

import csv
import tomllib

import numpy as np
import pytest
import xarray as xr
from measured_trials import make_trial, write_table

from jaxcontact import cli
from jaxcontact.errors import InputError
from jaxcontact.study.definition import Study
from jaxcontact.study.toml import write_toml
from jaxcontact.tracked.named import tracked_model

HEEL_COLUMNS = ("Fx", "Fy", "Fz", "CoPx", "CoPy", "heel_x", "heel_y", "heel_z", "heel_vz", "compression_10N")
RATE = 0.3  # m/s: how fast the made-up heels are squeezed


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A stance of a made-up walk, and two heels that are squeezed evenly."""
    here = tmp_path_factory.mktemp("measured")
    write_table(here / "walk.csv", make_trial())
    with (here / "heels.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["subject", "trial", "speed", "mass_kg", "t", *HEEL_COLUMNS, "compression", "shank_pitch"])
        for trial in ("1", "2"):
            for t in np.arange(-30, 121) / 3000:
                writer.writerow(["2", trial, "normal", 70, t, *[0.0] * len(HEEL_COLUMNS), RATE * t, 0.0])
    return here


def run(folder, name, text, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / f"{name}.toml").write_text(text)
    code = cli.main(["run", f"{name}.toml", "--out", f"{name}_out"])
    return code, folder / f"{name}_out" / "results.zarr"


WALK = '[study]\nmodel = "walk"\n[measured]\nfile = "walk.csv"\nmass = 70\nframes = 11\ncorrection = { height = 2 }\n'


def test_run_takes_a_heel(folder, monkeypatch, capsys):
    """A heel that is squeezed evenly: F = k d + c (d / 5 mm) d_rate at 30 ms, with m = 1 and d beyond the offset."""
    text = '[study]\nmodel = "heel"\n[measured]\nfile = "heels.csv"\nsubject = 2\ntrial = "1"\nframes = 31\n'
    code, stored = run(folder, "heel", text + "[vary]\nk = [2e4, 4e4]\n", monkeypatch)
    assert code == 0 and "every configuration finished" in capsys.readouterr().out
    with xr.open_zarr(stored) as dataset:
        d = RATE * 0.030 - 0.005
        np.testing.assert_allclose(dataset["F_peak"], np.array([2e4, 4e4]) * d + 300 * RATE * d / 0.005, rtol=1e-6)
        assert dataset["F_peak"].attrs["units"] == "N"


def test_run_takes_a_rolling_surface(folder, monkeypatch, capsys):
    """CoP of one term: at foot flat rho is 2 A C on either side."""
    text = '[study]\nmodel = "roll:1"\n[measured]\nfile = "walk.csv"\nframes = 21\n[vary]\n"rear.C1" = [5, 12]\n'
    code, stored = run(folder, "roll", text, monkeypatch)
    assert code == 0
    with xr.open_zarr(stored) as dataset:
        np.testing.assert_allclose(dataset["curvature_rear"], 2 * 0.15 * np.array([5, 12]))
        assert np.all(dataset["curvature_front"] == dataset["curvature_front"][0])


def test_run_takes_a_walk(folder, monkeypatch, capsys):
    """Twice the stiffness without damping and friction is twice the load, and a file that is written again the same."""
    text = WALK + "[set]\nchi = 0\nmu = 0\n[vary]\nk = [2e5, 4e5]\n"
    code, stored = run(folder, "walk", text, monkeypatch)
    assert code == 0, capsys.readouterr().err
    with xr.open_zarr(stored) as dataset:
        single, double = dataset["impulse"].values
        assert double == pytest.approx(2 * single) and single > 1.0
        assert np.all(dataset["F_z_peak"][1] / dataset["F_z_peak"][0] == pytest.approx(2.0))
    asked = Study.from_file(folder / "walk.toml")
    again = Study.from_dict(tomllib.loads(write_toml(asked.to_tables())), folder=folder)
    assert again.fingerprint() == asked.fingerprint()


GOOD = {"file": "walk.csv"}


@pytest.mark.parametrize(
    ("model", "measured", "words"),
    [
        ("walk", None, r"\[measured\] must say which"),
        ("walk", {"mass": 70.0}, r"\[measured\] must say which"),
        ("walk", {"file": []}, "at least one file"),
        ("walk", {"file": "none.csv"}, "there is no file"),
        ("walk", GOOD | {"stance": "L_9"}, "unknown stance 'L_9'"),
        ("walk", GOOD | {"frame": 11}, "Did you mean 'frames'"),
        ("walk", GOOD | {"frames": 2}, "frames = 2: a whole number of at least 3"),
        ("walk", GOOD | {"frames": "many"}, "frames = 'many'"),
        ("walk", GOOD | {"mass": "heavy"}, "mass = 'heavy': a number is needed"),
        ("walk", GOOD | {"correction": 4}, "correction = 4: a table is needed"),
        ("walk", GOOD | {"correction": {"heigth": 4}}, "Did you mean 'height'"),
        ("walk:ten_spheres", GOOD, "ten_spheres"),
        ("roll:3", GOOD, "unknown rolling surface '3'"),
        ("roll:1", GOOD | {"correction": {"height": 4}}, "unknown key 'correction'"),
        ("heel:left", {"file": "heels.csv"}, "no variants"),
        ("heel", {"file": "heels.csv"}, "must name one heel strike, not 2"),
        ("heel", {"file": "heels.csv", "subject": 3}, "must name one heel strike, not 0"),
        ("heel", {"file": "heels.csv", "stance": "R"}, "unknown key 'stance'"),
        ("heel", {"file": "walk.csv"}, "columns are missing"),
        ("crawl", GOOD, "unknown model under a measured motion"),
    ],
)
def test_a_measurement_that_cannot_be_followed_is_refused_in_words(folder, model, measured, words):
    with pytest.raises(InputError, match=words):
        tracked_model(model, measured, folder)


def test_the_command_line_prints_words_and_no_traceback(folder, monkeypatch, capsys):
    code, stored = run(folder, "bad", WALK.replace("walk.csv", "gone.csv"), monkeypatch)
    printed = capsys.readouterr().err
    assert code == 2 and "there is no file" in printed and "Traceback" not in printed and not stored.exists()
    code, _ = run(folder, "crutch", '[study]\nmodel = "crutch"\n[measured]\nfile = "walk.csv"\n', monkeypatch)
    assert code == 2 and "[measured] is for models that follow a motion" in capsys.readouterr().err


def test_what_was_measured_is_kept_as_it_was_written(folder):
    measured = {"file": "walk.csv", "mass": 70, "frames": 5}
    source = tracked_model("walk:three_spheres", measured, folder).source
    assert source["measured"] == measured and source["files"] and not source["mirrored"]
