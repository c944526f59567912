"""Fitted spheres in the words of OpenSim and MuJoCo: forces as stated, by formulas written anew."""

import xml.sax
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from carried import FRAMES, carry_stance, given_fit, stance, stated
from scipy.optimize import minimize

from jaxcontact.errors import InputError
from jaxcontact.models import get_model
from jaxcontact.study.fit import Problem, Unknown, make_channel
from jaxcontact.study.fit.comparison import Difference, comment, difference
from jaxcontact.study.fit.mujoco import IMPRATIO, Pair, pair_force, to_mujoco
from jaxcontact.study.fit.opensim import to_opensim
from jaxcontact.study.fit.spheres import spheres_of

DATA = Path(__file__).parent.parent.parent / "shared" / "data"


class Tags(xml.sax.ContentHandler):
    """Elements with their text, in order. Names of OpenSim have colons, which readers of namespaces do not take."""

    def __init__(self, text):
        super().__init__()
        self.found, self._open = [], []
        xml.sax.parseString(text.encode(), self)

    def startElement(self, name, attrs):
        self._open.append([name, dict(attrs), ""])

    def characters(self, content):
        self._open[-1][2] += content

    def endElement(self, name):
        self.found.append(self._open.pop())

    def texts(self, name):
        return [text for tag, _, text in self.found if tag == name]

    def numbers(self, name):
        return [float(text) for text in self.texts(name)]


# ---------------------------------------------------------------- taken apart


def test_spheres_carry_together_what_the_model_carries():
    fit = stance(scored=True)
    parts = spheres_of(fit)
    together = np.sum([sphere.states.F_n for sphere in parts.spheres], axis=0)
    np.testing.assert_allclose(together, fit.predictions["F_z"], atol=1e-9 * together.max())
    # Spheres may slip against each other: the shear is at most the sum of its sizes.
    sheared = np.sum([sphere.states.F_t for sphere in parts.spheres], axis=0)
    assert np.all(np.abs(fit.predictions["F_x"]) <= -sheared + 1e-9)


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="the measured data are not beside the project")
def test_probed_spheres_of_a_measured_motion_carry_together_what_the_model_carries():
    from jaxcontact.tracked.named import tracked_model

    measured = {"file": "bmc_walk2_overground.csv", "stance": "R_plate6", "frames": 31, "correction": {"height": 4}}
    tracked = tracked_model("walk", measured, DATA)
    unknowns = [Unknown("k", 1e4, 1e7, "log"), Unknown("correct.height.2", -0.01, 0.01)]
    problem = Problem.of_tracked(tracked, unknowns=unknowns)
    fit = given_fit(problem, {"k": 3e5, "correct.height.2": 0.002})
    parts = spheres_of(fit)
    together = np.sum([sphere.states.F_n for sphere in parts.spheres], axis=0)
    assert together.max() > 300
    np.testing.assert_allclose(together, fit.predictions["F_z"], atol=1e-6 * together.max())
    assert any("measured pose was corrected" in remark for remark in parts.remarks)
    assert "31 frames of the measured stance" in to_opensim(fit).text


@pytest.mark.slow
def test_a_crutch_is_compared_where_it_slides():
    model = get_model("crutch")
    channels = [make_channel(model, "P_n", "outcome", 14.0, 1.0)]
    problem = Problem.of_model(model, method="compliant", unknowns=[Unknown("mu", 0.1, 2.0)], channels=channels)
    fit = given_fit(problem, {"mu": 0.75}, {})
    parts = spheres_of(fit)
    (tip,) = parts.spheres
    s = tip.states
    # The reference case slides, then sticks: of Crutch Table 3, P_t/P_n = 9.899/14.409 is within the cone of 0.75.
    sliding = (s.F_n > 0) & ~s.sticks
    assert 0 < s.sticks.sum() < len(s.F_n) and not s.sticks[1]
    np.testing.assert_allclose(s.F_t[sliding][:-1], -0.75 * s.F_n[sliding][:-1], rtol=1e-6, atol=1e-9)
    found = to_opensim(fit)
    assert "none beyond rounding" in found.errors[0]
    assert f"it does in {s.sticks.sum()} states" in found.errors[1]
    # The tip hangs a forearm with crutch (1.25 m, Crutch Table 1) below the elbow; its sphere has 50 mm.
    assert tip.place == (0.0, 0.0, pytest.approx(-1.20)) and tip.radius == 0.05
    linear = Problem.of_model(
        model,
        method="compliant",
        unknowns=[Unknown("mu", 0.1, 2.0)],
        channels=channels,
        laws={"normal": "kelvin_voigt", "friction": "regularised"},
    )
    pair = next(ElementTree.fromstring(to_mujoco(given_fit(linear, {"mu": 0.75}, {})).text).iter("pair"))
    assert [-float(value) for value in pair.get("solref", "").split()] == pytest.approx([2e6, 500.0])


