"""Text formats: the same stance from each of them, read back from what we write, and clear words for bad files."""

import numpy as np
import pytest
from measured_trials import make_trial, pitch_at, write_c3d, write_mot, write_table, write_trc
from test_measured_c3d import PLATES, check, two_steps

from jaxcontact.errors import InputError
from jaxcontact.measured import Choices, read_heel_pads, read_heel_strikes, read_stances, to_dataset, write_csv
from jaxcontact.measured.storage import read_storage
from jaxcontact.measured.textfile import even_clock
from jaxcontact.measured.trc import read_trc


@pytest.fixture(scope="module")
def trial():
    return make_trial()


@pytest.fixture(scope="module")
def pair(tmp_path_factory, trial):
    folder = tmp_path_factory.mktemp("pair")
    return [write_mot(folder / "walk.mot", [trial]), write_trc(folder / "walk.trc", trial)]


@pytest.fixture(scope="module")
def stance(pair):
    (stance,) = read_stances(pair)
    return stance


def refused(files, *words, **choices):
    with pytest.raises(InputError) as error:
        read_stances(files, Choices(**choices))
    for word in words:
        assert word in str(error.value)


# ---------------------------------------------------------------- what comes out


def test_opensim_pair_is_the_stance_that_was_made(stance, trial):
    assert stance.side == "R"
    check(stance, trial)


def test_metres_and_other_column_names(tmp_path, trial):
    markers = write_trc(tmp_path / "walk.trc", trial, units="m")
    for stem in ("ground_force", "1_ground_force", "ground_force_1", "R_ground_force"):
        (stance,) = read_stances([write_mot(tmp_path / "walk.mot", [trial], [stem]), markers])
        check(stance, trial)
        assert stance.side == "R"  # said by the name, or found by where the CoP is


def test_two_forces_are_given_to_the_right_feet(tmp_path):
    right, left = two_steps()
    right.markers |= left.markers
    trc = write_trc(tmp_path / "walk.trc", right)
    for stems in (("ground_force_r", "ground_force_l"), ("ground_force_1", "ground_force_2")):
        stances = read_stances([write_mot(tmp_path / "walk.mot", [right, left], stems), trc])
        assert [s.side for s in stances] == ["R", "L"]
        check(stances[0], right)
    # Names that contradict the markers are believed, and the contradiction is said.
    swapped = read_stances([write_mot(tmp_path / "walk.mot", [right, left], ["ground_force_l", "ground_force_r"]), trc])
    assert all(any("from the foot" in n or "nearer" in n for n in s.provenance.notes) for s in swapped)


def test_all_formats_agree(tmp_path, trial, stance):
    (other,) = read_stances([write_c3d(tmp_path / "walk.c3d", [trial], [PLATES[2]])])
    assert other.time == pytest.approx(stance.time)
    assert other.pitch == pytest.approx(stance.pitch, abs=1e-5)
    assert other.cop_in_foot == pytest.approx(stance.cop_in_foot, abs=1e-6)


@pytest.mark.parametrize("lengths", [("", 1.0), ("[mm]", 1e3), (" [cm]", 1e2)])
def test_a_table_of_ones_own(tmp_path, trial, lengths):
    path = write_table(tmp_path / "own.csv", trial, lengths=lengths)
    (stance,) = read_stances([path], Choices(side="R"))
    rows = np.round(stance.time * 1000).astype(int)
    assert stance.side == "R" and stance.name == "R_0.201s"
    assert stance.force == pytest.approx(trial.force[rows])
    assert stance.cop[stance.cop_valid] == pytest.approx(trial.cop[rows, :2][stance.cop_valid])
    assert stance.markers["mtp"] == pytest.approx((stance.markers["mt1"] + stance.markers["mt5"]) / 2)
    on_camera = rows % 10 == 0
    assert stance.pitch[on_camera] == pytest.approx(pitch_at(trial.time[rows][on_camera]), abs=1e-4)


def test_our_own_table_reads_back_the_same(tmp_path, stance):
    path = tmp_path / "stances.csv"
    with path.open("w", newline="") as stream:
        write_csv([stance], stream)
    (again,) = read_stances([path])
    assert (again.name, again.side) == (stance.name, stance.side)
    for name in ("time", "in_stance", "marker_frame", "force", "free_moment", "cop", "cop_valid"):
        assert np.array_equal(getattr(again, name), getattr(stance, name)), name
    assert all(np.array_equal(again.markers[role], places) for role, places in stance.markers.items())
    for name in ("pitch", "cop_along", "cop_left", "cop_in_foot", "phase"):
        assert getattr(again, name) == pytest.approx(getattr(stance, name), abs=1e-12), name
    second = tmp_path / "again.csv"
    with second.open("w", newline="") as stream:
        write_csv([again], stream)
    assert second.read_text().splitlines()[0] == path.read_text().splitlines()[0]


