"""Which parameters matter at all: Morris screening, and mean squares of exact derivatives that are known."""

import jax.numpy as jnp
import numpy as np
import pytest
from formula_model import (
    FAILING,
    G_FUNCTION,
    G_RANGE,
    ISHIGAMI,
    ISHIGAMI_RANGE,
    PROBLEMS,
    design,
    formula_model,
    g_variances,
    ishigami_variances,
    numbers,
)
from SALib.analyze import morris as salib_morris

from jaxcontact.errors import InputError
from jaxcontact.integrate.machine import FINISHED
from jaxcontact.models.model import Parameter
from jaxcontact.study import run, study
from jaxcontact.study.definition import Study
from jaxcontact.study.sensitivity import dgsm, morris
from jaxcontact.study.sensitivity.report import report

# ---------------------------------------------------------------- Morris


def test_morris_trajectories_change_one_factor_at_a_time_by_half_the_levels():
    space = design(G_FUNCTION, G_RANGE, 6, "morris", levels=8).space
    paths = space.unit(0, space.total).reshape(6, 5, 4)
    steps = np.diff(paths, axis=1)
    np.testing.assert_array_equal((np.abs(steps) > 0).sum(axis=2), 1)
    np.testing.assert_allclose(np.abs(steps).max(axis=2), 4 / 7)
    np.testing.assert_allclose(paths * 7, np.round(paths * 7), atol=1e-12)


def test_morris_is_salibs_analysis_of_the_same_values_also_along_a_curve_and_without_failed_paths():
    one = design(FAILING, ISHIGAMI_RANGE, 40, "morris", seed=3)
    study_of_3 = Study.from_dict(one.to_tables() | {"study": {"model": FAILING}, "output": {"points": 3}})
    found, runs = morris(study_of_3, outcomes=["f", "F"], resamples=50), run(one)
    fine = (runs["status"].values == FINISHED).reshape(40, 4).all(axis=1)
    assert 4 <= fine.sum() < 40
    assert found.attrs["dropped"].startswith(f"{40 - fine.sum()} of 40 trajectories dropped")
    inputs = one.space.unit(0, 160).reshape(40, 4, 3)[fine].reshape(-1, 3)
    values = runs["f"].values.reshape(40, 4)[fine].ravel()
    theirs = salib_morris.analyze(PROBLEMS["ishigami"], inputs, values, num_levels=4, num_resamples=50, seed=3)
    for key in ("mu", "mu_star", "sigma", "mu_star_conf"):
        np.testing.assert_allclose(found[key].sel(outcome="f"), np.asarray(theirs[key], float), rtol=1e-12)
        np.testing.assert_allclose(found[f"{key}_curve"].sel(curve="F")[:, -1], found[key].sel(outcome="f"), rtol=1e-9)
        np.testing.assert_array_equal(found[f"{key}_curve"].sel(curve="F")[:, 0], 0.0)
    assert list(found["used"].values) == [fine.sum()] and "nan" not in report(found)


def test_morris_effects_are_per_whole_range_in_the_scale_of_the_range():
    """f = 3 log10 x + 5 y: over x = 1 ... 1000 (log) it changes by 9, over y = 2 ... 4 by 10, everywhere alike."""
    model = formula_model(
        "plane",
        numbers("x", "y", low=0.1, high=1e4, default=1.0),
        {"f": lambda p: 3 * jnp.log10(p["x"]) + 5 * p["y"]},
    )
    vary = {"x": {"from": 1.0, "to": 1000.0, "scale": "log"}, "y": {"from": 2.0, "to": 4.0}}
    found = morris(design(model, vary, 8, "morris")).sel(outcome="f")
    np.testing.assert_allclose(found["mu"], [9.0, 10.0], rtol=1e-9)
    np.testing.assert_allclose(found["sigma"], 0.0, atol=1e-9)


# ---------------------------------------------------------------- mean squares of derivatives


