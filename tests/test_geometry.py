"""Elements against a plane: the paper's angles as second derivation, brute force, limits, and derivatives at faces."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxcontact import vectors
from jaxcontact.contact import geometry
from jaxcontact.contact.geometry import GROUND, Body, Plane
from jaxcontact.errors import InputError
from jaxcontact.vectors import IDENTITY

support = jax.jit(geometry.superellipsoid_support)
extent = jax.jit(geometry.superellipsoid_extent)
inside_outside = jax.jit(geometry.inside_outside)
touch_superellipsoid = jax.jit(geometry.touch_superellipsoid)
of_quaternion = jax.jit(vectors.of_quaternion)


def three(rng, low, high, lanes):
    return tuple(rng.uniform(low, high, (3, lanes)))


def units(rng, lanes):
    d = rng.normal(size=(3, lanes))
    return tuple(d / np.linalg.norm(d, axis=0))


def shapes(seed, lanes, low=0.1, high=1.9):
    """Semi-axes, exponents and directions that were drawn at random."""
    rng = np.random.default_rng(seed)
    return three(rng, 0.01, 0.2, lanes), tuple(rng.uniform(low, high, (2, lanes))), units(rng, lanes)


def scene(seed, lanes):
    """A moving body, an element's place and orientation in it, and a moving plane."""
    rng = np.random.default_rng(seed)
    rotation, orientation = (jax.tree.map(np.asarray, of_quaternion(tuple(rng.normal(size=(4, lanes))))) for _ in "ab")
    body = Body(three(rng, -1, 1, lanes), rotation, three(rng, -2, 2, lanes), three(rng, -5, 5, lanes))
    plane = Plane(three(rng, -1, 1, lanes), units(rng, lanes), three(rng, -2, 2, lanes), three(rng, -3, 3, lanes))
    return body, three(rng, -0.1, 0.1, lanes), orientation, plane


def implicit(axes, exponents, point):
    """Lopes eq. A.1, as printed."""
    (a, b, c), (e1, e2), (x, y, z) = axes, exponents, point
    return (abs(x / a) ** (2 / e1) + abs(y / b) ** (2 / e1)) ** (e1 / e2) + abs(z / c) ** (2 / e2)


def surface(axes, exponents, phi1, phi2):
    """Lopes eq. A.3, as printed but for `sin`, which should read `sign`."""
    (a, b, c), (e1, e2) = axes, exponents
    c1, s1, c2, s2 = np.cos(phi1), np.sin(phi1), np.cos(phi2), np.sin(phi2)
    return (
        np.sign(c1 * c2) * a * abs(c1) ** e1 * abs(c2) ** e2,
        np.sign(s1 * c2) * b * abs(s1) ** e1 * abs(c2) ** e2,
        np.sign(s2) * c * abs(s2) ** e2,
    )


def closest_by_angles(axes, exponents, n):
    """Lopes eqs A.7, A.8 and A.3, and of the two solutions +s and -s the one that lies farther along n."""
    (a, b, c), (e1, e2), (nx, ny, nz) = axes, exponents, n

    def power(x, k):
        return np.sign(x) * abs(x) ** k

    with np.errstate(divide="ignore"):
        phi1 = np.arctan(power(b * ny, 1 / (2 - e1)) / power(a * nx, 1 / (2 - e1)))
        by_x = power(c * nz, 1 / (2 - e2)) * abs(np.cos(phi1)) ** ((2 - e1) / (2 - e2)) / power(a * nx, 1 / (2 - e2))
        by_y = power(c * nz, 1 / (2 - e2)) * abs(np.sin(phi1)) ** ((2 - e1) / (2 - e2)) / power(b * ny, 1 / (2 - e2))
    # arctan gives cos(phi1) >= 0, so that sign(sin(phi1)) of the second branch is the sign of phi1.
    phi2 = np.where(abs(a * nx) > abs(b * ny), np.arctan(by_x), np.arctan(np.sign(phi1) * by_y))
    s = np.array(surface(axes, exponents, phi1, phi2))
    return np.where(np.sum(s * np.array(n), axis=0) < 0, -s, s)


