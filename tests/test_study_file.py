"""A study is the same whether it is written in TOML or in Python, and a mistake in it is named before anything runs."""

import time
import tomllib
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_model import PARAMETERS, double_precision, toy_model

from jaxcontact.errors import InputError
from jaxcontact.integrate.machine import EXCLUDED, STATUS
from jaxcontact.integrate.settings import Settings
from jaxcontact.models import MODELS
from jaxcontact.study import Study, study

TOML = """
[study]
model = "toy"
method = "impulsive"
title = "a title"
[vary]
height = [1, 2]
angle = { from = 0, to = 0.5, count = 3, unit = "rad" }
[set]
ball.mass = 2
gravity = { value = 300, unit = "cm/s^2" }
[laws]
friction = "none"
[solver]
rtol = 1e-9
[output]
curves = true
points = 11
"""


@pytest.fixture(autouse=True, scope="module")
def toy_by_name():
    toy = toy_model()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jaxcontact.models.get_model", lambda name: toy, raising=False)
        yield toy


def write(tmp_path, text):
    path = tmp_path / "study.toml"
    path.write_text(text)
    return path


def test_toml_and_python_describe_the_same_study(tmp_path):
    from_file = Study.from_file(write(tmp_path, TOML))
    in_python = study(
        "toy",
        "impulsive",
        vary={"height": [1, 2], "angle": {"from": 0, "to": 0.5, "count": 3, "unit": "rad"}},
        set={"ball.mass": 2.0, "gravity": 3.0},
        laws={"friction": "none"},
        solver={"rtol": 1e-9},
        output={"curves": True, "points": 11},
        title="another title",
    )
    assert from_file.space.dims == ("height", "angle")
    assert from_file.choices == {"normal": "hertz", "friction": "none"}
    assert from_file.settings == Settings(rtol=1e-9)
    assert (from_file.output.curves, from_file.output.points) == (True, 11)
    assert from_file.fingerprint() == in_python.fingerprint()


def test_constants_are_set_values_or_defaults_and_leave_out_what_varies(tmp_path):
    constants = Study.from_file(write(tmp_path, TOML)).constants()
    assert constants == {"gravity": 3.0, "ball.mass": 2.0, "k_n": 1e7, "lift": -1.0}


def test_csv_lies_beside_the_toml(tmp_path):
    (tmp_path / "cases.csv").write_text("height\n1\n2\n")
    made = Study.from_file(write(tmp_path, '[study]\nmodel = "toy"\n[cases]\nfile = "cases.csv"\n'))
    assert made.space.sizes == (2,) and made.method == "compliant"


def test_fingerprint_follows_whatever_determines_results(tmp_path):
    base = {"vary": {"height": [1, 2]}}
    changes = [
        {},
        {"vary": {"height": [1, 3]}},
        {"vary": {"height": [2, 1]}},
        {"method": "impulsive"},
        {"set": {"angle": 31}},
        {"laws": {"normal": "linear"}},
        {"solver": {"rtol": 1e-6}},
        {"output": {"curves": True}},
        {"output": {"curves": True, "points": 21}},
        {"vary": {}, "cases": {"values": {"height": [1, 2]}}},
        {"vary": {}, "cases": {"values": {"height": [1, 2.5]}}},
        {"vary": {"height": {"from": 1, "to": 2}}, "sample": {"count": 8}},
        {"vary": {"height": {"from": 1, "to": 2}}, "sample": {"count": 8, "seed": 1}},
        {"vary": {"height": [1, 2], "angle": [3, 4]}},
        {"vary": {"height": [1, 2], "angle": {"with": "height", "values": [3, 4]}}},
        {"vary": {}, "cases": {"values": {"height": [1, 2], "index": [1, 2]}}},
        {"derive": {"angle": "30 * height"}},
        {"derive": {"angle": "20 * height"}},
        {"derive": {"angle": "slant * height"}, "set": {"slant": 20}},
        {"derive": {"angle": "slant * height"}, "set": {"slant": 30}},
        {"require": {"conditions": ["height < 2"]}},
        {"require": {"conditions": ["height < 1"]}},
    ]
    prints = [study("toy", **(base | change)).fingerprint() for change in changes]
    assert len(set(prints)) == len(prints)


