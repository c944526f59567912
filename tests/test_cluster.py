"""A sweep on a cluster is the same sweep: workers that die or join change nothing, and what is wrong is said once."""

import logging
import os
import signal
import socket
import sys
import threading
import time

import conftest
import jax
import numpy as np
import pytest
import xarray as xr
from jax.experimental.compilation_cache import compilation_cache
from toy_model import toy_model

from jaxcontact.errors import InputError
from jaxcontact.models import MODELS
from jaxcontact.study import cluster as cluster_module
from jaxcontact.study import errand as errand_module
from jaxcontact.study import run, study
from jaxcontact.study import scheduler as scheduler_module
from jaxcontact.study.cluster import ClusterExecutor
from jaxcontact.study.execute import job_of

distributed = pytest.importorskip("distributed")

SWEEP = study("crutch", "impulsive", vary={"mu": {"from": 0.4, "to": 1, "count": 24}, "q3": [3, 9, 15, 21]})
CHUNK = 4
QUIET = {
    "dashboard_address": None,
    "scheduler_kwargs": {"dashboard_address": "127.0.0.1:0"},
    "silence_logs": logging.CRITICAL,
}


@pytest.fixture(autouse=True, scope="module")
def workers_like_this_process(tmp_path_factory):
    """The same number of devices and flags, so that XLA rounds alike; programs are compiled once, here, for all."""
    cache = {
        "jax_compilation_cache_dir": str(tmp_path_factory.mktemp("xla")),
        "jax_persistent_cache_min_compile_time_secs": 0.1,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    before = {name: getattr(jax.config, name) for name in cache}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_NUM_CPU_DEVICES", str(len(jax.local_devices())))
        if conftest.flags_in_use:
            patch.setenv("XLA_FLAGS", conftest.flags_in_use)
        for name, value in cache.items():
            patch.setenv(name.upper(), str(value))
            jax.config.update(name, value)
        compilation_cache.reset_cache()
        yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


@pytest.fixture(scope="module")
def cluster():
    """Two workers, which are started anew when they die."""
    with distributed.LocalCluster(n_workers=2, threads_per_worker=2, **QUIET) as started:
        yield started


@pytest.fixture
def executor(cluster):
    with ClusterExecutor(cluster.scheduler_address) as opened:
        yield opened


@pytest.fixture(scope="module")
def undisturbed():
    return run(SWEEP, chunk=CHUNK)


def pids(executor):
    return list(executor._client.run(os.getpid, on_error="ignore").values())


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:  # a process that nobody has waited for yet is no longer running
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition, seconds=30):
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.05)


# ---------------------------------------------------------------- the same results


@pytest.mark.parametrize("method", ["impulsive", pytest.param("compliant", marks=pytest.mark.slow)])
def test_a_local_cluster_gives_the_same_dataset_and_the_same_store_and_ends(method, tmp_path):
    # Of the first chunk 2 of 5 configurations are excluded, and the last one wholly.
    described = study(
        "crutch",
        method,
        vary={"q3": [3, 12, 21], "mu": [0.45, 0.5, 0.6, 0.75, 0.9]},
        require={"conditions": ["mu > 0.55 or q3 > 5", "q3 < 20"]},
    )
    alone = run(described, chunk=5)
    with ClusterExecutor("local:2") as executor:
        assert executor.workers() == 2
        started = pids(executor)
        told = []
        together = run(described, chunk=5, executor=executor, progress=lambda *now: told.append(now))
        stored = run(described, chunk=5, executor=executor, out=tmp_path).load()
    xr.testing.assert_identical(together, alone)
    xr.testing.assert_identical(stored, run(described, chunk=5, out=tmp_path / "alone").load())
    assert told == sorted(told) and told[-1][:2] == (15, 15)
    wait_until(lambda: not any(is_running(pid) for pid in started))


def test_a_worker_killed_and_one_that_joins_mid_sweep_change_nothing(cluster, executor, undisturbed):
    first = pids(executor)
    disturbed_at = []

    def disturb(done, total, failed):
        if done and not disturbed_at:  # chunks have come back, and others are under way
            os.kill(first[0], signal.SIGKILL)
            cluster.scale(3)
            disturbed_at.append(done)
        if disturbed_at and total - done <= 2 * CHUNK:  # the rest waits until the new one is there
            wait_until(lambda: executor.workers() >= 2 and len({*pids(executor)} - {*first}) >= 1)

    found = run(SWEEP, chunk=CHUNK, executor=executor, progress=disturb)
    assert 0 < disturbed_at[0] < SWEEP.space.total
    assert not is_running(first[0])
    xr.testing.assert_identical(found, undisturbed)
    xr.testing.assert_identical(run(SWEEP, chunk=CHUNK, executor=executor), undisturbed)  # by old and new workers


def test_single_precision_is_the_clients_choice(executor):
    jax.config.update("jax_enable_x64", False)
    try:
        alone = run(SWEEP, chunk=CHUNK)
        together = run(SWEEP, chunk=CHUNK, executor=executor)
    finally:
        jax.config.update("jax_enable_x64", True)
    assert together.attrs["dtype"] == "float32"
    xr.testing.assert_identical(together, alone)


