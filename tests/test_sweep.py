"""A sweep gives each configuration its own answer, in its place, with its unit, however the work is cut."""

import io
import itertools
import json
import math

import jax
import numpy as np
import pytest
import xarray as xr
from toy_model import double_precision, toy_model

from jaxcontact.errors import InputError
from jaxcontact.integrate.machine import CANNOT_TOUCH, EXCLUDED, FINISHED, MOVING_UP
from jaxcontact.study import run, study
from jaxcontact.study.beside import one_behind
from jaxcontact.study.execute import LocalExecutor, _builder, job_of
from jaxcontact.study.failures import describe_failures
from jaxcontact.study.lane_program import compiled_program
from jaxcontact.study.lanes import CPU_LANES
from jaxcontact.study.progress import ProgressDisplay

G = 9.81


@pytest.fixture(autouse=True)
def in_double_precision():
    with double_precision():
        yield


def test_a_grid_has_its_dimensions_in_order_and_the_closed_form_in_each_place():
    result = run(study(toy_model(), vary={"height": [1, 2, 3], "angle": [10, 20]}, set={"ball.mass": 2}))
    assert result["slope"].dims == ("height", "angle")
    assert result["slope"].shape == (3, 2)
    for height in (1, 2, 3):
        for angle in (10, 20):
            here = result.sel(height=height, angle=angle)
            assert float(here["slope"]) == pytest.approx(math.tan(math.radians(angle)), rel=1e-12)
            assert float(here["t_fall"]) == pytest.approx(math.sqrt(2 * height / G), rel=1e-12)
            assert float(here["weight"]) == pytest.approx(2 * G, rel=1e-12)  # no varied number enters it


def test_each_lane_takes_its_own_number_of_steps():
    heights = [0.5, 1.0, 90.0]
    result = run(study(toy_model(), vary={"height": heights}))
    # halvings until h / 2^n < 1e-3
    assert result["n_steps"].values.tolist() == [math.floor(math.log2(h / 1e-3)) + 1 for h in heights]


@pytest.mark.parametrize("chunk", [1, 3, 4, 7, 16, 4096])
def test_results_do_not_depend_on_the_chunk(chunk):
    described = study(
        toy_model(),
        vary={"height": {"from": 0.5, "to": 40, "count": 5}, "angle": [0, 50, 85]},
        output={"curves": True, "points": 5},
    )
    whole, cut = run(described), run(described, chunk=chunk)
    xr.testing.assert_allclose(whole, cut, rtol=1e-13)
    assert whole.attrs == cut.attrs


def test_what_does_not_vary_stays_a_scalar():
    shapes = []
    described = study(toy_model(shapes.append), vary={"height": {"from": 1, "to": 2, "count": 11}})
    run(described, chunk=4)
    run(study(described.model, vary={"height": [5, 6, 7]}, set={"gravity": 2}))
    assert all(shape == () for seen in shapes for name, shape in seen.items() if name != "height")


def test_one_configuration_has_no_dimensions():
    result = run(study(toy_model(), set={"height": 8}))
    assert result["t_fall"].dims == ()
    assert float(result["t_fall"]) == pytest.approx(math.sqrt(16 / G))


@pytest.mark.parametrize("kind", ["sample", "case"])
def test_samples_and_cases_carry_their_values_along_one_dimension(kind):
    if kind == "sample":
        described = study(
            toy_model(), vary={"height": {"from": 1, "to": 9}, "ball.mass": {"from": 1, "to": 2}}, sample={"count": 6}
        )
    else:
        described = study(toy_model(), cases={"values": {"height": [1, 4, 9], "ball.mass": [1, 2, 3]}})
    result = run(described)
    assert result["t_fall"].dims == (kind,)
    assert result["height"].dims == (kind,) and result["height"].attrs["units"] == "m"
    assert not result.xindexes  # an index of numbers would be read whole by everyone who opens the result
    np.testing.assert_allclose(result["t_fall"], np.sqrt(2 * result["height"] / G), rtol=1e-12)
    np.testing.assert_allclose(result["weight"], result["ball.mass"] * G, rtol=1e-12)


def test_everything_has_a_unit_and_a_meaning():
    result = run(study(toy_model(), vary={"angle": [10, 60]}, output={"curves": True, "points": 3}))
    for variable in result.variables.values():
        assert variable.attrs["units"] and variable.attrs["long_name"]
    assert result["angle"].attrs == {"units": "deg", "long_name": "slope of the ground"}
    assert result["slope"].attrs["units"] == "1"


def test_codes_are_small_integers_with_their_meanings():
    result = run(study(toy_model(), vary={"angle": [10, 60, 85]}))
    assert result["regime"].dtype == np.int8 and result["status"].dtype == np.int8
    assert result["regime"].values.tolist() == [0, 1, 1]
    assert result["regime"].attrs["flag_meanings"] == "sticks slides_down"
    assert result["status"].values.tolist() == [FINISHED, FINISHED, CANNOT_TOUCH]
    assert result["status"].attrs["flag_meanings"].split()[CANNOT_TOUCH] == "cannot_touch"
    assert result["status"].attrs["flag_values"].tolist() == list(range(len(result["status"].attrs["flag_values"])))


