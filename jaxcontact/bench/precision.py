"""Work and precision: how many impacts a second, and how right they are, ours and each peer's, at many tolerances.

A tolerance means something else to every integrator. So rates are compared at equal error: each peer's rate is read off
its own curve, log by log, at the error that we have, or at one that is asked for.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from math import exp, log
from typing import Any

from jaxcontact.bench.accuracy import REFEREED, Errors, errors, referee, truth_of
from jaxcontact.bench.cases import COUNT, Cases
from jaxcontact.bench.ours import crutch_cases, crutch_sweep_of, found_by, workers
from jaxcontact.bench.peers import INSTALL, PEERS, Found, Peer
from jaxcontact.bench.rows import Part, Row, Tell, silent
from jaxcontact.bench.timing import take_turns
from jaxcontact.integrate.settings import Settings

OURS = "ours, adaptive"
RTOLS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10)
STEPS = {  # s, of an impact of some 4 ms
    "rk4": (4e-4, 2e-4, 1e-4, 5e-5, 2e-5, 1e-5),
    "semi_implicit_euler": (2e-5, 1e-5, 5e-6, 2e-6, 1e-6),
}
ROUNDS, FIXED_COUNT = 5, 4096
WANTED = 1e-6  # the error at which rates are compared besides our own

# What `short` takes of everything: enough to see that all works.
SHORT_COUNT, SHORT_TOLERANCES, SHORT_REFEREED = 48, (1e-5, 1e-10), 2
SHORT_STEPS = {"rk4": (2e-4, 5e-5), "semi_implicit_euler": (2e-5, 1e-5)}


@dataclass(frozen=True)
class Point:
    """One tolerance (relative; or the step in s, if steps are fixed): impacts a second, and their errors."""

    tolerance: float
    rate: float
    errors: Errors


@dataclass(frozen=True)
class Curve:
    """What somebody reaches over several tolerances, the loosest first."""

    name: str
    what: str
    unit: str  # of the tolerance
    configurations: int
    points: tuple[Point, ...]

    @property
    def judged(self) -> tuple[Point, ...]:
        """The points that have an error: where nothing finished there is none."""
        return tuple(point for point in self.points if point.errors.p95 > 0)

    def rate_at(self, error: float) -> float | None:
        """The rate at which 95 % are right to `error`, between its points; None beyond the tightest.

        Where a tighter tolerance is as fast, the looser one does not count. An error that even the loosest tolerance
        does not make is no reason to be faster than that.
        """
        useful: list[Point] = []
        for point in sorted(self.judged, key=lambda point: point.errors.p95):
            if not useful or point.rate > useful[-1].rate:
                useful.append(point)
        if not useful or error < useful[0].errors.p95:
            return None
        for tighter, looser in zip(useful, useful[1:], strict=False):
            if error <= looser.errors.p95:
                share = log(error / tighter.errors.p95) / log(looser.errors.p95 / tighter.errors.p95)
                return exp((1 - share) * log(tighter.rate) + share * log(looser.rate))
        return useful[-1].rate


@dataclass(frozen=True)
class Precision:
    """All curves, ours first; which point is our default; how far our truth is from scipy's; who is not installed."""

    curves: tuple[Curve, ...]
    default: Point
    referee: Errors
    missing: tuple[str, ...]

    @staticmethod
    def of_numbers(numbers: Mapping[str, Any]) -> "Precision":
        """Made again from what the JSON holds."""

        def point(of: Mapping[str, Any]) -> Point:
            return Point(of["tolerance"], of["rate"], Errors(**of["errors"]))

        curves = tuple(Curve(**(one | {"points": tuple(map(point, one["points"]))})) for one in numbers["curves"])
        return Precision(curves, point(numbers["default"]), Errors(**numbers["referee"]), tuple(numbers["missing"]))


@dataclass(frozen=True)
class _Way:
    """Something to be timed: whose point it will be."""

    name: str
    what: str
    unit: str
    tolerance: float
    count: int
    solve: Callable[[], Found]


