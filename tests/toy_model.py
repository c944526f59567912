"""A model with known answers: a ball dropped from a height. Its machine halves the height until it is below 1 mm."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import jax
import jax.numpy as jnp

from jaxcontact.integrate.machine import CANNOT_TOUCH, FINISHED, MOVING_UP, STATUS_NAMES, Machine
from jaxcontact.models.model import Model, Parameter, Quantity

PARAMETERS = (
    Parameter("angle", "deg", 30.0, 0.0, 90.0, "slope of the ground", "made up"),
    Parameter("height", "m", 2.0, 0.001, 100.0, "height of the drop", "made up"),
    Parameter("gravity", "m/s^2", 9.81, 0.1, 20.0, "gravity", "made up"),
    Parameter("ball.mass", "kg", 0.5, 0.01, 10.0, "mass of the ball", "made up"),
    Parameter("k_n", "N/m^1.5", 1e7, 1e3, 1e12, "stiffness", "made up"),
    Parameter("lift", "m/s", -1.0, -10.0, 10.0, "starting speed, upwards", "made up"),
)
OUTCOMES = (
    Quantity("t_fall", "s", "time of the fall"),
    Quantity("weight", "N", "weight of the ball"),
    Quantity("slope", "", "tangent of the slope"),
    Quantity("F_peak", "N", "largest force"),
    Quantity("regime", "", "what the ball does", ("sticks", "slides down")),
    Quantity("status", "", "how the run ended", STATUS_NAMES),
    Quantity("n_steps", "", "halvings"),
)
CURVES = (Quantity("t", "s", "time"), Quantity("y", "m", "height"), Quantity("weight", "N", "weight along the fall"))


@contextmanager
def double_precision(enabled: bool = True) -> Iterator[None]:
    """float64 or float32 for a while, whatever it was before."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", enabled)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", before)


def toy_model(seen: Callable[[dict], None] = lambda shapes: None) -> Model:
    """The toy. `seen` is told the shape of every parameter whenever the model is traced."""

    def machine(method, choices, settings):
        def init(params):
            seen({name: jnp.shape(value) for name, value in params.items()})
            height = jnp.asarray(params["height"]) + 0 * params["angle"]
            return height, jnp.zeros_like(height, dtype=int)

        def step(params, state):
            height, count = state
            going = height >= 1e-3
            return jnp.where(going, height / 2, height), count + going

        def finish(params, state):
            status = jnp.where(params["angle"] > jnp.deg2rad(80.0), CANNOT_TOUCH, FINISHED)
            status = jnp.where(jnp.asarray(params["lift"]) > 0, MOVING_UP, status)
            found = {
                "t_fall": jnp.sqrt(2 * params["height"] / params["gravity"]),
                "weight": params["ball.mass"] * params["gravity"],
                "slope": jnp.tan(params["angle"]),
                "regime": jnp.where(params["angle"] > jnp.deg2rad(45.0), 1, 0),
                "status": status,
                "n_steps": state[1],
            }
            return found | ({"F_peak": params["k_n"] * params["height"] ** 1.5} if method == "compliant" else {})

        return Machine(init, step, lambda state: state[0] < 1e-3, finish)

    def recorder(method, choices, settings, count):
        whole = machine(method, choices, settings)

        def finish(params, state):
            part = jnp.linspace(0, 1, count).reshape((count,) + (1,) * state[0].ndim)
            time = part * jnp.sqrt(2 * params["height"] / params["gravity"])
            weight = jnp.asarray(params["ball.mass"] * params["gravity"])
            curves = {"t": time, "y": params["height"] - params["gravity"] * time**2 / 2, "weight": weight}
            shape = (count, *state[0].shape)
            curves = {name: jnp.broadcast_to(value, shape) for name, value in curves.items()}
            return {"outcomes": whole.finish(params, state), "curves": curves}

        return whole._replace(finish=finish)

    return Model(
        name="toy",
        summary="a ball falls",
        source="Galilei 1638",
        parameters=PARAMETERS,
        outcomes=OUTCOMES,
        curve_outcomes=CURVES,
        machine=machine,
        recorder=recorder,
        choices={"normal": ("hertz", "linear"), "friction": ("coulomb", "none")},
    )
