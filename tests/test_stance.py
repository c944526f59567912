"""A stance under prescribed motion: a pure function of pose and layout, its motion, its derivatives, its cost."""

import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxcontact.errors import InputError
from jaxcontact.integrate.machine import BAD_VALUE, FINISHED
from jaxcontact.integrate.settings import Settings
from jaxcontact.models import MODELS, get_model
from jaxcontact.models.gait import DEGREE, Gait, stance_motion
from jaxcontact.models.layout import make_layout
from jaxcontact.models.layouts import ELLIPSOIDS_6, NINE_SPHERES
from jaxcontact.models.model import default_params
from jaxcontact.models.prescribed import SagittalMotion, evaluate, sagittal_feet
from jaxcontact.models.shape import CAVUS, FLAT, raised_by
from jaxcontact.models.stance import FRAMES, GAIT, LOADED, PHASES, reference_motion, shaped_elements, stance_model
from jaxcontact.study import Study, run, study

STANCE = MODELS["stance"]
CHOICES = {name: allowed[0] for name, allowed in STANCE.choices.items()}
DEFAULTS = default_params(STANCE)
MACHINE = STANCE.machine("prescribed", CHOICES, Settings())
OUTCOMES = [quantity.name for quantity in STANCE.outcomes if quantity.name not in ("status", "n_steps")]


def forces(params, motion, layout=NINE_SPHERES, choices=CHOICES, lanes=()):
    """Forces of a layout, with the shape and pose in `params`, along a motion."""
    return evaluate(
        motion,
        lambda frame: sagittal_feet(frame, params, params["pose.height"], params["pose.pitch"]),
        layout,
        shaped_elements(layout, params),
        params,
        choices,
        threshold=LOADED,
        lanes=lanes,
    )