def test_batches_are_taken_only_when_there_is_room_for_them(executor):
    taken, returned = [], 0

    def batches():
        for number in range(SWEEP.space.total // CHUNK):
            taken.append(number)
            yield number, SWEEP.configurations(number * CHUNK, (number + 1) * CHUNK).params

    for _ in executor.stream(job_of(SWEEP), batches()):
        assert len(taken) - returned <= 2 * 3  # workers, of which there are at most 3
        returned += 1
    assert returned == len(taken) == 24


# ---------------------------------------------------------------- what goes wrong


def test_an_interrupt_leaves_at_once_and_leaves_no_process():
    def interrupt(done, total, failed):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), ClusterExecutor("local:1") as executor:
        (started,) = pids(executor)
        run(SWEEP, chunk=CHUNK, executor=executor, progress=interrupt)
    wait_until(lambda: not is_running(started))


def test_an_error_in_a_task_arrives_once_with_its_message(executor):
    job, tries = job_of(SWEEP), []
    words = {name: np.array(["no number"]) for name in job.names}
    with pytest.raises(TypeError, match="<U9"):
        for _ in executor.stream(job, [(0, words)], tries.append):
            pass
    assert tries == []
    whole = SWEEP.configurations(0, CHUNK).params  # and the worker goes on
    assert [key for key, _ in executor.stream(job, [("next", whole)])] == ["next"]


def test_an_empty_batch_comes_straight_back(executor):
    empty = {name: values[:0] for name, values in SWEEP.configurations(0, 1).params.items()}
    assert list(executor.stream(job_of(SWEEP), [("empty", empty)])) == [("empty", None)]


def test_without_workers_it_waits_but_not_for_ever():
    with distributed.LocalCluster(n_workers=0, **QUIET) as nobody:
        with ClusterExecutor(nobody.scheduler_address, patience=1) as executor:
            assert executor.workers() == 0
            with pytest.raises(InputError, match="no worker for 1 s"):
                run(SWEEP, executor=executor)


def test_a_scheduler_that_goes_away_is_said_so():
    with (
        distributed.LocalCluster(n_workers=0, **QUIET) as nobody,
        ClusterExecutor(nobody.scheduler_address) as executor,
    ):
        threading.Timer(0.5, nobody.close).start()
        with pytest.raises(InputError, match=r"scheduler at tcp://\S+ is gone"):
            run(SWEEP, executor=executor)


def test_another_version_on_a_worker_is_refused_with_its_address(executor, monkeypatch):
    here = cluster_module.package_version()
    monkeypatch.setattr(errand_module, "package_version", lambda: "9.8.7")
    with pytest.raises(InputError, match=rf"worker at tcp://\S+ has jaxcontact {here}, .*9\.8\.7"):
        run(SWEEP, executor=executor)


def test_a_model_must_be_known_here_and_on_the_worker(executor, monkeypatch):
    described = study(toy_model(), vary={"height": [1, 2]})
    with pytest.raises(InputError, match=r"'toy' cannot run on a cluster(.|\n)*crutch"):
        run(described, executor=executor)
    monkeypatch.setitem(MODELS, "toy", described.model)
    with pytest.raises(InputError, match=r"worker at tcp://\S+: unknown model 'toy'"):
        run(described, executor=executor)


@pytest.mark.parametrize(
    "address",
    ["", 3, "local", "local:", "local:0", "local:-1", "local:1.5", "local:two", "host", "host:port", "tcp://host"]
    + ["ftp://host:8786", "tcp://:8786", "host:70000", "a:b:1", "inproc://host:1"],
)
def test_a_bad_address_is_refused_at_once(address):
    with pytest.raises(InputError, match=r"allowed: .*tcp://host:8786.*scheduler-file.*local:N"):
        ClusterExecutor(address)


def test_where_nobody_answers_that_is_said(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(scheduler_module, "ANSWER", 0.5)
    broken = tmp_path / "broken.json"
    broken.write_text("{}")
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes calls, and says nothing
        mute = f"127.0.0.1:{silent.getsockname()[1]}"
        for address in (mute, str(broken), str(tmp_path / "missing.json")):
            with pytest.raises(InputError, match="0.5 s|cannot be read"), ClusterExecutor(address):
                pass
    worker = next(iter(cluster.scheduler.workers))
    with pytest.raises(InputError, match="not a worker"), ClusterExecutor(worker):
        pass


def test_a_schedulers_file_serves_as_its_address(cluster, tmp_path):
    path = tmp_path / "scheduler.json"
    path.write_text(f'{{"address": "{cluster.scheduler_address}"}}')
    with ClusterExecutor(str(path)) as executor:
        assert executor.workers() >= 1


def test_without_the_extra_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"pip install 'jaxcontact\[cluster\]'"):
        ClusterExecutor("local:2")


@pytest.mark.parametrize("lanes", [0, -1, 2.0, True])
def test_bad_lanes_are_refused(lanes):
    with pytest.raises(InputError, match="lanes"):
        ClusterExecutor("local:2", lanes=lanes)


def test_it_must_be_opened_first():
    with pytest.raises(InputError, match="with ClusterExecutor"):
        run(SWEEP, executor=ClusterExecutor("local:2"))


def test_a_batch_that_kills_every_worker_is_given_up(cluster, executor, monkeypatch):
    monkeypatch.setattr(cluster_module, "_AGAIN", 1)
    monkeypatch.setattr(cluster.scheduler, "allowed_failures", 0)
    handed_in = []

    def deadly(errand, numbers):
        handed_in.append(executor._client.submit(os._exit, 1, pure=False))
        return handed_in[-1]

    monkeypatch.setattr(executor, "_submit", deadly)
    with pytest.raises(InputError, match=f"{SWEEP.space.total} configurations died"):
        run(SWEEP, executor=executor)
    assert len(handed_in) == 2
