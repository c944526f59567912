"""C3D: force, CoP and free moment of a known wrench come back from plates of every type, wherever they lie."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from measured_trials import PlateMade, channels, make_trial, pitch_at, write_c3d

from jaxcontact.errors import InputError
from jaxcontact.measured import Choices, read_stances
from jaxcontact.measured.c3d import read_c3d
from jaxcontact.measured.force_plate import Plate, surface_load, to_surface

# Axes of laboratories: ours, walking along y, walking against x, y up, and z down.
LABS = {
    "z up, x forward": np.eye(3),
    "z up, y forward": np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]]),
    "z up, -x forward": np.diag([-1.0, -1, 1]),
    "y up, x forward": np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]]),
    "y up, z forward": np.array([[0.0, 1, 0], [0, 0, 1], [1, 0, 0]]),
    "x up, y forward": np.array([[0.0, 0, 1], [1, 0, 0], [0, 1, 0]]),
    "z down, x forward": np.diag([1.0, -1, -1]),
}
PLATES = {
    2: PlateMade(kind=2, turn=0.3),
    3: PlateMade(kind=3, origin=(0.2, 0.12, -0.05), turn=np.pi / 2),
    4: PlateMade(kind=4, turn=-1.2),
}


@pytest.fixture(scope="module")
def trial():
    return make_trial()


def check(stance, trial):
    """The stance that was read is the one that was made."""
    rows = np.round(stance.time * 1000).astype(int)
    assert np.max(np.abs(stance.force - trial.force[rows])) < 1e-3  # the file holds 32-bit numbers
    assert np.max(np.abs(stance.free_moment - trial.free_moment[rows])) < 1e-4
    valid = stance.cop_valid
    assert np.array_equal(valid, stance.in_stance & (trial.force[rows, 2] >= 50))
    assert np.max(np.abs((stance.cop - trial.cop[rows, :2])[valid])) < 1e-6
    cameras = rows[stance.marker_frame] // 10
    assert np.max(np.abs(stance.markers["heel"][stance.marker_frame] - trial.markers["RHEE"][cameras])) < 1e-6
    assert np.max(np.abs(stance.pitch[stance.marker_frame] - pitch_at(trial.marker_time[cameras]))) < 1e-4


@pytest.mark.parametrize("kind", PLATES)
@pytest.mark.parametrize("lab", LABS)
def test_known_stance_comes_back_in_any_laboratory(tmp_path, trial, kind, lab):
    path = write_c3d(tmp_path / "walk.c3d", [trial], [PLATES[kind]], lab=LABS[lab])
    (stance,) = read_stances([path])
    assert (stance.side, stance.provenance.plate) == ("R", "plate1")
    check(stance, trial)


@pytest.mark.parametrize("kind", PLATES)
@pytest.mark.parametrize("change", [{"action": True}, {"upside": True, "origin": (0.003, -0.002, -0.04)}])
def test_sign_of_the_signals_and_order_of_the_corners_do_not_matter(tmp_path, trial, kind, change):
    if kind == 3 and "origin" in change:
        change = {**change, "origin": (0.2, 0.12, -0.05)}
    path = write_c3d(tmp_path / "walk.c3d", [trial], [replace(PLATES[kind], **change)])
    check(read_stances([path])[0], trial)


@pytest.mark.parametrize("kind", PLATES)
def test_metres_are_read_as_metres(tmp_path, trial, kind):
    content = [trial], [PLATES[kind]]
    path = write_c3d(tmp_path / "walk.c3d", *content, units="m")
    check(read_stances([path])[0], trial)


@pytest.mark.parametrize("kind", PLATES)
def test_origin_the_wrong_way_round_is_reversed_and_said(tmp_path, trial, kind):
    plate = PLATES[kind]
    x, y, z = (1e3 * value for value in plate.origin)
    wrong = np.array([[x], [y], [-z]]) if kind == 3 else np.array([[-x], [-y], [-z]])
    path = write_c3d(tmp_path / "walk.c3d", [trial], [plate], ORIGIN=wrong)
    (stance,) = read_stances([path])
    check(stance, trial)
    assert any("ORIGIN" in note for note in stance.provenance.notes)


@pytest.mark.parametrize("kind", PLATES)
def test_agrees_with_the_plates_of_ezc3d(tmp_path, trial, kind):
    # A second derivation of the same parameters. It keeps the file's sign and has NaN without load (ezc3d issue 371).
    import ezc3d

    path = write_c3d(tmp_path / "walk.c3d", [trial], [PLATES[kind]])
    other = ezc3d.c3d(str(path), extract_forceplat_data=True)["data"]["platform"][0]
    plate, loaded = read_c3d(path).plates[0], trial.force[:, 2] > 50
    assert plate.force[loaded] == pytest.approx(other["force"].T[loaded], abs=1e-3)
    assert plate.cop[loaded] == pytest.approx(other["center_of_pressure"].T[loaded] / 1e3, abs=1e-6)
    assert plate.free_moment[loaded] == pytest.approx(other["Tz"][2, loaded] / 1e3, abs=1e-4)


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(sorted(PLATES)),
    st.tuples(st.floats(-400, 400), st.floats(-400, 400), st.floats(60, 3000)),
    st.tuples(st.floats(-0.25, 0.25), st.floats(-0.2, 0.2)),
    st.floats(-30, 30),
    st.floats(-0.1, -0.001),
    st.floats(-3, 3),
)
def test_any_wrench_anywhere_on_a_plate(kind, force, place, twist, depth, turn):
    made = replace(PLATES[kind], origin=(*PLATES[kind].origin[:2], depth), turn=turn)
    middle = np.array(made.middle)
    one = make_trial()
    one.force, one.free_moment = np.array([force]), np.array([twist])
    one.cop = middle + np.array([[*place, 0.0]])
    matrix = np.eye(6) + 0.01
    values = channels(made, one, matrix)
    metres = np.diag([1, 1, 1, 1e-3, 1e-3, 1e-3])  # the channels' moments are in N mm
    if kind == 2:
        values = values @ metres
    plate = Plate(kind, made.corners, np.array(made.origin), metres @ matrix)
    found, cop, free = surface_load(plate, values)
    assert found[0] == pytest.approx(force, abs=1e-6)
    assert cop == pytest.approx(one.cop, abs=1e-8)
    assert -free[0] == pytest.approx(twist, abs=1e-6)  # about the plate's own z, which points down


def test_depth_matters():
    # By hand: with 100 N forwards and 500 N up, sensors 40 mm deep see the CoP 100 / 500 * 40 = 8 mm away.
    corners = PlateMade(middle=(0, 0, 0)).corners
    channel = np.array([[100.0, 0, -500.0, 0, 0, 0]])  # z points down, no moment about the sensors
    deep = surface_load(Plate(2, corners, np.array([0, 0, -0.04]), np.eye(6)), channel)[1]
    flat = surface_load(Plate(2, corners, np.zeros(3), np.eye(6)), channel)[1]
    assert flat[0] == pytest.approx([0, 0, 0])
    assert deep[0] == pytest.approx([0.008, 0, 0])


def test_without_load_there_is_no_cop_and_no_nan():
    corners = PlateMade().corners
    force, cop, free = surface_load(Plate(2, corners, np.zeros(3), np.eye(6)), np.zeros((3, 6)))
    assert np.all(np.isfinite(force)) and np.all(np.isfinite(cop)) and np.all(free == 0)
    assert to_surface(np.array([1.0, 2.0, -3.0]), 2)[1] is False


# ---------------------------------------------------------------- two feet, gaps, offsets


def two_steps():
    right, left = make_trial(), make_trial(left=True, delay=0.55, shift=0.6)
    late = len(left.time) - len(right.time)
    for name in ("force", "cop", "free_moment"):
        values = getattr(right, name)
        setattr(right, name, np.concatenate([values, np.repeat(values[-1:] * 0, late, axis=0)]))
    right.time, right.marker_time = left.time, left.marker_time
    frames = len(left.marker_time)
    right.markers = {
        k: np.concatenate([v, np.repeat(v[-1:], frames - len(v), axis=0)]) for k, v in right.markers.items()
    }
    return right, left


def test_each_plate_gets_the_foot_that_stands_on_it(tmp_path):
    right, left = two_steps()
    plates = [PLATES[3], PlateMade(kind=2, middle=(0.8, 0.05, 0.0))]
    path = write_c3d(tmp_path / "walk.c3d", [right, left], plates)
    stances = read_stances([path])
    assert [(s.side, s.provenance.plate) for s in stances] == [("R", "plate1"), ("L", "plate2")]
    check(stances[0], right)
    assert not any("beside the plate" in note for s in stances for note in s.provenance.notes)
    assert [s.side for s in read_stances([path], Choices(side="L"))] == ["L"]
    # A plate may be given to a foot by hand; that it is far away is said.
    forced = read_stances([path], Choices(plates={"plate2": "R"}))
    assert forced[1].side == "R"
    assert any("m from the foot" in note for note in forced[1].provenance.notes)
    with pytest.raises(InputError, match="unknown plate 'plate9'"):
        read_stances([path], Choices(plates={"plate9": "R"}))


def test_a_foot_beside_the_plate_is_said(tmp_path, trial):
    path = write_c3d(tmp_path / "walk.c3d", [trial], [PlateMade(middle=(0.45, -0.05, 0.0))])
    assert "the foot stands partly beside the plate" in read_stances([path])[0].provenance.notes


def test_mass_of_the_file_and_mass_given(tmp_path, trial):
    path = write_c3d(tmp_path / "walk.c3d", [trial], [PLATES[2]], mass=71.5)
    stance = read_stances([path])[0]
    assert stance.provenance.mass == pytest.approx(71.5, rel=1e-6) and "BODYMASS" in stance.provenance.mass_source
    assert read_stances([path], Choices(mass=80.0))[0].provenance.mass == 80.0


def test_offsets_are_taken_away_only_if_asked(tmp_path, trial):
    path = write_c3d(tmp_path / "walk.c3d", [trial], [PLATES[2]], zero=(1, 10), offset=-15.0)
    check(read_stances([path], Choices(baseline=True))[0], trial)
    raw = read_stances([path])[0]
    rows = np.round(raw.time * 1000).astype(int)
    assert np.abs(raw.force[:, 2] - trial.force[rows, 2]) == pytest.approx(15.0, abs=1e-3)
    path = write_c3d(tmp_path / "none.c3d", [trial], [PLATES[2]])
    with pytest.raises(InputError, match="ZERO is 0, 0"):
        read_stances([path], Choices(baseline=True))


def test_short_gaps_are_bridged_and_long_ones_refused(tmp_path):
    trial = make_trial()
    trial.markers["RHEE"][50:54] = np.nan
    path = write_c3d(tmp_path / "walk.c3d", [trial], [PLATES[2]])
    (stance,) = read_stances([path])
    assert np.all(np.isfinite(stance.markers["heel"]))
    assert any("heel: a gap from 0.500 to 0.530 s is bridged" in note for note in stance.provenance.notes)
    trial.markers["RHEE"][50:70] = np.nan
    path = write_c3d(tmp_path / "walk.c3d", [trial], [PLATES[2]])
    with pytest.raises(InputError, match=r"RHEE is not seen from 0.49\d to 0.69\d s, and gaps of more than 0.1 s"):
        read_stances([path])
    assert read_stances([path], Choices(longest_gap=0.25))[0].side == "R"


# ---------------------------------------------------------------- bad files


def test_a_file_cut_short_is_refused(tmp_path, trial):
    path = write_c3d(tmp_path / "walk.c3d", [trial], [PLATES[2]])
    data = path.read_bytes()
    for keep in (100, 700, len(data) // 2, len(data) - 600):
        path.write_bytes(data[:keep])
        with pytest.raises(InputError, match="cut short"):
            read_stances([path])


@pytest.mark.parametrize(
    ("replaced", "words"),
    [
        ({"USED": [0]}, "has no force plates"),
        ({"USED": [3]}, "plate 2: FORCE_PLATFORM has too few values"),
        ({"TYPE": [6]}, "plate 1: force plate of type 6 is not known\nallowed: 2, 3, 4"),
        ({"CORNERS": None}, "FORCE_PLATFORM has no CORNERS"),
        ({"CORNERS": np.zeros((3, 4, 1))}, "do not span a surface"),
        ({"CHANNEL": np.arange(40, 46)[:, None]}, "of 6 analog channels; type 2 needs 6"),
    ],
)
def test_what_a_file_lacks_is_said(tmp_path, trial, replaced, words):
    path = write_c3d(tmp_path / "walk.c3d", [trial], [PLATES[2]], **replaced)
    with pytest.raises(InputError) as error:
        read_stances([path])
    assert words in str(error.value)


def test_type_4_needs_its_matrix(tmp_path, trial):
    path = write_c3d(tmp_path / "walk.c3d", [trial], [PLATES[4]], CAL_MATRIX=None)
    with pytest.raises(InputError, match="needs CAL_MATRIX"):
        read_stances([path])


def test_without_ezc3d_the_extra_is_named(tmp_path, trial, monkeypatch):
    path = write_c3d(tmp_path / "walk.c3d", [trial], [PLATES[2]])
    monkeypatch.setitem(sys.modules, "ezc3d", None)
    with pytest.raises(InputError, match=r"jaxcontact\[c3d\]"):
        read_stances([path])


def test_what_only_looks_like_c3d(tmp_path):
    path = tmp_path / "walk.c3d"
    path.write_text("time,Fz\n0,1\n")
    with pytest.raises(InputError, match="does not begin like a C3D file"):
        read_stances([path])
    path.write_bytes(b"\x02\x50" + bytes(2000))
    with pytest.raises(InputError, match="walk.c3d"):
        read_stances([path])
