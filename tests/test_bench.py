"""The bench measures what it says, on a model that costs nothing."""

import io
import itertools
import json
import tempfile
from collections import Counter
from math import isfinite

import pytest
from toy_model import toy_model

from jaxcontact.bench import sweep as bench
from jaxcontact.study import load, study


@pytest.fixture
def cheap(monkeypatch):
    toy = toy_model()
    made = []

    def sweep(count):
        made.append(count)
        return study(toy, vary={"height": {"from": 1, "to": 90}}, sample={"count": count})

    monkeypatch.setattr(bench, "crutch_sweep", sweep)
    monkeypatch.setattr(bench, "_MOST_ROUNDS", 3)
    return made


def test_sizes_up_to_the_largest_on_all_devices_and_two_on_a_single_one(cheap, tmp_path):
    out = io.StringIO()
    rows = bench.bench_sweep(20_000, out, tmp_path / "bench.json")
    sizes = [(1, 2), (1000, 2), (10_000, 2), (20_000, 2), (1, 1), (20_000, 1)]
    assert [(row.configurations, row.devices) for row in rows] == sizes
    for row in rows:
        assert row.resident_mb > 10 and row.all_us == pytest.approx(1e6 * row.seconds / row.configurations)
        assert row.loss >= 0  # nothing runs fewer steps than it needs, and lanes wait for each other
    assert [set(entry) for entry in json.loads((tmp_path / "bench.json").read_text())] == 6 * [set(vars(rows[0]))]
    table = out.getvalue().splitlines()
    ratios = [line.split()[5] for line in table[3:9]]
    # Numbers, whatever the noise: to add a thousand toys may take less than it disturbs.
    assert ratios[0] == ratios[4] == "-" and ratios[3] == "1.00" and all(isfinite(float(ratios[i])) for i in (1, 2, 5))
    assert f"one configuration takes {1e3 * rows[0].seconds:.1f} ms" in out.getvalue()


def test_once_is_what_a_sweep_of_one_takes_and_each_is_what_every_other_adds(monkeypatch):
    """A clock of our own: one configuration takes 8 ms, every other 5 us, on one device 9 us; rounds have noise."""
    disturbances = itertools.cycle([3e-3, 1e-3, 0.0, 2e-3])

    def timed(count, devices, folder):
        each = 5e-6 if devices is None else 9e-6
        return bench.Timed(8e-3 + each * (count - 1) + next(disturbances), 0.1, 100.0)

    monkeypatch.setattr(bench, "measure", timed)
    rows = bench.measure_sweeps(10_000)
    assert [row.once for row in rows] == 5 * [pytest.approx(8e-3)]
    assert [row.each_us for row in rows if row.devices == 2] == [None, pytest.approx(5), pytest.approx(5)]
    assert [row.each_us for row in rows if row.devices == 1] == [None, pytest.approx(9)]
    assert rows[1].all_us == pytest.approx(8 + 0.999 * 5)  # what is paid once is not hidden


def test_a_sweep_leaves_its_store_where_it_is_asked_to_and_nothing_elsewhere(cheap, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    bench.measure(10)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "kept").mkdir()
    bench.measure(10, 1, tmp_path / "kept")
    (place,) = (tmp_path / "kept").iterdir()
    assert load(place / "out").sizes["sample"] == 10


def test_the_best_of_many_rounds_counts_and_the_first_does_not(cheap):
    bench.bench_sweep(1000, io.StringIO())
    assert cheap.count(1) == cheap.count(1000) == 2 * (1 + 3)  # on all devices and on one, each once to warm up


def test_small_sweeps_are_repeated_often_and_the_largest_only_twice():
    rounds = Counter(size for (size, _), counts in bench._schedule([(1, None), (1000, None), (10**6, None)]) if counts)
    assert rounds[1] >= 20 and rounds[1000] >= 20 and rounds[10**6] == 2


def test_scale_is_told_as_ratios_to_the_largest_sweep_and_to_all_devices(cheap):
    part = bench.measure_scale(short=True)
    one, small, large, one_alone, single = part.numbers["sweeps"]
    assert [row.ratio for row in part.rows] == [
        pytest.approx(small["each_us"] / large["each_us"]),
        pytest.approx(large["resident_mb"] / small["resident_mb"]),
        pytest.approx(single["each_us"] / large["each_us"]),
    ]
    assert (one["configurations"], one_alone["configurations"]) == (1, 1)
    assert (large["devices"], single["devices"]) == (2, 1)
    assert f"{one['seconds']:.3f} s" in part.rows[0].computed


def test_the_real_sweep_is_the_crutch_over_its_regimes():
    drawn = bench.crutch_sweep(64)
    assert drawn.model.name == "crutch" and drawn.space.total == 64
    assert set(drawn.space.names) == {"q3", "dq5", "mu", "k_n", "chi"}
