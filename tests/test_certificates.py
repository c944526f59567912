"""Certificates: they pass what is right, refuse what is wrong, and tell a kink from a mistake.

The model is a mass on a spring that hits the floor: y'' = -(y - rest), let go at rest + swing, bouncing with a
restitution, looked at when the time is `until`. Everything has a closed form until the second bounce, and it has the
places where derivatives do not exist: it grazes where swing = rest, and it may bounce just when one looks.
"""

import json
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.lax import stop_gradient

import jaxcontact.models
from jaxcontact import cli
from jaxcontact.errors import InputError, unknown
from jaxcontact.integrate import hybrid
from jaxcontact.integrate.machine import FINISHED, MOVING_UP, RUNNING, STATUS_NAMES, Machine
from jaxcontact.models.model import Model, Parameter, Quantity
from jaxcontact.study.certificates import judge, ladder, report
from jaxcontact.study.certificates.certify import certify
from jaxcontact.study.certificates.differences import FINER, STEPS
from jaxcontact.study.certificates.draw import ROOM, draw, range_of

PARAMETERS = (
    Parameter("rest", "m", 1.0, 0.0, 10.0, "height at which the spring is at rest", "made up"),
    Parameter("swing", "m", 1.5, -1.0, 10.0, "how much higher the mass is let go", "made up"),
    Parameter("restitution", "1", 0.7, 0.0, 1.0, "speed after a bounce over that before", "made up"),
    Parameter("until", "s", 3.5, 0.0, 100.0, "when one looks", "made up"),
    Parameter("colour", "1", 0.3, 0.0, 1.0, "nothing depends on it", "made up"),
)
OUTCOMES = (
    Quantity("height", "m", "height of the mass"),
    Quantity("velocity", "m/s", "velocity of the mass, positive up"),
    Quantity("fold", "m", "how far the swing is from 1.4 m"),
    Quantity("status", "1", "how the run ended", STATUS_NAMES),
    Quantity("n_steps", "1", "steps"),
)


def bouncer(kind: str) -> Model:
    """The model; kind "frozen" loses the derivative of the event's moment, "slightly_off" is off by 1e-4 after it."""

    def flow(params, t, _mode, y):
        return jnp.stack([y[1], params["rest"] - y[0]]), jnp.stack([y[0], params["until"] - t])

    def guards(_params, _mode, signals):
        return stop_gradient(signals) if kind == "frozen" else signals

    def transition(params, _t, mode, event, y, _signals):
        bounced = jnp.stack([jnp.zeros_like(y[0]), -params["restitution"] * y[1]])
        if kind == "slightly_off":
            bounced = bounced + 1e-4 * (bounced - stop_gradient(bounced))
        return mode, jnp.where(event == 0, bounced, y), event == 1

    system = hybrid.HybridSystem(flow, guards, transition, boundary=(True, True), positions=1)

    def machine(_method, _choices, settings):
        def init(params):
            rest, swing, *_ = jnp.broadcast_arrays(*(jnp.asarray(params[p.name]) for p in PARAMETERS))
            status = jnp.where(swing < 0, MOVING_UP, RUNNING)
            return hybrid.start(system, settings, params, 0.0, 0, jnp.stack([rest + swing, 0.0 * rest]), status)

        def finish(params, state):
            seen = {"height": state.y[0], "velocity": state.y[1], "fold": jnp.abs(params["swing"] - 1.4) + 0 * state.t}
            found = {name: jnp.where(state.status == FINISHED, value, jnp.nan) for name, value in seen.items()}
            return found | {"status": state.status, "n_steps": state.steps}

        def step(params, state):
            return hybrid.advance(system, settings, params, state)[0]

        return Machine(init, step, hybrid.done, finish)

    def refuse(*_):
        raise NotImplementedError

    return Model("bouncer", "a mass bounces", "made up", PARAMETERS, OUTCOMES, (), machine, refuse, ("compliant",))


@cache
def model(kind: str) -> Model:
    return bouncer(kind)


def at(**numbers) -> dict[str, np.ndarray]:
    """Configurations with these numbers, the rest at its default."""
    columns = {p.name: numbers.get(p.name, p.default) for p in PARAMETERS}
    return dict(zip(columns, np.broadcast_arrays(*map(np.atleast_1d, columns.values())), strict=True))


