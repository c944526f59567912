"""A machine that carries derivatives along: the same steps, and beside each state its derivatives by some parameters.

Any driver of machines then gives sensitivities, in batches, without knowing it. The run itself is computed once for all
directions; derivatives through events are those of the machine (see `locate`), or of its `variation` where it has one.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jaxcontact.integrate.machine import Machine, Variation, is_real_array, lane_wide
from jaxcontact.lanewise import changes_with, needed


def with_tangents(machine: Machine, names: Sequence[str]) -> Machine:
    """Return a machine whose finish gives {"values": results, "slopes": {...}}.

    `slopes` has the same structure as the results, each array with a leading axis over `names` (SI units); results
    that are whole numbers, such as codes, have no slope and are left out (None).
    """
    variation = machine.variation

    def own_way(state) -> Variation | None:
        """How derivatives of a part of the state are carried; None where they are those of all its real numbers."""
        return variation if variation is not None and variation.applies(state) else None

    def init(params):
        lanes = jnp.broadcast_shapes(*(jnp.shape(value) for value in params.values()))

        def begin(params):
            return lane_wide(machine.init(params), lanes)

        if variation is None:
            return _push(begin, params, names)
        state = begin(params)
        if not (own := own_way(state)):
            return _push(begin, params, names)
        # Only what the part needs: the derivative of a flow that nobody asks for would be most of it.
        return state, needed(lambda p: _push(lambda q: own.part(begin(q)), p, names)[1], params)

    def bind(params):
        prepared = _prepared(variation.prepare, params, names) if variation else None

        def step(state):
            if prepared and (own := own_way(state[0])):
                return own.step(*prepared, *state)
            return _push(machine.step, params, names, state)

        return step

    def finish(params, state):
        lanes = machine.done(state[0]).shape
        if own := own_way(state[0]):
            part = own.part(state[0]), state[1]
            values, slopes = _push(
                lambda p, part: lane_wide(machine.finish(p, own.restored(p, state[0], part)), lanes),
                *(params, names, part),
            )
        else:
            values, slopes = _push(lambda p, s: lane_wide(machine.finish(p, s), lanes), params, names, state)
        return {"values": values, "slopes": _like(values, slopes)}

    def scratch(state):  # derivatives start anew: one that was not finite, times a weight of zero, would spoil them
        return machine.scratch(state[0]), [False] * len(state[1])

    def alike(params):
        """States and results without their derivatives, which are half of the work to make them."""
        state = lane_wide(machine.init(params), (1,))
        values = lane_wide(machine.finish(params, state), (1,))

        def slopes_of(tree):
            return [jnp.zeros((len(names), *a.shape), a.dtype) for a in jax.tree.leaves(tree) if _is_real(a)]

        own = own_way(state)
        part = own.part(state) if own else state
        return (state, slopes_of(part)), {"values": values, "slopes": _like(values, slopes_of(values))}

    return Machine(
        init,
        lambda params, state: bind(params)(state),
        lambda state: machine.done(state[0]),
        finish,
        scratch,
        bind,
        alike=alike,
    )


def _like(values: Any, slopes: list[Any]) -> Any:
    """The slopes in the structure of the values; None for whole numbers."""
    tree, found = jax.tree.structure(values), iter(slopes)
    return tree.unflatten([next(found) if _is_real(leaf) else None for leaf in tree.flatten_up_to(values)])


def _prepared(prepare: Callable, params: Any, names: Sequence[str]) -> tuple[Any, list[Any]]:
    """What is prepared, and its slopes: None for real arrays that depend on none of the parameters."""
    prepared, slopes = _push(prepare, params, names)

    def reals(chosen):
        return [leaf for leaf in jax.tree.leaves(prepare({**params, **chosen})) if is_real_array(leaf)]

    moves = changes_with(reals, {name: jnp.asarray(params[name]) for name in names})
    return prepared, [slope if m else None for slope, m in zip(slopes, moves, strict=True)]


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
        arrays = [leaf for leaf, p in zip(flat, of_python, strict=True) if not p]
        return [leaf for leaf in arrays if _is_real(leaf)], arrays

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
