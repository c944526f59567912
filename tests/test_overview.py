"""What is drawn is what was found: the artists hold the data, labels hold units, and only what is drawn is read."""

import tracemalloc

import numpy as np
import pytest
import xarray as xr
from lazy_array import LazyArray
from matplotlib.collections import QuadMesh
from toy_model import toy_model

from jaxcontact import overview, plots
from jaxcontact.errors import InputError
from jaxcontact.integrate.machine import CANNOT_TOUCH, FINISHED, RUNNING, STATUS_NAMES
from jaxcontact.overview import draw
from jaxcontact.study import run, study

STATUS = {"flag_values": np.arange(len(STATUS_NAMES)), "flag_meanings": " ".join(STATUS_NAMES), "long_name": "end"}
HEIGHTS = {"from": 0.1, "to": 10, "count": 9, "scale": "log"}


def toy(method="compliant", **tables):
    return run(study(toy_model(), method, **tables))


def made(**axes):
    """Results of F = sum of the axes, in N, along axes of these values; all finished."""
    grid = np.meshgrid(*(np.asarray(values, float) for values in axes.values()), indexing="ij")
    dims = tuple(axes)
    coords = {name: (name, np.asarray(v, float), {"units": "m", "long_name": "length"}) for name, v in axes.items()}
    status = np.full(grid[0].shape, FINISHED, np.int8)
    force = (dims, sum(grid), {"units": "N", "long_name": "force"})
    return xr.Dataset({"F": force, "status": (dims, status, STATUS)}, coords, {"title": "made up"})


def panels(figure):
    """The axes of a figure without colour bars and unused places."""
    return [axes for axes in figure.axes if axes.get_label() != "<colorbar>" and axes.get_visible()]


def lines(axes):
    return [(line.get_xdata(), line.get_ydata()) for line in axes.lines]


def mesh(axes):
    (found,) = (artist for artist in axes.collections if isinstance(artist, QuadMesh))
    return found


def title(figure):
    return figure.get_suptitle()


def legend(figure):
    return [text.get_text() for found in figure.legends for text in found.get_texts()]


# ---------------------------------------------------------------- grids


def test_one_dimension_is_a_line_per_outcome():
    results = toy(vary={"height": HEIGHTS})
    figure = draw(results)
    # weight and slope do not vary with the height, codes and counts are not drawn unless named
    assert [axes.get_ylabel() for axes in panels(figure)] == [
        "t_fall: time of the fall (s)",
        "F_peak: largest force (N)",
    ]
    for axes, name in zip(panels(figure), ("t_fall", "F_peak"), strict=True):
        ((x, y),) = lines(axes)
        assert np.array_equal(x, results["height"]) and np.array_equal(y, results[name])
        assert axes.get_xscale() == "log"
        assert axes.lines[0].get_marker() == "o"  # few points are shown each
        assert axes.get_xlabel() == "height of the drop (m)"  # the meaning begins with the name


def test_a_long_line_has_no_markers_and_a_linear_axis_is_linear():
    (axes,) = panels(draw(made(a=np.linspace(1, 9, 100))))
    assert axes.lines[0].get_marker() == "None"
    assert axes.get_xscale() == "linear"


def test_values_listed_in_any_order_are_drawn_in_order():
    (axes,) = panels(draw(made(a=[3.0, 1.0, 2.0])))
    assert [list(v) for v in lines(axes)[0]] == [[1, 2, 3], [1, 2, 3]]
    (axes,) = panels(draw(made(a=[3, 1, 2, 5, 4, 6], b=[7, 1, 2, 3, 4, 5])))
    assert np.array_equal(mesh(axes).get_array(), np.add.outer([1, 2, 3, 4, 5, 7], [1, 2, 3, 4, 5, 6]))


def test_two_dimensions_are_lines_of_the_shorter_one_if_it_has_few_values():
    results = made(b=[1, 2, 3], a=np.arange(10))
    figure = draw(results)
    (axes,) = panels(figure)
    for i, (x, y) in enumerate(lines(axes)):
        assert np.array_equal(x, results["a"]) and np.array_equal(y, results["F"][i])
    assert len(axes.lines) == 3
    assert legend(figure) == ["b = 1 m", "b = 2 m", "b = 3 m"]
    assert len({line.get_color() for line in axes.lines}) == 3
    assert len({line.get_marker() for line in axes.lines}) == 3  # a grey print can be read