def test_models_without_spheres_are_refused():
    model = get_model("crutch")
    channels = [make_channel(model, "P_n", "outcome", 14.0, 1.0)]
    problem = Problem.of_model(model, method="impulsive", unknowns=[Unknown("mu", 0.1, 2.0)], channels=channels)
    with pytest.raises(InputError, match="only impulses"):
        to_opensim(given_fit(problem, {"mu": 0.7}, {}))
    model = get_model("stance:points_31")
    channels = [make_channel(model, "impulse", "outcome", 300.0, 1.0)]
    problem = Problem.of_model(model, unknowns=[Unknown("mu", 0.1, 2.0)], channels=channels)
    with pytest.raises(InputError, match="does not stand on spheres"):
        to_mujoco(given_fit(problem, {"mu": 0.7}, {}))
    with pytest.raises(InputError, match="kind of OpenSim force"):
        to_opensim(stance(), "hunt")


# ---------------------------------------------------------------- OpenSim


def hollars(F_n, slip, static, dynamic, transition):
    """Friction of OpenSim's manual: mu rises to its peak at the transition velocity."""
    s = slip / transition
    return F_n * np.minimum(s, 1.0) * (dynamic + 2.0 * (static - dynamic) / (1.0 + s**2))


def test_hunt_crossley_forces_are_those_of_the_manual():
    text = carry_stance("hunt_crossley").text
    tags = Tags(text)
    spheres = spheres_of(stance()).spheres
    assert tags.texts("geometry") == [f"floor {sphere.name}" for sphere in spheres]
    rows = [tags.numbers(name) for name in ("radius", "stiffness", "dissipation", "static_friction")]
    rows += [tags.numbers(name) for name in ("dynamic_friction", "viscous_friction", "transition_velocity")]
    for sphere, numbers in zip(spheres, zip(*rows, strict=True), strict=True):
        radius, modulus, c, static, dynamic, viscous, transition = numbers
        s = sphere.states
        # Two surfaces of one material: E* = E / 2^1.5 in Simbody, f = 4/3 sqrt(R) E* x^1.5 (1 + 3/2 c x').
        f = 4 / 3 * np.sqrt(radius) * modulus / 2**1.5 * np.clip(s.depth, 0, None) ** 1.5 * (1 + 1.5 * c * s.rate)
        np.testing.assert_allclose(np.clip(f, 0, None), s.F_n, atol=1e-9 * s.F_n.max())
        assert (static, dynamic, viscous, transition) == pytest.approx((0.6, 0.6, 0.0, 0.02))
        off = np.abs(hollars(s.F_n, s.slip, static, dynamic, transition) + s.F_t).max()
        assert stated(text, sphere.name) == [0.0, pytest.approx(off, rel=5e-3)]
        # LAWS.md: both frictions have one cone and one slope at rest, and differ by at most 0.293 mu F_n.
        assert off <= 0.293 * 0.6 * s.F_n.max()


def test_smooth_forces_are_those_of_the_manual():
    text = carry_stance("smooth_sphere").text
    tags = Tags(text)
    spheres = spheres_of(stance()).spheres
    names = ("radius", "stiffness", "dissipation", "constant_contact_force", "hertz_smoothing")
    rows = [tags.numbers(name) for name in (*names, "hunt_crossley_smoothing")]
    assert len(rows[1]) == len(spheres) == 9
    for sphere, (radius, modulus, c, cf, bd, bv) in zip(spheres, zip(*rows, strict=True), strict=True):
        s = sphere.states
        hertz = 4 / 3 * np.sqrt(radius) * modulus / 2**1.5 * (s.depth**2 + cf) ** 0.75
        f = hertz * (1 + 1.5 * c * s.rate) * (0.5 + 0.5 * np.tanh(bd * s.depth))
        f = f * (0.5 + 0.5 * np.tanh(bv * (s.rate + 2 / (3 * c))))
        off = np.abs(f - s.F_n).max()
        assert stated(text, sphere.name)[0] == pytest.approx(off, rel=5e-3)
        # No other stiffness is nearer: the scale was found by least squares.
        assert f @ (f - s.F_n) == pytest.approx(0.0, abs=1e-9 * (f @ f))
        assert np.sqrt(np.mean((f - s.F_n) ** 2)) <= 0.05 * s.F_n.max()


