"""Fitted spheres as OpenSim's contact forces, with what the conversion costs.

Element names are those of OpenSim 4: ContactHalfSpace, ContactSphere, SmoothSphereHalfSpaceForce, HuntCrossleyForce
with a HuntCrossleyForce::ContactParametersSet. OpenSim has x forward, y up, z to the right.
"""

from collections.abc import Callable, Sequence
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from jaxcontact.contact import bridges
from jaxcontact.contact.bridges import Contact, SmoothSphere
from jaxcontact.errors import InputError, unknown
from jaxcontact.study.fit.comparison import Carried, comment, compared
from jaxcontact.study.fit.fitting import Fit
from jaxcontact.study.fit.spheres import Sphere, Spheres, friction_of, spheres_of, without_idle
from jaxcontact.study.version import package_version

KINDS = ("hunt_crossley", "smooth_sphere")
SMOOTHING = (1e-5, 300.0, 50.0)  # OpenSim's constant_contact_force, hertz_smoothing, hunt_crossley_smoothing
_NEAR = 0.05  # RMS over peak of a sphere's normal force: with more, its smoothing is made sharper
_SHARPEST = 12  # times that depths over which it is smoothed are halved, at most


def to_opensim(
    fit: Fit, kind: str = "hunt_crossley", *, smoothing: tuple[float, float, float] | None = None
) -> Carried:
    """Write fitted contacts as HuntCrossleyForce ("hunt_crossley") or SmoothSphereHalfSpaceForce ("smooth_sphere").

    One force per sphere: spheres of neighbouring bodies then do not push each other, as all surfaces of one
    HuntCrossleyForce would. `smoothing` is the smooth force's (constant_contact_force, hertz_smoothing in 1/m,
    hunt_crossley_smoothing in s/m). If it is not given each sphere has OpenSim's defaults, which are made for depths of
    a centimetre, or sharper ones where they would miss its normal force by more than 5 % of the peak (RMS).
    """
    if kind not in KINDS:
        raise unknown("kind of OpenSim force", kind, KINDS)
    parts = spheres_of(fit)
    # Our own law's numbers convert also where a sphere carries nothing; the nearest law needs a load to be near to.
    parts = without_idle(parts, (lambda sphere: sphere.weight == 0) if _is_theirs(parts) else None)
    contacts, left_out = _contacts(parts)
    forces: list[Callable[..., Any]]
    if kind == "smooth_sphere":
        smooth = [
            _smoothed(contact, sphere, smoothing) for contact, sphere in zip(contacts, parts.spheres, strict=True)
        ]
        left_out = (*left_out, _about_smoothing(smooth))
        forces = [_smooth_force(each, sphere) for each, sphere in zip(smooth, parts.spheres, strict=True)]
        elements = [_smooth_xml(each, sphere) for each, sphere in zip(smooth, parts.spheres, strict=True)]
        title = "SmoothSphereHalfSpaceForce"
    else:
        forces = [_hunt_force(each, sphere) for each, sphere in zip(contacts, parts.spheres, strict=True)]
        elements = [_hunt_xml(each, sphere) for each, sphere in zip(contacts, parts.spheres, strict=True)]
        title = "HuntCrossleyForce"
    errors, of_each = compared(parts, forces, f"OpenSim's {title}")
    errors = (*errors, *left_out, *parts.remarks)
    return Carried(_document(fit, parts, title, elements, of_each, errors), errors)


# ---------------------------------------------------------------- our numbers as a Contact


def _contacts(parts: Spheres) -> tuple[list[Contact], tuple[str, ...]]:
    """The nearest Contact of every sphere, and what it leaves out."""
    for sphere in parts.spheres:
        if not sphere.radius > 0:
            raise InputError(f"{sphere.name}: radius = {sphere.radius:g} m\nallowed in OpenSim: above 0")
    left_out = []
    laws = parts.laws
    exact = _is_theirs(parts)
    if not exact:
        what = f"{parts.normal}" + (f" with exponent {laws['m']:.6g}" if "m" in laws and parts.normal != "shoe" else "")
        left_out.append(
            f"the law ({what}) has no equivalent: each sphere has the Hunt-Crossley law of exponent 1.5 that is "
            "nearest to it by least squares over the states named above"
        )
    if parts.friction == "coulomb_viscous" and laws["mu_viscous"] != 0:
        left_out.append(
            f"viscous friction of {laws['mu_viscous']:.6g} N s/m is left out: OpenSim's, in s/m, grows with the load"
        )
    if parts.friction == "shoe":
        left_out.append(
            "the slip up to which friction is viscous grows with the load; OpenSim has the one at the peak load"
        )
    if parts.friction == "tangential_compliance":
        left_out.append("the tangential spring is left out")
    found = []
    for sphere in parts.spheres:
        stiffness, damping = _hysteresis(parts, sphere) if exact else _nearest(sphere)
        static, dynamic, slip = friction_of(parts, sphere)
        found.append(Contact(stiffness, damping, static, dynamic, 0.0, slip))
    return found, tuple(left_out)