def test_two_long_dimensions_are_a_map_on_the_scales_of_the_axes():
    results = made(k=np.logspace(5, 8, 7), a=np.linspace(0, 1, 6))
    figure = draw(results)
    (axes,) = panels(figure)
    assert np.array_equal(mesh(axes).get_array(), results["F"].T)
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "linear")
    corners = np.asarray(mesh(axes).get_coordinates())
    # cells meet half-way between neighbours, on a log axis at their geometric mean
    assert corners[0, 1:-1, 0] == pytest.approx(np.sqrt(results["k"].values[1:] * results["k"].values[:-1]))
    assert corners[1:-1, 0, 1] == pytest.approx([0.1, 0.3, 0.5, 0.7, 0.9])
    (bar,) = (axes for axes in figure.axes if axes.get_label() == "<colorbar>")
    assert bar.get_ylabel() == "F: force (N)"


def test_x_and_by_choose_the_axes():
    results = made(a=np.arange(10), b=np.arange(8))
    (axes,) = panels(draw(results, x="b"))
    assert np.array_equal(mesh(axes).get_array(), results["F"])
    figure = draw(results, by="a")
    assert legend(figure) == ["a = 0 m", "a = 2 m", "a = 4 m", "a = 7 m", "a = 9 m"]
    assert "5 of 10 values of a" in title(figure)
    assert np.array_equal(lines(panels(figure)[0])[3][1], results["F"][7])


def test_three_dimensions_are_small_multiples_on_one_scale_of_colours():
    results = made(c=np.arange(9), a=np.arange(30), b=np.arange(20))
    figure = draw(results)
    assert "4 of 9 values of c" in title(figure)
    chosen = [0, 3, 5, 8]
    assert [axes.get_title() for axes in panels(figure)] == [f"c = {c} m" for c in chosen]
    for axes, c in zip(panels(figure), chosen, strict=True):
        assert np.array_equal(mesh(axes).get_array(), results["F"][c].T)
        assert mesh(axes).get_clim() == (0, 8 + 29 + 19)


def test_three_dimensions_with_few_values_are_small_multiples_of_lines():
    results = made(a=np.arange(20), b=[1, 2, 3, 4], c=[5, 6])
    figure = draw(results)
    assert [axes.get_title() for axes in panels(figure)] == ["c = 5 m", "c = 6 m"]
    assert legend(figure) == [f"b = {b} m" for b in (1, 2, 3, 4)]
    assert np.array_equal(lines(panels(figure)[1])[2][1], results["F"].sel(b=3, c=6))


def test_more_dimensions_are_held_at_their_middle_or_as_selected():
    results = made(a=np.arange(10), b=np.arange(9), c=[1, 2, 3], d=[10, 20], e=[7])
    figure = draw(results)
    assert "held: d = 20 m, e = 7 m" in title(figure)
    assert np.array_equal(mesh(panels(figure)[2]).get_array(), results["F"].sel(c=3, d=20, e=7).T)
    figure = draw(results, select={"d": 11, "b": 4})
    assert all(f"{held} m" in title(figure).splitlines()[1] for held in ("b = 4", "d = 10", "e = 7"))
    assert np.array_equal(lines(panels(figure)[0])[1][1], results["F"].sel(b=4, c=2, d=10, e=7))


def test_names_are_no_axis():
    joined = xr.concat([made(a=[1, 2, 3]), 2 * made(a=[1, 2, 3])], xr.Variable("approach", ["one", "other"]))
    joined["status"] = xr.full_like(joined["status"], FINISHED).assign_attrs(STATUS)
    figure = draw(joined)
    assert legend(figure) == ["approach = one", "approach = other"]
    (axes,) = panels(draw(joined, x="approach", select={"a": 2}))
    assert list(lines(axes)[0][0]) == ["one", "other"]


def test_linked_parameters_are_named_along_their_axis():
    results = made(a=[1, 2, 3]).assign_coords(chi=("a", [10.0, 20.0, 30.0], {"units": "s/m^2.5"}))
    (axes,) = panels(draw(results))
    assert axes.get_xlabel() == "a: length (m)\nwith chi = 10 to 30 (s/m$^{2.5}$)"


# ---------------------------------------------------------------- codes and failures


def test_a_code_is_a_map_with_a_legend_of_the_values_that_occur():
    results = toy(vary={"height": HEIGHTS, "angle": {"from": 5, "to": 89, "count": 8}})
    figure = draw(results, outcomes=["status", "regime"])
    status, regime = panels(figure)
    assert np.array_equal(mesh(status).get_array(), results["status"].T)
    assert legend(figure) == [
        "status: finished",
        "status: cannot touch",
        "regime: sticks",
        "regime: slides down",
    ]
    shown = mesh(regime).get_array()
    failed = (results["status"] != FINISHED).values.T
    assert np.array_equal(shown.mask, failed)  # what did not finish has no regime
    assert np.array_equal(shown[~failed], results["regime"].values.T[~failed])


