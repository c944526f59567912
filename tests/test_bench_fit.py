"""What `bench fit` says is what was computed: on a ball that falls, a straight line, and the foot that it fits."""

import io
import json

import numpy as np
import pytest
from fit_model import DESIGN, LINE, LINE_SD, line
from toy_model import toy_model

from jaxcontact.bench import derivatives as bench_derivatives
from jaxcontact.bench import fit as bench_fit
from jaxcontact.bench.stance import made_up_stance
from jaxcontact.cli.words import parse
from jaxcontact.errors import InputError
from jaxcontact.models.gait import Gait
from jaxcontact.study import study


@pytest.fixture(scope="module")
def falls():
    """Derivatives of a ball's fall: nothing is integrated, so exact ones are right to rounding at any tolerance."""
    told = []
    drawn = study(toy_model(), vary={"height": {"from": 1, "to": 90}}, sample={"count": 40})
    by = ("height", "gravity", "ball.mass")
    judged = ("t_fall", "weight", "F_peak")
    costs = bench_derivatives.measure_derivatives(
        lambda *turn: told.append(turn), study=drawn, by=by, judged=judged, rounds=1
    )
    return costs, told


@pytest.fixture(scope="module")
def lines():
    told = []
    return bench_fit.measure_fits(line(), starts=3, scipy_starts=2, tell=told.append), told


def test_derivatives_are_told_in_plain_runs_with_their_errors(falls):
    (plain, exact, differences), told = falls
    assert plain.plain_runs == 1 and plain.median_error is None
    assert exact.what == "exact derivatives by 3 parameters" and exact.worst_of_100 < 1e-12
    assert exact.plain_runs == pytest.approx(exact.seconds / plain.seconds)
    # A power x^a differenced over a relative step e errs by |a - 1| / 2 e, and by rounding: at worst t ~ g^(-1/2).
    step = bench_derivatives.STEP
    assert differences.worst_of_100 == pytest.approx(0.75 * step, abs=4 * np.finfo(float).eps / step)
    assert differences.worst_of_100 > 1e3 * exact.worst_of_100
    assert told == [(turn, 6) for turn in range(7)]  # three ways, once to compile and once for the time


def test_errors_count_against_a_hundredth_of_the_largest_slope_where_one_vanishes():
    reference = {"f": np.array([[2.0], [0.0], [-1.0]])}
    found = {"f": np.array([[2.0 + 2e-6], [1e-6], [np.nan]])}
    np.testing.assert_allclose(bench_derivatives._errors(found, reference), [1e-6, 1e-6 / 0.02], rtol=1e-6)


def test_both_fits_reach_what_linear_least_squares_does(lines):
    (ours, scipy), told = lines
    _, squares, *_ = np.linalg.lstsq(DESIGN, LINE, rcond=None)
    for one in (ours, scipy):
        assert one.best == pytest.approx(squares[0] / LINE_SD**2, rel=1e-9)
        assert one.median_shared == pytest.approx(one.best, rel=1e-6)
        assert one.each > 0 and one.wanted == pytest.approx(one.ready + 1000 * one.each)
    assert (ours.starts, scipy.starts) == (3, 2)
    assert told[-1] == 2  # scipy's second start comes last


def test_table_and_file_say_the_same(falls, lines, monkeypatch, tmp_path):
    monkeypatch.setattr(bench_fit, "foot_problem", lambda stance: line())
    monkeypatch.setattr(bench_fit, "stance_of", lambda file: None)
    monkeypatch.setattr(bench_fit, "measure_derivatives", lambda tell: falls[0])
    monkeypatch.setattr(bench_fit, "measure_fits", lambda *_, **options: lines[0])
    out = io.StringIO()
    costs, (ours, scipy) = bench_fit.bench_fit(out, to_json=tmp_path / "fit.json")
    kept = json.loads((tmp_path / "fit.json").read_text())
    assert kept["derivatives"][1]["plain_runs"] == costs[1].plain_runs
    assert [one["each"] for one in kept["fits"]] == [ours.each, scipy.each]
    text = out.getvalue()
    assert f"scipy to ours: {scipy.each / ours.each:.1f}" in text and "estimated from 3" in text


def test_the_made_up_stance_carries_the_gait_and_asks_what_the_study_asks():
    stance, gait = made_up_stance(), Gait()
    # While the foot is nearly still, damping adds nothing to the load that the motion was made for.
    still = (stance.phase > gait.flat_from) & (stance.phase < gait.flat_until)
    np.testing.assert_allclose(stance.force[still, 2], gait.load(stance.phase[still]), rtol=0.1)
    # The impulse of that load in closed form: a body that two such feet carry in turn.
    impulse = np.trapezoid(stance.force[:, 2], stance.time)
    assert impulse == pytest.approx(gait.mass * gait.gravity * gait.duration / (2 * gait.duty), rel=0.05)
    assert np.ptp(stance.cop[stance.cop_valid, 0]) > 0.12  # from the heel to the toes
    problem = bench_fit.foot_problem(stance, frames=11)
    assert {"k", "mu", "mount.z"} < set(problem.names) and len(problem.names) > 12
    assert {channel.name for channel in problem.channels} >= {"F_x", "F_y", "F_z", "cop_x", "cop_y"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fit", "--most", "5000"], "bench sweep"),
        (["sweep", "--starts", "5"], "bench fit"),
        (["fit", "--starts", "0"], "--starts 0"),
        (["fit", "--file", "nowhere.csv"], "nowhere.csv"),
        (["sweep", "--most", "10"], "--most 10"),
    ],
)
def test_bad_options_are_told(words, said):
    arguments = parse(["bench", *words])
    with pytest.raises(InputError, match=said):
        arguments.command(arguments)


@pytest.mark.slow
def test_twelve_derivatives_cost_at_most_six_runs():
    _, exact, differences = bench_derivatives.measure_derivatives()
    assert exact.plain_runs <= 6
    assert (exact.worst_of_100 or np.nan) < 0.1 * (differences.worst_of_100 or np.nan)
