"""Text holds the same numbers as the dataset: every digit in CSV, five for a person, and never all rows in memory."""

import csv
import io
import math
import os
import tracemalloc

import numpy as np
import pytest
import xarray as xr
from lazy_array import LazyArray
from toy_model import toy_model

from jaxcontact.errors import InputError
from jaxcontact.integrate.machine import STATUS_NAMES
from jaxcontact.study import load, run, study
from jaxcontact.study import table as table_module
from jaxcontact.study.folder import save
from jaxcontact.study.table import print_table, write_csv


@pytest.fixture(scope="module")
def grid():
    vary = {"height": {"from": 0.1, "to": 7, "count": 5}, "angle": [10, 50, 85]}
    return run(study(toy_model(), vary=vary, output={"curves": True, "points": 3}))


def rows_of(dataset, **options):
    stream = io.StringIO()
    write_csv(dataset, stream, **options)
    return list(csv.reader(io.StringIO(stream.getvalue())))


def printed(dataset, **options):
    stream = io.StringIO()
    print_table(dataset, stream, **options)
    return stream.getvalue().splitlines()


# ---------------------------------------------------------------- CSV


def test_csv_reads_back_to_the_same_floats_in_the_order_of_the_grid(grid):
    header, *rows = rows_of(grid)
    assert header[:4] == ["height [m]", "angle [deg]", "t_fall [s]", "weight [N]"]
    assert "slope" in header and "n_steps" in header  # pure numbers have no unit
    assert len(rows) == 15
    columns = dict(zip(header, zip(*rows, strict=True), strict=True))
    for name, cell in (("t_fall", "t_fall [s]"), ("slope", "slope"), ("F_peak", "F_peak [N]")):
        assert [float(text) for text in columns[cell]] == grid[name].values.ravel().tolist()
    assert [float(text) for text in columns["height [m]"]] == np.repeat(grid["height"].values, 3).tolist()
    assert [float(text) for text in columns["angle [deg]"]] == [10.0, 50.0, 85.0] * 5
    assert [int(text) for text in columns["n_steps"]] == grid["n_steps"].values.ravel().tolist()


def test_codes_are_written_by_name(grid):
    header, *rows = rows_of(grid, outcomes=["status", "regime"])
    assert header == ["height [m]", "angle [deg]", "status", "regime"]
    assert [row[2:] for row in rows[:3]] == [["finished", "sticks"], ["finished", "slides_down"]] + [
        ["cannot_touch", "slides_down"]
    ]


def test_what_a_method_does_not_define_is_nan_and_a_code_empty():
    dataset = xr.Dataset(
        {
            "F": ("mu", [1.0, np.nan], {"units": "N"}),
            "regime": ("mu", np.array([-1, 0], np.int8), {"flag_values": [0], "flag_meanings": "none"}),
        },
        {"mu": ("mu", [0.5, 1.0])},
    )
    assert rows_of(dataset) == [["mu", "F [N]", "regime"], ["0.5", "1.0", ""], ["1.0", "nan", "none"]]


def test_single_precision_has_the_digits_that_it_needs_and_no_more():
    values = np.array([0.1, 1 / 3, 1e-20, 16777217.0], np.float32)
    rows = rows_of(xr.Dataset({"a": ("i", values)}, {"i": ("i", np.arange(4))}))
    assert rows[1][1] == "0.1"
    assert np.array([row[1] for row in rows[1:]], dtype=np.float32).tolist() == values.tolist()


def test_a_header_is_that_of_a_file_of_cases(tmp_path, grid):
    """The parameters' columns, written by us, are read as cases of a new study."""
    rows = rows_of(grid, outcomes=["slope"])
    with (tmp_path / "cases.csv").open("w", newline="") as file:
        csv.writer(file).writerows(row[:2] for row in rows)
    again = run(study(toy_model(), cases={"file": tmp_path / "cases.csv"}))
    assert again["t_fall"].values.tolist() == grid["t_fall"].values.ravel().tolist()


