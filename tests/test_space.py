"""Spaces: what a person wrote becomes the configurations that they meant, or an error that names the mistake."""

import itertools
import math
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_model import PARAMETERS

from jaxcontact.errors import InputError
from jaxcontact.study.parse import parse_space
from jaxcontact.study.space import SAMPLERS, Grid, Interval, ListAxis, RangeAxis, Sample
from jaxcontact.study.units import _OTHERS, allowed_units, to_si, to_stated


def space_of(**tables):
    return parse_space(PARAMETERS, **tables)[0]


# ---------------------------------------------------------------- units


def test_degrees_are_the_only_unit_that_differs_inside():
    assert to_si("deg") == pytest.approx(math.radians(1.0))
    for unit in ("rad/s", "m", "kg", "N/m^1.5", "N s/m^2.5", ""):
        assert to_si(unit) == 1.0


@pytest.mark.parametrize(
    ("written", "unit", "stated", "expected"),
    [
        (math.pi, "rad", "deg", 180.0),
        (180.0, "deg/s", "rad/s", math.pi),
        (7.0, "cm", "m", 0.07),
        (250.0, "g", "kg", 0.25),
        (3.0, "kN/m^1.5", "N/m^1.5", 3000.0),
        # 1 N/mm^1.5: a force of 1 N at 1 mm. At 1 m it is 1000^1.5 N.
        (1.0, "N/mm^1.5", "N/m^1.5", 1000.0**1.5),
    ],
)
def test_conversions(written, unit, stated, expected):
    assert written * to_stated(unit, stated, name="x") == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(("stated", "other"), [(s, o) for s, others in _OTHERS.items() for o in others if o in _OTHERS])
def test_conversions_invert_each_other(stated, other):
    assert to_stated(other, stated, name="x") * to_stated(stated, other, name="x") == pytest.approx(1.0, rel=1e-15)


def test_an_unknown_unit_names_the_parameter_and_what_is_allowed():
    with pytest.raises(InputError, match=r"(?s)angle.*'grad'.*deg, rad"):
        space_of(vary={"angle": {"values": [1], "unit": "grad"}})
    assert allowed_units("") == ("1",)


# ---------------------------------------------------------------- grids


def test_a_grid_is_the_product_of_its_axes_with_the_last_one_fastest():
    space = space_of(vary={"height": [1, 2], "angle": {"from": 0, "to": 20, "count": 3}})
    rows = space.rows(0, space.total)
    assert (space.dims, space.sizes, space.total) == (("height", "angle"), (2, 3), 6)
    pairs = list(zip(rows["height"], rows["angle"], strict=True))
    assert pairs == list(itertools.product([1.0, 2.0], [0.0, 10.0, 20.0]))


@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    cuts=st.tuples(st.integers(0, 200), st.integers(0, 200)),
)
def test_any_slice_of_a_grid_is_that_part_of_the_whole(sizes, cuts):
    names = ("height", "angle", "k_n")
    grid = Grid(tuple(RangeAxis(n, Interval(1.0, 9.0, "log"), size) for n, size in zip(names, sizes, strict=False)))
    start, stop = sorted(cut % (grid.total + 1) for cut in cuts)
    whole, part = grid.rows(0, grid.total), grid.rows(start, stop)
    for name in grid.names:
        np.testing.assert_array_equal(part[name], whole[name][start:stop])


def test_ranges_agree_with_numpy_and_end_exactly():
    linear = space_of(vary={"height": {"from": 0.1, "to": 0.7, "count": 7}}).rows(0, 7)["height"]
    log = space_of(vary={"k_n": {"from": 1e7, "to": 1e8, "count": 10, "scale": "log"}}).rows(0, 10)["k_n"]
    np.testing.assert_allclose(linear, np.linspace(0.1, 0.7, 7), rtol=1e-15)
    np.testing.assert_allclose(log, np.geomspace(1e7, 1e8, 10), rtol=1e-14)
    assert (linear[0], linear[-1], log[0], log[-1]) == (0.1, 0.7, 1e7, 1e8)


def test_units_apply_to_lists_ranges_and_fixed_values():
    space, fixed = parse_space(
        PARAMETERS,
        vary={
            "angle": {"values": [0.0, math.pi / 2], "unit": "rad"},
            "height": {"from": 7, "to": 70, "count": 2, "unit": "cm"},
        },
        fixed={"ball.mass": {"value": 20, "unit": "g"}},
    )
    rows = space.rows(0, 4)
    np.testing.assert_allclose(rows["angle"], [0, 0, 90, 90])
    np.testing.assert_allclose(rows["height"], [0.07, 0.7, 0.07, 0.7])
    assert fixed == {"ball.mass": pytest.approx(0.02)}


