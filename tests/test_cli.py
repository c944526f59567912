"""The command: what it prints, where it saves, and that bad input gives a line or two, exit code 2 and no files."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import xarray as xr
from toy_model import double_precision, toy_model

import jaxcontact.models
from jaxcontact import cli
from jaxcontact.errors import unknown
from jaxcontact.study import named
from jaxcontact.study.version import package_version

TOY = '[study]\nmodel = "toy"\n'

PUBLISHED = '''
"""Table 1: a ball that falls.

More words, which the list leaves out.
"""

raise_on_import = {broken}
if raise_on_import:
    raise RuntimeError("a list must not import the studies")


def run(progress):
    from matplotlib.figure import Figure
    from jaxcontact.study.published import Published
    import xarray as xr

    figure = Figure(figsize=(2, 1))
    figure.subplots().plot([0, 1])
    progress(1, 1)
    return Published(text="the table", dataset=xr.Dataset({{"a": ("x", [1.0])}}), figures={{"fall": figure}})
'''


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    """An empty working directory, a toy model known by name, and JAX left as the other tests expect it."""
    toy = toy_model()

    def get_model(name):
        if name != "toy":
            raise unknown("model", name, ["toy"])
        return toy

    monkeypatch.setattr(jaxcontact.models, "get_model", get_model, raising=False)
    monkeypatch.setattr("jaxcontact.cli.running.prepare_jax", lambda *choice: None)
    monkeypatch.chdir(tmp_path)
    with double_precision():
        yield tmp_path


@pytest.fixture
def published(tmp_path_factory, monkeypatch):
    """A folder of published studies in place of the real one."""
    folder = tmp_path_factory.mktemp("studies")
    (folder / "fall.py").write_text(PUBLISHED.format(broken=False).lstrip())
    (folder / "broken.py").write_text(PUBLISHED.format(broken=True).lstrip())
    (folder / "_helper.py").write_text('"""Not a study."""\n')
    (folder / "__init__.py").write_text("")
    for name in [name for name in sys.modules if name.startswith(named.PACKAGE)]:
        monkeypatch.delitem(sys.modules, name)
    spec = named.importlib.util.spec_from_file_location(
        named.PACKAGE, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    monkeypatch.setitem(sys.modules, named.PACKAGE, named.importlib.util.module_from_spec(spec))
    yield folder
    sys.modules.pop(f"{named.PACKAGE}.fall", None)


def everything_under(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


# ---------------------------------------------------------------- what works


def test_run_a_file_saves_a_dataset_and_says_where(workplace, capsys):
    Path("fall.toml").write_text(TOY + "[vary]\nheight = [1, 2, 3]\nangle = [10, 85]\n")
    assert cli.main(["run", "fall.toml"]) == 0
    out, err = capsys.readouterr()
    assert all(line.startswith("fall: ") for line in err.splitlines())  # nothing but progress, on a slow machine
    assert "toy, compliant: 6 configurations (height 3 x angle 2)" in out
    assert "3 of 6 configurations did not finish" in out and "3 cannot_touch" in out
    result = xr.open_zarr("results/fall/results.zarr")
    assert dict(result.sizes) == {"height": 3, "angle": 2}
    assert f"saved in {Path('results/fall')}" in out
    card = json.loads(Path("results/fall/study.json").read_text())
    assert card["fingerprint"] == result.attrs["fingerprint"]


def test_run_one_configuration_prints_its_outcomes(capsys):
    Path("one.toml").write_text(TOY + "[set]\nheight = 4.905\ngravity = 9.81\nangle = 45\n")
    assert cli.main(["run", "one.toml", "--out", "here", "--chunk", "8"]) == 0
    out = capsys.readouterr().out
    lines = {line.split()[0]: line.split() for line in out.splitlines() if line}
    assert float(lines["t_fall"][1]) == pytest.approx(1.0, rel=1e-7) and lines["t_fall"][2] == "s"
    assert lines["status"][1] == "finished"
    assert xr.open_zarr("here/results.zarr")["t_fall"].dims == ()


def test_the_same_study_runs_again_and_another_is_refused(workplace, capsys):
    Path("a.toml").write_text(TOY + "[vary]\nheight = [1, 2]\n")
    Path("b.toml").write_text(TOY + "[vary]\nheight = [1, 3]\n")
    assert cli.main(["run", "a.toml", "--out", "out"]) == 0
    assert cli.main(["run", "a.toml", "--out", "out"]) == 0
    assert cli.main(["run", "b.toml", "--out", "out"]) == 2
    assert "another study's results" in capsys.readouterr().err
    assert xr.open_zarr("out/results.zarr")["height"].values.tolist() == [1, 2]


def test_run_a_published_study_prints_and_saves(published, capsys):
    assert cli.main(["run", "fall"]) == 0
    out = capsys.readouterr().out
    assert "the table" in out and f"saved in {Path('results/fall')}" in out
    assert sorted(os.listdir("results/fall")) == ["fall.png", "results.zarr", "study.json"]
    assert json.loads(Path("results/fall/study.json").read_text())["title"] == "Table 1: a ball that falls"


def test_list_reads_titles_without_importing(published, capsys):
    assert cli.main(["list"]) == 0
    rows = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert rows[1:] == [["broken", "Table 1: a ball that falls"], ["fall", "Table 1: a ball that falls"]]


def test_describe_shows_every_parameter_outcome_method_and_law(capsys):
    assert cli.main(["describe", "toy"]) == 0
    out = capsys.readouterr().out
    toy = toy_model()
    for item in (*toy.parameters, *toy.outcomes, *toy.curve_outcomes):
        assert item.name in out and item.meaning in out
    (height,) = [line for line in out.splitlines() if line.startswith("height ")]
    assert height.split()[:6] == ["height", "m", "2", "0.001", "to", "100"]
    assert "methods: compliant, impulsive" in out
    assert "friction: coulomb, none" in out


def test_version_and_help(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == f"jaxcontact {package_version()}"
    assert cli.main(["--help"]) == 0
    assert "describe" in capsys.readouterr().out


# ---------------------------------------------------------------- bad input

FILES = {
    "unknown model": ('[study]\nmodel = "toi"\n', "'toy'"),
    "no model": ("[study]\n", "must name a model"),
    "unknown method": (TOY + 'method = "complaint"\n', "'compliant'"),
    "unknown table": (TOY + "[vari]\n", "'vary'"),
    "unknown parameter": (TOY + "[set]\nheigth = 1\n", "'height'"),
    "unknown dotted parameter": (TOY + "[set]\nball.mas = 1\n", "'ball.mass'"),
    "unknown key": (TOY + "[vary]\nheight = { from = 1, too = 2, count = 2 }\n", "'to'"),
    "unknown unit": (TOY + '[set]\nheight = { value = 1, unit = "ft" }\n', "m, cm, mm"),
    "unknown law": (TOY + '[laws]\nfriction = "colomb"\n', "'coulomb'"),
    "unknown setting": (TOY + "[solver]\nrtoll = 1e-3\n", "'rtol'"),
    "bad setting": (TOY + "[solver]\nrtol = 0\n", "above 0"),
    "out of bounds": (TOY + "[vary]\nheight = [1, 1000]\n", "0.001 to 100 m"),
    "empty axis": (TOY + "[vary]\nheight = []\n", "empty"),
    "nan": (TOY + "[set]\nheight = nan\n", "not a finite number"),
    "text for a number": (TOY + '[set]\nheight = "1"\n', "not a number"),
    "zero count": (TOY + "[vary]\nheight = { from = 1, to = 2, count = 0 }\n", "at least 1"),
    "log of zero": (TOY + '[vary]\nangle = { from = 0, to = 2, count = 3, scale = "log" }\n', "above 0"),
    "varied and set": (TOY + "[vary]\nheight = [1]\n[set]\nheight = 1\n", "both varied"),
    "missing csv": (TOY + '[cases]\nfile = "none.csv"\n', "no file none.csv"),
    "cannot touch": (TOY + "[set]\nangle = 85\n", "cannot_touch"),
    "moving up": (TOY + "[set]\nlift = 1\n", "moving_up"),
    "broken toml": ("[study\n", "line 1"),
}


def assert_refused(code, capsys, folder, before, hint):
    out, err = capsys.readouterr()
    assert code == 2
    assert out == ""
    assert err.startswith("jaxcontact: ") and hint in err
    assert 1 <= len(err.splitlines()) <= 2
    assert "Traceback" not in err
    assert everything_under(folder) == before


@pytest.mark.parametrize("case", FILES)
def test_a_bad_file_is_refused(case, workplace, capsys):
    text, hint = FILES[case]
    Path("study.toml").write_text(text)
    before = everything_under(workplace)
    assert_refused(cli.main(["run", "study.toml", "--out", "out"]), capsys, workplace, before, hint)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ([], "COMMAND"),
        (["rnu", "x"], "'run'"),
        (["run"], "NAME_OR_FILE"),
        (["run", "fal"], "'fall'"),
        (["run", "zzzzzz"], "ends in .toml"),
        (["run", "none.toml"], "no file none.toml"),
        (["run", "fall", "--cunk", "3"], "--cunk"),
        (["run", "fall", "--chunk", "x"], "--chunk"),
        (["run", "fall", "--chunk", "0"], "at least 1"),
        (["run", "fall", "--chunk", "8"], ".toml"),
        (["describe", "tooy"], "'toy'"),
        (["describe"], "MODEL"),
        (["list", "more"], "more"),
        (["--nonsense"], "COMMAND"),
    ],
)
def test_bad_arguments_are_refused(arguments, hint, published, workplace, capsys):
    assert_refused(cli.main(arguments), capsys, workplace, [], hint)


@pytest.mark.parametrize("target", ["fall", "study.toml"])
def test_a_directory_with_other_files_is_refused_before_anything_runs(
    target, published, workplace, capsys, monkeypatch
):
    Path("study.toml").write_text(TOY)
    Path("out").mkdir()
    Path("out/thesis.tex").write_text("years of work")
    monkeypatch.setattr("jaxcontact.study.sweep.compute", lambda *a, **k: pytest.fail("it ran"))
    monkeypatch.setattr(named, "load_named", lambda name: pytest.fail("it ran"))
    before = everything_under(workplace)
    assert_refused(cli.main(["run", target, "--out", "out"]), capsys, workplace, before, "thesis.tex")
    assert Path("out/thesis.tex").read_text() == "years of work"


def test_a_file_where_the_directory_should_be_is_refused(workplace, capsys):
    Path("study.toml").write_text(TOY)
    before = everything_under(workplace)
    assert_refused(cli.main(["run", "study.toml", "--out", "study.toml"]), capsys, workplace, before, "is a file")


@pytest.mark.parametrize(
    ("problem", "code", "says"),
    [
        (KeyboardInterrupt(), 130, "stopped"),
        (PermissionError(13, "Permission denied", "out"), 2, "out: Permission denied"),
        (OSError(28, "No space left on device"), 2, "No space left on device"),
    ],
)
def test_trouble_while_saving_is_one_line(problem, code, says, capsys, monkeypatch):
    def trouble(*arguments, **options):
        raise problem

    Path("study.toml").write_text(TOY)
    monkeypatch.setattr("jaxcontact.study.store.Store.write", trouble)
    assert cli.main(["run", "study.toml"]) == code
    err = capsys.readouterr().err
    assert err.splitlines() == [err.strip()] and says in err


# ---------------------------------------------------------------- a process of its own


def run_python(code, **environment):
    """Run code in a fresh interpreter, as `jaxcontact` does. The clone is importable from anywhere."""
    clone = str(Path(jaxcontact.models.__file__).parents[2])
    plain = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env={**plain, "PYTHONPATH": clone, **environment},
        timeout=120,
    )


def test_list_needs_neither_jax_nor_xarray():
    done = run_python("""
        import sys
        from jaxcontact.cli import main
        assert main(["list"]) == 0 and main(["rnu"]) == 2
        assert not {"jax", "xarray", "matplotlib"} & set(sys.modules), "heavy imports"
    """)
    assert done.returncode == 0, done.stderr


def test_the_command_chooses_double_precision_and_a_cache_and_the_library_nothing(tmp_path):
    done = run_python(
        """
        import jax
        import jaxcontact.study.sweep, jaxcontact.models
        assert not jax.config.jax_enable_x64 and jax.config.jax_compilation_cache_dir is None
        from jaxcontact.cli.device import prepare_jax
        prepare_jax()
        print(jax.config.jax_enable_x64, jax.config.jax_compilation_cache_dir)
        """,
        XDG_CACHE_HOME=str(tmp_path),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", str(tmp_path / "jaxcontact" / "xla")]


def test_a_cache_that_cannot_be_made_is_done_without(tmp_path):
    (tmp_path / "file").write_text("in the way")
    done = run_python(
        """
        import jax
        from jaxcontact.cli.device import prepare_jax
        prepare_jax()
        print(jax.config.jax_enable_x64, jax.config.jax_compilation_cache_dir)
        """,
        XDG_CACHE_HOME=str(tmp_path / "file"),
    )
    assert done.stdout.split() == ["True", "None"], done.stderr


# ---------------------------------------------------------------- the crutch itself

CRUTCH = '[study]\nmodel = "crutch"\nmethod = "impulsive"\n[set]\n'


@pytest.mark.parametrize(
    ("fixed", "hint"),
    [
        ("q3 = 0\nq4 = 0\nq5 = 0", "cannot_touch"),  # arms straight up: the tip is far above the ground
        ("dq3 = 0\ndq4 = 0\ndq5 = 0\ndq6 = -1", "moving_up"),  # the forearm alone swings the tip up
        ("qq3 = 1", "'q3'"),
        ("q3 = 1000", "deg"),
    ],
)
def test_impossible_crutches_are_refused(fixed, hint, workplace, capsys, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr("jaxcontact.cli.running.prepare_jax", lambda *choice: None)
    monkeypatch.chdir(workplace)
    Path("study.toml").write_text(CRUTCH + fixed + "\n")
    assert_refused(cli.main(["run", "study.toml"]), capsys, workplace, ["study.toml"], hint)