def first_bounce(rest, swing):
    return jnp.arccos(-rest / swing)


def closed_form(p):
    """Height and velocity after one bounce."""
    bounce = first_bounce(p["rest"], p["swing"])
    upward, since = p["restitution"] * p["swing"] * jnp.sin(bounce), p["until"] - bounce
    height = p["rest"] - p["rest"] * jnp.cos(since) + upward * jnp.sin(since)
    return jnp.stack([height, p["rest"] * jnp.sin(since) + upward * jnp.cos(since)])


@cache
def at_random():
    return certify(model("right"), count=12, seed=3)


def test_a_right_model_holds_and_its_derivatives_are_those_of_the_closed_form():
    c = at_random()
    assert c.holds and c.errors().max() < 1e-7, report.text(c)
    assert c.met == {"touch-downs": pytest.approx(0), "lift-offs": pytest.approx(0)}  # it has one mode only
    assert np.all(c.events == 2)  # a bounce, and the end
    slopes = jax.vmap(jax.jacfwd(closed_form), -1)({k: jnp.asarray(v) for k, v in c.params.items()})
    rows = [c.outcomes.index(name) for name in ("height", "velocity")]
    for i, leaf in enumerate(c.leaves):
        size = np.maximum(np.abs(c.params[leaf]), 0.5 * (range_of(PARAMETERS[i]).high - range_of(PARAMETERS[i]).low))
        np.testing.assert_allclose(c.exact[rows, i], slopes[leaf].T * size, atol=1e-9)
        np.testing.assert_allclose(c.verdict.difference[rows, i], slopes[leaf].T * size, atol=1e-6)


def test_a_leaf_without_effect_is_named_and_counts_for_nothing():
    c = at_random()
    assert c.unused == ("colour",)
    assert c.errors().size == np.sum(c.verdict.kind[:, :4] == judge.RESOLVED)
    assert "unused, with derivatives of exactly 0: colour" in report.text(c)


@pytest.mark.parametrize("kind", ["frozen", "slightly_off"])
def test_a_wrong_derivative_is_refused(kind):
    c = certify(model(kind), count=6, seed=3, outcomes=["height", "velocity"])
    assert not c.holds and "DOES NOT HOLD" in report.text(c)
    by = {leaf: c.verdict.wrong[:, i] for i, leaf in enumerate(c.leaves)}
    assert min(by["rest"].mean(), by["swing"].mean()) > 0.8  # they move the bounce
    assert not by["colour"].any()
    if kind == "slightly_off":  # a small mistake is told by its size
        assert 1e-5 < np.median(c.verdict.error[:, :2]) < 2e-3
        assert certify(model(kind), params=c.params, limit=0.05).holds


def test_grazing_is_a_kink_and_the_derivative_is_that_of_the_side_without_a_bounce():
    c = certify(model("right"), params=at(swing=1 - 1e-7, rest=1.0), outcomes=["height", "velocity"])
    assert c.holds
    kinks = {kink["leaf"]: kink for kink in report.kinks(c)}
    assert set(kinks) == {"swing", "rest"}
    for kink in kinks.values():
        assert kink["why"].startswith("events come, go") and not kink["unchecked"]
        assert 1e-7 < kink["within"] <= 2 * FINER[-1]
    # It swings on: height = rest + swing cos(until).
    np.testing.assert_allclose(c.verdict.difference[0, 1, 0], (1 - 1e-7) * np.cos(3.5), rtol=1e-6)
    assert "kinks: 2 pairs" in report.text(c) and "2 agree with the side on which events stay" in report.text(c)


def test_a_bounce_exactly_at_the_end_is_a_kink_by_all_that_moves_it():
    bounce = float(first_bounce(1.0, 1.5))
    just_after, long_before = bounce * (1 + 1e-9), bounce * (1 - 1e-3)
    c = certify(model("right"), params=at(until=np.array([just_after, long_before])), outcomes=["velocity"])
    assert c.holds
    assert {(kink["leaf"], kink["configuration"]) for kink in report.kinks(c)} == {
        ("rest", 0), ("swing", 0), ("until", 0)
    }  # fmt: skip
    by_restitution = c.leaves.index("restitution")  # it does not move the bounce
    assert c.verdict.kind[0, by_restitution, 0] == judge.RESOLVED


