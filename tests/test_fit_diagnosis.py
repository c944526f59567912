"""What a fit tells besides its answer: what it cannot tell, profiles, repeats, and all of it in words and labels."""

from functools import cache

import numpy as np
import pytest
from fit_model import (
    DESIGN,
    FRAMES,
    LINE,
    LINE_SD,
    MISRA_SD,
    MISRA_X,
    MISRA_Y,
    OFFSET,
    SLOPE,
    TIMES,
    channel,
    line,
    misra,
    problem,
)
from scipy.optimize import brentq
from scipy.stats import binom

from jaxcontact.errors import InputError
from jaxcontact.study.fit import Unknown, fit
from jaxcontact.study.fit.diagnosis import covariance_of, interval_of, scatter
from jaxcontact.study.fit.labelled import fit_dataset
from jaxcontact.study.fit.profile import CHI2_95, profile
from jaxcontact.study.fit.repeats import coverage_band, repeat_with_noise, twin
from jaxcontact.study.fit.words import describe_fit, describe_profile

HERTZ = 1000 * np.sqrt(0.05) * TIMES**1.5
STIFFNESS = Unknown("stiffness", 10.0, 1e5, "log", start=300.0)
RADIUS = Unknown("radius", 0.005, 0.5, "log", start=0.02)


@cache
def hertz_fit():
    """Stiffness times the root of the radius is all that F_z tells; a third unknown has no effect."""
    asked = problem(
        (STIFFNESS, RADIUS, Unknown("idle", 0.0, 2.0)),
        [channel("F_z", HERTZ, 1.0), channel("cop_x", 0.3 * TIMES, 0.005, valid=TIMES > 0.9)],
        fixed={"slope": 3.2},
        body_weight=700.0,
        title="a hertz force",
    )
    return fit(asked, starts=8)


@cache
def line_fit():
    return fit(line(body_weight=700.0), starts=4)


def test_what_cannot_be_told_apart_is_named_in_plain_words():
    found = hertz_fit()
    told = found.diagnosis
    together = "cannot be told apart on this data: raising radius while lowering stiffness changes nothing"
    assert any(f"radius and stiffness {together}" in line for line in told.findings)
    # The direction in half ranges: log k = -1/2 log R.
    (direction,) = told.blind
    half = {"stiffness": np.log(1e4) / 2, "radius": np.log(100.0) / 2}
    steps = {name: share * half[name] for name, share in direction.shares.items()}
    assert steps["stiffness"] / steps["radius"] == pytest.approx(-0.5, rel=1e-6)
    # Starts agree on the product, and say that they ended at different places.
    product = [10 ** (3 + 2 * np.sin(k)) * np.sqrt(0.05 * 10 ** np.sin(r)) for k, r, _ in found.starts.last]
    assert np.allclose(product, 1000 * np.sqrt(0.05), rtol=1e-6)
    assert told.equals == 8 and told.places > 3
    assert all(np.all(np.isnan(told.intervals[name])) for name in ("stiffness", "radius"))


def test_a_parameter_without_effect_is_said():
    told = hertz_fit().diagnosis
    assert told.unused == ("idle",)
    assert any(line.startswith("nothing that was measured depends on idle") for line in told.findings)
    assert np.isnan(told.sd[2])


def test_a_fit_that_moved_nothing_says_so():
    exact = problem((SLOPE,), [channel("F_x", 1.0 * TIMES, 0.5)])  # at the default slope of 1 all is explained
    still = fit(exact, starts=1)
    assert still.diagnosis.moved == 0.0 and still.diagnosis.converged
    assert "the fit moved nothing: it ended where its best start began" in still.diagnosis.findings
    moved = line_fit().diagnosis
    assert moved.moved > 1e-3 and not any("moved nothing" in line for line in moved.findings)


