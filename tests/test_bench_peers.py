"""Peers of `jaxcontact bench` compute the same impacts: against a third derivation, and against each other."""

import importlib
import sys

import numpy as np
import pytest
from referee import crutch_impact

from jaxcontact.bench import precision
from jaxcontact.bench.accuracy import errors, referee, truth_of
from jaxcontact.bench.cases import COUNT, Cases, draw_cases
from jaxcontact.bench.ours import crutch_cases
from jaxcontact.bench.peers import PEERS, Found, Peer
from jaxcontact.bench.peers.chain import SEGMENTS, chain_of, crutch_chain, start
from jaxcontact.bench.peers.in_scipy import case_rows, impact
from jaxcontact.integrate.settings import Settings
from jaxcontact.models import get_model
from jaxcontact.models.model import default_params

# Of the drawn configurations, one of each kind and the modes that it goes through: 0 sticks, 1 and -1 slide.
CHOSEN = {6: [1], 0: [-1, 1], 1: [-1, 0], 2570: [-1, 0, 1, 0]}


def chosen(cases: Cases) -> Cases:
    return Cases(*(values[list(CHOSEN)] for values in cases))


@pytest.fixture(scope="module")
def cases():
    return crutch_cases()


@pytest.fixture(scope="module")
def right(cases):
    """By joint coordinates with the foot as base, impulses integrated as states: nothing in common with any peer."""
    found = [crutch_impact(*row) for row in zip(*chosen(cases), strict=True)]
    assert [one["modes"] for one in found] == list(CHOSEN.values())
    return Found(*(np.array([one[name] for one in found]) for name in Found._fields))


def test_the_draw_is_the_seeds_and_covers_the_ranges(cases):
    # numpy promises the stream of a generator: the first number of seed 0 is known.
    assert np.degrees(cases.q3[0]) == pytest.approx(3 + 18 * 0.6369616873214543, rel=1e-14)
    low, high = [3, -0.2, 0.4, -0.5, -0.7], [21, 0.4, 1.1, 0.5, 0.7]
    defaults = default_params(get_model("crutch"))
    scaled = [
        np.degrees(cases.q3),
        cases.dq5,
        cases.mu,
        np.log10(cases.k_n / defaults["k_n"]),
        np.log10(cases.chi / defaults["chi"]),
    ]
    for values, a, b in zip(scaled, low, high, strict=True):
        assert len(values) == COUNT and a <= values.min() and values.max() <= b
        assert values.mean() == pytest.approx((a + b) / 2, abs=4 * (b - a) / np.sqrt(12 * COUNT))
    again = draw_cases(COUNT, defaults["k_n"], defaults["chi"]).first(7)
    assert all(np.array_equal(a, b[:7]) for a, b in zip(again, cases, strict=True))


def test_the_chain_starts_with_its_tip_on_the_ground_and_has_the_links_energy():
    params = default_params(get_model("crutch"))
    chain = crutch_chain()
    assert all(np.array_equal(a, b) for a, b in zip(chain, chain_of(params), strict=True))
    (angles,), (rates,) = (of.T for of in start(chain, np.array([params["q3"]]), np.array([params["dq5"]])))
    assert chain.length @ np.cos(angles) == pytest.approx(0, abs=1e-15)
    assert chain.length @ np.sin(angles) > 0  # in front
    # Kinetic energy link by link, each centre of mass found by walking along the chain from the foot.
    energy, joint = 0.0, np.zeros(2)
    for k, segment in enumerate(SEGMENTS):
        mass, inertia, length, centre = (
            params[f"{segment}.{what}"] for what in ("mass", "inertia", "length", "centre")
        )
        along = np.array([np.cos(angles[k]), -np.sin(angles[k])]) * rates[k]
        velocity = joint + (length - centre if k == 0 else centre) * along
        energy += 0.5 * mass * velocity @ velocity + 0.5 * inertia * rates[k] ** 2
        joint = joint + length * along
    matrix = chain.coupling * np.cos(angles[:, None] - angles) + np.diag(chain.inertia)
    of_centre = np.array([chain.centre * np.cos(angles), -chain.centre * np.sin(angles)]) @ rates
    assert 0.5 * rates @ matrix @ rates + 0.5 * chain.mass * of_centre @ of_centre == pytest.approx(energy, rel=1e-13)


