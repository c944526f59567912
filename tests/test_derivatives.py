"""Exact derivatives through events: every scalar outcome by every leaf, against differences, at random.

Differences of adaptive runs carry the tolerance's noise, and outcomes bend strongly with lengths and angles, so steps
are a compromise and those leaves get differences of fourth order. An error counts relative to the derivative itself,
or to a hundredth of the largest one of that outcome in that configuration (by relative changes of the leaves) where
it is nearly zero.
"""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxcontact.contact.impulse import PERMANENT_SLIDING, SLIDING_REVERSAL, SLIDING_STICKING
from jaxcontact.integrate.machine import FINISHED, simulate, simulate_steps
from jaxcontact.integrate.settings import Settings
from jaxcontact.models import compass, crutch, get_model, strike
from jaxcontact.models.model import DEGREE, default_params

LANES = 200
TIGHT = Settings(rtol=1e-12, atol=1e-14, first_step=1e-5)
COULOMB = {"normal": "hunt_crossley", "friction": "coulomb"}
STEP = {"compliant": 5e-5, "impulsive": 1e-5}  # of each leaf's own size; algebra has no tolerance and needs less
TOGETHER = 64  # lanes that run together: few, so that they stay in the cache; derivatives are larger
TOGETHER_WITH_SLOPES = {"crutch": 17, "compass": 20}


def random_params(name: str, lanes: int, seed: int, mu_ratio: float) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    params = {k: np.full(lanes, v) for k, v in default_params(get_model(name)).items()}

    def between(low, high):
        return rng.uniform(low, high, lanes)

    for leaf in params:
        if "." in leaf:
            params[leaf] *= between(0.97, 1.03) if leaf.endswith("length") else between(0.8, 1.2)
    params["mu"] = between(0.3, 1.1)
    params["mu_ratio"] = np.full(lanes, mu_ratio)
    params["k_n"] *= 10 ** between(-0.5, 0.5)
    params["chi"] *= 10 ** between(-0.7, 0.7)
    params["dq3"], params["dq4"] = between(0.8, 1.2), between(-0.1, 0.1)
    if name == "crutch":
        params["q3"], params["q4"] = between(3, 21) * DEGREE, between(0, 15) * DEGREE
        params["q5"], params["dq5"], params["dq6"] = between(145, 155) * DEGREE, between(-0.3, 0.4), between(-0.1, 0.1)
    else:
        params["R"], params["q3"] = between(0.05, 0.8), between(10, 25) * DEGREE
        params["leg.inertia"] += 0.05
    return dict(sorted(params.items()))  # the order in which JAX passes a dict on


def scalars(name: str) -> list[str]:
    return [q.name for q in get_model(name).outcomes if not q.labels and q.name != "n_steps"]


@cache
def outcome_function(name: str, friction: str, method: str = "compliant"):
    machine = get_model(name).machine(method, COULOMB | {"friction": friction}, TIGHT)
    return jax.jit(lambda params: simulate(machine, params))


@cache
def slope_function(name: str, friction: str, method: str = "compliant"):
    machine = get_model(name).machine(method, COULOMB | {"friction": friction}, TIGHT)
    kept = scalars(name)

    def along(params, direction):
        tangent = {k: jnp.full_like(params[k], direction[i]) for i, k in enumerate(params)}
        return jax.jvp(lambda p: {k: v for k, v in simulate(machine, p).items() if k in kept}, (params,), (tangent,))[1]

    return jax.jit(jax.vmap(along, (None, 0)))