def test_given_smoothing_is_kept():
    tags = Tags(to_opensim(stance(), "smooth_sphere", smoothing=(1e-6, 500.0, 60.0)).text)
    assert {*tags.numbers("constant_contact_force")} == {1e-6}
    assert {*tags.numbers("hertz_smoothing")} == {500.0} and {*tags.numbers("hunt_crossley_smoothing")} == {60.0}


def test_places_go_to_axes_with_y_up():
    tags = Tags(carry_stance("hunt_crossley").text)
    # OpenSim's z is to the right, our y to the left.
    for sphere, place in zip(spheres_of(stance()).spheres, tags.texts("location")[1:], strict=True):
        x, y, z = sphere.place
        assert [float(part) for part in place.split()] == pytest.approx([x, z, -y])


def test_what_is_left_out_is_said():
    viscous = to_opensim(stance(mu_viscous=3.0)).errors
    assert any("viscous friction of 3 N s/m is left out" in line for line in viscous)
    other = to_opensim(stance(m=2.0))
    assert any("exponent 2) has no equivalent" in line for line in other.errors)
    assert "exponent 2) has no equivalent" in other.text
    # The nearest law of exponent 1.5 leaves nothing that its own two columns could explain.
    tags = Tags(other.text)
    for sphere, R, E, c in zip(
        spheres_of(stance(m=2.0)).spheres, *map(tags.numbers, ("radius", "stiffness", "dissipation")), strict=True
    ):
        s = sphere.states
        carries = s.F_n > 0
        power = s.depth[carries] ** 1.5
        off = 4 / 3 * np.sqrt(R) * E / 2**1.5 * power * (1 + 1.5 * c * s.rate[carries]) - s.F_n[carries]
        assert off @ power == pytest.approx(0.0, abs=1e-6 * (s.F_n[carries] @ power))


# ---------------------------------------------------------------- MuJoCo


def test_a_linear_law_is_carried_over_as_it_is():
    """Spring and damper are MuJoCo's own: stiffness and damping of solref are those of the law, over the mass."""
    model = get_model("foot")
    problem = Problem.of_model(
        model,
        unknowns=[Unknown("k", 1e3, 1e7, "log")],
        channels=[make_channel(model, "W_n", "outcome", 1.0, 1.0)],
        fixed={"m": 1.0, "c": 40.0, "s2.weight": 3.0, "s2.damping": 0.5},
        laws={"normal": "kelvin_voigt", "friction": "coulomb"},
        body_weight=700.0,
    )
    fit = given_fit(problem, {"k": 9e4}, {})
    shares = {"s1": (1.0, 1.0), "s2": (3.0, 0.5)}
    for mass in (1.0, 2.5):
        carried = to_mujoco(fit, mass=mass)
        assert "where a sphere alone bears the peak load of 700 N" in carried.errors[0]
        pairs = {pair.get("geom2"): pair for pair in ElementTree.fromstring(carried.text).iter("pair")}
        for name, (weight, damping) in shares.items():
            k, c = (-mass * float(value) for value in pairs[name].get("solref").split())
            assert (k, c) == pytest.approx((9e4 * weight, 40.0 * weight * damping))
            d_0, d_width, width, _, power = (float(value) for value in pairs[name].get("solimp").split())
            assert d_0 == d_width == 1e-4 and power == 1
            # Alone under 700 N the spring is pressed in by 700/k, to one of 2000 depths over 5 decades.
            assert width == pytest.approx(700.0 / (9e4 * weight), rel=0.01)