def test_fingerprint_ignores_what_does_not():
    same = [
        study("toy", vary={"height": [1, 2]}),
        study("toy", vary={"height": [1.0, 2.0]}, title="t"),
        study("toy", vary={"height": {"values": [100, 200], "unit": "cm"}}, set={"angle": 30}, output={"points": 7}),
    ]
    assert len({made.fingerprint() for made in same}) == 1
    labelled = [
        study("toy", derive={"angle": "slant + lift"}, set={"slant": 3}),
        study("toy", derive={"angle": " slant  +\n lift"}, set={"slant": {"value": 3.0, "unit": "deg"}}),
    ]
    assert len({made.fingerprint() for made in labelled}) == 1


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("[study]\nmodel = \n", r"study\.toml is not valid TOML: .*line 2"),
        ('[study]\nmodel = "toy"\nmodel = "toy"\n', r"not valid TOML: .*line 3"),
        ("", r"study\.toml: \[study\] must name a model"),
        ("study = 3\n", r"\[study\] must be a table"),
        ("[study]\nmodel = 3\n", r"model = 3"),
        ('[study]\nmodel = "toy"\nmethd = "x"\n', r"(?s)unknown key 'methd' in \[study\].*'method'"),
        ('[study]\nmodel = "toy"\nmethod = "complaint"\n', r"(?s)unknown method 'complaint'.*'compliant'"),
        ('[study]\nmodel = "toy"\n[vari]\n', r"(?s)unknown key 'vari' in .*study\.toml.*'vary'"),
        ('[study]\nmodel = "toy"\n[laws]\nfricton = "none"\n', r"(?s)unknown law 'fricton'.*'friction'"),
        ('[study]\nmodel = "toy"\n[laws]\nfriction = "coulombe"\n', r"(?s)friction law 'coulombe'.*'coulomb'"),
        ('[study]\nmodel = "toy"\n[solver]\nrtoll = 1\n', r"(?s)unknown key 'rtoll' in \[solver\].*'rtol'"),
        ('[study]\nmodel = "toy"\n[solver]\nrtol = -1\n', r"\[solver\] rtol = -1"),
        ('[study]\nmodel = "toy"\n[output]\ncurves = 1\n', r"curves = 1: true or false"),
        ('[study]\nmodel = "toy"\n[output]\npoints = 1\n', r"points = 1: .*at least 2"),
    ],
)
def test_mistakes_in_a_file_are_named(tmp_path, text, pattern):
    with pytest.raises(InputError, match=pattern):
        Study.from_file(write(tmp_path, text))


def test_a_file_that_is_not_there_or_not_text(tmp_path):
    with pytest.raises(InputError, match="there is no file"):
        Study.from_file(tmp_path / "nothing.toml")
    with pytest.raises(InputError, match="cannot be read"):
        Study.from_file(tmp_path)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="cannot be read"):
        Study.from_file(tmp_path / "binary.toml")


# ---------------------------------------------------------------- derived numbers and conditions

HERTZ = """
[study]
model = "toy"
[vary]
E = { from = 1e8, to = 3e8, count = 3, unit = "Pa" }
height = [1, 2]
ball.mass = { with = "height", values = [3, 4] }
[set]
nu = 0.3
R = { value = 0.04, unit = "m" }
[derive]
k_n = "4/3 * E_star * sqrt(R)"
E_star = "E / (1 - nu**2)"
angle = "degrees(nu)"
gravity = "10 * height"
[require]
conditions = ["k_n < 1e8", "height * E < 5e8"]
"""


