"""A sole under a known motion: forces by hand, derivatives by differences, and what is held against a plate."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick import hasty_jit
from tracked_stances import DURATION, REST, known_at, make_stance, rotation

from jaxcontact.errors import InputError
from jaxcontact.integrate.machine import BAD_VALUE, FINISHED
from jaxcontact.integrate.settings import Settings
from jaxcontact.models.layouts import NINE_SPHERES, TOE_CENTRE, TOE_JOINT
from jaxcontact.tracked.walk import CARRIES, SD, walk_model

FRAMES = 13
CHOICES = {"normal": "hunt_crossley", "friction": "coulomb_viscous"}
COUNTS = {"forward": 4, "height": 5, "pitch": 3}


@cache
def tracked(side="R"):
    """Poses are not smoothed, so that the known motion is the model's."""
    return walk_model(make_stance(side), frames=FRAMES, correction=COUNTS, window=0.0)


def defaults(model, **changed):
    stated = {p.name: p.default for p in model.parameters} | changed
    return {p.name: jnp.asarray(stated[p.name] * p.si) for p in model.parameters}


@cache
def compiled(side="R"):
    machine = tracked(side).model.recorder("prescribed", CHOICES, Settings(), FRAMES)
    return hasty_jit(lambda params: machine.finish(params, machine.init(params)))


def curves_of(side="R", **changed):
    found = compiled(side)(defaults(tracked(side).model, **changed))
    return {name: np.asarray(values) for name, values in found["curves"].items()}, found["outcomes"]


# ---------------------------------------------------------------- by hand

TRIED = {
    "mount.x": 0.131,
    "mount.y": 0.004,
    "mount.z": 0.012,
    "mount.pitch": 2.0,
    "toes.flat": 0.8,
    "v_slip": 0.05,
    "s2.weight": 2.0,
    "s3.damping": 3.0,
    "s6.friction": 0.6,
    "correct.height.2": 0.002,
    "correct.pitch.3": 1.5,
    "correct.forward.1": 0.003,
}


def by_hand(time, values):
    """Force, CoP and free moment at one moment; velocities are differences of where the material points are."""

    def feet(t):
        known, x = known_at(t), t / DURATION
        pitch = values["correct.pitch.3"] * x**2
        height = values["correct.height.2"] * second_of_five(x)
        ball = known.ball + [values["correct.forward.1"] * (1 - x) ** 3, 0.0, height]
        turn = known.turn + [0.0, np.deg2rad(pitch), 0.0]
        main = rotation(turn)
        origin = ball + main @ (np.array([values[f"mount.{c}"] for c in "xyz"]) - REST)
        mount = np.deg2rad(values["mount.pitch"])
        main = main @ rotation([0.0, mount, 0.0])
        up = turn[1] + mount
        bend = -0.5 * values["toes.flat"] * (up + np.hypot(up, np.deg2rad(3.0)))
        toes = main @ rotation([0.0, bend, 0.0])
        joint = origin + main @ [TOE_JOINT[0], 0.0, TOE_JOINT[1]]
        return {"foot": (origin, main), "toes": (joint + toes @ [TOE_CENTRE[0], 0.0, TOE_CENTRE[1]], toes)}

    h = 1e-6
    now, before, after = (feet(time + step) for step in (0.0, -h, h))
    total, load, weighted, parts = np.zeros(3), 0.0, np.zeros(2), []
    for name, segment in zip(NINE_SPHERES.names(), NINE_SPHERES.segments, strict=True):
        s = {key: values[f"{name}.{key}"] for key in ("x", "y", "z", "radius", "weight", "damping", "friction")}
        origin, turned = now[segment]
        centre = origin + turned @ [s["x"], s["y"], s["z"]]
        depth = s["radius"] - centre[2]
        if depth <= 0:
            continue
        lowest = turned.T @ (centre - [0.0, 0.0, s["radius"]] - origin)  # the material point that is lowest now
        early, late = (each[segment][0] + each[segment][1] @ lowest for each in (before, after))
        velocity = (late - early) / (2 * h)
        k, chi = values["k"] * s["weight"], values["chi"] * s["weight"] * s["damping"]
        F_n = max(depth**1.5 * (k - chi * velocity[2]), 0.0)
        slide = np.array([velocity[0], velocity[1]])
        grip = values["mu"] * s["friction"] * F_n / np.sqrt(slide @ slide + values["v_slip"] ** 2)
        force = np.array([*(-(grip + values["mu_viscous"]) * slide), F_n])
        total, load, weighted = total + force, load + F_n, weighted + F_n * centre[:2]
        parts.append((centre[:2], force))
    cop = weighted / load if load > 0 else np.zeros(2)
    moment = sum((at - cop)[0] * force[1] - (at - cop)[1] * force[0] for at, force in parts)
    return total, cop, moment


