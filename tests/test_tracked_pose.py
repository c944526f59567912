"""The pose of a measured foot against the rigid motion that its markers were made from, and its correction."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.interpolate import BSpline
from tracked_stances import DURATION, HEADING, HEIGHT, REST, known_at, make_stance

from jaxcontact.errors import InputError
from jaxcontact.tracked.foot_pose import corrected, pose_at, track_of
from jaxcontact.tracked.pose_correction import (
    PRIOR_SD,
    Shift,
    check_counts,
    coefficient_names,
    correction_parameters,
    prior_sd,
    shift_of,
    size_of,
    spline_basis,
)

MOMENTS = np.linspace(0.0, DURATION, 41)


@pytest.mark.parametrize("side", ["R", "L"])
def test_turns_and_places_of_a_rigid_foot_are_found_again(side):
    """Whatever the heading and the place in the laboratory; a left foot is told as the right one in a mirror."""
    track = track_of(make_stance(side), window=0.0)
    pose, known = pose_at(track, MOMENTS), known_at(MOMENTS)
    np.testing.assert_allclose(np.transpose(pose.turn), known.turn, atol=1e-7)
    np.testing.assert_allclose(np.transpose(pose.place), known.ball, atol=1e-7)
    assert track.heading == pytest.approx(HEADING) and track.side == (-1.0 if side == "L" else 1.0)
    np.testing.assert_allclose(track.ball, REST, atol=1e-12)
    assert track.heel[2] == pytest.approx(HEIGHT)


def test_rates_are_the_derivatives_of_places_and_turns():
    for window in (0.0, 0.03):
        track, h = track_of(make_stance(), window), 1e-6
        here, before, after = (pose_at(track, MOMENTS[1:-1] + step) for step in (0.0, -h, h))
        for rate, early, late in (
            (here.velocity, before.place, after.place),
            (here.turn_rate, before.turn, after.turn),
        ):
            np.testing.assert_allclose(rate, (np.array(late) - early) / (2 * h), atol=1e-6)


def test_smoothing_by_cubics_leaves_what_is_cubic():
    """From 60 % of stance on the known motion is a cubic of time: smoothed, it is the same but where windows begin."""
    rough, smooth = (pose_at(track_of(make_stance(), window), MOMENTS[28:-2]) for window in (0.0, 0.03))
    np.testing.assert_allclose(smooth.place, rough.place, atol=1e-9)
    # Turns are recovered angles, cubic too.
    np.testing.assert_allclose(smooth.turn, rough.turn, atol=1e-9)


def test_the_outermost_heads_count_whatever_their_labels():
    usual = pose_at(track_of(make_stance(heads=("mt5", "mt1")), 0.0), MOMENTS)
    swapped = pose_at(track_of(make_stance(heads=("mt1", "mt2")), 0.0), MOMENTS)
    np.testing.assert_allclose(swapped.turn, usual.turn, atol=1e-12)


def test_with_one_marker_on_the_ball_there_is_no_roll():
    pose, known = pose_at(track_of(make_stance(heads=None), 0.0), MOMENTS), known_at(MOMENTS)
    np.testing.assert_allclose(pose.turn[0], 0.0, atol=1e-9)
    # The line from heel to ball says pitch and yaw; it does not see the foot roll about it.
    np.testing.assert_allclose(np.transpose(pose.turn)[:, 1:], known.turn[:, 1:], atol=1e-7)


@pytest.mark.parametrize("window", [-0.01, np.nan, 10.0])
def test_a_window_that_is_none_is_refused(window):
    with pytest.raises(InputError, match="window = "):
        track_of(make_stance(), window)


# ---------------------------------------------------------------- correction

COUNTS = {"height": 6, "yaw": 3, "side": 1}


def coefficients(rng):
    return {name: rng.normal() for name in coefficient_names(COUNTS)}


def test_splines_are_positive_add_up_to_one_and_reach_one_at_the_ends():
    for count in (1, 2, 3, 4, 8):
        values, slopes = spline_basis(np.linspace(0, 1, 101), count)
        assert values.shape == slopes.shape == (101, count)
        assert values.min() >= 0
        np.testing.assert_allclose(values.sum(axis=1), 1.0)
        np.testing.assert_allclose(slopes.sum(axis=1), 0.0, atol=1e-9)
        assert values[0, 0] == values[-1, -1] == 1.0


def test_with_four_coefficients_splines_are_bernstein_polynomials():
    x = np.linspace(0, 1, 11)
    expected = np.stack([(1 - x) ** 3, 3 * x * (1 - x) ** 2, 3 * x**2 * (1 - x), x**3], axis=1)
    np.testing.assert_allclose(spline_basis(x, 4)[0], expected, atol=1e-14)


def test_a_correction_is_its_spline_and_its_rate_the_derivative():
    given = coefficients(np.random.default_rng(1))
    params = {name: jnp.asarray(value) for name, value in given.items()}
    found = shift_of(params, COUNTS, MOMENTS / DURATION, DURATION)
    # Three inner knots, cubic; written with scipy's own interface, over time and not phase.
    inner = np.linspace(0, DURATION, 4)
    knots = np.concatenate([[0.0] * 3, inner, [DURATION] * 3])
    spline = BSpline(knots, [given[f"correct.height.{i}"] for i in range(1, 7)], 3)
    np.testing.assert_allclose(found.value["height"], spline(MOMENTS), atol=1e-12)
    np.testing.assert_allclose(found.rate["height"], spline(MOMENTS, 1), atol=1e-10)
    np.testing.assert_allclose(found.value["side"], given["correct.side.1"], atol=1e-15)
    np.testing.assert_allclose(found.rate["side"], 0.0)


def test_a_correction_takes_lanes_moves_every_part_of_a_pose_and_at_zero_none():
    rng = np.random.default_rng(2)
    lanes = [coefficients(rng) for _ in range(3)]
    wide = {name: jnp.asarray([each[name] for each in lanes]) for name in lanes[0]}
    found = shift_of(wide, COUNTS, MOMENTS / DURATION, DURATION)
    one = shift_of({k: jnp.asarray(v) for k, v in lanes[1].items()}, COUNTS, MOMENTS / DURATION, DURATION)
    assert found.value["yaw"].shape == (41, 3)
    np.testing.assert_allclose(found.value["yaw"][:, 1], one.value["yaw"])
    pose = pose_at(track_of(make_stance(), 0.0), MOMENTS)
    names = ("forward", "side", "height", "roll", "pitch", "yaw")
    nothing = {name: jnp.zeros(()) for name in coefficient_names(COUNTS)}
    same = corrected(pose, shift_of(nothing, COUNTS, MOMENTS / DURATION, DURATION))
    for part, as_it_was in zip(same, pose, strict=True):
        np.testing.assert_array_equal(part, as_it_was)
    numbers = {name: jnp.full(41, 10.0 + i) for i, name in enumerate(names)}
    moved = corrected(pose, Shift(numbers, {name: 10 * value for name, value in numbers.items()}))
    for i in range(3):
        np.testing.assert_allclose(moved.place[i] - pose.place[i], 10.0 + i)
        np.testing.assert_allclose(moved.turn[i] - pose.turn[i], 13.0 + i)
        np.testing.assert_allclose(moved.velocity[i] - pose.velocity[i], 100.0 + 10 * i)
        np.testing.assert_allclose(moved.turn_rate[i] - pose.turn_rate[i], 130.0 + 10 * i)


def test_a_correction_undoes_what_markers_are_off_by():
    """Markers that drift along the foot by a cubic, corrected by as much the other way: all as if they had not.

    Where the frame's origin is laid, at foot-flat, they are off too: that moves the places, and no velocity.
    """
    off = np.array([0.004, -0.003, 0.002, 0.006])  # Bernstein's coefficients

    def drift(time):
        x = np.asarray(time) / DURATION
        powers = np.stack([(1 - x) ** 3, 3 * x * (1 - x) ** 2, 3 * x**2 * (1 - x), x**3], axis=-1)
        return (powers @ off)[:, None] * [1.0, 0.0, 0.0]

    straight, drifted = (track_of(make_stance(moved=moved), 0.0) for moved in (None, drift))
    back = {f"correct.forward.{i}": jnp.asarray(-value) for i, value in enumerate(off, start=1)}
    shift = shift_of(back, {"forward": 4}, MOMENTS / DURATION, DURATION)
    found, expected = corrected(pose_at(drifted, MOMENTS), shift), pose_at(straight, MOMENTS)
    np.testing.assert_allclose(found.velocity, expected.velocity, atol=1e-8)
    np.testing.assert_allclose(found.turn, expected.turn, atol=1e-9)
    origin = drifted.seen(drifted.heel - straight.heel)
    assert 1e-4 < abs(origin[0]) < 4e-3
    np.testing.assert_allclose(np.transpose(found.place) + origin, np.transpose(expected.place), atol=1e-9)


def test_how_large_a_correction_is_is_told_in_mm_and_degrees():
    """One coefficient is a constant; two make a line from a to b, of mean square (a^2 + a b + b^2) / 3."""
    sizes = size_of({"correct.side.1": -0.004, "correct.yaw.1": 1.0, "correct.yaw.2": -2.0}, {"side": 1, "yaw": 2})
    assert sizes["side"] == (pytest.approx(4.0), pytest.approx(4.0), "mm")
    rms, most, unit = sizes["yaw"]
    assert rms == pytest.approx(1.0, rel=1e-2) and most == 2.0 and unit == "deg"


def test_parameters_of_a_correction_are_zero_by_default_and_have_a_prior():
    parameters = correction_parameters(check_counts(COUNTS | {"pitch": 0}))
    assert [p.name for p in parameters] == list(coefficient_names(check_counts(COUNTS)))
    assert all(p.default == 0.0 and p.low == -p.high for p in parameters)
    assert {p.unit for p in parameters} == {"m", "deg"}
    assert prior_sd("correct.height.3") == PRIOR_SD["height"] <= 0.003 and prior_sd("correct.yaw.1") <= 1.0


@pytest.mark.parametrize(
    ("counts", "words"),
    [({"heigth": 4}, "Did you mean 'height'"), ({"yaw": 2.5}, "whole number"), ({"yaw": "many"}, "whole number")]
    + [({"yaw": -1}, "0 or more"), ({"yaw": True}, "whole number")],
)
def test_a_correction_that_is_none_is_refused(counts, words):
    with pytest.raises(InputError, match=words):
        check_counts(counts)
