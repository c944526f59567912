"""A rolling surface under a known pitch: its CoP by quadrature of the curvature, its masks and its lanes."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick import hasty_jit
from scipy.integrate import quad
from tracked_stances import DURATION, known_at, make_stance

from jaxcontact.contact.rolling import centre_of_pressure, curvature_radius
from jaxcontact.errors import InputError
from jaxcontact.integrate.machine import BAD_VALUE, FINISHED
from jaxcontact.integrate.settings import Settings
from jaxcontact.tracked.roll import roll_model, roll_surface

FRAMES = 25
VARIANTS = {"roll:1": {"terms": 1}, "roll:2": {"terms": 2}, "roll:constrained": {"constrained": True}}


@cache
def tracked(name):
    return roll_model(make_stance(heads=None), **VARIANTS[name], frames=FRAMES, window=0.0)


def defaults(name, **changed):
    parameters = tracked(name).model.parameters
    return {p.name: jnp.asarray(changed.get(p.name, p.default) * p.si) for p in parameters}


@cache
def compiled(name):
    machine = tracked(name).model.recorder("prescribed", {}, Settings(), FRAMES)
    return hasty_jit(lambda params: machine.finish(params, machine.init(params)))


def rho_of(name, params):
    """The curvature of the sides from the formulas of Rolling: rho = A C exp(-C a) (2 cos a - C sin a), a term."""
    numbers = {key: float(value) for key, value in params.items()}

    def term(A, C, a):
        return A * C * np.exp(-C * a) * (2 * np.cos(a) - C * np.sin(a))

    def rho(tilt):
        side, a = ("front" if tilt >= 0 else "rear"), abs(tilt)
        count = int(name[-1])
        return sum(term(numbers[f"{side}.A{i}"], numbers[f"{side}.C{i}"], a) for i in range(1, count + 1))

    return rho


@pytest.mark.parametrize("name", ["roll:1", "roll:2"])
def test_cop_is_the_integral_of_the_curvature(name):
    """Rolling without slip lays as much ground as contour: by quadrature, with nothing of ours but the pitch."""
    params = defaults(name, flat_pitch=1.0)
    curves = compiled(name)(params)["curves"]
    pitch = np.asarray(curves["pitch"])
    turn = known_at(np.linspace(0, DURATION, FRAMES)).turn
    seen_from_the_side = np.arctan(np.tan(turn[:, 1]) / np.cos(turn[:, 2]))  # of a foot that yaws too
    np.testing.assert_allclose(pitch, seen_from_the_side, atol=1e-7)
    rho = rho_of(name, params)
    for i in range(0, FRAMES, 3):
        tilt = pitch[i] - np.deg2rad(1.0)
        expected = 0.13 + quad(rho, 0.0, tilt, epsabs=1e-11)[0]
        assert curves["cop_x"][i] == pytest.approx(expected, abs=1e-8)
        assert curves["curvature"][i] == pytest.approx(rho(tilt), rel=1e-9)


def test_the_constrained_family_by_quadrature_and_with_its_constraints():
    params = defaults("roll:constrained")
    found = compiled("roll:constrained")(params)
    curves, outcomes = found["curves"], found["outcomes"]
    surface, solvable = roll_surface(params, constrained=True)
    assert bool(solvable) and outcomes["status"] == FINISHED
    # One rho at foot flat from both sides, as the parameter says.
    assert outcomes["curvature_front"] == pytest.approx(float(params["curvature"]), rel=1e-9)
    assert outcomes["curvature_rear"] == pytest.approx(float(params["curvature"]), rel=1e-9)
    rho = jax.jit(lambda tilts: curvature_radius(surface, tilts))
    for i in (0, 3, FRAMES - 4, FRAMES - 1):
        tilt = float(curves["pitch"][i] - params["flat_pitch"])
        nodes, weights = np.polynomial.legendre.leggauss(200)
        switch = float(params["front.switch" if tilt > 0 else "rear.switch"]) * np.sign(tilt)
        ends = [0.0, switch, tilt] if abs(tilt) > abs(switch) else [0.0, tilt]
        area = 0.0
        for low, high in zip(ends[:-1], ends[1:], strict=True):
            at = 0.5 * (low + high) + 0.5 * (high - low) * nodes
            area += 0.5 * (high - low) * float(weights @ np.asarray(rho(at)))
        assert curves["cop_x"][i] == pytest.approx(float(params["origin"]) + area, abs=1e-7)
    # The whole surface of `contact.rolling` says the same as the side that the model picks.
    cop = centre_of_pressure(surface, curves["pitch"] - params["flat_pitch"])
    np.testing.assert_allclose(curves["cop_x"], params["origin"] + cop, atol=1e-10)


def test_outcomes_are_those_of_the_loaded_stance():
    found = compiled("roll:1")(defaults("roll:1"))
    curves, outcomes, target = found["curves"], found["outcomes"], tracked("roll:1").targets["cop_x"]
    assert outcomes["cop_travel"] == pytest.approx(float(np.ptp(curves["cop_x"][target.valid])))
    assert outcomes["curvature_front"] == pytest.approx(2 * 0.085 * 1.0) and not target.valid.all()
    assert outcomes["curvature_rear"] == pytest.approx(2 * 0.15 * 12.0)  # 2 A C
    assert outcomes["curvature_least"] <= float(curves["curvature"][target.valid].min()) + 1e-12


def test_the_target_is_the_cop_along_the_foot_where_it_is_loaded():
    target, known = tracked("roll:2").targets["cop_x"], known_at(np.linspace(0, DURATION, FRAMES))
    assert np.array_equal(target.valid, known.force[:, 2] > 100.0)
    np.testing.assert_allclose(target.values[target.valid], known.cop[target.valid, 0], atol=1e-9)
    assert np.all(target.values[~target.valid] == 0.0)
    with pytest.raises(InputError, match="no frame has a valid CoP"):
        roll_model(make_stance(), loaded=1e4)
    with pytest.raises(InputError, match="at least 0"):
        roll_model(make_stance(), loaded=-1.0)
    with pytest.raises(InputError, match="number of terms"):
        roll_model(make_stance(), terms=3)


@cache
def in_lanes(name):
    """Every parameter a little more and a little less, all as they are, and a lane that has no surface."""
    base, h = {key: float(value) for key, value in defaults(name).items()}, 1e-6
    steps = {key: h * max(abs(value), 0.01) for key, value in base.items()}
    params = {key: np.full(2 * len(base) + 2, value) for key, value in base.items()}
    for i, (key, step) in enumerate(steps.items()):
        params[key][[i, i + len(base)]] += step, -step
    if name == "roll:constrained":  # equal rates leave the constraints nothing to choose from
        params["front.C2"][-1] = base["front.C1"]
    else:
        params["front.C1"][-1] = -1.0
    return jax.tree.map(np.asarray, compiled(name)(params)), base, steps


@pytest.mark.parametrize("name", VARIANTS)
def test_derivatives_by_all_parameters_are_those_of_differences(name):
    found, base, steps = in_lanes(name)
    names = list(base)
    machine = tracked(name).model.recorder("prescribed", {}, Settings(), FRAMES)

    def cop(values):
        params = {key: values[i] for i, key in enumerate(names)}
        return machine.finish(params, machine.init(params))["curves"]["cop_x"]

    here = jnp.asarray(list(base.values()))
    along = jnp.diag(jnp.asarray(list(steps.values())))
    exact = np.asarray(hasty_jit(jax.vmap(lambda step: jax.jvp(cop, (here,), (step,))[1]))(along))
    curves = found["curves"]["cop_x"]
    for i, key in enumerate(names):
        change = 0.5 * (curves[:, i] - curves[:, i + len(names)])
        np.testing.assert_allclose(exact[i], change, atol=1e-5 * np.abs(exact[i]).max() + 1e-14, err_msg=key)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_lane_without_a_surface_says_so_and_harms_no_other(name):
    found, base, _ = in_lanes(name)
    assert found["outcomes"]["status"].tolist() == [FINISHED] * (2 * len(base) + 1) + [BAD_VALUE]
    alone = compiled(name)(defaults(name))
    np.testing.assert_allclose(found["curves"]["cop_x"][:, -2], alone["curves"]["cop_x"], atol=1e-12)
    assert np.isnan(found["curves"]["cop_x"][:, -1]).all() and np.isnan(found["outcomes"]["cop_travel"][-1])
