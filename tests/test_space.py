"""Spaces: what a person wrote becomes the configurations that they meant, or an error that names the mistake."""

import itertools
import math
import time
import tracemalloc
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import qmc
from toy_model import PARAMETERS

from jaxcontact.errors import InputError
from jaxcontact.study.parse import parse_space
from jaxcontact.study.sampling import SAMPLERS, latin, random, shuffled, sobol
from jaxcontact.study.space import Grid, Interval, ListAxis, RangeAxis, Sample
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
    space, fixed, _ = parse_space(
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


@contextmanager
def costs_nothing():
    tracemalloc.start()
    began = time.perf_counter()
    yield
    memory, took = tracemalloc.get_traced_memory()[1], time.perf_counter() - began
    tracemalloc.stop()
    assert memory < 1_000_000 and took < 1.0


def test_a_hundred_million_points_cost_nothing_until_run():
    with costs_nothing():
        space = space_of(
            vary={
                "height": {"from": 1, "to": 2, "count": 10_000},
                "angle": {"from": 0, "to": 9, "count": 10_000},
                "k_n": {"with": "angle", "from": 1e4, "to": 1e8, "scale": "log"},
            }
        )
        last = space.rows(space.total - 1, space.total)
        assert space.total == 10**8
        assert (last["height"][0], last["angle"][0], last["k_n"][0]) == (2.0, 9.0, 1e8)
        assert space.values("k_n", 9_999, 10_000) == [1e8]


@pytest.mark.parametrize("method", SAMPLERS)
def test_a_hundred_million_samples_cost_nothing_until_run(method):
    sobol(0, 1, 2, 10**8, seed=0)  # once: scipy loads its table, and walks through the points for half a second
    with costs_nothing():
        space = space_of(
            vary={**RANGES, "angle": {"with": "k_n", "from": 0, "to": 90}}, sample={"count": 10**8, "method": method}
        )
        rows = space.rows(space.total - 1000, space.total)
        np.testing.assert_array_equal(space.values("angle", space.total - 1, space.total), rows["angle"][-1:])
        assert all(len(np.unique(values)) == 1000 for values in rows.values())


# ---------------------------------------------------------------- linked axes

STIFFNESS = {"from": 1e6, "to": 1e8, "count": 3, "scale": "log"}


def test_a_linked_axis_moves_along_another_and_has_no_dimension_of_its_own():
    space = space_of(
        vary={
            "angle": {"with": "k_n", "values": [0, 0.5, 0.25], "unit": "rad"},  # may come before what it moves with
            "k_n": STIFFNESS,
            "height": [1, 2],
            "lift": {"with": "k_n", "from": -1, "to": -3},
        }
    )
    assert (space.dims, space.sizes, space.total) == (("k_n", "height"), (3, 2), 6)
    assert space.names == ("angle", "k_n", "height", "lift")
    assert [space.along(name) for name in space.names] == ["k_n", "k_n", "height", "k_n"]
    rows = space.rows(0, 6)
    np.testing.assert_allclose(rows["k_n"], [1e6, 1e6, 1e7, 1e7, 1e8, 1e8], rtol=1e-14)
    np.testing.assert_allclose(rows["lift"], [-1, -1, -2, -2, -3, -3])
    np.testing.assert_allclose(rows["angle"], np.degrees([0, 0, 0.5, 0.5, 0.25, 0.25]))
    np.testing.assert_allclose(space.values("lift", 1, 3), [-2, -3])


def test_a_linked_axis_may_repeat_values_and_stand_still():
    vary = {"height": [1, 2, 3], "angle": {"with": "height", "values": [5, 5, 6]}}
    assert space_of(vary=vary).rows(0, 3)["angle"].tolist() == [5, 5, 6]
    still = {"height": [1, 2, 3], "angle": {"with": "height", "from": 5, "to": 5}}
    assert space_of(vary=still).rows(0, 3)["angle"].tolist() == [5, 5, 5]


@given(sizes=st.lists(st.integers(1, 4), min_size=2, max_size=2), leader=st.sampled_from(["height", "angle"]))
def test_rows_are_the_values_along_each_dimension(sizes, leader):
    vary = {n: {"from": 1, "to": 9.5, "count": size} for n, size in zip(("height", "angle"), sizes, strict=True)}
    space = space_of(vary={**vary, "k_n": {"with": leader, "from": 1e4, "to": 1e8, "scale": "log"}})
    position = dict(zip(space.dims, np.unravel_index(np.arange(space.total), space.sizes), strict=True))
    rows = space.rows(0, space.total)
    for name in space.names:
        dim = space.along(name)
        along = space.values(name, 0, space.sizes[space.dims.index(dim)])
        np.testing.assert_array_equal(rows[name], along[position[dim]])


@pytest.mark.parametrize("method", SAMPLERS)
def test_in_a_sample_linked_names_share_a_coordinate(method):
    sample = {"count": 50, "seed": 3, "method": method}
    alone = space_of(vary=RANGES, sample=sample)
    linked = space_of(vary={"angle": {"with": "k_n", "from": 90, "to": 0}, **RANGES}, sample=sample)
    rows = linked.rows(0, 50)
    np.testing.assert_allclose((90 - rows["angle"]) / 90, (np.log10(rows["k_n"]) - 4) / 4, atol=1e-12)
    for name, values in alone.rows(0, 50).items():  # a linked name takes no coordinate from the others
        np.testing.assert_array_equal(rows[name], values)
    assert {linked.along(name) for name in linked.names} == {"sample"}
    np.testing.assert_array_equal(linked.values("angle", 7, 9), rows["angle"][7:9])


def test_links_are_part_of_the_record():
    grids = [
        {"height": [1, 2], "angle": [3, 4]},
        {"height": [1, 2], "angle": {"with": "height", "values": [3, 4]}},
        {"height": {"with": "angle", "values": [1, 2]}, "angle": [3, 4]},
    ]
    samples = [{**RANGES, "angle": {"from": 0, "to": 1, **link}} for link in ({}, {"with": "k_n"}, {"with": "height"})]
    assert len({str(space_of(vary=vary).describe()) for vary in grids}) == 3
    assert len({str(space_of(vary=vary, sample={"count": 4}).describe()) for vary in samples}) == 3


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


def test_sobol_points_are_scipys_but_for_the_shift():
    theirs = np.round(qmc.Sobol(5, scramble=False, bits=30).random(256) * 2**30).astype(int)
    ours = np.floor(sobol(0, 200, 5, 200, seed=4) * 2**30).astype(int)
    assert len(np.unique(ours ^ theirs[:200], axis=0)) == 1


def test_random_points_are_numpys():
    theirs = np.random.Generator(np.random.PCG64(9)).random((20, 3))
    np.testing.assert_array_equal(random(4, 20, 3, 20, seed=9), theirs[4:])


@given(count=st.integers(1, 3000), seed=st.integers(0, 2**70), cut=st.integers(0, 3000))
def test_a_shuffle_is_one_to_one_and_can_be_sliced(count, seed, cut):
    keys = np.random.SeedSequence(seed).generate_state(8, np.uint64)
    whole = shuffled(np.arange(count), count, keys)
    assert sorted(whole) == list(range(count))
    np.testing.assert_array_equal(shuffled(np.arange(cut, count), count, keys), whole[cut:])


@pytest.mark.parametrize("count", [1, 2, 3, 10, 1000, 1001])
def test_latin_samples_have_one_point_in_every_slice_of_any_number(count):
    points = latin(0, count, 3, count, seed=5)
    for unit in points.T:
        assert sorted(np.floor(unit * count).astype(int)) == list(range(count))


def test_latin_samples_are_as_unordered_as_chance():
    """For a random permutation of n the squared correlation with the order has mean 1 / (n - 1), as between two."""
    count, seeds = 50, 400
    orders, pairs = [], []
    for seed in range(seeds):
        a, b = latin(0, count, 2, count, seed).T
        orders.append(np.corrcoef(a, np.arange(count))[0, 1])
        pairs.append(np.corrcoef(a, b)[0, 1])
    for found in (np.array(orders), np.array(pairs)):
        # Mean of `seeds` draws: standard deviations 1/sqrt(49 * 400) and about sqrt(2)/sqrt(400); five of each.
        assert abs(found.mean()) < 5 / np.sqrt((count - 1) * seeds)
        assert abs(np.mean(found**2) * (count - 1) - 1) < 5 * np.sqrt(2 / seeds)


def test_first_places_of_a_shuffle_are_even():
    """Which slice the first point falls into is uniform over seeds: chi-squared with 9 degrees of freedom."""
    first = [int(latin(0, 1, 1, 10, seed)[0, 0] * 10) for seed in range(2000)]
    observed = np.bincount(first, minlength=10)
    assert np.sum((observed - 200) ** 2 / 200) < 40  # p = 1e-5


@pytest.mark.parametrize("method", SAMPLERS)
def test_an_empty_slice_is_empty(method):
    space = space_of(vary=RANGES, sample={"count": 8, "method": method})
    assert [len(values) for values in space.rows(8, 8).values()] == [0, 0]


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
        ("index,height\n1,2\n1.5,2\n", r"line 3 index = 1.5: a whole number"),
        ("index,height\n1,2\n1,3\n", r"line 3 index = 1 stands there more than once"),
        ("index,height\n-1,2\n", r"line 2 index = -1: a whole number of at least 0"),
        ("index,height\n9223372036854775808,2\n", r"line 2 index = 9223372036854775808: a number below 2\^63"),
        ("index\n1\n", r"at least one column besides index"),
        ("index [m],height\n1,2\n", r"line 1: column index .* no unit"),
        ("index,height,index\n1,2,3\n", r"index is given more than once"),
    ],
)
def test_bad_csv_names_the_line(tmp_path, text, pattern):
    (tmp_path / "cases.csv").write_text(text)
    with pytest.raises(InputError, match=pattern):
        space_of(cases={"file": "cases.csv"}, folder=tmp_path)


