"""The table of `jaxcontact bench`, its JSON and its figure say what was measured; ratios follow from the curves."""

import io
import json
import subprocess
import sys
from dataclasses import asdict

import jax
import numpy as np
import pytest

from jaxcontact.bench import compiling, whole
from jaxcontact.bench.accuracy import Errors
from jaxcontact.bench.figure import draw_precision
from jaxcontact.bench.parts import PARTS, Place
from jaxcontact.bench.peers import PEERS
from jaxcontact.bench.precision import OURS, Curve, Point, Precision, part_of
from jaxcontact.bench.rows import Part, Report, Row, table
from jaxcontact.bench.timing import take_turns
from jaxcontact.cli.benching import WORDS
from jaxcontact.cli.words import parse
from jaxcontact.errors import InputError


def curve(name: str, *points: tuple[float, float], unit: str = "1") -> Curve:
    """Points as (error, rate)."""
    made = [Point(10 * e, rate, Errors(e / 2, e, 2 * e)) for e, rate in points]
    return Curve(name, f"what {name} does", unit, 100, tuple(made))


@pytest.fixture
def found() -> Precision:
    # Rates fall as the tenth root of the error: every ratio at equal errors is that of the factors in front.
    def power_law(name, factor, errors, **options):
        return curve(name, *((e, factor * e**0.1) for e in errors), **options)

    ours = power_law(OURS, 8e5, (1e-5, 1e-7, 1e-9))
    return Precision(
        curves=(
            ours,
            power_law("ours, rk4", 4e5, (1e-3, 1e-5), unit="s"),
            power_law("numba", 1.6e6, (1e-4, 1e-6, 1e-10)),
            power_law("diffrax, one vmap", 2e4, (1e-4, 1e-10)),
            power_law("diffrax, small batches", 4e4, (1e-4, 1e-10)),
        ),
        default=ours.points[1],
        referee=Errors(1e-14, 1e-13, 1e-13),
        missing=("scipy",),
    )


# ---------------------------------------------------------------- rates at equal error


def test_a_rate_between_two_points_follows_the_power_law_through_them():
    one = curve("x", (1e-4, 1e4), (1e-8, 1e2))
    assert one.rate_at(1e-6) == pytest.approx(1e3)
    assert one.rate_at(1e-8) == pytest.approx(1e2) and one.rate_at(1e-4) == pytest.approx(1e4)


def test_nobody_is_faster_than_measured_and_nobody_gets_beyond_its_tightest_tolerance():
    one = curve("x", (1e-4, 1e4), (1e-8, 1e2))
    assert one.rate_at(1e-2) == 1e4 and one.rate_at(1e-9) is None
    assert curve("fails", (float("nan"), 1e4)).rate_at(1e-6) is None


def test_a_looser_tolerance_that_is_not_faster_does_not_count():
    assert curve("x", (1e-4, 5e2), (1e-6, 1e3), (1e-8, 1e2)).rate_at(1e-5) == 1e3


# ---------------------------------------------------------------- the table


def test_every_curve_and_every_missing_peer_has_its_rows(found):
    part = part_of(found)
    ratios = {row.what: row.ratio for row in part.rows}
    for name, ours_over_it in (("numba", 0.5), ("diffrax, one vmap", 40), ("diffrax, small batches", 20)):
        for error in ("1.0e-07", "1.0e-06"):
            assert ratios[f"{name}, equal errors of {error}"] == pytest.approx(ours_over_it)
    assert ratios["ours, rk4, equal errors of 1.0e-07"] is None  # its steps are not short enough
    # At its own tolerance, the rate of the point that is nearest to 1e-6: ours is that of the default.
    assert ratios["numba, rtol 1e-05"] == pytest.approx(8e5 * 1e-7**0.1 / (1.6e6 * 1e-6**0.1))
    assert "ours, rk4, steps of 1e-04 s" in ratios
    missing = part.rows[-1]
    assert (missing.what, missing.ratio) == ("scipy", None) and "pip install 'jaxcontact[bench]'" in missing.computed
    computed = {row.what: row for row in part.rows}["numba, rtol 1e-05"]
    assert computed.computed == "what numba does" and "95 % 1.0e-06" in computed.error


def test_the_table_has_every_row_within_its_width(found):
    other = Part("other", "this over that", (Row("a" * 30 + " " + "b" * 40, 1234.5, "computed " * 20, "error"),))
    text = table(Report({"devices": "2 cpu"}, (part_of(found), other)))
    assert all(len(line) <= 120 for line in text.splitlines())
    words = " ".join(text.split())
    for row in (*part_of(found).rows, *other.rows):
        assert row.what.split()[0] in words and row.computed.split()[-1] in words
    assert "1,234" in words and " 0.50 " in words and " 20.0 " in words and " - " in words
    for judgement in ("pass", "fail", "target"):
        assert judgement not in words.lower()


def test_json_keeps_everything(found, tmp_path):
    report = Report({"devices": "2 cpu"}, (part_of(found), Part("other", "this", (Row("x", None, "y"),))))
    report.write_json(tmp_path / "bench.json")
    kept = Report.read_json(tmp_path / "bench.json")
    assert kept.machine == report.machine
    assert [(p.name, p.compares, p.rows) for p in kept.parts] == [(p.name, p.compares, p.rows) for p in report.parts]
    assert Precision.of_numbers(kept.parts[0].numbers) == found