def second_of_five(x):
    """The second of five clamped cubic B-splines with one inner knot at 1/2, in powers."""
    # Left of the knot 6 x - 18 x^2 + 14 x^3, right of it 2 (1 - x)^3: both 1/4 at the knot.
    return 6 * x - 18 * x**2 + 14 * x**3 if x < 0.5 else 2 * (1 - x) ** 3


def test_forces_cop_and_free_moment_by_hand():
    """Spheres, Hunt-Crossley, Foot eq. 14 and toes written out again, with velocities from differences of places."""
    curves, outcomes = curves_of(**TRIED)
    values = {p.name: p.default for p in tracked().model.parameters} | TRIED
    touched = 0
    for i, time in enumerate(np.linspace(0, DURATION, FRAMES)[1:-1], start=1):
        force, cop, moment = by_hand(time, values)
        for name, expected in zip(("F_x", "F_y", "F_z"), force, strict=True):
            assert curves[name][i] == pytest.approx(expected, rel=1e-4, abs=0.05), (name, i)
        if force[2] > 20:
            touched += 1
            np.testing.assert_allclose([curves["cop_x"][i], curves["cop_y"][i]], cop, atol=2e-6)
            assert curves["free_moment"][i] == pytest.approx(moment, rel=1e-3, abs=1e-3)
        else:
            assert np.isnan(curves["cop_x"][i]) and np.isnan(curves["free_moment"][i])
    assert touched >= 6 and outcomes["status"] == FINISHED
    assert outcomes["F_z_peak"] == curves["F_z"].max() and outcomes["F_x_push"] == curves["F_x"].max()
    step = DURATION / (FRAMES - 1)
    assert outcomes["impulse"] == pytest.approx(np.trapezoid(curves["F_z"], dx=step))


def test_a_left_foot_in_a_mirror_is_the_right_one():
    right, left = (curves_of(side, **TRIED)[0] for side in "RL")
    for name, values in right.items():
        np.testing.assert_allclose(left[name], values, rtol=1e-7, atol=1e-6, err_msg=name)
    for name, target in tracked("R").targets.items():
        other = tracked("L").targets[name]
        np.testing.assert_allclose(other.values, target.values, atol=1e-9, err_msg=name)
        assert np.array_equal(other.valid, target.valid) and other.sd == target.sd


# ---------------------------------------------------------------- targets


def test_targets_are_the_plate_in_the_foots_frame_and_count_where_the_load_carries_them():
    targets, known = tracked().targets, known_at(np.linspace(0, DURATION, FRAMES))
    for i, letter in enumerate("xyz"):
        np.testing.assert_allclose(targets[f"F_{letter}"].values, known.force[:, i], atol=0.05)
        assert targets[f"F_{letter}"].valid.all()
    loaded = known.force[:, 2] > CARRIES
    for name, expected in (("cop_x", known.cop[:, 0]), ("cop_y", known.cop[:, 1]), ("free_moment", known.free_moment)):
        target = targets[name]
        assert np.array_equal(target.valid, loaded) and not loaded.all()
        np.testing.assert_allclose(target.values[loaded], expected[loaded], atol=1e-3)
        assert np.all(target.values[~loaded] == 0.0)
    assert targets["F_z"].sd == pytest.approx(SD["F_z"] * 70.0 * 9.80665) and targets["cop_x"].sd == SD["cop_x"]
    assert tracked().body_weight == pytest.approx(70.0 * 9.80665)