# --- Values ---


def test_the_papers_angles_lead_to_the_same_point():
    axes, exponents, direction = shapes(0, 4000)
    expected = closest_by_angles(axes, exponents, direction)
    np.testing.assert_allclose(support(axes, exponents, direction), expected, atol=1e-12 * 0.2)
    np.testing.assert_allclose(extent(axes, exponents, direction), np.sum(expected * np.array(direction), axis=0))


def test_the_point_is_on_the_surface_and_its_normal_is_the_direction():
    # Exponents from 0.3: A.1 takes a power 2/eps of x/a, and loses as many digits as that is large.
    axes, exponents, direction = shapes(1, 2000, 0.3, 1.9)
    point = support(axes, exponents, direction)
    np.testing.assert_allclose(implicit(axes, exponents, point), 1.0, rtol=1e-12)
    outward = np.array(jax.grad(lambda x: jnp.sum(inside_outside(axes, exponents, x)))(point))
    outward /= np.linalg.norm(outward, axis=0)
    np.testing.assert_allclose(outward, direction, atol=1e-9)


@pytest.mark.parametrize(
    "exponents",
    [(1.0, 1.0), (0.1, 0.1), (1.9, 1.9), (0.1, 1.9), (1.9, 0.1), (0.5, 1.3)],
    ids=lambda e: f"{e[0]}_{e[1]}",
)
def test_no_point_of_a_dense_surface_is_nearer_to_the_plane(exponents):
    axes = (0.1, 0.04, 0.07)
    # A grid that is fine towards the axes, where sharp edges take most of the surface into a small angle.
    fine = np.concatenate([np.geomspace(1e-12, 0.1, 50), np.linspace(0.12, np.pi / 4, 40)])
    quarter = np.concatenate([[0.0], fine, np.pi / 2 - fine, [np.pi / 2]])
    around = np.concatenate([quarter, quarter + np.pi / 2, quarter - np.pi / 2, quarter - np.pi])
    samples = surface(axes, exponents, *(phi.ravel() for phi in np.meshgrid(around, np.append(-quarter, quarter))))
    body, centre, orientation, plane = scene(2, 8)
    touch = touch_superellipsoid(body, centre, axes, exponents, plane, orientation)
    for lane in range(8):
        pose, middle, turned, ground = jax.tree.map(lambda x, lane=lane: x[lane], (body, centre, orientation, plane))
        in_body = vectors.add(middle, vectors.rotate(turned, samples))
        in_space = vectors.add(pose.position, vectors.rotate(pose.rotation, in_body))
        nearest = np.min(vectors.dot(ground.normal, vectors.subtract(in_space, ground.point)))
        assert touch.gap[lane] - 1e-14 <= nearest <= touch.gap[lane] + 1e-3 * max(axes)  # above: the grid is coarse


def test_a_superellipsoid_of_equal_exponents_has_a_dual_norm():
    # |x/a|^p + |y/b|^p + |z/c|^p = 1 with p = 2/eps reaches as far as the norm of (a d_x, ...) with 1/p + 1/q = 1.
    axes, (eps, _), direction = shapes(3, 500)
    q = 1 / (1 - eps / 2)
    scaled = np.abs(np.array(axes) * np.array(direction))
    np.testing.assert_allclose(extent(axes, (eps, eps), direction), np.sum(scaled**q, axis=0) ** (1 / q), rtol=1e-13)
    # By hand, along (1, 1, 1) / a: x = y = z and 3 x^p = 1.
    np.testing.assert_allclose(support((1.0, 1.0, 1.0), (0.4, 0.4), (1.0, 1.0, 1.0)), [3**-0.2] * 3, rtol=1e-14)


