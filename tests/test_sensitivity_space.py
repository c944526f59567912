"""Sensitivity over a space: shares of variance of functions whose shares are known, their confidence, and failed runs.

Ishigami's and the g-function are the tests of SALib, whose own analysis of the same values is the second derivation.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from formula_model import (
    FAILING,
    G_FUNCTION,
    G_RANGE,
    ISHIGAMI,
    ISHIGAMI_RANGE,
    PROBLEMS,
    A,
    design,
    g_variances,
    ishigami_model,
    ishigami_variances,
)
from SALib.analyze import sobol as salib_sobol
from SALib.sample import sobol as salib_design

from jaxcontact.errors import InputError
from jaxcontact.integrate.machine import FINISHED
from jaxcontact.study import run, study
from jaxcontact.study.definition import Study
from jaxcontact.study.sampling import cross_sampled
from jaxcontact.study.sensitivity import common, dgsm, morris, sobol
from jaxcontact.study.sensitivity.estimators import SobolSums, Spread
from jaxcontact.study.sensitivity.report import report
from jaxcontact.study.sensitivity.resampling import Resampling


def salib_indices(values: np.ndarray, problem: dict, second_order: bool = True) -> dict[str, np.ndarray]:
    found = salib_sobol.analyze(problem, values, calc_second_order=second_order, num_resamples=10, seed=1)
    return {key: np.asarray(found[key]) for key in ("S1", "ST", *(["S2"] if second_order else []))}


def upper(pairs: np.ndarray) -> np.ndarray:
    return pairs[np.triu_indices(len(pairs), 1)]


# ---------------------------------------------------------------- the design


@pytest.mark.parametrize("second_order", [True, False])
def test_rows_of_a_saltelli_design_stand_in_salibs_order(second_order):
    """SALib's base points are the rows A and B of its own design: cross-sampled here they must give it back."""
    problem = PROBLEMS["ishigami"]
    theirs = salib_design.sample(problem, 16, calc_second_order=second_order, seed=3)
    groups = theirs.reshape(16, -1, 3)
    base = np.concatenate([groups[:, 0], groups[:, -1]], axis=1)
    np.testing.assert_array_equal(cross_sampled(base, second_order=second_order), theirs)


def test_any_slice_of_a_design_is_the_same_rows():
    for space in (design(ISHIGAMI, ISHIGAMI_RANGE, 8).space, design(ISHIGAMI, ISHIGAMI_RANGE, 8, "morris").space):
        whole = space.rows(0, space.total)
        for name, values in space.rows(5, 19).items():
            np.testing.assert_array_equal(values, whole[name][5:19])
        assert space.sizes == (space.total,) == (8 * space.group,)


def test_a_design_written_out_and_read_again_is_the_same_study():
    for method, more in (("saltelli", {"second_order": False}), ("morris", {"levels": 6})):
        one = design(G_FUNCTION, G_RANGE, 8, method, **more)
        tables = one.to_tables()
        assert tables["sample"] == {"count": 8, "seed": 0, "method": method, **more}
        again = Study.from_dict(tables | {"study": {"model": G_FUNCTION, "method": "formula"}})
        assert again.fingerprint() == one.fingerprint()


# ---------------------------------------------------------------- shares of variance


def test_ishigami_as_integrated_and_as_salib_finds():
    one = design(ISHIGAMI, ISHIGAMI_RANGE, 4096)
    found = sobol(one, outcomes=["f"]).sel(outcome="f")
    exact = ishigami_variances()
    np.testing.assert_allclose(found["S1"], exact["S1"], atol=0.005)
    np.testing.assert_allclose(found["ST"], exact["ST"], atol=0.005)
    np.testing.assert_allclose(upper(found["S2"].values), [0, exact["S13"], 0], atol=0.01)
    np.testing.assert_allclose(found["std"] ** 2, exact["V"], rtol=0.005)
    np.testing.assert_allclose(found["mean"], A / 2, rtol=0.005)
    theirs = salib_indices(run(one)["f"].values, PROBLEMS["ishigami"])
    for key in ("S1", "ST"):
        np.testing.assert_allclose(found[key], theirs[key], atol=1e-12)
    np.testing.assert_allclose(upper(found["S2"].values), upper(theirs["S2"]), atol=1e-12)
    np.testing.assert_array_equal(found["S2"], found["S2"].values.T)


