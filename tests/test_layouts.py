"""Layouts and shapes of a sole: printed numbers, places under the sole, files of users and what is wrong with them."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxcontact.contact.geometry import Body
from jaxcontact.errors import InputError
from jaxcontact.models.layout import KINDS, OPTIONAL, Elements, Layout, fields_of, make_layout
from jaxcontact.models.layouts import (
    ELLIPSOIDS_6,
    LAYOUTS,
    NINE_SPHERES,
    POINTS_31,
    THREE_SPHERES,
    TOE_CENTRE,
    TOE_JOINT,
    get_layout,
    read_layout,
    sole_height,
)
from jaxcontact.models.shape import CAVUS, FLAT, NORMAL, REGIONS, raised_by, region_shares, shaped
from jaxcontact.models.sole import touch_elements
from jaxcontact.vectors import IDENTITY, ZERO

# Foot Table 2 as printed: xi, eta, zeta, radius (mm); spheres 1 to 6 under the main foot, 7 to 9 under the toes.
TABLE_2 = """
1 -94.70 0.00 -15.34 30.81
2 -94.70 0.00 -15.89 39.53
3 -75.20 0.00 -22.89 31.10
4 0.00 0.00 -25.89 15.10
5 26.97 0.00 -32.36 12.94
6 56.09 0.00 -34.52 15.10
7 -22.70 0.00 -15.10 12.94
8 0.00 0.00 -17.26 10.78
9 21.60 0.00 -12.94 10.79
"""


def lowest(layout: Layout, elements: Elements | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Lowest points (x, z) of all elements of a neutral foot, by the geometry of contact, from the foot's centre."""
    elements = layout.elements() if elements is None else elements
    touch = touch_elements(Body(ZERO, IDENTITY), layout.kind, elements)
    toes = np.array([segment == "toes" for segment in layout.segments])
    x, z = np.broadcast_to(touch.on_body[0], toes.shape), np.broadcast_to(touch.on_body[2], toes.shape)
    return x + toes * (TOE_JOINT[0] + TOE_CENTRE[0]), z + toes * (TOE_JOINT[1] + TOE_CENTRE[1])


def with_shape(layout: Layout, shape: dict[str, float]) -> Elements:
    forward = [TOE_JOINT[0] + TOE_CENTRE[0] if segment == "toes" else 0.0 for segment in layout.segments]
    return shaped(layout.elements(), jnp.asarray(forward), shape)


# ---- the layouts of the papers


def test_nine_spheres_are_those_of_table_2():
    rows = np.array([line.split() for line in TABLE_2.strip().splitlines()], float)
    elements = NINE_SPHERES.elements()
    for column, field in enumerate(("x", "y", "z", "radius"), 1):
        np.testing.assert_allclose(getattr(elements, field), rows[:, column] / 1e3, rtol=1e-15)
    assert NINE_SPHERES.segments == ("foot",) * 6 + ("toes",) * 3
    assert NINE_SPHERES.names() == tuple(f"s{int(n)}" for n in rows[:, 0])


def test_three_spheres_have_the_printed_sizes_and_ratios():
    # Rolling Table 2: heel, metatarsus, tip of the toes.
    elements = THREE_SPHERES.elements()
    np.testing.assert_allclose(elements.radius, [0.025, 0.029, 0.023])
    np.testing.assert_allclose(6.5e5 * elements.weight, [6.5e5, 1e9, 1e9])
    np.testing.assert_allclose(0.5 * elements.friction, [0.5, 0.9, 0.9])
    np.testing.assert_allclose(0.6 * elements.damping, 1 - np.array([0.4, 0.2, 0.2]))  # 1 - restitution


def test_the_sole_runs_along_the_lowest_points_of_the_nine_spheres():
    # Sphere 1 is inside sphere 2. Round heel and tip bulge over the line, which is straight between the given places.
    x, z = lowest(NINE_SPHERES)
    for i in range(1, 9):
        assert sole_height(x[i]) == pytest.approx(z[i], abs=0.4e-3), i + 1
    assert z[0] > sole_height(x[0])
    radius = np.asarray(NINE_SPHERES.elements().radius)
    along = np.linspace(-0.134, 0.124, 400)
    inside = np.maximum(radius[:, None] ** 2 - (along - x[:, None]) ** 2, 0.0)
    surface = np.where(inside > 0, (z + radius)[:, None] - np.sqrt(inside), np.inf).min(axis=0)
    assert np.all(surface >= [sole_height(place) - 3e-3 for place in along])