def test_a_tidy_table_may_be_cut_anew(tmp_path, stance):
    path = tmp_path / "stances.csv"
    with path.open("w", newline="") as stream:
        write_csv([stance], stream)
    (again,) = read_stances([path], Choices(threshold=100.0, margin=0.02))
    assert (again.name, again.side) == (stance.name, "R")
    assert np.array_equal(again.in_stance, again.force[:, 2] > 100)
    assert again.provenance.threshold == 100 and len(again.time) < len(stance.time)
    assert again.flat.heel == pytest.approx(stance.flat.heel, abs=1e-6)


def test_dataset_has_units_and_blanks(stance):
    dataset = to_dataset(stance)
    assert dataset["Fz"].attrs["units"] == "N" and dataset["foot_pitch"].attrs["units"] == "rad"
    assert np.array_equal(np.isnan(dataset["CoPx"].values), ~stance.cop_valid)
    assert np.all(np.isfinite(stance.cop)) and np.all(stance.cop[~stance.cop_valid] == 0)
    assert dataset.attrs["files"] == "walk.mot, walk.trc"


def test_a_stance_cannot_be_changed(stance):
    with pytest.raises(ValueError, match="read-only"):
        stance.force[0, 0] = 1.0


def test_garbage_without_load_does_no_harm(tmp_path, trial, pair):
    # As measured: points of application of hundreds of metres, and NaN, where the foot is in the air.
    wild = make_trial()
    wild.cop[wild.force[:, 2] < 5] = 300.0
    wild.cop[:50] = np.nan
    wild.force[:40] = np.nan
    for choices in (Choices(), Choices(force_filter=None)):
        (stance,) = read_stances([write_mot(tmp_path / "walk.mot", [wild]), pair[1]], choices)
        check(stance, trial)


def test_clocks_that_were_rounded():
    exact = np.arange(151) / 60
    texts = [f"{t:.3f}" for t in exact]
    assert even_clock(np.array([float(t) for t in texts]), texts, 60.0) == pytest.approx(exact, abs=1e-12)
    padded = [f"{float(t):.6f}" for t in texts]
    assert even_clock(np.array([float(t) for t in padded]), padded) == pytest.approx(exact, abs=1e-12)
    lost = np.delete(exact, 70)  # a lost frame is no rounding
    texts = [f"{t:.3f}" for t in lost]
    printed = np.array([float(t) for t in texts])
    assert np.array_equal(even_clock(printed, texts, 60.0), printed)


# ---------------------------------------------------------------- bad files


def test_names_and_endings(tmp_path, pair, trial):
    refused([tmp_path / "none.mot", pair[1]], "there is no file")
    refused([tmp_path / "walk.xlsx"], "told by its ending", ".csv, .mot, .sto, .trc, .c3d")
    refused([tmp_path], "told by its ending")
    wrong = tmp_path / "walk.csv"
    wrong.write_bytes(pair[0].read_bytes())
    refused([wrong], "is named .csv but looks like an OpenSim storage file")
    wrong = tmp_path / "walk.trc"
    wrong.write_bytes(pair[0].read_bytes())
    refused([pair[0], wrong], "is named .trc but looks like")
    wrong = tmp_path / "table.mot"
    wrong.write_text("time,Fz\n0,1\n")
    refused([wrong, pair[1]], "does not begin like an OpenSim storage file")
    empty = tmp_path / "empty.csv"
    empty.write_text("")
    refused([empty], "is empty")


def test_forces_and_markers_belong_together(pair):
    refused(pair[:1], "1 with forces", "0 with markers")
    refused(pair[1:], "0 with forces")
    refused([*pair, *pair], "2 with forces")
    refused([], "no file")


def test_of_another_trial(tmp_path, pair):
    late = make_trial()
    late.marker_time = late.marker_time + 50
    refused([pair[0], write_trc(tmp_path / "late.trc", late)], "not of the same trial")


def cut(path, tmp_path, keep):
    """The file without its end, under the same name."""
    data = path.read_bytes()
    short = tmp_path / path.name
    short.write_bytes(data[: int(keep * len(data))])
    return short


@pytest.mark.parametrize("keep", [0.01, 0.3, 0.9, 0.999])
def test_files_cut_short(tmp_path, pair, keep):
    mot, trc = pair
    refused([cut(mot, tmp_path, keep), trc], "cut short")
    refused([mot, cut(trc, tmp_path, keep)], "cut short")


