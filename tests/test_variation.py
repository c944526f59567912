"""Derivatives by the linearised equations: pieces against the rule of the chain, whole runs against their steps."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick import quick_jit

from jaxcontact.bodies import gripped, linkage
from jaxcontact.integrate import hybrid, variation
from jaxcontact.integrate.machine import FINISHED, Machine, Variation, simulate
from jaxcontact.integrate.settings import Settings
from jaxcontact.integrate.tangents import with_tangents
from jaxcontact.lanewise import in_one_loop, needed
from jaxcontact.lanewise.linear import LinearPart
from jaxcontact.models import get_model
from jaxcontact.models.model import default_params
from jaxcontact.study.lanes import LaneDriver

RNG = np.random.default_rng(7)
LANES = 5


# ---------------------------------------------------------------- the linear part of a function


def curved(numbers, y, up):
    """Sums of products, quotients, choices, small arrays; and results that are an argument, or nothing of it."""
    inner = numbers["a"] * y[0] + jnp.sin(y[1]) / y[2]
    chosen = jnp.where(up, inner * y[2], -3.0 * y[0])
    return jnp.stack([inner * chosen, y[1] - chosen]), y[2], jnp.zeros_like(y[0]), y[::-1] * inner


def test_a_linear_part_is_that_of_the_function():
    linear = LinearPart()
    y, a = RNG.normal(size=(3, LANES)), RNG.normal(size=LANES)
    dy, da, up = RNG.normal(size=(4, 3, LANES)), RNG.normal(size=(4, LANES)), np.arange(LANES) % 2 == 0

    def found(a, y, up):
        return linear.found(lambda a, y: curved({"a": a}, y, up), a, y)[1]

    def ours(a, y, up, da, dy):
        numbers = in_one_loop(found, a, y, up)
        return jax.vmap(lambda da, dy: in_one_loop(linear.along, numbers, da, dy))(da, dy)

    def by_the_chain(a, y, up, da, dy):
        at = jax.vmap(
            lambda a, y, up, da, dy: jax.jvp(lambda a, y: curved({"a": a}, y, up), (a, y), (da, dy))[1], -1, -1
        )
        return jax.vmap(lambda da, dy: at(a, y, up, da, dy))(da, dy)

    for one, other in zip(quick_jit(ours)(a, y, up, da, dy), by_the_chain(a, y, up, da, dy), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-14)
    # The third result is y[2], the fourth nothing: known without doing anything. Arguments are counted one by one.
    assert [linear.alike(k) for k in range(4)] == [None, None, 3, None]
    assert [linear.is_zero(k) for k in range(4)] == [False, False, False, True]


def test_an_operation_that_is_not_known_is_refused():
    linear = LinearPart()
    with pytest.raises(NotImplementedError, match="cumsum cannot be written out"):
        jax.make_jaxpr(lambda y: linear.found(lambda y: jax.lax.cumsum(y) * y[0], y)[1])(jnp.ones(3))


def test_only_what_is_needed_is_done():
    def costly(y):
        def both(y):
            return y + 1.0, jnp.exp(y) * jnp.tan(y)

        return in_one_loop(both, y)[0]

    y = jnp.asarray(RNG.normal(size=LANES))
    assert "exp" in str(jax.make_jaxpr(costly)(y))
    assert "exp" not in str(jax.make_jaxpr(lambda y: needed(costly, y))(y))
    np.testing.assert_allclose(needed(costly, y), y + 1.0)


# ---------------------------------------------------------------- derivatives stated beside the equations


def tree_like(*shapes):
    return tuple(
        [list(row) for row in RNG.normal(size=shape)] if len(shape) > 2 else list(RNG.normal(size=shape))
        for shape in shapes
    )


@pytest.mark.parametrize("grips", [True, False])
def test_a_grip_obeys_its_equations_and_so_do_its_derivatives(grips):
    n = 3
    root = RNG.normal(size=(n, n, LANES))
    full = np.einsum("ikl,jkl->ijl", root, root) + 2.0 * np.eye(n)[:, :, None]
    matrix = [[full[i, j] for j in range(i + 1)] for i in range(n)]
    loads, arm = tree_like((n, LANES), (n, LANES))
    rest, mobility, force = RNG.normal(size=LANES), 1.0 + RNG.random(LANES), RNG.normal(size=LANES)
    held = np.full(LANES, grips)
    given = matrix, loads, arm, rest, mobility, held, force
    acting, x, hold = gripped.grip(*given)
    stacked = np.stack(x)
    np.testing.assert_allclose(
        np.einsum("ijl,jl->il", full, stacked), np.stack(loads) + np.stack(arm) * acting, rtol=1e-9, atol=1e-11
    )
    if grips:
        np.testing.assert_allclose(rest + mobility * acting + np.sum(np.stack(arm) * stacked, 0), 0.0, atol=1e-11)
        np.testing.assert_allclose(acting, hold)
    else:
        np.testing.assert_array_equal(acting, force)

    # By all numbers at once, forward and reverse, against the rule of the chain through the elimination.
    reals = [matrix, loads, arm, rest, mobility, force]
    slopes = jax.tree.map(lambda a: jnp.asarray(RNG.normal(size=a.shape)), reals)

    def of_reals(function):
        return lambda *r: function(*r[:5], held, r[5])

    ours, chain = of_reals(gripped.grip), of_reals(lambda *a: gripped._solved(*a)[0])
    forward = [quick_jit(lambda f=f: jax.jvp(f, reals, slopes)[1])() for f in (ours, chain)]
    reverse = [
        quick_jit(
            lambda f=f: jax.grad(lambda *r: sum(jnp.sum(jnp.sin(a)) for a in jax.tree.leaves(f(*r))), range(6))(*reals)
        )()
        for f in (ours, chain)
    ]
    for one, other in (forward, reverse):
        for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)


def test_angles_between_links_and_their_derivatives():
    angles, turn = RNG.normal(size=(4, LANES)), RNG.normal(size=(4, LANES))

    def ours(angles):
        rows = list(angles)
        cosine, sine = linkage.between(rows, *linkage.directions(rows))
        return [jnp.stack(row) for part in (cosine, sine) for row in part if row]

    def direct(angles):
        return [
            jnp.stack([f(angles[k] - angles[j]) for j in range(k)]) for f in (jnp.cos, jnp.sin) for k in range(1, 4)
        ]

    for one, other in zip(*(jax.jvp(f, (angles,), (turn,)) for f in (ours, direct)), strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


# ---------------------------------------------------------------- whole runs

BY = ("q3", "dq5", "mu", "k_n", "chi", "leg.mass", "forearm.length")
COUNT = 24


@cache
def impacts() -> dict[str, np.ndarray]:
    """Impacts over all regimes; one that cannot begin, and one that is not finite."""
    random = np.random.default_rng(11)
    drawn = {
        "q3": np.radians(random.uniform(3.0, 21.0, COUNT)),
        "dq5": random.uniform(-0.2, 0.4, COUNT),
        "mu": random.uniform(0.4, 1.1, COUNT),
    }
    drawn["q3"][5], drawn["mu"][9] = 2.5, np.nan
    return drawn


def derivatives(settings: Settings, friction: str, as_it_is: bool):
    """Values and slopes of all impacts through a few lanes, by the variation or by the derivative of a step."""
    model = get_model("crutch")
    laws = {"normal": "hunt_crossley", "friction": friction}

    def build(settings):
        machine = model.machine("compliant", laws, settings)
        return with_tangents(machine if as_it_is else machine._replace(variation=None), BY)

    constants = {name: value for name, value in default_params(model).items() if name not in impacts()}
    devices = jax.local_devices()[:1]
    driver = LaneDriver(build, settings, constants, impacts(), total=COUNT, lanes=8, devices=devices)
    ((_, found),) = driver.stream([(0, impacts())])
    return found


@pytest.mark.parametrize(
    ("friction", "settings"),
    [
        ("coulomb", Settings(rtol=1e-11, atol=1e-13)),
        pytest.param("tangential_compliance", Settings(rtol=1e-11, atol=1e-13), marks=pytest.mark.slow),
        # At 1e-11 steps' own derivatives are 1.4e-6 off those of differences here, ours 2e-7.
        pytest.param("regularised", Settings(rtol=1e-12, atol=1e-14), marks=pytest.mark.slow),
        pytest.param("coulomb", Settings(stepper="rk4", step=2e-6), marks=pytest.mark.slow),
    ],
)
def test_whole_runs_agree_with_derivatives_of_their_steps(friction, settings):
    """The run is the same but for rounding; slopes are those of every step's own derivative, within the tolerance."""
    ours, theirs = derivatives(settings, friction, True), derivatives(settings, friction, False)
    finished = theirs["values"]["status"] == FINISHED
    assert COUNT - 2 == finished.sum()
    for name, values in theirs["values"].items():
        scale = np.nanmax(np.abs(values))
        np.testing.assert_allclose(ours["values"][name], values, rtol=1e-10, atol=1e-10 * scale, err_msg=name)
    for name, slopes in theirs["slopes"].items():
        if slopes is None:
            assert ours["slopes"][name] is None
            continue
        size = np.nanmax(np.abs(slopes), axis=-1, keepdims=True) + 1e-12
        assert np.isfinite(ours["slopes"][name][:, finished]).all()
        np.testing.assert_allclose(
            (ours["slopes"][name] / size)[:, finished], (slopes / size)[:, finished], atol=1e-6, err_msg=name
        )


