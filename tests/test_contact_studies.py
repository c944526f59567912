"""Rolling surface against spheres, and ellipsoids against points: the studies on coarse grids."""

import pytest
from study_checks import Runner, check_pictures, check_words_and_results

from jaxcontact.integrate.machine import FINISHED

COARSE = {
    "rolling_spheres": {"lanes": 0, "points": 51, "tolerances": (1e-4,)},
    "ellipsoids_points": {"lanes": 0, "points": 51, "tolerances": (1e-3,)},
}


@pytest.fixture(scope="module")
def published():
    return Runner(COARSE)


@pytest.mark.parametrize("name", COARSE)
def test_a_study_has_words_results_and_labelled_pictures(name, published, tmp_path):
    check_words_and_results(name, published(name), tmp_path)
    check_pictures(name, published(name))


def test_rolling_needs_less_than_an_eighteenth_of_the_steps_on_spheres(published):
    """Rolling says approx. 18 times faster; steps do not depend on the machine."""
    dataset = published("rolling_spheres").dataset.isel(rtol=-1)
    assert bool((dataset["rolling_status"] == FINISHED).all() and (dataset["spheres_status"] == FINISHED).all())
    assert float(dataset["spheres_n_steps"].isel(case=0)) > 18 * float(dataset["rolling_n_steps"])
    # The floor neither pulls nor needs more friction than there is; and both motions are alike.
    assert float(dataset["rolling_P_pull"]) == 0 and float(dataset["rolling_P_slip"]) == 0
    assert float(abs(dataset["rolling_t_end"] - dataset["spheres_t_end"].isel(case=0))) < 0.02


def test_ellipsoids_of_fitted_area_press_like_points(published):
    """Lopes: both models attain the same level of accuracy. Load for load, the forces under one motion are alike."""
    dataset = published("ellipsoids_points").dataset
    assert bool((dataset["forward_status"] == FINISHED).all())
    impulse = dataset["prescribed_impulse"]
    ratio = float(impulse.sel(layout="ellipsoids") / impulse.sel(layout="points"))
    # Six ellipsoids are lower on average than 31 points with the same places: of the same area they carry more.
    assert 1.2 < ratio < 1.6
    assert float(dataset["fitted_area"]) == pytest.approx(1 / ratio, rel=0.1)