def test_an_outcome_that_a_method_does_not_have_is_nan_and_says_so():
    vary = {"height": [1, 2]}
    impulsive, compliant = (run(study(toy_model(), method, vary=vary)) for method in ("impulsive", "compliant"))
    assert np.all(np.isnan(impulsive["F_peak"])) and impulsive["F_peak"].dims == ("height",)
    assert impulsive["F_peak"].attrs["comment"] == "not defined by the impulsive method"
    assert "comment" not in compliant["F_peak"].attrs
    np.testing.assert_allclose(compliant["F_peak"], [1e7, 1e7 * 2**1.5], rtol=1e-12)


def test_curves_run_along_a_trailing_fraction():
    result = run(study(toy_model(), vary={"height": [1, 2], "angle": [3, 4, 5]}, output={"curves": True, "points": 9}))
    assert result["y"].dims == ("height", "angle", "fraction")
    fraction = np.linspace(0, 1, 9)
    np.testing.assert_allclose(result["fraction"], fraction)
    for height in (1, 2):
        expected = height * (1 - fraction**2)
        np.testing.assert_allclose(result["y"].sel(height=height, angle=4), expected, atol=1e-12)
    # A name that an outcome has already: the curve gives way. Nothing varied enters it, so every lane has the same.
    assert result["weight"].dims == ("height", "angle")
    np.testing.assert_allclose(result["weight_curve"], np.full((2, 3, 9), 0.5 * G))


def test_the_record_is_enough_to_repeat_the_run():
    described = study(
        toy_model(),
        vary={"height": {"from": 1, "to": 2}},
        sample={"count": 4, "seed": 11, "method": "latin"},
        set={"angle": {"value": 0.1, "unit": "rad"}},
        laws={"normal": "linear"},
        solver={"rtol": 1e-5},
        title="a title",
    )
    attrs = run(described).attrs
    again = study(
        described.model,
        attrs["method"],
        vary={"height": {"from": 1, "to": 2}},
        sample={"count": 4, "seed": attrs["seed"], "method": json.loads(attrs["space"])["method"]},
        set=json.loads(attrs["parameters"]),
        laws=json.loads(attrs["laws"]),
        solver=json.loads(attrs["solver"]),
    )
    assert again.fingerprint() == attrs["fingerprint"] == described.fingerprint()
    assert (attrs["model"], attrs["title"], attrs["dtype"]) == ("toy", "a title", "float64")
    assert attrs["jaxcontact_version"] and "gravity = 9.81 m/s^2" in attrs["parameters_text"]


def test_single_precision_is_used_if_the_caller_left_it_on_and_recorded():
    with double_precision(False):
        result = run(study(toy_model(), "impulsive", vary={"height": [1, 2]}))
    assert result.attrs["dtype"] == "float32"
    assert {result[name].dtype for name in ("t_fall", "F_peak")} == {np.dtype("float32")}
    np.testing.assert_allclose(result["t_fall"], np.sqrt(2 * np.array([1, 2]) / G), rtol=1e-6)


def test_failures_are_counted_by_status_with_a_sentence():
    failing = run(study(toy_model(), vary={"angle": [10, 85, 86]}))
    assert describe_failures(run(study(toy_model(), vary={"angle": [10, 20]}))) == ""
    text = describe_failures(failing)
    assert text.startswith("2 of 3 configurations did not finish")
    assert "2 cannot_touch: no posture" in text


@pytest.mark.parametrize(
    ("fixed", "name", "status"),
    [({"angle": 85}, "cannot_touch", CANNOT_TOUCH), ({"lift": 2}, "moving_up", MOVING_UP)],
)
def test_an_impossible_start_is_an_error_alone_and_a_status_in_a_sweep(fixed, name, status):
    with pytest.raises(InputError, match=name):
        run(study(toy_model(), set=fixed))
    swept = run(study(toy_model(), set=fixed, vary={"height": [1]}))
    assert swept["status"].values.tolist() == [status]


def test_progress_only_grows_and_ends_at_the_total_with_the_failures():
    told = []
    described = study(toy_model(), vary={"height": [1, 2, 3, 4, 5], "angle": [10, 85]})
    run(described, chunk=2, progress=lambda *now: told.append(now))
    assert told[0] == (0, 10, 0) and told[-1] == (10, 10, 5)
    assert told == sorted(told)


@pytest.mark.parametrize("count", [10**7, 10**8])
def test_a_result_that_cannot_fit_in_memory_is_said(count):
    ranges = {name: {"from": 1, "to": 2, "count": count} for name in ("height", "angle")}
    with pytest.raises(InputError, match="do not fit in memory"):
        run(study(toy_model(), vary=ranges))


def test_mistaken_arguments_are_said():
    described = study(toy_model())
    for mistake in ({"study": "study.toml"}, {"study": described, "fresh": True}):
        with pytest.raises(InputError, match="a study is needed|nothing to throw away"):
            run(**mistake)
    assert run(described, chunk=np.int64(4))["status"].item() == FINISHED