def test_a_foot_of_a_height_of_1_70_m():
    # Winter 1990: 0.152 of the height. From the rim of sphere 2 to the rim of sphere 9.
    x, radius = lowest(NINE_SPHERES)[0], np.asarray(NINE_SPHERES.elements().radius)
    assert np.max(x + radius) - np.min(x - radius) == pytest.approx(0.152 * 1.70, abs=1e-3)


@pytest.mark.parametrize("layout", [POINTS_31, ELLIPSOIDS_6, THREE_SPHERES], ids=lambda layout: layout.name)
def test_other_layouts_touch_the_same_sole(layout):
    x, z = lowest(layout)
    np.testing.assert_allclose(z, [sole_height(place) for place in x], atol=1e-12)
    assert x.min() >= -0.134 - 1e-12 and x.max() <= 0.124 + 1e-12
    carried_by_toes = np.array([segment == "toes" for segment in layout.segments])
    np.testing.assert_array_equal(carried_by_toes, x > TOE_JOINT[0])


@pytest.mark.parametrize("layout", [NINE_SPHERES, POINTS_31, ELLIPSOIDS_6], ids=lambda layout: layout.name)
def test_layouts_share_one_stiffness(layout):
    # Together as stiff as nine spheres of weight 1, however many elements there are.
    assert sum(layout.values["weight"]) == pytest.approx(9.0)


def test_how_many_there_are():
    assert {name: len(layout) for name, layout in LAYOUTS.items()} == {
        "nine_spheres": 9, "points_31": 31, "ellipsoids_6": 6, "three_spheres": 3
    }  # fmt: skip
    for layout in LAYOUTS.values():
        assert sorted(layout.on("foot") + layout.on("toes")) == list(range(len(layout)))
        assert get_layout(layout.name) is layout


# ---- elements as parameters of a model


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=lambda layout: layout.name)
def test_parameters_give_the_elements_back(layout):
    parameters = layout.parameters()
    assert len({p.name for p in parameters}) == len(parameters) == len(layout) * len(fields_of(layout.kind))
    assert all(p.low <= p.default <= p.high for p in parameters)
    back = layout.elements({p.name: p.default for p in parameters})
    for ours, printed in zip(back, layout.elements(), strict=True):
        assert (ours is None) == (printed is None)
        if ours is not None:
            np.testing.assert_array_equal(ours, printed)


def test_elements_follow_their_parameters_lane_by_lane():
    params = {p.name: p.default for p in NINE_SPHERES.parameters()}
    params["s3.radius"] = jnp.array([0.01, 0.02])
    elements = NINE_SPHERES.elements(params)
    assert elements.x.shape == elements.radius.shape == (9, 2)
    np.testing.assert_array_equal(elements.radius[2], [0.01, 0.02])
    np.testing.assert_allclose(elements.radius[3], [0.0151, 0.0151])
    some = elements.take(NINE_SPHERES.on("toes"))
    np.testing.assert_array_equal(some.x, elements.x[6:])
    # Lanes of the elements are the last ones: points of a curve come before them.
    assert elements.over(2).x.shape == (9, 1, 2) and NINE_SPHERES.elements().over(2).x.shape == (9, 1, 1)


# ---- layouts of users


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def as_csv(layout: Layout, lengths: str) -> str:
    factor = {"m": 1.0, "cm": 100.0, "mm": 1000.0}[lengths]
    described = fields_of(layout.kind)
    header = ["segment", *(f"{field} [{lengths}]" if unit == "m" else field for field, unit, *_ in described)]
    rows = [
        [segment, *(repr(layout.values[field][i] * (factor if unit == "m" else 1.0)) for field, unit, *_ in described)]
        for i, segment in enumerate(layout.segments)
    ]
    return "\n".join(",".join(row) for row in [header, *rows]) + "\n"


def random_layout(kind: str, seed: int, count: int = 7) -> Layout:
    rng = np.random.default_rng(seed)
    rows = [
        {"segment": rng.choice(["foot", "toes"])}
        | {field: rng.uniform(max(low, -0.2), min(high, 0.2 if unit == "m" else 1.9))
           for field, unit, low, high, _ in fields_of(kind)}
        for _ in range(count)
    ]  # fmt: skip
    return make_layout("random", kind, "test", rows)