def _is_theirs(parts: Spheres) -> bool:
    """Whether the normal law is one of OpenSim's: Hunt-Crossley with Hertz's exponent."""
    return parts.normal == "hertz" or (parts.normal == "hunt_crossley" and parts.laws.get("m", 1.5) == 1.5)


def _hysteresis(parts: Spheres, sphere: Sphere) -> tuple[float, float]:
    """(k_n, chi) of a sphere whose law is that of OpenSim."""
    laws = parts.laws
    stiffness = laws["k_n"] if "k_n" in laws else laws["k"] * sphere.weight
    if parts.normal == "hertz":
        return stiffness, 0.0
    return stiffness, laws["chi"] * sphere.weight * sphere.damping


def _nearest(sphere: Sphere) -> tuple[float, float]:
    """(k_n, chi) of x^1.5 (k_n + chi x'), by least squares over the states in which the sphere carries load."""
    states = sphere.states
    carries = (states.depth > 0) & (states.F_n > 0)
    power = states.depth[carries] ** 1.5
    columns = np.column_stack([power, power * states.rate[carries]])
    stiffness, damping = np.linalg.lstsq(columns, states.F_n[carries], rcond=None)[0]
    if damping < 0 or stiffness <= 0:
        damping, stiffness = 0.0, power @ states.F_n[carries] / (power @ power)
    return float(stiffness), float(damping)


def _smoothed(contact: Contact, sphere: Sphere, smoothing: tuple[float, float, float] | None) -> SmoothSphere:
    """The smooth force nearest to a sphere's: stiffness and damping scaled together, by least squares over its states.

    Smoothing adds force at small depths, so that our own stiffness would be too much.
    """
    states = sphere.states
    peak = float(np.max(states.F_n))
    unsmoothed = np.asarray(_hunt_force(contact, sphere)(states.depth, states.rate, states.slip)[0])
    near = _NEAR * peak + _rms(unsmoothed - states.F_n)  # no smoothing mends what the law misses
    sharper, found = smoothing or SMOOTHING, None
    for _ in range(1 if smoothing else _SHARPEST + 1):
        found = bridges.smooth_sphere_of_contact(contact, sphere.radius, *sharper)
        if not peak > 0:
            return found
        force = np.asarray(_smooth_force(found, sphere)(states.depth, states.rate, states.slip)[0])
        scale = float(force @ states.F_n / (force @ force))
        found = found._replace(stiffness=scale * found.stiffness)
        if _rms(scale * force - states.F_n) <= near:
            break
        # Half as deep: cf is a depth squared; the smoothing over rates stays.
        sharper = (0.25 * sharper[0], 2.0 * sharper[1], sharper[2])
    assert found is not None
    return found


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _about_smoothing(smooth: Sequence[SmoothSphere]) -> str:
    sharpened = [each for each in smooth if each.constant_contact_force != SMOOTHING[0]]
    told = "stiffness is scaled to make up for the smoothing, which adds force at small depths"
    if not sharpened:
        return told
    least = min(float(each.constant_contact_force) for each in sharpened)
    return (
        f"{told}; {len(sharpened)} of {len(smooth)} spheres have another smoothing than OpenSim's defaults "
        f"(constant_contact_force down to {least:.3g}): they are pressed in less than those are made for"
    )


# ---------------------------------------------------------------- their forces


def _hunt_force(contact: Contact, sphere: Sphere):
    pair = bridges.combine(*bridges.materials_of_contact(contact, sphere.radius))
    return lambda depth, rate, slip: bridges.hunt_crossley_force(
        depth, rate, slip**2, pair, sphere.radius, contact.transition_velocity
    )


