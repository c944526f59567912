"""A model of formulas for fits: each of its curves and outcomes asks another question, with a known answer."""

import jax.numpy as jnp
import numpy as np

from jaxcontact.integrate.machine import CANNOT_TOUCH, FINISHED, STATUS_NAMES, Machine
from jaxcontact.models.model import Model, Parameter, Quantity
from jaxcontact.study.fit import Problem, Unknown, make_channel

FRAMES = 21
TIMES = np.linspace(0.0, 1.0, FRAMES)  # s

PARAMETERS = (
    Parameter("slope", "N/s", 1.0, -100.0, 100.0, "of the line F_x", "made up"),
    Parameter("offset", "N", 0.0, -100.0, 100.0, "of the line F_x", "made up"),
    Parameter("stiffness", "N/m", 1000.0, 1.0, 1e6, "of F_z, with the root of the radius", "made up"),
    Parameter("radius", "m", 0.05, 0.001, 1.0, "of F_z", "made up"),
    Parameter("turn", "deg", 30.0, -90.0, 90.0, "an angle, stated in degrees", "made up"),
    Parameter("b1", "N", 500.0, 0.0, 1e4, "of Misra1a", "NIST"),
    Parameter("b2", "1/s", 1e-4, 1e-6, 1.0, "of Misra1a", "NIST"),
    Parameter("idle", "1", 1.0, 0.0, 2.0, "of nothing", "made up"),
    Parameter("limit", "N", 1e9, 0.0, 1e9, "a run whose slope is larger fails", "made up"),
)
OUTCOMES = (
    Quantity("impulse", "N s", "of F_x over the first second"),
    Quantity("F_z_peak", "N", "of F_z"),
    Quantity("valley", "1", "Rosenbrock: 10 (y - x^2)"),
    Quantity("gap", "1", "Rosenbrock: 1 - x"),
    Quantity("tangent", "1", "of the turn"),
    Quantity("status", "", "how the run ended", STATUS_NAMES),
    Quantity("n_steps", "", "none"),
)
CURVES = (
    Quantity("t", "s", "time"),
    Quantity("F_x", "N", "a line"),
    Quantity("F_z", "N", "a Hertz force"),
    Quantity("cop_x", "m", "a line, where F_z carries it"),
    Quantity("free_moment", "N m", "F_x with an arm of 0.1 m"),
    Quantity("misra", "N", "Misra1a, over 1000 times the time"),
)


def _machine(method, choices, settings):
    def init(params):
        return jnp.where(params["slope"] > params["limit"], CANNOT_TOUCH, FINISHED)

    def finish(params, status):
        x, y = params["slope"], params["offset"]
        found = {
            "impulse": y + x / 2,
            "F_z_peak": params["stiffness"] * jnp.sqrt(params["radius"]),
            "valley": 10 * (y - x**2),
            "gap": 1 - x,
            "tangent": jnp.tan(params["turn"]),
        }
        failed = status != FINISHED
        found = {name: jnp.where(failed, jnp.nan, value) for name, value in found.items()}
        return found | {"status": status, "n_steps": jnp.zeros_like(status)}

    return Machine(init, lambda params, status: status, lambda status: status == status, finish)


def _recorder(method, choices, settings, count):
    whole = _machine(method, choices, settings)

    def finish(params, status):
        t = jnp.linspace(0.0, 1.0, count).reshape((count,) + (1,) * status.ndim)
        F_x = params["offset"] + params["slope"] * t
        F_z = params["stiffness"] * jnp.sqrt(params["radius"]) * t**1.5
        curves = {
            "t": t,
            "F_x": F_x,
            "F_z": F_z,
            "cop_x": jnp.where(F_z > 20.0, 0.1 * t * params["slope"], jnp.nan),
            "free_moment": 0.1 * F_x,
            "misra": params["b1"] * (1 - jnp.exp(-params["b2"] * 1000 * t)),
        }
        shape = (count, *status.shape)
        return {
            "outcomes": whole.finish(params, status),
            "curves": {name: jnp.broadcast_to(value, shape) for name, value in curves.items()},
        }

    return whole._replace(finish=finish)


MODEL = Model(
    name="formulas",
    summary="formulas",
    source="made up",
    parameters=PARAMETERS,
    outcomes=OUTCOMES,
    curve_outcomes=CURVES,
    machine=_machine,
    recorder=_recorder,
    methods=("prescribed",),
)


def channel(name, values, sd, **options):
    """A channel: of an outcome for a number, of a curve at the frames for many, of times where those are given."""
    scalar = name in {quantity.name for quantity in OUTCOMES}
    kind = "outcome" if scalar else "time" if "times" in options else "frames"
    return make_channel(MODEL, name, kind, values, sd, **options)


def problem(unknowns, channels, **options):
    options.setdefault("points", FRAMES)
    return Problem.of_model(MODEL, unknowns=unknowns, channels=channels, **options)


# ---------------------------------------------------------------- problems with known answers

RNG = np.random.default_rng(5)
LINE_SD = 0.5
LINE = 3.0 + 7.0 * TIMES + LINE_SD * RNG.standard_normal(FRAMES)
SLOPE, OFFSET = Unknown("slope", -50.0, 50.0), Unknown("offset", -40.0, 60.0)
DESIGN = np.stack([TIMES, np.ones(FRAMES)], axis=1)  # d F_x / d (slope, offset)


def line(unknowns=(SLOPE, OFFSET), **options):
    """Linear least squares: a straight line."""
    return problem(unknowns, [channel("F_x", LINE, LINE_SD)], **options)


# NIST, Statistical Reference Datasets, Misra1a (Misra 1978): data, certified values, their sd, sum of squares.
MISRA_X = np.array(
    [77.6, 114.9, 141.1, 190.8, 239.9, 289.0, 332.8, 378.4, 434.8, 477.3, 536.8, 593.1, 689.1, 760.0]
)  # fmt: skip
MISRA_Y = np.array(
    [10.07, 14.73, 17.94, 23.93, 29.61, 35.18, 40.02, 44.82, 50.76, 55.05, 61.01, 66.40, 75.47, 81.78]
)  # fmt: skip
MISRA = {"b1": (2.3894212918e2, 2.7070075241e0), "b2": (5.5015643181e-4, 7.2668688436e-6)}
MISRA_SQUARES, MISRA_SD = 1.2455138894e-1, 1.0187876330e-1


def misra(points=2001):
    """At NIST's first starting values (500, 0.0001); points are so dense that interpolation does not show."""
    unknowns = (Unknown("b1", 10.0, 2000.0, start=500.0), Unknown("b2", 1e-5, 1e-2, "log", start=1e-4))
    return problem(unknowns, [channel("misra", MISRA_Y, MISRA_SD, times=MISRA_X / 1000)], points=points)


def rosenbrock():
    """Two residuals with their only root at slope = 1, offset = 1."""
    unknowns = (Unknown("slope", -3.0, 4.0, start=-1.2), Unknown("offset", -3.0, 4.0, start=1.0))
    return problem(unknowns, [channel("valley", 0.0, 1.0), channel("gap", 0.0, 1.0)])


def bowl(low=-50.0, high=50.0, **unknown):
    """A line through zero slope: its F_z part is left out."""
    return problem((Unknown("slope", low, high, **unknown),), [channel("F_x", LINE, LINE_SD)], fixed={"offset": 3.0})
