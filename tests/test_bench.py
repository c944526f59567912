"""The bench measures what it says, on a model that costs nothing."""

import io
import json

import pytest
from toy_model import toy_model

from jaxcontact.bench import sweep as bench
from jaxcontact.study import study


@pytest.fixture
def cheap(monkeypatch):
    toy = toy_model()
    made = []

    def sweep(count):
        made.append(count)
        return study(toy, vary={"height": {"from": 1, "to": 90}}, sample={"count": count})

    monkeypatch.setattr(bench, "crutch_sweep", sweep)
    return made


def test_sizes_up_to_the_largest_on_all_devices_and_one_on_a_single_one(cheap, tmp_path):
    out = io.StringIO()
    rows = bench.bench_sweep(20_000, out, tmp_path / "bench.json")
    assert [(row.configurations, row.devices) for row in rows] == [(1000, 2), (10_000, 2), (20_000, 2), (20_000, 1)]
    for row in rows:
        assert 0 < row.ready < row.seconds and row.each_us > 0 and row.resident_mb > 10
        assert row.opened > 0 and row.once < row.seconds and row.all_us > row.each_us  # what is paid once is not hidden
        assert row.seconds >= row.ready + 1e-6 * row.each_us * row.configurations - 1e-6
        assert row.loss > 0  # lanes wait for each other, and nothing runs fewer steps than it needs
    assert [set(entry) for entry in json.loads((tmp_path / "bench.json").read_text())] == 4 * [set(vars(rows[0]))]
    table = out.getvalue().splitlines()
    ratios = [float(line.split()[5]) for line in table[3:7]]
    assert ratios[2] == 1.0 and all(ratio > 0 for ratio in ratios)


def test_the_best_of_several_rounds_counts_and_the_first_does_not(cheap):
    bench.bench_sweep(1000, io.StringIO())
    assert cheap.count(1000) == 2 * (1 + 5)  # on all devices and on one, each once to warm up


def test_scale_is_told_as_ratios_to_the_largest_sweep_and_to_all_devices(cheap):
    part = bench.measure_scale(short=True)
    small, large, single = part.numbers["sweeps"]
    assert [row.ratio for row in part.rows] == [
        pytest.approx(small["each_us"] / large["each_us"]),
        pytest.approx(large["resident_mb"] / small["resident_mb"]),
        pytest.approx(single["each_us"] / large["each_us"]),
    ]
    assert (large["devices"], single["devices"]) == (2, 1)


def test_the_real_sweep_is_the_crutch_over_its_regimes():
    drawn = bench.crutch_sweep(64)
    assert drawn.model.name == "crutch" and drawn.space.total == 64
    assert set(drawn.space.names) == {"q3", "dq5", "mu", "k_n", "chi"}