# ---------------------------------------------------------------- a system that is no impact


def thrown(params, t, mode, y):
    """A ball in gusts of wind, forwards at a velocity that stays; it counts its bounces and sums what wind has done."""
    x, z, vx, vz, _, left = y
    wind = params["gusts"] * jnp.cos(3.0 * t)
    return jnp.stack([vx, vz, 0 * vx, wind - params["g"], wind * vz, 0 * left]), jnp.stack([z, x, wind])


def bounced(params, t, mode, event, y, signals):
    x, z, vx, vz, work, left = y
    return mode, jnp.stack([x, 0 * z, vx, -params["e"] * vz, work, left - 1.0]), left <= 1.5


THROWN = hybrid.HybridSystem(
    flow=thrown,
    guards=lambda params, mode, signals: signals[:1],
    transition=bounced,
    boundary=(True,),
    positions=2,
    unseen=(0, 4, 5),
    still=(2, 5),
    watched=(0,),
    one_loop=True,
)
THROWS = {
    "g": np.full(LANES, 9.81),
    "e": np.linspace(0.5, 0.9, LANES),
    "gusts": np.linspace(-2.0, 3.0, LANES),
    "up": np.linspace(1.0, 2.0, LANES),
}


def throwing(system, settings, own_way=False) -> Machine:
    """Three bounces; `own_way`: with derivatives by the linearised equations."""

    def init(params):
        up, still = params["up"], 0 * params["up"]
        y = jnp.stack([still, still + 0.5, still + 2.0, up, still, still + 3.0])
        return hybrid.start(system, settings, params, 0.0, 0, y, jnp.zeros(up.shape, jnp.int32))

    own = Variation(
        lambda state: variation.applies(settings, state),
        variation.moving,
        lambda params, state, part: variation.restored(system, params, state, part),
        lambda params: params,
        lambda *now: variation.advance(system, settings, *now),
    )
    return Machine(
        init,
        lambda params, state: hybrid.advance(system, settings, params, state)[0],
        hybrid.done,
        lambda params, state: {"t": state.t, "y": state.y, "status": state.status},
        hybrid.scratch,
        variation=own if own_way else None,
    )