@pytest.mark.parametrize("slice_rows", [1, 2, 4, 7, 100])
def test_slices_do_not_show(monkeypatch, grid, slice_rows):
    whole, long = rows_of(grid), rows_of(grid, curves=True)
    monkeypatch.setattr(table_module, "SLICE", slice_rows)
    assert rows_of(grid) == whole
    assert rows_of(grid, curves=True) == long


def test_curves_are_long(grid):
    header, *rows = rows_of(grid, curves=True)
    assert header == ["height [m]", "angle [deg]", "fraction", "t [s]", "y [m]", "weight_curve [N]"]
    assert len(rows) == 15 * 3
    assert [row[2] for row in rows[:4]] == ["0.0", "0.5", "1.0", "0.0"]
    assert [float(row[4]) for row in rows] == grid["y"].values.ravel().tolist()
    mixed = rows_of(grid, curves=True, outcomes=["y", "slope"])
    assert [float(row[4]) for row in mixed[1:]] == np.repeat(grid["slope"].values.ravel(), 3).tolist()


def test_select_takes_the_nearest_value_and_keeps_it_as_a_column(grid):
    rows = rows_of(grid, select={"angle": 48}, outcomes=["slope"])
    assert rows[0] == ["angle [deg]", "height [m]", "slope"]
    assert {row[0] for row in rows[1:]} == {"50.0"}
    assert len(rows) == 6


def test_samples_have_their_parameters_in_the_order_of_the_study_and_outcomes_in_that_of_the_model(tmp_path):
    ranges = {"mu": {"from": 0.5, "to": 1.0}, "q3": {"from": 3, "to": 21}, "dq5": {"from": -0.2, "to": 0.2}}
    made = run(study("crutch", "impulsive", vary=ranges, sample={"count": 3}))
    save(tmp_path / "out", fingerprint="f", dataset=made)
    opened = load(tmp_path / "out")
    assert list(opened.data_vars) != list(made.data_vars)  # a Zarr store sorts names by the alphabet
    header = rows_of(opened)[0]
    assert header[:6] == ["mu", "q3 [deg]", "dq5 [rad/s]", "P_n [N s]", "P_t [N s]", "W_n [J]"]
    assert rows_of(opened) == rows_of(made)


def test_linked_parameters_are_columns_and_may_be_selected():
    dataset = xr.Dataset(
        {"F": ("k_n", [1.0, 2.0, 3.0], {"units": "N"})},
        {"k_n": ("k_n", [1e6, 2e6, 4e6], {"units": "N/m"}), "chi": ("k_n", [1.0, 2.0, 4.0], {"units": "s/m"})},
    )
    assert rows_of(dataset)[:2] == [["k_n [N/m]", "chi [s/m]", "F [N]"], ["1000000.0", "1.0", "1.0"]]
    assert rows_of(dataset, select={"chi": 3.5})[1] == ["4000000.0", "4.0", "3.0"]