def test_box_and_octahedron_are_the_limits():
    axes, _, direction = shapes(4, 200)
    scaled = np.abs(np.array(axes) * np.array(direction))
    tiny = 1e-9
    np.testing.assert_allclose(extent(axes, (tiny, tiny), direction), scaled.sum(axis=0), rtol=1e-7)
    np.testing.assert_allclose(extent(axes, (2 - tiny, 2 - tiny), direction), scaled.max(axis=0), rtol=1e-7)


@pytest.mark.parametrize("eps", [0.1, 0.7, 1.0, 1.4, 1.9])
def test_faces_and_poles_are_touched_in_their_middle(eps):
    axes = (0.1, 0.04, 0.07)
    for i in range(3):
        for side in (-1.0, 1.0):
            direction = [0.0, 0.0, 0.0]
            direction[i] = side
            expected = [0.0, 0.0, 0.0]
            expected[i] = side * axes[i]
            np.testing.assert_array_equal(support(axes, (eps, 2 - eps), tuple(direction)), expected)


def test_inside_outside_is_equation_a1():
    axes, exponents, _ = shapes(5, 2000)
    inside = tuple(1.5 * a * x for a, x in zip(axes, three(np.random.default_rng(6), -1, 1, 2000), strict=True))
    np.testing.assert_allclose(inside_outside(axes, exponents, inside), implicit(axes, exponents, inside), rtol=1e-11)
    assert inside_outside((1.0, 2.0, 3.0), (0.5, 1.5), (0.0, 0.0, 0.0)) == 0.0


def test_simpler_shapes_are_special_cases():
    body, centre, orientation, plane = scene(7, 300)
    axes, _, direction = shapes(8, 300)
    radius = axes[0]

    def same(one, other):
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=2e-14), one, other)

    same(
        geometry.touch_ellipsoid(body, centre, axes, plane, orientation),
        touch_superellipsoid(body, centre, axes, (1.0, 1.0), plane, orientation),
    )
    sphere = geometry.touch_sphere(body, centre, radius, plane)
    same(sphere, touch_superellipsoid(body, centre, (radius,) * 3, (1.0, 1.0), plane, orientation))
    same(geometry.touch_point(body, centre, plane), geometry.touch_sphere(body, centre, 0.0, plane))
    same(geometry.touch_point(body, centre, plane), geometry.touch_ellipsoid(body, centre, (0.0, 0.0, 0.0), plane))
    same(geometry.sphere_support(radius, direction), vectors.scale(radius, direction))
    same(geometry.ellipsoid_support(axes, direction), support(axes, (1.0, 1.0), direction))
    same(geometry.point_support(direction), vectors.scale(0.0, direction))


def test_extent_grows_with_the_direction_and_the_point_does_not():
    axes, exponents, direction = shapes(9, 200)
    longer = vectors.scale(7.3, direction)
    np.testing.assert_allclose(support(axes, exponents, longer), support(axes, exponents, direction), atol=1e-15)
    np.testing.assert_allclose(extent(axes, exponents, longer), 7.3 * extent(axes, exponents, direction), rtol=1e-14)


