"""Which events a run went through: a machine that also counts them and keeps a checksum of its sequence of modes.

Two runs with the same checksum met the same events in the same order, so outcomes are smooth between them. Where the
checksums of neighbours differ, a touch-down, a reversal or a lift-off came or went in between: there an outcome may
have a kink or a jump, and a difference across it says nothing about a derivative.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxcontact.integrate.hybrid import HybridState
from jaxcontact.integrate.machine import RUNNING, Machine, Variation

# By name: mode before and after an event -> how many of that kind the event was, lane by lane.
Kinds = Mapping[str, Callable[[jax.Array, jax.Array], jax.Array]]

_PRIME, _SEED = 16777619, 2166136261  # of the hash FNV-1a (Fowler, Noll, Vo), 32 bits


class History(NamedTuple):
    """A machine's own state, and what its lanes have been through."""

    run: Any
    events: jax.Array  # landings on events so far
    checksum: jax.Array  # of the first mode and of the mode after each event, in their order
    met: dict[str, jax.Array]  # events so far, of each kind that was asked for


def with_history(machine: Machine, kinds: Kinds | None = None) -> Machine:
    """The same machine; finish adds whole numbers "events", "history" (the checksum) and those of each of `kinds`.

    A machine that integrates nothing has no events, and the same history in every lane.
    """
    counted = dict(kinds or {})

    def init(params):
        run = machine.init(params)
        found = hybrid_state(run)
        lanes = jnp.shape(machine.done(run))
        first = jnp.zeros(lanes, jnp.int32) if found is None else found.mode
        start = jnp.full(lanes, _SEED, jnp.uint32)
        none = jnp.zeros(lanes, jnp.int32)
        return History(run, none, _mixed(start, first), dict.fromkeys(counted, none))

    def with_step(state, run):
        """The history after a machine step that led to `run`."""
        before, after = hybrid_state(state.run), hybrid_state(run)
        if before is None or after is None:
            return state._replace(run=run)
        landed = before.landing & (before.status == RUNNING)
        checksum = jnp.where(landed, _mixed(state.checksum, after.mode), state.checksum)
        met = {
            name: state.met[name] + jnp.where(landed, count(before.mode, after.mode), 0).astype(jnp.int32)
            for name, count in counted.items()
        }
        return History(run, state.events + landed, checksum, met)

    def step(params, state):
        return with_step(state, machine.step(params, state.run))

    def bind(params):
        one = machine.bound(params)
        return lambda state: with_step(state, one(state.run))

    def finish(params, state):
        return {**machine.finish(params, state.run), "events": state.events, "history": state.checksum, **state.met}

    return Machine(
        init,
        step,
        lambda state: machine.done(state.run),
        finish,
        bind=bind,
        variation=_with_history(machine.variation, with_step) if machine.variation else None,
    )


def _with_history(inner: Variation, with_step: Callable[[History, Any], History]) -> Variation:
    """Derivatives go the machine's own way, and leave the history alone."""

    def step(prepared, prepared_slopes, state, slopes):
        run, slopes = inner.step(prepared, prepared_slopes, state.run, slopes)
        return with_step(state, run), slopes

    return Variation(
        applies=lambda state: inner.applies(state.run),
        part=lambda state: inner.part(state.run),
        restored=lambda params, state, part: state._replace(run=inner.restored(params, state.run, part)),
        prepare=inner.prepare,
        step=step,
    )


def hybrid_state(state: Any) -> HybridState | None:
    """Find where the lanes of a hybrid system are, in the state of any machine built on one; None if there is none."""
    parts = jax.tree.leaves(state, is_leaf=lambda part: isinstance(part, HybridState))
    return next((part for part in parts if isinstance(part, HybridState)), None)


def _mixed(checksum, mode):
    """The checksum with one mode more."""
    return (checksum ^ (mode.astype(jnp.uint32) + jnp.uint32(1))) * jnp.uint32(_PRIME)