@pytest.mark.parametrize("second_order", [True, False])
def test_g_function_as_integrated_and_as_salib_finds(second_order):
    one = design(G_FUNCTION, G_RANGE, 1024, second_order=second_order)
    found, exact = sobol(one).sel(outcome="g"), g_variances()
    np.testing.assert_allclose(found["S1"], exact["S1"], atol=0.015)
    np.testing.assert_allclose(found["ST"], exact["ST"], atol=0.015)
    theirs = salib_indices(run(one)["g"].values, PROBLEMS["g"], second_order)
    for key in ("S1", "ST"):
        np.testing.assert_allclose(found[key], theirs[key], atol=1e-12)
    if second_order:
        np.testing.assert_allclose(upper(found["S2"].values), upper(exact["S2"]), atol=0.03)
        np.testing.assert_allclose(upper(found["S2"].values), upper(theirs["S2"]), atol=1e-12)
    else:
        assert "S2" not in found


def test_indices_of_a_curve_follow_time():
    """F = s f with a = 7 s: at fraction s shares are those of Ishigami's function with that a; at 0 nothing varies."""
    one = design(ISHIGAMI, ISHIGAMI_RANGE, 4096, second_order=False)
    study_of_5 = Study.from_dict(one.to_tables() | {"study": {"model": ISHIGAMI}, "output": {"points": 5}})
    found = sobol(study_of_5, outcomes=["F", "f"], curves=True).sel(curve="F")
    s = found["fraction"].values
    exact = ishigami_variances(A * s)
    for key in ("S1", "ST"):
        np.testing.assert_allclose(found[f"{key}_curve"][:, 1:], exact[key][:, 1:], atol=0.005)
        np.testing.assert_array_equal(found[f"{key}_curve"][:, 0], 0.0)
        # At the end of the run the curve is the outcome itself.
        np.testing.assert_allclose(found[f"{key}_curve"][:, -1], found[key].sel(outcome="f"), atol=1e-12)
    np.testing.assert_allclose(found["std_curve"] ** 2, s**2 * exact["V"], rtol=0.01, atol=1e-12)
    assert list(found["curve_unit"].values.reshape(-1)) == ["N"]


def test_blocks_of_a_few_base_points_give_the_same_indices(monkeypatch):
    """Memory is a block's: outcomes are read twice, a part at a time, and never as a whole."""
    one = design(FAILING, ISHIGAMI_RANGE, 256)
    whole = sobol(one)
    sizes, read = [], common.read_groups

    def watched(results, name, groups, group):
        sizes.append(groups.stop - groups.start)
        return read(results, name, groups, group)

    monkeypatch.setattr("jaxcontact.study.sensitivity.variance.read_groups", watched)
    monkeypatch.setattr(common, "BLOCK_BYTES", 8 * 101 * 37)  # 37 base points with 101 weights each
    parts = sobol(one)
    assert max(sizes) == 37 and len(sizes) == 3 * 2 * 7
    for key in ("S1", "ST", "S2", "mean", "std", "used"):
        np.testing.assert_allclose(parts[key], whole[key], atol=1e-12)
    for key in ("S1_conf", "ST_conf"):  # other samples of the same bootstrap
        np.testing.assert_allclose(parts[key], whole[key], rtol=0.5, atol=0.02)


# ---------------------------------------------------------------- confidence


def test_bootstrap_intervals_cover_the_truth_at_their_rate():
    """400 designs of 200 independent base points: 95 % intervals hold the exact index in 95 % of them, +- 3 sigma."""
    generator, exact = np.random.default_rng(5), ishigami_variances()
    repeats, points = 400, 200
    hits = {"S1": np.zeros(3), "ST": np.zeros(3)}
    for repeat in range(repeats):
        rows = 2 * np.pi * cross_sampled(generator.random((points, 6)), second_order=False) - np.pi
        x1, x2, x3 = rows.T
        values = (np.sin(x1) + A * np.sin(x2) ** 2 + 0.1 * x3**4 * np.sin(x1)).reshape(points, 5, 1)
        spread, resampling = Spread(1), Resampling([points], 100, repeat)
        spread.add(values)
        sums = SobolSums(spread, 3, resampling.samples, second_order=False)
        sums.add(values, resampling.weights(0))
        found = sums.indices(0.95, 16)
        for key in hits:
            hits[key] += np.abs(found[key][:, 0] - exact[key]) <= found[f"{key}_conf"][:, 0]
    sigma = np.sqrt(0.95 * 0.05 / repeats)
    for key in hits:
        assert np.all(np.abs(hits[key] / repeats - 0.95) < 0.02 + 3 * sigma), (
            hits
        )  # 0.02: estimates are not quite normal