def test_touch_moves_and_turns_with_space():
    lanes = 300
    body, centre, orientation, plane = scene(10, lanes)
    axes, exponents, _ = shapes(11, lanes)
    rng = np.random.default_rng(12)
    turn, shift = vectors.of_quaternion(tuple(rng.normal(size=4))), tuple(rng.normal(size=3))

    def moved(point):
        return vectors.add(shift, vectors.rotate(turn, point))

    def turned(vector):
        return vectors.rotate(turn, vector)

    before = touch_superellipsoid(body, centre, axes, exponents, plane, orientation)
    after = touch_superellipsoid(
        Body(moved(body.position), vectors.compose(turn, body.rotation), turned(body.velocity), turned(body.spin)),
        centre,
        axes,
        exponents,
        Plane(moved(plane.point), turned(plane.normal), turned(plane.velocity), turned(plane.spin)),
        orientation,
    )
    for one, other in (
        (after.gap, before.gap),
        (after.on_body, moved(before.on_body)),
        (after.on_plane, moved(before.on_plane)),
        (after.normal, turned(before.normal)),
        (after.v_n, before.v_n),
        (after.v_t, turned(before.v_t)),
    ):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_both_points_are_a_gap_apart_along_the_normal():
    body, centre, orientation, plane = scene(13, 300)
    axes, exponents, _ = shapes(14, 300)
    touch = touch_superellipsoid(body, centre, axes, exponents, plane, orientation)
    between = vectors.subtract(touch.on_body, touch.on_plane)
    np.testing.assert_allclose(between, vectors.scale(touch.gap, plane.normal), atol=1e-15)
    np.testing.assert_allclose(vectors.dot(plane.normal, vectors.subtract(touch.on_plane, plane.point)), 0, atol=1e-14)
    np.testing.assert_allclose(vectors.dot(plane.normal, touch.v_t), 0, atol=1e-14)


# --- Velocities ---


def turned_by(spin, time, rotation):
    """A rotation after turning with constant spin: Rodrigues' formula, exact."""
    rate = jnp.sqrt(vectors.dot(spin, spin))
    axis = vectors.scale(1 / rate, spin)
    s = jnp.sin(0.5 * rate * time)
    return vectors.compose(vectors.of_quaternion((jnp.cos(0.5 * rate * time), *vectors.scale(s, axis))), rotation)


def body_at(body, time):
    position = vectors.add(body.position, vectors.scale(time, body.velocity))
    return body._replace(position=position, rotation=turned_by(body.spin, time, body.rotation))


def plane_at(plane, time):
    turn = turned_by(plane.spin, time, IDENTITY)
    point = vectors.add(plane.point, vectors.scale(time, plane.velocity))
    return plane._replace(point=point, normal=vectors.rotate(turn, plane.normal))


def test_velocities_are_those_of_the_material_points():
    lanes = 200
    body, centre, orientation, plane = scene(15, lanes)
    axes, exponents, _ = shapes(16, lanes)
    touch = touch_superellipsoid(body, centre, axes, exponents, plane, orientation)
    # Where the touching points sit in each body, and where those two points are a little later and earlier.
    in_body = vectors.rotate_back(body.rotation, vectors.subtract(touch.on_body, body.position))
    in_plane = vectors.subtract(touch.on_plane, plane.point)

    def apart(time):
        then, ground = body_at(body, time), plane_at(plane, time)
        mine = vectors.add(then.position, vectors.rotate(then.rotation, in_body))
        other = vectors.add(ground.point, vectors.rotate(turned_by(plane.spin, time, IDENTITY), in_plane))
        return np.array(vectors.subtract(mine, other))

    step = 1e-5
    difference = (apart(step) - apart(-step)) / (2 * step)
    velocity = np.array(vectors.add(vectors.scale(touch.v_n, touch.normal), touch.v_t))
    np.testing.assert_allclose(velocity, difference, atol=1e-8)


def test_normal_velocity_is_the_rate_of_the_gap():
    # The contact point wanders over the body, but to first order the gap does not see it.
    body, centre, orientation, plane = scene(17, 200)
    axes, exponents, _ = shapes(18, 200)

    def gap(time):
        return geometry.touch_superellipsoid(
            body_at(body, time), centre, axes, exponents, plane_at(plane, time), orientation
        ).gap

    rate = jax.jit(lambda: jax.jvp(gap, (0.0,), (1.0,))[1])()
    touch = touch_superellipsoid(body, centre, axes, exponents, plane, orientation)
    np.testing.assert_allclose(touch.v_n, rate, atol=1e-12)


