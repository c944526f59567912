"""`jaxcontact sensitivity FILE.toml`: what it prints and saves, that it goes on, and what it says to bad input."""

import numpy as np
import pytest
import xarray as xr
from toy_model import toy_model

import jaxcontact.models
from jaxcontact import cli
from jaxcontact.errors import unknown

TOY = '[study]\nmodel = "toy"\n'
RANGES = "[vary]\nheight = { from = 1.0, to = 4.0 }\ngravity = { from = 5.0, to = 15.0 }\n"
KNOWN = toy_model()


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    """An empty working directory, and a toy model known by name."""

    def get_model(name):
        if name != "toy":
            raise unknown("model", name, ["toy"])
        return KNOWN

    monkeypatch.setattr(jaxcontact.models, "get_model", get_model, raising=False)
    monkeypatch.setattr("jaxcontact.cli.sensing.prepare_jax", lambda *choice: None)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ask(text: str, *more: str, capsys) -> tuple[int, str, str]:
    """Write a study, ask for its sensitivity, and return code, output and errors."""
    with open("ask.toml", "w", encoding="utf-8") as file:
        file.write(text)
    code = cli.main(["sensitivity", "ask.toml", *more])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_derivatives_at_a_point_are_printed_and_saved(workplace, capsys):
    code, out, _ = ask(TOY + '[sensitivity]\nby = ["height", "gravity"]\noutcomes = ["t_fall"]\n', capsys=capsys)
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "t_fall = 0.638551 s: time of the fall"
    assert lines[1].split() == ["parameter", "derivative", "elasticity"]
    assert lines[2].split() == ["height", "0.159638", "s/m", "0.5"]
    folder = workplace / "results" / "ask-sensitivity"
    assert f"saved in {folder.relative_to(workplace)}" in out and (folder / "sensitivity.png").stat().st_size > 10_000
    saved = xr.open_zarr(folder / "results.zarr", chunks=None)
    np.testing.assert_allclose(saved["elasticity_t_fall"], [0.5, -0.5])
    # Asked again it may be answered again; another question needs another place.
    assert ask(TOY + '[sensitivity]\nby = ["height", "gravity"]\noutcomes = ["t_fall"]\n', capsys=capsys)[0] == 0
    other = TOY + '[sensitivity]\nby = ["height"]\noutcomes = ["t_fall"]\n'
    code, _, err = ask(other, capsys=capsys)
    assert code == 2 and "already holds another study's results" in err and "--fresh" in err
    assert ask(other, "--fresh", capsys=capsys)[0] == 0
    assert xr.open_zarr(folder / "results.zarr", chunks=None).sizes["parameter"] == 1


def test_shares_of_variance_go_through_a_store_and_are_gone_on_with(workplace, capsys, monkeypatch):
    """log t = (log h - log g + log 2) / 2; over logarithmic ranges shares are those of the ranges' squares."""
    ranges = RANGES.replace(" }", ', scale = "log" }')
    text = TOY + ranges + '[sample]\ncount = 512\n[sensitivity]\nkind = "sobol"\noutcomes = ["t_fall", "weight"]\n'
    code, out, _ = ask(text, "--out", "here", "--chunk", "1000", capsys=capsys)
    assert code == 0 and "0 of 512 base points dropped" in out and "±: 95 % confidence" in out
    saved = xr.open_zarr("here/results.zarr", chunks=None)
    share = np.log(4.0) ** 2 / (np.log(4.0) ** 2 + np.log(3.0) ** 2)
    np.testing.assert_allclose(saved["ST"].sel(outcome="t_fall"), [share, 1 - share], atol=0.03)
    np.testing.assert_allclose(saved["ST"].sel(outcome="weight"), [0.0, 1.0], atol=0.01)
    runs = xr.open_zarr("here/runs/results.zarr", chunks=None)
    assert runs.sizes == {"sample": 512 * 6}

    def not_again(*arguments):
        raise AssertionError("it was run again")

    monkeypatch.setattr("jaxcontact.study.lanes.LaneDriver._feed", not_again)
    code, again, _ = ask(text, "--out", "here", "--chunk", "1000", capsys=capsys)
    assert code == 0 and again == out
    # What looks at sweeps is shown the way.
    for command in ("plot", "failures"):
        assert cli.main([command, "here"]) == 2
        err = capsys.readouterr().err
        assert "here holds a sensitivity analysis, drawn in here/sensitivity.png" in err and "here/runs" in err


def test_every_other_kind_prints_a_table_and_draws(workplace, capsys):
    tables = TOY + RANGES + '[output]\npoints = 3\n[sample]\ncount = 16\n[sensitivity]\noutcomes = ["t_fall", "y"]\n'
    for kind, heading in (("morris", "mu*"), ("dgsm", "bound on ST"), ("local", "elasticity")):
        code, out, err = ask(f'{tables}kind = "{kind}"\n', "--out", kind, capsys=capsys)
        assert code == 0, err
        assert heading in out and "y: height" in out and "nan" not in out
        assert (workplace / kind / "sensitivity.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[sensitivity]\nkind = "sobl"\n', ["[sensitivity]", "sobl", "sobol"]),
        ('[sensitivity]\nbye = ["height"]\n', ["[sensitivity]", "bye", "by"]),
        ('[sensitivity]\nby = ["hieght"]\n', ["[sensitivity] by", "hieght", "height"]),
        ('[sensitivity]\nkind = "sobol"\n', ["a Sobol analysis needs a design", "[sample]", "saltelli"]),
        ('[sample]\ncount = 64\n[sensitivity]\nkind = "sobol"\n', ["[sample] needs ranges in [vary]"]),
        (RANGES + '[sensitivity]\nkind = "sobol"\n', ["count"]),
        (
            RANGES + '[sample]\ncount = 64\n[sensitivity]\nkind = "sobol"\nby = ["height"]\n',
            ["by has no meaning", "all of [vary]"],
        ),
        (
            RANGES + '[sample]\ncount = 64\nmethod = "latin"\n[sensitivity]\nkind = "morris"\n',
            ["Morris screening", "another method"],
        ),
        ('[sensitivity]\nat = "time"\nresamples = 3\n', ["resamples has no meaning", 'kind = "local"']),
        ('[set]\nangle = 85\n[sensitivity]\nby = ["height"]\n', ["no derivative from the start", "cannot_touch"]),
        ("sensitivity = 3\n[set]\nangle = 8\n", ["[sensitivity]"]),
    ],
)
def test_bad_input_is_a_line_or_two_and_leaves_no_files(text, words, workplace, capsys):
    text = text + TOY if text.startswith("sensitivity =") else TOY + text
    code, out, err = ask(text, capsys=capsys)
    assert code == 2 and out == ""
    assert all(word in err for word in words), err
    assert "Traceback" not in err and len(err.splitlines()) <= 4
    assert [path.name for path in workplace.iterdir()] == ["ask.toml"]


def test_a_file_that_is_not_there_or_not_a_study(workplace, capsys):
    assert cli.main(["sensitivity", "none.toml"]) == 2 and "there is no file none.toml" in capsys.readouterr().err
    (workplace / "notes.txt").write_text("hello")
    assert cli.main(["sensitivity", "notes.txt"]) == 2 and "ends in .toml" in capsys.readouterr().err
    (workplace / "bad.toml").write_text("[study")
    assert cli.main(["sensitivity", "bad.toml"]) == 2 and "not valid TOML" in capsys.readouterr().err
    assert cli.main(["sensitivity", "bad.toml", "--lanes", "0"]) == 2 and "--lanes 0" in capsys.readouterr().err