def test_a_bootstrap_in_blocks_draws_as_one_without():
    """Each sample has n groups; a group is drawn once on the average, with variance 1 - 1/n, from any block."""
    resampling = Resampling([30, 0, 50, 20], 2000, seed=1)
    weights = np.concatenate([resampling.weights(block) for block in range(4)], axis=1)
    assert weights.shape == (2001, 100)
    np.testing.assert_array_equal(weights[0], 1)
    np.testing.assert_array_equal(weights.sum(axis=1), 100)
    np.testing.assert_allclose(weights[1:].mean(axis=0), 1.0, atol=5 * np.sqrt(0.99 / 2000))
    np.testing.assert_allclose(weights[1:].var(axis=0).mean(), 0.99, rtol=0.03)
    between = np.cov(weights[1:, 0], weights[1:, 40])[0, 1]  # of two groups in two blocks: -1/n
    assert abs(between + 0.01) < 5 / np.sqrt(2000)
    np.testing.assert_array_equal(resampling.weights(2), Resampling([30, 0, 50, 20], 2000, seed=1).weights(2))


# ---------------------------------------------------------------- runs that fail


def test_base_points_with_a_failed_run_are_dropped_whole_and_counted():
    one = design(FAILING, ISHIGAMI_RANGE, 256)
    found, runs = sobol(one), run(one)
    fine = (runs["status"].values == FINISHED).reshape(256, 8).all(axis=1)
    assert 0 < fine.sum() < 256 and np.isnan(runs["f"].values).any()
    assert found.attrs["base_points"] == fine.sum() == found["used"].sel(outcome="f")
    assert found.attrs["dropped"] == f"{256 - fine.sum()} of 256 base points dropped: {256 - fine.sum()} cannot_touch"
    theirs = salib_indices(runs["f"].values.reshape(256, 8)[fine].ravel(), PROBLEMS["ishigami"])
    for key in ("S1", "ST"):
        np.testing.assert_allclose(found[key].sel(outcome="f"), theirs[key], atol=1e-12)
    np.testing.assert_allclose(upper(found["S2"].sel(outcome="f").values), upper(theirs["S2"]), atol=1e-12)
    for key in ("S1", "S1_conf", "ST", "ST_conf", "mean", "std"):
        assert np.isfinite(found[key]).all()


def test_what_a_condition_excludes_is_dropped_by_the_same_rule():
    tables = design(ISHIGAMI, ISHIGAMI_RANGE, 256).to_tables() | {"study": {"model": ISHIGAMI}}
    found = sobol(Study.from_dict(tables | {"require": {"conditions": ["x1 <= 2.9"]}}), outcomes=["f"])
    same = sobol(design(FAILING, ISHIGAMI_RANGE, 256), outcomes=["f"])
    for key in ("S1", "ST", "S1_conf"):
        np.testing.assert_array_equal(found[key], same[key])
    assert found.attrs["dropped"] == same.attrs["dropped"].replace("cannot_touch", "excluded")


def test_an_outcome_that_is_no_number_in_some_runs_rests_on_the_others_and_spoils_nothing():
    one = design(ISHIGAMI, ISHIGAMI_RANGE, 256)
    found, values = sobol(one), run(one)["partly"].values.reshape(256, 8)
    fine = np.isfinite(values).all(axis=1)
    assert found.attrs["base_points"] == 256 and found.attrs["dropped"] == "0 of 256 base points dropped"
    np.testing.assert_array_equal(found["used"].sel(outcome=["f", "partly"]), [256, fine.sum()])
    theirs = salib_indices(values[fine].ravel(), PROBLEMS["ishigami"])
    np.testing.assert_allclose(found["ST"].sel(outcome="partly"), theirs["ST"], atol=1e-12)
    alone = sobol(one, outcomes=["f"])
    np.testing.assert_array_equal(found["S1"].sel(outcome="f"), alone["S1"].sel(outcome="f"))
    text = report(found)
    assert f"partly is undefined in some runs, which do not count for it: {fine.sum()} of 256 base points do" in text
    assert json.loads(found.attrs["constant"]) == ["still"] and "nothing explains it: still" in text
    np.testing.assert_array_equal(found["ST"].sel(outcome="still"), 0.0)


def test_too_few_runs_that_end_is_said():
    hopeless = ishigami_model(fails=lambda p: p["x2"] > -3.0)
    with pytest.raises(InputError, match=r"64 of 64 base points dropped: 64 cannot_touch; 0 are left"):
        sobol(design(hopeless, ISHIGAMI_RANGE, 64))


# ---------------------------------------------------------------- labels and words


