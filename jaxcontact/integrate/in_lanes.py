"""All evaluations of the flow in a machine step, for systems whose arithmetic is loops over the lanes (`lanewise`).

The same as `evaluations`, with as few kernels as will do, since on a CPU each takes as long as to compute ten lanes:
the flow is in the program twice, on the way and on arrival, so that nothing has to be handed from the one to the other;
only slopes that are rows' own are kept (`stages`), and only signals that somebody looks at.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxcontact.integrate import locate
from jaxcontact.integrate.evaluations import Arrival, Evaluated, arrive, at_event, first_event, weights_at_nodes
from jaxcontact.integrate.hybrid_state import HybridState, HybridSystem, chosen
from jaxcontact.integrate.stages import Weights, moved, one_of, weights_inside, weights_of, with_own
from jaxcontact.integrate.tableau import Tableau
from jaxcontact.lanewise import in_one_loop


def evaluate_all(system: HybridSystem, tableau: Tableau, params, s: HybridState) -> Evaluated:
    """All evaluations of the flow in a machine step: the inner ones in one loop, then where the lane arrives."""
    so_far = s.later_slopes, s.node_signals, jnp.ones_like(s.landing)
    if len(tableau.stages):
        so_far = _on_the_way(system, tableau, params, s, so_far)
    return _on_arrival(system, tableau, params, s, *so_far)


def _on_the_way(system, tableau: Tableau, params, s: HybridState, so_far):
    """Slopes and signals at the inner stages of a stride or, in a landing, at the nodes inside of the one before."""
    ways, times = jnp.asarray(_ways(tableau), s.y.dtype), jnp.asarray(_times(tableau), s.y.dtype)
    start, first = tuple(s.y), tuple(s.slope)

    def evaluation(so_far, i):
        later, signals, sound = so_far
        way = [Weights.of_list(list(weights)) for weights in ways[i]]
        slopes = first, later, s.end_slope
        y = in_one_loop(partial(_inside, system, tableau), way, s.landing, s.h, start, slopes)
        t = in_one_loop(_time_inside, tuple(times[i]), s.landing, s.t, s.h)
        kept = tuple(_row(part, i) for part in later)
        _, kept, here, sound = in_one_loop(partial(_evaluate, system), params, t, s.mode, s.landing, y, kept, sound)
        later = tuple(_with_row(part, i, row) for part, row in zip(later, kept, strict=True))
        signals = tuple(_with_row(part, i, row) for part, row in zip(signals, _watched(system, here), strict=True))
        return (later, signals, sound), None

    return jax.lax.scan(evaluation, so_far, jnp.arange(len(tableau.stages)))[0]


def _on_arrival(system, tableau: Tableau, params, s: HybridState, later, signals, sound) -> Evaluated:
    """The end of a stride, or the first event inside of the one before."""
    known = _watched(system, s.signals), signals, s.end_signals
    find, look = (partial(function, system, len(s.signals)) for function in (_first_event, _at_event))
    event, root = in_one_loop(find, *jax.lax.stop_gradient((params, s.mode, s.armed, *known)))
    fraction, event_signals = in_one_loop(look, params, s.mode, *known, event, root)
    slopes = tuple(s.slope), later, s.end_slope
    y = in_one_loop(partial(_to_the_end, system, tableau), s.landing, s.h, fraction, tuple(s.y), slopes)
    stride = s.t, s.h, s.mode, s.landing
    target = in_one_loop(partial(_arrive, system), params, stride, y, event, fraction, event_signals)
    slope, end_slope, here, sound = in_one_loop(
        partial(_evaluate, system), params, target.t, target.mode, s.landing, target.y, s.end_slope, sound
    )
    return Evaluated(later, end_slope, signals, Arrival(**target._asdict(), slope=slope, signals=here, sound=sound))


def _ways(tableau: Tableau) -> np.ndarray:
    """Weights on the way (inner, 2, weights): at stages of a stride, and at nodes inside of the one before."""
    kinds = tableau.stages, weights_at_nodes(tableau)
    return np.array([[weights_of(tableau, row).as_list() for row in pair] for pair in zip(*kinds, strict=True)])


def _times(tableau: Tableau) -> np.ndarray:
    """When that is, as fractions of the stride (inner, 2)."""
    return np.stack([tableau.times, locate.nodes(len(tableau.stages))[1:-1]], axis=1)


def _time_inside(fractions, landing, t, h):
    stage, node = fractions
    return t + h * jnp.where(landing, node, stage)


def _inside(system, tableau: Tableau, way, landing, h, start, slopes):
    """The state at an inner stage of a stride, or at a node inside it; what the flow does not look at stays."""
    return moved(system, tableau, start, h, _by_row(*slopes), one_of(landing, *way[::-1]), but=system.unseen)


def _to_the_end(system, tableau: Tableau, landing, h, fraction, start, slopes):
    """The state at the end of a stride, or at the event inside of it."""
    weights = one_of(landing, weights_inside(tableau, fraction), weights_of(tableau, tableau.weights))
    return moved(system, tableau, start, h, _by_row(*slopes), weights)


def _by_row(first, later, last) -> list[list[Any]]:
    """Slopes of each row with own ones, a list over the stages."""
    return [[one, *rest, end] for one, rest, end in zip(first, later, last, strict=True)]


def _evaluate(system, params, t, mode, landing, y, kept, sound):
    """Own slopes, those that are kept, signals, and whether all is finite still.

    A landing keeps the slopes of the stride that it is inside of. Slopes that are not finite are written as zeros.
    """
    slope, signals = system.flow(params, t, mode, jnp.stack(y))
    finite = jnp.isfinite(slope)
    own = with_own(system, jnp.where(finite, slope, 0.0))
    return own, chosen(landing, kept, own), tuple(signals), sound & jnp.all(finite)


def _watched(system, signals) -> tuple[Any, ...]:
    return tuple(signals[k] for k in system.watched) if system.watched else tuple(signals)


def _at_nodes(system, count: int, first, nodes, last) -> jax.Array:
    """Signals at all nodes, (signal, node); zeros where nobody looks."""
    rows = [jnp.concatenate([a[None], inner, b[None]]) for a, inner, b in zip(first, nodes, last, strict=True)]
    places = dict(zip(system.watched or range(count), rows, strict=True))
    return jnp.stack([places.get(k, jnp.zeros_like(rows[0])) for k in range(count)])


def _first_event(system, count, params, mode, armed, first, nodes, last):
    return first_event(system, params, mode, armed, _at_nodes(system, count, first, nodes, last))


def _at_event(system, count, params, mode, first, nodes, last, event, root):
    fraction, signals = at_event(system, params, mode, _at_nodes(system, count, first, nodes, last), event, root)
    return fraction, tuple(signals)


def _arrive(system, params, stride, y, event, fraction, signals):
    t, h, mode, landing = stride
    target = arrive(system, params, t, h, mode, landing, jnp.stack(y), event, fraction, jnp.stack(signals))
    return target._replace(y=tuple(target.y))


def _with_row(rows, index, row):
    return jax.lax.dynamic_update_index_in_dim(rows, row, index, 0)


def _row(rows, index):
    return jax.lax.dynamic_index_in_dim(rows, index, keepdims=False)


def at_the_start(system: HybridSystem, tableau: Tableau, state: HybridState) -> HybridState:
    """A state that has just begun, in the form in which a step here wants it; slopes are those of all rows as yet."""
    inner = len(tableau.stages)
    slope = with_own(system, state.slope)
    signals = _watched(system, state.signals)

    def room(rows):
        return tuple(jnp.zeros((inner, *row.shape), row.dtype) for row in rows)

    return state._replace(
        slope=jnp.stack(slope),
        later_slopes=room(slope),
        end_slope=tuple(map(jnp.zeros_like, slope)),
        node_signals=room(signals),
        end_signals=tuple(map(jnp.zeros_like, signals)),
    )


def kept_signals(system: HybridSystem, landing, s: HybridState, arrival: Arrival) -> tuple[Any, ...]:
    """Signals at the end of the stride, for a landing that follows."""
    return in_one_loop(chosen, landing, _watched(system, arrival.signals), s.end_signals)
