"""A study is the same whether it is written in TOML or in Python, and a mistake in it is named before anything runs."""

import pytest
from toy_model import toy_model

from jaxcontact.errors import InputError
from jaxcontact.integrate.settings import Settings
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


@pytest.fixture(autouse=True)
def toy_by_name(monkeypatch):
    toy = toy_model()
    monkeypatch.setattr("jaxcontact.models.get_model", lambda name: toy, raising=False)
    return toy


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
