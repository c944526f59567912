"""A store survives: what streams to disk is what memory would hold, whatever interrupts or damages it on the way.

The proof of "survives" is always the same: every file under results.zarr has the bytes of an undisturbed run's.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr
from toy_model import double_precision, toy_model

import jaxcontact
from jaxcontact.errors import InputError
from jaxcontact.integrate.machine import FINISHED, RUNNING
from jaxcontact.study import load, run, study
from jaxcontact.study.execute import LocalExecutor
from jaxcontact.study.folder import CARD, JOURNAL, LOCK, RESULTS, Lock, is_locked
from jaxcontact.study.journal import Journal
from jaxcontact.study.store import Store

TOY = toy_model()  # one model, so that studies with the same names compile once

STUDIES = {
    "grid": dict(vary={"height": {"from": 1, "to": 6, "count": 6}, "angle": [0, 20, 50, 70, 85]}),
    "linked, derived, required, with curves": dict(
        vary={
            "height": {"from": 1, "to": 40, "count": 7, "scale": "log"},
            "ball.mass": {"from": 1, "to": 2, "with": "height"},
            "stiffness": {"values": [1e5, 2e5, 3e5], "unit": "N/m"},
        },
        derive={"k_n": "stiffness * sqrt(height)", "energy": "ball.mass * 9.81 * height"},
        require={"conditions": ["energy < 400", "stiffness < 3e5 or height > 2"]},
        output={"curves": True, "points": 4},
    ),
    "sample": dict(
        vary={"height": {"from": 1, "to": 9}, "angle": {"from": 0, "to": 90, "with": "height"}},
        sample={"count": 11, "seed": 3},
    ),
    "cases": dict(cases={"values": {"height": [1, 4, 9, 2], "angle": [85, 1, 2, 3], "index": [40, 2, 31, 7]}}),
    "one": dict(set={"height": 4}),
}


def described(kind="grid", **more):
    return study(TOY, **{**STUDIES[kind], **more})


def files(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in Path(folder).rglob("*") if p.is_file()}


def stored(folder):
    """The bytes that must come out the same."""
    return files(folder / RESULTS)


class Counting:
    """An executor that counts the configurations that it is asked for."""

    def __init__(self):
        self.count, self._really = 0, LocalExecutor()

    def stream(self, job, batches, watch):
        def counted():
            for key, numbers in batches:
                self.count += len(next(iter(numbers.values())))
                yield key, numbers

        return self._really.stream(job, counted(), watch)


def interrupted(described, out, *, chunks, **options):
    """Run until so many chunks are saved, then Ctrl-C."""

    def progress(done, total, failed):
        if len(Journal(out / JOURNAL).entries) >= chunks:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(described, out=out, progress=progress, **options)


# ---------------------------------------------------------------- the same as in memory


@pytest.mark.parametrize("kind", STUDIES)
def test_what_is_streamed_is_what_memory_would_hold(kind, tmp_path):
    in_memory = run(described(kind), chunk=3)
    streamed = run(described(kind), out=tmp_path, chunk=3)
    xr.testing.assert_identical(streamed.load(), in_memory)
    xr.testing.assert_identical(load(tmp_path).load(), in_memory)
    # and xarray alone, as a stranger would open it; warnings are errors in our tests
    opened = xr.open_zarr(tmp_path / RESULTS).load()
    assert {n: v.dtype for n, v in opened.variables.items()} == {n: v.dtype for n, v in in_memory.variables.items()}
    xr.testing.assert_equal(opened, in_memory)
    assert sorted(os.listdir(tmp_path)) == sorted([CARD, JOURNAL, RESULTS])


@pytest.mark.parametrize("kind", [kind for kind in STUDIES if kind != "one"])
def test_a_store_half_done_opens_and_says_what_is_missing(kind, tmp_path):
    whole = run(described(kind), chunk=1)
    interrupted(described(kind), tmp_path, chunks=1, chunk=1)  # a second chunk is under way then, and will be there too
    half = xr.open_zarr(tmp_path / RESULTS).load()
    there = half["status"].values != RUNNING
    assert 0 < there.sum() < there.size
    for name, variable in half.data_vars.items():
        values, expected = variable.values, whole[name].values
        np.testing.assert_array_equal(values[there], expected[there])
        if np.issubdtype(values.dtype, np.floating):
            assert np.all(np.isnan(values[~there]))
    assert half.attrs == whole.attrs and dict(half.sizes) == dict(whole.sizes)


@pytest.mark.parametrize("chunk", [1, 4, 1000])
def test_the_same_study_gives_the_same_bytes_twice(chunk, tmp_path):
    for name in "ab":
        run(described(), out=tmp_path / name, chunk=chunk)
    assert stored(tmp_path / "a") == stored(tmp_path / "b")


# ---------------------------------------------------------------- going on


@pytest.mark.parametrize("kind", [kind for kind in STUDIES if kind != "one"])
def test_an_interrupted_run_computes_only_what_is_missing_and_ends_with_the_same_bytes(kind, tmp_path):
    undisturbed, all_of_it = tmp_path / "undisturbed", Counting()
    run(described(kind), out=undisturbed, chunk=2, executor=all_of_it)
    again = tmp_path / "again"
    interrupted(described(kind), again, chunks=1, chunk=2)
    done = Journal(again / JOURNAL).entries.values()
    run_there = sum(entry.size - entry.statuses.get("9", 0) for entry in done)  # what is excluded is not run
    assert done
    rest = Counting()
    run(described(kind), out=again, chunk=2, executor=rest)
    assert rest.count == all_of_it.count - run_there
    assert stored(again) == stored(undisturbed)


def test_a_run_interrupted_again_and_again_ends_with_the_same_bytes(tmp_path):
    run(described(), out=tmp_path / "undisturbed", chunk=2)
    for chunks in range(1, 17, 3):
        interrupted(described(), tmp_path / "again", chunks=chunks, chunk=2)
    told = []
    run(described(), out=tmp_path / "again", chunk=2, progress=lambda *now: told.append(now))
    assert stored(tmp_path / "again") == stored(tmp_path / "undisturbed")
    assert 20 <= told[0][0] < 30 and told[-1] == (30, 30, 6)  # it goes on from there, and failures of before count


def test_a_complete_study_is_not_run_again(tmp_path):
    run(described(), out=tmp_path)
    nothing = Counting()
    again = run(described(), out=tmp_path, executor=nothing)
    assert nothing.count == 0
    xr.testing.assert_identical(again.load(), run(described()))


def test_the_stores_own_cut_wins_over_the_chunk_asked_for_later(tmp_path):
    run(described(), out=tmp_path / "undisturbed", chunk=4)
    interrupted(described(), tmp_path / "again", chunks=3, chunk=4)
    shape = json.loads((tmp_path / "again" / CARD).read_text())["chunk_shape"]
    run(described(), out=tmp_path / "again", chunk=7)
    assert json.loads((tmp_path / "again" / CARD).read_text())["chunk_shape"] == shape
    assert stored(tmp_path / "again") == stored(tmp_path / "undisturbed")


def test_a_full_disk_leaves_what_was_saved_and_a_torn_claim_is_no_claim(tmp_path, monkeypatch):
    run(described(), out=tmp_path / "undisturbed", chunk=5)
    really, count = Journal.add, [0]

    def full_disk(self, *entry):
        count[0] += 1
        if count[0] < 4:
            return really(self, *entry)
        with self._path.open("a") as file:
            file.write('{"chunk":3,"check')
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Journal, "add", full_disk)
    with pytest.raises(OSError, match="No space"):
        run(described(), out=tmp_path / "again", chunk=5)
    monkeypatch.undo()
    assert len(Journal(tmp_path / "again" / JOURNAL).entries) == 3
    rest = Counting()
    run(described(), out=tmp_path / "again", chunk=5, executor=rest)
    assert rest.count == 15
    assert stored(tmp_path / "again") == stored(tmp_path / "undisturbed")
    assert len(Journal(tmp_path / "again" / JOURNAL).entries) == 6


# ---------------------------------------------------------------- damage


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    """A complete store of six chunks of five configurations, to be damaged in copies."""
    folder = tmp_path_factory.mktemp("complete") / "store"
    with double_precision():
        run(described(), out=folder, chunk=5)
    return folder


def change(path, how):
    path.write_bytes(how(path.read_bytes()))


def flip(content, bit):
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def swap(one, other):
    first, second = one.read_bytes(), other.read_bytes()
    assert first != second
    one.write_bytes(second)
    other.write_bytes(first)


def journal_lines(change_lines):
    def damage(folder):
        lines = (folder / JOURNAL).read_bytes().splitlines(keepends=True)
        (folder / JOURNAL).write_bytes(b"".join(change_lines(lines)))

    return damage


def leave_behind(folder):
    (folder / ".writing-results.zarr" / "slope").mkdir(parents=True)
    (folder / ".writing-results.zarr" / "slope" / "0.0").write_text("half")
    (folder / ".writing-study.json").write_text("{")
    (folder / ".old-results.zarr").mkdir()
    (folder / RESULTS / "slope" / "0.0123456789abcdef.partial").write_text("half")  # as Zarr does


SLOPE, STATUS_FILE = f"{RESULTS}/slope/2.0", f"{RESULTS}/status/2.0"
CHUNK_DAMAGE = {  # what happens, and how many of the six chunks have to be computed again
    "a chunk is truncated": (lambda f: change(f / SLOPE, lambda c: c[:-3]), 1),
    "a chunk is empty": (lambda f: change(f / SLOPE, lambda c: b""), 1),
    "a chunk is all zeros": (lambda f: change(f / SLOPE, lambda c: bytes(len(c))), 1),
    "a bit is flipped": (lambda f: change(f / STATUS_FILE, lambda c: flip(c, 100)), 1),
    "a chunk has more at its end": (lambda f: change(f / SLOPE, lambda c: c + b"more"), 1),
    "a chunk is deleted": (lambda f: (f / STATUS_FILE).unlink(), 1),
    "two chunks are swapped": (lambda f: swap(f / f"{RESULTS}/t_fall/1.0", f / f"{RESULTS}/t_fall/4.0"), 2),
    "two outcomes are swapped": (lambda f: swap(f / SLOPE, f / f"{RESULTS}/t_fall/2.0"), 1),
    "an outcome is deleted": (lambda f: shutil.rmtree(f / RESULTS / "slope"), 6),
    "all results are deleted": (lambda f: shutil.rmtree(f / RESULTS), 6),
}
JOURNAL_DAMAGE = {
    "a claim is torn": (journal_lines(lambda lines: [*lines[:-1], lines[-1][:20]]), 1),
    "a claim lacks its end": (journal_lines(lambda lines: [*lines[:-1], lines[-1].rstrip()]), 0),
    "two claims run together": (journal_lines(lambda lines: [lines[0].rstrip(), *lines[1:]]), 2),
    "a claim has a flipped bit": (journal_lines(lambda lines: [flip(lines[0], 97), *lines[1:]]), 1),
    "a claim is there twice": (journal_lines(lambda lines: [*lines, lines[2], lines[0]]), 0),
    "a claim is lost": (journal_lines(lambda lines: lines[1:]), 1),
    "claims are in another order": (journal_lines(lambda lines: lines[::-1]), 0),
    "garbage follows": (journal_lines(lambda lines: [*lines, b"\x00\xff\xfe garbage \xc3("]), 0),
    "zeros follow, as after a power cut": (journal_lines(lambda lines: [*lines, bytes(512)]), 0),
    "garbage whose checksum fits": (journal_lines(lambda lines: [*lines, b"00000000\n", b"[1] 4c2f32b8\n"]), 0),
    "the journal is empty": (journal_lines(lambda lines: []), 6),
    "the journal is deleted": (lambda f: (f / JOURNAL).unlink(), 6),
}
LAYOUT_FILES = (".zgroup", ".zattrs", ".zmetadata", "slope/.zarray", "slope/.zattrs", "angle/.zarray", "angle/0")
LAYOUT_DAMAGE = {
    **{f"{name} is deleted": (lambda f, n=name: (f / RESULTS / n).unlink(), 0) for name in LAYOUT_FILES},
    **{f"{name} is garbage": (lambda f, n=name: (f / RESULTS / n).write_bytes(b"{ \x00"), 0) for name in LAYOUT_FILES},
    "another shape is said": (lambda f: change(f / RESULTS / "slope/.zarray", lambda c: c.replace(b"6", b"7")), 0),
    "a killed run left things behind": (leave_behind, 0),
}


@pytest.mark.parametrize("damage", {**CHUNK_DAMAGE, **JOURNAL_DAMAGE, **LAYOUT_DAMAGE})
def test_damage_is_found_and_mended(damage, complete, tmp_path):
    folder, undisturbed = tmp_path / "store", stored(complete)
    shutil.copytree(complete, folder)
    spoil, lost = {**CHUNK_DAMAGE, **JOURNAL_DAMAGE, **LAYOUT_DAMAGE}[damage]
    before = files(folder)
    spoil(folder)
    assert files(folder) != before
    again = Counting()
    mended = run(described(), out=folder, executor=again)
    assert again.count == 5 * lost
    assert stored(folder) == undisturbed
    xr.testing.assert_identical(mended.load(), load(complete).load())
    assert sorted(os.listdir(folder)) == sorted([CARD, JOURNAL, RESULTS])
    # and what was mended is claimed again: a third run has nothing to do
    nothing = Counting()
    run(described(), out=folder, executor=nothing)
    assert nothing.count == 0


def test_the_store_counts_what_it_found_damaged(complete, tmp_path):
    folder = tmp_path / "store"
    shutil.copytree(complete, folder)
    (folder / SLOPE).write_bytes(b"")
    with Store(folder, described(), chunk=5) as store:
        assert (store.damaged, store.configurations_done, store.failed) == (1, 25, 5)
        assert [chunk.number for chunk in store.missing()] == [2]


@pytest.mark.parametrize("variable", ["slope", "status", "angle"])
def test_no_flipped_bit_and_no_truncation_is_ever_served_as_a_number(variable, complete, tmp_path):
    """Whoever reads with xarray or zarr alone gets an error or the right values, for every bit and every length."""
    folder = tmp_path / "store"
    shutil.copytree(complete, folder)
    file = folder / RESULTS / variable / ("0" if variable == "angle" else "2.0")
    array = zarr.open_group(folder / RESULTS, mode="r")[variable]
    right, content = array[...], file.read_bytes()
    raised = 0
    damaged = [flip(content, bit) for bit in range(8 * len(content))] + [content[:n] for n in range(len(content))]
    for wrong in damaged:
        file.write_bytes(wrong)
        try:
            values = array[...]
        except Exception:
            raised += 1
        else:  # a bit that the format does not use
            np.testing.assert_array_equal(values, right)
    assert raised >= len(damaged) - 8
    file.write_bytes(flip(content, 8 * len(content) - 20))
    with pytest.raises(Exception, match="(?i)zstd|checksum|decompress"):
        xr.open_zarr(folder / RESULTS)[variable].load()


def test_damaged_metadata_is_a_line_that_says_what_to_do(complete, tmp_path):
    folder = tmp_path / "store"
    shutil.copytree(complete, folder)
    (folder / RESULTS / ".zmetadata").write_text("{")
    with pytest.raises(InputError, match=r"(?s)results.zarr cannot be read.*allowed: run its study again"):
        load(folder)


def test_a_power_cut_that_tears_the_newest_files_is_mended(complete, tmp_path):
    """After a power cut the newest files may have any length and any zeros. The card alone is forced to the disk."""
    undisturbed, rng = stored(complete), random.Random(7)
    for attempt in range(5):
        folder = tmp_path / str(attempt)
        shutil.copytree(complete, folder)
        torn = [path for path in folder.rglob("*") if path.is_file() and path.name != CARD]
        for path in rng.sample(torn, 12):
            content, kept = path.read_bytes(), rng.randrange(path.stat().st_size + 1)
            zeros = bytes(len(content) - kept) if rng.random() < 0.5 else b""
            path.write_bytes(content[:kept] + zeros)
        run(described(), out=folder)
        assert stored(folder) == undisturbed


# ---------------------------------------------------------------- whose folder


def test_another_study_is_refused_and_nothing_changes(complete, tmp_path):
    folder = tmp_path / "store"
    shutil.copytree(complete, folder)
    before = files(folder)
    for other in (described("sample"), described(solver={"rtol": 1e-3}), described(set={"gravity": 9})):
        with pytest.raises(InputError, match=r"(?s)another study's results \(toy, compliant\).*--fresh"):
            run(other, out=folder)
    assert files(folder) == before


def test_another_number_type_is_refused_and_says_so(complete):
    before = files(complete)
    with double_precision(False), pytest.raises(InputError, match=r"(?s)number type float64, not float32.*--fresh"):
        run(described(), out=complete)
    assert files(complete) == before


def test_another_version_is_refused_and_says_so(complete, monkeypatch):
    monkeypatch.setattr("jaxcontact.study.store.package_version", lambda: "99.0")
    with pytest.raises(InputError, match=r"(?s)jaxcontact version \S+, not 99.0.*another directory, or --fresh"):
        run(described(), out=complete)


def test_a_title_is_not_another_study(complete, tmp_path):
    shutil.copytree(complete, tmp_path / "store")
    nothing = Counting()
    assert run(described(title="new"), out=tmp_path / "store", executor=nothing).attrs["title"] == "new"
    assert nothing.count == 0


def test_fresh_starts_over_and_leaves_what_is_not_ours(tmp_path):
    run(described(), out=tmp_path, chunk=5)
    (tmp_path / "notes.txt").write_text("mine")
    run(described("sample"), out=tmp_path, chunk=5, fresh=True)
    xr.testing.assert_identical(load(tmp_path).load(), run(described("sample"), chunk=5))
    again = Counting()
    run(described("sample"), out=tmp_path, chunk=3, fresh=True, executor=again)  # the same study too, with another cut
    assert again.count == 11
    assert json.loads((tmp_path / CARD).read_text())["chunk_shape"] == [3]
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert "slope/3.0" not in stored(tmp_path)  # nothing of the first study is left


@pytest.mark.parametrize("stranger", ["thesis.tex", CARD])
def test_fresh_refuses_a_folder_that_was_never_ours(stranger, tmp_path):
    (tmp_path / stranger).write_text('{"years": "of work"}')
    (tmp_path / RESULTS).mkdir()
    (tmp_path / RESULTS / "data").write_text("theirs")
    before = files(tmp_path)
    for fresh in (False, True):
        with pytest.raises(InputError, match="already holds other files"):
            run(described(), out=tmp_path, fresh=fresh)
    assert files(tmp_path) == before


def test_a_damaged_card_is_refused_and_fresh_gets_over_it(complete, tmp_path):
    shutil.copytree(complete, tmp_path / "store")
    (tmp_path / "store" / CARD).write_text("{")
    with pytest.raises(InputError, match=r"(?s)damaged.*--fresh"):
        run(described(), out=tmp_path / "store")
    run(described(), out=tmp_path / "store", chunk=5, fresh=True)
    assert stored(tmp_path / "store") == stored(complete)


def test_a_fresh_start_that_is_killed_can_be_made_again_beside_other_files(complete, tmp_path, monkeypatch):
    """Between the old card and the new there is no moment without one: a plot in the folder would lock us out."""
    folder = tmp_path / "store"
    shutil.copytree(complete, folder)
    (folder / "overview.png").write_bytes(b"\x89PNG")

    def killed(*arguments, **more):
        raise KeyboardInterrupt

    for moment in ("write_card", "place"):
        monkeypatch.setattr(f"jaxcontact.study.store.{moment}", killed)
        with pytest.raises(KeyboardInterrupt):
            run(described("sample"), out=folder, fresh=True)
        monkeypatch.undo()
    run(described("sample"), out=folder, fresh=True)
    xr.testing.assert_identical(load(folder).load(), run(described("sample")))
    assert (folder / "overview.png").exists()


def test_an_impossible_study_of_one_configuration_leaves_nothing(tmp_path):
    with pytest.raises(InputError, match="cannot_touch"):
        run(described("one", set={"angle": 85}), out=tmp_path / "out")
    assert os.listdir(tmp_path) == []


# ---------------------------------------------------------------- one writer

HOLDER = """
import sys, time
from pathlib import Path
from jaxcontact.study.folder import Lock
with Lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(100)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that has the lock of a folder."""
    clone = str(Path(jaxcontact.__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": clone},
    )
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_second_run_is_refused_as_long_as_the_first_lives_and_not_longer(holder, tmp_path):
    assert is_locked(tmp_path)
    for fresh in (False, True):
        with pytest.raises(InputError, match=rf"(?s)another run \(process {holder.pid} on .*wait until it ends"):
            run(described(), out=tmp_path, fresh=fresh)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (tmp_path / LOCK).exists() and not is_locked(tmp_path)  # the file is still there, and says nothing
    run(described(), out=tmp_path)
    assert not (tmp_path / LOCK).exists()


def test_a_second_store_in_the_same_process_is_refused_too(tmp_path):
    with Store(tmp_path, described(), chunk=5):
        with pytest.raises(InputError, match="another run"), Store(tmp_path, described(), chunk=5):
            pass
        assert is_locked(tmp_path)  # who was refused took nothing away
    with Store(tmp_path, described(), chunk=5):
        pass


def test_the_lock_is_given_back_when_the_store_cannot_be_opened(tmp_path, monkeypatch):
    monkeypatch.setattr(Store, "_open", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(described(), out=tmp_path)
    assert not is_locked(tmp_path)
    with Lock(tmp_path):
        pass


# ---------------------------------------------------------------- memory


@pytest.mark.parametrize(("few", "many"), [(12, 40), pytest.param(12, 1000, marks=pytest.mark.slow)])
def test_memory_is_bounded_by_the_chunk_whatever_the_total(few, many, tmp_path):
    """Many times the configurations, in chunks of the same size: the peak of what Python holds stays where it was."""

    def peak(count):
        vary = {"height": {"from": 1, "to": 2, "count": count}, "angle": {"from": 0, "to": 80, "count": 1000}}
        large = study(TOY, vary=vary)
        tracemalloc.start()
        try:
            dataset = run(large, out=tmp_path / str(count), chunk=1000, fresh=True)
            highest = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert int((dataset["status"].isel(height=-1) == FINISHED).sum()) == 1000
        return highest

    peak(few)  # compiles, and fills what is kept between runs
    # The lower of two: what threads of JAX hold for a moment comes and goes, what is kept would be there both times.
    small, large = peak(few), min(peak(many), peak(many))
    whole = 1000 * many * (5 * 8 + 2)  # what the results would take in memory
    assert large - small < 0.1 * whole  # what is left is a claim in the journal for each chunk, 1 or 2 kB