def test_counts_in_headers(tmp_path, pair, trial):
    refused([write_mot(tmp_path / "a.mot", [trial], rows=900), pair[1]], "the header says 900 rows, but there are 1200")
    refused([pair[0], write_trc(tmp_path / "a.trc", trial, frames=100)], "the header says 100 frames")


def edited(path, tmp_path, old, new, count=1):
    text = path.read_text()
    assert old in text
    changed = tmp_path / path.name
    changed.write_text(text.replace(old, new, count))
    return changed


def test_storage_headers(tmp_path, pair):
    refused([edited(pair[0], tmp_path, "time\t", "frame\t"), pair[1]], "the first column must be 'time', not 'frame'")
    refused([edited(pair[0], tmp_path, "nRows=1200", "nRows=many"), pair[1]], "'many' rows")
    refused([edited(pair[0], tmp_path, "_vx\t", "_force_x\t"), pair[1]], "no column for: force x")
    refused(
        [edited(pair[0], tmp_path, "ground_force", "left_hand", 9), pair[1]], "no ground forces found", "left_hand_r_vx"
    )
    refused([edited(pair[0], tmp_path, "version=1", "DataType=Vec3"), pair[1]], "columns of Vec3")
    simm = edited(pair[0], tmp_path, "nRows=1200\nnColumns=10", "datarows 1200\ndatacolumns 10")
    assert len(read_storage(simm).time) == 1200


def test_cells_that_are_no_numbers(tmp_path, pair):
    lines = pair[0].read_text().splitlines()
    cells = lines[20].split("\t")
    cells[3] = "1,5"
    lines[20] = "\t".join(cells)
    (tmp_path / "walk.mot").write_text("\n".join(lines) + "\n")
    refused([tmp_path / "walk.mot", pair[1]], "line 21, column 'ground_force_r_vz': '1,5' is not a number")
    lines[20] = "\t".join(["0.001", *cells[1:3], "1.5", *cells[4:]])
    (tmp_path / "walk.mot").write_text("\n".join(lines) + "\n")
    refused([tmp_path / "walk.mot", pair[1]], "line 21: time 0.001 s does not come after 0.012 s")
    lines[20] = "\t".join([cells[0], "inf", cells[2], "1.5", *cells[4:]])
    (tmp_path / "walk.mot").write_text("\n".join(lines) + "\n")
    refused([tmp_path / "walk.mot", pair[1]], "line 21, column 'ground_force_r_vx': the value is infinite")


def test_trc_headers(tmp_path, pair):
    refused([pair[0], edited(pair[1], tmp_path, "\tmm\t", "\tfurlong\t")], "unit of length 'furlong'")
    refused([pair[0], edited(pair[1], tmp_path, "RMT5", "RMT1")], "'RMT1' is there more than once")
    refused([pair[0], edited(pair[1], tmp_path, "Frame#", "Nothing")], "line 4")


def test_trailing_blanks_of_a_trc_may_be_lost(tmp_path, trial):
    gone = make_trial()
    gone.markers["HEAD"][5:9] = np.nan  # the last marker of each line
    path = write_trc(tmp_path / "walk.trc", gone)
    path.write_text("\n".join(line.rstrip("\t") for line in path.read_text().split("\n")))
    markers = read_trc(path).markers
    assert np.array_equal(np.isnan(markers["HEAD"][:, 0]), np.isnan(gone.markers["HEAD"][:, 0]))
    gone.markers["HEAD"][5:9] = 0.0  # another way to write a gap
    assert np.all(np.isnan(read_trc(write_trc(tmp_path / "zero.trc", gone)).markers["HEAD"][5:9]))


def test_markers_that_are_not_there(tmp_path, pair):
    refused(pair, "heel: unknown marker 'R.Heel'", "RHEE, RMT1, RMT5, HEAD", markers={"heel": ("R.Heel",)})
    trial = make_trial()
    trial.markers = {"HEAD": trial.markers["HEAD"]}
    refused([pair[0], write_trc(tmp_path / "head.trc", trial)], "no foot has markers", "the markers are: HEAD")


def test_long_gaps_say_where(tmp_path, pair):
    trial = make_trial()
    trial.markers["RMT5"][40:60] = np.nan
    path = write_trc(tmp_path / "gap.trc", trial)
    refused([pair[0], path], "RMT1+RMT5 is not seen from 0.391 to 0.599 s", "gaps of more than 0.1 s")
    # Another choice of markers does without the lost one.
    (stance,) = read_stances([pair[0], path], Choices(markers={"mtp": ("RMT1",), "heading": ("RMT1",)}))
    assert any("mt5 is not always seen, left out" in note for note in stance.provenance.notes)
    assert "mt5" not in stance.markers