def test_a_rolling_sphere_does_not_slip_and_a_treadmill_carries_its_belt():
    radius, speed = 0.1, 1.5
    rolling = Body((0.0, 0.0, radius), IDENTITY, (speed, 0.0, 0.0), (0.0, speed / radius, 0.0))
    still = Body((0.0, 0.0, radius), IDENTITY)
    belt = GROUND._replace(velocity=(-speed, 0.0, 0.0))
    board = GROUND._replace(point=(-1.0, 0.0, 0.0), spin=(0.0, -0.2, 0.0))  # its far end rises
    np.testing.assert_allclose(geometry.touch_sphere(rolling, vectors.ZERO, radius).v_t, 0.0, atol=1e-15)
    np.testing.assert_allclose(geometry.touch_sphere(still, vectors.ZERO, radius, belt).v_t, (speed, 0, 0))
    assert geometry.touch_sphere(still, vectors.ZERO, radius, board).v_n == pytest.approx(-0.2)


# --- Derivatives ---


@partial(jax.jit, static_argnums=0)
def jacobian_of_lanes(function, x):
    """d function_j / d x_i of every lane by itself, [i, j, lane], forward."""
    n, lanes = x.shape
    basis = jnp.repeat(jnp.eye(n, dtype=x.dtype), lanes, axis=1)
    tangent = jax.jvp(function, (jnp.tile(x, n),), (basis,))[1]
    return jnp.swapaxes(tangent.reshape(-1, n, lanes), 0, 1)


@partial(jax.jit, static_argnums=0)
def pulled_back(function, x):
    """The same, in reverse."""
    n, lanes = x.shape
    m = jax.eval_shape(function, x).shape[0]
    pull = jax.vjp(function, jnp.tile(x, m))[1]
    return pull(jnp.repeat(jnp.eye(m, dtype=x.dtype), lanes, axis=1))[0].reshape(n, m, lanes)


def differences(function, x, step, rows):
    """The same for some x_i by differences of fourth order: one long batch of lanes."""
    (n, lanes), unit = x.shape, np.eye(x.shape[0])
    weights = {1: 2 / 3, -1: -2 / 3, 2: -1 / 12, -2: 1 / 12}
    moved = np.stack([x + k * step * unit[i][:, None] for i in rows for k in weights], axis=1)
    value = np.asarray(function(moved.reshape(n, -1))).reshape(-1, len(rows), 4, lanes)
    return np.einsum("jikl,k->ijl", value, list(weights.values())) / step


@jax.jit
def whole_touch(x):
    """Every number that leaves a touch, from every number that enters it, both as rows over lanes."""
    body = Body(tuple(x[:3]), vectors.of_quaternion(tuple(x[3:7])), tuple(x[19:22]), tuple(x[22:25]))
    plane = GROUND._replace(normal=(0.6, 0.0, 0.8), velocity=(0.3, 0.0, 0.1), spin=(0.0, 0.4, 0.0))
    orientation = vectors.of_quaternion(tuple(x[10:14]))
    touch = geometry.touch_superellipsoid(body, tuple(x[7:10]), tuple(x[14:17]), tuple(x[17:19]), plane, orientation)
    return jnp.stack([touch.gap, *touch.on_body, *touch.on_plane, touch.v_n, *touch.v_t])


def test_derivatives_agree_with_differences_in_both_modes():
    lanes = 200
    axes, exponents, _ = shapes(19, lanes)
    rng = np.random.default_rng(20)
    place, quaternion, centre, tilt, motion = (rng.normal(size=(n, lanes)) for n in (3, 4, 3, 4, 6))
    x = np.concatenate([place, quaternion, centre, tilt, axes, exponents, motion])
    forward = np.asarray(jacobian_of_lanes(whole_touch, x))
    np.testing.assert_allclose(forward, pulled_back(whole_touch, x), rtol=1e-10, atol=1e-11)
    difference = differences(whole_touch, x, 3e-5, range(25))
    error = np.max(np.abs(forward - difference) / (1 + np.abs(difference)), axis=(0, 1))
    # Differences are not that exact in the lane or two that lie beside a flat face.
    assert np.max(error) < 1e-6 and np.quantile(error, 0.98) < 1e-9


