"""Real faults: processes of `jaxcontact run` are killed, stopped, doubled and starved of disk, and go on.

Whatever happened on the way, the end is compared with an undisturbed run's: every file under results.zarr, every byte.
A power cut cannot be made here; its trace can: the newest files torn to any length, or full of zeros.
"""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import xarray as xr

import jaxcontact
from jaxcontact.cli import Stopped
from jaxcontact.cli.running import saved_when_stopped
from jaxcontact.study.folder import CARD, JOURNAL, RESULTS, is_locked
from jaxcontact.study.journal import Journal
from jaxcontact.study.status import describe_status

CHUNK = 400  # small, so that something is being written most of the time
STUDY = """
[study]
model = "crutch"
method = "impulsive"
[vary]
q3 = {{ from = 3, to = 21, count = {count} }}
mu = {{ from = 0.3, to = 1.0, count = {chunk} }}
"""


@dataclass
class Place:
    """Where a study of `chunks` chunks is run, and what it comes to undisturbed."""

    folder: Path
    chunks: int
    cache: Path

    @property
    def total(self):
        return self.chunks * CHUNK

    @property
    def undisturbed(self):
        return self.folder / "undisturbed"

    def command(self, out):
        study = str(self.folder / "study.toml")
        return [sys.executable, "-m", "jaxcontact", "run", study, "--out", str(out), "--chunk", str(CHUNK)]

    @property
    def environment(self):
        clone = str(Path(jaxcontact.__file__).parents[1])
        plain = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
        return {**plain, "PYTHONPATH": clone, "XDG_CACHE_HOME": str(self.cache)}

    def start(self, out):
        """Start the command, as a person would in a terminal of its own."""
        return subprocess.Popen(
            self.command(out),
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def complete(self, out):
        """Run the command to its end, and compare."""
        process = self.start(out)
        said, complaints = process.communicate(timeout=300)
        assert process.returncode == 0, complaints
        assert f"{self.total:,} configurations" in said
        self.compare(out)

    def compare(self, out):
        mine, theirs = (bytes_of(folder / RESULTS) for folder in (out, self.undisturbed))
        assert mine.keys() == theirs.keys()
        assert [name for name in mine if mine[name] != theirs[name]] == []
        xr.testing.assert_identical(xr.open_zarr(out / RESULTS).load(), xr.open_zarr(self.undisturbed / RESULTS).load())


def bytes_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def describe_place(folder, cache, chunks):
    (folder / "study.toml").write_text(STUDY.format(count=chunks, chunk=CHUNK))
    return Place(folder, chunks, cache)


def make_place(folder, cache, chunks):
    place = describe_place(folder, cache, chunks)
    process = place.start(place.undisturbed)
    _, complaints = process.communicate(timeout=300)
    assert process.returncode == 0, complaints
    return place


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Compiled programs, shared by all processes: whoever is killed while it writes there must harm nobody either."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def place(tmp_path_factory, cache):
    return make_place(tmp_path_factory.mktemp("place"), cache, chunks=200)


@pytest.fixture(scope="module")
def large_place(tmp_path_factory, cache):
    return make_place(tmp_path_factory.mktemp("large"), cache, chunks=1500)


def saved(out):
    """How many chunks are claimed."""
    try:
        return (out / JOURNAL).read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def wait_until(process, true, patience=60.0):
    give_up = time.monotonic() + patience
    while not true():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < give_up
        time.sleep(0.002)


def kill(process, out, rng, moment):
    """SIGKILL at a random moment while it starts, while it computes, or while it writes; whether that was in time."""
    if moment == "starting":
        time.sleep(rng.uniform(0.05, 1.5))
    else:
        before = saved(out)
        wait_until(process, lambda: process.poll() is not None or saved(out) > before)
        if moment == "computing":
            time.sleep(rng.uniform(0.0, 0.4))
        else:  # within a chunk or two
            time.sleep(rng.uniform(0.0, 0.04))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return process.returncode == -signal.SIGKILL


def tear(out, rng, count):
    """Do to the newest files what a power cut may: any length, or zeros. The card was forced to the disk before."""
    files = [path for path in out.rglob("*") if path.is_file() and path.name != CARD]
    for path in sorted(files, key=lambda path: path.stat().st_mtime)[-count:]:
        content = path.read_bytes()
        kept = content[: rng.randrange(len(content) + 1)]
        path.write_bytes(kept + bytes(len(content) - len(kept)) if rng.random() < 0.5 else kept)


# ---------------------------------------------------------------- killed


def kill_again_and_again(place, out, *, kills, seed, torn=0):
    """Kill run after run, and return how many chunks were saved after each."""
    rng, moments, history = random.Random(seed), ("writing", "computing", "starting"), []
    while len(history) < kills:
        assert saved(out) < 0.9 * place.chunks, "too few chunks for so many kills"
        if not kill(place.start(out), out, rng, moments[len(history) % 3]):
            continue
        assert not is_locked(out)  # the lock died with its holder
        history.append(len(Journal(out / JOURNAL).entries))
        if torn:
            tear(out, rng, torn)
    return history


def test_a_run_killed_a_few_times_ends_with_the_bytes_of_an_undisturbed_one(place, tmp_path):
    history = kill_again_and_again(place, tmp_path / "out", kills=3, seed=1)
    assert history == sorted(history) and 0 < history[-1] < place.chunks  # nothing that was saved is lost
    assert describe_status(tmp_path / "out").splitlines()[1].startswith("stopped: ")
    place.complete(tmp_path / "out")


def test_a_run_whose_newest_files_a_power_cut_tore_ends_with_the_same_bytes(place, tmp_path):
    kill_again_and_again(place, tmp_path / "out", kills=1, seed=2, torn=60)
    place.complete(tmp_path / "out")


@pytest.mark.slow
def test_a_run_killed_at_twenty_four_random_moments_ends_with_the_same_bytes(large_place, tmp_path):
    history = kill_again_and_again(large_place, tmp_path / "out", kills=24, seed=3)
    assert history == sorted(history)
    large_place.complete(tmp_path / "out")


@pytest.mark.slow
def test_twelve_power_cuts_in_a_row_are_survived(large_place, tmp_path):
    kill_again_and_again(large_place, tmp_path / "out", kills=12, seed=4, torn=40)
    large_place.complete(tmp_path / "out")


# ---------------------------------------------------------------- stopped


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_ends_within_seconds_and_says_how_to_go_on(how, cache, tmp_path):
    place = describe_place(tmp_path, cache, chunks=5000)  # long enough to be stopped on a machine that is busy
    out = tmp_path / "out"
    process = place.start(out)
    wait_until(process, lambda: saved(out) >= 3)
    process.send_signal(how)
    asked = time.monotonic()
    said, complaints = process.communicate(timeout=60)
    assert time.monotonic() - asked < 5
    assert (process.returncode, said) == (130, "")
    count = sum(entry.size for entry in Journal(out / JOURNAL).entries.values())
    assert 0 < count < place.total
    assert complaints.splitlines()[-1] == (
        f"jaxcontact: stopped; {count:,} of {place.total:,} configurations are saved in {out}, "
        "and the same command goes on from there"
    )
    assert "Traceback" not in complaints
    assert sorted(os.listdir(out)) == sorted([CARD, JOURNAL, RESULTS])  # no lock is left


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_that_python_forgets_is_raised_again_when_progress_is_told(how, tmp_path):
    told = []

    class Garbage:
        def __del__(self):
            os.kill(os.getpid(), how)

    with (
        pytest.raises(Stopped, match="stopped; nothing was saved"),
        saved_when_stopped(tmp_path, lambda *counts: told.append(counts)) as progress,
    ):
        progress(1, 3, 0)
        Garbage()  # what it raises is printed and forgotten
        told.append("still there")
        progress(2, 3, 0)
    assert told == [(1, 3, 0), "still there"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# ---------------------------------------------------------------- two at once


def test_a_second_run_in_the_same_directory_is_refused_and_the_first_goes_on(place, tmp_path):
    out = tmp_path / "out"
    first = place.start(out)
    wait_until(first, lambda: saved(out) >= 1)
    first.send_signal(signal.SIGSTOP)  # it holds its breath, so that the second surely comes while it lives
    status = describe_status(out).splitlines()[1]
    assert re.fullmatch(rf"running: [\d,]+ of {place.total:,} done \(\S+%\).*", status)
    second = place.start(out)
    said, complaints = second.communicate(timeout=60)
    assert (second.returncode, said) == (2, "")
    assert f"is being written to by another run (process {first.pid} on " in complaints
    assert "allowed: wait until it ends" in complaints and "Traceback" not in complaints
    first.send_signal(signal.SIGCONT)
    _, complaints = first.communicate(timeout=300)
    assert first.returncode == 0, complaints
    place.compare(out)


# ---------------------------------------------------------------- a full disk

# A small file system of its own that only this shell and its children see, and that is gone with them.
FULL_DISK = """
mount -t tmpfs -o size={size} tmpfs disk || exit 77
{command} > first.out 2> first.err
echo $? > first.code
mount -o remount,size=64m disk || exit 77
{command} > second.out 2> second.err
echo $? > second.code
cp -r disk/out after
"""


def full_disk(place, folder, size):
    """Run on a disk of that size, then make room and run again, all in `folder`."""
    if sys.platform != "linux" or shutil.which("unshare") is None:
        pytest.skip("a small file system needs unshare and tmpfs, as Linux has")
    (folder / "disk").mkdir()
    script = FULL_DISK.format(size=size, command=" ".join(place.command("disk/out")))
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    done = subprocess.run(
        ["unshare", "--mount", *user, "sh", "-c", script],
        cwd=folder,
        env=place.environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    if not (folder / "second.code").exists():
        pytest.skip(f"no small file system can be mounted here: {done.stderr.strip()}")
    assert os.listdir(folder / "disk") == []  # the machine's own mounts are as before


@pytest.mark.parametrize("size", [pytest.param("48k", marks=pytest.mark.slow), "1m"])
def test_a_full_disk_is_one_line_and_with_more_room_the_same_command_goes_on(size, place, tmp_path):
    full_disk(place, tmp_path, size)
    assert (tmp_path / "first.code").read_text().strip() == "2"
    assert (tmp_path / "first.out").read_text() == ""
    complaints = [line for line in (tmp_path / "first.err").read_text().splitlines() if not line.startswith("study: ")]
    assert len(complaints) == 1 and "No space left on device" in complaints[0]
    if size == "1m":
        found = re.search(
            rf"; ([\d,]+) of {place.total:,} configurations are saved in disk/out, and the same command goes on",
            complaints[0],
        )
        assert found, complaints
        assert CHUNK <= int(found[1].replace(",", "")) < place.total
    assert (tmp_path / "second.code").read_text().strip() == "0", (tmp_path / "second.err").read_text()
    place.compare(tmp_path / "after")
    assert len((tmp_path / "after" / JOURNAL).read_text().splitlines()) >= place.chunks
    assert json.loads((tmp_path / "after" / CARD).read_text())["sizes"] == [place.chunks, CHUNK]
