"""Exact derivatives and elasticities of outcomes and curves, by parameters and by what they are derived from."""

import inspect
import json

import jax
import numpy as np
import pytest
from toy_model import toy_model

from jaxcontact.errors import InputError
from jaxcontact.integrate.machine import CANNOT_TOUCH, EXCLUDED, FINISHED, STATUS_NAMES
from jaxcontact.study import study
from jaxcontact.study.expressions import FUNCTIONS, read_formula
from jaxcontact.study.sensitivity import local
from jaxcontact.study.sensitivity.local import along_the_curve, per
from jaxcontact.study.sensitivity.report import report

TOY = toy_model()
BY = ["angle", "height", "gravity", "ball.mass", "k_n", "lift"]


# ---------------------------------------------------------------- a falling ball, whose derivatives are known


def test_at_a_point_derivatives_are_per_stated_unit_and_elasticities_are_the_exponents():
    found = local(study(TOY, set={"height": 3.0, "gravity": 1.6, "angle": 20.0}))
    assert found["status"].ndim == 0 and list(found["parameter"].values) == BY

    def by(name, kind="elasticity"):
        return dict(zip(BY, found[f"{kind}_{name}"].values, strict=True))

    # t = sqrt(2 h / g), W = m g, F = k h^1.5: elasticities are the exponents.
    assert by("t_fall") == pytest.approx({**dict.fromkeys(BY, 0.0), "height": 0.5, "gravity": -0.5}, abs=1e-12)
    assert by("weight") == pytest.approx({**dict.fromkeys(BY, 0.0), "ball.mass": 1.0, "gravity": 1.0}, abs=1e-12)
    assert by("F_peak") == pytest.approx({**dict.fromkeys(BY, 0.0), "k_n": 1.0, "height": 1.5}, abs=1e-12)
    # tan(angle) by degrees; its elasticity does not depend on the unit: 2 x / sin 2x.
    radians = np.radians(20.0)
    assert by("slope", "d")["angle"] == pytest.approx(np.pi / 180 / np.cos(radians) ** 2)
    assert by("slope")["angle"] == pytest.approx(2 * radians / np.sin(2 * radians))
    assert json.loads(found["d_t_fall"].attrs["units_by_parameter"])["gravity"] == "s/(m/s^2)"
    assert json.loads(found["d_slope"].attrs["units_by_parameter"])["angle"] == "1/deg"
    assert dict(zip(BY, found["parameter_unit"].values, strict=True))["k_n"] == "N/m^1.5"
    assert json.loads(found.attrs["unused"]) == ["lift"]
    text = report(found)
    assert "no result depends on lift here" in text and "t_fall = 1.93649 s: time of the fall" in text


def test_over_a_sweep_a_failed_run_is_nan_with_its_status_and_its_neighbours_are_as_if_alone():
    vary = {"angle": [10.0, 85.0, 20.0], "height": {"from": 1.0, "to": 4.0, "count": 3}}
    found = local(study(TOY, vary=vary, require={"conditions": ["height * angle < 79"]}), by=["angle", "height"])
    assert found["d_slope"].dims == ("angle", "height", "parameter")
    expected = np.array([[FINISHED] * 3, [EXCLUDED] * 3, [FINISHED, FINISHED, EXCLUDED]])
    np.testing.assert_array_equal(found["status"], expected)
    found = local(study(TOY, vary=vary), by=["angle", "height"])
    np.testing.assert_array_equal(found["status"], [[FINISHED] * 3, [CANNOT_TOUCH] * 3, [FINISHED] * 3])
    assert (
        np.isnan(found["d_slope"].sel(angle=85.0)).all() and np.isnan(found["elasticity_t_fall"].sel(angle=85.0)).all()
    )
    fine = found.sel(angle=[10.0, 20.0])
    exact = np.pi / 180 / np.cos(np.radians([10.0, 20.0])) ** 2
    np.testing.assert_allclose(fine["d_slope"].sel(parameter="angle"), np.tile(exact[:, None], 3), rtol=1e-12)
    np.testing.assert_allclose(fine["elasticity_t_fall"].sel(parameter="height"), 0.5, rtol=1e-12)
    np.testing.assert_array_equal(fine["parameter_value"].sel(parameter="height"), [[1.0, 2.5, 4.0]] * 2)
    assert found.attrs["not_finished"] == f"3 of 9: 3 {STATUS_NAMES[CANNOT_TOUCH]}"
    text = report(found)
    assert "3 of 9: 3 cannot_touch; they are NaN" in text and "over 9 configurations" in text