def test_a_wrong_derivative_is_refused_at_a_kink_too():
    bounce = float(first_bounce(1.0, 1.5))
    c = certify(model("frozen"), params=at(until=bounce * (1 + 1e-9)), outcomes=["height", "velocity"])
    swing = c.leaves.index("swing")
    assert (c.verdict.kind[:, swing] == judge.KINK).all() and c.verdict.wrong[:, swing].any() and not c.holds


def test_an_outcome_that_folds_without_an_event_is_a_kink():
    c = certify(model("right"), params=at(swing=np.array([1.4, 1.4 * (1 + 1e-8), 1.45])), outcomes=["fold"])
    swing = c.leaves.index("swing")
    assert c.holds
    assert c.verdict.kind[0, swing].tolist() == [judge.KINK, judge.KINK, judge.RESOLVED]
    assert {kink["why"] for kink in report.kinks(c)} == {"an outcome bends without an event"}


def test_what_does_not_finish_is_counted_and_a_certificate_of_nothing_does_not_hold():
    some = certify(model("right"), params=at(swing=np.array([-0.5, 1.5])), outcomes=["height"])
    assert some.holds and some.failed == {"moving_up": 1} and some.numbers.tolist() == [1]
    none = certify(model("right"), params=at(swing=np.array([-0.5, -0.6])), outcomes=["height"])
    assert not none.holds and "no configuration finished" in report.text(none)


# ---------------------------------------------------------------- parts of it


def slopes_of(*functions):
    """Differences on the whole ladder, of one outcome that is another function of the relative change of each leaf."""
    steps = np.concatenate([STEPS, FINER])
    plus, minus = (np.stack([f(way * steps) for f in functions], axis=1)[:, None, :, None] for way in (1, -1))
    same = np.ones((len(steps), len(functions), 1), bool)
    assert len({float(f(np.zeros(()))) for f in functions}) == 1  # they meet where nothing is changed
    return judge.difference(judge.Sides(steps, functions[0](np.zeros((1, 1))), plus, minus, same, same))


def test_the_ladder_finds_the_plateau_between_bending_and_noise():
    rng = np.random.default_rng(0)

    def noisy(x):
        return np.exp(5 * np.asarray(x)) + 1e-12 * rng.standard_normal(np.shape(x))

    steps = np.concatenate([STEPS, FINER])
    found = ladder.central(steps, noisy(steps), noisy(-steps), np.ones(len(steps), bool))
    assert abs(found.value - 5) < 1e-6
    assert found.uncertainty < 1e-6
    coarsest, finest = ((noisy(h) - noisy(-h)) / (2 * h) - 5 for h in (steps[0], steps[-1]))
    assert abs(found.value - 5) < min(abs(coarsest), abs(finest))


def test_an_uncertainty_covers_the_error_at_nearly_all_times():
    rng = np.random.default_rng(1)
    steps = np.concatenate([STEPS, FINER])[:, None]
    rates, noise = rng.uniform(-20, 20, 2000), 10 ** rng.uniform(-14, -8, 2000)

    def noisy(x):
        return np.sin(1 + rates * x) + noise * rng.standard_normal((len(steps), 2000))

    found = ladder.central(steps[:, 0], noisy(steps), noisy(-steps), np.ones((len(steps), 2000), bool))
    covered = np.abs(found.value - rates * np.cos(1)) <= judge.ALLOWANCE * found.uncertainty + 1e-9
    assert covered.mean() > 0.97


def test_a_rung_counts_only_if_all_smaller_ones_do():
    same = np.array([True, False, True, True])
    assert ladder.usable(same).tolist() == [False, False, True, True]


@pytest.mark.parametrize(
    ("exact", "kind", "wrong", "unchecked"),
    [(1.0, judge.KINK, False, False), (-1.0, judge.KINK, False, False), (0.0, judge.KINK, False, True),
     (1.5, judge.UNRESOLVED, True, False), (-1.001, judge.UNRESOLVED, True, False)],
)  # fmt: skip
def test_at_the_tip_of_a_fold_a_derivative_has_to_lie_between_the_sides(exact, kind, wrong, unchecked):
    verdict = judge.judge(np.full((1, 1, 1), exact), slopes_of(np.abs), 1e-5)
    assert verdict.wrong.item() is wrong
    assert verdict.unchecked.item() is unchecked
    if not wrong:
        assert verdict.kind.item() == kind