def test_a_code_along_a_line_is_markers_at_names():
    results = toy(vary={"angle": [10, 30, 50, 70]})
    (axes,) = panels(draw(results, outcomes=["regime"]))
    assert axes.lines[0].get_linestyle() == "None"
    assert list(lines(axes)[0][1]) == [0, 0, 1, 1]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["sticks", "slides down"]


def test_failed_runs_are_blank_and_counted_apart_from_those_to_come():
    results = made(a=np.arange(10), b=np.arange(8))
    results["status"][0] = CANNOT_TOUCH
    results["status"][:, 6:] = RUNNING
    figure = draw(results)
    assert "6 of 80 did not finish; 20 of 80 not run yet" in title(figure)
    shown = mesh(panels(figure)[0]).get_array()
    assert np.array_equal(np.ma.getmaskarray(shown), (results["status"] != FINISHED).values.T)
    assert "status: not run yet" in legend(draw(results, outcomes=["status"]))
    held = draw(results, select={"b": 7})
    assert "held: b = 7 m" in title(held) and "10 of 10 not run yet" in title(held)
    assert panels(held)[0].get_ylabel() == "status: end"  # nothing has a value, so the status says why


def test_a_whole_sweep_that_finished_needs_no_count():
    assert title(draw(made(a=[1, 2, 3]))) == "made up"


# ---------------------------------------------------------------- samples


def test_samples_are_scattered_over_their_parameters():
    ranges = {"k_n": {"from": 1e4, "to": 1e9, "scale": "log"}, "angle": {"from": 1, "to": 79}}
    results = toy(vary=ranges, sample={"count": 50})
    figure = draw(results)
    found = panels(figure)
    assert [axes.get_ylabel() for axes in found[::2]] == ["slope: tangent of the slope", "F_peak: largest force (N)"]
    assert [axes.get_xscale() for axes in found[:2]] == ["log", "linear"]  # in the order of the study
    for axes, (y, x) in zip(found, [(y, x) for y in ("slope", "F_peak") for x in ranges], strict=True):
        points = axes.collections[0].get_offsets()
        assert np.array_equal(points, np.column_stack([results[x], results[y]]))
    assert legend(figure) == ["sticks", "slides down"]
    colours = found[0].collections[0].get_facecolors()[:, :3]
    steep = results["regime"].values == 1
    assert len(np.unique(colours[steep], axis=0)) == len(np.unique(colours[~steep], axis=0)) == 1
    assert not np.array_equal(colours[steep][0], colours[~steep][0])
    assert len(panels(draw(results, x="k_n", by="status"))) == 2


def test_cases_are_scattered_too():
    figure = draw(toy(cases={"values": {"height": [1, 2, 4], "ball.mass": [1, 1, 2]}}), outcomes=["t_fall"])
    assert [axes.get_xlabel() for axes in panels(figure)] == [
        "height of the drop (m)",
        "ball.mass: mass of the ball (kg)",
    ]


def test_many_samples_are_thinned_at_random_the_same_way_each_time():
    count = 1_000_000_000
    force = LazyArray((count,), lambda i: 2.0 * i)
    mass = LazyArray((count,), lambda i: i)
    results = xr.Dataset({"F": force.variable("sample")}, {"mass": mass.variable("sample", units="kg")})
    figure = draw(results)
    assert f"20000 of {count} points, at random" in title(figure)
    points = panels(figure)[0].collections[0].get_offsets()
    assert len(np.unique(points[:, 0])) == 20_000 and np.array_equal(points[:, 1], 2 * points[:, 0])
    assert points[:, 0].mean() == pytest.approx(count / 2, rel=0.02)  # 4 standard errors of a uniform mean
    assert np.array_equal(points, panels(draw(results))[0].collections[0].get_offsets())


# ---------------------------------------------------------------- time histories


def test_curves_are_drawn_against_their_own_time():
    results = toy(vary={"height": [0.01, 0.02]}, output={"curves": True, "points": 11})
    figure = draw(results)
    (axes,) = panels(figure)  # the weight does not change, and time is the axis
    for i, (x, y) in enumerate(lines(axes)):
        assert np.allclose(x, 1e3 * results["t"][i], rtol=1e-15) and np.array_equal(y, results["y"][i])
    assert axes.get_xlabel() == "t: time (ms)"
    assert axes.get_ylabel() == "y: height (m)"
    assert legend(figure) == ["height = 0.01 m", "height = 0.02 m"]