@pytest.mark.parametrize("lengths", ["m", "cm", "mm"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_layout_written_to_a_file_comes_back(kind, lengths, tmp_path):
    layout = random_layout(kind, KINDS.index(kind))
    back = get_layout(str(write(tmp_path / "mine.csv", as_csv(layout, lengths))))
    assert (back.kind, back.segments) == (kind, layout.segments)
    assert back.source == "file mine.csv"
    for field, *_ in fields_of(kind):
        np.testing.assert_allclose(back.values[field], layout.values[field], rtol=1e-14, err_msg=field)


def test_a_file_may_leave_out_what_is_usual(tmp_path):
    # Bytes as a spreadsheet writes them: a mark in front, ends of lines of two characters, empty lines.
    path = tmp_path / "sparse.csv"
    path.write_bytes("\ufeffx [mm] , z [mm],radius [cm]\r\n\r\n-90, -20, 3\r\n,,\r\n 50,-30,1.5\r\n".encode())
    layout = read_layout(path)
    assert layout.kind == "sphere" and layout.segments == ("foot", "foot")
    np.testing.assert_allclose(layout.values["x"], [-0.09, 0.05])
    np.testing.assert_allclose(layout.values["radius"], [0.03, 0.015])
    for field in ("y", "weight", "damping", "friction"):
        assert layout.values[field] == (OPTIONAL[field],) * 2


GOOD = "segment,x [mm],z [mm],radius [mm]\nfoot,-90,-20,30\ntoes,10,-15,12\n"
BAD_FILES = {
    "unknown column": (GOOD.replace("radius", "raduis"), "unknown column 'raduis'", "Did you mean 'radius'"),
    "unknown unit": (GOOD.replace("z [mm]", "z [in]"), "unknown unit 'in'", "column z", "allowed: m, cm, mm"),
    "unit of a share": (
        GOOD.replace("radius [mm]\n", "radius [mm],weight [mm]\n").replace("0\n", "0,1\n").replace("2\n", "2,1\n"),
        "unknown unit 'mm'", "column weight",
    ),
    "unknown segment": (GOOD.replace("toes", "toe"), "unknown segment 'toe'", "allowed: foot, toes"),
    "too few values": (GOOD.replace("toes,10,-15,12", "toes,10,-15"), "line 3", "3 values for 4 columns"),
    "no number": (GOOD.replace("\ntoes,10", "\n\n\ntoes,1O"), "line 5", "x = '1O' is not a number"),
    "nothing there": (GOOD.replace(",30", ","), "line 2", "radius = '' is not a number"),
    "missing column": (GOOD.replace("z [mm]", "y [mm]"), "column z is missing for a layout of spheres", "there are:"),
    "column doubled": (GOOD.replace("z [mm]", "x [mm]"), "column x is there twice"),
    "two kinds": (GOOD.replace("segment", "b"), "unknown column 'radius'", "which describes ellipsoids"),
    "out of bounds": (GOOD.replace("[mm]", "[m]"), "x = -90.0 of element 1", "allowed: -0.5 to 0.5 m"),
    "infinite": (GOOD.replace("30\n", "inf\n"), "radius = inf of element 1", "allowed: 0 to 0.5 m"),
    "not a number": (GOOD.replace("30\n", "nan\n"), "radius = nan of element 1", "allowed: 0 to 0.5 m"),
    "no elements": ("x,z\n\n", "a header and at least one element are needed"),
    "empty": ("", "a header and at least one element are needed"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_refused_with_what_and_where(name, tmp_path):
    text, *expected = BAD_FILES[name]
    path = write(tmp_path / "bad.csv", text)
    with pytest.raises(InputError) as error:
        read_layout(path)
    for part in ("bad.csv", *expected):
        assert part in str(error.value), str(error.value)


def test_what_cannot_be_read_is_said(tmp_path):
    with pytest.raises(InputError, match="there is no file .*none.csv"):
        get_layout(str(tmp_path / "none.csv"))
    with pytest.raises(InputError, match="cannot be read"):
        read_layout(tmp_path)  # a folder
    path = tmp_path / "binary.csv"
    path.write_bytes(b"x,z\n\xff\xfe,1\n")
    with pytest.raises(InputError, match=re.escape("binary.csv cannot be read")):
        read_layout(path)


def test_other_bad_layouts_are_refused():
    with pytest.raises(InputError, match="unknown layout 'nine_sphere'.*Did you mean 'nine_spheres'"):
        get_layout("nine_sphere")
    with pytest.raises(InputError, match="unknown kind of element 'cube'.*\nallowed: point, sphere"):
        make_layout("mine", "cube", "test", [{"x": 0.0, "z": 0.0}])
    with pytest.raises(InputError, match="layout mine: element 2 has no radius"):
        make_layout("mine", "sphere", "test", [{"x": 0, "z": 0, "radius": 0.01}, {"x": 0, "z": 0}])
    with pytest.raises(InputError, match="layout mine has no elements"):
        make_layout("mine", "sphere", "test", [])
    with pytest.raises(InputError, match="layout mine: y is needed for each of 1 elements"):
        Layout("mine", "point", "test", ("foot",), {"x": (0.0,)})
    with pytest.raises(InputError, match="unknown kind of element"):
        Layout("mine", "cube", "test", ("foot",), {"x": (0.0,)})


# ---- shapes of the sole

PLACES = jnp.linspace(-0.15, 0.15, 301)


def test_every_place_belongs_to_regions_that_share_it_whole():
    shares = region_shares(PLACES)
    assert tuple(shares) == REGIONS
    np.testing.assert_allclose(sum(shares.values()), 1.0, atol=1e-15)
    for share in shares.values():
        assert np.all(np.asarray(share) >= 0)
    # In the middle of each region nearly all belongs to it, from heel to toes.
    for place, region in zip((-0.095, -0.015, 0.0425, 0.1), REGIONS, strict=True):
        assert region_shares(jnp.asarray(place))[region] > 0.99


def test_region_shares_are_smooth():
    # A difference of the derivative falls with the step: no kink hides between the regions.
    slope = jax.vmap(jax.grad(lambda x: region_shares(x)["midfoot"] * 1.0))
    for step in (1e-5, 1e-6):
        assert np.max(np.abs(slope(PLACES + step) - slope(PLACES))) < 2e4 * step


def test_a_higher_arch_raises_the_middle_and_lowers_the_ends():
    height = np.asarray(raised_by(PLACES, CAVUS))
    top = float(PLACES[np.argmax(height)])
    assert -0.045 < top < 0.015 and height.max() == pytest.approx(CAVUS["arch"] * (1 - CAVUS["arch.balance"]), rel=1e-3)
    for end in (height[PLACES < -0.095], height[PLACES > 0.095]):
        assert np.all(end < 0)
    np.testing.assert_array_equal(raised_by(PLACES, NORMAL), 0.0)
    np.testing.assert_allclose(raised_by(PLACES, {**NORMAL, "arch": -CAVUS["arch"]}), -height, atol=1e-18)


def test_what_one_region_loses_is_raised_there_only():
    for region, inside, outside in (("heel", -0.095, 0.0), ("toes", 0.1, 0.0425), ("midfoot", -0.015, 0.1)):
        lost = {**NORMAL, f"loss.{region}": 0.004}
        assert raised_by(jnp.asarray(inside), lost) == pytest.approx(0.004, rel=1e-2)
        assert abs(raised_by(jnp.asarray(outside), lost)) < 1e-5


def test_a_flat_foot_has_its_arch_on_the_line_from_heel_to_ball():
    x, normal = lowest(NINE_SPHERES)
    flat, cavus = (lowest(NINE_SPHERES, with_shape(NINE_SPHERES, shape))[1] for shape in (FLAT, CAVUS))
    heel, arch, ball = 1, (2, 3, 4), 5

    def above_the_line(z):
        return np.array([z[i] - np.interp(x[i], x[[heel, ball]], z[[heel, ball]]) for i in arch])

    assert np.all(np.abs(above_the_line(flat)) < 0.3e-3)
    assert above_the_line(normal).max() > 0.01 and above_the_line(cavus).max() > 0.02


def test_shapes_have_derivatives_in_every_lane():
    leaves = list(NORMAL)
    shape = {name: jnp.asarray([NORMAL[name], CAVUS[name], FLAT[name]]) for name in leaves}
    elements = NINE_SPHERES.elements()

    def heights(values):
        return shaped(elements, jnp.zeros((1,)), dict(zip(leaves, values, strict=True))).z

    values = jnp.stack([shape[name] for name in leaves])
    assert heights(values).shape == (9, 3)
    for i in range(len(leaves)):
        step = jnp.zeros_like(values).at[i].set(1e-4)
        _, exact = jax.jvp(heights, (values,), (step / 1e-4,))
        difference = (heights(values + step) - heights(values - step)) / 2e-4
        np.testing.assert_allclose(exact, difference, atol=1e-10)  # heights are linear in each number
    pulled = jax.grad(lambda v: jnp.sum(heights(v)))(values)
    assert np.all(np.isfinite(pulled))
