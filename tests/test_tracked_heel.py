"""A heel under a known compression: the laws by hand, work as an area, and the squeeze that a recording gives."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick import hasty_jit

from jaxcontact.errors import InputError
from jaxcontact.integrate.machine import BAD_VALUE, FINISHED
from jaxcontact.integrate.settings import Settings
from jaxcontact.measured.heel_strikes import HeelStrike
from jaxcontact.study.fit import Problem, Unknown
from jaxcontact.tracked.heel import PARAMETERS, heel_force, heel_model, squeeze

RATE, END = 3000, 0.03
VALUES = {"k": 5e4, "m": 1.4, "c": 250.0, "offset": 0.002}


def compression_at(time):
    """A cubic, which local cubics leave as it is: up to 9.4 mm, and on its way back at the end."""
    return 0.9 * time - 20.0 * time**2 - 50.0 * time**3


def strike(noise=0.0):
    time = np.arange(-30, 121) / RATE
    off = noise * np.random.default_rng(3).normal(size=len(time))
    force = np.stack([0 * time, 0 * time, 300 * np.clip(time, 0, None)], axis=1)
    zero = np.zeros(len(time))
    return HeelStrike(
        subject="2",
        trial="1",
        speed="normal",
        mass=70.0,
        time=time,
        force=force,
        cop=np.zeros((len(time), 2)),
        cop_valid=zero.astype(bool),
        heel=np.zeros((len(time), 3)),
        heel_rise=zero,
        compression=compression_at(time) + off,
        compression_10n=zero,
        shank_pitch=zero,
    )


@cache
def compiled(law, frames):
    machine = heel_model(strike(), frames=frames).model.recorder("prescribed", {"normal": law}, Settings(), frames)
    return hasty_jit(lambda params: machine.finish(params, machine.init(params)))


def run(values=VALUES, law="hunt_crossley", frames=31):
    return compiled(law, frames)({name: jnp.asarray(value) for name, value in values.items()})


def test_a_cubic_squeeze_is_found_again_with_its_rate():
    found = squeeze(strike(), 31)
    np.testing.assert_allclose(found.time, np.linspace(0, END, 31))
    np.testing.assert_allclose(found.compression, compression_at(found.time), atol=1e-12)
    np.testing.assert_allclose(found.rate, 0.9 - 40 * found.time - 150 * found.time**2, atol=1e-8)
    np.testing.assert_allclose(found.force, 300 * found.time, atol=1e-9)


def test_smoothing_quietens_the_rate():
    exact = squeeze(strike(), 91).rate
    rough, smooth = (squeeze(strike(1e-5), 91, window=window).rate for window in (0.0, 0.005))
    assert np.std(smooth - exact) < 0.2 * np.std(rough - exact)


def test_both_laws_by_hand():
    """k and c are the elastic force over compression and the damping 5 mm beyond the offset."""
    time = np.linspace(0, END, 31)
    d = np.clip(compression_at(time) - VALUES["offset"], 0, None)
    rate = 0.9 - 40 * time - 150 * time**2
    share = (d / 0.005) ** VALUES["m"]
    elastic = VALUES["k"] * 0.005 * share
    expected = {
        "hunt_crossley": np.maximum(elastic + VALUES["c"] * share * rate, 0.0),
        "kelvin_voigt": np.where(d > 0, np.maximum(elastic + VALUES["c"] * rate, 0.0), 0.0),
    }
    for law, force in expected.items():
        found = run(law=law)
        np.testing.assert_allclose(found["curves"]["F_z"], force, atol=1e-8)
        assert found["outcomes"]["status"] == FINISHED
    assert float(heel_force(VALUES, 0.002 + 0.005, 0.0)) == pytest.approx(5e4 * 0.005)
    moving = [float(heel_force(VALUES, 0.007, rate, law)) for law in expected for rate in (0.0, 0.1)]
    assert np.diff(moving)[[0, 2]] == pytest.approx(250.0 * 0.1)


def test_outcomes_are_areas_and_slopes():
    found, fine = run(frames=301), run(frames=3001)
    outcomes, curves = found["outcomes"], fine["curves"]
    assert outcomes["work"] == pytest.approx(np.trapezoid(curves["F_z"], curves["compression"]), rel=1e-3)
    spring = run(VALUES | {"c": 0.0}, frames=3001)
    end = float(curves["compression"][-1]) - VALUES["offset"]
    held = float(outcomes["K"]) * end ** (VALUES["m"] + 1) / (VALUES["m"] + 1)
    assert spring["outcomes"]["work"] == pytest.approx(held, rel=1e-4)  # a spring's work is its energy
    assert outcomes["work_damping"] == pytest.approx(float(outcomes["work"]) - held, rel=1e-3)
    h = 1e-6
    pair = [float(heel_force(VALUES, VALUES["offset"] + 0.005 + step, 0.0)) for step in (-h, h)]
    assert outcomes["tangent"] == pytest.approx((pair[1] - pair[0]) / (2 * h), rel=1e-6)
    assert outcomes["F_peak"] == found["curves"]["F_z"].max()


def test_derivatives_by_all_parameters_are_those_of_differences():
    names = list(VALUES)

    def force(logs):
        return run({name: VALUES[name] * jnp.exp(logs[i]) for i, name in enumerate(names)})["curves"]["F_z"]

    exact, h = np.asarray(jax.jacfwd(force)(jnp.zeros(4))), 1e-6
    for i in range(4):
        change = np.asarray(force(h * jnp.eye(4)[i]) - force(-h * jnp.eye(4)[i])) / (2 * h)
        np.testing.assert_allclose(exact[:, i], change, atol=1e-4 * np.abs(exact[:, i]).max(), err_msg=names[i])


def test_lanes_and_a_value_beyond_its_bounds():
    values = {name: np.full(2, value) for name, value in VALUES.items()} | {"m": np.array([1.4, 99.0])}
    found = run(values)
    assert found["outcomes"]["status"].tolist() == [FINISHED, BAD_VALUE]
    np.testing.assert_allclose(found["curves"]["F_z"][:, 0], run()["curves"]["F_z"])
    assert np.isnan(found["curves"]["F_z"][:, 1]).all()


def test_the_target_is_the_measured_force_and_defaults_are_within_bounds():
    tracked = heel_model(strike(), frames=16, sd=12.0)
    target = tracked.targets["F_z"]
    np.testing.assert_allclose(target.values, 300 * np.linspace(0, END, 16), atol=1e-9)
    assert target.valid.all() and target.sd == 12.0 and tracked.frames == 16
    assert all(p.low <= p.default <= p.high and p.source for p in PARAMETERS)


@pytest.mark.parametrize(
    ("options", "words"),
    [({"frames": 2}, "at least 3"), ({"end": 0.5}, "out of the recording"), ({"window": -1.0}, "at least 0")]
    + [({"window": 1.0}, "longer than the recording")],
)
def test_a_window_that_is_none_is_refused(options, words):
    with pytest.raises(InputError, match=words):
        squeeze(strike(), **options)


def test_a_scalar_is_held_against_its_own_measurement_beside_the_curve():
    tracked = heel_model(strike(), frames=31)
    unknowns = [Unknown("k", 1e4, 1e5, "log"), Unknown("c", 10.0, 1e3, "log")]
    channels = {"F_z": {"sd": 10.0}, "work": {"value": 2.0, "sd": 0.1, "weight": 4.0}}
    problem = Problem.of_tracked(
        tracked, unknowns=unknowns, channels=channels, fixed={"m": VALUES["m"], "offset": VALUES["offset"]}
    )
    left = problem.residuals(jnp.asarray([VALUES["k"], VALUES["c"]]))
    found = run()
    np.testing.assert_allclose(left[:31], (found["curves"]["F_z"] - 300 * np.linspace(0, END, 31)) / 10.0, rtol=1e-9)
    np.testing.assert_allclose(left[31:], [2.0 * (found["outcomes"]["work"] - 2.0) / 0.1], rtol=1e-9)


@pytest.mark.parametrize(
    ("channels", "words"),
    [
        ({"work": {"sd": 0.1}}, "value = 560.0"),
        ({"work": {"value": 2.0, "sd": 0.1, "from_load": 20.0}}, "from_load"),
        ({"status": {"value": 1.0, "sd": 0.1}}, "status"),
    ],
)
def test_a_scalar_without_a_measurement_is_refused(channels, words):
    with pytest.raises(InputError, match=words):
        Problem.of_tracked(heel_model(strike()), unknowns=[Unknown("k", 1e4, 1e5)], channels=channels)
