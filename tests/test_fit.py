"""What a fit finds, against closed forms, certified values, Bayes' formula, scipy and optimistix."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fit_model import (
    DESIGN,
    FRAMES,
    LINE,
    LINE_SD,
    MISRA,
    MISRA_SD,
    MISRA_SQUARES,
    MODEL,
    OFFSET,
    SLOPE,
    TIMES,
    bowl,
    channel,
    line,
    misra,
    problem,
    rosenbrock,
)
from quick import hasty_jit
from scipy.optimize import least_squares

from jaxcontact.errors import InputError
from jaxcontact.study.fit import Unknown, fit, make_channel, score
from jaxcontact.study.fit.channels import MISSING, at_times
from jaxcontact.study.fit.solvers import CONVERGED, MAX_STEPS, NO_EFFECT, NOT_FINITE, REASONS, STUCK
from jaxcontact.study.fit.unknowns import starting_turns

line_problem, misra_problem, rosenbrock_problem = cache(line), cache(misra), cache(rosenbrock)


@cache
def fitted(name, **options):
    return fit({"line": line_problem, "misra": misra_problem, "rosenbrock": rosenbrock_problem}[name](), **options)


def test_a_line_is_found_as_the_normal_equations_say():
    found = fitted("line", starts=6)
    best, squares, *_ = np.linalg.lstsq(DESIGN, LINE, rcond=None)
    assert np.allclose([found.values["slope"], found.values["offset"]], best, rtol=1e-8)
    assert np.isclose(found.cost, squares[0] / LINE_SD**2, rtol=1e-10)
    assert np.isclose(found.rms["F_x"], np.sqrt(squares[0] / FRAMES), rtol=1e-8)
    # Covariance sd^2 (X^T X)^-1: residuals are as large as their sd says, so nothing widens it.
    told = found.diagnosis
    covariance = LINE_SD**2 * np.linalg.inv(DESIGN.T @ DESIGN)
    assert np.allclose(told.covariance, covariance, rtol=1e-6) and told.widened == 1.0
    assert np.isclose(told.misfit, found.cost / (FRAMES - 2))
    sd = np.sqrt(np.diagonal(covariance))
    assert np.isclose(told.correlation[0, 1], covariance[0, 1] / np.prod(sd), rtol=1e-6)
    for i, name in enumerate(("slope", "offset")):
        assert np.allclose(told.intervals[name], best[i] + 1.959964 * sd[i] * np.array([-1, 1]), rtol=1e-6)
    assert told.converged and told.reason == REASONS[CONVERGED]
    assert (told.equals, told.places) == (6, 1) and np.all(told.spread < 1e-6)


def test_certified_values_of_nist_from_its_own_start():
    found = fitted("misra", starts=1)
    assert np.isclose(found.cost * MISRA_SD**2, MISRA_SQUARES, rtol=1e-7)
    for i, (name, (value, sd)) in enumerate(MISRA.items()):
        assert np.isclose(found.values[name], value, rtol=1e-6)
        own = found.diagnosis.sd[i] / found.diagnosis.widened  # of b2 on a log scale: relative
        assert np.isclose(own * (value if name == "b2" else 1.0), sd, rtol=1e-4)


@pytest.mark.parametrize("method", ["adam", "lbfgs", "optimistix"])
def test_other_optimisers_reach_the_same_places(method):
    """Adam stops where it does not get better any more: near, not at, the lowest cost."""
    close = 3e-2 if method == "adam" else 1e-5
    for name in {"adam": ("line",), "lbfgs": ("rosenbrock",), "optimistix": ("misra", "rosenbrock")}[method]:
        ours, other = fitted(name, starts=6), fitted(name, starts=6, method=method)
        assert other.diagnosis.converged
        assert other.cost <= ours.cost * (1 + close) + 1e-9
        for i, unknown in enumerate(ours.problem.names):
            size = ours.problem.unknowns[i].size
            sd = ours.diagnosis.sd[i]
            assert abs(size(other.values[unknown]) - size(ours.values[unknown])) < close * 5 * sd


def test_rosenbrocks_valley_ends_at_one_one():
    found = fitted("rosenbrock", starts=6)
    assert np.allclose(list(found.values.values()), 1.0, atol=1e-7) and found.cost < 1e-12
    assert np.count_nonzero(found.starts.cost < 1e-12) == 6


def test_scipy_finds_the_same_with_its_own_bounds_and_differences():
    """Referee: trust-region reflective, finite differences, bounds kept by steps, not by a transform."""
    asked = misra_problem()
    residuals = jax.jit(asked.residuals)
    scipy = least_squares(
        lambda v: np.asarray(residuals(jnp.asarray(v))),
        [500.0, 1e-4],
        bounds=([10.0, 1e-5], [2000.0, 1e-2]),
        x_scale=[100.0, 1e-4],
        xtol=1e-12,
        ftol=1e-12,
    )
    assert np.allclose(scipy.x, list(fitted("misra", starts=1).values.values()), rtol=1e-6)
    # With a bound in the way of the slope, both rest on it.
    tight = fit(line((Unknown("slope", -5.0, 5.0), OFFSET)), starts=3)
    bounded = least_squares(
        lambda v: (DESIGN @ v - LINE) / LINE_SD, [0.0, 0.0], bounds=([-5.0, -40.0], [5.0, 60.0]), xtol=1e-12
    )
    assert np.allclose(list(tight.values.values()), bounded.x, rtol=1e-6)
    assert tight.diagnosis.bounds == {"slope": "high", "offset": ""}
    assert "slope rests on its high bound (5)" in tight.diagnosis.findings
    # The offset's interval is that with the slope known; the slope has none.
    assert np.all(np.isnan(tight.diagnosis.intervals["slope"]))
    known = LINE_SD / np.sqrt(FRAMES) * tight.diagnosis.widened
    assert np.isclose(tight.diagnosis.sd[1], known, rtol=1e-6)


def test_a_small_value_in_a_wide_range_does_not_rest_on_its_bound():
    at = 3e-4  # of the range
    wide = Unknown("slope", 0.0, 100.0)
    assert wide.bound_at(100 * at, step=0.0) == "" and wide.bound_at(100 * at, step=-1.0) == "low"
    assert wide.bound_at(100 * (1 - at), step=1.0) == "high" and wide.bound_at(0.0, step=0.0) == "low"
    assert wide.bound_at(50.0, step=-80.0) == ""


def test_a_prior_weighs_as_bayes_says():
    """A normal prior and a normal likelihood: precisions add, means are weighed by them; on a log scale in logs."""
    mean, sd = 1.0, 0.8
    found = fit(bowl(prior=(mean, sd)), starts=2)
    precision = np.sum(TIMES**2) / LINE_SD**2
    estimate = np.sum(TIMES * (LINE - 3.0)) / np.sum(TIMES**2)
    posterior = (precision * estimate + mean / sd**2) / (precision + 1 / sd**2)
    assert np.isclose(found.values["slope"], posterior, rtol=1e-8)
    assert np.isclose(found.diagnosis.sd[0] / found.diagnosis.widened, (precision + 1 / sd**2) ** -0.5, rtol=1e-8)
    left = np.sum((LINE - 3.0 - posterior * TIMES) ** 2) / LINE_SD**2 + ((posterior - mean) / sd) ** 2
    assert np.isclose(found.cost, left, rtol=1e-9)
    in_logs = problem(
        (Unknown("stiffness", 10.0, 1e5, "log", prior=(400.0, 0.3)),),
        [channel("F_z_peak", 100.0, 1.0)],
        fixed={"radius": 0.04},
    )
    value = jnp.asarray([500.0])
    assert np.allclose(in_logs.residuals(value), [0.0, np.log(500 / 400) / 0.3], rtol=1e-12, atol=1e-12)


def test_tied_values_move_together_and_formulas_have_their_slopes():
    """offset = slope / 2: one unknown. Its derivative goes through the formula, so the answer is that of one column."""
    tied = fit(line((SLOPE,), tied={"offset": "slope / 2"}), starts=2)
    column = TIMES + 0.5
    best = column @ LINE / (column @ column)
    assert np.isclose(tied.values["slope"], best, rtol=1e-8)
    assert np.isclose(tied.stated()["offset"], best / 2, rtol=1e-8)
    assert np.isclose(tied.diagnosis.sd[0], LINE_SD * tied.diagnosis.widened / np.sqrt(column @ column), rtol=1e-6)


def test_stages_end_where_all_at_once_does():
    staged = fit(line_problem(), starts=3, stages=[["off*"], ["slope"]])
    assert staged.stages == (("offset",), ("slope", "offset"))
    assert np.allclose(list(staged.values.values()), list(fitted("line", starts=6).values.values()), rtol=1e-7)
    # First costs are those before the first stage.
    values = np.stack([50 * np.sin(staged.starts.first[:, 0]), 10 + 50 * np.sin(staged.starts.first[:, 1])])
    squares = np.sum(((DESIGN @ values).T - LINE) ** 2, axis=1) / LINE_SD**2
    assert np.allclose(staged.starts.first_cost, squares, rtol=1e-9)
    with pytest.raises(InputError, match="stages leave out slope"):
        fit(line_problem(), stages=[["offset"]])
    with pytest.raises(InputError, match="slop"):
        fit(line_problem(), stages=[["slop"]])


def test_starts_are_spread_and_the_first_is_where_it_was_asked():
    turns = starting_turns(MODEL, (SLOPE, Unknown("offset", -1.0, 1.0, start=0.5)), 65, seed=1)
    parts = 0.5 + 0.5 * np.sin(turns)
    assert np.allclose(parts[0], [(1.0 + 50) / 100, 0.75])  # the model's default, and the start
    assert np.all((parts[1:] >= 0.02 - 1e-12) & (parts[1:] <= 0.98 + 1e-12))
    for column in parts[1:].T:  # Sobol: one in each 64th, but for those kept inside of the bounds
        assert len(np.unique((column * 64).astype(int))) > 55
    near = starting_turns(MODEL, (Unknown("slope", -50.0, 50.0, prior=(10.0, 1.0)),), 33, seed=1)
    values = 50 * np.sin(near[:, 0])
    assert values[0] == pytest.approx(10.0) and np.all(np.abs(values - 10.0) < 3.0)


def test_degrees_are_stated_and_radians_are_inside():
    asked = problem((Unknown("turn", 0.0, 80.0),), [channel("tangent", 1.0, 1e-3)])
    found, slope = hasty_jit(lambda v: jax.jvp(asked.residuals, (v,), (jnp.ones(1),)))(np.array([45.0]))
    assert abs(found[0]) < 1e-9 and slope[0] == pytest.approx(1e3 * 2 * np.pi / 180)  # d tan = 2 per radian, at 45 deg


def test_every_kind_of_residual_adds_to_lopes_eq_3():
    """J = sum of W (Y - Y^)^2 / SD^2, by hand: GRF, CoP, free moment, impulse, peak, a history at its own times."""
    values = np.array([7.0, 3.0, 900.0])
    late = np.array([0.2, 0.55, 2.0])  # the last after the end, where the last value counts
    channels = [
        channel("F_x", LINE, np.linspace(0.5, 1.0, FRAMES), weight=2.0),
        channel("F_z", 100 * TIMES, 5.0, valid=TIMES > 0.3),
        channel("cop_x", np.full(FRAMES, 0.2), 0.01),
        channel("free_moment", 0.1 * LINE, 0.2),
        channel("impulse", [6.0, 6.6], 0.5),
        channel("F_z_peak", 200.0, 10.0, weight=0.5),
        channel("misra", [1.0, 2.0, 3.0], 1.0, times=late),
    ]
    asked = problem(
        (SLOPE, OFFSET, Unknown("stiffness", 1.0, 1e4, "log")), channels, fixed={"radius": 0.04, "b1": 10, "b2": 0.001}
    )
    slope, offset, stiffness = values
    F_z = stiffness * 0.2 * TIMES**1.5
    carried = F_z > 20.0
    line_off = offset + slope * TIMES - LINE
    by_hand = [
        2.0 * np.sum(line_off**2 / np.linspace(0.5, 1.0, FRAMES) ** 2),
        np.sum((F_z - 100 * TIMES)[TIMES > 0.3] ** 2) / 5.0**2,
        np.sum((0.1 * slope * TIMES - 0.2)[carried] ** 2) / 0.01**2 + np.sum(~carried) * MISSING**2,
        np.sum((0.1 * line_off) ** 2) / 0.2**2,
        ((offset + slope / 2 - 6.0) ** 2 + (offset + slope / 2 - 6.6) ** 2) / 0.5**2,
        0.5 * (stiffness * 0.2 - 200.0) ** 2 / 10.0**2,
        np.sum((10 * (1 - np.exp(-np.minimum(late, 1.0))) - [1, 2, 3]) ** 2),
    ]
    found = np.asarray(hasty_jit(asked.residuals)(values))
    assert len(found) == asked.sample_count == asked.residual_count
    ends = np.cumsum([each.count for each in channels])
    parts = [np.sum(part**2) for part in np.split(found, ends[:-1])]
    assert np.allclose(parts[:-1], by_hand[:-1], rtol=1e-12)
    assert np.isclose(parts[-1], by_hand[-1], rtol=1e-4)  # cubics between 21 points
    # Derivatives are finite, and none comes from samples without a prediction.
    slopes = hasty_jit(jax.jacfwd(asked.residuals))(values)
    assert np.all(np.isfinite(slopes))
    cop = slopes[ends[1] : ends[2]]
    assert np.all((np.abs(cop[:, 0]) > 0)[TIMES > 0] == carried[TIMES > 0])


def test_curves_between_points_are_of_third_order():
    def error(points):
        t = np.linspace(0.0, 2.0, points)
        at = np.linspace(0.0, 2.0, 333)
        return np.max(np.abs(hasty_jit(at_times)(at, t, np.sin(3 * t)) - np.sin(3 * at)))

    sizes = np.array([21, 61, 181])
    order = -np.polyfit(np.log(sizes - 1), np.log([error(n) for n in sizes]), 1)[0]
    assert 2.8 < order < 4.2


def test_centre_of_pressure_counts_only_where_the_load_carries_it():
    """Samples without measured load are masked; those without computed load are told."""
    measured = np.where(TIMES > 0.5, 0.4 * TIMES, 99.0)
    masked = problem((SLOPE,), [channel("cop_x", measured, 0.01, valid=TIMES > 0.5)], fixed={"stiffness": 1000.0})
    assert np.allclose(hasty_jit(masked.residuals)(np.array([4.0])), np.zeros(np.sum(TIMES > 0.5)), atol=1e-9)
    all_of_it = problem((SLOPE,), [channel("cop_x", 0.4 * TIMES, 0.01)], fixed={"stiffness": 1000.0, "radius": 0.04})
    whole = fit(all_of_it, starts=1)
    lost = int(np.sum(200 * TIMES**1.5 <= 20.0))
    assert whole.values["slope"] == pytest.approx(4.0, rel=1e-9)
    assert whole.cost == pytest.approx(lost * MISSING**2) and whole.rms["cop_x"] < 1e-9
    said = f"the model says nothing about {lost} of {FRAMES} samples of cop_x: no load?"
    assert whole.diagnosis.findings[0] == said


def test_starts_whose_run_fails_harm_no_other():
    """Runs with a slope above 8 fail; the answer is 7. Those starts say so, and the others end where they should."""
    asked = line(fixed={"limit": 8.0})
    found = fit(asked, starts=40)
    reasons = found.starts.reason
    begun = 50 * np.sin(found.starts.first[:, 0])
    failed, good = reasons == NOT_FINITE, reasons == CONVERGED
    assert np.all(failed == (begun > 8.0)) and 5 < np.sum(failed) < 35
    assert np.all(np.isinf(found.starts.cost[failed]))
    # Of the others none says that it converged unless it did. Some run into the wall and say that they are stuck.
    assert np.allclose(found.starts.cost[good], fitted("line", starts=6).cost, rtol=1e-9)
    stuck = reasons == STUCK
    assert np.all(good | failed | stuck) and np.sum(good) > 10 and 0 < np.sum(stuck) < 5
    assert np.all(50 * np.sin(found.starts.last[stuck, 0]) > 7.9)
    with pytest.raises(InputError, match="no start has a finite cost: in the first, no posture"):
        fit(line((Unknown("slope", 20.0, 50.0), OFFSET), fixed={"limit": 8.0}), starts=2)


def test_reasons_to_stop_are_told():
    """Here a step limit and a place where nothing has an effect; convergence, failure, being stuck: in other tests."""
    early = fit(rosenbrock_problem(), starts=1, max_steps=3)
    assert early.starts.reason[0] == MAX_STEPS and not early.diagnosis.converged
    assert early.diagnosis.findings[0].startswith("the best start stopped at the step limit")
    # Nothing carries the centre of pressure anywhere: a constant cost.
    lame = problem((SLOPE,), [channel("cop_x", 0.4 * TIMES, 0.01)], fixed={"stiffness": 10.0})
    lost = fit(lame, starts=1)
    assert lost.starts.reason[0] == NO_EFFECT and "no unknown changes anything" in lost.diagnosis.findings[1]


def test_what_was_found_is_scored_on_other_data():
    found = fitted("line", starts=6)
    said = score(found.problem, {"slope": 2.0, "offset": 1.0})
    assert np.allclose(said["F_x"], 1.0 + 2.0 * TIMES)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: line((Unknown("slope", 5.0, 1.0),)), "slope: from 5 to 1 is no range"),
        (lambda: line((Unknown("slope", -1.0, 1.0, "log"),)), "needs both ends above 0"),
        (lambda: line((Unknown("slope", -1.0, 1.0, "square"),)), "square"),
        (lambda: line((Unknown("slope", -1.0, 1.0, start=3.0),)), "out of its range"),
        (lambda: line((Unknown("slope", -1.0, 1.0, prior=(0.0, 0.0)),)), "sd above 0"),
        (lambda: line((Unknown("slope", -1e3, 1.0),)), "beyond the bounds of the model"),
        (lambda: line((Unknown("slop", -1.0, 1.0),)), "slope"),
        (lambda: line((SLOPE, SLOPE)), "given twice"),
        (lambda: line(()), "which parameters"),
        (lambda: line(fixed={"slope": 2.0}), "both unknown and given"),
        (lambda: line(tied={"offset": "slope"}), "keep one of them"),
        (lambda: line((SLOPE,), tied={"offset": "slop * 2"}), "slope"),
        (lambda: line((SLOPE,), tied={"b1": "b2", "b2": "b1"}), "need each other"),
        (lambda: problem((SLOPE,), []), "nothing to fit to"),
        (lambda: problem((SLOPE,), [channel("F_x", LINE, 1.0)] * 2), "given twice"),
        (lambda: problem((SLOPE,), [channel("F_x", LINE[:5], 1.0)]), "do not fit the 21 moments"),
        (lambda: channel("F_x", LINE, 0.0), "sd must be above 0"),
        (lambda: channel("F_x", LINE, 1.0, weight=0.0), "weight"),
        (lambda: channel("F_x", LINE * np.nan, 1.0), "not numbers"),
        (lambda: channel("F_x", LINE, 1.0, valid=LINE > 1e9), "no sample counts"),
        (lambda: channel("F_x", LINE, 1.0, times=[1.0]), "needs a time"),
        (lambda: make_channel(MODEL, "F_q", "frames", LINE, 1.0), "F_x"),
        (lambda: make_channel(MODEL, "F_x", "curve", LINE, 1.0), "curve"),
        (lambda: fit(line_problem(), method="newton"), "newton"),
        (lambda: fit(line_problem(), tolerance=0.0), "between 0 and 1"),
        (lambda: fit(line_problem(), starts=0), "starts"),
    ],
)  # fmt: skip
def test_bad_questions_are_refused_in_words(make, words):
    with pytest.raises(InputError, match=words):
        make()
