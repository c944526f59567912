"""Models that are formulas, with known shares of variance: Ishigami's function, Sobol's g-function, and some oddities.

Nothing is integrated: a run takes one step. Runs may fail where a formula says so; what they bring back is then NaN.
"""

from collections.abc import Callable, Mapping

import jax.numpy as jnp
import numpy as np

from jaxcontact.integrate.machine import CANNOT_TOUCH, FINISHED, STATUS_NAMES, Machine
from jaxcontact.models.model import Model, Parameter, Quantity
from jaxcontact.study import study
from jaxcontact.study.definition import Study

Formula = Callable[[Mapping], object]  # of named numbers, arrays over lanes

A, B = 7.0, 0.1  # of Ishigami's function, as in SALib
ISHIGAMI_RANGE = {f"x{i}": {"from": -np.pi, "to": np.pi} for i in (1, 2, 3)}
G = (0.0, 1.0, 4.5, 9.0)  # of the g-function: from all-important to hardly
G_RANGE = {f"x{i}": {"from": 0.0, "to": 1.0} for i in range(1, 1 + len(G))}


def formula_model(
    name: str,
    parameters: tuple[Parameter, ...],
    outcomes: Mapping[str, Formula],
    curves: Mapping[str, Callable] | None = None,
    fails: Formula = lambda p: False,
) -> Model:
    """A model whose outcomes are formula(params) and whose curves are formula(params, fraction of the run)."""
    curves = curves or {}

    def machine(method, choices, settings):
        def init(params):
            return sum(jnp.asarray(value) * 0 for value in params.values())

        def finish(params, state):
            failed = state * 0 + jnp.asarray(fails(params), float) > 0
            status = jnp.where(failed, CANNOT_TOUCH, FINISHED)
            found = {key: jnp.where(failed, jnp.nan, formula(params)) for key, formula in outcomes.items()}
            return found | {"status": status, "n_steps": jnp.ones_like(status)}

        return Machine(init, lambda params, state: state + 1, lambda state: state > 0, finish)

    def recorder(method, choices, settings, count):
        whole = machine(method, choices, settings)

        def finish(params, state):
            part = jnp.linspace(0, 1, count).reshape((count,) + (1,) * state.ndim)
            shape = (count, *state.shape)
            found = {key: jnp.broadcast_to(formula(params, part), shape) for key, formula in curves.items()}
            return {"outcomes": whole.finish(params, state), "curves": found}

        return whole._replace(finish=finish)

    return Model(
        name=name,
        summary="a formula",
        source="made up",
        parameters=parameters,
        outcomes=(
            *(Quantity(key, "N", f"formula {key}") for key in outcomes),
            Quantity("status", "", "how the run ended", STATUS_NAMES),
            Quantity("n_steps", "", "steps"),
        ),
        curve_outcomes=tuple(Quantity(key, "s" if key == "t" else "N", f"curve {key}") for key in curves),
        machine=machine,
        recorder=recorder,
        methods=("formula",),
    )


def numbers(*names: str, low: float, high: float, default: float) -> tuple[Parameter, ...]:
    return tuple(Parameter(name, "", default, low, high, f"number {name}", "made up") for name in names)


# ---------------------------------------------------------------- Ishigami and Homma (1990)


def ishigami(p, a=A):
    return jnp.sin(p["x1"]) + a * jnp.sin(p["x2"]) ** 2 + B * p["x3"] ** 4 * jnp.sin(p["x1"])


def ishigami_model(fails: Formula = lambda p: False) -> Model:
    """Outcomes: the function, a constant, one that is not a number for x3 > 3; a curve whose `a` grows with time."""
    return formula_model(
        "ishigami",
        numbers("x1", "x2", "x3", low=-4.0, high=4.0, default=0.5),
        {
            "f": ishigami,
            "still": lambda p: 3.0 + 0 * p["x1"],
            "partly": lambda p: jnp.where(p["x3"] > 3.0, jnp.nan, ishigami(p)),
        },
        {
            "t": lambda p, part: 2.0 * part,
            "F": lambda p, part: part * ishigami(p, A * part),
        },
        fails,
    )


def ishigami_variances(a=A) -> dict[str, np.ndarray | float]:
    """Shares by integration: f = sin x1 (1 + b x3^4) + a sin^2 x2, all x uniform on -pi ... pi."""
    a = np.asarray(a, float)
    one = 0.5 * (1 + B * np.pi**4 / 5) ** 2 + 0 * a
    two = a**2 / 8
    pair = B**2 * np.pi**8 * (1 / 18 - 1 / 50) + 0 * a
    total = one + two + pair
    return {
        "V": total,
        "S1": np.array([one, two, 0 * a]) / total,
        "ST": np.array([one + pair, two, pair]) / total,
        "S13": pair / total,
        # Mean squares of the derivatives cos x1 (1 + b x3^4), a sin 2 x2, 4 b x3^3 sin x1.
        "nu": np.array(
            [
                0.5 * (1 + 2 * B * np.pi**4 / 5 + B**2 * np.pi**8 / 9) + 0 * a,
                a**2 / 2,
                8 * B**2 * np.pi**6 / 7 + 0 * a,
            ]
        ),
    }


# ---------------------------------------------------------------- Saltelli and Sobol (1995)


def g_model() -> Model:
    def g(p):
        value = 1.0
        for i, a in enumerate(G, 1):
            value = value * (jnp.abs(4 * p[f"x{i}"] - 2) + a) / (1 + a)
        return value

    names = tuple(f"x{i}" for i in range(1, 1 + len(G)))
    return formula_model("g", numbers(*names, low=0.0, high=1.0, default=0.3), {"g": g})


def g_variances() -> dict[str, np.ndarray]:
    """A product of independent factors of mean 1 and variances V_i: so is the second moment."""
    one = 1 / (3 * (1 + np.array(G)) ** 2)
    rest = np.prod(1 + one) / (1 + one)
    total = np.prod(1 + one) - 1
    return {
        "V": total,
        "S1": one / total,
        "ST": one * rest / total,
        "S2": np.outer(one, one) / total,
        "nu": 16 / (1 + np.array(G)) ** 2 * rest,
    }


# ---------------------------------------------------------------- as studies; made once, so that they compile once

ISHIGAMI, G_FUNCTION = ishigami_model(), g_model()
FAILING = ishigami_model(fails=lambda p: p["x1"] > 2.9)
_NAMES = {"ishigami": ["x1", "x2", "x3"], "g": ["x1", "x2", "x3", "x4"]}
PROBLEMS = {key: {"num_vars": len(n), "names": n, "bounds": [[0.0, 1.0]] * len(n)} for key, n in _NAMES.items()}


def design(model: Model, vary: Mapping, count: int, method: str = "saltelli", **more) -> Study:
    return study(model, vary=vary, sample={"count": count, "method": method, **more})