def test_pair_forces_minimise_mujocos_cost():
    """Second derivation: 1/2 f (A + R) f + f (a_free - a_ref) over the cone, minimised by a search."""
    pair = Pair(stiffness=3e4, damping=80.0, ratio=0.4, width=0.01, mu=0.7, drag=900.0)
    mass, d_width = 2.0, pair.solimp[1]
    for depth, rate, slip in [(0.004, 0.1, 0.02), (0.004, -0.2, 0.9), (0.012, 0.3, 0.3), (0.001, 0.0, 1e-3)]:
        s = 0.4 + 0.6 * min(depth / 0.01, 1.0)
        d = s * d_width
        R = (1 - d) / d / mass
        reach = 3e4 / mass / d_width**2 * d * depth + 80.0 / mass / d_width * rate
        drag = 900.0 * d_width * (1 + (1 - d_width) / (d_width * IMPRATIO)) / mass / d_width * slip

        def cost(f, R=R, reach=reach, drag=drag):
            normal, tangent = 1 / mass + R, 1 / mass + R / IMPRATIO
            return 0.5 * normal * f[0] ** 2 + 0.5 * tangent * f[1] ** 2 - f[0] * reach - f[1] * drag

        scale = reach / (1 / mass + R) + 1.0
        cone = {"type": "ineq", "fun": lambda f: 0.7 * f[0] - f[1]}
        best = minimize(
            lambda u, cost=cost, scale=scale: cost(u * scale) / cost([scale, 0.0]) * -1.0,
            [1.0, 0.1],
            bounds=[(0, None), (0, None)],
            constraints=[cone],
            tol=1e-14,
        )
        F_n, friction = pair_force(depth, rate, slip, pair, mass)
        np.testing.assert_allclose([F_n, friction * slip], best.x * scale, rtol=2e-5, atol=2e-5 * scale)


def test_the_nearest_pair_has_the_error_that_it_states():
    text = carry_stance("mujoco").text
    root = ElementTree.fromstring(text)
    spheres = spheres_of(stance()).spheres
    for sphere, element in zip(spheres, root.iter("pair"), strict=True):
        k, c = (-float(value) for value in element.get("solref").split())
        d_0, d_width, width, _, _ = (float(value) for value in element.get("solimp").split())
        s = sphere.states
        shape = (d_0 + (d_width - d_0) * np.clip(s.depth / width, 0, 1)) / d_width
        # Without slip: on the cone MuJoCo's normal force is raised by it.
        at_rest = np.where(s.depth > 0, np.clip(k * s.depth * shape**2 + c * shape * s.rate, 0, None), 0.0)
        off = difference(s.F_n, at_rest)
        assert stated(text, sphere.name)[0] == pytest.approx(off.most, rel=0.5)
        assert off.rms < 0.05 * off.peak  # Hunt-Crossley is not MuJoCo's, but not far either
        assert element.get("geom2") == sphere.name and float(element.get("friction").split()[0]) == pytest.approx(0.6)
    assert any("has no equivalent" in line for line in carry_stance("mujoco").errors)
    assert root.find("option").attrib["cone"] == "elliptic"


def test_spheres_without_load_are_left_out_where_nothing_is_near_to_them():
    idle = {"s4.z": 0.3}  # far above the ground
    fit = stance(**idle)
    assert "left out, since they carry no load in the fit: s4" in to_mujoco(fit).text
    assert 'geom2="s4"' not in to_mujoco(fit).text
    assert "floor s4" in to_opensim(fit).text  # our own law's numbers are known
    assert "floor s4" not in to_opensim(stance(m=2.0, **idle)).text
    with pytest.raises(InputError, match="nothing to convert"):
        to_mujoco(stance(**{f"s{i}.z": 0.3 for i in range(1, 10)}))


def test_a_mass_is_needed():
    with pytest.raises(InputError, match="above 0"):
        to_mujoco(stance(), mass=0.0)


# ---------------------------------------------------------------- words


def test_comments_are_comments():
    for text in ("a -- b", "ends in -", "--->", "<b>", "a bell \x07 and\nlines"):
        root = ElementTree.fromstring(f"<a>{comment(text)}</a>")
        assert len(root) == 0 and not (root.text or "").strip()
    for kind in ("hunt_crossley", "smooth_sphere", "mujoco"):
        errors = carry_stance(kind).errors
        assert all(comment(line) in carry_stance(kind).text for line in errors)
        assert f"over {FRAMES} frames of the fitted stance" in errors[0]


def test_differences_in_words():
    assert difference(np.array([0.0, 3.0]), np.array([1.0, -1.0])) == Difference(4.0, np.sqrt(8.5), 3.0)
    assert str(Difference(2.0, 1.0, 200.0)) == "max 2 N (1 % of the peak of 200 N), RMS 1 N (0.5 %)"
    assert str(Difference(0.0, 0.0, 200.0)) == "none beyond rounding (peak 200 N)"
    assert "ours is 0 everywhere" in str(Difference(2.0, 1.0, 0.0))