def test_the_figure_has_every_curve_with_units_and_a_key(found):
    figure = draw_precision(found)
    (axes,) = figure.axes
    *lines, ring = axes.get_lines()
    assert [line.get_xdata().tolist() for line in lines] == [[p.errors.p95 for p in c.points] for c in found.curves]
    assert [line.get_ydata().tolist() for line in lines] == [[p.rate for p in c.points] for c in found.curves]
    assert (*ring.get_xdata(), *ring.get_ydata()) == (found.default.errors.p95, found.default.rate)
    assert axes.get_xscale() == axes.get_yscale() == "log"
    assert "error" in axes.get_xlabel() and "(1/s)" in axes.get_ylabel()
    (key,) = figure.legends
    named = [text.get_text() for text in key.get_texts()]
    assert all(any(text.startswith(c.name) for text in named) for c in found.curves) and len(named) == 6
    looks = {(line.get_color(), str(line.get_linestyle()), line.get_marker(), line.is_dashed()) for line in lines}
    assert len(looks) == len(lines)  # no two alike


# ---------------------------------------------------------------- the command


def test_parts_are_run_in_order_and_written(found, monkeypatch, tmp_path):
    told = []

    def peers(tell, *, short):
        told.append(("peers", short))
        tell(1, 1)
        return part_of(found)

    def other(tell, *, short):
        told.append(("other", short))
        return [Row("one", 2.0, "another")]  # rows alone become a part

    made = {"other": other, "peers": peers}
    monkeypatch.setattr(whole, "PARTS", {name: Place("", name, f"words of {name}") for name in made})
    monkeypatch.setattr(Place, "measure", lambda place: made[place.function])
    out = io.StringIO()
    files = {"to_json": tmp_path / "bench.json", "to_figure": tmp_path / "bench.svg"}
    report = whole.bench(["other", "peers"], out, short=True, **files)
    assert told == [("other", True), ("peers", True)] and out.getvalue() == table(report)
    assert report.parts[0] == Part("other", "words of other", (Row("one", 2.0, "another"),))
    assert json.loads(files["to_json"].read_text())["parts"][0]["rows"] == [asdict(report.parts[0].rows[0])]
    assert "<svg" in files["to_figure"].read_text()


def test_every_part_can_be_asked_for_and_exists():
    assert set(WORDS) == {"all", "sweep", *(set(PARTS) - {"scale"})}
    assert all(callable(place.measure()) for place in PARTS.values())
    assert parse(["bench"]).what == "all"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sweep", "--short"], "--short"),
        (["compile", "--figure", "a.png"], "bench peers"),
        (["--figure", "a.doc"], "a.doc"),
        (["--json", "nowhere/a.json"], "no directory nowhere"),
        (["peers", "--most", "5000"], "bench sweep"),
    ],
)
def test_bad_options_are_told_before_anything_is_measured(words, said):
    arguments = parse(["bench", *words])
    with pytest.raises(InputError, match=said):
        arguments.command(arguments)


def test_the_tools_of_the_peers_are_the_extra():
    from importlib.metadata import requires

    extra = [line for line in requires("jaxcontact") or () if "extra == 'bench'" in line.replace('"', "'")]
    assert not extra or {peer.tool for peer in PEERS} == {line.split(">")[0].split(";")[0].strip() for line in extra}


# ---------------------------------------------------------------- times, and what is in a program


def test_turns_are_taken_in_rounds_and_the_first_does_not_count():
    calls = []
    timed = take_turns({name: lambda name=name: calls.append(name) or name for name in "ab"}, 3)
    assert calls == list("abababab") and {name: one.found for name, one in timed.items()} == {"a": "a", "b": "b"}
    assert all(0 < one.seconds < 1 for one in timed.values())


def test_marks_are_counted_through_loops_and_branches():
    def marked(x):
        return jax.numpy.where(x == compiling._MARK, 0.0, x)

    def program(x):
        x, _ = jax.lax.scan(lambda c, _: (marked(c), None), x, length=5)  # once, however often it runs
        return jax.lax.cond(x > 0, jax.jit(marked), lambda x: marked(marked(x)), x)

    assert compiling._marks(jax.make_jaxpr(program)(1.0).jaxpr) == 4


def test_the_right_hand_side_is_a_bounded_number_of_times_in_a_step():
    copies = compiling.copies_of_the_right_hand_side()
    assert set(copies) == {"init", "step", "tangents"} and all(1 <= count <= 8 for count in copies.values())
    assert compiling.copies_of_the_right_hand_side(("mu",)) == copies  # however many derivatives go along


@pytest.mark.slow
def test_the_short_version_measures_everything(tmp_path):
    files = tmp_path / "bench.json", tmp_path / "bench.png"
    command = [
        sys.executable,
        "-m",
        "jaxcontact",
        "bench",
        "--short",
        "--json",
        str(files[0]),
        "--figure",
        str(files[1]),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    report = Report.read_json(files[0])
    assert [part.name for part in report.parts] == list(PARTS)
    assert done.stdout == table(report)
    for part in report.parts:
        ratios = [row.ratio for row in part.rows if row.ratio is not None]
        assert part.rows and np.isfinite(ratios).all()
        # Calls to the host are counted, none; what few configurations add to a sweep of one may be less than noise.
        assert part.name in ("scale", "accelerator") or min(ratios, default=1.0) > 0
    curves = {one["name"]: one for one in report.parts[list(PARTS).index("peers")].numbers["curves"]}
    installed = {peer.name for peer in PEERS if peer.installed}
    assert set(curves) == {OURS, "ours, rk4", "ours, semi-implicit Euler"} | installed
    for name, one in curves.items():
        if "Euler" not in name and "rk4" not in name:
            assert one["points"][-1]["errors"]["largest"] < 1e-7 and one["points"][-1]["errors"]["unfinished"] == 0
    assert files[1].stat().st_size > 10_000
