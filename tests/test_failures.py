"""Failure is data: it is counted and placed, can be run again with other settings, and comes back where it belongs.

Also how a run is told about while it goes on: `status` from outside, and the progress display.
"""

import dataclasses
import io
import json
import os
import re
import shutil
import tomllib
import types

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from toy_model import double_precision, toy_model

import jaxcontact.models
from jaxcontact import cli
from jaxcontact.errors import InputError, unknown
from jaxcontact.integrate.machine import CANNOT_TOUCH, FINISHED, MOVING_UP, STATUS_NAMES, STEP_LIMIT
from jaxcontact.study import Study, failures, load, run, study
from jaxcontact.study.failures import describe_failures, write_failed_cases, write_rerun
from jaxcontact.study.folder import CARD, JOURNAL, LOCK, RESULTS, Lock
from jaxcontact.study.journal import Journal
from jaxcontact.study.merge import merge
from jaxcontact.study.progress import ProgressDisplay
from jaxcontact.study.status import describe_status
from jaxcontact.study.store import MERGE, Store
from jaxcontact.study.toml import write_toml


def limited_model():
    """The toy, but a fall of more halvings than max_steps fails, and the law "linear" doubles the force."""
    toy = toy_model()

    def limit(outcomes, choices, settings):
        late = (outcomes["n_steps"] > settings.max_steps) & (outcomes["status"] == FINISHED)
        status = jnp.where(late, STEP_LIMIT, outcomes["status"])
        force = outcomes.get("F_peak", jnp.nan) * (2 if choices["normal"] == "linear" else 1)
        return {**outcomes, "status": status, "F_peak": force}

    def machine(method, choices, settings):
        inner = toy.machine(method, choices, settings)
        return inner._replace(finish=lambda params, state: limit(inner.finish(params, state), choices, settings))

    def recorder(method, choices, settings, count):
        inner = toy.recorder(method, choices, settings, count)

        def finish(params, state):
            found = inner.finish(params, state)
            return {**found, "outcomes": limit(found["outcomes"], choices, settings)}

        return inner._replace(finish=finish)

    return dataclasses.replace(toy, machine=machine, recorder=recorder)


TOY = limited_model()

# Halvings: 10 from 1 m, 11 from 2 m, 12 from 3 m and 4 m, 13 from 5 m to 8 m, ...: with max_steps 12, above 4.096 m
# they fail. Angles above 80 deg cannot touch, whatever the settings.
LIMIT = {"max_steps": 12}
STUDIES = {
    "grid": dict(vary={"height": {"from": 1, "to": 6, "count": 6}, "angle": [0, 20, 50, 70, 85]}),
    "linked, derived and free names, with curves": dict(
        vary={
            "height": {"from": 1, "to": 40, "count": 7, "scale": "log"},
            "ball.mass": {"from": 1, "to": 2, "with": "height"},
            "modulus": {"values": [1e5, 2e5, 3e5], "unit": "Pa"},
            "angle": [10, 85],
        },
        set={"radius": {"value": 0.1, "unit": "m"}, "gravity": 9.8},
        derive={"k_n": "4/3 * modulus * sqrt(radius)", "energy": "ball.mass * gravity * height"},
        require={"conditions": ["modulus < 3e5 or height > 2", "energy < 1e6"]},
        output={"curves": True, "points": 4},
    ),
    "sample": dict(
        vary={"height": {"from": 1, "to": 9}, "angle": {"from": 0, "to": 90}}, sample={"count": 23, "seed": 3}
    ),
    "cases": dict(
        cases={"values": {"height": [1, 7, 9, 2, 1 / 3], "angle": [85, 1, 85, 3, 4], "index": [9, 8, 7, 6, 5]}}
    ),
}


@pytest.fixture(autouse=True)
def toy_by_name(monkeypatch):
    """A toy known by name, as stored studies need it."""

    def get_model(name):
        if name != "toy":
            raise unknown("model", name, ["toy"])
        return TOY

    monkeypatch.setattr(jaxcontact.models, "get_model", get_model, raising=False)
    with double_precision():
        yield


def described(kind="grid", **more):
    return study(TOY, **{**STUDIES[kind], "solver": LIMIT, **more})