@pytest.mark.parametrize(
    "settings",
    [
        Settings(rtol=1e-10, atol=1e-12),
        Settings(stepper="rk4", step=2e-3),
        Settings(stepper="semi_implicit_euler", step=2e-3),
    ],
    ids=lambda settings: settings.stepper,
)
def test_in_one_loop_a_step_is_what_it_is_with_whole_arrays(settings):
    whole = THROWN._replace(one_loop=False, unseen=(), still=(), watched=())
    found, expected = (
        quick_jit(lambda params, system=system: simulate(throwing(system, settings), params))(THROWS)
        for system in (THROWN, whole)
    )
    assert (np.asarray(expected["status"]) == FINISHED).all() and np.ptp(expected["t"]) > 0.3
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11), found, expected)


def test_a_velocity_without_a_slope_is_followed_all_the_same():
    settings = Settings(rtol=1e-11, atol=1e-13)
    by = ("g", "e", "gusts", "up")
    ours, theirs = (
        quick_jit(lambda params, way=way: simulate(with_tangents(throwing(THROWN, settings, way), by), params))(THROWS)
        for way in (True, False)
    )
    for name in ("t", "y"):
        np.testing.assert_allclose(ours["values"][name], theirs["values"][name], rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(ours["slopes"][name], theirs["slopes"][name], rtol=1e-6, atol=1e-7)
    assert np.abs(ours["slopes"]["y"][1, 0]).min() > 0.1  # the distance, by how elastic the ball is
