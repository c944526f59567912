"""Real gait: every file beside the project reads to the figures of its README, and the originals to the tidy tables."""

import csv
from collections import defaultdict
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from jaxcontact.errors import InputError
from jaxcontact.measured import Choices, foot_motion, read_heel_pads, read_heel_strikes, read_stances, summary
from jaxcontact.measured.export import table_columns
from jaxcontact.measured.filtering import Butterworth

DATA = Path(__file__).parent.parent.parent / "shared" / "data"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the measured data are not beside the project")

BMC, RAJAGOPAL, TREADMILL = "bmc_walk2_overground", "opensim_rajagopal_overground", "opensim_subject01_treadmill"
MASS = {BMC: 68.3, RAJAGOPAL: 85.07, TREADMILL: 72.6}  # kg, README
BELT = 1.1375  # m/s; the README says 1.14, the table's places along x move by this against the original's
ORIGINALS = {
    RAJAGOPAL: (["grf_walk.mot", "markers_walk.trc"], Choices(mass=85.07)),
    TREADMILL: (
        ["walk_gait1018_subject01_grf.mot", "marker_trajectories.trc"],
        Choices(mass=72.6, belt_speed=BELT),
    ),
}


@cache
def tidy(name):
    """The table as it is, read with nothing of ours: columns by stance."""
    found = defaultdict(lambda: defaultdict(list))
    with (DATA / f"{name}.csv").open() as stream:
        for row in csv.DictReader(stream):
            for key, value in row.items():
                if key not in ("stance", "side"):
                    found[row["stance"]][key].append(float(value) if value else np.nan)
    return {stance: {k: np.array(v) for k, v in columns.items()} for stance, columns in found.items()}


@cache
def read(name):
    return read_stances([DATA / f"{name}.csv"])


@cache
def original(name):
    files, choices = ORIGINALS[name]
    return read_stances([DATA / "original" / file for file in files], choices)


def both(name):
    return [(f"table {s.name}", s) for s in read(name)] + [
        (f"original {s.name}", s) for s in (original(name) if name in ORIGINALS else [])
    ]


@pytest.mark.parametrize("name", MASS)
def test_tables_read_as_they_are(name):
    stances = read(name)
    assert [s.name for s in stances] == list(tidy(name))
    for stance in stances:
        ours, theirs = table_columns(stance), tidy(name)[stance.name]
        assert set(theirs) == set(ours)
        for column, values in theirs.items():
            # Clocks in the tables are rounded to their 4th or 5th digit, angles and lengths to their 5th.
            allowed = {"time": 5e-5, "t_stance": 1e-4, "phase": 2e-4, "foot_pitch": 1e-4, "foot_pitch_raw": 1e-4}
            assert ours[column] == pytest.approx(values, abs=allowed.get(column, 2e-5), nan_ok=True), column


@pytest.mark.parametrize("name", ORIGINALS)
def test_originals_reproduce_the_tables(name):
    stances = original(name)
    assert [s.name for s in stances] == list(tidy(name))
    assert [s.side for s in stances] == [n[0] for n in tidy(name)]
    for stance in stances:
        ours, theirs = table_columns(stance), tidy(name)[stance.name]
        assert len(stance.time) == len(theirs["time"])
        for column, values in theirs.items():
            allowed = 2.1e-4  # m: lengths, with a clock that the table has rounded to 0.05 ms at 1.1 to 3 m/s
            allowed = {"Fx": 0.006, "Fy": 0.006, "Fz": 0.006, "Tz": 6e-4, "in_stance": 0, "cop_valid": 0}.get(
                column, allowed
            )
            if column.startswith(("foot_pitch", "cop_along", "cop_lat", "cop_foot")):
                allowed = 0.004 if "pitch" in column else 1e-3  # the table's window of foot-flat is not told
            assert ours[column] == pytest.approx(values, abs=allowed, nan_ok=True), column
        assert ours["marker_frame"] == pytest.approx(theirs["marker_frame"])


