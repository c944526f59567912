"""One loop over the lanes: it gives what the function gives lane by lane, in values and in derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxcontact.lanewise import in_one_loop, whole_arrays
from jaxcontact.safemath import keep, power_in_lanes

LANES = 11


def arithmetic(numbers, y, kind):
    """Small arrays in many shapes, a loop, choices, whole numbers and a product with a constant matrix."""
    mixed = numbers["a"] * jnp.sum(y) + jnp.tensordot(np.arange(6.0).reshape(2, 3), y, 1)[1] - y[::-1][0]
    grown = jax.lax.fori_loop(0, 4, lambda _, x: keep(x) + jnp.sin(x) * numbers["shared"], mixed)
    pair = jnp.concatenate([y[:1] ** 2, jnp.where(kind == 0, y, -y)[1:]]).reshape(3, 1).T[0]
    least = jnp.argmin(y)
    return {
        "rows": jnp.stack([grown, jnp.max(pair), jnp.sqrt(jnp.abs(y[2]))]),
        "least": least.astype(jnp.int32),
        "positive": (grown > 0) & ~(y[0] > y[1]),
        "table": jnp.outer(y, pair) * numbers["fixed"],
    }


@pytest.fixture(scope="module")
def given():
    random = np.random.default_rng(3)
    numbers = {"a": random.normal(size=LANES), "shared": jnp.asarray(0.3), "fixed": 2.0}
    return numbers, random.normal(size=(3, LANES)), np.arange(LANES) % 2


def lane_by_lane(numbers, y, kind):
    found = [arithmetic({**numbers, "a": numbers["a"][i]}, y[:, i], kind[i]) for i in range(LANES)]
    return jax.tree.map(lambda *rows: jnp.stack(rows, axis=-1), *found)


def agree(found, expected):
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(np.asarray(one, float), np.asarray(other, float), rtol=1e-13, atol=1e-13)


def test_one_loop_gives_what_each_lane_gives(given):
    agree(jax.jit(lambda *g: in_one_loop(arithmetic, *g))(*given), lane_by_lane(*given))
    with whole_arrays():  # nothing to take apart: the function meets the arrays themselves
        agree(in_one_loop(lambda y: y * 2.0, given[1]), given[1] * 2.0)


def test_derivatives_in_many_directions_are_those_of_the_function(given):
    numbers, y, kind = given
    random = np.random.default_rng(4)
    directions = random.normal(size=(5, LANES)), random.normal(size=(5,)), random.normal(size=(5, 3, LANES))

    def pushed(function):
        def along(by_a, by_shared, by_y):
            def reals(a, shared, y):
                found = function({**numbers, "a": a, "shared": shared}, y, kind)
                return found["rows"], found["table"]

            return jax.jvp(reals, (numbers["a"], numbers["shared"], y), (by_a, by_shared, by_y))

        # The values do not depend on the direction, and come back once.
        return jax.jit(jax.vmap(along, out_axes=(None, 0)))(*directions)

    agree(pushed(lambda *g: in_one_loop(arithmetic, *g)), pushed(lane_by_lane))


@pytest.mark.parametrize("lanes", [24, 11])  # whole blocks of 8, or not
@pytest.mark.parametrize("over_blocks", [None, "outer", "inner"])
def test_along_many_directions_it_does_not_matter_which_loop_is_inside(over_blocks, lanes):
    random = np.random.default_rng(6)
    numbers, slopes = random.normal(size=(7, lanes)), random.normal(size=(5, 3, lanes))
    shared, signs = np.float64(0.7), np.arange(lanes) % 3 == 0

    def product(numbers, slopes, shared, sign, step):
        total = sum(a * b for a, b in zip(numbers, [*slopes, *slopes, slopes[0]], strict=True))
        return jnp.where(sign, total, -total) * shared + step

    def along(slopes, step):
        return in_one_loop(product, tuple(numbers), tuple(slopes), shared, signs, step, over_blocks=over_blocks)

    program = jax.jit(jax.vmap(along))
    expected = (numbers[:3] + numbers[3:6]) * slopes
    expected = np.sum(expected, axis=1) + numbers[6] * slopes[:, 0]
    expected = np.where(signs, expected, -expected) * shared + np.arange(5.0)[:, None]
    np.testing.assert_allclose(program(slopes, np.arange(5.0)), expected, rtol=1e-13)
    written, loops = program.lower(slopes, np.arange(5.0)).as_text(), {"outer": "3x5x8", "inner": "5x3x8"}
    for order, sizes in loops.items():  # a loop sums two copies of what it writes
        assert (f"tensor<2x{sizes}xf64>" in written) == (order == over_blocks and lanes == 24)


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_constants_of_a_loop_are_exact(kind):
    """Whatever is done to keep them apart from those of other loops."""
    limits = np.finfo(kind)
    some = [0.0, -0.0, 1.0, -2.5, 1 / 3, np.inf, -np.inf, np.nan, limits.max, limits.tiny, limits.smallest_subnormal]
    whole = [0, 7, -3, 2**29, 2**31 - 1, -(2**31)]

    def constants(x):
        root = jnp.sqrt(x)  # no loop of products and sums alone, which has constants of another kind
        chosen = [jnp.where(root > 0, kind(one), root) for one in some]
        return root, chosen, [jnp.where(root > 0, np.int32(one), np.int32(1)) for one in whole]

    _, numbers, integers = jax.jit(lambda x: in_one_loop(constants, x))(np.ones(LANES, kind))
    for one, found in zip([*some, *whole], [*numbers, *integers], strict=True):
        exact = np.full(LANES, one, found.dtype)
        assert found.dtype in (kind, np.int32) and np.asarray(found).tobytes() == exact.tobytes(), one


@pytest.mark.parametrize("exponent", [-3, -1, 0, 1, 2, 7])
def test_whole_powers_in_a_loop_are_those_of_jax(exponent):
    x = np.random.default_rng(5).normal(size=LANES)
    found = jax.jit(lambda x: in_one_loop(lambda x: (jnp.sqrt(jnp.abs(x)), x**exponent), x))(x)[1]
    assert np.array_equal(found, jax.jit(lambda x: jax.lax.integer_pow(x, exponent))(x))


def test_the_loop_is_one_and_has_no_other_way_in(given):
    compiled = jax.jit(lambda *g: in_one_loop(arithmetic, *g)).lower(*given).compile()
    if jax.default_backend() == "cpu":  # all results come out of a single reduction
        assert compiled.as_text().count(" reduce(") == 1
    with pytest.raises(ValueError, match="as arguments"):
        jax.jit(lambda a, y: in_one_loop(lambda row: row * a[0], y))(given[0]["a"], given[1])
    with pytest.raises(ValueError, match="same number of lanes"):
        in_one_loop(lambda a, b: a + b, jnp.ones(3), jnp.ones(4))
    with pytest.raises(NotImplementedError, match="cannot be written out"):
        in_one_loop(jnp.sort, given[1])


def test_every_operation_is_written_as_jax_does_it(given):
    """With a form of its own in the loop, left to JAX, or known before: the same to the last bit."""

    def operations(a, b, n):
        other, kind = (jnp.float32(0.1) * a.astype(jnp.float32)).astype(a.dtype), n % 3
        real = [a + b, a - b, a * b, a / b, -a, jnp.maximum(a, b), jnp.minimum(a, b), jnp.abs(a), jnp.floor(a), a**2]
        real += [
            jnp.round(b),
            jnp.sign(a),
            jnp.where(a > b, a, b),
            jnp.clip(a, -0.5, 0.5),
            other,
            n * a,
            kind.astype(a.dtype) + 0.5,
        ]
        true = [a < b, a <= b, a > b, a >= b, a == b, a != b, n == 3, (a < 0) | (b < 0), (a < 0) & (b < 0), ~(a < 0)]
        true += [(a < 0) ^ (b < 0), jnp.isfinite(a / (b - b)), n.astype(bool), (a < 0) == (b < 0)]
        whole = [kind, n // 2, n << 2, n >> 1, a.astype(jnp.int32), jnp.argmax(jnp.stack([a < b, a > b]))]
        known = jax.lax.bitcast_convert_type(jnp.float32(1.5), jnp.int32) >> 20
        return real, true, [*whole, known + jnp.zeros_like(n)], jax.lax.select_n(kind.astype(jnp.int32), a, b, a - b)

    arrays = given[0]["a"], given[1][0], np.arange(LANES) - 5
    for number in (np.float64, np.float32):
        a, b = (x.astype(number) for x in arrays[:2])
        found = jax.jit(lambda *x: in_one_loop(operations, *x))(a, b, arrays[2])
        with whole_arrays():
            expected = jax.jit(lambda *x: jax.vmap(operations, out_axes=-1)(*x))(a, b, arrays[2])
        for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            assert one.dtype == other.dtype and np.array_equal(one, other)


def test_powers_in_lanes_are_powers():
    x = np.logspace(-290, 290, 2001)
    for exponent in (-0.2, -0.14, 0.08, 1.0):
        np.testing.assert_allclose(power_in_lanes(jnp.asarray(x), exponent), x**exponent, rtol=1e-13)
    small = np.logspace(-30, 30, 501).astype(np.float32)
    np.testing.assert_allclose(power_in_lanes(jnp.asarray(small), 0.3), small**0.3, rtol=2e-6)