def test_residuals_beyond_their_sd_and_alike_neighbours_widen_intervals():
    """A parabola fitted by a line: chi^2 and the correlation of neighbours by hand."""
    asked = problem((SLOPE, OFFSET), [channel("F_x", 40 * TIMES**2, 0.5)])
    found = fit(asked, starts=1)
    off = DESIGN @ np.linalg.lstsq(DESIGN, 40 * TIMES**2, rcond=None)[0] - 40 * TIMES**2
    misfit = np.sum(off**2) / 0.25 / (FRAMES - 2)
    rho = np.sum(off[1:] * off[:-1]) / (np.sum(off[1:] ** 2 + off[:-1] ** 2) / 2)
    told = found.diagnosis
    assert told.misfit == pytest.approx(misfit, rel=1e-6) and told.alike == pytest.approx(rho, rel=1e-6)
    assert told.widened == pytest.approx(np.sqrt(misfit * (1 + rho) / (1 - rho)), rel=1e-6)
    assert any(f"residuals are {np.sqrt(misfit):.1f} times their stated sd" in line for line in told.findings)
    assert any("neighbouring residuals are alike" in line for line in told.findings)
    # White noise of the stated size widens next to nothing.
    white = np.random.default_rng(1).standard_normal((500, FRAMES))
    widths = np.array([scatter(asked, each, 2)[2] for each in white])
    assert np.median(widths) < 1.1 and np.mean(widths > 1.6) < 0.02


def test_strong_correlations_are_told():
    near = problem((SLOPE, OFFSET), [channel("F_x", 50 + 0.1 * TIMES, 0.01, valid=TIMES > 0.89)])
    found = fit(near, starts=1)
    rows = DESIGN[TIMES > 0.89]
    inverse = np.linalg.inv(rows.T @ rows)
    rho = inverse[0, 1] / np.sqrt(inverse[0, 0] * inverse[1, 1])
    assert found.diagnosis.correlation[0, 1] == pytest.approx(rho, rel=1e-6) and rho < -0.95
    assert any(f"slope and offset are correlated ({rho:+.3f})" in line for line in found.diagnosis.findings)


def test_covariance_is_infinite_only_along_what_nothing_holds():
    jacobian = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 2.0]])
    sd = np.sqrt(np.diagonal(covariance_of(jacobian, np.ones(3, bool))))
    assert sd[2] == pytest.approx(0.5) and np.all(sd[:2] > 1e10)
    held = covariance_of(jacobian, np.array([True, False, True]))
    assert held[0, 0] == pytest.approx(1.0) and np.isnan(held[1, 1])
    assert np.all(np.isnan(interval_of(SLOPE, 1.0, sd[0]))) and np.all(np.isfinite(interval_of(SLOPE, 1.0, 3.0)))


# ---------------------------------------------------------------- profiles


def test_a_profile_of_a_linear_problem_is_the_parabola_of_its_interval():
    found = line_fit()
    each = profile(found, "slope", points=7)
    sd = LINE_SD * np.sqrt(np.linalg.inv(DESIGN.T @ DESIGN)[0, 0])
    rise = ((each.values - found.values["slope"]) / sd) ** 2
    assert np.allclose(each.cost - found.cost, rise, rtol=1e-6, atol=1e-8) and rise.max() > 15
    assert each.threshold == pytest.approx(found.cost + CHI2_95 * found.diagnosis.widened**2)
    assert np.allclose([each.low, each.high], found.diagnosis.intervals["slope"], rtol=1e-6)
    assert f"95 % from {each.low:.5g} to {each.high:.5g}" in describe_profile(each)
    with pytest.raises(InputError, match="slope"):
        profile(found, "slop")


def test_a_profile_of_a_bent_problem_is_the_likelihood_ratio():
    """Misra1a: for a given b2 the best b1 is a formula, so the ratio of likelihoods is known along the whole range."""
    found = fit(misra(501), starts=1)
    each = profile(found, "b2", points=9)

    def lowest(b2):
        shape = 1 - np.exp(-b2 * MISRA_X)
        return np.sum((MISRA_Y - shape * (shape @ MISRA_Y) / (shape @ shape)) ** 2) / MISRA_SD**2

    assert np.allclose(each.cost, [lowest(b2) for b2 in each.values], rtol=1e-4)
    level = each.threshold
    ends = [brentq(lambda b2: lowest(b2) - level, *sorted((each.best, end))) for end in (3e-4, 9e-4)]
    assert np.allclose([each.low, each.high], ends, rtol=2e-4)