def test_curves_at_a_fixed_fraction_and_at_a_fixed_time():
    """y = h (1 - s^2) at the fraction s of the fall, and h - g t^2 / 2 at the time t."""
    one = study(TOY, vary={"height": [1.0, 2.0]}, set={"gravity": 5.0}, output={"points": 9})
    by = ["height", "gravity"]
    at_fraction = local(one, by, outcomes=["y"])
    s = at_fraction["fraction"].values
    d_y = at_fraction["d_y"]
    assert d_y.dims == ("height", "parameter", "fraction")
    np.testing.assert_allclose(d_y.sel(parameter="height"), np.tile(1 - s**2, (2, 1)), atol=1e-12)
    np.testing.assert_allclose(d_y.sel(parameter="gravity"), 0.0, atol=1e-12)
    np.testing.assert_allclose(
        at_fraction["dlog_y"].sel(parameter="height"), np.outer([1.0, 2.0], 1 - s**2), atol=1e-12
    )
    at_time = local(one, by, outcomes=["y"], at="time")
    time = np.outer(np.sqrt(2 * np.array([1.0, 2.0]) / 5.0), s)
    np.testing.assert_allclose(at_time["d_y"].sel(parameter="height"), 1.0, atol=1e-12)
    np.testing.assert_allclose(at_time["d_y"].sel(parameter="gravity"), -(time**2) / 2, atol=1e-12)
    assert (
        "fixed time" in at_time["d_y"].attrs["long_name"] and at_time["d_y"].attrs["units"] == "see units_by_parameter"
    )
    assert json.loads(at_time["d_y"].attrs["units_by_parameter"]) == {"height": "m/m", "gravity": "m/(m/s^2)"}


def test_differences_along_a_curve_are_of_fourth_order_inside():
    for count, exact_to in ((5, 4), (9, 4)):
        x = np.arange(count, dtype=float)
        for power in range(exact_to + 1):
            slope = along_the_curve((x**power)[:, None])[:, 0]
            np.testing.assert_allclose(slope[2:-2], power * x[2:-2] ** max(power - 1, 0), rtol=1e-12)
    assert along_the_curve(np.array([[1.0], [4.0]]))[:, 0].tolist() == [3.0, 3.0]


def test_there_is_no_elasticity_of_nothing_nor_by_nothing():
    found = local(study(TOY, set={"angle": 0.0}), by=["angle", "gravity"], outcomes=["slope", "weight"])
    np.testing.assert_allclose(found["d_slope"], [np.pi / 180, 0.0])
    assert np.isnan(found["elasticity_slope"]).all()
    np.testing.assert_allclose(found["elasticity_weight"], [np.nan, 1.0])
    text = report(found)
    assert "undefined: an elasticity of an outcome that is zero" in text and "nan" not in text


def test_units_of_derivatives():
    assert [per("N s", unit) for unit in ("1", "deg", "N/m^1.5", "N s/m")] == [
        "N s",
        "N s/deg",
        "N s/(N/m^1.5)",
        "N s/(N s/m)",
    ]


# ---------------------------------------------------------------- through formulas