def some_frames(count):
    """Every so many frames of the reference motion."""
    motion = reference_motion(NINE_SPHERES, CHOICES)
    return SagittalMotion(*(values[:: FRAMES // count] for values in motion))


@pytest.fixture(scope="module")
def along_stance():
    """A compiled function from parameters, one number each, to forces along the reference motion."""
    motion = reference_motion(NINE_SPHERES, CHOICES)
    return jax.jit(lambda params: forces(params, motion))


@pytest.fixture(scope="module")
def curves():
    """The reference stance with default numbers, over time, and its outcomes."""
    recorder = STANCE.recorder("prescribed", CHOICES, Settings(), FRAMES)
    found = jax.jit(lambda params: recorder.finish(params, recorder.init(params)))(DEFAULTS)
    return jax.tree.map(np.asarray, found)


LANES = {  # what each lane has that is not default
    "default": {},
    "cavus": {"arch": CAVUS["arch"]},
    "no number": {"s1.radius": np.nan},
    "negative": {"s1.radius": -0.01},
    "infinite": {"k": np.inf},
    "too high": {"pose.height": 0.05},
    "flat": {"arch": FLAT["arch"]},
    "default again": {},
}


@pytest.fixture(scope="module")
def lanes():
    """Outcomes of some lanes, side by side: by lane, then by outcome."""
    names = ("arch", "s1.radius", "k", "pose.height")
    varied = {name: np.array([lane.get(name, DEFAULTS[name]) for lane in LANES.values()]) for name in names}
    found = jax.jit(lambda params: MACHINE.finish(params, MACHINE.init(params)))({**DEFAULTS, **varied})
    return {lane: {name: np.asarray(values)[i] for name, values in found.items()} for i, lane in enumerate(LANES)}


# ---------------------------------------------------------------- a pure function of the pose


def test_two_thousand_random_layouts_at_once_are_what_they_are_one_by_one():
    motion, count = some_frames(100), 2000
    assert len(motion.time) == 101
    rng = np.random.default_rng(1)
    names = [p.name for p in NINE_SPHERES.parameters() if p.name.endswith((".x", ".y", ".z", ".radius", ".weight"))]
    varied = {name: DEFAULTS[name] + 0.01 * rng.uniform(-1, 1, count) for name in names}
    varied |= {"arch": 0.01 * rng.uniform(-1, 1, count), "k": 8e4 * rng.uniform(0.5, 2, count)}
    varied |= {"pose.pitch": 0.05 * rng.uniform(-1, 1, count), "mu": rng.uniform(0, 1, count)}
    together = jax.jit(lambda varied: forces({**DEFAULTS, **varied}, motion))(varied)
    one_by_one = jax.jit(lambda varied: jax.lax.map(lambda one: forces({**DEFAULTS, **one}, motion), varied))(varied)
    assert together.force[2].shape == (101, count) and together.down.shape == (101, 9, count)
    for wide, single in zip(jax.tree.leaves(together), jax.tree.leaves(one_by_one), strict=True):
        np.testing.assert_allclose(wide, np.moveaxis(np.asarray(single), 0, -1), rtol=1e-9, atol=1e-9)
    assert np.ptp(np.asarray(together.force[2])[50]) > 100  # they are different layouts


def test_forces_are_those_of_a_second_derivation(along_stance):
    """Nine spheres by hand: places by matrices, velocities by differences of places, laws as printed."""
    rng = np.random.default_rng(2)
    params = {**DEFAULTS, "m": 1.4, "mu": 0.6, "arch": 0.004, "pose.pitch": 0.03, "pose.height": -0.002}
    for parameter in NINE_SPHERES.parameters():
        size = 0.004 if parameter.unit == "m" else 0.3
        params[parameter.name] = parameter.default + size * rng.uniform(-1, 1)
    motion, found = reference_motion(NINE_SPHERES, CHOICES), along_stance(params)
    for i in (8, 25, 60, 100, 130, 160, 190):
        frame = SagittalMotion(*(float(values[i]) for values in motion))
        pressed = [
            press(params, frame, *each) for each in zip(NINE_SPHERES.names(), NINE_SPHERES.segments, strict=True)
        ]
        total = np.sum([force for _, force in pressed], axis=0)
        cop = np.sum([force[2] * place for place, force in pressed], axis=0) / total[2]
        moment = sum(np.cross(place - cop, force)[2] for place, force in pressed)
        assert total[2] > LOADED
        np.testing.assert_allclose([float(f[i]) for f in found.force], total, rtol=1e-6, atol=1e-5)
        np.testing.assert_allclose([float(found.cop[0][i]), float(found.cop[1][i])], cop[:2], atol=1e-9)
        np.testing.assert_allclose(float(found.free_moment[i]), moment, atol=1e-6)


def press(params, frame, name, segment):
    """Where a sphere presses and with which force, by Foot eqs 11, 13 and 14."""
    lowest = material_point(params, frame, name, segment)
    place, step = lowest(0.0), 1e-6
    velocity = (lowest(step) - lowest(-step)) / (2 * step)
    depth, slip = -place[2], np.array([velocity[0], velocity[1], 0.0])
    weight, damping, friction = (params[f"{name}.{share}"] for share in ("weight", "damping", "friction"))
    F_n = weight * max(depth, 0.0) ** params["m"] * max(params["k"] - params["chi"] * damping * velocity[2], 0.0)
    drag = params["mu"] * friction * F_n / np.hypot(np.hypot(*slip[:2]), params["v_slip"])
    return place, np.array([0, 0, F_n]) - (depth > 0) * (drag + params["mu_viscous"]) * slip


def material_point(params, frame, name, segment):
    """Place of the point of a sphere that is lowest at the frame, some time after it, carried along by its segment."""

    def matrix(angle):  # clockwise about y (left): a positive angle turns forward into down
        c, s = np.cos(angle), np.sin(angle)
        return np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])

    def segment_at(dt):
        pitch = frame.pitch + params["pose.pitch"] + dt * frame.pitch_rate
        foot = np.array([frame.x + dt * frame.v_x, 0, frame.z + params["pose.height"] + dt * frame.v_z])
        if segment == "foot":
            return foot, matrix(pitch)
        toe_pitch = pitch + frame.bend + dt * frame.bend_rate
        joint = foot + matrix(pitch) @ [params["toe_joint.x"], 0, params["toe_joint.z"]]
        return joint + matrix(toe_pitch) @ [params["toes.x"], 0, params["toes.z"]], matrix(toe_pitch)

    centre = np.array([params[f"{name}.{axis}"] for axis in "xyz"])
    ahead = params["toe_joint.x"] + params["toes.x"] if segment == "toes" else 0.0
    centre[2] += float(raised_by(jnp.asarray(centre[0] + ahead), params))
    _, turn = segment_at(0.0)
    carried = centre - turn.T @ [0, 0, params[f"{name}.radius"]]

    def at(dt):
        origin, turn = segment_at(dt)
        return origin + turn @ carried

    return at


def test_order_of_the_elements_does_not_matter(along_stance):
    order = np.random.default_rng(3).permutation(9)
    rows = [
        {"segment": NINE_SPHERES.segments[i], **{f: values[i] for f, values in NINE_SPHERES.values.items()}}
        for i in order
    ]
    mixed = make_layout("mixed", "sphere", "test", rows)
    params = {**DEFAULTS, **{p.name: p.default for p in mixed.parameters()}, "arch": 0.005}
    motion = reference_motion(NINE_SPHERES, CHOICES)
    shuffled = jax.jit(lambda params: forces(params, motion, mixed))(params)
    plain = along_stance({**DEFAULTS, "arch": 0.005})
    np.testing.assert_allclose(shuffled.force, plain.force, rtol=1e-11, atol=1e-9)
    np.testing.assert_array_equal(shuffled.down, np.asarray(plain.down)[:, order])


def test_force_is_in_proportion_to_weight_and_coulomb_is_no_viscous_friction(along_stance):
    motion = reference_motion(NINE_SPHERES, CHOICES)
    doubled = {name: 2.0 * DEFAULTS[name] for name in DEFAULTS if name.endswith(".weight")}
    plain = along_stance({**DEFAULTS, "mu_viscous": 0.0})
    heavy = along_stance({**DEFAULTS, "mu_viscous": 0.0, **doubled})
    dry = jax.jit(lambda params: forces(params, motion, choices={**CHOICES, "friction": "coulomb"}))(DEFAULTS)
    np.testing.assert_allclose(heavy.force, 2.0 * np.asarray(plain.force), rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(dry.force, plain.force, rtol=1e-12, atol=1e-9)


# ---------------------------------------------------------------- derivatives


def derivatives_both_ways(values, at, scales, seed):
    """Jacobian of `values(params)` by every number in `at`, in forward mode, checked against reverse and differences.

    `scales` says over how much of each number the function changes by about itself.
    """
    names = list(at)
    size = np.array([scales[name] for name in names])

    def along(direction):
        return jax.jvp(values, (at,), (dict(zip(names, direction, strict=True)),))[1]

    forward = np.asarray(jax.jit(jax.vmap(along))(np.diag(size))).T  # change of each value over that much
    weights = np.random.default_rng(seed).standard_normal(len(forward)) / np.abs(forward).max(axis=1)
    backward = jax.jit(jax.grad(lambda params: values(params) @ weights))(at)
    backward = size * np.array([backward[name] for name in names])
    np.testing.assert_allclose(backward, weights @ forward, rtol=1e-7, atol=1e-9)
    step = 1e-6
    shifts = step * np.concatenate([np.diag(size), -np.diag(size)])
    beside = {name: at[name] + shifts[:, i] for i, name in enumerate(names)}  # every one its own lane
    found = np.asarray(jax.jit(values)(beside))
    differences = (found[:, : len(names)] - found[:, len(names) :]) / (2 * step)
    error = np.abs(forward - differences) / np.abs(forward).max(axis=1, keepdims=True)
    worst = np.unravel_index(np.argmax(error), error.shape)
    assert error.max() < 1e-5, f"value {worst[0]} by {names[worst[1]]}: off by {error.max():.1e}"
    return {name: forward[:, i] for i, name in enumerate(names)}


def test_derivatives_by_every_number_of_layout_shape_law_and_pose_both_ways():
    """At numbers where nothing is symmetric; those of other laws have no say."""
    rng = np.random.default_rng(4)
    of_other_laws = ("c", "c1", "c2", "c3", "c4", "c5", "c6", "c7")
    used = [p for p in STANCE.parameters if p.name not in of_other_laws]
    at = {p.name: DEFAULTS[p.name] + (2e-3 * rng.uniform(-1, 1) if p.unit == "m" else 0.0) for p in used}
    at["pose.pitch"] = 0.01
    scales = {p.name: 0.01 if p.unit == "m" else 0.1 * abs(at[p.name]) for p in used}
    smooth = [name for name in OUTCOMES if name != "most_down"]

    def values(params):
        found = MACHINE.finish(whole := {**DEFAULTS, **params}, MACHINE.init(whole))
        return jnp.stack([found[name] for name in smooth])

    slopes = derivatives_both_ways(values, at, scales, seed=5)
    # Everything changes the vertical force but friction and where a sphere is across the foot.
    still = {name for name, slope in slopes.items() if slope[smooth.index("impulse")] == 0.0}
    spheres = NINE_SPHERES.names()
    assert still == {"mu", "mu_viscous", "v_slip", *(f"{s}.{field}" for s in spheres for field in ("y", "friction"))}


@pytest.mark.slow
def test_derivatives_of_ellipsoids_with_the_law_of_a_shoe():
    """The same for forces and centre of pressure at single frames, by all numbers of Lopes eqs 1 and 2."""
    choices = {"normal": "shoe", "friction": "shoe"}
    params = {**DEFAULTS, **{p.name: p.default for p in ELLIPSOIDS_6.parameters()}, "arch": 0.002, "c5": 1.2}
    motion = SagittalMotion(*(values[[12, 40, 80, 120, 160]] for values in reference_motion(NINE_SPHERES, CHOICES)))
    names = [f"c{i}" for i in range(1, 8)] + ["pose.height", "pose.pitch", "toe_joint.x", "toes.z", "loss.heel"]
    names += [p.name for p in ELLIPSOIDS_6.parameters()]

    def values(numbers):
        found = forces({**params, **numbers}, motion, ELLIPSOIDS_6, choices)
        return jnp.concatenate([found.force[0], found.force[2], found.cop[0]])

    at = {name: params[name] for name in names}
    derivatives_both_ways(values, at, {name: max(0.1 * abs(at[name]), 0.005) for name in names}, seed=6)


# ---------------------------------------------------------------- the motion


def test_two_feet_carry_the_body_on_average():
    """Alexander's curve: over a stride, load times duty factor, of both feet, is body weight, whatever q is."""
    phase = np.linspace(0, 1, 2001)
    for gait in (GAIT, Gait(shape=0.0, duty=0.7), Gait(shape=0.7, mass=55.0)):
        mean = np.trapezoid(np.asarray(gait.load(phase)), phase)
        assert 2 * gait.duty * mean == pytest.approx(gait.mass * gait.gravity, rel=1e-6)
        assert np.trapezoid(np.asarray(gait.shear(phase)), phase) == pytest.approx(0.0, abs=1e-9)
        assert np.all(np.asarray(gait.load(phase)) >= 0)


def test_reference_sole_carries_the_load_and_the_shear(along_stance):
    phase = np.linspace(0, 1, FRAMES)
    elastic, whole = along_stance({**DEFAULTS, "chi": 0.0}), along_stance(DEFAULTS)
    np.testing.assert_allclose(elastic.force[2], GAIT.load(phase), atol=2e-6)
    np.testing.assert_allclose(whole.force[0], GAIT.shear(phase), atol=1e-6)
    # Dampers add little to it.
    assert np.sqrt(np.mean((whole.force[2] - GAIT.load(phase)) ** 2)) < 0.03 * np.max(whole.force[2])


def test_motion_is_smooth_and_its_rates_are_those_of_its_places():
    motion = reference_motion(NINE_SPHERES, CHOICES)
    for place, rate in (("pitch", "pitch_rate"), ("bend", "bend_rate"), ("z", "v_z"), ("x", "v_x")):
        values, rates = getattr(motion, place), getattr(motion, rate)
        differences = np.gradient(values, motion.time)[1:-1]
        assert np.abs(differences - rates[1:-1]).max() < 0.03 * np.abs(rates).max(), place
    assert motion.pitch[0] == pytest.approx(-20 * DEGREE) and motion.pitch[-1] == pytest.approx(65 * DEGREE)
    flat = slice(int(0.17 * 200), int(0.43 * 200) + 1)
    assert np.all(np.abs(motion.pitch[flat]) <= GAIT.roll + 1e-12)
    assert motion.time[-1] == pytest.approx(GAIT.duration)


def test_a_softer_sole_is_carried_lower():
    motion = jax.jit(lambda k: stance_motion(GAIT, NINE_SPHERES, {**DEFAULTS, "k": k, "chi": 0.0}, CHOICES, 21))
    soft, hard = motion(4e4), motion(16e4)
    assert np.all(np.asarray(soft.z)[1:-1] < np.asarray(hard.z)[1:-1])
    np.testing.assert_allclose(soft.z[0], hard.z[0], atol=1e-6)  # where both just touch


def test_centre_of_pressure_goes_forward_under_the_sole(curves):
    motion = reference_motion(NINE_SPHERES, CHOICES)
    cop, loaded = curves["curves"]["cop_x"], np.isfinite(curves["curves"]["cop_x"])
    assert loaded[10:-10].all() and not loaded[0] and not loaded[-1]
    assert np.all(np.diff(cop[loaded]) > 0)
    heel, tip = (motion.x + x for x in (-0.134, 0.07 + 0.065))
    assert np.all(cop[loaded] > heel[loaded]) and np.all(cop[loaded] < tip[loaded] + 0.01)
    assert curves["outcomes"]["cop_travel"] == pytest.approx(np.ptp(cop[loaded]))


def test_outcomes_follow_from_the_curves(curves):
    found, time = curves["outcomes"], curves["curves"]["t"]
    F_z, F_x, down = (curves["curves"][name] for name in ("F_z", "F_x", "down"))
    phase = np.arange(FRAMES) / (FRAMES - 1)
    for name, (begin, end) in PHASES.items():
        assert found[f"F_z_{name}"] == pytest.approx(F_z[(phase >= begin) & (phase < end)].mean())
    assert found["impulse"] == pytest.approx(np.trapezoid(F_z, time), rel=1e-12)
    assert (found["F_z_peak"], found["F_x_push"], found["F_x_braking"]) == (F_z.max(), F_x.max(), -F_x.min())
    assert found["most_down"] == max(int(bits).bit_count() for bits in down) == 9
    assert (PHASES["heel"][0], PHASES["off"][1]) == (0.0, 1.0)


# ---------------------------------------------------------------- number types, failures, files


def test_single_precision_gives_the_same_stance(curves):
    with jax.enable_x64(False):
        params = {name: jnp.asarray(value, jnp.float32) for name, value in DEFAULTS.items()}
        single = jax.jit(lambda params: MACHINE.finish(params, MACHINE.init(params)))(params)
    assert single["impulse"].dtype == np.float32
    for name in OUTCOMES:
        assert float(single[name]) == pytest.approx(float(curves["outcomes"][name]), rel=2e-4), name


def test_a_bad_value_is_the_status_of_its_lane_only(lanes):
    for name in ("no number", "negative", "infinite"):
        assert lanes[name]["status"] == BAD_VALUE and all(np.isnan(lanes[name][outcome]) for outcome in OUTCOMES)
    for name in ("default", "cavus", "flat", "too high"):
        assert lanes[name]["status"] == FINISHED and all(np.isfinite(lanes[name][outcome]) for outcome in OUTCOMES)
    assert lanes["default"] == lanes["default again"]


def test_a_foot_that_never_touches_is_no_failure(lanes):
    assert all(lanes["too high"][outcome] == 0.0 for outcome in OUTCOMES)
    touch = jax.jit(
        jax.grad(lambda height: jnp.sum(forces({**DEFAULTS, "pose.height": height}, some_frames(10)).force[2]))
    )
    assert float(touch(0.05)) == 0.0 and float(touch(0.0)) < -1e4


def test_cavus_and_flat_soles_have_the_trends_of_fig_10(lanes):
    """Foot: cavus is higher at heel contact, end of mid-stance, toe-off, lower in mid-stance; flat fills the valley."""
    normal, cavus, flat = (lanes[name] for name in ("default", "cavus", "flat"))
    assert all(cavus[f"F_z_{phase}"] > normal[f"F_z_{phase}"] for phase in ("heel", "rise", "off"))
    assert cavus["F_z_mid"] < normal["F_z_mid"]
    assert all(flat[f"F_z_{phase}"] > 1.1 * normal[f"F_z_{phase}"] for phase in ("mid", "rise"))


def test_a_study_file_may_name_a_layout_or_a_file_with_one(tmp_path):
    (tmp_path / "mine.csv").write_text(
        "segment,x [mm],z [mm],radius [mm]\nfoot,-90,-25,30\nfoot,50,-33,16\ntoes,0,-16,12\n"
    )
    (tmp_path / "study.toml").write_text(
        f"""
        [study]
        model = "stance:{tmp_path / "mine.csv"}"
        [vary]
        s2.radius = [0.012, 0.016, 0.02]
        arch = [-0.005, 0.0]
        [output]
        curves = true
        points = 21
        """
    )
    found = run(Study.from_file(tmp_path / "study.toml"))
    assert found["F_z"].dims == ("s2.radius", "arch", "fraction") and found.sizes["fraction"] == 21
    assert bool((found["status"] == FINISHED).all())
    # Its own motion was made for it as it is in the file: there it carries the load.
    own = found.sel({"s2.radius": 0.016, "arch": 0.0})
    assert float(own["F_z_peak"]) == pytest.approx(float(np.max(GAIT.load(np.linspace(0, 1, 201)))), rel=0.1)
    assert bool((found["F_z_off"].diff("s2.radius") > 0).all())
    assert set(np.unique(found["down"])) <= set(range(8))


def test_a_study_may_name_a_layout_of_ours():
    found = run(study("stance:ellipsoids_6", vary={"e1.c": [0.03, 0.034]}))
    assert bool((found["status"] == FINISHED).all()) and bool((found["F_z_heel"].diff("e1.c") > 0).all())
    assert found.attrs["model"] == "stance:ellipsoids_6"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("stanc", "model 'stanc'"),
        ("stance:nine", "layout 'nine'"),
        ("stance:nowhere.csv", "there is no file nowhere.csv"),
        ("crutch:nine_spheres", "model crutch has no layouts"),
        ("stance:", "layout ''"),
    ],
)
def test_a_wrong_name_is_answered_with_the_right_ones(name, words):
    with pytest.raises(InputError) as error:
        get_model(name)
    assert words.replace("'", "") in str(error.value).replace("'", "").replace('"', "")
    assert "csv" in str(error.value) or "stance" in str(error.value)


