"""Exact derivatives of forces under a prescribed motion, by numbers of elements and of laws, many at a time.

What an element carries depends on its own numbers only: a change of one of them asks for that element's arithmetic
alone, and what a plate then sees follows from the sums that are there already. Nine spheres by three numbers each cost
27 changes of one sphere, not of nine. Numbers of the laws enter everywhere; their changes are summed with the loads.

Values are those of `prescribed.evaluate`, and derivatives those that forward mode finds of it, kinks included.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxcontact.contact.geometry import GROUND, Plane
from jaxcontact.errors import unknown
from jaxcontact.models import sole
from jaxcontact.models.frames import Numbers, along_motion, is_plain, one_loop, over_frames
from jaxcontact.models.layout import Elements, Layout, fields_of
from jaxcontact.models.model import Params
from jaxcontact.models.prescribed import Feet, Prescribed, down_in, seen_by_a_plate
from jaxcontact.vectors import Vector

# Elements that share a loop, in which results and arguments have places of their own that are all written. With three
# numbers of each, two ran fastest; one was a third slower, three a fifth.
_TOGETHER = 2


class Change(NamedTuple):
    """Derivatives of what a plate sees: arrays (frames, *lanes), or one 0 where nothing changes.

    Of the centre of pressure and the free moment they are 0 where the load does not carry them.
    """

    force: Vector
    cop: Vector
    free_moment: Any


class Slopes(NamedTuple):
    """What was found, and how it changes with each number that was asked for, by its name."""

    found: Prescribed
    by: dict[str, Change]


class _Whole(NamedTuple):
    """What a plate sees of all elements, and the load along the normal."""

    force: Vector
    cop: Vector
    free_moment: Any
    F_n: Any


def evaluate_with_slopes(
    motion: Any,
    feet: Callable[[Any], Feet],
    layout: Layout,
    elements: Elements,
    laws: Params,
    choices: Mapping[str, str],
    *,
    by: Sequence[str],
    plane: Plane = GROUND,
    threshold: Any = 0.0,
    lanes: tuple[int, ...] = (),
) -> Slopes:
    """Forces along a motion as `evaluate` finds them, and their derivatives by named numbers of `elements` and `laws`.

    Names are those of the parameters: s1.x, s1.radius, ... for elements in the layout's order, k, mu, ... for laws. A
    number behind several of them (an arch that raises all elements) has the sum of their derivatives, each times how
    fast it changes with that number.
    """
    of_laws, of_elements = _sorted(layout, laws, by)
    numbers = Numbers.of(elements, laws, plane, threshold)

    def of_all(pose: Feet, numbers: Numbers):
        whole, changes = one_loop(partial(_whole_by_laws, layout, choices, plane, of_laws), pose, numbers)
        return whole, changes, whole.F_n > numbers.threshold, down_in(layout, plane, pose, numbers)

    whole, changes, loaded, down = along_motion(of_all, motion, feet, numbers, lanes)
    found = Prescribed(whole.force, whole.cop, whole.free_moment, loaded, down)
    for first in range(0, len(of_elements), _TOGETHER):
        some = of_elements[first : first + _TOGETHER]
        own = partial(_by_own, layout, choices, plane, some)
        changes |= over_frames(own, motion, feet, numbers, whole)
    return Slopes(found, {name: changes[name] for name in by})


_Own = tuple[int, tuple[tuple[str, str], ...]]  # an element, and (name, field) of its numbers that are asked for


def _sorted(layout: Layout, laws: Params, by: Sequence[str]) -> tuple[tuple[str, ...], list[_Own]]:
    """Names of numbers of the laws, and of each element that has any."""
    known = [name for name in sole.LAW_NAMES if name in laws]
    fields = [field for field, *_ in fields_of(layout.kind)]
    places = {f"{name}.{field}": (i, field) for i, name in enumerate(layout.names()) for field in fields}
    for name in by:
        if name not in known and name not in places:
            raise unknown("number of an element or a law", name, [*places, *known])
    of_elements: dict[int, list[tuple[str, str]]] = {}
    for name in by:
        if name in places:
            of_elements.setdefault(places[name][0], []).append((name, places[name][1]))
    return tuple(name for name in by if name in known), [(i, tuple(own)) for i, own in sorted(of_elements.items())]


def _whole_by_laws(layout: Layout, choices, plane: Plane, by: Sequence[str], pose: Feet, numbers: Numbers):
    """What a plate sees in one frame, and how it changes with numbers of the laws."""

    def seen(moved: Params) -> _Whole:
        all_numbers = numbers._replace(laws={**numbers.laws, **moved})
        force, F_n, cop, free_moment = seen_by_a_plate(layout, choices, plane, pose, all_numbers)
        return _Whole(force, cop, free_moment, F_n)

    changes = {}
    for name in by:
        value = jnp.asarray(numbers.laws[name], float)
        _, slope = jax.jvp(lambda value, name=name: seen({name: value}), (value,), (jnp.ones_like(value),))
        changes[name] = Change(*slope[:3])
    return seen({}), changes


def _by_own(layout: Layout, choices, plane: Plane, own: Sequence[_Own], pose: Feet, numbers: Numbers, whole: _Whole):
    """How what a plate sees in one frame changes with numbers of some elements."""
    limit, plane = numbers.threshold, numbers.plane or plane
    # Seen from the centre of pressure, where the whole load weighs nothing.
    about = (whole.cop[0], whole.cop[1], 0.0) if plane is GROUND else whole.cop
    changes = {}
    for place, names in own:
        body = getattr(pose, layout.segments[place])
        element = {field: values[place] for field, values in numbers.elements.items()}
        for name, field in names:

            def load(value, body=body, element=element, field=field):
                moved = Elements(**{**element, field: value})
                contacts = sole.contact_forces(body, layout.kind, moved, numbers.laws, choices, plane)
                return sole.load_of_each(contacts, about, plane)

            change = _slope(load, jnp.asarray(element[field], float))
            changes[name] = Change(*sole.change_of_reaction(change, whole.force, whole.F_n, plane, limit))
    return changes


def _slope(function: Callable[[Any], Any], value: Any) -> Any:
    """Derivative of a tree of numbers by one number; of those of Python, which are constant, it is plainly 0."""
    kept: list[Any] = []

    def varied(value):
        leaves, tree = jax.tree.flatten(function(value))
        kept[:] = [tree, [is_plain(leaf) for leaf in leaves]]
        return [leaf for leaf in leaves if not is_plain(leaf)]

    _, slopes = jax.jvp(varied, (value,), (jnp.ones_like(value),))
    tree, plain = kept
    rest = iter(slopes)
    return tree.unflatten([0.0 if constant else next(rest) for constant in plain])
