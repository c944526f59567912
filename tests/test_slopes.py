"""Derivatives of prescribed forces, many at a time: those of forward mode, of differences, and of the chain rule."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxcontact.contact.geometry import Plane
from jaxcontact.errors import InputError
from jaxcontact.models.layouts import ELLIPSOIDS_6, NINE_SPHERES, THREE_SPHERES
from jaxcontact.models.model import default_params
from jaxcontact.models.prescribed import SagittalMotion, evaluate, sagittal_feet
from jaxcontact.models.shape import raised_by
from jaxcontact.models.slopes import evaluate_with_slopes
from jaxcontact.models.stance import LOADED, reference_motion, stance_model

STANCE = stance_model()
CHOICES = {name: allowed[0] for name, allowed in STANCE.choices.items()}
DEFAULTS = default_params(STANCE)
TILTED = Plane((0.01, 0.0, 0.001), (np.sin(0.03), 0.0, np.cos(0.03)), (0.1, 0.05, 0.0))


def some_frames(count):
    motion = reference_motion(NINE_SPHERES, CHOICES, 41)
    chosen = np.linspace(0, 40, count).round().astype(int)
    return SagittalMotion(*(values[chosen] for values in motion))


def drawn(layout, lanes, seed=0):
    """Numbers of a layout's elements and of the laws, each its own in every lane; by name."""
    random = np.random.default_rng(seed)
    numbers = {**DEFAULTS, **default_params(stance_model(layout))}
    for parameter in layout.parameters():
        size = 0.002 if parameter.unit == "m" else 0.2
        numbers[parameter.name] = numbers[parameter.name] + size * random.uniform(-1, 1, lanes)
    for name in ("k", "chi", "mu", "v_slip", "mu_viscous"):
        numbers[name] = numbers[name] * random.uniform(0.7, 1.3, lanes)
    return numbers


def given(numbers, motion, layout, **more):
    return {
        "motion": motion,
        "feet": lambda frame: sagittal_feet(frame, DEFAULTS, numbers.get("pose.height", 0.0)),
        "layout": layout,
        "elements": layout.elements(numbers),
        "laws": numbers,
        "choices": CHOICES,
        "threshold": LOADED,
    } | more


def seen(found):
    """What has derivatives, as one array (quantity, frames, *lanes)."""
    shape = jnp.broadcast_shapes(*(jnp.shape(leaf) for leaf in jax.tree.leaves(found[:3])))
    return jnp.stack([jnp.broadcast_to(leaf, shape) for leaf in (*found[0], *found[1], found[2])])


