"""A machine that carries derivatives along: the same steps, and beside each state its derivatives by some parameters.

Any driver of machines then gives sensitivities, in batches, without knowing it. The run itself is computed once for all
directions; derivatives through events are those of the machine (see `locate`), or of its `variation` where it has one.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jaxcontact.integrate.machine import Machine, lane_wide
from jaxcontact.lanewise import needed


def with_tangents(machine: Machine, names: Sequence[str]) -> Machine:
    """Return a machine whose finish gives {"values": results, "slopes": {...}}.

    `slopes` has the same structure as the results, each array with a leading axis over `names` (SI units); results
    that are whole numbers, such as codes, have no slope and are left out (None).
    """
    variation = machine.variation

    def carries(state) -> bool:
        """Whether derivatives of a part of the state are carried, or else of all its real numbers."""
        return variation is not None and variation.applies(state)

    def init(params):
        lanes = jnp.broadcast_shapes(*(jnp.shape(value) for value in params.values()))
        begin = lambda p: lane_wide(machine.init(p), lanes)  # noqa: E731
        if carries(jax.eval_shape(begin, params)):
            # Only what the part needs: the derivative of a flow that nobody asks for would be most of it.
            return begin(params), needed(lambda p: _push(lambda q: variation.part(begin(q)), p, names)[1], params)
        return _push(begin, params, names)

    def bind(params):
        prepared = _push(variation.prepare, params, names) if variation else None

        def step(state):
            if carries(state[0]):
                return variation.step(*prepared, *state)
            return _push(machine.step, params, names, state)

        return step

    def finish(params, state):
        lanes = machine.done(state[0]).shape
        if carries(state[0]):
            part = variation.part(state[0]), state[1]
            values, slopes = _push(
                lambda p, part: lane_wide(machine.finish(p, variation.restored(p, state[0], part)), lanes),
                *(params, names, part),
            )
        else:
            values, slopes = _push(lambda p, s: lane_wide(machine.finish(p, s), lanes), params, names, state)
        tree = jax.tree.structure(values)
        found = iter(slopes)
        return {
            "values": values,
            "slopes": tree.unflatten([next(found) if _is_real(leaf) else None for leaf in tree.flatten_up_to(values)]),
        }

    def scratch(state):  # derivatives start anew: one that was not finite, times a weight of zero, would spoil them
        return machine.scratch(state[0]), [False] * len(state[1])

    return Machine(
        init, lambda params, state: bind(params)(state), lambda state: machine.done(state[0]), finish, scratch, bind
    )


def _push(function: Callable, params: Any, names: Sequence[str], state: tuple[Any, list] | None = None):
    """Apply function(params) or function(params, state) and push derivatives through it: (value, its slopes)."""
    primal, slopes = state if state is not None else (None, [])
    tree = jax.tree.structure(primal)
    leaves = tree.flatten_up_to(primal)
    chosen = {name: jnp.asarray(params[name]) for name in names}
    kind = []  # the structure of what comes out, found while tracing

    def of_reals(chosen, reals):
        """The same function of real numbers only; whole numbers, and those of Python, go around the derivative."""
        rest = iter(reals)
        whole = tree.unflatten([next(rest) if _is_real(leaf) else leaf for leaf in leaves])
        arguments = ({**params, **chosen},) if state is None else ({**params, **chosen}, whole)
        flat, structure = jax.tree.flatten(function(*arguments))
        of_python = [isinstance(leaf, (bool, int, float)) for leaf in flat]
        kind[:] = [structure, of_python, flat]
        return [leaf for leaf, p in zip(flat, of_python, strict=True) if not p and _is_real(leaf)], [
            leaf for leaf, p in zip(flat, of_python, strict=True) if not p
        ]

    def along(direction, by_state):
        tangent = {name: jnp.full_like(chosen[name], direction[i]) for i, name in enumerate(names)}
        reals = [leaf for leaf in leaves if _is_real(leaf)]
        return jax.jvp(of_reals, (chosen, reals), (tangent, by_state), has_aux=True)

    directions = jnp.eye(len(names), dtype=jnp.result_type(float))
    _, slopes, arrays = jax.vmap(along, out_axes=(None, 0, None))(directions, slopes)
    structure, of_python, flat = kind
    rest = iter(arrays)
    return structure.unflatten([leaf if p else next(rest) for leaf, p in zip(flat, of_python, strict=True)]), slopes


def _is_real(leaf: Any) -> bool:
    return jnp.issubdtype(jnp.result_type(leaf), jnp.floating)
