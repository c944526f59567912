"""The impulsive solution of a strike: posture frozen, impulses and velocities by algebra (Crutch section 3)."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from jaxcontact.bodies import linkage
from jaxcontact.contact.impulse import NONE, critical_friction, evolve, solve_impact
from jaxcontact.integrate.machine import FINISHED, MOVING_UP, NON_FINITE, RUNNING, Machine
from jaxcontact.models.strike import (
    Strike,
    centre_start,
    grazing,
    lanes,
    respond,
    tables,
    tip_start,
    watched_velocities,
)


def machine(assemble: Callable[[Any], Strike]) -> Machine:
    """The impulsive impact as a machine that is done when it starts."""

    def finish(params, status):
        seen, regime, mu_c = _along(assemble(params), jnp.ones(()))
        seen |= {"t_end": seen["t"], "energy_loss": -(seen["W_n"] + seen["W_t"]), "mu_c": mu_c}
        # A mass matrix that is singular, or nearly so, gives no answer, or one that pulls.
        sound = seen["P_n"] >= 0
        for value in seen.values():
            sound = sound & jnp.isfinite(value)
        status = jnp.where((status == FINISHED) & ~sound, NON_FINITE, status)
        finished = status == FINISHED
        numbers = {name: jnp.where(finished, value, jnp.nan) for name, value in seen.items()}
        regime = jnp.where(finished, jnp.broadcast_to(regime, status.shape), NONE)
        return numbers | {"regime": regime, "status": status, "n_steps": jnp.zeros_like(status)}

    return Machine(
        init=lambda params: _status(assemble(params), params),
        step=lambda params, status: status,
        done=lambda status: status != RUNNING,
        finish=finish,
    )


def recorder(assemble: Callable[[Any], Strike], count: int) -> Machine:
    """Like `machine`, with the evolution along the normal impulse at `count` evenly spaced values of P_n (3.2)."""
    whole = machine(assemble)

    def finish(params, status):
        outcomes = whole.finish(params, status)
        fractions = jnp.linspace(0.0, 1.0, count).reshape(-1, *(1,) * status.ndim)
        seen, _, _ = _along(assemble(params), fractions)
        finished = outcomes["status"] == FINISHED
        curves = {
            name: jnp.where(finished, jnp.broadcast_to(value, (count, *status.shape)), jnp.nan)
            for name, value in seen.items()
        }
        return {"outcomes": outcomes, "curves": curves}

    return whole._replace(finish=finish)


def _status(strike: Strike, params):
    v_n = tip_start(strike, tables(strike)).v_n
    status = jnp.where(strike.status != RUNNING, strike.status, jnp.where(v_n > grazing(v_n), MOVING_UP, FINISHED))
    return jnp.broadcast_to(status, lanes(params, status))


def _along(strike: Strike, fraction):
    """Everything that can be seen at a fraction of the total normal impulse, the regime, and the critical friction."""
    table = tables(strike)
    sines, cosines = linkage.directions(strike.angles)
    tip = tip_start(strike, table)
    response, to_normal, to_tangential = respond(table, tip, sines, cosines)
    # Without approach there is nothing to stop: no impulse, and a state that would need one is reported by its status.
    strikes = tip.v_n < -grazing(tip.v_n)
    v_n = jnp.where(strikes, tip.v_n, 0.0)
    phases = solve_impact(response, v_n, tip.v_t, strike.contact["mu"])
    P_n = jnp.where(strikes, phases.total, 0.0) * fraction
    after = evolve(response, v_n, tip.v_t, phases, P_n)

    # Impulses back to velocities of the whole linkage (eq. 6).
    _, v_centre = centre_start(strike, table)
    v_centre = (v_centre[0] + after.P_t / table.mass, v_centre[1] + after.P_n / table.mass)
    rates = [
        rate + g_n * after.P_n + g_t * after.P_t
        for rate, g_n, g_t in zip(strike.rates, to_normal, to_tangential, strict=True)
    ]
    seen = {
        "t": jnp.zeros_like(P_n),
        "P_n": after.P_n,
        "P_t": after.P_t,
        "W_n": after.W_n,
        "W_t": after.W_t,
        "v_n_tip": after.v_n,
        "v_t_tip": after.v_t,
    }
    seen |= watched_velocities(strike, table, v_centre, rates, strike.angles)
    return seen, jnp.where(strikes, phases.regime, NONE), critical_friction(response)