def measure_precision(tell: Tell = silent, *, short: bool = False, peers: Sequence[Peer] = PEERS) -> Precision:
    """Time everybody at every tolerance in turn, and hold what they found against the truth."""
    cases = crutch_cases(SHORT_COUNT if short else COUNT)
    truth = truth_of(cases)
    with ExitStack() as stack:
        ways = [*_our_ways(cases, short)]
        for peer in peers:
            if peer.installed:
                ways += _peer_ways(stack, peer, cases, short)
        timed = take_turns({(way.name, way.tolerance): way.solve for way in ways}, 1 if short else ROUNDS, tell)

    def point(way: _Way) -> Point:
        one = timed[way.name, way.tolerance]
        return Point(way.tolerance, way.count / one.seconds, errors(one.found, truth))

    curves = []
    for name in dict.fromkeys(way.name for way in ways):
        its = [way for way in ways if way.name == name]
        curves.append(Curve(name, its[0].what, its[0].unit, its[0].count, tuple(point(way) for way in its)))
    default = next(point for point in curves[0].points if point.tolerance == Settings().rtol)
    missing = tuple(peer.name for peer in peers if not peer.installed)
    return Precision(tuple(curves), default, referee(cases, truth, SHORT_REFEREED if short else REFEREED), missing)


def _our_ways(cases: Cases, short: bool) -> Iterator[_Way]:
    usual = Settings()
    rtols = sorted({*(SHORT_TOLERANCES if short else RTOLS), usual.rtol}, reverse=True)
    for rtol in rtols:
        settings = usual if rtol == usual.rtol else Settings(rtol=rtol, atol=rtol * usual.atol / usual.rtol)
        what = "Dormand-Prince 5(4), events on its dense output; lanes that are refilled, all outcomes"
        yield _our_way(OURS, what, "1", rtol, cases, settings)
    for stepper, steps in (SHORT_STEPS if short else STEPS).items():
        name = stepper.replace("_", " ").replace("euler", "Euler").replace("semi implicit", "semi-implicit")
        for step in steps:
            settings = Settings(stepper=stepper, step=step)
            what = f"fixed steps, {name}; events, lanes and outcomes as with adaptive ones"
            yield _our_way(f"ours, {name}", what, "s", step, cases.first(FIXED_COUNT), settings)


def _our_way(name: str, what: str, unit: str, tolerance: float, cases: Cases, settings: Settings) -> _Way:
    sweep = crutch_sweep_of(cases, settings)
    return _Way(name, what, unit, tolerance, len(cases.mu), lambda: found_by(sweep))


def _peer_ways(stack: ExitStack, peer: Peer, cases: Cases, short: bool) -> Iterator[_Way]:
    solve = stack.enter_context(peer.opened(workers()))
    some = cases.first(peer.count)
    for rtol in SHORT_TOLERANCES if short else peer.tolerances:
        yield _Way(peer.name, peer.what, "1", rtol, len(some.mu), lambda rtol=rtol: solve(some, rtol))


# ---------------------------------------------------------------- as rows


def part_of(found: Precision) -> Part:
    """Our rate over everybody else's: over its point that is nearest to the wanted error, and at equal errors."""
    own, ours = found.default, found.curves[0]
    rows = []
    for curve in found.curves[1:]:
        near = min(curve.judged or curve.points, key=lambda point: abs(log(point.errors.p95 / WANTED)))
        words = f"rtol {near.tolerance:.0e}" if curve.unit == "1" else f"steps of {near.tolerance:.0e} s"
        rows.append(Row(f"{curve.name}, {words}", own.rate / near.rate, curve.what, str(near.errors)))
        rows.append(_at_equal_error(curve, own.errors.p95, own.rate, "the error of our default; its rate is"))
        rows.append(_at_equal_error(curve, WANTED, ours.rate_at(WANTED), "both rates are"))
    rows += [Row(name, None, f"not installed: {INSTALL}") for name in found.missing]
    return Part(
        "peers",
        f"our crutch impacts a second over theirs, everybody on {workers()} core(s); ours at the default tolerance "
        f"({own.tolerance:.0e}), with errors of the impulses: {own.errors}. Errors are equal where 95 % are; right is "
        f"what we find at rtol 1e-12, from which scipy's DOP853 differs by {found.referee.largest:.0e} at most",
        tuple(rows),
        asdict(found),
    )


def _at_equal_error(curve: Curve, error: float, our_rate: float | None, said: str) -> Row:
    what, its_rate = f"{curve.name}, equal errors of {error:.1e}", curve.rate_at(error)
    if our_rate is None or its_rate is None:
        return Row(what, None, f"{'we do' if our_rate is None else 'it does'} not get there at these tolerances")
    return Row(what, our_rate / its_rate, f"{said} interpolated, log by log")


def measure_peers(tell: Tell = silent, *, short: bool = False) -> Part:
    """The part `peers` of the table."""
    return part_of(measure_precision(tell, short=short))