def test_a_chunk_of_which_nothing_may_run_is_written_in_its_turn():
    written = []

    class Watched(LocalExecutor):
        def stream(self, job, batches, watch):
            for key, found in super().stream(job, batches, watch):
                written.append(key)
                yield key, found

    described = study(
        toy_model(), vary={"height": {"from": 1, "to": 2, "count": 40}}, require={"conditions": ["height > 1.9"]}
    )
    result = run(described, chunk=2, executor=Watched())
    assert written[:18] == list(range(18))  # they wait for nothing, and none are kept
    assert (result["status"] == EXCLUDED).sum() == 36 and (result["status"] == FINISHED).sum() == 4


def test_time_histories_take_no_more_lanes_than_memory_has_room_for():
    few, many = (
        LocalExecutor(1).driver(job_of(study("crutch", vary={"mu": {"from": 0.4, "to": 1, "count": 10**5}}, **more)))
        for more in ({}, {"output": {"curves": True, "points": 20_000}})
    )
    assert few._lanes == CPU_LANES and few._queue == 32 * CPU_LANES
    assert 1 <= many._lanes < 16 and many._queue * 24 * 20_000 * 8 < 2**28


@pytest.mark.parametrize("chunk", [0, -1, 2.0, True])
def test_a_bad_chunk_is_refused(chunk):
    with pytest.raises(InputError, match="chunk"):
        run(study(toy_model()), chunk=chunk)


# ---------------------------------------------------------------- the display


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_short_runs_show_nothing(stream):
    out = stream()
    with ProgressDisplay("toy", stream=out) as progress:
        for done in range(4):
            progress(done, 3)
    assert out.getvalue() == ""


def test_a_long_run_in_a_log_gets_a_line_with_rate_and_time_left(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr("jaxcontact.study.progress.time.monotonic", lambda: clock[0])
    out = io.StringIO()
    with ProgressDisplay("toy", stream=out) as progress:
        for second in range(41):  # 40 s at 10 a second
            clock[0] = 100.0 + second
            progress(10 * second, 400)
    lines = out.getvalue().splitlines()
    assert lines[0] == "toy: 30 of 400, 10 a second, about 37 s left"  # 2 s after the first results
    assert 2 <= len(lines) <= 4


def test_a_long_run_on_a_terminal_gets_a_bar_even_while_it_compiles(monkeypatch):
    monkeypatch.setattr("jaxcontact.study.progress.PATIENCE", 0.01)
    out = Terminal()
    with ProgressDisplay("toy", stream=out) as progress:
        progress(0, 7)
        progress._timer.join()
        progress(7, 7)
    assert "toy" in out.getvalue() and "7 of 7" in out.getvalue()


def test_a_curve_gives_way_to_a_parameter_of_its_name():
    # The crutch has a parameter dq5 (before impact) and a curve dq5 (during it).
    dataset = run(study("crutch", "impulsive", vary={"dq5": [-0.2, 0.4]}, output={"curves": True, "points": 3}))
    assert dataset["dq5"].dims == ("dq5",)
    assert dataset["dq5_curve"].dims == ("dq5", "fraction")
    assert dataset["dq5_curve"].isel(fraction=0).values == pytest.approx([-0.2, 0.4])


def test_another_tolerance_compiles_nothing():
    described = study("crutch", vary={"mu": [0.5, 0.6]})
    run(described)
    compiled = compiled_program(_builder(job_of(described)), tuple(jax.local_devices()[:1]))
    before = compiled._cache_size()
    run(study("crutch", vary={"mu": [0.5, 0.6]}, solver={"rtol": 1e-9, "max_steps": 500}))
    assert compiled._cache_size() == before


# ---------------------------------------------------------------- beside what the devices do


def full_disk(item):
    if item == 1:
        raise OSError("no space left")


def items_until(error):
    yield from (0, 1)
    raise error


@pytest.mark.parametrize("ending", [KeyboardInterrupt(), RuntimeError("the device is gone")])
def test_an_error_behind_is_not_lost_when_something_else_ends_the_rest(ending):
    dealt_with = []
    with pytest.raises(OSError, match="no space left") as told:
        dealt_with.extend(one_behind(full_disk, items_until(ending)))
    assert dealt_with == [0] and told.value.__cause__ is ending


def test_an_error_behind_comes_out_when_nobody_wants_the_rest():
    behind = one_behind(full_disk, itertools.count())
    assert next(behind) == 0
    with pytest.raises(OSError, match="no space left"):
        behind.close()


def test_errors_without_one_behind_are_what_they_are():
    with pytest.raises(RuntimeError, match="gone") as told:
        list(one_behind(lambda item: None, items_until(RuntimeError("gone"))))
    assert told.value.__cause__ is None
    with pytest.raises(OSError, match="no space left") as told:
        list(one_behind(full_disk, iter(range(5))))
    assert told.value.__cause__ is None
    assert list(one_behind(lambda item: None, iter(range(3)))) == [0, 1, 2]
