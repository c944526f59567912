"""The falling foot in space: the planar one is its second derivation; joints hold, energy balances, sides mirror."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxcontact.errors import InputError
from jaxcontact.integrate.machine import FINISHED, simulate
from jaxcontact.integrate.settings import Settings
from jaxcontact.models import get_model
from jaxcontact.models.model import default_params

CHOICES = {"normal": "hunt_crossley", "friction": "coulomb_viscous", "inertia": "plausible", "knee": "ball"}
SETTINGS = Settings(rtol=1e-7, max_time=5.0)

# One lane each: as the planar foot, thrice, once with a foot that turns over about a sprung ankle (-244 deg); leaning
# right and left; the same without feedback; with strong feedback.
PLANAR = 3
LANES = (
    "planar",
    "planar, higher",
    "planar, turned over",
    "right",
    "left",
    "right, no feedback",
    "right, strong feedback",
)
VARIED = {
    "knee": [0.452, 0.5, 0.464, 0.48, 0.48, 0.48, 0.48],
    "ankle.stiffness": [0.0, 0.0, 0.3, 0.0, 0.0, 0.0, 0.0],
    "lean": np.deg2rad([0.0, 0.0, 0.0, 12.0, -12.0, 12.0, 12.0]),
    "feedback.velocity": [50.0, 50.0, 50.0, 50.0, 50.0, 0.0, 500.0],
    "feedback.position": [50.0, 50.0, 50.0, 50.0, 50.0, 0.0, 500.0],
}


def run(name, count, varied):
    """Outcomes and curves of a model, as numpy arrays with a trailing axis over the lanes."""
    model = get_model(name)
    params = default_params(model) | {key: jnp.asarray(value) for key, value in varied.items()}
    machine = model.recorder("compliant", CHOICES, SETTINGS, count)
    found = jax.jit(lambda p: simulate(machine, p))(params)
    return jax.tree.map(np.asarray, found["outcomes"]), jax.tree.map(np.asarray, found["curves"])


@pytest.fixture(scope="module")
def in_space():
    return run("foot_space", 65, VARIED)


@pytest.fixture(scope="module")
def in_the_plane():
    return run("foot", 65, {name: VARIED[name][:PLANAR] for name in ("knee", "ankle.stiffness")})


def test_every_lane_reaches_its_end(in_space):
    assert (in_space[0]["status"] == FINISHED).all()


def test_a_leg_in_the_plane_moves_as_the_planar_one(in_space, in_the_plane):
    # Linkage in angles there, bodies with quaternions and constraints here: nothing in common but the sole.
    for name in ("turning_angle", "t_end", "W_n", "W_t", "W_joint"):
        np.testing.assert_allclose(in_space[0][name][:PLANAR], in_the_plane[0][name], rtol=3e-6, atol=3e-6)
    for name in ("t", "shank_angle", "F_n", "F_t"):
        scale = np.abs(in_the_plane[1][name]).max()
        np.testing.assert_allclose(in_space[1][name][:, :PLANAR], in_the_plane[1][name], atol=2e-4 * scale)
    bend = in_the_plane[1]["foot_angle"] - in_the_plane[1]["shank_angle"]
    assert (
        bend[:, 2].min() < -np.pi
    )  # where an angle told within half a turn would jump, and the spring's torque with it
    np.testing.assert_allclose(in_space[1]["F_y"][:, :PLANAR], 0.0, atol=1e-9)
    np.testing.assert_allclose(in_space[1]["T_z"][:, :PLANAR], 0.0, atol=1e-9)


def test_energy_balances(in_space):
    assert np.abs(in_space[0]["energy_error"]).max() < 1e-6


def test_joints_hold_and_feedback_bounds_their_drift(in_space):
    drift = dict(zip(LANES, in_space[1]["drift"].max(axis=0), strict=True))
    print({name: f"{value:.1e} m" for name, value in drift.items()})
    assert max(drift.values()) < 1e-5
    assert max(drift["right, strong feedback"], drift["right"]) < 0.2 * drift["right, no feedback"]
    # Without feedback an error stays once it is there; with it, it has faded by the end.
    assert in_space[0]["drift"][LANES.index("right")] < 0.2 * in_space[0]["drift"][LANES.index("right, no feedback")]


def test_a_leg_that_leans_left_mirrors_one_that_leans_right(in_space):
    right, left = LANES.index("right"), LANES.index("left")
    for name in ("turning_angle", "t_end", "W_n", "W_t"):
        np.testing.assert_allclose(in_space[0][name][left], in_space[0][name][right], rtol=1e-6)
    for name in ("F_y", "cop_y", "T_z"):
        curve = in_space[1][name]
        assert np.abs(curve[:, right]).max() > 1e-3  # it does leave the plane
        np.testing.assert_allclose(curve[:, left], -curve[:, right], atol=1e-4 * np.abs(curve[:, right]).max())


def test_a_quaternion_cannot_be_kicked_and_drifted():
    model = get_model("foot_space")
    with pytest.raises(InputError, match="semi_implicit_euler.*\n.*dopri5"):
        model.machine("compliant", CHOICES, Settings(stepper="semi_implicit_euler"))