def test_dotted_names_may_be_quoted_or_not():
    nested = space_of(vary={"ball": {"mass": [1, 2]}})
    assert nested == space_of(vary={"ball.mass": [1, 2]}) == Grid((ListAxis("ball.mass", (1.0, 2.0)),))


def test_no_axes_are_one_configuration():
    space = space_of()
    assert (space.dims, space.total, space.rows(0, 1)) == ((), 1, {})


def test_a_hundred_million_points_cost_nothing_until_run():
    tracemalloc.start()
    began = time.perf_counter()
    space = space_of(
        vary={
            "height": {"from": 1, "to": 2, "count": 10_000},
            "angle": {"from": 0, "to": 9, "count": 10_000},
        }
    )
    last = space.rows(space.total - 1, space.total)
    assert space.total == 10**8
    assert (last["height"][0], last["angle"][0]) == (2.0, 9.0)
    assert tracemalloc.get_traced_memory()[1] < 1_000_000 and time.perf_counter() - began < 1.0
    tracemalloc.stop()


# ---------------------------------------------------------------- samples

RANGES = {"height": {"from": 1.0, "to": 3.0}, "k_n": {"from": 1e4, "to": 1e8, "scale": "log"}}


@pytest.mark.parametrize("method", SAMPLERS)
def test_samples_repeat_by_seed_stay_in_range_and_can_be_sliced(method):
    def rows(seed, start=0, stop=100):
        return space_of(vary=RANGES, sample={"count": 100, "seed": seed, "method": method}).rows(start, stop)

    first, again, other = rows(1), rows(1), rows(2)
    for name, (low, high) in {"height": (1.0, 3.0), "k_n": (1e4, 1e8)}.items():
        np.testing.assert_array_equal(first[name], again[name])
        assert not np.array_equal(first[name], other[name])
        assert np.all((first[name] >= low) & (first[name] <= high))
        np.testing.assert_array_equal(rows(1, 37, 41)[name], first[name][37:41])


@pytest.mark.parametrize("method", ["sobol", "latin"])
@pytest.mark.parametrize("seed", [0, 7])
def test_stratified_samples_have_one_point_in_every_slice(method, seed):
    count = 64
    rows = space_of(vary=RANGES, sample={"count": count, "seed": seed, "method": method}).rows(0, count)
    slices = {"height": (rows["height"] - 1.0) / 2.0, "k_n": (np.log10(rows["k_n"]) - 4.0) / 4.0}
    for unit in slices.values():
        assert sorted(np.floor(unit * count).astype(int)) == list(range(count))


def test_sobol_is_a_net_in_two_dimensions():
    """The first two Sobol dimensions are a (0, m, 2)-net (Sobol 1967): one point per elementary box of area 2^-m."""
    space = Sample({"a": Interval(0.0, 1.0), "b": Interval(0.0, 1.0)}, count=256, seed=3)
    rows = space.rows(0, 256)
    for split in range(9):
        box = np.floor(rows["a"] * 2**split) * 2 ** (8 - split) + np.floor(rows["b"] * 2 ** (8 - split))
        assert len(np.unique(box)) == 256


# ---------------------------------------------------------------- cases


def test_cases_from_csv_and_from_lists_are_the_same(tmp_path):
    (tmp_path / "cases.csv").write_text("height, angle [rad]\n1.5, 0\n\n2.5, 0.5\n")
    from_file = space_of(cases={"file": "cases.csv"}, folder=tmp_path)
    listed = space_of(cases={"values": {"height": [1.5, 2.5], "angle": {"values": [0, 0.5], "unit": "rad"}}})
    assert (from_file.dims, from_file.sizes, from_file.names) == (("case",), (2,), ("height", "angle"))
    assert from_file.describe() == listed.describe()
    np.testing.assert_allclose(from_file.rows(0, 2)["angle"], [0.0, math.degrees(0.5)])


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("height,heigth\n1,2\n", r"(?s)'heigth'.*line 1.*'height'"),
        ("height,height\n1,2\n", r"height is given more than once"),
        ("height\n1\nabc\n", r"line 3.*'abc' is not a number"),
        ("height\n1\n\n-4\n", r"(?s)-4 m.*line 4.*0.001 to 100 m"),
        ("height,angle\n1,2\n3\n", r"line 3: 1 cells, but the header has 2"),
        ("height\nnan\n", r"line 2.*nan is not a finite"),
        ("height\n", r"at least one row"),
        ("", r"at least one row"),
        ("angle [grad]\n3\n", r"(?s)line 1.*'grad'.*deg, rad"),
    ],
)
def test_bad_csv_names_the_line(tmp_path, text, pattern):
    (tmp_path / "cases.csv").write_text(text)
    with pytest.raises(InputError, match=pattern):
        space_of(cases={"file": "cases.csv"}, folder=tmp_path)