def test_an_analysis_is_labelled_and_says_how_it_was_made():
    found = sobol(design(ISHIGAMI, ISHIGAMI_RANGE, 1024), outcomes=["f"], resamples=20, confidence=0.9)
    assert found["S1"].dims == ("outcome", "parameter") and found["S2"].dims == ("outcome", "parameter", "parameter_2")
    assert list(found["parameter"].values) == ["x1", "x2", "x3"]
    np.testing.assert_array_equal(found["high"], np.pi)
    assert found["S1"].attrs["units"] == "1" and found["outcome_unit"].values.tolist() == ["N"]
    assert json.loads(found.attrs["bootstrap"]) == {"resamples": 20, "confidence": 0.9}
    assert json.loads(found.attrs["space"])["method"] == "saltelli"
    text = report(found)
    assert text.startswith("f: formula f (N), standard deviation") and "90 % confidence, 20 bootstrap samples" in text
    assert "pairs: x1 x x3" in text


@pytest.mark.parametrize(
    ("analysis", "sample", "options", "words"),
    [
        (sobol, {"count": 64}, {}, r"\[sample\] has another method"),
        (sobol, {"count": 8, "method": "saltelli"}, {}, "count = 8: at least 16 base points"),
        (morris, {"count": 3, "method": "morris"}, {}, "count = 3: at least 4 trajectories"),
        (dgsm, {"count": 4}, {}, "count = 4: at least 16 rows"),
        (sobol, {"count": 64, "method": "saltelli"}, {"resamples": 1}, "resamples = 1"),
        (sobol, {"count": 64, "method": "saltelli"}, {"confidence": 95}, "confidence = 95: a number between 0 and 1"),
        (sobol, {"count": 64, "method": "saltelli"}, {"outcomes": ["g"]}, "did you mean|allowed"),
        (sobol, {"count": 64, "method": "saltelli"}, {"outcomes": "f"}, "a list of names is needed"),
        (sobol, {"count": 64, "method": "saltelli"}, {"outcomes": ["status"]}, "status is a code, not a quantity"),
        (sobol, {"count": 64, "method": "saltelli"}, {"outcomes": ["f", "f"]}, "f stands there twice"),
    ],
)
def test_bad_input_is_refused_before_anything_is_run(analysis, sample, options, words):
    one = study(ISHIGAMI, vary=ISHIGAMI_RANGE, sample=sample)
    with pytest.raises(InputError, match=words):
        analysis(one, **options, progress=lambda *now: pytest.fail("it was run"))


def test_a_grid_is_no_design():
    with pytest.raises(InputError, match=r"\[vary\] alone is a grid\nallowed: ranges in \[vary\]"):
        sobol(study(ISHIGAMI, vary={"x1": [0.0, 1.0]}))


@pytest.mark.parametrize(
    ("sample", "words"),
    [
        ({"count": 8, "method": "saltelli", "second_order": 1}, "second_order = 1: true or false"),
        ({"count": 8, "method": "morris", "levels": 5}, "levels = 5: an even number"),
        ({"count": 8, "method": "sobol", "levels": 4}, "levels"),
        ({"count": 8, "method": "salteli"}, "saltelli"),
    ],
)
def test_a_bad_design_is_refused(sample, words):
    with pytest.raises(InputError, match=words):
        study(ISHIGAMI, vary=ISHIGAMI_RANGE, sample=sample)


# ---------------------------------------------------------------- long


MILLION = """
import resource, sys
import jax
jax.config.update("jax_enable_x64", True)
sys.path.insert(0, sys.argv[1])
from formula_model import G_RANGE, g_model
from jaxcontact.study import study
from jaxcontact.study.sensitivity import sobol
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
one = study(g_model(), vary=G_RANGE, sample={"count": int(sys.argv[3]), "method": "saltelli"})
found = sobol(one, out=sys.argv[2])
print(json.dumps({"ST": found["ST"].values[0].tolist(), "conf": found["ST_conf"].values[0].tolist(), "peak": peak()}))
"""


@pytest.mark.slow
def test_a_million_configurations_through_the_store_take_no_more_memory_than_a_tenth_of_them(tmp_path):
    """The g-function in 1,000,000 rows and in 100,000, each in a process of its own: peak in MB, and the indices."""
    found = {}
    for count in (10_000, 100_000):
        script = [sys.executable, "-c", f"import json{MILLION}", str(Path(__file__).parent), str(tmp_path / str(count))]
        done = subprocess.run([*script, str(count)], capture_output=True, text=True, check=True)
        found[count] = json.loads(done.stdout)
    np.testing.assert_allclose(found[100_000]["ST"], g_variances()["ST"], atol=1e-3)
    assert max(found[100_000]["conf"]) < max(found[10_000]["conf"])
    assert found[100_000]["peak"] - found[10_000]["peak"] < 250