def test_derived_numbers_follow_their_formula_in_every_configuration(tmp_path):
    made = Study.from_file(write(tmp_path, HERTZ))
    modulus, height = np.repeat([1e8, 2e8, 3e8], 2), np.tile([1.0, 2.0], 3)
    stiffness = 4 / 3 * modulus / (1 - 0.3**2) * 0.2
    found = made.configurations(0, 6)
    np.testing.assert_allclose(found.params["k_n"], stiffness, rtol=1e-14)
    np.testing.assert_allclose(found.params["gravity"], 10 * height)
    np.testing.assert_allclose(found.params["ball.mass"], height + 2)
    assert set(found.params) == {"k_n", "gravity", "height", "ball.mass"}
    # stated units in what is derived (degrees), SI in what the model gets (radians)
    assert list(found.derived) == list(made.derived) == ["E_star", "k_n", "angle", "gravity"]
    np.testing.assert_allclose(found.derived["angle"], np.full(6, np.degrees(0.3)))
    assert made.constant_params() == pytest.approx({"angle": 0.3, "lift": -1.0})
    assert found.allowed.tolist() == ((stiffness < 1e8) & (height * modulus < 5e8)).tolist()
    assert 0 < found.allowed.sum() < 6
    assert made.constants() == {"lift": -1.0} and made.free_constants() == {"nu": 0.3, "R": 0.04}


def test_the_crutch_stiffness_comes_from_its_materials():
    # Crutch section 5: a tip of rubber (0.1 GPa, 0.5, 50 mm) on concrete (30 GPa, 0.2) makes the nominal k_n.
    made = study(
        MODELS["crutch"],
        vary={"E": {"values": [0.1e9, 0.2e9], "unit": "Pa"}},
        set={"R": 0.05},
        derive={"k_n": "hertz_stiffness(effective_modulus(E, 0.5, 30e9, 0.2), R)"},
        require={"conditions": ["R < leg.length"]},
    )
    nominal = next(p.default for p in MODELS["crutch"].parameters if p.name == "k_n")
    found = made.configurations(0, 2)
    assert found.params["k_n"][0] == pytest.approx(nominal, rel=1e-14)
    assert set(found.params) == {"k_n"} and found.allowed.all()


def test_every_number_has_a_unit_and_a_meaning(tmp_path):
    made = Study.from_file(write(tmp_path, HERTZ))
    units = {name: made.units_of(name) for name in (*made.space.names, *made.derived, *made.free_constants())}
    assert units == {
        "E": "Pa",
        "height": "m",
        "ball.mass": "kg",
        "E_star": "1",
        "k_n": "N/m^1.5",
        "angle": "deg",
        "gravity": "m/s^2",
        "nu": "1",
        "R": "m",
    }
    assert made.meaning_of("k_n") == "stiffness" and "free name" in made.meaning_of("E")
    assert made.meaning_of("E_star") == "derived: E / (1 - nu**2)"
    with pytest.raises(InputError, match="(?s)unknown name 'E_sta'.*'E_star'"):
        made.units_of("E_sta")


def test_angles_in_formulas_are_in_degrees():
    made = study(
        "toy", vary={"height": [1, 2]}, derive={"angle": "30 * height"}, require={"conditions": ["angle < 45"]}
    )
    found = made.configurations(0, 2)
    np.testing.assert_allclose(found.params["angle"], np.radians([30, 60]))
    assert found.allowed.tolist() == [True, False]


def test_impossible_numbers_are_let_through_for_the_model_to_refuse():
    derive = {"k_n": "1 / (height - 1)", "ball.mass": "sqrt(height - 2)", "gravity": "1e30 * height"}
    found = study("toy", vary={"height": [1, 2]}, derive=derive).configurations(0, 2)
    np.testing.assert_equal(found.params["k_n"], [np.inf, 1.0])
    np.testing.assert_equal(found.params["ball.mass"], [np.nan, 0.0])
    assert found.allowed.all()
    assert np.isnan(study("toy", derive={"k_n": "0 / 0"}).constant_params()["k_n"])


def test_one_configuration_has_only_constants():
    made = study("toy", set={"stiff": 3e6}, derive={"k_n": "2 * stiff"}, require={"conditions": ["stiff > k_n"]})
    found = made.configurations(0, 1)
    assert found.params == {} and found.derived == {"k_n": [6e6]} and found.allowed.tolist() == [False]
    assert made.constant_params()["k_n"] == 6e6


def test_excluded_is_a_status_with_a_sentence():
    assert STATUS[EXCLUDED] == STATUS[-1]
    assert STATUS[EXCLUDED][0] == "excluded" and "[require]" in STATUS[EXCLUDED][1]