def test_dgsm_of_ishigami_as_integrated_and_never_below_the_total_index():
    found = dgsm(design(ISHIGAMI, ISHIGAMI_RANGE, 4096, "sobol"), outcomes=["f", "still"]).sel(outcome="f")
    exact = ishigami_variances()
    np.testing.assert_allclose(found["nu"], exact["nu"], rtol=0.01)
    np.testing.assert_allclose(found["nu_range"], (2 * np.pi) ** 2 * exact["nu"], rtol=0.01)
    np.testing.assert_allclose(found["bound"], 4 * exact["nu"] / exact["V"], rtol=0.01)
    assert np.all(found["bound"].values >= exact["ST"])
    assert np.all(np.abs(found["nu"] - exact["nu"]) <= found["nu_conf"])


def test_dgsm_of_the_g_function_as_integrated():
    found, exact = dgsm(design(G_FUNCTION, G_RANGE, 4096, "sobol")).sel(outcome="g"), g_variances()
    np.testing.assert_allclose(found["nu"], exact["nu"], rtol=0.01)
    assert np.all(found["bound"].values >= exact["ST"])


def test_dgsm_along_a_curve_drops_failed_runs_and_counts_them():
    tables = {"study": {"model": FAILING}, "output": {"points": 3}, "vary": ISHIGAMI_RANGE}
    found = dgsm(Study.from_dict(tables | {"sample": {"count": 1024}}), outcomes=["f", "F"])
    dropped = round(1024 * (np.pi - 2.9) / (2 * np.pi))
    assert abs(1024 - found.attrs["rows"] - dropped) <= 2
    assert found.attrs["dropped"].endswith("cannot_touch")
    np.testing.assert_allclose(found["nu_curve"].sel(curve="F")[:, -1], found["nu"].sel(outcome="f"), rtol=1e-9)
    assert np.isfinite(found["bound_curve"]).all() and "nan" not in report(found)


def test_dgsm_by_logarithms_by_degrees_and_by_what_moves_together():
    """Closed forms: E[(df/du)^2] of f = x^2 by log x; of tan(angle) by degrees; of v w where w goes along with v."""
    angle = Parameter("angle", "deg", 10.0, 0.0, 80.0, "an angle", "made up")
    model = formula_model(
        "powers",
        (*numbers("x", "v", "w", low=0.1, high=100.0, default=1.0), angle),
        {"square": lambda p: p["x"] ** 2, "slope": lambda p: jnp.tan(p["angle"]), "area": lambda p: p["v"] * p["w"]},
    )
    vary = {
        "x": {"from": 1.0, "to": 10.0, "scale": "log"},
        "angle": {"from": 0.0, "to": 45.0},
        "v": {"from": 1.0, "to": 2.0},
        "w": {"with": "v", "from": 10.0, "to": 30.0},
    }
    one = study(model, vary=vary, sample={"count": 4096})
    found = dgsm(one)
    assert list(found["parameter"].values) == ["x", "angle", "v"]
    assert list(found["parameter_label"].values)[2] == "v (with w)"
    # d x^2 / d log x = 2 x^2, and E[4 x^4] over log x uniform.
    square = (10.0**4 - 1) / np.log(10)
    np.testing.assert_allclose(found["nu"].sel(outcome="square", parameter="x"), square, rtol=0.01)
    # (1 + tan^2)^2 per rad^2, integrated over 0 ... pi/4: 4/3; per degree twice the factor.
    slope = 4 / 3 / (np.pi / 4) * (np.pi / 180) ** 2
    np.testing.assert_allclose(found["nu"].sel(outcome="slope", parameter="angle"), slope, rtol=0.01)
    # v = 1 + u, w = 10 + 20 u: d(vw)/du = 30 + 40 u.
    area = 900 + 1200 + 1600 / 3
    np.testing.assert_allclose(found["nu_range"].sel(outcome="area", parameter="v"), area, rtol=0.01)
    np.testing.assert_array_equal(found["nu"].sel(outcome="area", parameter="x"), 0.0)
    with pytest.raises(InputError, match="w moves with v: name v instead"):
        dgsm(one, by=["w"])
    with pytest.raises(InputError, match="did you mean|allowed"):
        dgsm(one, by=["xx"])
