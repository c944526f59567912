"""Forces of many elements: properties over random inputs, closed forms, moments, limits of shapes, derivatives."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick import hasty_jit

from jaxcontact import vectors
from jaxcontact.contact.geometry import GROUND, Body, Plane
from jaxcontact.models.layout import KINDS, Elements
from jaxcontact.models.sole import (
    FRICTION_LAWS,
    NORMAL_LAWS,
    contact_forces,
    law_parameters,
    reaction,
    sum_and_moment,
)

ELEMENTS, LANES = 12, 300
LAWS = {p.name: p.default for p in law_parameters(40e3, 3e4, 0.8, "test")} | {"mu_viscous": 20.0, "v_slip": 0.05}
PAIRS = [(normal, friction) for normal in NORMAL_LAWS for friction in FRICTION_LAWS]
# Every kind and every law at least once, for what is slow to compile.
CASES = [
    ("sphere", "hunt_crossley", "coulomb_viscous"),
    ("sphere", "kelvin_voigt", "coulomb"),
    ("sphere", "shoe", "shoe"),
    ("point", "kelvin_voigt", "coulomb_viscous"),
    ("ellipsoid", "hunt_crossley", "shoe"),
    ("superellipsoid", "shoe", "coulomb_viscous"),
]


@cache
def compiled(kind, normal="hunt_crossley", friction="coulomb_viscous"):
    """Contacts, reaction, and force and moment about a point, for a body with elements of one kind."""
    choices = {"normal": normal, "friction": friction}

    def everything(body, elements, laws, plane, about):
        contacts = contact_forces(body, kind, elements, laws, choices, plane)
        return contacts, reaction((contacts,), plane), sum_and_moment(contacts, about)

    jitted = hasty_jit(everything)

    def of_numpy(body, elements, laws=LAWS, plane=GROUND, about=vectors.ZERO):
        return jax.tree.map(np.asarray, jitted(body, elements, laws, plane, about))

    return of_numpy


def some_elements(rng, kind, count=ELEMENTS):
    """Elements over the whole width of a foot; numbers (element, 1) that meet lane-wide poses."""

    def between(low, high):
        return jnp.asarray(rng.uniform(low, high, (count, 1)))

    sizes = {
        "point": {},
        "sphere": {"radius": between(0.005, 0.02)},
        "ellipsoid": {axis: between(0.005, 0.02) for axis in "abc"},
    }
    sizes["superellipsoid"] = sizes["ellipsoid"] | {"e1": between(0.4, 1.6), "e2": between(0.4, 1.6)}
    place = {"x": between(-0.12, 0.12), "y": between(-0.05, 0.05), "z": between(-0.06, -0.04)}
    shares = {name: between(0.5, 2.0) for name in ("weight", "damping", "friction")}
    return Elements(**place, **shares, **sizes[kind])


def three(rng, low, high, lanes):
    return tuple(jnp.asarray(rng.uniform(low, high, (3, lanes))))


def some_body(rng, lanes=LANES, lowest=0.035):
    """A foot somewhere, turned any way and tilted a little, some of it in the ground, moving."""
    yaw, tilt = rng.uniform(-np.pi, np.pi, lanes) / 2, rng.normal(0, 0.08, (2, lanes))
    turn = vectors.chain_turns((np.cos(yaw), 0 * yaw, 0 * yaw, np.sin(yaw)), (1 + 0 * yaw, *tilt, 0 * yaw))
    position = (*rng.uniform(-2, 2, (2, lanes)), rng.uniform(lowest, lowest + 0.035, lanes))
    rotation = vectors.of_quaternion(tuple(jnp.asarray(part) for part in turn))
    return Body(tuple(map(jnp.asarray, position)), rotation, three(rng, -0.8, 0.8, lanes), three(rng, -4, 4, lanes))


def norm(a):
    return np.sqrt(sum(np.square(part) for part in a))


def tangential(contacts):
    """Friction on each element."""
    return tuple(f - contacts.F_n * n for f, n in zip(contacts.force, contacts.touch.normal, strict=True))


def on_a_slope(rng, body, lanes=LANES):
    """The same foot on a plane that is tilted and moves: pose and plane are turned together."""
    tilt = vectors.of_quaternion(tuple(map(jnp.asarray, (1.0, *rng.normal(0, 0.3, 3)))))
    point = three(rng, -0.2, 0.2, lanes)
    plane = Plane(
        vectors.rotate(tilt, (point[0], point[1], 0.0)), vectors.rotate(tilt, vectors.UP),
        three(rng, -0.3, 0.3, lanes), three(rng, -0.5, 0.5, lanes),
    )  # fmt: skip
    return Body(
        vectors.rotate(tilt, body.position), vectors.compose(tilt, body.rotation), body.velocity, body.spin
    ), plane


# ---- what must hold for any input


@pytest.mark.parametrize(
    "kind, normal, friction", [*(("sphere", *pair) for pair in PAIRS), *(case for case in CASES if case[0] != "sphere")]
)
def test_forces_push_need_contact_stay_in_the_cone_and_never_feed_energy(kind, normal, friction):
    rng = np.random.default_rng(1)
    elements = some_elements(rng, kind)
    contacts, ground, _ = compiled(kind, normal, friction)(some_body(rng), elements)
    touching = contacts.touch.gap < 0
    assert 0.2 < touching.mean() < 0.8
    assert np.all(contacts.F_n >= 0) and np.all(contacts.F_n[~touching] == 0)
    for part in contacts.force:
        assert np.all(part[~touching] == 0)
    F_t, slip = tangential(contacts), norm(contacts.touch.v_t)
    mu = {"shoe": LAWS["c7"]}.get(friction, LAWS["mu"]) * np.asarray(elements.friction)
    viscous = LAWS["mu_viscous"] * touching if friction == "coulomb_viscous" else 0.0
    assert np.all(norm(F_t) <= (mu * contacts.F_n + viscous * slip) * (1 + 1e-12) + 1e-12)
    assert np.all(vectors.dot(F_t, contacts.touch.v_t) <= 0)
    np.testing.assert_allclose(ground.F_n, contacts.F_n.sum(0))
    assert np.all(ground.loaded == (ground.F_n > 0))


@pytest.mark.parametrize("normal, friction", PAIRS)
def test_a_closed_cycle_of_pressing_and_dragging_costs_energy(normal, friction):
    # Down and up and back and forth, out of contact and in again, in one second.
    phase = jnp.linspace(0, 2 * np.pi, 4001)
    zero, rate = 0.0 * phase, 2 * np.pi
    rng = np.random.default_rng(2)
    body = Body(
        (0.05 * jnp.cos(phase), 0.02 * jnp.sin(phase), 0.055 + 0.01 * jnp.cos(phase)), vectors.IDENTITY,
        (-0.05 * rate * jnp.sin(phase), 0.02 * rate * jnp.cos(phase), -0.01 * rate * jnp.sin(phase)),
        (zero, zero, zero),
    )  # fmt: skip
    contacts, _, _ = compiled("sphere", normal, friction)(body, some_elements(rng, "sphere"))
    by_normal = np.trapezoid(contacts.F_n * contacts.touch.v_n, phase / rate, axis=1)
    by_friction = np.trapezoid(vectors.dot(tangential(contacts), contacts.touch.v_t), phase / rate, axis=1)
    pressed = contacts.F_n.max(1) > 1.0
    assert pressed.sum() > 5
    assert np.all(by_normal[pressed] < 0) and np.all(by_friction[pressed] < 0)


@pytest.mark.parametrize("kind", KINDS)
def test_the_centre_of_pressure_is_among_the_contact_points(kind):
    rng = np.random.default_rng(3)
    body, plane = on_a_slope(rng, some_body(rng))
    contacts, ground, _ = compiled(kind)(body, some_elements(rng, kind), plane=plane)
    loaded = ground.loaded
    assert loaded.sum() > 100
    relative = np.array(ground.cop) - np.array(plane.point)
    assert np.max(np.abs(vectors.dot(np.array(plane.normal), relative)[loaded])) < 1e-12  # on the plane
    # A point is in a convex hull if it is beyond it in no direction.
    points = np.where(contacts.F_n > 0, np.array(contacts.touch.on_plane), np.nan)[:, :, loaded]
    for direction in rng.normal(size=(60, 3)):
        reach = np.nanmax(np.einsum("i,iel->el", direction, points), axis=0)
        assert np.all(direction @ np.array(ground.cop)[:, loaded] <= reach + 1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_where_the_foot_stands_and_which_way_it_points_does_not_matter(kind):
    rng = np.random.default_rng(4)
    body, elements = some_body(rng), some_elements(rng, kind)
    angle, shift = rng.uniform(-3, 3, LANES), (*rng.uniform(-5, 5, (2, LANES)), 0.0)
    yaw = vectors.of_quaternion((np.cos(angle / 2), 0 * angle, 0 * angle, np.sin(angle / 2)))
    moved = Body(
        vectors.add(vectors.rotate(yaw, body.position), shift), vectors.compose(yaw, body.rotation),
        vectors.rotate(yaw, body.velocity), vectors.rotate(yaw, body.spin),
    )  # fmt: skip
    _, here, _ = compiled(kind)(body, elements)
    _, there, _ = compiled(kind)(moved, elements)
    np.testing.assert_allclose(np.array(there.force), np.array(vectors.rotate(yaw, here.force)), atol=1e-8)
    np.testing.assert_allclose(there.free_moment, here.free_moment, atol=1e-9)
    well = here.F_n > 1.0  # a centre of pressure of next to no load has next to no digits
    expected = np.array(vectors.add(vectors.rotate(yaw, here.cop), shift))
    np.testing.assert_allclose(np.array(there.cop)[:, well], expected[:, well], atol=1e-10)


def test_force_and_moments_are_one_wrench_about_any_point():
    rng = np.random.default_rng(5)
    body, plane = on_a_slope(rng, some_body(rng))
    elements, a, b = some_elements(rng, "superellipsoid"), three(rng, -1, 1, LANES), three(rng, -1, 1, LANES)
    forces = compiled("superellipsoid")
    contacts, ground, (total, about_a) = forces(body, elements, plane=plane, about=a)
    _, _, (_, about_b) = forces(body, elements, plane=plane, about=b)
    np.testing.assert_allclose(np.array(total), np.array(ground.force), atol=1e-9)
    # The force's own lever takes a moment from one point to another.
    expected = vectors.add(about_a, vectors.cross(vectors.subtract(a, b), total))
    np.testing.assert_allclose(np.array(about_b), np.array(expected), atol=1e-8)
    # On the plane all forces together are one force at the centre of pressure, and a moment about the normal.
    arms = vectors.subtract(contacts.touch.on_plane, a)
    summed = np.array([np.sum(part, 0) for part in vectors.cross(arms, contacts.force)])
    at_cop = vectors.add(
        vectors.cross(vectors.subtract(ground.cop, a), ground.force), vectors.scale(ground.free_moment, plane.normal)
    )
    pressed = ground.loaded  # viscous friction needs no load, and then there is no centre of pressure
    assert pressed.mean() > 0.9
    np.testing.assert_allclose(np.array(at_cop)[:, pressed], summed[:, pressed], atol=1e-8)
    # Friction acts on the body's lowest points, under the plane by the depth: that lever is all the difference.
    lever = vectors.cross(vectors.scale(contacts.touch.gap, plane.normal), tangential(contacts))
    np.testing.assert_allclose(np.array(about_a), summed + np.array([np.sum(part, 0) for part in lever]), atol=1e-8)


# ---- closed forms


def a_pair(half_width, z=0.0):
    """Two points beside each other."""
    column = jnp.array([[-1.0], [1.0]]) * half_width
    one = jnp.ones_like(column)
    return Elements(0.0 * column, column, z * one, one, one, one)


def test_a_foot_that_turns_on_the_spot_feels_a_moment_and_no_force():
    depth, half_width, spin = 0.004, 0.03, np.array([2.0, -5.0])
    zero = 0.0 * spin
    body = Body((zero + 1.0, zero + 2.0, zero - depth), vectors.IDENTITY, vectors.ZERO, (zero, zero, spin))
    _, ground, _ = compiled("point", "hunt_crossley", "coulomb_viscous")(body, a_pair(half_width))
    each = LAWS["k"] * depth ** LAWS["m"]
    slip = np.abs(spin) * half_width
    friction = LAWS["mu"] * each * slip / np.hypot(slip, LAWS["v_slip"]) + LAWS["mu_viscous"] * slip
    np.testing.assert_allclose(ground.free_moment, -np.sign(spin) * 2 * half_width * friction, rtol=1e-12)
    np.testing.assert_allclose(np.array(ground.force), [zero, zero, zero + 2 * each], atol=1e-10)
    np.testing.assert_allclose(np.array(ground.cop), [zero + 1, zero + 2, zero], atol=1e-15)


def test_the_centre_of_pressure_divides_the_foot_as_the_loads_do():
    # Two points at different depths: a lever.
    elements = a_pair(0.03)._replace(z=jnp.array([[-0.004], [-0.001]]))
    zero = jnp.zeros(1)
    contacts, ground, _ = compiled("point")(Body((zero, zero, zero), vectors.IDENTITY), elements)
    loads = LAWS["k"] * np.array([0.004, 0.001]) ** 1.5
    np.testing.assert_allclose(contacts.F_n[:, 0], loads, rtol=1e-12)
    assert ground.cop[1][0] == pytest.approx(0.03 * (loads[1] - loads[0]) / loads.sum(), rel=1e-12)


def test_weights_are_shares_of_the_stiffness():
    # An element of weight 2 is two of weight 1 in one place, for all laws but viscous friction, which each element has.
    rng = np.random.default_rng(6)
    body, single = some_body(rng), some_elements(rng, "sphere")
    double = Elements(*(None if numbers is None else jnp.concatenate([numbers, numbers]) for numbers in single))
    for normal, friction in PAIRS:
        if friction == "coulomb_viscous":
            continue
        forces = compiled("sphere", normal, friction)
        _, heavy, _ = forces(body, single._replace(weight=2 * single.weight))
        _, twice, _ = forces(body, double)
        np.testing.assert_allclose(np.array(heavy.force), np.array(twice.force), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("normal, friction", [PAIRS[0], PAIRS[4], PAIRS[8]])
def test_every_kind_is_a_special_case_of_the_next(normal, friction):
    rng = np.random.default_rng(7)
    body, spheres = some_body(rng), some_elements(rng, "sphere")
    r, one = spheres.radius, jnp.ones_like(spheres.radius)

    def agree(kind, elements, of_kind, others):
        ours, theirs = (
            compiled(each, normal, friction)(body, what) for each, what in ((kind, elements), (of_kind, others))
        )
        assert np.mean(ours[0].F_n > 0) > 0.1
        np.testing.assert_allclose(np.array(ours[0].force), np.array(theirs[0].force), atol=1e-9)
        np.testing.assert_allclose(np.array(ours[1].cop), np.array(theirs[1].cop), atol=1e-9)
        np.testing.assert_allclose(ours[1].free_moment, theirs[1].free_moment, atol=1e-10)

    points = spheres._replace(radius=None)
    agree("point", points, "sphere", spheres._replace(radius=0.0 * r))
    ellipsoids = points._replace(a=r, b=r, c=r)
    agree("sphere", spheres, "ellipsoid", ellipsoids)
    ellipsoids = ellipsoids._replace(a=2 * r, b=1.5 * r)
    agree("ellipsoid", ellipsoids, "superellipsoid", ellipsoids._replace(e1=one, e2=one))


def test_coulomb_alone_is_the_law_without_its_viscous_part():
    rng = np.random.default_rng(8)
    body, elements = some_body(rng), some_elements(rng, "sphere")
    alone = compiled("sphere", "hunt_crossley", "coulomb")(body, elements)[0]
    without = compiled("sphere")(body, elements, LAWS | {"mu_viscous": 0.0})[0]
    np.testing.assert_allclose(np.array(alone.force), np.array(without.force), rtol=1e-13)


# ---- which elements are down


def test_an_element_that_is_told_to_be_down_is_so_but_for_rounding():
    laws, choices = LAWS, {"normal": "kelvin_voigt", "friction": "coulomb_viscous"}
    speed = 0.7
    gap, zero = jnp.array([1e-18, 0.0, -1e-18]), jnp.zeros(3)  # on the ground, as a landing leaves it
    body = Body((zero, zero, gap), vectors.IDENTITY, (zero + 0.3, zero, zero - speed))
    down = jnp.array([[True], [False]]) & jnp.ones(3, bool)
    found = hasty_jit(lambda body: contact_forces(body, "point", a_pair(0.03), laws, choices, down=down))(body)
    expected = np.where(down, laws["c"] * speed, 0.0)
    np.testing.assert_allclose(found.F_n, expected, rtol=1e-9)
    drag = np.where(down, laws["mu"] * expected * 0.3 / np.hypot(0.3, laws["v_slip"]) + laws["mu_viscous"] * 0.3, 0)
    np.testing.assert_allclose(found.force[0], -drag, rtol=1e-9)


def test_an_element_that_is_told_to_be_up_feels_nothing_even_in_the_ground():
    zero = jnp.zeros(1)
    body = Body((zero, zero, zero - 0.01), vectors.IDENTITY, (zero + 1.0, zero, zero - 1.0))
    up = jnp.zeros((2, 1), bool)

    def of_all_laws(body):
        for normal, friction in PAIRS:
            yield contact_forces(body, "point", a_pair(0.03), LAWS, {"normal": normal, "friction": friction}, down=up)

    for found in hasty_jit(lambda body: list(of_all_laws(body)))(body):
        assert not np.any(found.F_n) and not np.any(found.force[0])


# ---- without load


@pytest.mark.parametrize("kind, normal, friction", CASES)
def test_lanes_in_the_air_have_no_centre_of_pressure_and_no_slopes(kind, normal, friction):
    rng = np.random.default_rng(9)
    elements, choices = some_elements(rng, kind), {"normal": normal, "friction": friction}
    body = some_body(rng, 8)
    lift = jnp.array([0.0, 1.0] * 4)  # every second lane in the air
    body = body._replace(position=(*body.position[:2], 0.03 + lift))

    def seen(numbers):
        position, weight, mu = numbers
        laws = LAWS | {"mu": mu, "c7": mu}
        placed = body._replace(position=position)
        contacts = contact_forces(placed, kind, elements._replace(weight=weight), laws, choices)
        ground = reaction((contacts,))
        return jnp.stack([*ground.force, *ground.cop, ground.free_moment]), ground.loaded

    numbers = (body.position, elements.weight * jnp.ones(8), jnp.full(8, 0.8))

    @hasty_jit
    def both_modes(numbers):
        values, pull, loaded = jax.vjp(seen, numbers, has_aux=True)
        _, forth, _ = jax.jvp(seen, (numbers,), (jax.tree.map(jnp.ones_like, numbers),), has_aux=True)
        return values, loaded, (pull(jnp.ones_like(values)), forth)

    values, loaded, slopes = both_modes(numbers)
    air = np.array(lift) > 0
    np.testing.assert_array_equal(loaded, ~air)
    assert np.all(np.asarray(values)[:, air] == 0) and np.all(np.isfinite(values))
    for slope in jax.tree.leaves(slopes):
        slope = np.asarray(slope)
        assert np.all(np.isfinite(slope)) and np.all(slope[..., air] == 0) and np.any(slope[..., ~air] != 0)


def test_a_load_below_the_threshold_carries_no_centre_of_pressure():
    rng = np.random.default_rng(10)
    contacts, whole, _ = compiled("sphere")(some_body(rng), some_elements(rng, "sphere"))
    cut = reaction((contacts,), threshold=300.0)
    above = whole.F_n > 300.0
    assert 0.1 < above.mean() < 0.9
    np.testing.assert_array_equal(cut.loaded, above)
    np.testing.assert_array_equal(np.array(cut.force), np.array(whole.force))  # only the point is withheld
    for ours, full in ((np.array(cut.cop), np.array(whole.cop)), (cut.free_moment, whole.free_moment)):
        np.testing.assert_allclose(ours, np.where(above, full, 0.0), rtol=1e-12, atol=1e-12)


def test_segments_add_up():
    rng = np.random.default_rng(11)
    body, elements = some_body(rng), some_elements(rng, "sphere")
    contacts, whole, _ = compiled("sphere")(body, elements)
    parts = tuple(compiled("sphere")(body, elements.take(range(*ends)))[0] for ends in ((0, 6), (6, 12)))
    both = reaction(parts)
    for ours, theirs in zip(jax.tree.leaves(both), jax.tree.leaves(whole), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


# ---- derivatives


def laws_in_use(normal, friction):
    used = {"hunt_crossley": ("k", "m", "chi"), "kelvin_voigt": ("k", "m", "c"), "shoe": ("c1", "c2", "c3", "c4", "c5")}
    slows = {"coulomb_viscous": ("mu", "mu_viscous", "v_slip"), "coulomb": ("mu", "v_slip"), "shoe": ("c6", "c7")}
    return (*used[normal], *slows[friction])


@pytest.mark.parametrize("kind, normal, friction", CASES)
def test_derivatives_by_every_element_and_law_are_those_of_differences(kind, normal, friction):
    rng = np.random.default_rng(12)
    elements, body = some_elements(rng, kind, 4), some_body(rng, 5, lowest=0.03)
    choices, names = {"normal": normal, "friction": friction}, laws_in_use(normal, friction)
    fields = [name for name, numbers in zip(Elements._fields, elements, strict=True) if numbers is not None]
    laws = LAWS | {"c1": 1.2e5, "c2": 1.7, "c3": 1e4, "c4": 1.2, "c5": 1.1, "c6": 600.0}
    start = jnp.concatenate(
        [*(getattr(elements, field)[:, 0] for field in fields), jnp.array([laws[n] for n in names])]
    )
    sizes = np.maximum(np.abs(start), 0.01)

    def seen(numbers):
        shaped = Elements(**{field: numbers[4 * i : 4 * i + 4, None] for i, field in enumerate(fields)})
        new = dict(zip(names, numbers[4 * len(fields) :], strict=True))
        contacts = contact_forces(body, kind, shaped, laws | new, choices)
        ground = reaction((contacts,))
        return jnp.stack([*ground.force, ground.cop[0], ground.cop[1], ground.free_moment]).ravel()

    @hasty_jit
    def both_modes(numbers, batch, tangents):
        value, pull = jax.vjp(seen, numbers)
        reverse = jax.vmap(pull)(jnp.eye(value.size))[0]
        return reverse, *jax.vmap(lambda at, along: jax.jvp(seen, (at,), (along,)))(batch, tangents)

    # One batch: every number moved up, every number moved down, and derivatives along each at the start itself.
    step, none = 1e-6 * np.diag(sizes), np.zeros((len(sizes), len(sizes)))
    batch = start + np.concatenate([step, -step, none])
    reverse, values, slopes = map(np.asarray, both_modes(start, batch, np.concatenate([none, none, np.diag(sizes)])))
    plus, minus, _ = np.split(values, 3)
    difference = (plus - minus).T / 2e-6
    exact = np.split(slopes, 3)[2].T
    np.testing.assert_allclose(reverse * sizes, exact, rtol=1e-9, atol=1e-9 * np.abs(exact).max())
    quantity = np.abs(difference).reshape(6, 5, -1).max(axis=(1, 2)).repeat(5)[:, None]
    assert np.all(quantity > 0)
    assert np.max(np.abs(exact - difference) / quantity) < 1e-6
    # Every law in use, and every number of an element that touches, moves something.
    assert np.all(np.abs(exact).max(0)[-len(names) :] > 0)
    assert np.mean(np.abs(exact).max(0) > 0) > 0.6