def test_memory_does_not_grow_with_the_rows(monkeypatch):
    monkeypatch.setattr(table_module, "SLICE", 2**12)

    def peak(slices):
        rows = slices * table_module.SLICE
        dataset = xr.Dataset({"F": LazyArray((rows // 64, 64), lambda i, j: i / (j + 1)).variable("a", "b")})
        tracemalloc.start()
        with open(os.devnull, "w") as sink:
            write_csv(dataset, sink)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    assert peak(4) < 1.2 * peak(2)


# ---------------------------------------------------------------- for a person


def test_a_table_is_aligned_with_units_below_the_names(grid):
    lines = printed(grid, outcomes=["t_fall", "status"], limit=3)
    assert lines == [
        "height  angle   t_fall  status      ".rstrip(),
        "     m    deg        s",
        "   0.1     10  0.14278  finished",
        "   0.1     50  0.14278  finished",
        "   0.1     85  0.14278  cannot_touch",
        "... and 12 more rows: `jaxcontact table DIR --csv` prints all",
    ]


def test_a_short_table_is_whole(grid):
    assert len(printed(grid, limit=15)) == 2 + 15
    assert printed(grid, limit=14)[-1] == "... and 1 more row: `jaxcontact table DIR --csv` prints all"


def test_columns_that_do_not_fit_are_named(grid):
    lines = printed(grid, width=40, limit=2)
    assert all(len(line) <= 40 for line in lines[:4])
    assert lines[-1].startswith("left out, to fit 40 characters: ") and "status" in lines[-1]
    assert "t_fall" in printed(grid, width=1, limit=2)[0]  # parameters and one outcome are always there


def test_undefined_outcomes_are_left_out_unless_named():
    dataset = run(study(toy_model(), "impulsive", vary={"height": [1, 2]}))
    assert "F_peak" not in printed(dataset)[0]
    assert printed(dataset, outcomes=["F_peak"])[2].split() == ["1", "nan"]


def test_one_configuration_is_a_line_per_number():
    lines = printed(run(study(toy_model(), set={"height": 8})))
    assert lines[0].split(maxsplit=3) == ["t_fall", f"{math.sqrt(2 * 8 / 9.81):.8g}", "s", "time of the fall"]
    assert any(line.split()[:2] == ["status", "finished"] for line in lines)
    chosen = printed(run(study(toy_model(), vary={"height": [7, 8]})), select={"height": 8})
    assert chosen[0].split(maxsplit=3) == ["height", "8", "m", "height of the drop"]


def test_only_the_rows_that_are_printed_are_read():
    array = LazyArray((10_000, 10_000), lambda i, j: 10_000 * i + j)
    lines = printed(xr.Dataset({"F": array.variable("a", "b")}), limit=20)
    assert [line.split() for line in lines[2:22]] == [["0", str(j), str(j)] for j in range(20)]
    assert lines[-1].startswith("... and 99999980 more rows")
    assert array.read == 20


# ---------------------------------------------------------------- errors


def test_errors_name_what_is_wrong_and_what_is_allowed(grid):
    with pytest.raises(InputError, match="unknown outcome 't_fal'. Did you mean 't_fall'"):
        rows_of(grid, outcomes=["t_fal"])
    with pytest.raises(InputError, match="outcome 'y' is a time history"):
        rows_of(grid, outcomes=["y"])
    with pytest.raises(InputError, match="unknown dimension 'heigth' in select. Did you mean 'height'"):
        printed(grid, select={"heigth": 1})
    with pytest.raises(InputError, match="select height = 9: outside its axis\nallowed: 0.1 to 7 m"):
        printed(grid, select={"height": 9})
    with pytest.raises(InputError, match="select height = 'tall': a number is needed"):
        printed(grid, select={"height": "tall"})
    with pytest.raises(InputError, match="outside its axis"):
        printed(grid, select={"height": float("nan")})
    with pytest.raises(InputError, match="there are no curves"):
        rows_of(run(study(toy_model(), vary={"height": [1, 2]})), curves=True)
    with pytest.raises(InputError, match="limit = 0: a whole number of at least 1"):
        printed(grid, limit=0)


def test_a_dimension_of_names_is_selected_by_name():
    dataset = xr.Dataset(
        {"F": (("approach", "q"), [[1.0, 2.0], [3.0, 4.0]])},
        {"approach": ("approach", ["compliant", "impulsive"]), "q": ("q", [1.0, 2.0])},
    )
    assert rows_of(dataset, select={"approach": "impulsive"})[1] == ["impulsive", "1.0", "3.0"]
    with pytest.raises(InputError, match="unknown approach 'impulsiv' in select. Did you mean 'impulsive'"):
        rows_of(dataset, select={"approach": "impulsiv"})


def test_joined_studies_are_printed_apart():
    dataset = xr.Dataset(
        {"a": ("p", [1.0, 2.0]), "b": ("r", [3.0, 4.0, 5.0]), "status": ("p", np.ones(2, np.int8))},
        {"p": ("p", [0.0, 1.0]), "r": ("r", [0.0, 1.0, 2.0])},
    )
    dataset["status"].attrs["flag_meanings"] = " ".join(STATUS_NAMES)
    assert rows_of(dataset)[0] == ["p", "a", "status"]
    assert rows_of(dataset, outcomes=["b"])[0] == ["r", "b"]
    with pytest.raises(InputError, match="a and b vary along different dimensions"):
        rows_of(dataset, outcomes=["a", "b"])