def test_a_smooth_bend_is_no_kink():
    found = slopes_of(lambda x: np.sin(300 * np.asarray(x)))
    for exact, wrong in ((300.0, False), (300.1, True), (0.0, True)):
        verdict = judge.judge(np.full((1, 1, 1), exact), found, 1e-5)
        assert verdict.wrong.item() is wrong and verdict.kind.item() != judge.KINK


def test_a_difference_that_is_far_too_large_excuses_no_other_derivative():
    """A jump beside one leaf must not become the measure of all."""
    found = slopes_of(lambda x: 1.0 * x, lambda x: 1.0 * x)
    found.central.value[0, 1] = 1e9
    verdict = judge.judge(np.array([[[1.01], [1.0]]]), found, 1e-5)
    assert verdict.wrong.ravel().tolist() == [True, True]
    np.testing.assert_allclose(verdict.error[0, 0, 0], 0.01, rtol=1e-6)


def test_an_outcome_that_is_zero_but_for_rounding_is_measured_by_its_peers():
    """As the velocity of a tip that sticks, among velocities; alone, nobody could tell rounding from a derivative."""
    found, exact = slopes_of(lambda x: 1e-17 * x), np.full((1, 1, 1), 3e-17)
    assert judge.judge(exact, found, 1e-5, ["m/s"]).wrong.item()
    plus, minus = (np.stack([way * STEPS, 1e-17 * way * STEPS], axis=1)[:, :, None, None] for way in (1, -1))
    same = np.ones((len(STEPS), 1, 1), bool)
    both = judge.difference(judge.Sides(STEPS, np.zeros((2, 1)), plus, minus, same, same))
    exact = np.array([1.0, 3e-17])[:, None, None]
    assert judge.judge(exact, both, 1e-5, ["m/s", "m/s"]).kind.ravel().tolist() == [judge.RESOLVED, judge.NEARLY_ZERO]
    assert judge.judge(exact, both, 1e-5, ["m/s", "J"]).wrong.ravel().tolist() == [False, True]


@pytest.mark.parametrize(
    ("function", "exact", "kind", "wrong"),
    [
        (lambda x: np.sin(2 * x), 2.0, judge.RESOLVED, False),
        (lambda x: np.sin(2 * x), 2.001, judge.RESOLVED, True),
        (lambda x: np.abs(x) + 0.3 * x, 1.3, judge.KINK, False),
        (lambda x: np.sign(x), 0.0, judge.KINK, False),
    ],
)
def test_events_that_leave_no_trace_make_no_kink(function, exact, kind, wrong):
    """Two events at one moment: rounding decides which counts, and no step has the same history."""
    steps = np.concatenate([STEPS, FINER])
    plus, minus = (function(way * steps)[:, None, None, None] for way in (1, -1))
    never = np.zeros((len(steps), 1, 1), bool)
    sides = judge.Sides(steps, np.zeros((1, 1)), plus, minus, never, never)
    verdict = judge.judge(np.full((1, 1, 1), exact), judge.difference(sides), 1e-5)
    assert verdict.kind.item() == kind and verdict.wrong.item() is wrong


def test_a_derivative_of_zero_is_not_excused_by_a_difference_that_tells_nothing():
    rng = np.random.default_rng(2)
    found = slopes_of(lambda x: 1.0 * x, lambda x: np.where(x == 0, 0.0, 1e-4 * rng.standard_normal(np.shape(x))))
    verdict = judge.judge(np.array([[[1.0], [0.0]]]), found, 1e-5)
    assert verdict.kind.ravel().tolist() == [judge.RESOLVED, judge.UNRESOLVED]


def test_draws_stay_inside_the_bounds_and_a_seed_means_the_same():
    for name in ("crutch", "compass", "foot_space", "rollover", "stance"):
        real = jaxcontact.models.get_model(name)
        drawn = draw(real, 50, 1)
        for p in real.parameters:
            low, high, _ = range_of(p)
            assert p.low < low < high < p.high or p.low == p.high, (name, p.name)
            room = 0.9 * ROOM * max(abs(p.default), 0.5 * (high - low))
            assert np.all((drawn[p.name] / p.si >= p.low + room) & (drawn[p.name] / p.si <= p.high - room)), p.name
        assert all(np.array_equal(drawn[name], again) for name, again in draw(real, 50, 1).items())


# ---------------------------------------------------------------- the command