def test_a_profile_that_stays_low_is_open():
    found = hertz_fit()
    each = profile(found, "radius", points=5)
    assert np.all(np.abs(each.cost - found.cost) < 1e-6) and np.isnan(each.low) and np.isnan(each.high)
    assert "from open to open" in describe_profile(each)
    assert each.values[0] == pytest.approx(0.005) and each.values[-1] == pytest.approx(0.5)


# ---------------------------------------------------------------- repeats


def test_repeats_of_a_linear_problem_are_normal_and_cover():
    """1000 noisy twins of a line: answers scatter as the covariance says, intervals cover as often as they promise."""
    truth = {"slope": 7.0, "offset": 3.0}
    made = twin(line(), truth)
    assert np.allclose(made.channels[0].values, 3.0 + 7.0 * TIMES)
    found = repeat_with_noise(line(), truth, 1000, seed=4, starts=1)
    assert found.converged.all()
    sd = LINE_SD * np.sqrt(np.diagonal(np.linalg.inv(DESIGN.T @ DESIGN)))
    assert np.all(found.sd >= sd * (1 - 1e-9))  # never narrower: misfit widens, and does not narrow
    assert np.allclose(found.scatter, sd, rtol=0.09)  # its own sd is 2.2 %
    low, high = coverage_band(1000, 2)
    assert np.all((low <= found.covered) & (found.covered <= high))
    # Costs are chi^2 with as many degrees of freedom as samples less unknowns.
    assert abs(found.cost.mean() - (FRAMES - 2)) < 4 * np.sqrt(2 * (FRAMES - 2) / 1000)
    assert np.std(found.found - found.truth, axis=0) == pytest.approx(found.scatter, rel=1e-2)


def test_the_band_of_a_coverage_is_binomial():
    low, high = coverage_band(200, 1, error=0.05)
    inside = binom.cdf(round(200 * high), 200, 0.95) - binom.cdf(round(200 * low) - 1, 200, 0.95)
    assert inside >= 0.95 and 0.91 <= low < 0.93 and 0.97 < high <= 0.985
    wider = coverage_band(200, 10, error=0.05)
    assert wider[0] < low and wider[1] >= high


# ---------------------------------------------------------------- words and labels


def test_words_have_natural_units_and_body_weight():
    text = describe_fit(hertz_fit())
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line}
    assert text.startswith("a hertz force\n") and "8 starts" in text
    kept = TIMES > 0.9
    rms = np.sqrt(np.mean((0.32 * TIMES - 0.3 * TIMES)[kept] ** 2))
    assert rows["CHANNEL"][-2:] == ["%", "BW"]
    assert rows["cop_x"][1:] == ["mm", str(kept.sum()), "5", f"{1e3 * rms:.4g}"]
    assert rows["F_z"][1:4] == ["N", str(FRAMES), "1"] and rows["F_z"][-1] == "0.00"
    assert "not found from this data" in text and "no effect" in text
    row = next(line.split() for line in describe_fit(line_fit()).splitlines() if line.startswith("F_x"))
    left = np.sqrt(np.mean((LINE - DESIGN @ np.linalg.lstsq(DESIGN, LINE, rcond=None)[0]) ** 2))
    assert row[1:] == ["N", str(FRAMES), "0.5", f"{left:.4g}", f"{100 * left / 700:.2f}"]


def test_a_fit_is_a_labelled_dataset():
    found = line_fit()
    data = fit_dataset(found)
    assert data.value.sel(unknown="slope") == found.values["slope"]
    assert data.unit.sel(unknown="slope") == "N/s" and data.sizes["start"] == 4
    assert np.allclose(data.correlation, found.diagnosis.correlation)
    assert np.allclose(data.F_x_measured, LINE)
    line_itself = found.values["offset"] + found.values["slope"] * TIMES
    assert np.allclose(data.F_x_computed, line_itself)
    assert data.reason.attrs["flag_meanings"].split()[int(data.reason[0])] == "converged"
    assert data.attrs["findings"].splitlines() == list(found.diagnosis.findings)
