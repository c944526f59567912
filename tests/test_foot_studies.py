"""What the foot paper says, found again by its published studies on coarse grids."""

import numpy as np
import pytest
from study_checks import Runner, check_pictures, check_words_and_results

from jaxcontact.integrate.machine import FINISHED
from jaxcontact.models.layouts import NINE_SPHERES, TOE_CENTRE, TOE_JOINT, sole_height
from jaxcontact.study.named import load_named

# Grids small enough for a test; every foot_fig7 run then goes through one compiled program.
COARSE = {
    "foot_fig7": {"count": 18, "rounds": 1, "dampings": [0.0], "within": (0.4505, 0.4535)},
    "foot_figs8_10": {"count": 8},
    "foot_layouts": {"numbers": (3, 9), "radii": (0.0, 0.02), "samples": 400},
}


@pytest.fixture(scope="module")
def published():
    return Runner(COARSE)


@pytest.mark.parametrize("name", COARSE)
def test_a_study_has_a_title_words_and_results_that_can_be_saved(name, published, tmp_path):
    check_words_and_results(name, published(name), tmp_path)


@pytest.mark.parametrize("name", COARSE)
def test_every_panel_is_labelled_and_every_figure_has_a_key(name, published):
    check_pictures(name, published(name))


# ---------------------------------------------------------------- Fig. 7


def test_fig7_coulomb_alone_passes_the_vertical_and_viscous_friction_stops_before_it(published):
    module = load_named("foot_fig7")
    angle = published("foot_fig7").dataset["turning_angle"].isel({"ankle.damping": 0})
    printed = angle.sel(knee=module.KNEE, method="nearest")
    assert float(printed.sel(mu_viscous=0.0)) > np.deg2rad(5)
    assert float(printed.sel(mu_viscous=module.PRINTED)) < np.deg2rad(-5)


def test_fig7_holds_in_a_window_and_nowhere_else(published):
    dataset = published("foot_fig7").dataset
    low, high = dataset["least_knee"].isel(damping=0).values
    assert 0.0004 < high - low < 0.002
    passes = dataset["turning_angle"].isel({"ankle.damping": 0}) > 0
    coulomb, viscous = (passes.sel(mu_viscous=mu) for mu in dataset["mu_viscous"].values)
    knee, resolution = dataset["knee"].values, 0.0002
    inside, outside = (
        (knee > low + resolution) & (knee < high - resolution),
        (knee < low - resolution) | (knee > high + resolution),
    )
    assert inside.any() and bool(coulomb[inside].all()) and not bool(viscous[inside].any())
    assert np.array_equal(coulomb[outside], viscous[outside])
    assert bool((dataset["status"] == FINISHED).all())


def test_fig7_energy_adds_up_and_friction_only_takes(published):
    dataset = published("foot_fig7").dataset
    assert float(abs(dataset["energy_error"]).max()) < 1e-6
    assert bool((dataset["W_t"] < 0).all() and (dataset["W_n"] < 0).all())
    # Viscous friction makes the leg stop earlier wherever both stop on the same side.
    angle = dataset["turning_angle"].isel({"ankle.damping": 0})
    assert bool((angle.isel(mu_viscous=1) < angle.isel(mu_viscous=0)).all())


def test_fig7_time_histories_belong_to_the_default_height(published):
    module = load_named("foot_fig7")
    dataset = published("foot_fig7").dataset
    last = dataset["shank_angle"].isel(fraction=-1)
    turning = dataset["turning_angle"].isel({"ankle.damping": 0}).sel(knee=module.KNEE, method="nearest")
    np.testing.assert_allclose(last, turning, atol=1e-6)
    np.testing.assert_allclose(dataset["shank_angle"].isel(fraction=0), -np.pi / 2)


# ---------------------------------------------------------------- Figs 8 to 10


def test_fig8_load_has_two_peaks_and_a_valley(published):
    module = load_named("foot_figs8_10")
    force = published("foot_figs8_10").dataset["F_z"].sel(shape="normal").values
    half = len(force) // 2
    assert force[:half].max() > module.WEIGHT and force[half:].max() > module.WEIGHT
    assert 0.3 < module.valley_depth(force) < 0.5 and force[half] < 0.8 * module.WEIGHT
    assert module.valley_depth(np.sin(np.linspace(0, np.pi, 201))) == pytest.approx(0.0, abs=1e-3)
    assert module.single_hump_misfit(np.sin(np.linspace(0, np.pi, 201))) == pytest.approx(0.0, abs=1e-12)


