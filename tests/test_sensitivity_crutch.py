"""The crutch: derivatives through sliding, sticking and the end against differences, and the study made of them."""

import numpy as np
import pytest
from study_checks import Runner, check_pictures, check_words_and_results

from jaxcontact.integrate.machine import FINISHED
from jaxcontact.study.named import load_named

NAME = "crutch_sensitivity"
STEPS = {"k_n": 1e-4, "chi": 1e-3, "mu": 1e-5}  # of differences, relative


@pytest.fixture(scope="module")
def published():
    return Runner({NAME: {"base_points": 16}})


@pytest.fixture(scope="module")
def cases():
    """Two impacts that slide and then stick, two that slide all along."""
    return {
        "k_n": np.array([3.9e7, 8e7, 3e7, 5e7]),
        "chi": np.array([1e7, 4e6, 2e7, 1e7]),
        "mu": np.array([0.75, 0.8, 0.6, 0.5]),
    }


@pytest.fixture(scope="module")
def found(cases):
    """They, and each again with every parameter moved up and down: as many as the study's program takes."""
    moved = [cases] + [
        {n: v * (1 + sign * step) if n == name else v for n, v in cases.items()}
        for name, step in STEPS.items()
        for sign in (1, -1)
    ]
    columns = {name: np.concatenate([one[name] for one in moved]).tolist() for name in cases}
    found = load_named(NAME).differentiate(columns)
    assert (found["status"] == FINISHED).all()
    return found


def differences(found, cases, name: str) -> np.ndarray:
    """Central differences of a result, (4, parameter, ...)."""
    values = found[name].values.reshape(1 + 2 * len(STEPS), 4, *found[name].shape[1:])
    each = [
        (values[1 + 2 * i] - values[2 + 2 * i]) / (2 * step * cases[p]).reshape(4, *(1,) * (values.ndim - 2))
        for i, (p, step) in enumerate(STEPS.items())
    ]
    return np.stack(each, axis=1)


@pytest.mark.parametrize("name", ["P_n", "P_t", "F_n_peak", "t_end"])
def test_outcomes_against_differences(found, cases, name):
    near, here = differences(found, cases, name), found.isel(case=slice(0, 4))
    slopes = here[f"d_{name}"].values
    given = np.stack([cases[p] for p in STEPS], axis=1)
    size = np.abs(here[name].values)[:, None] / given  # of a derivative that matters
    np.testing.assert_allclose(slopes / size, near / size, rtol=2e-5, atol=2e-7)
    assert np.abs(slopes / size).max() > 1e-3
    np.testing.assert_allclose(here[f"elasticity_{name}"], slopes * given / here[name].values[:, None], rtol=1e-12)


@pytest.mark.parametrize("name", ["F_n", "F_t", "t"])
def test_curves_against_differences(found, cases, name):
    near, here = differences(found, cases, name), found.isel(case=slice(0, 4))
    given = np.stack([cases[p] for p in STEPS], axis=1)[..., None]
    size = np.abs(here[name].values).max(axis=-1)[:, None, None] / given
    np.testing.assert_allclose(here[f"d_{name}"] / size, near / size, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(here[f"dlog_{name}"], here[f"d_{name}"] * given, rtol=1e-12)


# ---------------------------------------------------------------- the published study


def test_the_study_has_words_results_and_pictures(published, tmp_path):
    check_words_and_results(NAME, published(NAME), tmp_path)
    check_pictures(NAME, published(NAME))


def test_elasticities_predict_the_perturbations_of_table_3(published):
    """Exact derivatives against whole runs with k_n/3 ... 3 k_n and chi/5 ... 5 chi: two ways to the same numbers."""
    results, change = published(NAME).dataset, load_named(NAME).change
    for name in ("P_n", "P_t"):
        told = change(results, name)
        np.testing.assert_allclose(told["both"], told["run"], atol=0.03)  # % of the impulse
        small = [2, 3, 6, 7]  # factors 1/2 and 2
        np.testing.assert_allclose(told["tangent"][small], told["run"][small], atol=0.03)
        # Paper, section 5.5: impulses hardly depend on k_n and chi.
        assert np.abs(results[f"elasticity_{name}"].sel(parameter=["k_n", "chi"]).isel(case=0)).max() < 0.01
    # "The peak force values increase dramatically when increasing the stiffness, but remain similar" with damping, and
    # "the lower the stiffness and the damping are, the longer the impact duration is".
    nominal = results.isel(case=0)
    peak, duration = nominal["elasticity_F_n_peak"], nominal["elasticity_t_end"]
    assert float(peak.sel(parameter="k_n")) > 0.4 and abs(float(peak.sel(parameter="chi"))) < 0.05
    assert float(duration.sel(parameter="k_n")) < 0 and float(duration.sel(parameter="chi")) < 0


def test_printed_changes_of_the_study_are_those_of_table_3(published):
    """P_n 14.409 -> 14.476 N s for k_n/3, as printed: +0.465 %."""
    told = load_named(NAME).change(published(NAME).dataset, "P_n")
    assert told["printed"][1] == pytest.approx(100 * (14.476 / 14.409 - 1))
    assert told["run"][0] == told["tangent"][0] == told["both"][0] == 0.0