def test_a_few_of_many_curves_are_drawn_and_the_rest_is_said():
    results = toy(vary={"height": np.arange(1.0, 12.0).tolist(), "angle": [1, 2, 3]}, output={"curves": True})
    figure = draw(results, outcomes=["y"])
    assert legend(figure) == [f"height = {h} m" for h in (1, 3, 6, 9, 11)]  # 5 of 11 places: 0, 2.5, 5, 7.5, 10
    assert "held: angle = 2 deg" in title(figure) and "5 of 11 values of height" in title(figure)
    chosen = draw(results, outcomes=["y"], by="angle", select={"height": 4}, x="fraction")
    assert legend(chosen) == ["angle = 1 deg", "angle = 2 deg", "angle = 3 deg"]
    assert np.array_equal(lines(panels(chosen)[0])[1][1], results["y"].sel(height=4, angle=2))
    assert len(panels(draw(results, outcomes=["t_fall"]))[0].lines) == 3  # outcomes on demand


def test_the_curves_of_one_configuration_and_of_no_duration():
    results = toy(output={"curves": True, "points": 5})
    ((x, y),) = lines(panels(draw(results, outcomes=["y"]))[0])
    assert np.array_equal(y, results["y"]) and np.array_equal(x, results["t"])  # 0.6 s: no milliseconds
    instant = results.assign(t=0 * results["t"])
    assert np.array_equal(lines(panels(draw(instant, outcomes=["y"]))[0])[0][0], results["fraction"])


# ---------------------------------------------------------------- size


def test_a_hundred_million_configurations_are_drawn_without_reading_them():
    shape, dims = (10_000, 10_000), ("a", "b")
    outcomes = {name: LazyArray(shape, lambda i, j: i + 2.0 * j) for name in ("F", "G")}
    status = LazyArray(shape, lambda i, j: np.full_like(i + j, FINISHED), np.int8)
    results = xr.Dataset(
        {name: array.variable(*dims, units="N") for name, array in outcomes.items()}
        | {"status": status.variable(*dims, **STATUS)},
        {dim: (dim, np.arange(10_000.0)) for dim in dims},
    )
    tracemalloc.start()
    figure = draw(results)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6  # one outcome has 800 MB
    assert all(array.read <= overview.LONGEST**2 for array in outcomes.values())
    assert status.read <= overview.LONGEST**2
    assert "1 in 25 values of a, 1 in 25 values of b" in title(figure)
    places = np.arange(0, 10_000, 25)
    assert np.array_equal(mesh(panels(figure)[0]).get_array(), np.add.outer(2.0 * places, places))


# ---------------------------------------------------------------- errors


def test_errors_name_what_is_wrong_and_what_is_allowed():
    results = toy(vary={"height": [1, 2], "angle": [1, 2]})
    with pytest.raises(InputError, match="nothing to draw.*`jaxcontact table DIR` shows"):
        draw(toy())
    with pytest.raises(InputError, match="nothing to draw"):
        draw(results, select={"height": 1, "angle": 1})
    with pytest.raises(InputError, match="unknown outcome 't_fal'. Did you mean 't_fall'"):
        draw(results, outcomes=["t_fal"])
    with pytest.raises(InputError, match="unknown dimension 'heigth'. Did you mean 'height'"):
        draw(results, x="heigth")
    with pytest.raises(InputError, match="x and by are both height"):
        draw(results, x="height", by="height")
    with pytest.raises(InputError, match="select height = 3: outside its axis\nallowed: 1 to 2 m"):
        draw(results, select={"height": 3})
    samples = toy(vary={"height": {"from": 1, "to": 2}}, sample={"count": 4})
    with pytest.raises(InputError, match="unknown parameter 'angle'.*\nallowed: height"):
        draw(samples, x="angle")
    with pytest.raises(InputError, match="unknown code to colour by 'regim'. Did you mean 'regime'"):
        draw(samples, by="regim")
    curves = toy(vary={"height": [1, 2]}, output={"curves": True})
    with pytest.raises(InputError, match="t_fall is one number per run"):
        draw(curves, outcomes=["y", "t_fall"])
    with pytest.raises(InputError, match="unknown curve 'time' in x"):
        draw(curves, x="time")


# ---------------------------------------------------------------- axes


@pytest.mark.parametrize(
    "values, log",
    [
        (np.logspace(2, 9, 50), True),
        ([1e7, 1e6, 1e8], True),
        ([1, 3, 10, 30, 100], True),
        (np.linspace(1, 100, 50), False),
        ([1, 2], False),  # two values are even on any scale
        ([0, 1, 10], False),
        (np.linspace(2, 7, 3), False),
        (np.geomspace(1, 1.5, 5), False),  # over so little, the scales look the same
    ],
)
def test_an_axis_is_logarithmic_if_its_steps_are_even_there(values, log):
    assert plots.even_in_log(np.asarray(values, float)) == log