def test_the_same_name_is_the_same_model():
    assert get_model("stance:nine_spheres") is STANCE
    assert get_model("stance:points_31") is get_model("stance:points_31")
    other = stance_model(ELLIPSOIDS_6, motion_of=NINE_SPHERES)
    assert len(other.parameters) > len(get_model("stance:ellipsoids_6").parameters) - 1


# ---------------------------------------------------------------- cost


MANY = """
import resource, time
import jax, jax.numpy as jnp, numpy as np
jax.config.update("jax_enable_x64", True)
from tests.test_stance import DEFAULTS, forces, CHOICES, NINE_SPHERES
from jaxcontact.models.stance import reference_motion
motion = reference_motion(NINE_SPHERES, CHOICES, 300)
rng = np.random.default_rng(5)
names = [name for name in DEFAULTS if name.endswith((".x", ".z", ".radius"))]
varied = {name: DEFAULTS[name] + 1e-3 * rng.standard_normal(10_000) for name in names}
everything = jax.jit(lambda varied: forces({**DEFAULTS, **varied}, motion))
jax.block_until_ready(everything({name: values[:10] for name, values in varied.items()}))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
jax.block_until_ready(everything(varied))
grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
began = time.perf_counter()
found = jax.block_until_ready(everything(varied))
seconds = time.perf_counter() - began
assert found.down.shape == (300, 9, 10_000) and bool(jnp.isfinite(found.force[2]).all())
results = sum(values.nbytes for values in jax.tree.leaves(found)) / 2**20
each = 1e9 * seconds / found.down.size
print(f"{seconds:.2f} s, {each:.1f} ns a contact; results {results:.0f} MB, in all {grown:.0f} MB")
"""


@pytest.mark.slow
def test_ten_thousand_layouts_of_nine_spheres_over_three_hundred_frames():
    """27 million contacts in one call: memory grows with the results, 66 bytes for nine contacts, and little else."""
    here = Path(__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", MANY], capture_output=True, text=True, check=True, cwd=here)
    print(done.stdout)
    words = done.stdout.split()
    seconds, results, in_all = float(words[0]), float(words[words.index("results") + 1]), float(words[-2])
    assert in_all < 1.5 * results + 200 and seconds < 60
