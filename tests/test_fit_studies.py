"""Studies that fit simulated data: the truth comes back, intervals cover it, and an independent simulation agrees."""

from pathlib import Path

import numpy as np
import pytest
import referee
from scipy.integrate import solve_ivp
from study_checks import FIGURES, Runner, check_pictures, check_words_and_results

from jaxcontact.study.fit import fit
from jaxcontact.study.fit.repeats import coverage_band
from jaxcontact.study.named import load_named

MEASURED = Path(__file__).parents[2] / "shared" / "data" / "bmc_walk2_overground.csv"
COARSE = {
    "fit_crutch": {"starts": 3, "points": 31, "rate": 10e3, "profiled": ()},
    "fit_twins": {"repeats": 12, "starts": 1, "twins": ("rolling",)},
}
with_data = pytest.mark.skipif(not MEASURED.is_file(), reason="the measured data are not beside the project")
slow = pytest.mark.slow  # an impact with its derivatives takes long to compile
run = Runner(COARSE)


def off_in_sd(fitted, truth):
    """How far the unknowns are from the truth, in told standard deviations, on their scales."""
    unknowns = fitted.problem.unknowns
    sizes = [[float(each.size(values[each.name])) for each in unknowns] for values in (fitted.values, truth)]
    return (np.array(sizes[0]) - sizes[1]) / fitted.diagnosis.sd


@pytest.mark.parametrize("name", [pytest.param("fit_crutch", marks=slow), pytest.param("fit_twins", marks=with_data)])
def test_words_results_and_pictures(name, tmp_path):
    result = run(name)
    check_words_and_results(name, result, tmp_path)
    if (FIGURES / f"{name}.png").exists():
        check_pictures(name, result)


@slow
def test_the_crutch_tip_is_found_again():
    """Through events, with noise: within 4 sd. The early curve tells k_n and chi only together."""
    data, truth = run("fit_crutch").dataset, load_named("fit_crutch").TRUTH
    for name, value in truth.items():
        found, sd = data.value.sel(unknown=name).item(), data.sd.sel(unknown=name).item()
        off = np.log(found / value) if data.scale.sel(unknown=name) == "log" else found - value
        assert abs(off) < 4 * sd < 0.4 * (1 if name != "mu" else value)
    assert data.window_correlation[0] < -0.99
    assert np.all(np.diff(data.window_sd, axis=0) <= 1e-9)  # more of the curve never tells less


@with_data
def test_twins_come_back_with_their_scatter():
    data = run("fit_twins").dataset
    off = (data.found - data.truth) / data.sd
    assert np.all(np.abs(off) < 5) and 0.5 < off.std() < 1.6  # of 72 numbers
    assert np.all(data.covered >= coverage_band(12, 6, 1e-4)[0])


@slow
def test_intervals_cover_at_their_stated_rate():
    """200 repeats of three problems; a fixed seed, so the same numbers each time."""
    result = load_named("fit_twins").run(lambda *now: None)
    low, high = result.dataset.covered.attrs["band"]
    assert np.all((low <= result.dataset.covered) & (result.dataset.covered <= high))


def referee_curve(times, mu, k_n, chi):
    """Forces on the tip (2, times) by `referee`: joint by joint, DOP853, restarted by hand where sliding ends."""
    q3, dq5 = np.radians(12.0), -0.2
    angles = np.cumsum([q3, np.radians(10), np.radians(150)])
    angles = np.append(angles, np.arccos(-np.sum(referee.LENGTH[:3] * np.cos(angles)) / referee.LENGTH[3]))
    y = np.concatenate([[0, 0], angles, [0, 0], np.cumsum([1.0, 0.0, dq5, 0.0])])
    mode, began, forces, left = int(np.sign(referee.contact(y, 1, mu, k_n, chi)[5])), 0.0, [], times

    def flow(t, y, mode):
        return np.concatenate([y[6:], referee.contact(y, mode, mu, k_n, chi)[0]])

    def slides(t, y, mode):
        return mode * referee.contact(y, mode, mu, k_n, chi)[5] if mode else 1.0

    slides.terminal, slides.direction = True, -1
    while len(left):
        piece = solve_ivp(
            flow, (began, times[-1]), y, args=(mode,), events=slides, rtol=1e-11, atol=1e-13, method="DOP853",
            dense_output=True, first_step=1e-7,
        )  # fmt: skip
        now, left = left[left <= piece.t[-1]], left[left > piece.t[-1]]
        forces += [referee.contact(piece.sol(t), mode, mu, k_n, chi)[1:3] for t in now]
        y, began, sticks, mode = piece.y[:, -1], piece.t[-1], piece.t[-1], 0
        if not piece.t_events[0].size:
            break
        ended = sticks
    return np.array(forces).T, ended


@slow
def test_a_curve_of_an_independent_simulation_gives_back_its_parameters():
    """Referee: scipy, other coordinates. Without noise the answer is its k_n, chi and mu, up to sampled curves."""
    study = load_named("fit_crutch")
    times = np.arange(1, 79) / 20e3
    truth = {"k_n": 3e7, "chi": 1.5e7, "mu": 0.7}
    (F_n, F_t), sticks = referee_curve(times, truth["mu"], truth["k_n"], truth["chi"])
    asked = study.crutch_problem({"times": times, "F_n": F_n, "F_t": F_t, "sticks": sticks})
    found = fit(asked, starts=8)
    assert np.all(np.abs(off_in_sd(found, truth)) < 0.1)
    for name, value in truth.items():
        assert found.values[name] == pytest.approx(value, rel=2e-3)
    assert found.rms["F_n"] < 5.0 and found.rms["F_t"] < 5.0  # N, of 5000