CASES = {  # layout, frames, lanes, what differs, by
    "spheres": (NINE_SPHERES, 11, (13,), {}, ("s1.x", "s1.radius", "s4.z", "s9.y", "s9.weight", "mu", "k", "v_slip")),
    "few lanes": (NINE_SPHERES, 11, (2, 2), {}, ("s8.x", "s2.damping", "s6.friction", "chi", "mu_viscous")),
    "one layout": (THREE_SPHERES, 5, (), {}, ("s1.z", "s3.radius", "m", "k")),
    "a moving, tilted plane": (NINE_SPHERES, 5, (7,), {"plane": TILTED}, ("s1.x", "s4.z", "s5.y", "mu")),
    "ellipsoids": (ELLIPSOIDS_6, 5, (6,), {}, ("e1.a", "e1.c", "e2.z", "e6.x", "chi")),
    "the shoe's laws": (
        THREE_SPHERES,
        5,
        (6,),
        {"choices": {"normal": "shoe", "friction": "shoe"}},
        ("s2.x", "s2.weight", "c1", "c2", "c6"),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_slopes_are_those_of_forward_mode(case):
    layout, frames, lanes, more, by = CASES[case]
    numbers, motion = drawn(layout, lanes), some_frames(frames)
    numbers["pose.height"] = numbers["k"] * 0.0 - 0.001

    def of(moving):
        return evaluate(**given(numbers | moving, motion, layout, **more))

    moving = {name: jnp.broadcast_to(jnp.asarray(numbers[name], float), lanes) for name in by}
    ones = {name: jnp.zeros((len(by), *lanes)).at[i].set(1.0) for i, name in enumerate(by)}

    @jax.jit
    def everything(moving):
        slopes = evaluate_with_slopes(**given(numbers | moving, motion, layout, **more), by=by)
        forward = jax.lax.map(lambda d: jax.jvp(lambda m: seen(of(m)), (moving,), (d,))[1], ones)
        return of(moving), slopes, forward

    plain, slopes, forward = everything(moving)
    for one, other in zip(jax.tree.leaves(slopes.found), jax.tree.leaves(plain), strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    assert set(slopes.by) == set(by)
    for name, right in zip(by, np.asarray(forward), strict=True):
        found = np.broadcast_to(seen(slopes.by[name]), right.shape)
        size = np.max(np.abs(right), axis=tuple(range(1, right.ndim)), keepdims=True)
        assert np.any(size > 0), name
        assert np.all(np.abs(found - right) <= 1e-12 * size + 1e-13), name
    unloaded = ~np.asarray(plain.loaded)
    assert case != "spheres" or unloaded.any()
    for change in slopes.by.values():
        assert not np.any(np.broadcast_to(change.free_moment, unloaded.shape)[unloaded])


def test_slopes_are_those_of_differences():
    numbers, motion, by = drawn(NINE_SPHERES, (3,), seed=4), some_frames(9), ("s3.z", "s7.x", "mu")
    slopes = jax.jit(lambda n: evaluate_with_slopes(**given(n, motion, NINE_SPHERES), by=by))(numbers).by
    values = jax.jit(lambda n: evaluate(**given(n, motion, NINE_SPHERES)))
    for name in by:
        step = 1e-7 if "." in name else 1e-5
        up, down = (values(numbers | {name: numbers[name] + sign * step}) for sign in (1, -1))
        alike = np.all(up.down == down.down, axis=1)  # where a sphere touches down in between, forces jump
        assert alike.mean() > 0.8
        found, right = np.asarray(seen(slopes[name])), np.asarray(seen(up) - seen(down)) / (2 * step)
        size = np.max(np.abs(right), axis=(1, 2), keepdims=True)
        apart = np.abs(np.broadcast_to(found, right.shape) - right) * alike
        assert np.all(apart < 1e-5 * size + 1e-7), (name, apart.max(axis=(1, 2)), size.ravel())


def test_a_number_behind_many_has_the_sum_of_their_slopes():
    """The arch raises every sphere by a smooth function of its place."""
    motion, names = some_frames(7), NINE_SPHERES.names()
    toes = np.array([segment == "toes" for segment in NINE_SPHERES.segments])
    forward = np.asarray(NINE_SPHERES.elements().x) + toes * (DEFAULTS["toe_joint.x"] + DEFAULTS["toes.x"])

    def at(arch):
        elements = NINE_SPHERES.elements()
        return elements._replace(z=elements.z + raised_by(forward, DEFAULTS | {"arch": arch}))

    def of(arch):
        return seen(evaluate(**given(DEFAULTS, motion, NINE_SPHERES, elements=at(arch))))

    _, right = jax.jit(lambda arch: jax.jvp(of, (arch,), (1.0,)))(0.003)
    _, raised = jax.jvp(lambda arch: at(arch).z, (0.003,), (1.0,))
    by = [f"{name}.z" for name in names]
    slopes = jax.jit(lambda e: evaluate_with_slopes(**given(DEFAULTS, motion, NINE_SPHERES, elements=e), by=by).by)(
        at(0.003)
    )
    total = sum(rise * jnp.broadcast_to(seen(slopes[name]), right.shape) for rise, name in zip(raised, by, strict=True))
    np.testing.assert_allclose(total, right, rtol=1e-10, atol=1e-9)


def test_a_name_that_nothing_has_is_refused():
    with pytest.raises(InputError, match="s10.x"):
        evaluate_with_slopes(**given(DEFAULTS, some_frames(3), NINE_SPHERES), by=("s10.x",))
