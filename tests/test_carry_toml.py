"""A fit written as a study runs again to the same numbers, from wherever the file lies."""

import argparse
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from carried import HEEL, fit_heel, given_fit
from toy_model import toy_model

from jaxcontact.cli import fitting
from jaxcontact.errors import InputError
from jaxcontact.integrate.settings import Settings
from jaxcontact.models import MODELS, get_model
from jaxcontact.study.definition import Study
from jaxcontact.study.fit import Problem, Unknown, make_channel
from jaxcontact.study.fit.carry import to_toml
from jaxcontact.study.sweep import run

DATA = Path(__file__).parent.parent.parent / "shared" / "data"


def same(found, expected):
    """To 1e-12 of the largest."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.nanmax(np.abs(expected)))


@pytest.fixture(scope="module")
def heel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("heel")
    return fit_heel(folder), folder


def test_a_fitted_heel_runs_again_from_another_folder(heel, monkeypatch):
    fit, folder = heel
    assert fit.values["k"] == pytest.approx(HEEL["k"], rel=0.05)  # it was fitted: the strike is told again
    path = folder / "deeper" / "found.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(to_toml(fit, path=path, folder=folder), encoding="utf-8")
    assert tomllib.loads(path.read_text())["measured"]["file"] == "../strike.csv"
    monkeypatch.chdir(folder.parent)  # paths count from the file, not from where one is
    results = run(Study.from_file(path))
    same(results["F_z"].values, fit.predictions["F_z"])
    assert results.sizes["fraction"] == 46
    # An outcome follows from the parameters alone: K = k d / d^m at d = 5 mm, here with m = 1.
    assert float(results["K"]) == pytest.approx(fit.values["k"], rel=1e-12)


def test_without_a_path_the_text_belongs_beside_the_fit(heel):
    fit, folder = heel
    tables = tomllib.loads(to_toml(fit))
    assert tables["measured"] == {"file": "strike.csv", "subject": "1", "trial": "7", "frames": 46}
    study = Study.from_dict(tables, folder=folder)
    assert study.fixed == {**fit.values, "m": 1.0}
    assert study.choices == fit.problem.choices


def test_comments_tell_intervals_and_findings(heel):
    fit, _ = heel
    text = to_toml(fit)
    low, high = fit.diagnosis.intervals["c"]
    line = next(line for line in text.splitlines() if line.startswith("c = "))
    assert line == f"c = {fit.values['c']!r}  # N s/m; 95 % from {low:.6g} to {high:.6g}"
    assert "m = 1.0  # 1, given" in text
    for finding in fit.diagnosis.findings:
        assert f"# {finding}" in text
    assert f"F_z: {fit.rms['F_z']:.4g} N over 46 samples" in text


@pytest.fixture
def toy(monkeypatch):
    model = toy_model()
    monkeypatch.setitem(MODELS, "toy", model)
    return model


def toy_problem(model, **more):
    channels = [
        make_channel(model, "y", "time", np.linspace(2.0, 0.0, 9), 0.1, times=np.linspace(0.0, 0.5, 9)),
        make_channel(model, "F_peak", "outcome", 1e7, 1e5),
    ]
    return Problem.of_model(
        model,
        method="compliant",
        unknowns=[Unknown("height", 0.5, 5.0), Unknown("k_n", 1e5, 1e9, "log")],
        channels=channels,
        **{"fixed": {"angle": 20.0}, "tied": {"ball.mass": "height / 4", "gravity": "9 + ball.mass"}} | more,
    )


def test_ties_fixed_values_laws_and_solver_are_kept(toy, tmp_path):
    laws, solver = {"normal": "linear", "friction": "none"}, {"rtol": 1e-9, "max_steps": 77}
    fit = given_fit(toy_problem(toy, laws=laws, solver=solver, points=11), {"height": 1.7, "k_n": 3e6})
    path = tmp_path / "found.toml"
    path.write_text(to_toml(fit))
    study = Study.from_file(path)
    assert study.choices == laws
    assert study.settings == Settings(rtol=1e-9, max_steps=77)
    assert {name: formula.text for name, formula in study.derived.items()} == {
        "ball.mass": "height / 4",
        "gravity": "9 + ball.mass",
    }
    results = run(study)
    # By hand: a quarter of 1.7 m is 0.425 kg, gravity 9.425; h - g t^2/2 over sqrt(2 h/g); k h^1.5.
    t = np.linspace(0.0, 1.0, 11) * np.sqrt(2 * 1.7 / 9.425)
    same(results["y"].values, 1.7 - 9.425 * t**2 / 2)
    assert float(results["weight"]) == pytest.approx(0.425 * 9.425, rel=1e-12)
    same(results["F_peak"].values, fit.predictions["F_peak"][0])


def test_without_curves_none_are_asked_for(toy):
    only = [make_channel(toy, "F_peak", "outcome", 1e7, 1e5)]
    problem = Problem.of_model(toy, method="compliant", unknowns=[Unknown("height", 0.5, 5.0)], channels=only)
    tables = tomllib.loads(to_toml(given_fit(problem, {"height": 2.0}, {"F_peak": np.zeros(1)})))
    assert "output" not in tables
    assert tables["solver"] == {name: value for name, value in Settings().as_dict().items() if value != np.inf}


def test_a_title_cannot_leave_its_comment(toy):
    zero = {"y": np.zeros(9), "F_peak": np.zeros(1)}
    fit = given_fit(toy_problem(toy, title='two\nlines = "and quotes" \x07'), {"height": 1.0, "k_n": 1e6}, zero)
    tables = tomllib.loads(to_toml(fit))
    assert tables["study"]["title"] == 'two\nlines = "and quotes" \x07'
    assert {*tables} == {"study", "set", "derive", "laws", "solver", "output"}


def test_what_run_cannot_find_is_refused(heel):
    with pytest.raises(InputError, match="does not know the model"):
        to_toml(given_fit(toy_problem(toy_model()), {"height": 1.0, "k_n": 1e6}, {}))
    fit, _ = heel
    source = {key: value for key, value in fit.problem.source.items() if key != "measured"}
    with pytest.raises(InputError, match="made in Python"):
        to_toml(replace(fit, problem=replace(fit.problem, source=source)))


# ---------------------------------------------------------------- longer proof


@pytest.mark.slow
def test_a_crutch_runs_again_through_events(tmp_path):
    model = get_model("crutch")
    times = np.linspace(0.0, 0.004, 21)
    channels = [
        make_channel(model, "F_n", "time", np.zeros(21), 10.0, times=times),
        make_channel(model, "P_n", "outcome", 14.0, 0.1),
    ]
    problem = Problem.of_model(
        model,
        unknowns=[Unknown("k_n", 1e7, 1e8, "log"), Unknown("chi", 1e6, 1e8, "log")],
        channels=channels,
        fixed={"dq5": -0.3},
        tied={"mu": "0.7 + 0.05 * mu_ratio"},
        solver={"rtol": 1e-9, "atol": 1e-10},
        points=51,
    )
    fit = given_fit(problem, {"k_n": 3.1e7, "chi": 1.2e7})
    path = tmp_path / "found.toml"
    path.write_text(to_toml(fit))
    results = run(Study.from_file(path))
    outcomes, curves, finished = problem.predict(np.array([3.1e7, 1.2e7]))
    assert bool(finished)
    for name in ("P_n", "P_t", "W_n", "W_t", "F_n_peak", "t_end"):
        same(results[name].values, outcomes[name])
    same(results["F_n"].values, curves["F_n"])


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="the measured data are not beside the project")
def test_a_walking_foot_runs_again(tmp_path):
    from jaxcontact.tracked.named import tracked_model

    file = "bmc_walk2_overground.csv"
    measured = {"file": file, "stance": "R_plate6", "frames": 21, "correction": {"height": 4}}
    tracked = tracked_model("walk", measured, DATA)
    problem = Problem.of_tracked(
        tracked,
        unknowns=[Unknown("k", 1e4, 1e7, "log"), Unknown("correct.height.2", -0.01, 0.01)],
        fixed={"mu": 0.7},
        tied={"s2.radius": "s1.radius"},
    )
    fit = given_fit(problem, {"k": 3e5, "correct.height.2": 0.001})
    path = tmp_path / "found.toml"
    path.write_text(to_toml(fit, path=path, folder=DATA))
    results = run(Study.from_file(path))
    for name, expected in fit.predictions.items():
        same(results[name].values, expected)


# ---------------------------------------------------------------- the command


def asked(*words):
    parser = argparse.ArgumentParser()
    fitting.add_options(parser)
    return parser.parse_args([str(word) for word in words])


def test_the_command_writes_all_that_it_can_and_then_says_what_it_could_not(heel, tmp_path, capsys):
    fit, folder = heel
    path, page = tmp_path / "found.toml", tmp_path / "page.html"
    words = asked(folder / "fit.toml", "--opensim", tmp_path / "a.xml", "--toml", path, "--report", page)
    with pytest.raises(InputError, match="a.xml was not written: model heel does not stand on spheres"):
        fitting._carry(words, fit, [], "a title")
    assert Study.from_file(path).fixed["k"] == fit.values["k"]  # its strike is found from here
    assert "<title>a title</title>" in page.read_text(encoding="utf-8")
    assert f"jaxcontact run {path}" in capsys.readouterr().out


def test_what_could_not_be_written_is_refused_before_the_fit(heel, tmp_path):
    fit, _ = heel
    for words, reason in (
        (("--report", tmp_path), "it is a folder"),
        (("--toml", tmp_path / "no" / "a.toml"), "there is no folder"),
        (("--mujoco", tmp_path / "a.xml"), "does not stand on spheres"),
    ):
        with pytest.raises(InputError, match=reason):
            fitting._check_places(asked("fit.toml", *words), fit.problem)
    fitting._check_places(asked("fit.toml", "--toml", tmp_path / "a.toml"), fit.problem)