def test_the_chain_rule_through_derived_parameters():
    """F_peak = k_n h^1.5 with k_n = 4/3 E sqrt(R) and h = 2 R + E / 1e7: E and R act on two parameters at once."""
    derive = {"k_n": "4/3 * E * sqrt(R)", "height": "2 * R + E / scale", "scale": "1e7"}
    vary = {"E": {"values": [1e6, 2e6], "unit": "Pa"}}
    one = study(TOY, vary=vary, set={"R": {"value": 0.05, "unit": "m"}}, derive=derive)
    found = local(one, by=["E", "R", "gravity"], outcomes=["F_peak", "t_fall"])

    def force(E, R):
        return 4 / 3 * E * np.sqrt(R) * (2 * R + E / 1e7) ** 1.5

    E, R = np.array([1e6, 2e6]), 0.05
    for name, slope in (
        ("E", (force(E * (1 + 1e-6), R) - force(E * (1 - 1e-6), R)) / (2e-6 * E)),
        ("R", (force(E, R * (1 + 1e-6)) - force(E, R * (1 - 1e-6))) / (2e-6 * R)),
    ):
        np.testing.assert_allclose(found["d_F_peak"].sel(parameter=name), slope, rtol=1e-8)
    # By hand: F ~ E sqrt(R) h^1.5, so its elasticity by E is 1 + 1.5 (E / 1e7) / h.
    np.testing.assert_allclose(
        found["elasticity_F_peak"].sel(parameter="E"), 1 + 1.5 * (E / 1e7) / (2 * R + E / 1e7), rtol=1e-12
    )
    np.testing.assert_allclose(found["elasticity_t_fall"].sel(parameter="gravity"), -0.5, rtol=1e-12)
    units = json.loads(found["d_F_peak"].attrs["units_by_parameter"])
    assert units == {"E": "N/Pa", "R": "N/m", "gravity": "N/(m/s^2)"}
    with pytest.raises(InputError, match="k_n is derived .* so it cannot change while those stay"):
        local(one, by=["k_n"])


ARGUMENTS = {"effective_modulus": (2e8, 0.4, 3e10, 0.2), "log": (2.5,), "min": (2.0, 3.0), "max": (2.0, 3.0)}


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_function_of_a_formula_has_the_derivative_that_differences_show(name):
    count = len([p for p in inspect.signature(FUNCTIONS[name]).parameters.values() if p.kind != p.VAR_POSITIONAL])
    numbers = ARGUMENTS.get(name, tuple(0.3 + 0.1 * i for i in range(count)))
    names = "abcde"[: len(numbers)]
    formula = read_formula(f"-2 * {name}({', '.join(names)}) ** 2 + {names[0]} / 3", "here")
    given = dict(zip(names, numbers, strict=True))
    slopes = jax.grad(formula.traced)({key: float(value) for key, value in given.items()})
    for key, value in given.items():
        step = 1e-5 * value
        up, down = (float(formula(given | {key: value + sign * step})) for sign in (1, -1))
        assert float(slopes[key]) == pytest.approx((up - down) / (2 * step), rel=1e-6, abs=1e-9)


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"by": ["hight"]}, "hight.*\n?.*height"),
        ({"by": []}, "the list is empty"),
        ({"by": "height"}, "a list of names is needed"),
        ({"by": ["height", "height"]}, "height stands there twice"),
        ({"outcomes": ["regime"]}, "regime is a code"),
        ({"outcomes": ["n_steps"]}, "n_steps is a count of the integrator's"),
        ({"outcomes": ["t_fal"]}, "t_fall"),
        ({"at": "tim"}, "time"),
        ({"curves": "yes"}, "curves = 'yes': true or false"),
    ],
)
def test_bad_input_is_refused_before_anything_is_run(options, words):
    with pytest.raises(InputError, match=words):
        local(study(TOY), **options, progress=lambda *now: pytest.fail("it was run"))


def test_names_that_no_result_can_depend_on_are_refused():
    one = study(TOY, vary={"limit": [1.0, 3.0]}, require={"conditions": ["height < limit"]})
    with pytest.raises(InputError, match=r"limit is used in \[require\] only"):
        local(one, by=["limit"])
    with pytest.raises(InputError, match="F_peak is not defined by the impulsive method"):
        local(study(TOY, "impulsive"), outcomes=["F_peak"])


def test_one_impossible_configuration_is_bad_input():
    with pytest.raises(InputError, match="toy: no derivative from the start: .*cannot_touch"):
        local(study(TOY, set={"angle": 85.0}), by=["height"])


def test_more_than_memory_holds_is_refused_with_what_it_would_take():
    vary = {"height": {"from": 1.0, "to": 2.0, "count": 10**5}, "gravity": {"from": 1.0, "to": 2.0, "count": 10**3}}
    with pytest.raises(InputError, match=r"100,000,000 configurations would take .* GB of memory\nallowed: 4.3 GB"):
        local(study(TOY, vary=vary))