def test_a_missing_csv_is_named(tmp_path):
    with pytest.raises(InputError, match=r"there is no file .*nowhere\.csv"):
        space_of(cases={"file": "nowhere.csv"}, folder=tmp_path)


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("tables", "pattern"),
    [
        ({"vary": {"heigth": [1]}}, r"(?s)unknown parameter 'heigth' in \[vary\].*'height'"),
        ({"vary": {"ball": {"mas": [1]}}}, r"(?s)'ball.mas'.*'ball.mass'"),
        ({"fixed": {"hight": 1}}, r"(?s)unknown parameter 'hight' in \[set\].*'height'"),
        ({"vary": {"height": [1, 200]}}, r"(?s)height = 200 m.*0.001 to 100 m"),
        ({"fixed": {"angle": -1}}, r"(?s)angle = -1 deg.*0 to 90 deg"),
        ({"vary": {"height": {"from": 1, "to": 101, "count": 3}}}, r"(?s)height = 101 m.*100 m"),
        ({"fixed": {"height": float("nan")}}, r"height: nan is not a finite number"),
        ({"fixed": {"height": 10**400}}, r"height: inf is not a finite number"),
        ({"vary": {"height": [1, float("inf")]}}, r"height: inf is not a finite number"),
        ({"vary": {"height": [1, "2"]}}, r"height: '2' is not a number"),
        ({"vary": {"height": [True]}}, r"height: True is not a number"),
        ({"vary": {"height": [[1, 2]]}}, r"height: \[1, 2\] is not a number"),
        ({"vary": {"height": []}}, r"height.*empty"),
        ({"vary": {"height": 3}}, r"height = 3.*\[set\]"),
        ({"fixed": {"height": [3]}}, r"height.*\[vary\]"),
        ({"vary": {"height": {"from": 1, "to": 2, "count": 0}}}, r"height: count = 0.*at least 1"),
        ({"vary": {"height": {"from": 1, "to": 2, "count": 2.5}}}, r"count = 2.5.*whole number"),
        ({"vary": {"height": {"from": 1, "to": 2}}}, r"height: 'count' is missing"),
        ({"vary": {"height": {"from": 1, "count": 2}}}, r"height: 'to' is missing"),
        ({"vary": {"height": {"from": 1, "to": 2, "cuont": 2}}}, r"(?s)unknown key 'cuont'.*height.*'count'"),
        ({"vary": {"height": {"from": 1, "to": 2, "count": 2, "scale": "lin"}}}, r"(?s)scale 'lin'.*linear, log"),
        ({"vary": {"lift": {"from": 0, "to": 2, "count": 2, "scale": "log"}}}, r'lift: scale = "log".*above 0'),
        ({"vary": {"height": [1]}, "fixed": {"height": 1}}, r"height is both varied and given in \[set\]"),
        ({"vary": {"ball": {"mass": [1]}, "ball.mass": [2]}}, r"ball.mass is given twice"),
        ({"fixed": {"height": {"vlue": 1, "unit": "m"}}}, r"(?s)unknown key 'vlue'.*'value'"),
        ({"sample": {"count": 4}}, r"\[sample\] needs ranges in \[vary\]"),
        ({"sample": {"seed": 4}, "vary": RANGES}, r"'count' is missing"),
        ({"sample": {"count": 0}, "vary": RANGES}, r"\[sample\] count = 0"),
        ({"sample": {"count": 4, "seed": -1}, "vary": RANGES}, r"\[sample\] seed = -1"),
        ({"sample": {"count": 4, "method": "sobel"}, "vary": RANGES}, r"(?s)'sobel'.*'sobol'"),
        ({"sample": {"count": 4, "sed": 1}, "vary": RANGES}, r"(?s)unknown key 'sed' in \[sample\].*'seed'"),
        ({"sample": {"count": 4}, "vary": {"height": [1, 2]}}, r"height.*a sample needs a range"),
        (
            {"sample": {"count": 4}, "vary": {"height": {"from": 1, "to": 2, "count": 3}}},
            r"'count' belongs in \[sample\]",
        ),
        ({"cases": {"file": "x.csv"}, "vary": {"height": [1]}}, r"cannot be combined"),
        ({"cases": {"fil": "x.csv"}}, r"(?s)unknown key 'fil' in \[cases\].*'file'"),
        ({"cases": {}}, r"either 'file'"),
        ({"cases": {"values": {"height": [1], "angle": [1, 2]}}}, r"one length.*height 1, angle 2"),
        (
            {"vary": {"height": {"from": 1, "to": 2, "count": 2**40}, "angle": {"from": 1, "to": 2, "count": 2**40}}},
            r"2\^62",
        ),
    ],
)
def test_bad_input_names_the_item_and_what_is_allowed(tables, pattern):
    with pytest.raises(InputError, match=pattern):
        space_of(**tables)