@pytest.mark.parametrize(
    ("tables", "pattern"),
    [
        ({"derive": {"k_n": "E * 2"}}, r"(?s)unknown name 'E' in \[derive\] k_n.*\[vary\], \[set\] or \[cases\]"),
        ({"derive": {"k_n": "heigth * 2"}}, r"(?s)unknown name 'heigth' in \[derive\] k_n. Did you mean 'height'"),
        ({"require": {"conditions": ["heigth < 2"]}}, r"(?s)'heigth' in \[require\] conditions.*'height'"),
        ({"set": {"E": 2}}, r"(?s)unknown parameter 'E' in \[set\]"),
        ({"derive": {"k_n": "height"}, "set": {"k_n": 1e7}}, r"k_n is derived in \[derive\] and also given in \[set\]"),
        ({"derive": {"k_n": "t_fall"}, "set": {"t_fall": 3}}, r"\[derive\] k_n: t_fall is the name of a result"),
        ({"derive": {"k_n": "y"}, "vary": {"y": [3]}}, r"y is the name of a result"),
        ({"derive": {"k_n": "sample"}, "set": {"sample": 3}}, r"sample is the name of a result"),
        ({"derive": {"k_nn": "height"}}, r"(?s)unknown parameter 'k_nn' in \[derive\].*'k_n'"),
        ({"require": ["height < 2"]}, r"\[require\] must be a table"),
    ],
)
def test_mistakes_in_derivations_are_named(tables, pattern):
    with pytest.raises(InputError, match=pattern):
        study("toy", **tables)


# ---------------------------------------------------------------- any study


def ranges(draw, low, high):
    ends = st.floats(low, high)
    return {"from": draw(ends), "to": draw(ends), "scale": draw(st.sampled_from(["linear", "log"]))}


@st.composite
def any_study(draw):
    """The tables of a study over any kind of space, with or without links, free names, derivations and conditions."""
    kind = draw(st.sampled_from(["grid", "sample", "cases"]))
    size = draw(st.integers(1, 5))
    values = st.lists(st.floats(0.1, 80), min_size=size, max_size=size, unique=True)
    free = draw(st.booleans())
    names = ["height", "angle", *(["E"] if free else [])]
    tables = {"study": {"model": "toy", "method": draw(st.sampled_from(["compliant", "impulsive"])), "title": "t"}}
    unit = st.sampled_from([{}, {"unit": "Pa"}])
    if kind == "cases":
        columns = {name: draw(values) for name in names}
        if free:
            columns["E"] = {"values": columns["E"], **draw(unit)}
        index = {"index": draw(st.permutations(range(size)))} if draw(st.booleans()) else {}
        tables["cases"] = {"values": columns | index}
    elif kind == "sample":
        method = draw(st.sampled_from(["sobol", "latin", "random"]))
        tables["sample"] = {"count": size, "seed": draw(st.integers(0, 2**62)), "method": method}
        tables["vary"] = {name: ranges(draw, 0.1, 80) for name in names}
    else:
        tables["vary"] = {name: {"values": draw(values)} for name in names}
        tables["vary"]["height"] = {"from": 0.5, "to": draw(st.floats(1, 80)), "count": size}
    if kind != "cases":
        if free:
            tables["vary"]["E"] |= draw(unit)
        if draw(st.booleans()):
            tables["vary"]["angle"] |= {"with": "height"}
    tables["set"] = draw(st.sampled_from([{}, {"lift": 0.5}, {"gravity": {"value": 300, "unit": "cm/s^2"}}]))
    if free:
        tables["set"] = tables["set"] | {"pad.R": {"value": 0.3, **draw(unit)}}
        tables["derive"] = {"k_n": "E_star * sqrt(pad.R)", "E_star": "E * 2", "ball.mass": "pad.R"}
    if draw(st.booleans()):
        tables["require"] = {"conditions": ["height < angle", "not lift > 1"]}
    tables["solver"] = draw(st.sampled_from([{}, {"rtol": 1e-5, "max_time": 3.0}, {"stepper": "rk4"}]))
    tables["output"] = draw(st.sampled_from([{}, {"curves": True, "points": 7}]))
    return tables