def test_no_stance(pair):
    refused(pair, "no stance found", "the load is at most", "the threshold 5000 N", threshold=5000.0)
    refused(pair, "no stance found", "1 shorter than 2 s", shortest=2.0)


def test_stance_that_is_not_whole(tmp_path):
    trial = make_trial()
    for name in ("time", "force", "cop", "free_moment"):
        setattr(trial, name, getattr(trial, name)[:600])
    refused(
        [write_mot(tmp_path / "a.mot", [trial]), write_trc(tmp_path / "a.trc", trial)], "1 not whole in the recording"
    )


def test_blank_forces_under_load(tmp_path, pair):
    trial = make_trial()
    trial.force[500:510, 2] = np.nan
    refused([write_mot(tmp_path / "a.mot", [trial]), pair[1]], "is blank under load, from 0.5 to 0.509 s")


# ---------------------------------------------------------------- tables


def table(tmp_path, trial, change):
    path = write_table(tmp_path / "own.csv", trial)
    lines = path.read_text().splitlines()
    path.write_text("\n".join(change(lines)) + "\n")
    return path


def test_columns_that_are_missing(tmp_path, trial):
    refused([table(tmp_path, trial, lambda t: [t[0].replace("Fz", "load"), *t[1:]])], "columns are missing: Fz", "load")
    refused([table(tmp_path, trial, lambda t: [t[0].replace("heel_y", "y"), *t[1:]])], "'heel_y' is missing beside")
    none = table(tmp_path, trial, lambda t: [t[0].replace("mt1_", "a_").replace("mt5_", "b_"), *t[1:]])
    refused([none], "mtp_x, mtp_y, mtp_z")
    refused([table(tmp_path, trial, lambda t: [t[0].replace("Fz", "Fx"), *t[1:]])], "two columns 'Fx'")
    refused([table(tmp_path, trial, lambda t: [t[0].replace("Fz", "Fz[lbf]"), *t[1:]])], "unit 'lbf'", "allowed: N, kN")
    refused([table(tmp_path, trial, lambda t: t[:1])], "no rows")


def test_rows_that_are_wrong(tmp_path, trial):
    refused([table(tmp_path, trial, lambda t: [*t[:5], t[5].replace(",", ",x", 1), *t[6:]])], "line 6", "not a number")
    refused([table(tmp_path, trial, lambda t: [*t[:-1], t[-1][:20]])], "line 1201", "cut short")
    refused([table(tmp_path, trial, lambda t: [*t[:9], t[8], *t[9:]])], "line 10", "does not come after")
    refused(
        [table(tmp_path, trial, lambda t: [*t[:9], t[9][t[9].index(",") :], *t[10:]])], "line 10: the time is blank"
    )


def test_flags_and_blanks_of_a_tidy_table(tmp_path, stance):
    path = tmp_path / "stances.csv"
    with path.open("w", newline="") as stream:
        write_csv([stance], stream)
    lines = path.read_text().splitlines()
    names = lines[0].split(",")

    def with_cell(row, name, text):
        cells = lines[row].split(",")
        cells[names.index(name)] = text
        path.write_text("\n".join([*lines[:row], ",".join(cells), *lines[row + 1 :]]) + "\n")
        return [path]

    refused(with_cell(300, "in_stance", "2"), "line 301, column 'in_stance': 0 or 1")
    refused(with_cell(300, "CoPx", ""), "line 301: cop_valid, but CoP is blank")
    refused(with_cell(300, "Fz", ""), "line 301: force is blank")
    refused(with_cell(1, "side", "both"), "line 2: side 'both'")
    (bridged,) = read_stances(with_cell(300, "heel_z", ""))
    assert bridged.markers["heel"][299] == pytest.approx(stance.markers["heel"][299], abs=1e-6)
    assert any("heel: a gap" in note for note in bridged.provenance.notes)
    gone = [
        ",".join("" if n.startswith("heel") else c for n, c in zip(names, x.split(","), strict=True)) for x in lines[1:]
    ]
    path.write_text("\n".join([lines[0], *gone]) + "\n")
    refused([path], "heel of stance 'R_0.201s' is blank")
    refused(with_cell(1, "side", "R"), "no stance of side L", side="L")


def test_heel_tables(tmp_path):
    path = tmp_path / "heel.csv"
    path.write_text("energy_loss_J\n1.0\n")
    with pytest.raises(InputError, match="columns are missing: max_compression_m"):
        read_heel_pads(path)
    path.write_text("energy_loss_J,max_compression_m\n1.0,\n")
    with pytest.raises(InputError, match="line 2: a number is missing"):
        read_heel_pads(path)
    with pytest.raises(InputError, match="columns are missing: subject, trial"):
        read_heel_strikes(path)
