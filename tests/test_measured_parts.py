"""The parts of reading: filters, gaps, cutting, names, frames, pitch, motion, weight; each against a closed form."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from measured_trials import HEEL, LENGTH, make_trial, write_mot, write_trc
from test_measured_c3d import two_steps

from jaxcontact.errors import InputError
from jaxcontact.measured import Choices, estimate_mass, foot_motion, load_at, read_stances, summary
from jaxcontact.measured.cutting import cut
from jaxcontact.measured.filtering import Butterworth, fill_gaps, parse_filter, runs
from jaxcontact.measured.markers import find_roles, parse_markers, split_side
from jaxcontact.measured.plate_signals import filtered
from jaxcontact.measured.recording import PlateSignal, axes_with_up, turn_from_axes
from jaxcontact.measured.stance import GRAVITY, raw_pitch


@pytest.fixture(scope="module")
def stance(tmp_path_factory):
    folder, trial = tmp_path_factory.mktemp("walk"), make_trial()
    return read_stances([write_mot(folder / "a.mot", [trial]), write_trc(folder / "a.trc", trial)])[0]


# ---------------------------------------------------------------- filters and gaps


@pytest.mark.parametrize("order", [2, 4, 6])
@pytest.mark.parametrize("cutoff", [6.0, 20.0, 100.0])
def test_filter_halves_the_power_at_its_cutoff_without_lag(order, cutoff):
    time = np.arange(4000) / 1000
    middle = slice(1500, 2500)
    wave = np.sin(2 * np.pi * cutoff * time)
    out = Butterworth(order, cutoff)(wave, time)
    # In phase: the projection on the wave itself is all that comes out, 1/sqrt(2) of it.
    gain = np.sum(out[middle] * wave[middle]) / np.sum(wave[middle] ** 2)
    assert gain == pytest.approx(1 / np.sqrt(2), rel=2e-3)
    assert out[middle] == pytest.approx(gain * wave[middle], abs=5e-3)
    # Two octaves up the two passes together leave |H|^2 of half the order each: 1 / (1 + (sqrt 2 - 1) 4^order).
    if cutoff < 50:
        high = np.sin(2 * np.pi * 4 * cutoff * time)
        left = np.sum(Butterworth(order, cutoff)(high, time)[middle] * high[middle]) / np.sum(high[middle] ** 2)
        assert left == pytest.approx(1 / (1 + (np.sqrt(2) - 1) * 4**order), rel=0.15)


def test_filter_keeps_constants_and_lines():
    time = np.arange(500) / 1000
    line = 3.0 + 2.0 * time
    assert Butterworth(4, 20.0)(line, time)[100:400] == pytest.approx(line[100:400], abs=1e-3)


def test_filters_that_cannot_be():
    assert str(parse_filter("butter:4:20")) == "butter:4:20"
    for text in ("butter:3:20", "butter:4:-1", "butter:4", "moving:4:20", "butter:four:20"):
        with pytest.raises(InputError, match="filter"):
            parse_filter(text)
    with pytest.raises(InputError, match="well below half"):
        Butterworth(4, 60.0)(np.zeros(100), np.arange(100) / 100)
    with pytest.raises(InputError, match="not evenly spaced"):
        Butterworth(4, 5.0)(np.zeros(100), np.arange(100) ** 1.2 / 100)


def test_filtered_cop_is_that_of_the_filtered_wrench():
    # A load that stays at one place has its CoP there whatever is filtered away; a filtered quotient would not.
    time = np.arange(1000) / 1000
    force = np.stack([20 * np.sin(9 * time), 5 * np.cos(5 * time), 400 * np.sin(np.pi * time) ** 2 + 3], axis=1)
    rng = np.random.default_rng(0)
    force[:, 2] += rng.normal(size=1000)
    plate = PlateSignal("p", "", force, np.tile([3.1, -0.2, 0.0], (1000, 1)), np.full(1000, 0.0))
    out = filtered(plate, time, Butterworth(4, 20.0), 50.0)
    loaded = out.force[:, 2] > 20
    assert out.cop[loaded] == pytest.approx(np.tile([3.1, -0.2, 0.0], (loaded.sum(), 1)), abs=1e-9)
    assert out.free_moment[loaded] == pytest.approx(0.0, abs=1e-9)


def test_filters_are_chosen_separately_and_recorded(tmp_path):
    trial = make_trial()
    files = [write_mot(tmp_path / "a.mot", [trial]), write_trc(tmp_path / "a.trc", trial)]
    (plain,) = read_stances(files)
    (forces,) = read_stances(files, Choices(force_filter=Butterworth(4, 30.0)))
    (markers,) = read_stances(files, Choices(marker_filter=Butterworth(4, 8.0)))
    assert plain.provenance.force_filter == plain.provenance.marker_filter == "none"
    assert (forces.provenance.force_filter, forces.provenance.marker_filter) == ("butter:4:30", "none")
    assert markers.provenance.marker_filter == "butter:4:8"
    assert np.array_equal(markers.force, plain.force)
    same = np.intersect1d(forces.time, plain.time)
    rows = [np.isin(each.time, same) for each in (forces, plain)]
    assert np.array_equal(forces.markers["heel"][rows[0]], plain.markers["heel"][rows[1]])
    assert not np.allclose(forces.force[rows[0]], plain.force[rows[1]], atol=1e-3)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.booleans(), min_size=1, max_size=60))
def test_runs_are_the_stretches(flags):
    flags = np.array(flags)
    found = runs(flags)
    rebuilt = np.zeros_like(flags)
    for first, past in found:
        assert flags[first:past].all()
        rebuilt[first:past] = True
    assert np.array_equal(rebuilt, flags)
    assert all(b[0] > a[1] for a, b in zip(found, found[1:], strict=False))


def test_cubics_are_bridged_exactly():
    time = np.arange(50) / 100
    track = np.stack([time**3, 1 - time**2, time], axis=1)
    holed = track.copy()
    holed[20:25] = np.nan
    filled = fill_gaps(holed, time, 0.1)
    assert filled.places == pytest.approx(track, abs=1e-12)
    assert filled.seen.all() and filled.bridged == ((pytest.approx(0.20), pytest.approx(0.24)),)
    holed[20:30] = np.nan  # from 0.19 to 0.30 s
    assert np.array_equal(~fill_gaps(holed, time, 0.1).seen, np.isnan(holed[:, 0]))
    holed[:3] = np.nan  # nothing is bridged beyond the ends
    assert not fill_gaps(holed, time, 10.0).seen[:3].any() and fill_gaps(holed, time, 10.0).seen[3:].all()


# ---------------------------------------------------------------- cutting


def test_cutting():
    time = np.arange(1000) / 1000
    load = np.zeros(1000)
    load[100:400] = 100  # whole
    load[205:210] = 0  # grazed the threshold
    load[500:550] = 100  # short
    load[700:] = 100  # open
    cuts = cut(load, time, threshold=20, shortest=0.2, bounce=0.02)
    assert (cuts.stances, cuts.open_ended, cuts.too_short) == (((100, 400),), 1, 1)
    apart = cut(load, time, threshold=20, shortest=0.05, bounce=0.0)
    assert apart.stances == ((100, 205), (210, 400)) and apart.too_short == 1
    assert cut(load, time, threshold=200, shortest=0.2, bounce=0.02).stances == ()


def test_threshold_and_margin_are_kept(tmp_path):
    trial = make_trial()
    files = [write_mot(tmp_path / "a.mot", [trial]), write_trc(tmp_path / "a.trc", trial)]
    for threshold in (5.0, 20.0, 200.0):
        (stance,) = read_stances(files, Choices(threshold=threshold, margin=0.05))
        assert np.array_equal(stance.in_stance, stance.force[:, 2] > threshold)
        assert stance.time[0] == pytest.approx(stance.touch_down - 0.05)
        assert stance.provenance.threshold == threshold
    (stance,) = read_stances(files, Choices(cop_threshold=300.0, margin=0.0))
    assert np.array_equal(stance.cop_valid, stance.force[:, 2] >= 300)
    assert stance.in_stance.all()


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("name", "side", "rest"),
    [
        ("R.Heel", "R", "HEEL"),
        ("LHEE", "L", "HEE"),
        ("R_HEEL", "R", "HEEL"),
        ("Heel_L", "L", "HEEL"),
        ("S01:RTOE", "R", "TOE"),
        ("L.Toe.Lat", "L", "TOELAT"),
        ("left heel", "L", "HEEL"),
        ("heel", "", "HEEL"),
        ("HEEL", "", "HEEL"),
        ("R5MTH", "R", "5MTH"),
        ("Top.Head", "", "TOPHEAD"),
    ],
)
def test_sides_in_names(name, side, rest):
    assert split_side(name) == (side, rest)


def test_roles_are_guessed():
    roles = find_roles(["R.Heel", "R.MT5", "R.Toe", "R.Ankle", "L.Heel", "L.Knee"])
    assert set(roles) == {"R"}  # the left foot has no ball
    assert roles["R"]["mtp"] == ("R.MT5",) and roles["R"]["heading"] == ("R.Toe",)  # a head at the edge points aside
    roles = find_roles(["LHEE", "L.Toe.Lat", "L.Toe.Med", "L.Toe.Tip"])["L"]
    assert set(roles["mtp"]) == {"L.Toe.Lat", "L.Toe.Med"} and roles["heading"] == roles["mtp"]
    assert find_roles(["RHEE", "RTOE"])["R"]["mtp"] == ("RTOE",)


def test_roles_are_given_for_both_feet_at_once():
    names = ["R.Calx", "R.Ball", "R.Tip", "L.Calx", "L.Ball", "L.Tip", "R.Heel"]
    roles = find_roles(names, parse_markers("heel=R.Calx, mtp=R.Ball+R.Tip"))
    assert roles["R"]["heel"] == ("R.Calx",) and roles["L"]["heel"] == ("L.Calx",)
    assert roles["L"]["mtp"] == ("L.Ball", "L.Tip")
    for text, words in (("heel", "ROLE=NAME"), ("sole=R.Heel", "unknown role 'sole'"), ("heel=R.Heal", "R.Heal")):
        with pytest.raises(InputError, match=words):
            find_roles(names, parse_markers(text))
    with pytest.raises(InputError, match="different feet"):
        find_roles(names, parse_markers("mtp=R.Ball+L.Ball"))


# ---------------------------------------------------------------- frames


def test_axes():
    assert np.array_equal(turn_from_axes("x,-z,y") @ [1, 2, 3], [1, -3, 2])
    for axis in range(3):
        for sign in (1.0, -1.0):
            turn = turn_from_axes(axes_with_up(axis, sign))
            assert np.linalg.det(turn) == pytest.approx(1)
            assert (turn @ (sign * np.eye(3)[axis]))[2] == 1  # that axis is up
    for axes, words in (("x,y", "three"), ("x,x,z", "three"), ("x,z,y", "left")):
        with pytest.raises(InputError, match=words):
            turn_from_axes(axes)


@settings(deadline=None, max_examples=40)
@given(st.floats(-1.4, 1.4), st.floats(-3, 3))
def test_pitch_of_a_rigid_line(pitch, heading):
    # Heel up by the pitch: the ball is lower than the heel, along the heading.
    heel = np.zeros((1, 3))
    ball = np.array([[np.cos(pitch) * np.cos(heading), np.cos(pitch) * np.sin(heading), -np.sin(pitch)]])
    assert raw_pitch(heel, ball, heading) == pytest.approx(pitch, abs=1e-12)


def test_foot_flat(stance):
    # The made-up foot lies flat from 0.34 to 0.55 s, with its heel where it was put, pointing along x.
    assert stance.flat.heel == pytest.approx(HEEL, abs=1e-6)
    assert stance.flat.heading == pytest.approx(0, abs=1e-9)
    assert stance.flat.pitch == pytest.approx(0, abs=1e-6)
    valid = stance.cop_valid
    share = (stance.time[valid] - 0.2) / 0.7
    assert stance.cop_along[valid] == pytest.approx(0.02 + 0.2 * share, abs=1e-6)
    assert stance.cop_left[valid] == pytest.approx(0.01 * share, abs=1e-6)


def test_cop_in_the_foot_is_a_rigid_motion(stance):
    # Distances from the heel and the ball, both fixed in the foot, are the same in both frames.
    valid = stance.cop_valid & stance.marker_frame
    place = np.column_stack([stance.cop[:, 0], np.zeros(len(stance.time))])  # in the plane along the foot
    foot = stance.cop_in_foot[valid]
    for role, there in (("heel", [0, 0]), ("mtp", [LENGTH, 0])):
        outside = np.linalg.norm(place - stance.markers[role][:, [0, 2]], axis=1)[valid]
        assert np.linalg.norm(foot - there, axis=1) == pytest.approx(outside, abs=1e-5)


def test_turning_the_room_changes_nothing(tmp_path, stance):
    for angle in (90, 180, -90):
        turned, (c, s) = make_trial(), np.round([np.cos(np.radians(angle)), np.sin(np.radians(angle))])
        turn = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
        turned.force, turned.cop = turned.force @ turn.T, turned.cop @ turn.T
        turned.markers = {name: places @ turn.T for name, places in turned.markers.items()}
        files = [write_mot(tmp_path / "a.mot", [turned]), write_trc(tmp_path / "a.trc", turned)]
        for forward in ("auto", {90: "y", 180: "-x", -90: "-y"}[angle], str(angle)):
            (found,) = read_stances(files, Choices(forward=forward))
            assert found.force == pytest.approx(stance.force, abs=1e-9)
            assert found.cop_along == pytest.approx(stance.cop_along, abs=1e-9)
            assert found.markers["heel"] == pytest.approx(stance.markers["heel"], abs=1e-9)


@pytest.mark.parametrize("speed", [1.3, "auto"])
def test_on_a_belt_the_standing_foot_is_at_rest(tmp_path, stance, speed):
    belt = make_trial()
    belt.cop[:, 0] -= 1.3 * (belt.time - stance.touch_down)
    for places in belt.markers.values():
        places[:, 0] -= 1.3 * (belt.marker_time - stance.touch_down)
    files = [write_mot(tmp_path / "a.mot", [belt]), write_trc(tmp_path / "a.trc", belt)]
    (found,) = read_stances(files, Choices(belt_speed=speed))
    assert found.provenance.belt_speed == pytest.approx(1.3, abs=1e-6)
    assert found.markers["heel"] == pytest.approx(stance.markers["heel"], abs=1e-6)
    assert found.cop_along == pytest.approx(stance.cop_along, abs=1e-6)
    (raw,) = read_stances(files)
    assert raw.markers["heel"][-1, 0] < -0.3


def test_heights_may_be_measured_from_the_plate(tmp_path, stance):
    low = make_trial()
    low.cop[:, 2] = -0.02
    files = [write_mot(tmp_path / "a.mot", [low]), write_trc(tmp_path / "a.trc", low)]
    (kept,), (levelled,) = read_stances(files), read_stances(files, Choices(level="plate"))
    assert any("-20.0 mm above z = 0" in note for note in kept.provenance.notes)
    assert kept.markers["heel"] == pytest.approx(stance.markers["heel"])
    assert levelled.markers["heel"] == pytest.approx(stance.markers["heel"] + [0, 0, 0.02])


def test_choices_that_cannot_be():
    for options, words in (
        ({"threshold": 0.0}, "threshold"),
        ({"threshold": -5.0}, "threshold"),
        ({"margin": float("nan")}, "margin"),
        ({"mass": 0.0}, "mass"),
        ({"side": "B"}, "side"),
        ({"plates": {"plate1": "X"}}, "side"),
        ({"level": "sea"}, "level"),
        ({"forward": "north"}, "forward"),
        ({"belt_speed": "fast"}, "belt_speed"),
    ):
        with pytest.raises(InputError, match=words):
            Choices(**options)


# ---------------------------------------------------------------- motion


def test_velocities_are_the_derivatives_of_the_places(stance):
    for window in (0.05, 0.0):
        fine = foot_motion(stance, 20001, window=window)
        for place, rate in ((fine.position, fine.velocity), (fine.pitch, fine.pitch_rate)):
            numeric = np.gradient(place, fine.time, axis=0)[5:-5]
            assert numeric == pytest.approx(rate[5:-5], abs=2e-3)


def test_smoothing_leaves_cubics_alone(stance):
    # A heel that moves as a cubic in time is its own local cubic; so are its velocities.
    t = stance.since_touch_down
    heel = np.stack([0.1 + 1.2 * t - t**3, 0.3 * t**2, 0.05 + 0.4 * t**3], axis=1)
    ball = heel + [LENGTH, 0, 0]
    moved = replace(stance, markers={"heel": heel, "mtp": ball})
    motion = foot_motion(moved, 57)
    t = motion.time
    assert motion.smoothing == "local cubics over 0.05 s"
    assert motion.position == pytest.approx(
        np.stack([0.1 + 1.2 * t - t**3, 0.3 * t**2, 0.05 + 0.4 * t**3], 1), abs=1e-9
    )
    assert motion.velocity == pytest.approx(np.stack([1.2 - 3 * t**2, 0.6 * t, 1.2 * t**2], 1), abs=1e-7)
    assert len(foot_motion(moved).time) == np.count_nonzero(stance.in_stance)


def test_load_between_rows(stance):
    count = np.count_nonzero(stance.in_stance)
    load = load_at(stance, count)
    assert load.force == pytest.approx(stance.force[stance.in_stance], abs=1e-9)
    assert np.array_equal(load.cop_valid, stance.cop_valid[stance.in_stance])
    some = load_at(stance, 101)
    assert np.all(np.isfinite(some.cop)) and np.all(some.cop[~some.cop_valid] == 0)
    assert some.cop[some.cop_valid, 0] == pytest.approx(
        np.interp(some.time[some.cop_valid], stance.since_touch_down, 0.12 + 0.2 * (stance.time - 0.2) / 0.7), abs=1e-6
    )
    for wrong in (lambda: load_at(stance, 1), lambda: foot_motion(stance, 1), lambda: foot_motion(stance, window=-1.0)):
        with pytest.raises(InputError):
            wrong()


# ---------------------------------------------------------------- figures and weight


def test_summary_against_the_formulas_of_the_trial(stance):
    figures = summary(stance)
    share = np.linspace(0, 1, 700001)
    hump = np.sin(np.pi * share)
    load = 900 * hump**0.7 * (1 - 0.3 * hump**4)
    assert figures.first_peak == pytest.approx(load[:350000].max(), rel=1e-5)
    assert figures.second_peak == pytest.approx(load[350000:].max(), rel=1e-5)
    assert figures.valley == pytest.approx(900 * 0.7, rel=1e-5)
    assert figures.impulse == pytest.approx(np.trapezoid(load, 0.7 * share), rel=1e-3)
    assert figures.braking == pytest.approx(-75, rel=1e-4) and figures.propulsion == pytest.approx(75, rel=1e-4)
    assert figures.body_weight is None and figures.in_body_weight(100.0) is None
    known = summary(stance.with_mass(70.0, "given"))
    assert known.in_body_weight(700 * GRAVITY) == pytest.approx(10)
    # CoP runs from 20 to 220 mm, less what is below 50 N at both ends; the pitch from -0.3 to 0.8.
    assert 0.19 < figures.cop_travel < 0.2
    assert figures.pitch_low == pytest.approx(-0.3, abs=0.01) and figures.pitch_high == pytest.approx(0.8, abs=0.02)


def steps(sides, tmp_path, *, mass=70.0):
    """Steady walking: stances of 0.7 s every 0.55 s, scaled so that the mean load is the weight."""
    base = make_trial()
    scale = mass * GRAVITY * 0.55 / np.trapezoid(base.force[:, 2], base.time)
    base = make_trial(scale=scale)
    files = [write_mot(tmp_path / "s.mot", [base]), write_trc(tmp_path / "s.trc", base)]
    (one,) = read_stances(files, Choices(margin=0.3))
    return [replace(one, side=side, time=one.time + 0.55 * i) for i, side in enumerate(sides)]


def test_mass_from_the_mean_load(tmp_path):
    stride = estimate_mass(steps("RLR", tmp_path))
    step = estimate_mass(steps("LR", tmp_path))
    assert stride is not None and step is not None
    assert stride[0] == pytest.approx(70, rel=1e-3) and "stride" in stride[1]
    assert step[0] == pytest.approx(70, rel=1e-3) and "step" in step[1]
    assert estimate_mass(steps("R", tmp_path)) is None
    assert estimate_mass(steps("RR", tmp_path)) is None  # a step of the other foot was not measured
    apart = steps("RL", tmp_path)
    assert estimate_mass([apart[0], replace(apart[1], time=apart[1].time + 1)]) is None  # not the next step


def test_mass_given_wins_and_unknown_stays_unknown(tmp_path, stance):
    assert stance.provenance.mass is None
    right, left = two_steps()
    right.markers |= left.markers
    files = [
        write_mot(tmp_path / "a.mot", [right, left], ["ground_force_r", "ground_force_l"]),
        write_trc(tmp_path / "a.trc", right),
    ]
    assert "estimated" in read_stances(files)[0].provenance.mass_source
    given = read_stances(files, Choices(mass=60.0))[0].provenance
    assert (given.mass, given.mass_source) == (60.0, "given")