def test_fig9_spheres_1_to_3_at_10_percent(published):
    down = published("foot_figs8_10").dataset["sphere_down"].sel(k=8e4)
    assert np.flatnonzero(down.sel(percent=10)).tolist() == [0, 1, 2]
    # Heel, whole foot, toes: the order of the paper. Its 1 to 8 at 49 % and 7 to 9 at 68 % are met but for two spheres.
    assert np.flatnonzero(~down.sel(percent=49).values.astype(bool)).tolist() == [3]
    assert np.flatnonzero(down.sel(percent=68)).tolist() == [5, 6, 7, 8]
    toes_last = down.sel(percent=95).values.astype(bool)
    assert not toes_last[list(NINE_SPHERES.on("foot"))].any() and toes_last[list(NINE_SPHERES.on("toes"))].all()


def test_fig9_each_sphere_comes_down_once(published):
    down = published("foot_figs8_10").dataset["sphere_down"].transpose("k", "sphere", "percent").values
    assert np.all(np.sum(np.diff(down, axis=-1, prepend=0) > 0, axis=-1) == 1)


def test_fig10_four_statements_about_the_cavus_foot_and_the_flat_one(published):
    module = load_named("foot_figs8_10")
    dataset = published("foot_figs8_10").dataset
    for phase, claim in {"heel": 1, "mid": -1, "rise": 1, "off": 1}.items():
        mean = dataset[f"F_z_{phase}"]
        assert np.sign(float(mean.sel(shape="cavus") - mean.sel(shape="normal"))) == claim, phase
    flat, normal, cavus = (dataset["F_z"].sel(shape=shape).values for shape in ("flat", "normal", "cavus"))
    assert module.valley_depth(flat) < 0.7 * module.valley_depth(normal) < 0.75 * module.valley_depth(cavus)
    assert module.single_hump_misfit(flat) < module.single_hump_misfit(normal) < module.single_hump_misfit(cavus)
    assert published("foot_figs8_10").text.count("[x]") == 6 and "[ ]" not in published("foot_figs8_10").text


def test_spheres_are_named_in_runs():
    load_named("foot_fig7")
    from jaxcontact.sweeps._foot import spheres_in_words  # type: ignore[import-not-found]

    assert spheres_in_words([1, 1, 1, 0, 1, 0, 1, 1, 1]) == "1-3, 5, 7-9"
    assert spheres_in_words([0, 0]) == "none" and spheres_in_words([1]) == "1"


# ---------------------------------------------------------------- layouts


def test_layouts_radius_and_height_of_a_sphere_do_the_same_to_a_flat_foot(published):
    """A sphere that is d lower or d larger reaches d deeper; only where it touches differs when the foot is turned."""
    slope = published("foot_layouts").dataset["slope"].sel(outcome="F_z_mid")
    np.testing.assert_allclose(slope.sel(field="radius"), -slope.sel(field="z"), rtol=0.01)


def test_layouts_derivatives_tell_the_spread_of_random_layouts(published):
    dataset = published("foot_layouts").dataset
    np.testing.assert_allclose(dataset["spread_sampled"], dataset["spread_linear"], rtol=0.2)


def test_layouts_more_spheres_are_nearer(published):
    dataset = published("foot_layouts").dataset
    assert bool((dataset["cop_off"].diff("number") < 0).all() and (dataset["F_z_off"].diff("number") < 0).all())
    np.testing.assert_allclose(dataset["F_z"].sum("fraction"), float(dataset["F_z_table_2"].sum()), rtol=1e-9)


def test_layouts_along_the_sole_touch_it_from_inside():
    module = load_named("foot_layouts")
    layout = module.sole_layout(15, 0.012)
    assert len(layout) == 15 and sum(layout.values["weight"]) == pytest.approx(9)
    for i, segment in enumerate(layout.segments):
        ahead = (TOE_JOINT[0] + TOE_CENTRE[0], TOE_JOINT[1] + TOE_CENTRE[1]) if segment == "toes" else (0, 0)
        x, lowest = layout.values["x"][i] + ahead[0], layout.values["z"][i] + ahead[1] - 0.012
        assert lowest == pytest.approx(sole_height(x)) and (segment == "toes") == (x > TOE_JOINT[0])