@pytest.fixture
def commands(monkeypatch, tmp_path):
    def get_model(name):
        kinds = {"bouncer": "right", "wrong": "frozen"}
        if name not in kinds:
            raise unknown("model", name, kinds)
        return model(kinds[name])

    monkeypatch.setattr(jaxcontact.models, "get_model", get_model)
    monkeypatch.setattr("jaxcontact.cli.certifying.prepare_jax", lambda: None)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_command_prints_and_saves_a_certificate(commands, capsys):
    out = commands / "certificate.json"
    assert cli.main(["certify", "bouncer", "--count", "12", "--seed", "3", "--out", str(out)]) == 0
    printed, found = capsys.readouterr().out, json.loads(out.read_text())
    assert "the certificate holds" in printed and found["conclusion"] in printed
    assert found["holds"] and found["outcomes"]["height"]["quantiles"]["worst"] <= 1e-5
    assert found["outcomes"]["height"]["resolved"] == 48
    np.testing.assert_array_equal(
        [found["configurations"][str(i)]["swing"] for i in range(12)], at_random().params["swing"]
    )


def test_the_command_ends_with_code_1_where_a_certificate_does_not_hold(commands, capsys):
    assert cli.main(["certify", "wrong", "--count", "6", "--outcomes", "height,velocity", "--seed", "3"]) == 1
    captured = capsys.readouterr()
    assert "THE CERTIFICATE DOES NOT HOLD" in captured.out and "Traceback" not in captured.err
    assert "WRONG d " in captured.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ball"], "unknown model 'ball'"),
        (["bouncer", "--method", "impulsiv"], "unknown method 'impulsiv'"),
        (["bouncer", "--law", "friction"], "NAME=CHOICE is needed"),
        (["bouncer", "--law", "friction=coulomb"], "unknown law 'friction'"),
        (["bouncer", "--by", "swin"], "Did you mean 'swing'?"),
        (["bouncer", "--outcomes", "status"], "unknown outcome 'status'"),
        (["bouncer", "--outcomes", "n_steps", "--count", "12"], "outcome 'n_steps' has no derivative"),
        (["bouncer", "--count", "0"], "count 0: at least 1"),
        (["bouncer", "--seed", "-1"], "--seed -1"),
        (["bouncer", "--rtol", "0"], "rtol 0: a number from"),
        (["bouncer", "--limit", "nan"], "limit nan: a number between"),
        (["bouncer", "--out", "nowhere/c.json"], "there is no directory nowhere"),
        ([], "the following arguments are required: MODEL"),
    ],
)
def test_bad_input_is_said_in_words(commands, capsys, words, said):
    assert cli.main(["certify", *words]) == 2
    captured = capsys.readouterr()
    assert said in captured.err and captured.out == ""
    assert list(commands.iterdir()) == []


def test_single_precision_is_refused():
    jax.config.update("jax_enable_x64", False)
    try:
        with pytest.raises(InputError, match="needs float64"):
            certify(model("right"), count=1)
    finally:
        jax.config.update("jax_enable_x64", True)


# ---------------------------------------------------------------- the models themselves


CERTIFIED = {
    "crutch": ("crutch", {}, 16, ()),
    "crutch, a tangential spring": ("crutch", {"normal": "kelvin_voigt", "friction": "tangential_compliance"}, 8, ()),
    "foot": ("foot", {}, 8, ("knee", "k", "mu", "foot.mass", "s3.radius")),
    "rollover": ("rollover", {}, 8, ("leg", "ankle.flat", "surface.tilt", "body.mass", "mu", "foot.rate")),
    "stance": ("stance", {}, 8, ()),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CERTIFIED)
def test_a_model_has_its_certificate(case):
    name, laws, count, by = CERTIFIED[case]
    c = certify(jaxcontact.models.get_model(name), laws=laws, count=count, by=by)
    assert c.holds and c.errors().max() <= 1e-5 and c.compared > 0.95, report.text(c)
    met = {kind for kind, counts in c.met.items() if counts.any()}
    if case == "crutch":
        assert {"sliding turned into sticking", "sliding turned back"} <= met
        assert {"sliding_sticking", "permanent_sliding", "sliding_reversal"} <= set(c.regimes)
    if case == "foot":
        assert {"touch-downs", "lift-offs"} <= met
    if case == "rollover":
        assert met == set(c.met)