SPECIAL = np.array(
    [
        (0, 0, 1), (0, 0, -1), (1, 0, 0), (0, -1, 0),  # poles and faces
        (0.6, 0.8, 0), (-0.6, 0, 0.8), (0, 0.6, -0.8), (1, 1, 0), (1, 0, 1),  # edges, and ties of two parts
        (1e-300, 0, 1), (1e-160, 1e-170, -1), (1e-12, 1, 1e-12), (1e-6, -1e-6, 1), (0, 1e-9, 1),  # beside them
        (0.3, -0.5, 0.8), (1, 1, 1),
    ],
    float,
)  # fmt: skip
EXPONENTS = (0.1, 0.5, 0.999, 1.0, 1.5, 1.9)


def special_batch(dtype):
    """Faces, poles, edges, their neighbours and ordinary directions with every pair of exponents, in one batch."""
    pairs = np.array([(e1, e2) for e1 in EXPONENTS for e2 in EXPONENTS])
    d = np.repeat(SPECIAL, len(pairs), axis=0)
    e = np.tile(pairs, (len(SPECIAL), 1))
    axes = np.tile((0.1, 0.04, 0.07), (len(d), 1))
    return np.concatenate([d, axes, e], axis=1).T.astype(dtype)


@jax.jit
def everything(x):
    """Extent and farthest point from direction, semi-axes and exponents."""
    direction, axes, exponents = tuple(x[:3]), tuple(x[3:6]), tuple(x[6:8])
    return jnp.stack(
        [
            geometry.superellipsoid_extent(axes, exponents, direction),
            *geometry.superellipsoid_support(axes, exponents, direction),
        ]
    )


@pytest.mark.parametrize("dtype", [jnp.float64, jnp.float32])
def test_values_and_derivatives_are_finite_in_a_mixed_batch(dtype):
    x = special_batch(dtype)
    both = everything(x), jacobian_of_lanes(everything, x), pulled_back(everything, x)
    value, forward, reverse = (np.asarray(part) for part in both)
    assert value.dtype == forward.dtype == reverse.dtype == dtype
    assert np.all(np.isfinite(value)) and np.all(np.isfinite(forward)) and np.all(np.isfinite(reverse))
    # Beside a face a lane's derivatives are large and cancel, in another order in reverse: relative to the largest.
    largest = np.max(np.abs(forward), axis=(0, 1))
    assert np.all(np.abs(forward - reverse) <= 10 * jnp.finfo(dtype).eps * largest)


def test_the_gaps_derivative_is_exact_at_every_face_and_pole():
    x = special_batch(jnp.float64)
    gradient = np.asarray(jacobian_of_lanes(everything, x))[:, 0]
    # By the direction it is the point itself, and by a semi-axis d_i x_i / a_i, both in closed form.
    point = np.asarray(everything(x))[1:]
    np.testing.assert_allclose(gradient[:3], point, rtol=1e-15)
    np.testing.assert_allclose(gradient[3:6], x[:3] * point / x[3:6], rtol=1e-14, atol=1e-300)
    # By the exponents, against differences.
    np.testing.assert_allclose(gradient[6:], differences(everything, x, 1e-4, (6, 7))[:, 0], atol=1e-9)


def test_the_points_derivative_by_exponents_and_axes_is_exact_at_faces_and_poles():
    x = special_batch(jnp.float64)
    at = np.all((x[:3] == 0) | (np.abs(x[:3]) > 0.1), axis=0)  # at, not beside, where differences see too little
    jacobian, difference = np.asarray(jacobian_of_lanes(everything, x)), differences(everything, x, 1e-5, range(3, 8))
    np.testing.assert_allclose(jacobian[3:, :, at], difference[..., at], atol=1e-9)


@jax.jit
def gradient_of_extent(x):
    return jax.grad(lambda x: jnp.sum(everything(x)[0]))(x)[:3]


