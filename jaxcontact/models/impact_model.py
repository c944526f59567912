"""From a description of a strike to a model: the numbers, results and machines that all single-impact models share."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import jax
import jax.numpy as jnp

from jaxcontact.contact.friction import mindlin_stiffness, shear_modulus
from jaxcontact.contact.impulse import REGIMES
from jaxcontact.contact.normal import effective_modulus, hertz_stiffness
from jaxcontact.integrate.machine import BAD_VALUE, STATUS_NAMES, Machine
from jaxcontact.integrate.settings import Settings
from jaxcontact.models import compliant, impulsive
from jaxcontact.models.model import Model, Parameter, Params, Quantity, within_bounds
from jaxcontact.models.strike import Strike

# Crutch section 5: elastomer tip of radius 0.05 m on concrete.
_TIP = {"young": 0.1e9, "poisson": 0.5, "radius": 0.05}
_FLOOR = {"young": 30e9, "poisson": 0.2}
NOMINAL_K_N = hertz_stiffness(
    effective_modulus(_TIP["young"], _TIP["poisson"], _FLOOR["young"], _FLOOR["poisson"]), _TIP["radius"]
)
NOMINAL_CHI = 1e7
NOMINAL_K_T = mindlin_stiffness(
    shear_modulus(_TIP["young"], _TIP["poisson"]),
    _TIP["poisson"],
    shear_modulus(_FLOOR["young"], _FLOOR["poisson"]),
    _FLOOR["poisson"],
    _TIP["radius"],
)


def contact_parameters(mu: float, mu_source: str, source: str) -> tuple[Parameter, ...]:
    """Parameters of the contact laws; each law uses its own."""
    return (
        Parameter("mu", "1", mu, 0.0, 10.0, "dynamic friction coefficient", mu_source),
        Parameter(
            "mu_ratio",
            "1",
            1.0,
            1.0,
            10.0,
            "static over dynamic friction coefficient (compliant only)",
            "Crutch section 4.2",
        ),
        Parameter("k_n", "N/m^1.5", NOMINAL_K_N, 1e2, 1e14, "normal stiffness (hertz, hunt_crossley)", source),
        Parameter("chi", "N s/m^2.5", NOMINAL_CHI, 0.0, 1e14, "hysteresis damping (hunt_crossley)", source),
        Parameter(
            "k_linear",
            "N/m",
            2e6,
            1.0,
            1e14,
            "stiffness (kelvin_voigt)",
            "ours: within 15 % of the crutch's peak force",
        ),
        Parameter(
            "c_linear", "N s/m", 500.0, 0.0, 1e9, "damping (kelvin_voigt)", "ours: loses about as much as the crutch"
        ),
        Parameter(
            "k_t",
            "N/m^1.5",
            NOMINAL_K_T,
            1e2,
            1e14,
            "tangential stiffness (tangential_compliance)",
            "Two approaches eq. 3; 8 G* sqrt(R) (Johnson) of the Crutch materials",
        ),
        Parameter("v_slip", "m/s", 0.01, 1e-9, 10.0, "slip scale (regularised)", "ours: 1 % of walking speed"),
        Parameter("gravity", "m/s^2", 9.81, 0.0, 100.0, "gravity, pointing down", "standard"),
    )


# What every single impact gives; the models add the points that they watch.
IMPACT_OUTCOMES = (
    Quantity("P_n", "N s", "normal impulse on the tip"),
    Quantity("P_t", "N s", "tangential impulse on the tip, positive forward"),
    Quantity("W_n", "J", "work of the normal force"),
    Quantity("W_t", "J", "work of the tangential force"),
    Quantity("energy_loss", "J", "energy taken by the contact, -(W_n + W_t)"),
    Quantity("t_end", "s", "duration of the impact"),
    Quantity("F_n_peak", "N", "largest normal force"),
    Quantity("depth_end", "m", "indentation at the end of the impact"),
    Quantity("v_t_tip", "m/s", "tangential velocity of the tip after impact"),
    Quantity("mu_c", "1", "critical friction coefficient at touch-down (Crutch eq. 8)"),
    Quantity("regime", "1", "evolution of the slip (Crutch Table 2)", REGIMES),
    Quantity("status", "1", "how the run ended", STATUS_NAMES),
    Quantity("n_steps", "1", "integration steps, landings on events included"),
)
IMPACT_CURVES = (
    Quantity("t", "s", "time since touch-down"),
    Quantity("P_n", "N s", "normal impulse so far"),
    Quantity("P_t", "N s", "tangential impulse so far"),
    Quantity("W_n", "J", "work of the normal force so far"),
    Quantity("W_t", "J", "work of the tangential force so far"),
    Quantity("F_n", "N", "normal force"),
    Quantity("F_t", "N", "tangential force, positive forward"),
    Quantity("depth", "m", "indentation"),
    Quantity("v_n_tip", "m/s", "normal velocity of the tip, positive up"),
    Quantity("v_t_tip", "m/s", "tangential velocity of the tip, positive forward"),
)


def watched_outcomes(name: str, meaning: str, when: str = " after impact") -> tuple[Quantity, ...]:
    """Velocities of a watched point."""
    return (
        Quantity(f"v_n_{name}", "m/s", f"normal velocity of the {meaning}{when}, positive up"),
        Quantity(f"v_t_{name}", "m/s", f"tangential velocity of the {meaning}{when}, positive forward"),
        Quantity(f"speed_{name}", "m/s", f"speed of the {meaning}{when}"),
    )


def impact_model(
    *,
    name: str,
    summary: str,
    source: str,
    parameters: tuple[Parameter, ...],
    watched: Mapping[str, str],
    assemble: Callable[[Params], Strike],
    extra_curves: tuple[Quantity, ...] = (),
    own_curves: Callable[[dict[str, jax.Array]], dict[str, jax.Array]] = lambda seen: {},
) -> Model:
    """Make a model that strikes the ground once, with both methods.

    `own_curves` turns the rates of the links and the watched velocities into curves under the model's own names.
    """
    outcomes = IMPACT_OUTCOMES + tuple(q for name, what in watched.items() for q in watched_outcomes(name, what))
    curve_outcomes = (
        IMPACT_CURVES
        + tuple(q for name, what in watched.items() for q in watched_outcomes(name, what, ""))
        + extra_curves
    )

    def checked(params: Params) -> Strike:
        strike = assemble(params)
        return strike._replace(status=jnp.where(within_bounds(parameters, params), strike.status, BAD_VALUE))

    def named(quantities: tuple[Quantity, ...], seen: dict[str, jax.Array]) -> dict[str, jax.Array]:
        return {q.name: seen[q.name] for q in quantities if q.name in seen}

    def machine(method: str, choices: Mapping[str, str], settings: Settings) -> Machine:
        whole = compliant.machine(checked, choices, settings) if method == "compliant" else impulsive.machine(checked)
        return whole._replace(finish=lambda params, state: named(outcomes, whole.finish(params, state)))

    def recorder(method: str, choices: Mapping[str, str], settings: Settings, count: int) -> Machine:
        if method == "compliant":
            whole = compliant.recorder(checked, choices, settings, count)
        else:
            whole = impulsive.recorder(checked, count)

        def finish(params: Params, state) -> dict[str, dict[str, jax.Array]]:
            found = whole.finish(params, state)
            curves = found["curves"] | own_curves(found["curves"])
            return {"outcomes": named(outcomes, found["outcomes"]), "curves": named(curve_outcomes, curves)}

        return whole._replace(finish=finish)

    return Model(
        name=name,
        summary=summary,
        source=source,
        parameters=parameters,
        outcomes=outcomes,
        curve_outcomes=curve_outcomes,
        machine=machine,
        recorder=recorder,
        choices=MappingProxyType({"normal": tuple(compliant.NORMAL_LAWS), "friction": compliant.FRICTION_LAWS}),
    )
