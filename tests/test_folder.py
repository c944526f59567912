"""Results come back as they were, appear whole or not at all, and never replace what belongs to someone else."""

import json
import os

import numpy as np
import pytest
import xarray as xr
from toy_model import double_precision, toy_model

from jaxcontact.errors import InputError
from jaxcontact.study import load, run, study
from jaxcontact.study.folder import CARD, RESULTS, check_free, save


@pytest.fixture
def result():
    with double_precision():
        return run(
            study(
                toy_model(),
                "impulsive",
                vary={"angle": [0, 60, 85], "ball.mass": [1, 2]},
                output={"curves": True, "points": 3},
            )
        )


def files(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_saved_dataset_comes_back_identical(tmp_path, result):
    save(tmp_path / "a" / "b", fingerprint="f", dataset=result)
    xr.testing.assert_identical(load(tmp_path / "a" / "b").load(), result)
    # and xarray alone, as a stranger would open it; warnings are errors in our tests
    opened = xr.open_zarr(tmp_path / "a" / "b" / RESULTS).load()
    assert {n: v.dtype for n, v in opened.variables.items()} == {n: v.dtype for n, v in result.variables.items()}
    assert opened["status"].attrs["flag_meanings"] == result["status"].attrs["flag_meanings"]


def test_samples_come_back_with_their_coordinates(tmp_path):
    made = run(study(toy_model(), vary={"ball.mass": {"from": 1, "to": 2}}, sample={"count": 5}))
    save(tmp_path / "out", fingerprint="f", dataset=made)
    xr.testing.assert_identical(load(tmp_path / "out").load(), made)


def test_the_same_study_may_replace_its_result_and_another_may_not(tmp_path, result):
    save(tmp_path / "out", fingerprint="mine", title="my study", dataset=result)
    before = files(tmp_path)
    with pytest.raises(InputError, match=r"another study's results \(my study\)"):
        check_free(tmp_path / "out", {"fingerprint": "other"})
    with pytest.raises(InputError, match="another study's"):
        save(tmp_path / "out", fingerprint="other", dataset=result)
    assert files(tmp_path) == before
    changed = result.assign(slope=result["slope"] + 1)
    save(tmp_path / "out", fingerprint="mine", dataset=changed)
    xr.testing.assert_identical(load(tmp_path / "out").load(), changed)
    assert sorted(os.listdir(tmp_path / "out")) == sorted([CARD, RESULTS])


def test_a_folder_with_other_files_is_refused_and_left_alone(tmp_path, result):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=r"(?s)other files \(thesis.tex\).*new or empty"):
        save(tmp_path, fingerprint="f", dataset=result)
    assert files(tmp_path) == {"thesis.tex": b"years of work"}


def test_an_empty_folder_is_free(tmp_path):
    check_free(tmp_path, {"fingerprint": "f"})
    check_free(tmp_path / "new" / "folder", {"fingerprint": "f"})
    assert files(tmp_path) == {} and os.listdir(tmp_path) == []


@pytest.mark.parametrize("card", ["", "[]", "{"])
def test_a_damaged_card_is_nobodys(tmp_path, card):
    (tmp_path / CARD).write_text(card)
    with pytest.raises(InputError, match="damaged"):
        check_free(tmp_path, {"fingerprint": "f"})


def test_a_file_in_the_way_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "file", tmp_path / "file" / "deeper"):
        with pytest.raises(InputError, match="is a file"):
            check_free(place, {"fingerprint": "f"})


def test_a_failed_write_leaves_the_old_result(tmp_path, result, monkeypatch):
    save(tmp_path / "out", fingerprint="f", dataset=result)

    def full_disk(self, path, **options):
        path.mkdir()
        (path / "half").write_text("torn")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(xr.Dataset, "to_zarr", full_disk)
    with pytest.raises(OSError, match="No space"):
        save(tmp_path / "out", fingerprint="f", dataset=result)
    xr.testing.assert_identical(load(tmp_path / "out").load(), result)
    monkeypatch.undo()
    save(tmp_path / "out", fingerprint="f", dataset=result)  # and the next save sweeps up
    assert sorted(os.listdir(tmp_path / "out")) == sorted([CARD, RESULTS])


def test_figures_are_saved_beside_the_result(tmp_path):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2, 1))
    figure.subplots().plot([0, 1], [0, 1])
    save(tmp_path / "out", fingerprint="f", title="t", figures={"line": figure})
    assert (tmp_path / "out" / "line.png").read_bytes().startswith(b"\x89PNG")
    card = json.loads((tmp_path / "out" / CARD).read_text())
    assert (card["fingerprint"], card["title"]) == ("f", "t")


def test_nothing_to_load_is_said(tmp_path):
    with pytest.raises(InputError, match="no results"):
        load(tmp_path)


def test_zeros_are_not_taken_for_missing(tmp_path):
    """Zarr 2 readers take an array's fill value for missing data: a zero must stay a zero, an integer an integer."""
    zeros = xr.Dataset({"i": ("x", np.zeros(3, np.int8)), "f": ("x", np.zeros(3)), "s": ((), 0)})
    save(tmp_path / "out", fingerprint="f", dataset=zeros)
    xr.testing.assert_identical(load(tmp_path / "out").load(), zeros)