def slopes(name: str, friction: str, method: str, params: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Derivatives of the scalar outcomes by every leaf: (leaf, lane)."""
    function, every_leaf = slope_function(name, friction, method), jnp.eye(len(params))
    return in_chunks(lambda chunk: function(chunk, every_leaf), params, TOGETHER_WITH_SLOPES[name])


def in_chunks(function, params: dict[str, np.ndarray], size: int) -> dict[str, np.ndarray]:
    """Few lanes at a time; all chunks have one size, so one program serves them."""
    total = len(next(iter(params.values())))
    pad = -total % size
    padded = {k: np.concatenate([v, v[:1].repeat(pad)]) for k, v in params.items()}
    parts = [
        jax.tree.map(np.asarray, function({k: jnp.asarray(v[i : i + size]) for k, v in padded.items()}))
        for i in range(0, total + pad, size)
    ]
    return {k: np.concatenate([part[k] for part in parts], axis=-1)[..., :total] for k in parts[0]}


def differences(name, method, params, leaves, sizes, function):
    """Differences by relative change of each leaf, (leaf, lane) per outcome, and where all runs kept the regime."""
    lanes, step = len(sizes[leaves[0]]), STEP[method]
    curved = {k for k in leaves if k.startswith("q") or k in ("R",) or k.endswith(("length", "centre"))}
    shifts = [(k, s) for k in leaves for s in ((1, -1, 2, -2) if k in curved else (1, -1))]
    many = {
        k: np.concatenate([v + (s * step * sizes[k] if k == leaf else 0) for leaf, s in shifts])
        for k, v in params.items()
    }
    out = {k: v.reshape(len(shifts), lanes) for k, v in in_chunks(function, many, TOGETHER).items()}
    row = {shift: i for i, shift in enumerate(shifts)}
    found = {}
    for q, values in out.items():
        rows = []
        for k in leaves:
            near = (values[row[k, 1]] - values[row[k, -1]]) / (2 * step)
            if k in curved:
                far = (values[row[k, 2]] - values[row[k, -2]]) / (4 * step)
                near = (4 * near - far) / 3
            rows.append(near)
        found[q] = np.stack(rows)
    slip = slip_before(name, many).reshape(len(shifts), lanes)
    return found, np.all((out["regime"] == out["regime"][0]) & (np.sign(slip) == np.sign(slip[0])), axis=0)


def slip_before(name, params):
    """Slip of the tip before impact: outcomes have a kink where it changes sign."""
    arrived = {"crutch": crutch.assemble, "compass": compass.assemble}[name](params)
    return np.asarray(strike.tip_start(arrived, strike.tables(arrived)).v_t)


def worst_error(exact, difference, smooth, floor=0.0):
    scale = np.maximum(np.maximum(np.abs(difference), 1e-2 * np.abs(difference).max(axis=0)), floor)
    return np.max((np.abs(exact - difference) / np.where(scale == 0, 1.0, scale))[:, smooth], initial=0.0)


def compare(name, friction, lanes, seed, mu_ratio, method="compliant"):
    params = random_params(name, lanes, seed, mu_ratio)
    leaves = list(params)
    sizes = {k: np.maximum(np.abs(v), {"dq4": 0.1, "dq5": 0.1, "dq6": 0.1}.get(k, 1e-3)) for k, v in params.items()}
    function = outcome_function(name, friction, method)
    here = in_chunks(function, params, TOGETHER)
    assert np.all(here["status"] == FINISHED)

    exact = slopes(name, friction, method, params)
    exact = {q: v * np.stack([sizes[k] for k in leaves]) for q, v in exact.items()}
    laws = {"k_t": "tangential_compliance", "v_slip": "regularised", "k_linear": "", "c_linear": ""}
    unused = [k for k in leaves if laws.get(k, friction) != friction]
    used = [k for k in leaves if k not in unused]
    difference, smooth = differences(name, method, params, used, sizes, function)
    errors = {}
    for q, value in exact.items():
        assert np.all(np.isfinite(value)), q
        assert np.all(value[[leaves.index(k) for k in unused]] == 0), q
        if q == "v_t_tip":  # held at zero where it sticks; a derivative of zero has no relative error
            slides = np.isin(here["regime"], (PERMANENT_SLIDING, SLIDING_REVERSAL)) | (friction != "coulomb")
            stuck = value[:, ~slides]
            assert stuck.size == 0 or np.max(np.abs(stuck)) < 1e-6
            errors[q] = worst_error(value[[leaves.index(k) for k in used]], difference[q], smooth & slides)
            continue
        # Friction work can be a millionth of the energy that it is a part of; rounding is that of the energy.
        floor = 1e-4 * np.abs(difference["energy_loss"]).max(axis=0) if q == "W_t" else 0.0
        errors[q] = worst_error(value[[leaves.index(k) for k in used]], difference[q], smooth, floor)
    return errors, here, smooth


def test_crutch_by_every_leaf_through_sliding_sticking_and_reversal():
    errors, here, smooth = compare("crutch", "coulomb", LANES + 4, seed=1, mu_ratio=1.2)
    assert smooth.sum() >= LANES  # a difference across a change of regime says nothing
    for regime in (SLIDING_STICKING, PERMANENT_SLIDING, SLIDING_REVERSAL):
        assert np.sum((here["regime"] == regime) & smooth) >= 20
    assert max(errors.values()) < 1e-5, errors


@pytest.mark.parametrize(
    "friction", ["coulomb", "tangential_compliance", pytest.param("regularised", marks=pytest.mark.slow)]
)
def test_compass_by_every_leaf(friction):
    errors, _, smooth = compare("compass", friction, 40, seed=2, mu_ratio=1.1)
    assert smooth.sum() >= 36
    if friction == "regularised":  # the tip ends creeping at a hundredth of v_slip: mostly noise of the differences
        assert errors.pop("v_t_tip") < 1e-4
    assert max(errors.values()) < 1e-5, errors


@pytest.mark.parametrize("name", ["crutch", "compass"])
def test_impulsive_by_every_leaf(name):
    errors, _, _ = compare(name, "coulomb", 100, seed=3, mu_ratio=1.0 + 1e-3, method="impulsive")
    assert max(errors.values()) < 1e-5, errors


def test_reverse_mode_of_fixed_steps_is_forward_mode_transposed():
    settings = Settings(stepper="rk4", step=4e-5)
    machine = get_model("crutch").machine("compliant", COULOMB, settings)
    params = {k: jnp.asarray(v) for k, v in random_params("crutch", 6, 5, 1.1).items()}
    leaves = {k: params[k] for k in ("mu", "k_n", "chi", "q3", "dq5", "forearm.length", "torso.mass")}
    steps = 190

    def outcomes(leaves):
        out = simulate_steps(machine, {**params, **leaves}, steps)
        return jnp.stack([out[k] for k in ("P_n", "P_t", "W_n", "W_t", "t_end", "F_n_peak", "v_n_foot")])

    @jax.jit
    def value_and_pull(leaves):
        values, back = jax.vjp(outcomes, leaves)
        return values, back(jnp.ones((7, 6)))[0]

    values, pull = value_and_pull(leaves)
    assert np.all(np.isfinite(values))  # they are NaN where a run did not finish
    push = jax.jit(lambda p, t: jax.jvp(outcomes, (p,), (t,))[1])
    for leaf in leaves:
        assert np.all(np.isfinite(pull[leaf]))
        tangent = {k: jnp.ones_like(v) if k == leaf else jnp.zeros_like(v) for k, v in leaves.items()}
        parts = push(leaves, tangent)
        np.testing.assert_allclose(pull[leaf] - parts.sum(0), 0, atol=1e-9 * np.abs(parts).max())


def test_a_failed_lane_does_not_poison_its_neighbours():
    params = random_params("crutch", 8, 6, 1.2)
    clean = slopes("crutch", "coulomb", "compliant", params)
    params["q3"][2], params["k_n"][4] = 59 * DEGREE, np.nan
    spoiled = slopes("crutch", "coulomb", "compliant", params)
    others = np.array([0, 1, 3, 5, 6, 7])
    for q in clean:
        assert np.all(np.isfinite(spoiled[q][:, others])), q
        np.testing.assert_allclose(spoiled[q][:, others], clean[q][:, others], rtol=1e-6, atol=1e-9)