@settings(deadline=None)  # the first Sobol points wait for scipy
@given(any_study())
def test_tables_make_the_same_study_again(tables):
    made = Study.from_dict(tables)
    written = made.to_tables()
    again = Study.from_dict(tomllib.loads(as_toml(written)))
    assert again.fingerprint() == made.fingerprint() and again.title == made.title
    assert again.to_tables() == written
    names = (*made.space.names, *made.derived)
    assert [again.units_of(name) for name in names] == [made.units_of(name) for name in names]
    ours, theirs = (which.configurations(0, made.space.total) for which in (made, again))
    assert (list(ours.params), list(ours.derived)) == (list(theirs.params), list(theirs.derived))
    for name, values in (ours.params | ours.derived).items():
        np.testing.assert_array_equal(values, (theirs.params | theirs.derived)[name])


@settings(deadline=None)
@given(any_study(), st.integers(0, 200), st.integers(0, 200))
def test_every_parameter_is_in_one_place_whatever_the_slice(tables, first, second):
    made = Study.from_dict(tables)
    total = made.space.total
    start, stop = sorted((first % (total + 1), second % (total + 1)))
    whole, part = made.configurations(0, total), made.configurations(start, stop)
    assert sorted([*part.params, *made.constant_params()]) == sorted(p.name for p in PARAMETERS)
    for ours, theirs in ((part.params, whole.params), (part.derived, whole.derived)):
        assert list(ours) == list(theirs)
        for name, values in ours.items():
            assert values.shape == (stop - start,) and values.dtype == np.float64
            np.testing.assert_array_equal(values, theirs[name][start:stop])
    np.testing.assert_array_equal(part.allowed, whole.allowed[start:stop])


def as_toml(tables):
    """Write plain tables as TOML: every value inline, every name in quotes."""

    def inline(value):
        if isinstance(value, dict):
            return "{" + ", ".join(f'"{name}" = {inline(inner)}' for name, inner in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(inline(inner) for inner in value) + "]"
        if isinstance(value, bool):
            return "true" if value else "false"
        assert isinstance(value, (str, int, float))
        return f'"{value}"' if isinstance(value, str) else repr(value)

    return "\n".join(f"{name} = {inline(table)}" for name, table in tables.items())


def test_an_endless_max_time_is_left_out():
    assert "max_time" not in study("toy").to_tables()["solver"]
    assert study("toy", solver={"max_time": 2.0}).to_tables()["solver"]["max_time"] == 2.0


@pytest.mark.parametrize("sample", [None, {"count": 10**8, "method": "latin"}, {"count": 10**8, "method": "random"}])
def test_a_hundred_million_derived_points_cost_nothing_until_run(sample):
    count = {"count": 10_000} if sample is None else {}
    tracemalloc.start()
    began = time.perf_counter()
    made = study(
        "toy",
        vary={
            "E": {"from": 1e8, "to": 1e9, "scale": "log", **count},
            "height": {"from": 1, "to": 2, **count},
            "angle": {"with": "E", "from": 0, "to": 45},
        },
        sample=sample,
        derive={"k_n": "hertz_stiffness(E, height / 100)"},
        require={"conditions": ["k_n < 1e8"]},
    )
    found = made.configurations(made.space.total - 1000, made.space.total)
    made.fingerprint(), made.to_tables()
    memory, took = tracemalloc.get_traced_memory()[1], time.perf_counter() - began
    tracemalloc.stop()
    assert made.space.total == 10**8 and found.params["k_n"].shape == (1000,)
    assert memory < 1_000_000 and took < 1.0


def test_single_precision_has_tolerances_that_it_can_reach():
    with double_precision(False):
        assert study("toy").settings.rtol == 1e-5
        assert study("toy", solver={"rtol": 1e-4}).settings.rtol == 1e-4
        study("toy", solver={"stepper": "rk4", "rtol": 1e-9})  # fixed steps have no tolerance
        with pytest.raises(InputError, match=r"(?s)rtol = 1e-07: float32 has 7 digits.*allowed: 2e-06 or more"):
            study("toy", solver={"rtol": 1e-7})
    assert study("toy").settings.rtol == 1e-7