def lanes_with(x, e1, e2):
    return np.flatnonzero((x[6] == e1) & (x[7] == e2))


def test_tilting_off_a_face_moves_the_point_as_the_curvature_says():
    x = special_batch(jnp.float64)
    tilt = np.asarray(jacobian_of_lanes(everything, x))[:3, 1:]
    # eps = 1: the ellipsoid's, from its own smooth formula.
    ellipsoid = jax.jit(
        jax.vmap(jax.jacrev(lambda d: jnp.stack(geometry.ellipsoid_support(tuple(x[3:6, 0]), tuple(d)))), out_axes=-1)
    )(SPECIAL)
    np.testing.assert_allclose(np.swapaxes(tilt[..., lanes_with(x, 1.0, 1.0)], 0, 1), ellipsoid, atol=1e-15)
    # The gap's second derivative is the point's first one, with the same conventions (but 1e-160 beside a face).
    curvature = np.asarray(jacobian_of_lanes(gradient_of_extent, x))[:3]
    ordinary = np.all((x[:3] == 0) | (np.abs(x[:3]) > 1e-100), axis=0)
    np.testing.assert_allclose(curvature[..., ordinary], tilt[..., ordinary], rtol=1e-12)
    # Edges stay where they are (exact), and on a flat face the derivative is 0 by convention.
    for eps in (1.5, 0.5):
        at = lanes_with(x, eps, eps)
        i, lane = np.nonzero(x[:3, at] == 0)
        assert np.all(tilt[i, :, at[lane]] == 0) and np.all(tilt[:, i, at[lane]] == 0)


def test_at_a_pole_with_a_round_profile_the_derivative_is_right_along_both_axes():
    x, step = special_batch(jnp.float64), 1e-6
    jacobian = np.asarray(jacobian_of_lanes(everything, x))
    at = np.flatnonzero((x[7] == 1.0) & (x[0] == 0) & (x[1] == 0))
    assert len(set(x[6, at])) == len(EXPONENTS)
    difference = differences(everything, x, step, (0, 1))
    np.testing.assert_allclose(jacobian[:2][..., at], difference[..., at], atol=1e-9)


def test_beside_a_flat_face_the_slope_is_the_true_one():
    # Near the z face of a superellipsoid with equal exponents x = a |r|^(q - 1) with r = a d_x / (c d_z).
    x = special_batch(jnp.float64)
    a, _, c = x[3:6, 0]
    tilt = np.array([1e-4, -1e-8, 1e-20, 1e-100, -1e-150])
    x[:3, :5], x[6:, :5] = (tilt, 0 * tilt, 0 * tilt - 1), 0.5
    slope, q = np.asarray(jacobian_of_lanes(everything, x))[0, 1, :5], 2 / 1.5
    expected = a * (q - 1) * np.abs(a * tilt / c) ** (q - 2) * a / c
    np.testing.assert_allclose(slope, expected, rtol=1e-4)  # r^q is left out beside 1
    np.testing.assert_allclose(slope[1:], expected[1:], rtol=1e-9)


@jax.jit
def inside_outside_of_lanes(x):
    return geometry.inside_outside(tuple(x[3:6]), tuple(x[6:8]), tuple(x[:3]))[None]


def test_inside_outside_has_finite_exact_derivatives():
    lanes = 200
    _, exponents, _ = shapes(21, lanes, 0.3, 1.6)
    rng = np.random.default_rng(22)
    axes, point = rng.uniform(0.5, 2.0, (3, lanes)), rng.uniform(-1.5, 1.5, (3, lanes))
    point[0, :40], point[1, 20:60], point[2, 30:90], point[:, 100] = 0.0, 0.0, 0.0, 0.0
    x = np.concatenate([point, axes, exponents])
    forward = np.asarray(jacobian_of_lanes(inside_outside_of_lanes, x))
    reverse = pulled_back(inside_outside_of_lanes, x)
    np.testing.assert_allclose(forward, reverse, rtol=1e-12)
    difference = differences(inside_outside_of_lanes, x, 1e-4, range(8))
    error = np.max(np.abs(forward - difference) / (1 + np.abs(difference)), axis=(0, 1))
    assert np.max(error) < 1e-5 and np.quantile(error, 0.98) < 1e-9  # one lane lies beside a plane of symmetry


