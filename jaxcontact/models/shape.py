"""Shapes of a sole, from flat to cavus and with parts lost or gained, as smooth numbers.

A shape raises or lowers every element of a layout by a smooth function of where it lies along the neutral foot, so that
any layout has every shape, and outcomes have derivatives by all of these numbers. x is measured from the main foot's
centre of mass, forward, with the toes in line; heights are metres, positive upwards (away from the ground).
"""

from typing import Any

import jax.numpy as jnp

from jaxcontact.models.layout import Elements, over_lanes
from jaxcontact.models.model import Parameter, Params

REGIONS = ("heel", "midfoot", "forefoot", "toes")
_BORDERS = (-0.045, 0.015, 0.070)  # m: where one region gives way to the next; the last is the joint of the toes
_BLEND = 0.008  # m: over how much
_ARCH_PLACE, _ARCH_WIDTH = -0.005, 0.045  # m: where the arch is highest, and where it is down to 1/e

SHAPE_PARAMETERS = (
    Parameter(
        "arch",
        "m",
        0.0,
        -0.05,
        0.05,
        "height added to the arch: positive cavus, negative flat",
        "ours: Foot describes both and prints no number",
    ),
    Parameter(
        "arch.balance",
        "1",
        0.075,
        0.0,
        1.0,
        "share of `arch` by which the whole sole goes down, so that a higher arch presses heel and toes in",
        "ours: so little that a higher arch still unloads mid-stance (Foot Fig. 10)",
    ),
    *(
        Parameter(
            f"loss.{region}",
            "m",
            0.0,
            -0.05,
            0.05,
            f"sole lost under the {region} (raised there); negative: gained, as by a callus or an insole",
            "ours",
        )
        for region in REGIONS
    ),
)
NORMAL = {parameter.name: parameter.default for parameter in SHAPE_PARAMETERS}
CAVUS = {**NORMAL, "arch": 0.016}  # m
FLAT = {**NORMAL, "arch": -0.012}  # m: puts the nine spheres' arch on the line from heel to ball


def region_shares(x):
    """How much each place x (m) belongs to each region; smooth, and together 1."""
    beyond = [0.5 * (1.0 + jnp.tanh((x - border) / _BLEND)) for border in _BORDERS]
    edges = [jnp.ones_like(beyond[0]), *beyond, jnp.zeros_like(beyond[0])]
    return {region: before - after for region, before, after in zip(REGIONS, edges, edges[1:], strict=False)}


def raised_by(x, params: Params):
    """Height (m) by which the shape raises the sole at places x (m)."""
    arch = jnp.exp(-(((x - _ARCH_PLACE) / _ARCH_WIDTH) ** 2))
    height = params["arch"] * (arch - params["arch.balance"])
    for region, share in region_shares(x).items():
        height = height + params[f"loss.{region}"] * share
    return height


def shaped(elements: Elements, forward: Any, params: Params) -> Elements:
    """Elements (element, *lanes) raised by the shape; `forward` is where their own x begins on the neutral foot (m).

    `forward` is an array (element, *lanes), or (1, *lanes) if it is the same for all.
    """
    lanes = max(jnp.ndim(params[parameter.name]) for parameter in SHAPE_PARAMETERS)
    lanes = max(lanes, elements.x.ndim - 1, jnp.ndim(forward) - 1)
    wide = elements.over(lanes)
    return wide._replace(z=wide.z + raised_by(wide.x + over_lanes(forward, lanes), params))
