"""The laws of one contact: values against closed forms, derivatives at, just inside and just outside every kink."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxcontact import safemath
from jaxcontact.contact import friction, normal
from jaxcontact.contact.friction import SLIDE_BACK, SLIDE_FORWARD, STICK

depths = st.floats(-0.01, 0.01)
rates = st.floats(-2.0, 2.0)


def test_nominal_stiffness_of_the_paper():
    # Crutch section 5: E_s 0.1 GPa, nu_s 0.5, E_p 30 GPa, nu_p 0.2, R_s 0.05 m. By hand: 1/E* = 0.75/1e8 + 0.96/3e10.
    modulus = normal.effective_modulus(0.1e9, 0.5, 30e9, 0.2)
    assert modulus == pytest.approx(1.0 / (7.5e-9 + 3.2e-11))
    assert normal.hertz_stiffness(modulus, 0.05) == pytest.approx(4 / 3 * 1.32767e8 * 0.2236068, rel=1e-5)


def test_mindlin_over_hertz_is_johnsons_ratio():
    # Johnson (1985): for equal materials the tangential over the normal incremental stiffness is 2 (1 - nu) / (2 - nu).
    young, poisson, radius, depth = 3e7, 0.35, 0.04, 1e-3
    shear = friction.shear_modulus(young, poisson)
    k_t = friction.mindlin_stiffness(shear, poisson, shear, poisson, radius)
    k_n = normal.hertz_stiffness(normal.effective_modulus(young, poisson, young, poisson), radius)
    tangential = -jax.grad(friction.tangential_compliance)(0.0, depth, k_t)
    assert tangential / jax.grad(normal.hertz)(depth, k_n) == pytest.approx(2 * (1 - poisson) / (2 - poisson))


@settings(deadline=None, max_examples=60)
@given(depths, rates)
def test_normal_force_never_pulls_and_needs_contact(depth, rate):
    for force in (
        normal.hertz(depth, 3e7),
        normal.hunt_crossley(depth, rate, 3e7, 1e7),
        normal.kelvin_voigt(depth, rate, 2e6, 500.0),
    ):
        assert force >= 0
        assert depth > 0 or force == 0


@settings(deadline=None, max_examples=60)
@given(st.floats(1e-6, 0.01), st.floats(-2.0, 2.0))
def test_hunt_crossley_is_equation_35(depth, rate):
    expected = max(3e7 * depth**1.5 + 1e7 * depth**1.5 * rate, 0.0)
    assert normal.hunt_crossley(depth, rate, 3e7, 1e7) == pytest.approx(expected, rel=1e-12)


def test_hunt_crossley_dissipates_over_any_closed_cycle():
    phase = np.linspace(0, 2 * np.pi, 4001)
    depth, rate = 1e-3 * (1 - np.cos(phase)), 1e-3 * np.sin(phase) * 300.0  # a cycle at 300 rad/s
    force = normal.hunt_crossley(depth, rate, 3e7, 1e5)
    work_on_body = -np.trapezoid(force * rate, phase / 300.0)
    assert work_on_body < 0


@pytest.mark.parametrize("law", ["hertz", "hunt_crossley", "kelvin_voigt"])
def test_derivatives_are_finite_in_a_batch_that_mixes_all_sides(law):
    depth = jnp.array([-1e-3, -1e-300, 0.0, 1e-300, 1e-12, 1e-3])
    rate = jnp.array([1.0, -5.0, 1.0, -5.0, 1.0, -5.0])
    call = {
        "hertz": lambda d, v, k, c: normal.hertz(d, k),
        "hunt_crossley": normal.hunt_crossley,
        "kelvin_voigt": normal.kelvin_voigt,
    }[law]
    grads = jax.grad(lambda *a: jnp.sum(call(*a)), argnums=(0, 1, 2, 3))(depth, rate, 3e7, 1e7)
    assert all(np.all(np.isfinite(g)) for g in grads)
    assert np.all(grads[0][:3] == 0) and np.all(grads[1][:3] == 0)  # out of contact: derivative exactly 0


@pytest.mark.parametrize("depth", [1e-6, 2e-3])
def test_derivative_inside_contact_agrees_with_differences(depth):
    def force(x):
        return normal.hunt_crossley(x[0], x[1], x[2], x[3])

    x = jnp.array([depth, -0.3, 3e7, 1e7])
    grad = jax.grad(force)(x)
    for i in range(4):
        step = 1e-5 * abs(float(x[i]))
        difference = (force(x.at[i].add(step)) - force(x.at[i].add(-step))) / (2 * step)
        assert grad[i] == pytest.approx(float(difference), rel=1e-7)


def test_sliding_friction_opposes_and_has_the_right_size():
    assert friction.coulomb_sliding(SLIDE_FORWARD, 0.5, 10.0) == -5.0
    assert friction.coulomb_sliding(SLIDE_BACK, 0.5, 10.0) == 5.0


@pytest.mark.parametrize(
    ("needed", "mode"), [(4.9, STICK), (-4.9, STICK), (5.1, SLIDE_BACK), (-5.1, SLIDE_FORWARD), (5.0, STICK)]
)
def test_a_point_at_rest_sticks_within_the_static_cone_only(needed, mode):
    # A positive holding force was needed because the load pushes back: without it the point slides back.
    assert friction.mode_at_rest(jnp.asarray(needed), 0.5, 10.0) == mode


def test_regularised_friction_is_coulomb_at_speed_and_nothing_at_rest():
    assert friction.regularised(1.0, 0.5, 10.0, 0.01) == pytest.approx(-5.0)
    assert friction.regularised(0.0, 0.5, 10.0, 0.01) == 0.0


def test_gripping_again_keeps_the_force():
    stretch = friction.stretch_on_the_cone(SLIDE_FORWARD, 0.5, 100.0, 1e-3, 2e7)
    assert friction.tangential_compliance(stretch, 1e-3, 2e7) == pytest.approx(-50.0)


def test_safe_functions_at_their_kinks():
    x = jnp.array([-1.0, 0.0, 4.0])
    for function, value, slope in (
        (safemath.positive_sqrt, [0, 0, 2], [0, 0, 0.25]),
        (safemath.positive_three_halves, [0, 0, 8], [0, 0, 3]),
    ):
        np.testing.assert_allclose(function(x), value, atol=1e-15)
        np.testing.assert_allclose(jax.grad(lambda x, f=function: jnp.sum(f(x)))(x), slope, atol=1e-12)
    np.testing.assert_allclose(safemath.divide(jnp.array([1.0, 1.0]), jnp.array([0.0, 2.0])), [0.0, 0.5])
    assert np.all(np.isfinite(jax.grad(lambda x: jnp.sum(safemath.arccos(x)))(jnp.array([-2.0, -1.0, 0.3, 1.0, 7.0]))))
    np.testing.assert_allclose(jax.grad(safemath.arccos)(0.3), -1 / np.sqrt(1 - 0.09))


def test_sine_and_cosine_are_right_to_the_last_places_with_their_derivatives():
    x = np.concatenate([np.random.default_rng(0).uniform(-100, 100, 10_000), np.arange(-40, 41) * np.pi / 4])
    sine, cosine = jax.jit(safemath.sine_and_cosine)(x)
    np.testing.assert_allclose(sine, np.sin(x), atol=5e-16)
    np.testing.assert_allclose(cosine, np.cos(x), atol=5e-16)
    (_, _), (slope_sine, slope_cosine) = jax.jvp(safemath.sine_and_cosine, (x,), (np.ones_like(x),))
    np.testing.assert_allclose(slope_sine, np.cos(x), atol=5e-16)
    np.testing.assert_allclose(slope_cosine, -np.sin(x), atol=5e-16)
    single = jax.jit(safemath.sine_and_cosine)(x.astype(np.float32))[0]
    np.testing.assert_allclose(single, np.sin(x.astype(np.float32).astype(float)), atol=3e-7)