@pytest.mark.parametrize("name", MASS)
def test_figures(name):
    # Second derivation: straight from the table's columns, with the README's mass.
    for label, stance in both(name):
        columns = tidy(name)[stance.name]
        figures = summary(stance.with_mass(MASS[name], "README"))
        rows, weight = columns["in_stance"] == 1, MASS[name] * 9.80665
        load, phase = columns["Fz"][rows] / weight, columns["phase"][rows]
        peaks = load[phase < 0.5].max(), load[phase >= 0.5].max()
        assert figures.duration == pytest.approx(np.ptp(columns["time"][rows]), abs=1.1e-4), label
        assert figures.in_body_weight(figures.first_peak) == pytest.approx(peaks[0], abs=1e-4), label
        assert figures.in_body_weight(figures.second_peak) == pytest.approx(peaks[1], abs=1e-4), label
        assert figures.cop_travel == pytest.approx(
            np.nanmax(columns["cop_along"]) - np.nanmin(columns["cop_along"]), abs=5e-4
        )
        # What walking at 1.1 to 1.3 m/s looks like.
        assert 1.05 < peaks[0] < 1.2 and 1.05 < peaks[1] < 1.2
        assert 0.7 < figures.in_body_weight(figures.valley) < 0.95
        assert 0.6 < figures.duration < 0.8
        assert -0.2 < figures.in_body_weight(figures.braking) < -0.1
        assert 0.15 < figures.in_body_weight(figures.propulsion) < 0.25


@pytest.mark.parametrize("name", MASS)
def test_cop_travels_under_a_flat_foot(name):
    # README: 0.10 to 0.15 m within 2 degrees of foot-flat. Six of seven stances; the left of BMC has 0.090 m, by its
    # own columns.
    for label, stance in both(name):
        columns = tidy(name)[stance.name]
        near = (columns["cop_valid"] == 1) & (np.abs(columns["foot_pitch"]) <= np.radians(2))
        expected = np.ptp(columns["cop_along"][near])
        found = summary(stance).cop_travel_flat
        assert found == pytest.approx(expected, abs=2.5e-3), label
        assert (0.089 if stance.name == "L_plate5" else 0.10) < found < 0.15, label


def test_mass_is_estimated_from_the_steps():
    (first, *_), allowed = read(RAJAGOPAL), {"stride": 0.003, "step": 0.025}
    assert "stride" in first.provenance.mass_source
    for name, mass in MASS.items():
        provenance = read(name)[0].provenance
        kind = "stride" if "stride" in provenance.mass_source else "step"
        assert provenance.mass == pytest.approx(mass, rel=allowed[kind]), name


def test_speeds():
    # From one flat foot to the next: 1.25 and 1.21 m/s says the README; the belt of the treadmill 1.14 m/s.
    first, _, second = read(RAJAGOPAL)
    assert (second.flat.heel[0] - first.flat.heel[0]) / (second.touch_down - first.touch_down) == pytest.approx(
        1.25, rel=0.02
    )
    right, left = read(BMC)
    assert (left.flat.heel[0] - right.flat.heel[0]) / (left.touch_down - right.touch_down) == pytest.approx(
        1.21, rel=0.04
    )
    files, _ = ORIGINALS[TREADMILL]
    found = read_stances([DATA / "original" / file for file in files], Choices(belt_speed="auto"))
    assert found[0].provenance.belt_speed == pytest.approx(1.14, rel=0.01)