def test_an_index_names_the_cases_and_is_no_parameter(tmp_path):
    (tmp_path / "cases.csv").write_text("height,index\n1.5, 70\n2.5, 9007199254740993\n")
    from_file = space_of(cases={"file": "cases.csv"}, folder=tmp_path)
    listed = space_of(cases={"values": {"index": [70, 2**53 + 1], "height": [1.5, 2.5]}})
    without = space_of(cases={"values": {"height": [1.5, 2.5]}})
    assert from_file.names == ("height",) and from_file.index.dtype == np.int64
    assert from_file.index.tolist() == listed.index.tolist() == [70, 2**53 + 1]
    assert without.index is None
    assert from_file.describe() == listed.describe() != without.describe()
    assert (listed.along("height"), listed.values("height", 1, 2)) == ("case", [2.5])


# ---------------------------------------------------------------- free names


def test_free_names_are_finite_numbers_and_their_units_are_those_of_models(tmp_path):
    free = {"E": "[derive] k_n", "pad.nu": "[derive] k_n"}
    space, fixed, labels = parse_space(
        PARAMETERS,
        vary={"E": {"from": -1, "to": 7, "count": 2, "unit": "cm"}},
        fixed={"pad": {"nu": 0.3}, "height": 1},
        free=free,
    )
    # 7 cm enter the expression as 0.07 m: nothing else could be meant
    assert (space.values("E", 0, 2).tolist(), labels) == ([-0.01, 0.07], {"E": "m"})
    assert fixed == {"pad.nu": 0.3, "height": 1.0}
    (tmp_path / "cases.csv").write_text("E [GPa],pad.nu [1]\n3,0.5\n")
    space, _, labels = parse_space(PARAMETERS, cases={"file": "cases.csv"}, folder=tmp_path, free=free)
    assert (space.rows(0, 1), labels) == ({"E": [3e9], "pad.nu": [0.5]}, {"E": "Pa", "pad.nu": ""})
    _, _, labels = parse_space(
        PARAMETERS, cases={"values": {"E": {"values": [3], "unit": "Pa"}, "pad.nu": [1]}}, free=free
    )
    assert labels == {"E": "Pa"}
    with pytest.raises(InputError, match=r"(?s)E: unit 'furlong' is not known.*allowed: 1, GPa"):
        parse_space(PARAMETERS, fixed={"E": {"value": 1, "unit": "furlong"}}, free=free)