def _smooth_force(smooth: SmoothSphere, sphere: Sphere):
    return lambda depth, rate, slip: bridges.smooth_sphere_force(depth, rate, slip**2, smooth, sphere.radius)


# ---------------------------------------------------------------- as XML


def _number(value: Any) -> str:
    return f"{float(value):.15g}"


def _tags(values: dict[str, Any], indent: str) -> list[str]:
    return [f"{indent}<{tag}>{escape(str(text))}</{tag}>" for tag, text in values.items()]


def _smooth_xml(smooth: SmoothSphere, sphere: Sphere) -> list[str]:
    values = {"socket_sphere": f"/contactgeometryset/{sphere.name}", "socket_half_space": "/contactgeometryset/floor"}
    values |= {name: _number(value) for name, value in smooth._asdict().items()}
    lines = [f"<SmoothSphereHalfSpaceForce name={quoteattr(sphere.name + '_force')}>"]
    return [*lines, *_tags(values, "\t"), "</SmoothSphereHalfSpaceForce>"]


def _hunt_xml(contact: Contact, sphere: Sphere) -> list[str]:
    material, _ = bridges.materials_of_contact(contact, sphere.radius)
    values = {"geometry": f"floor {sphere.name}"} | {name: _number(v) for name, v in material._asdict().items()}
    return [
        f"<HuntCrossleyForce name={quoteattr(sphere.name + '_force')}>",
        '\t<HuntCrossleyForce::ContactParametersSet name="contact_parameters">',
        "\t\t<objects>",
        "\t\t\t<HuntCrossleyForce::ContactParameters>",
        *_tags(values, "\t\t\t\t"),
        "\t\t\t</HuntCrossleyForce::ContactParameters>",
        "\t\t</objects>",
        "\t\t<groups />",
        "\t</HuntCrossleyForce::ContactParametersSet>",
        f"\t<transition_velocity>{_number(contact.transition_velocity)}</transition_velocity>",
        "</HuntCrossleyForce>",
    ]


def _document(
    fit: Fit, parts: Spheres, title: str, elements: Sequence[list[str]], of_each: Sequence[str], errors: Sequence[str]
) -> str:
    bodies = {sphere.body: sphere.origin for sphere in parts.spheres}
    head = [
        f"{title} fitted by jaxcontact {package_version()}: {fit.problem.title or fit.problem.model.name}. "
        f"Laws that were fitted: normal {parts.normal}, friction {parts.friction}. Units: places and radii m, "
        "stiffness Pa, dissipation and viscous_friction s/m, transition_velocity m/s, other friction none.",
        "Copy both sets into an OpenSim 4 model, and let socket_frame name its bodies. Frames here: "
        + "; ".join(f"{body} begins at {origin}, x forward, y up, z right" for body, origin in bodies.items())
        + ".",
        *errors,
    ]
    geometry = [
        '<ContactHalfSpace name="floor">',
        "\t<socket_frame>/ground</socket_frame>",
        "\t<location>0 0 0</location>",
        "\t<orientation>0 0 -1.5707963267948966</orientation>",
        "</ContactHalfSpace>",
    ]
    for sphere in parts.spheres:
        x, y, z = sphere.place
        geometry += [f"<ContactSphere name={quoteattr(sphere.name)}>"]
        geometry += _tags(
            {
                "socket_frame": f"/bodyset/{sphere.body}",
                "location": f"{_number(x)} {_number(z)} {_number(-y)}",
                "radius": _number(sphere.radius),
            },
            "\t",
        )
        geometry += ["</ContactSphere>"]
    forces = [line for told, element in zip(of_each, elements, strict=True) for line in (comment(told), *element)]
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', *(comment(line) for line in head)]
    lines += ['<OpenSimDocument Version="40000">', '\t<Model name="fitted_contacts">']
    for tag, content in (("ContactGeometrySet", geometry), ("ForceSet", forces)):
        lines += [f'\t\t<{tag} name="{tag.lower()}">', "\t\t\t<objects>", *("\t\t\t\t" + line for line in content)]
        lines += ["\t\t\t</objects>", "\t\t\t<groups />", f"\t\t</{tag}>"]
    return "\n".join([*lines, "\t</Model>", "</OpenSimDocument>"]) + "\n"