def test_what_the_readme_warns_of():
    right, left = original(TREADMILL)
    phases = np.linspace(0.2, 0.8, 61)
    places = [np.interp(phases, s.phase[s.cop_valid], s.cop_along[s.cop_valid]) for s in (right, left)]
    # "left and right CoP differ by 20-30 mm": by 24 and 19 mm where they begin and end, by more in between.
    ends = [f(right.cop_along[right.cop_valid]) - f(left.cop_along[left.cop_valid]) for f in (np.min, np.max)]
    assert ends == pytest.approx([0.025, 0.025], abs=0.007)
    assert 0.02 < np.median(places[0] - places[1]) < 0.04
    first, _, second = original(RAJAGOPAL)
    means = [s.free_moment[s.in_stance].mean() for s in (first, second)]
    assert means[0] - means[1] > 3  # "first right stance has a free-moment offset"
    assert any("-7.5 mm above z = 0" in note for note in right.provenance.notes)
    assert any("from its point of application" in note for note in right.provenance.notes)


def test_the_standing_foot_is_at_rest_on_its_belt():
    for stance in [*original(TREADMILL), *read(RAJAGOPAL), *read(BMC)]:
        motion = foot_motion(stance, 101)
        assert np.median(np.abs(motion.velocity[25:40, 0])) < 0.05, stance.name
        assert motion.velocity[-1, 0] > 0.5 or motion.velocity[-1, 2] > 0.5, stance.name  # and then it leaves
    (raw, _) = read_stances([DATA / "original" / file for file in ORIGINALS[TREADMILL][0]])
    assert np.median(foot_motion(raw, 101).velocity[25:40, 0]) == pytest.approx(-1.1375, abs=0.05)


def test_filtering_forces_leaves_the_pose_alone():
    filtered = read_stances([DATA / f"{RAJAGOPAL}.csv"], Choices(force_filter=Butterworth(4, 20.0)))
    for new, old in zip(filtered, read(RAJAGOPAL), strict=True):
        assert new.name == old.name and new.flat == old.flat
        rows = np.isin(new.time, old.time), np.isin(old.time, new.time)
        assert new.pitch[rows[0]] == pytest.approx(old.pitch[rows[1]])
        # The file says that its forces were low-passed before: little is left to take away.
        assert np.max(np.abs(new.force[rows[0]] - old.force[rows[1]])) < 10
        assert summary(new).cop_travel_flat == pytest.approx(summary(old).cop_travel_flat, abs=2e-3)


# ---------------------------------------------------------------- heels


def test_heel_strikes():
    strikes = read_heel_strikes(DATA / "baines_heelstrike_windows.csv")
    assert {s.subject for s in strikes} == set("2345678") and len(strikes) == 21
    for strike in strikes:
        assert np.diff(strike.time) == pytest.approx(1 / 3000, abs=2e-6)
        assert 60 < strike.mass < 90 and strike.speed == "normal"
        start = int(np.argmin(np.abs(strike.time)))
        assert strike.compression[start] == pytest.approx(0, abs=1e-6)
        # Compression is how far the heel went down since then, and the stated speed is its rate.
        assert strike.compression == pytest.approx(strike.heel[start, 2] - strike.heel[:, 2], abs=2e-6)
        assert np.gradient(strike.heel[:, 2], strike.time)[5:-5] == pytest.approx(strike.heel_rise[5:-5], abs=0.02)
        # 10 N are reached where the other count of the compression begins.
        reached = int(np.argmax(strike.force[:, 2] >= 10))
        assert strike.compression_10n[reached] == pytest.approx(0, abs=3e-4)
        assert np.all(np.isfinite(strike.cop)) and strike.cop_valid.any() and not strike.cop_valid.all()


def test_heel_pads():
    pads = read_heel_pads(DATA / "declercq1994_heelpad_energy_compression.csv")
    assert len(pads.energy_loss) == len(pads.compression) == 14
    assert (pads.energy_loss.min(), pads.energy_loss.max()) == (0.65, 5.3)
    assert (pads.compression.min(), pads.compression.max()) == (0.0085, 0.0128)


def test_a_table_of_heels_is_no_stance():
    with pytest.raises(InputError, match="columns are missing: time"):
        read_stances([DATA / "baines_heelstrike_windows.csv"])