# --- Numbers, shapes, cost ---


def test_single_precision_is_right_to_a_thousandth_of_a_millimetre():
    body, centre, orientation, plane = scene(23, 2000)
    axes, exponents, _ = shapes(24, 2000)
    arguments = body, centre, axes, exponents, plane, orientation
    # Both start from the same, rounded numbers, so that only the function's own rounding counts.
    rounded = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), arguments)
    wide = touch_superellipsoid(*jax.tree.map(lambda x: jnp.asarray(x, jnp.float64), rounded))
    narrow = touch_superellipsoid(*rounded)
    assert narrow.gap.dtype == jnp.float32
    assert np.max(np.abs(wide.gap - narrow.gap)) < 1e-6  # m, on scenes of a metre
    assert np.max(np.abs(np.array(wide.on_body) - np.array(narrow.on_body))) < 1e-6


def test_lanes_broadcast_and_scalars_stay_scalars():
    body, centre, orientation, plane = scene(25, 7)
    (axes, exponents, _), frames = shapes(26, 5), jax.tree.map(lambda x: x[:, None], body)
    place, turned, ground = jax.tree.map(lambda x: x[0], (centre, orientation, plane))
    grid = touch_superellipsoid(frames, place, axes, exponents, ground, turned)
    assert grid.gap.shape == grid.on_body[0].shape == grid.v_t[2].shape == (7, 5)
    pose, (one_axes, one_exponents) = (
        jax.tree.map(lambda x: x[2], body),
        jax.tree.map(lambda x: x[3], (axes, exponents)),
    )
    alone = touch_superellipsoid(pose, place, one_axes, one_exponents, ground, turned)
    assert alone.gap.shape == ()
    np.testing.assert_allclose(alone.gap, grid.gap[2, 3], rtol=1e-13)


def test_whole_numbers_are_numbers_too():
    body = Body((0, 0, 2), ((1, 0, 0), (0, 1, 0), (0, 0, 1)))
    gap = jax.jit(lambda c: geometry.touch_superellipsoid(body, (0, 0, 0), (1, 1, c), (1, 1)).gap)
    assert gap(1) == 1.0 and jax.grad(gap)(1.0) == -1.0


def test_cost_in_powers():
    def count(function, *arguments):
        text = str(jax.make_jaxpr(function)(*arguments))
        return [text.count(f" {name} ") for name in ("exp", "log", "pow")]

    axes, exponents, direction = jax.tree.map(lambda x: x[0], shapes(27, 1))
    body, centre, orientation, plane = jax.tree.map(lambda x: x[0], scene(28, 1))
    assert count(geometry.touch_ellipsoid, body, centre, axes, plane, orientation) == [0, 0, 0]
    assert count(geometry.touch_superellipsoid, body, centre, axes, exponents, plane, orientation) == [4, 4, 0]


def test_shapes_that_are_none_are_refused():
    geometry.check_superellipsoid((0.1, 0.2, 0.3), (0.1, 1.9))
    for axes, exponents, words in (
        ((0.1, 0.0, 0.3), (1.0, 1.0), "semi-axis .* 0.0; allowed: positive"),
        ((0.1, 0.2, 0.3), (1.0, 2.0), "exponent .* 2.0; allowed: 0 < eps < 2"),
        ((0.1, 0.2, 0.3), (np.array([0.5, 0.0]), 1.0), "exponent"),
        ((0.1, float("nan"), 0.3), (1.0, 1.0), "semi-axis"),
    ):
        with pytest.raises(InputError, match=words):
            geometry.check_superellipsoid(axes, exponents)
