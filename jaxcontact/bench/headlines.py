"""What the papers say of their models' speed, measured on the same runs as the studies of those papers.

Rolling: a rolling surface against spheres through a stance. Lopes Table 2: ellipsoids against points.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxcontact.bench.rows import Part, Row, Tell, silent
from jaxcontact.bench.timing import take_turns
from jaxcontact.integrate.machine import simulate
from jaxcontact.integrate.settings import Settings
from jaxcontact.models.model import Model, default_params
from jaxcontact.study.named import load_named

LANES, ROUNDS, SHORT_LANES = 128, 5, 2
SHORT_RTOL = 1e-3


def measure_headlines(tell: Tell = silent, *, short: bool = False) -> Part:
    """The part `headlines` of the table."""
    rolling, lopes = load_named("rolling_spheres"), load_named("ellipsoids_points")
    lanes = SHORT_LANES if short else LANES
    rtols = (SHORT_RTOL,) if short else rolling.TOLERANCES
    lopes_rtol = SHORT_RTOL if short else lopes.TOLERANCES[0]
    runs = {method: _compiled(rolling.ROLLOVER, method, {}, lanes) for method in ("rolling", "spheres")}
    forward = {name: _compiled(model, "spheres", lopes.SHOE, lanes) for name, model in lopes.FORWARD.items()}
    frames = {name: _compiled(model, "prescribed", lopes.SHOE, lanes) for name, model in lopes.PRESCRIBED.items()}
    ways: dict[Any, Callable[[], Any]] = {
        (method, rtol): lambda run=run, rtol=rtol: run(rtol) for rtol in rtols for method, run in runs.items()
    }
    ways |= {("forward", name): lambda run=run: run(lopes_rtol) for name, run in forward.items()}
    ways |= {("forces", name): lambda run=run: run(lopes_rtol) for name, run in frames.items()}
    timed = take_turns(ways, 1 if short else ROUNDS, tell)

    rows = []
    for rtol in rtols:
        one, other = timed["rolling", rtol], timed["spheres", rtol]
        ends = [float(run.found["t_end"][0]) for run in (one, other)]
        steps = [int(run.found["n_steps"][0]) for run in (one, other)]
        rows.append(
            Row(
                f"spheres over a rolling surface, stance, rtol {rtol:.0e}",
                other.seconds / one.seconds,
                f"three spheres, same ankle drive: {steps[1]:,} steps, {steps[0]:,} rolling; the paper finds "
                f"{rolling.PAPER:.0f}",
                f"stance ends {abs(ends[1] / ends[0] - 1):.1%} apart",
            )
        )
    points, ellipsoids = (timed["forward", name] for name in lopes.LAYOUTS)
    steps = [float(run.found["mean_step"][0]) for run in (points, ellipsoids)]
    frame = [timed["forces", name].seconds for name in lopes.LAYOUTS]
    printed_time, printed_step = (list(of.values()) for of in (lopes.PRINTED_TIME, lopes.PRINTED_STEP))
    rows += [
        Row(
            f"31 points over 6 ellipsoids, a run at rtol {lopes_rtol:.0e}",
            points.seconds / ellipsoids.seconds,
            f"same shoe law; Lopes Table 2: {printed_time[0] / printed_time[1]:.2f}",
        ),
        Row(
            "mean step on ellipsoids over that on points",
            steps[1] / steps[0],
            f"{1e3 * steps[0]:.3f} ms on points; Lopes Table 2: {printed_step[1] / printed_step[0]:.2f}",
        ),
        Row(
            "31 points over 6 ellipsoids, forces of a motion",
            frame[0] / frame[1],
            "the same prescribed motion",
        ),
    ]
    numbers = {f"{what}, {which}": one.seconds / lanes for (what, which), one in timed.items()}
    return Part(
        "headlines",
        f"time of one model over another's under the same foot, {lanes} lanes together",
        tuple(rows),
        {"seconds of a lane": numbers, "mean step (s)": dict(zip(lopes.LAYOUTS, steps, strict=True))},
    )


def _compiled(model: Model, method: str, laws: dict[str, str], lanes: int) -> Callable[[float], Any]:
    """A function from a tolerance to the outcomes of so many equal lanes."""
    choices = {name: allowed[0] for name, allowed in model.choices.items()} | laws
    params = {name: jnp.full(lanes, value) for name, value in default_params(model).items()}
    run = jax.jit(lambda params, settings: simulate(model.machine(method, choices, settings), params))
    return lambda rtol: jax.block_until_ready(run(params, Settings(rtol=rtol, atol=1e-2 * rtol)))