def agree(found: Found, right: Found, rtol: float = 1e-9) -> None:
    for name in Found._fields:
        np.testing.assert_allclose(getattr(found, name), getattr(right, name), rtol=rtol)


def test_scipy_finds_what_the_third_derivation_does(cases, right):
    rows = case_rows(crutch_chain(), chosen(cases))
    agree(Found(*np.array([impact(crutch_chain(), row, 1e-11, "DOP853") for row in rows]).T), right)


def test_an_impact_that_does_not_end_is_told(cases, monkeypatch):
    module = importlib.import_module("jaxcontact.bench.peers.in_scipy")
    monkeypatch.setattr(module, "LONGEST", 1e-3)
    (row,) = case_rows(crutch_chain(), cases.first(1))
    assert np.isnan(impact(crutch_chain(), row, 1e-6)).all()


def test_numbas_code_finds_it_too(cases, right, monkeypatch):
    numba = pytest.importorskip("numba")
    names = ["jaxcontact.bench.peers.numba_flow", "jaxcontact.bench.peers.in_numba"]
    monkeypatch.setattr(numba.core.config, "DISABLE_JIT", True)  # as Python: three impacts are not worth compiling for
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    try:
        with importlib.import_module(names[1]).opened(1) as solve:
            agree(solve(chosen(cases), 1e-11), right)
    finally:
        for name in names:
            del sys.modules[name]


def test_our_truth_is_right_and_errors_are_told_by_it(cases, right):
    truth = truth_of(chosen(cases))
    agree(truth, right)
    assert referee(chosen(cases), truth, 1).largest < 1e-11
    off = errors(Found(truth.P_n * np.array([1, 1 + 1e-6, 1, np.nan]), truth.P_t, truth.t_end), truth)
    assert off.largest == pytest.approx(1e-6, rel=1e-6) and off.median == 0
    assert off.p95 == pytest.approx(0.9 * off.largest) and off.unfinished == 1


def test_work_and_precision_are_taken_of_us_and_of_a_peer(monkeypatch):
    monkeypatch.setattr(precision, "SHORT_COUNT", len(CHOSEN))  # as many as above: the same compiled program
    monkeypatch.setattr(precision, "SHORT_STEPS", {})
    monkeypatch.setattr(Peer, "installed", property(lambda peer: peer.tool == "scipy"))
    told = []
    found = precision.measure_precision(lambda *turn: told.append(turn), short=True)
    ours, scipy = found.curves
    assert (ours.name, scipy.name) == (precision.OURS, "scipy")
    assert found.default in ours.points and found.default.tolerance == Settings().rtol
    assert found.missing == tuple(peer.name for peer in PEERS if peer.tool != "scipy")
    assert found.referee.largest < 1e-11
    for curve in found.curves:
        assert curve.configurations == len(CHOSEN) and all(point.rate > 0 for point in curve.points)
        assert all(point.errors.unfinished == 0 for point in curve.points)
        loosest, *_, tightest = (point.errors.largest for point in curve.points)
        assert tightest < 1e-8 < loosest < 1e-3  # a tighter tolerance is a smaller error
    assert told[-1] == (10, 10)  # five tolerances in all, once to compile and once for the time


@pytest.mark.slow
@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_every_peer_agrees_on_many_impacts(peer, cases):
    pytest.importorskip(peer.tool)
    some = cases.first(16 if peer.tool == "scipy" else 2000)
    truth = truth_of(some)
    with peer.opened(2) as solve:
        found = solve(some, 1e-10)
    off = errors(found, truth)
    assert off.largest < 1e-8 and off.unfinished == 0
    np.testing.assert_allclose(found.t_end, truth.t_end, rtol=1e-7)