def files(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def rerun(folder, new, *, steps=100, law="linear", change=lambda text: text):
    """Write the failures of a folder as cases, run them again with other settings, and return where that is."""
    write_rerun(folder, new)
    text = (new / "study.toml").read_text()
    text = re.sub(r"max_steps = \d+", f"max_steps = {steps}", text).replace('"hertz"', f'"{law}"')
    (new / "study.toml").write_text(change(text))
    run(Study.from_file(new / "study.toml"), out=new / "results", chunk=4)
    return new / "results"


# ---------------------------------------------------------------- what failed, and where


@pytest.mark.parametrize("block", [1, 4, 7, 30, 10**6])
def test_failures_are_counted_and_placed_however_large_the_blocks(block, monkeypatch):
    monkeypatch.setattr(failures, "_BLOCK", block)
    # 5 m and 6 m need 13 halvings, so eight of the ten there fail for that; at 85 deg all six cannot touch.
    text = describe_failures(run(described()))
    assert text.splitlines() == [
        "14 of 30 configurations did not finish:",
        "  8 step_limit: the run used up max_steps before its end; raise max_steps or loosen the tolerance",
        "    height is 5 to 6 m in all of them: 80% of those there",
        "    angle is 0 to 70 deg in all of them: 33% of those there",
        "  6 cannot_touch: no posture with these numbers puts the contact point on the ground",
        "    angle is 85 deg in all of them: 100% of those there",
    ]


def test_the_place_is_the_smallest_box_around_the_failures():
    """The text against a plain count over the whole result, for samples."""
    dataset = run(described("sample"))
    text = describe_failures(dataset)
    for code in (STEP_LIMIT, CANNOT_TOUCH):
        failed = dataset["status"].values == code
        assert f"{failed.sum()} {STATUS_NAMES[code]}:" in text
        for name, unit in (("height", "m"), ("angle", "deg")):
            values = dataset[name].values
            low, high = values[failed].min(), values[failed].max()
            inside = np.sum((values >= low) & (values <= high))
            line = (
                f"{name} is {low:.5g} to {high:.5g} {unit} in all of them: {failed.sum() / inside:.0%} of those there"
            )
            assert (line in text) == (inside < 0.9 * values.size)


def test_failures_without_a_place_of_their_own_are_said_to_lie_all_over():
    text = describe_failures(run(described(set={"lift": 1}, solver={})))
    assert text.splitlines()[1].startswith(f"  30 {STATUS_NAMES[MOVING_UP]}:")
    assert text.splitlines()[2:] == ["    they lie all over the space"]


@pytest.mark.parametrize("kind", STUDIES)
def test_a_half_done_study_can_be_asked_too(kind, tmp_path):
    def progress(*now):
        if Journal(tmp_path / JOURNAL).entries:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(described(kind), out=tmp_path, chunk=2, progress=progress)
    dataset = load(tmp_path)
    missing = int((dataset["status"] == 0).sum())
    lines = describe_failures(dataset).splitlines()
    assert 0 < missing < dataset["status"].size
    assert lines[-1] == f"{missing} of {dataset['status'].size} have not been run yet"
    assert "nan" not in "".join(lines) and "inf" not in "".join(lines)
    failed = int(dataset["status"].isin([STEP_LIMIT, CANNOT_TOUCH]).sum())
    assert write_failed_cases(tmp_path, io.StringIO()) == failed  # what is not there yet is no failure


def test_what_a_condition_excluded_is_no_failure_to_rerun(tmp_path):
    kind = "linked, derived and free names, with curves"
    dataset = run(described(kind), out=tmp_path)
    excluded = int((dataset["status"] == STATUS_NAMES.index("excluded")).sum())
    failed = int((dataset["status"] > FINISHED).sum()) - excluded
    text = describe_failures(dataset)
    assert excluded > 0 and f"{excluded} of 42 were excluded by [require], and not run" in text
    assert text.startswith(f"{failed} of 42 configurations did not finish")
    assert write_failed_cases(tmp_path, io.StringIO()) == failed


# ---------------------------------------------------------------- as cases


@pytest.mark.parametrize("kind", STUDIES)
@pytest.mark.parametrize("block", [3, 10**6])
def test_the_cases_read_back_exactly(kind, block, tmp_path, monkeypatch):
    monkeypatch.setattr(failures, "_BLOCK", block)
    made, again = described(kind), tmp_path / "again"
    dataset = run(made, out=tmp_path / "out", chunk=4)
    count = write_rerun(tmp_path / "out", again)
    status = dataset["status"].values.ravel()
    failed = np.flatnonzero((status == STEP_LIMIT) | (status == CANNOT_TOUCH))
    assert count == len(failed) > 0
    read = Study.from_file(again / "study.toml")
    np.testing.assert_array_equal(read.space.index, failed)
    for name, values in made.space.rows(0, made.space.total).items():
        np.testing.assert_array_equal(read.space.columns[name], values[failed])  # to the last bit
    # and everything else is the same study
    assert (read.constants(), read.free_constants()) == (made.constants(), made.free_constants())
    assert [read.units_of(name) for name in made.space.names] == [made.units_of(name) for name in made.space.names]
    for what in ("derive", "require", "choices", "settings", "output"):
        assert read.describe()[what] == made.describe()[what]


def test_the_command_prints_the_same_cases_and_the_summary_beside_them(tmp_path, capsys):
    run(described(), out=tmp_path / "out")
    assert cli.main(["failures", str(tmp_path / "out")]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[:3] == ["index,height [m],angle [deg]", "4,1.0,85.0", "9,2.0,85.0"]
    assert len(out.splitlines()) == 15 and "14 of 30 configurations did not finish" in err
    assert (
        cli.main(["failures", str(tmp_path / "out"), "--status", "step_limit", "--out", str(tmp_path / "again")]) == 0
    )
    out = capsys.readouterr().out
    assert out.startswith("8 cases in ") and f"jaxcontact merge {tmp_path / 'out'}" in out
    assert len((tmp_path / "again" / "cases.csv").read_text().splitlines()) == 9


def test_what_cannot_be_run_again_is_said(tmp_path):
    run(described(solver={}, vary={"height": [1, 2]}), out=tmp_path / "fine")
    with pytest.raises(InputError, match="no failure to run again"):
        write_rerun(tmp_path / "fine", tmp_path / "new")
    run(described(), out=tmp_path / "out")
    with pytest.raises(InputError, match="no failure of kind moving_up"):
        write_rerun(tmp_path / "out", tmp_path / "new", ["moving_up"])
    with pytest.raises(InputError, match="Did you mean 'step_limit'"):
        write_rerun(tmp_path / "out", tmp_path / "new", ["step_limt"])
    assert not (tmp_path / "new").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("")
    with pytest.raises(InputError, match="already holds files"):
        write_rerun(tmp_path / "out", tmp_path / "full")
    run(study(TOY, set={"height": 9}, solver=LIMIT), out=tmp_path / "one")
    with pytest.raises(InputError, match="nothing that varies"):
        write_rerun(tmp_path / "one", tmp_path / "new")
    with pytest.raises(InputError, match="no results in"):
        write_rerun(tmp_path / "none", tmp_path / "new")


# ---------------------------------------------------------------- and back


@pytest.mark.parametrize("kind", STUDIES)
def test_a_rerun_comes_back_where_it_belongs_and_nothing_else_changes(kind, tmp_path):
    out = tmp_path / "out"
    before = run(described(kind), out=out, chunk=4).load()
    results = rerun(out, tmp_path / "again")
    again = load(results)
    finished = again["status"].values == FINISHED
    count = merge(out, results)
    assert count == finished.sum() > 0
    after = xr.open_zarr(out / RESULTS).load()
    replaced = np.zeros(after["status"].size, bool)
    replaced[again["index"].values[finished]] = True
    np.testing.assert_array_equal(after[MERGE].values.ravel(), replaced)
    leading = after["status"].size
    for name in before.data_vars:
        old, new = (d[name].values.reshape(leading, -1) for d in (before, after))
        np.testing.assert_array_equal(new[~replaced], old[~replaced])
        expected = again[name].values.reshape(len(finished), -1)[finished]
        np.testing.assert_array_equal(new[replaced][np.argsort(np.argsort(again["index"].values[finished]))], expected)
    for name in before.coords:
        xr.testing.assert_identical(after[name], before[name])
    assert np.all(after["status"].values.ravel()[replaced] == FINISHED)
    (note,) = json.loads(after.attrs["merges"])
    assert note["solver"]["max_steps"] == 100 and note["laws"]["normal"] == "linear"
    assert {name: after.attrs[name] for name in before.attrs} == before.attrs
    # The rerun's law shows: the force is twice the other law's.
    force = (after["F_peak"] / run(described(kind, solver={}))["F_peak"]).values.ravel()
    np.testing.assert_allclose(force[replaced], 2)


def test_a_second_merge_changes_nothing_and_the_study_still_counts_as_run(tmp_path):
    out = tmp_path / "out"
    run(described(), out=out, chunk=4)
    results = rerun(out, tmp_path / "again")
    assert merge(out, results) == 8
    before = files(out)
    assert merge(out, results) == 0
    assert files(out / RESULTS) == {name[13:]: c for name, c in before.items() if name.startswith(f"{RESULTS}/")}
    told = []
    merged = run(described(), out=out, progress=lambda *now: told.append(now))  # goes on from a complete store
    assert set(told) == {(30, 30, 6)}
    assert int((merged[MERGE] == 1).sum()) == 8


def test_merges_follow_each_other_and_each_has_its_number(tmp_path):
    out = tmp_path / "out"
    run(described("sample"), out=out, chunk=4)
    first = rerun(out, tmp_path / "first", steps=13)  # not enough for all
    merge(out, first)
    second = rerun(out, tmp_path / "second", law="hertz")
    merge(out, second)
    after = load(out)
    height = after["height"].values
    fine = after["angle"].values <= 80
    by_hand = np.where(fine & (height > 8.192), 2, np.where(fine & (height > 4.096), 1, 0))
    np.testing.assert_array_equal(after[MERGE], by_hand)
    assert [note["solver"]["max_steps"] for note in json.loads(after.attrs["merges"])] == [13, 100]
    assert not np.any(after["status"] == STEP_LIMIT)


def test_the_command_merges_and_says_what_is_left(tmp_path, capsys):
    run(described(), out=tmp_path / "out")
    results = rerun(tmp_path / "out", tmp_path / "again")
    assert cli.main(["merge", str(tmp_path / "out"), str(results)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("8 configurations of ") and "6 of 30 configurations did not finish" in text


WRONG = {
    "another constant": (lambda text: text.replace("[laws]", "[set]\ngravity = 1.6\n\n[laws]"), "gravity = 1.6, but"),
    "another method": (lambda text: text.replace('"compliant"', '"impulsive"'), "method impulsive, but"),
    "curves": (lambda text: text.replace("curves = false", "curves = true"), "curves of length 201, but"),
    "no index": (lambda text: text, "has no index"),
    "another number": (lambda text: text, "case 1 says it is configuration 9, but its height is another"),
    "a number beyond the study": (lambda text: text, "index 1000 is beyond the 30"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_not_from_this_study_is_refused_and_nothing_changes(wrong, tmp_path):
    out, new = tmp_path / "out", tmp_path / "again"
    run(described(), out=out, chunk=4)
    before = files(out)
    change, says = WRONG[wrong]

    def spoil(text):
        cases = (new / "cases.csv").read_text()
        if wrong == "no index":
            cases = "\n".join(line.partition(",")[2] for line in cases.splitlines())
        if wrong == "another number":
            cases = cases.replace("\n9,2.0,85.0", "\n9,2.0000000000000004,70.0")
        if wrong == "a number beyond the study":
            cases = cases.replace("\n29,", "\n1000,")
        (new / "cases.csv").write_text(cases)
        return change(text)

    results = rerun(out, new, change=spoil)
    with pytest.raises(InputError, match=re.escape(says)):
        merge(out, results)
    assert files(out) == before


def test_a_rerun_of_another_study_is_refused(tmp_path):
    run(described(), out=tmp_path / "a", chunk=4)
    run(described(vary={"height": [6, 7], "angle": [1, 2]}), out=tmp_path / "b")
    results = rerun(tmp_path / "b", tmp_path / "again")
    with pytest.raises(InputError, match="is another"):
        merge(tmp_path / "a", results)


@pytest.mark.parametrize("moment", ["before anything", "within a chunk", "after a chunk", "before the claim"])
def test_a_merge_that_is_killed_can_be_made_again(moment, tmp_path, monkeypatch):
    """Killed within a chunk, that chunk is lost and found missing; run computes it, and the merge goes on."""
    out, undisturbed = tmp_path / "out", tmp_path / "undisturbed"
    run(described(), out=out, chunk=4)
    results = rerun(out, tmp_path / "again")
    shutil.copytree(out, undisturbed)
    merge(undisturbed, results)
    really, calls = Store.write, [0]

    def write(self, chunk, values, **more):
        calls[0] += 1
        if moment == "before anything" or (moment == "after a chunk" and calls[0] == 2):
            raise KeyboardInterrupt
        if moment == "within a chunk":
            self._arrays["slope"][chunk.where] = values["slope"]
            self._arrays["status"][chunk.where] = values["status"]
            raise KeyboardInterrupt
        if moment == "before the claim":
            with monkeypatch.context() as patch:
                patch.setattr(self.journal, "add", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))
                really(self, chunk, values, **more)
        really(self, chunk, values, **more)

    monkeypatch.setattr(Store, "write", write)
    with pytest.raises(KeyboardInterrupt):
        merge(out, results)
    monkeypatch.setattr(Store, "write", really)
    if moment in ("within a chunk", "before the claim"):
        with pytest.raises(InputError, match=r"(?s)lacks 3 of the configurations.*run its study again"):
            merge(out, results)
        run(described(), out=out)
    merge(out, results)
    assert files(out / RESULTS) == files(undisturbed / RESULTS)


def test_a_damaged_chunk_that_had_been_merged_is_computed_again_and_merged_again(tmp_path):
    out = tmp_path / "out"
    run(described(), out=out, chunk=4)
    results = rerun(out, tmp_path / "again")
    merge(out, results)
    undisturbed = files(out / RESULTS)
    damaged = next(path for path in sorted((out / RESULTS / MERGE).glob("[0-9]*")))
    damaged.unlink()
    with Store(out, described(), chunk=4) as store:
        assert (store.damaged, store.lost_merges) == (1, 1)
    run(described(), out=out)
    assert merge(out, results) > 0
    assert files(out / RESULTS) == undisturbed


# ---------------------------------------------------------------- study files

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(TEXT, st.dictionaries(TEXT, VALUES, max_size=4), max_size=4))
def test_written_tables_read_back_the_same(tables):
    read = tomllib.loads(write_toml(tables))
    assert read == tables
    assert list(read) == list(tables)
    assert json.dumps(read) == json.dumps(tables)  # 1, 1.0 and True are equal and not the same


# ---------------------------------------------------------------- status


def set_journal_clock(monkeypatch, now):
    monkeypatch.setattr("jaxcontact.study.journal.time", types.SimpleNamespace(time=now))


@pytest.fixture
def half(tmp_path, monkeypatch):
    """A folder with ten of thirty configurations, two chunks of five, saved at 1000 s and 1010 s of a fake clock."""
    times = [1000.0, 1010.0]

    def clock():  # whichever thread asks it a third time is stopped
        if not times:
            raise KeyboardInterrupt
        return times.pop(0)

    set_journal_clock(monkeypatch, clock)
    with pytest.raises(KeyboardInterrupt):
        run(described(title="a fall", solver={}), out=tmp_path, chunk=5)
    assert len(Journal(tmp_path / JOURNAL).entries) == 2
    return tmp_path


def test_status_of_a_stopped_run_says_how_to_go_on(half):
    assert describe_status(half, now=2000.0).splitlines() == [
        "a fall: 30 configurations (height 6 x angle 5), float64",
        "stopped: 10 of 30 done (33.3%); the command that started it goes on from there",
        "did not finish: 2 cannot_touch",
    ]


def test_status_of_a_run_that_goes_on_has_a_rate_and_the_time_left(half):
    with Lock(half):
        os.utime(half / LOCK, (900, 900))  # began at 900 s; what it compiled until 1000 s is not in its rate
        line = describe_status(half, now=1010.0).splitlines()[1]
        assert line == "running: 10 of 30 done (33.3%), 0.5 a second, about 40 s left"
        line = describe_status(half, now=1050.0).splitlines()[1]  # nothing since: it is slower than it seemed
        assert line == "running: 10 of 30 done (33.3%), 0.1 a second, about 3 min left"


def test_status_of_a_resumed_run_does_not_count_what_was_there(half, monkeypatch):
    with Lock(half):
        os.utime(half / LOCK, (90_000, 90_000))  # a day later
        assert describe_status(half, now=90_001.0).splitlines()[1] == "running: 10 of 30 done (33.3%)"
        journal = Journal(half / JOURNAL)
        for chunk, time in ((2, 90_010.0), (3, 90_011.0)):
            set_journal_clock(monkeypatch, lambda time=time: time)
            journal.add(chunk, "", 5, {"1": 5})
        line = describe_status(half, now=90_011.0).splitlines()[1]
        assert line == "running: 20 of 30 done (66.7%), 5 a second, about 2 s left"


def test_status_of_a_complete_run_and_of_none(tmp_path, capsys):
    run(described(solver={}, vary={"height": [1, 2]}), out=tmp_path / "out")
    assert cli.main(["status", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "complete: 2 of 2 done (100.0%)",
        "all that was run so far finished",
    ]
    assert cli.main(["status", str(tmp_path / "none")]) == 2
    assert "no results in" in capsys.readouterr().err
    (tmp_path / "out" / CARD).write_text('{"fingerprint": "f", "title": "Table 1"}')
    assert cli.main(["status", str(tmp_path / "out")]) == 2
    assert "published study" in capsys.readouterr().err


# ---------------------------------------------------------------- progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("jaxcontact.study.progress.time.monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize("label", ["fall", "a_rather_long_name_of_a_study_file"])
def test_the_bar_shows_rate_failures_and_time_left_even_on_a_narrow_terminal(label, clock, monkeypatch):
    monkeypatch.setattr("jaxcontact.study.progress.PATIENCE", 0.01)
    monkeypatch.setenv("COLUMNS", "80")
    out = Terminal()
    with ProgressDisplay(label, stream=out) as progress:
        progress(0, 10_000_000)
        progress._timer.join()
        for second, done, failed in ((30, 100_000, 0), (40, 1_000_000, 12_345), (50, 2_100_000, 23_456)):
            clock[0] = 100.0 + second
            progress(done, 10_000_000, failed)
    last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue()).replace("\n", "\r").rstrip("\r").split("\r")[-1]
    # 2,000,000 in the 20 s since the first results; the 30 s before them are compilation
    assert "100,000 a second, 23,456 failed, about 79 s left" in last
    assert " 21% " in last and "━━━" in last and last.startswith(label[:10]) and len(last) <= 80


def test_a_resumed_run_does_not_count_what_was_there(clock):
    out = io.StringIO()
    with ProgressDisplay("fall", stream=out) as progress:
        progress(9000, 10_000, 7)  # what an earlier run saved
        for second, done in ((50, 9100), (53, 9130), (70, 9300)):
            clock[0] = 100.0 + second
            progress(done, 10_000, 7)
    assert out.getvalue().splitlines() == [
        "fall: 9,130 of 10,000, 10 a second, 7 failed, about 87 s left",
        "fall: 9,300 of 10,000, 10 a second, 7 failed, about 70 s left",
    ]


def test_a_log_of_a_long_run_has_a_line_at_a_sensible_pace(clock):
    out = io.StringIO()
    with ProgressDisplay("fall", stream=out) as progress:
        for second in range(3601):
            clock[0] = 100.0 + second
            progress(second, 3600)
    assert 200 <= len(out.getvalue().splitlines()) <= 250


def test_a_second_run_in_the_same_display_begins_anew(clock):
    """A published study may run several; a count that falls is another run's, and compiles again."""
    out = io.StringIO()
    with ProgressDisplay("fall", stream=out) as progress:
        for second in range(31):
            clock[0] = 100.0 + second
            progress(second * 100, 3000)
        clock[0] = 1000.0
        progress(0, 500)
        for second in (20, 30, 50):
            clock[0] = 1000.0 + second
            progress(second * 2, 500)
    assert out.getvalue().splitlines()[-1] == "fall: 100 of 500, 2 a second, about 3 min left"