@pytest.mark.parametrize(
    ("tables", "pattern"),
    [
        (
            {},
            r"(?s)unknown name 'E_pad' in \[derive\] k_n.*height.*a name of your own with a number in \[vary\]",
        ),
        ({"fixed": {"E_pda": 1}}, r"(?s)unknown parameter 'E_pda' in \[set\].*Did you mean 'E_pad'"),
        ({"fixed": {"E_pad": float("inf")}}, r"E_pad: inf is not a finite number"),
        ({"fixed": {"E_pad": {"value": 1, "unit": 3}}}, r"E_pad: unit = 3: a text is needed"),
        ({"fixed": {"E_pad": {"vlue": 1}}}, r"(?s)unknown key 'vlue'.*'value'"),
        ({"vary": {"E_pad": {"from": 1, "count": 2}}}, r"E_pad: 'to' is missing, as in \{ from = 0, to = 1 \}"),
        ({"vary": {"E_pad": {"from": -1e308, "to": 1e308, "count": 2}}}, r"E_pad: from -1e\+308 to 1e\+308 is too far"),
        ({"vary": {"E_pad": [1]}, "fixed": {"E_pad": 1}}, r"E_pad is both varied and given in \[set\]"),
        ({"fixed": {"E_pad": 1, "k_n": 1e7}}, r"k_n is derived in \[derive\] and also given in \[set\]"),
        ({"fixed": {"E_pad": 1}, "vary": {"k_n": [1e7]}}, r"k_n is derived in \[derive\] and also given in \[vary\]"),
        ({"cases": {"values": {"E_pad": [1], "k_n": [1e7]}}}, r"k_n is derived .* given in \[cases\]"),
        ({"fixed": {"E_pad": 1, "E_star": 1}}, r"E_star is derived in \[derive\] and also given in \[set\]"),
    ],
)
def test_free_and_derived_names_are_given_as_they_must_be(tables, pattern):
    with pytest.raises(InputError, match=pattern):
        space_of(**tables, free={"E_pad": "[derive] k_n"}, derived=("k_n", "E_star"))


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
        ({"vary": {"angle": {"with": "angle", "from": 1, "to": 2}}}, r"angle: with = 'angle' is angle itself"),
        (
            {"vary": {"angle": {"with": "k_m", "from": 1, "to": 2}, "k_n": [1e4, 1e5]}},
            r"(?s)unknown axis 'k_m' in \[vary\] angle: with.*Did you mean 'k_n'.*allowed: k_n$",
        ),
        ({"vary": {"angle": {"with": 3, "from": 1, "to": 2}, "k_n": [1e4]}}, r"unknown axis '3'"),
        ({"vary": {"angle": {"with": ["k_n"], "from": 1, "to": 2}, "k_n": [1e4]}}, r"unknown axis"),
        ({"vary": {"angle": {"with": "k_n", "from": 1, "to": 2}}, "fixed": {"k_n": 1e7}}, r"unknown axis 'k_n'"),
        (
            {
                "vary": {
                    "angle": {"with": "lift", "from": 1, "to": 2},
                    "lift": {"with": "k_n", "from": 1, "to": 2},
                    "k_n": [1e4, 1e5],
                }
            },
            r"angle: with = 'lift' moves with 'k_n' itself: write with = 'k_n'",
        ),
        (
            {"vary": {"angle": {"with": "k_n", "from": 1, "to": 2, "count": 2}, "k_n": [1e4, 1e5]}},
            r"angle: 'count' belongs to k_n",
        ),
        (
            {"vary": {"angle": {"with": "k_n", "values": [1, 2, 3]}, "k_n": [1e4, 1e5]}},
            r"(?s)angle: 3 values, but k_n, with which it moves, has 2.*allowed: 2 values",
        ),
        (
            {"vary": {"angle": {"with": "k_n", "values": [1, 2], "from": 3}, "k_n": [1e4, 1e5]}},
            r"unknown key 'from' in \[vary\] angle",
        ),
        ({"vary": {"angle": {"with": "k_n", "from": 1, "to": 91}, "k_n": [1e4]}}, r"angle = 91 deg"),
        ({"vary": {"angel": {"with": "k_n", "from": 1, "to": 2}, "k_n": [1e4]}}, r"(?s)'angel'.*'angle'"),
        ({"fixed": {"angle": {"with": "k_n", "value": 1}}}, r"unknown key 'with' in \[set\] angle"),
        (
            {"sample": {"count": 4}, "vary": {**RANGES, "angle": {"with": "k_n", "values": [1, 2]}}},
            r"angle.*a sample needs a range",
        ),
        (
            {"sample": {"count": 4}, "vary": {**RANGES, "angle": {"with": "k_n", "from": 1, "to": 2, "count": 4}}},
            r"angle: 'count' belongs to k_n",
        ),
        ({"sample": {"count": 4}, "vary": {"angle": {"with": "k_n", "from": 1, "to": 2}}}, r"unknown axis 'k_n'"),
        ({"cases": {"values": {"height": [1], "index": 3}}}, r"\[cases\] index = 3: a list of whole numbers"),
        ({"cases": {"values": {"height": [1, 2], "index": [3, 3]}}}, r"index = 3 stands there more than once"),
        ({"cases": {"values": {"height": [1], "index": [3, 4]}}}, r"one length.*height 1, index 2"),
        ({"cases": {"values": {"index": [3, 4]}}}, r"at least one parameter"),
        ({"cases": {"file": "x.csv"}, "vary": {"height": [1]}}, r"cannot be combined"),
        ({"cases": {"fil": "x.csv"}}, r"(?s)unknown key 'fil' in \[cases\].*'file'"),
        ({"cases": {}}, r"either 'file'"),
        ({"cases": {"values": {"height": [1], "angle": [1, 2]}}}, r"one length.*height 1, angle 2"),
        (
            {"vary": {name: {"from": 1, "to": 2, "count": 10**8} for name in ("height", "angle", "gravity")}},
            r"2\^62",
        ),
        ({"vary": {"height": {"from": 1, "to": 2, "count": 10**9}}}, r"at most 100,000,000 values .* on one axis"),
    ],
)
def test_bad_input_names_the_item_and_what_is_allowed(tables, pattern):
    with pytest.raises(InputError, match=pattern):
        space_of(**tables)