# ---------------------------------------------------------------- derivatives, lanes, bad values

BY = ("k", "chi", "mu", "v_slip", "mount.z", "mount.pitch", "s3.radius", "s6.x", "correct.height.3", "correct.pitch.2")


@cache
def in_lanes():
    """Curves and outcomes of lanes: BY a little more, a little less, as it is, and one that is beyond its bounds."""
    model, h = tracked().model, 1e-6
    base = defaults(model, **TRIED)
    steps = {name: h * max(abs(float(base[name])), 1e-3) for name in BY}
    params = {name: np.full(2 * len(BY) + 2, float(value)) for name, value in base.items()}
    for i, (name, step) in enumerate(steps.items()):
        params[name][[i, i + len(BY)]] += step, -step
    params["mount.z"][-1] = 0.9
    machine = model.recorder("prescribed", CHOICES, Settings(), FRAMES)
    found = hasty_jit(lambda params: machine.finish(params, machine.init(params)))(params)
    return jax.tree.map(np.asarray, found), base, steps


def test_derivatives_of_curves_are_those_of_differences():
    found, base, steps = in_lanes()
    machine = tracked().model.recorder("prescribed", CHOICES, Settings(), FRAMES)
    names = ("F_x", "F_y", "F_z")

    def forces(values):
        params = base | {name: values[i] for i, name in enumerate(BY)}
        curves = machine.finish(params, machine.init(params))["curves"]
        return jnp.stack([curves[name] for name in names])

    here = jnp.asarray([base[name] for name in BY])
    along = jnp.diag(jnp.asarray(list(steps.values())))
    exact = np.asarray(hasty_jit(jax.vmap(lambda step: jax.jvp(forces, (here,), (step,))[1]))(along))
    curves = np.stack([found["curves"][name] for name in names])  # force, frame, lane
    for i, name in enumerate(BY):
        scale = np.abs(exact[i]).max()
        assert scale > 0, name
        change = 0.5 * (curves[..., i] - curves[..., i + len(BY)])
        np.testing.assert_allclose(exact[i], change, atol=1e-5 * scale, err_msg=name)


def test_many_lanes_are_many_runs_and_a_bad_one_harms_no_other():
    found, _, _ = in_lanes()
    outcomes, (curves, one) = found["outcomes"], curves_of(**TRIED)
    assert outcomes["status"].tolist() == [FINISHED] * (2 * len(BY) + 1) + [BAD_VALUE]
    for name in ("F_z_peak", "F_x_braking", "impulse", "most_down"):
        assert outcomes[name][-2] == pytest.approx(float(one[name])) and np.isnan(outcomes[name][-1])
    np.testing.assert_allclose(found["curves"]["F_z"][:, -2], curves["F_z"], atol=1e-8)
    assert np.isnan(found["curves"]["F_z"][:, -1]).all()
    z = BY.index("mount.z")
    assert outcomes["impulse"][z] < outcomes["impulse"][-2] < outcomes["impulse"][z + len(BY)]  # higher up: less load


def test_coefficients_can_be_left_out_and_frames_cannot():
    plain = walk_model(make_stance(), frames=FRAMES, correction={}, window=0.0).model
    names = [p.name for p in tracked().model.parameters]
    assert [p.name for p in plain.parameters] == [name for name in names if not name.startswith("correct.")]
    with pytest.raises(InputError, match="at least 2"):
        walk_model(make_stance(), frames=1)
