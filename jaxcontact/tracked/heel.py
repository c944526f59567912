"""A heel under the compression that was measured after heel strike, and the stiffness and damping that give its force.

Sign and unit: compression (m) is positive when the heel is squeezed, its rate (m/s) while it is being squeezed, and the
force (N) is the ground's on the foot, upwards. Force follows from both by a law of `contact.normal`: nothing is
integrated. With d the compression beyond `offset`, the place at which the pad begins to carry,

    hunt_crossley   F = K d^m + chi d^m d_rate        K in N/m^m, chi in N s/m^(m+1)
    kelvin_voigt    F = K d^m + c d_rate              c in N s/m

Numbers whose unit changes with the exponent can be compared neither between trials nor with a table. The parameters
are therefore those of the heel at d = 5 mm (`REFERENCE`): `k` (N/m) is the elastic force over the compression there,
`c` (N s/m) the damping. K = k / d^(m - 1) and, for hunt_crossley, chi = c / d^m at d = 5 mm; both are outcomes.

The measured compression is that of everything between the shank's markers and the floor (pad, foot and ankle; Baines
et al. 2018), and describes the heel for the first 20 to 30 ms. It is smoothed by local cubics over `window` seconds
(Savitzky and Golay 1964); the rate is the derivative of a cubic spline through what comes out.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy.interpolate import CubicSpline
from scipy.signal import savgol_filter

from jaxcontact.contact import normal
from jaxcontact.errors import InputError
from jaxcontact.integrate.machine import BAD_VALUE, FINISHED, STATUS_NAMES, Machine
from jaxcontact.integrate.settings import Settings
from jaxcontact.measured.filtering import sampling_rate
from jaxcontact.measured.heel_strikes import HeelStrike
from jaxcontact.models.model import Model, Parameter, Params, Quantity, within_bounds
from jaxcontact.models.strike import lanes
from jaxcontact.tracked.tracked import Target, Tracked

FRAMES = 91
END = 0.030  # s after contact
WINDOW = 0.005  # s, of the smoothing
FORCE_SD = 20.0  # N: ours, what the law leaves unexplained in a typical trial
REFERENCE = 0.005  # m: the compression at which stiffness and damping are stated
_DEGREE = 3  # of the local polynomials

SOURCE = "Baines, Schwab, van Soest, Energy absorption during heel strike, PLoS ONE 13 (2018); laws: Hunt and Crossley"
_OURS = "ours: middle of fits to 21 measured heel strikes"
PARAMETERS = (
    Parameter("k", "N/m", 4e4, 0.0, 1e7, "force over compression, 5 mm beyond the offset, without damping", _OURS),
    Parameter("m", "1", 1.0, 0.3, 10.0, "exponent of the compression", "ours: linear"),
    Parameter("c", "N s/m", 300.0, 0.0, 1e5, "damping, 5 mm beyond the offset", _OURS),
    Parameter("offset", "m", 0.005, -0.02, 0.02, "compression at which the heel begins to carry", _OURS),
)
CHOICES = {"normal": ("hunt_crossley", "kelvin_voigt")}
OUTCOMES = (
    Quantity("K", "N/m^m", "stiffness of the law of exponent m"),
    Quantity("chi", "N s/m^(m+1)", "hysteresis damping of the law of exponent m; 0 for kelvin_voigt"),
    Quantity("tangent", "N/m", "slope of the elastic force over compression, 5 mm beyond the offset"),
    Quantity("F_peak", "N", "largest force"),
    Quantity("work", "J", "work done on the heel over the window"),
    Quantity("work_damping", "J", "the damping's part of it: lost"),
    Quantity("status", "1", "how the run ended", STATUS_NAMES),
    Quantity("n_steps", "1", "integration steps: none"),
)
CURVES = (
    Quantity("t", "s", "time since contact"),
    Quantity("compression", "m", "measured, smoothed, positive when squeezed"),
    Quantity("compression_rate", "m/s", "its rate of change"),
    Quantity("F_z", "N", "vertical force on the foot"),
)


class Squeeze(NamedTuple):
    """A measured compression (m), its rate (m/s) and the vertical force (N) at times (s) since contact."""

    time: np.ndarray
    compression: np.ndarray
    rate: np.ndarray
    force: np.ndarray


def squeeze(strike: HeelStrike, frames: int = FRAMES, *, end: float = END, window: float = WINDOW) -> Squeeze:
    """The first `end` seconds of a heel strike at `frames` evenly spaced moments, from contact (t = 0) on.

    Compression is smoothed over `window` s (0: not at all), and a cubic spline laid through it gives the rate; rows
    before contact are used too, so that the smoothing has no edge there. The force is not smoothed.
    """
    where = f"heel strike of subject {strike.subject}, trial {strike.trial}"
    if frames < 3:
        raise InputError(f"frames = {frames}: at least 3 moments are needed")
    if not (np.isfinite(end) and 0 < end <= strike.time[-1]) or strike.time[0] > 0:
        raise InputError(
            f"{where}: end = {end:g} s is out of the recording\nallowed: above 0, to {strike.time[-1]:g} s"
        )
    if not np.isfinite(window) or window < 0:
        raise InputError(f"window = {window:g} s: a time of at least 0 is needed")
    width = 2 * round(window * sampling_rate(strike.time) / 2) + 1 if window > 0 else 1
    if width > len(strike.time):
        raise InputError(f"{where}: window = {window:g} s is longer than the recording")
    smooth = savgol_filter(strike.compression, width, _DEGREE) if width > _DEGREE + 1 else strike.compression
    spline, moments = CubicSpline(strike.time, smooth), np.linspace(0.0, end, frames)
    force = np.interp(moments, strike.time, strike.force[:, 2])
    return Squeeze(moments, spline(moments), spline(moments, 1), force)


def heel_model(
    strike: HeelStrike,
    *,
    frames: int = FRAMES,
    end: float = END,
    window: float = WINDOW,
    sd: float = FORCE_SD,
) -> Tracked:
    """A heel that is squeezed as measured. The target is the vertical force at `frames` moments of the window."""

    @lru_cache(maxsize=4)
    def motion(count: int) -> Squeeze:
        return squeeze(strike, count, end=end, window=window)

    force = motion(frames).force
    target = Target(force, np.ones(frames, bool), float(sd), "N")
    source = {
        "subject": strike.subject,
        "trial": strike.trial,
        "speed": strike.speed,
        "mass_kg": strike.mass,
        "end_s": end,
        "smoothing": f"local cubics over {window:g} s" if window > 0 else "none",
    }
    return Tracked(_model(motion, frames), {"F_z": target}, frames, None, source)


def _model(motion, frames: int) -> Model:
    def begin(params: Params):
        """Every lane is done when it starts: nothing is integrated, and within bounds every number is finite."""
        return jnp.broadcast_to(jnp.where(within_bounds(PARAMETERS, params), FINISHED, BAD_VALUE), lanes(params))

    def machine(_method: str, choices: Mapping[str, str], _settings: Settings) -> Machine:
        def finish(params, status):
            return _outcomes(params, choices["normal"], motion(frames), status)

        return Machine(begin, lambda params, status: status, lambda status: status == status, finish)

    def recorder(method: str, choices: Mapping[str, str], settings: Settings, count: int) -> Machine:
        whole = machine(method, choices, settings)

        def finish(params, status):
            curves = _curves(params, choices["normal"], motion(count), status)
            return {"outcomes": whole.finish(params, status), "curves": curves}

        return whole._replace(finish=finish)

    return Model(
        name="heel",
        summary="a heel's force under the compression measured after heel strike",
        source=SOURCE,
        parameters=PARAMETERS,
        outcomes=OUTCOMES,
        curve_outcomes=CURVES,
        machine=machine,
        recorder=recorder,
        methods=("prescribed",),
        choices=CHOICES,
    )


def heel_force(params: Params, compression, rate, law: str = "hunt_crossley"):
    """Force (N) of the heel at a compression (m) and its rate (m/s): 0, with derivative 0, where the law would pull."""
    K, chi = _of_exponent(params, law)
    d = compression - params["offset"]
    if law == "kelvin_voigt":
        return normal.power_kelvin_voigt(d, rate, K, params["m"], params["c"])
    return normal.power_hunt_crossley(d, rate, K, params["m"], chi)


def _of_exponent(params: Params, law: str) -> tuple[Any, Any]:
    """K (N/m^m) and chi (N s/m^(m+1))."""
    m = params["m"]
    reach = jnp.exp(-m * jnp.log(REFERENCE))
    chi = params["c"] * reach if law == "hunt_crossley" else jnp.zeros_like(reach)
    return params["k"] * REFERENCE * reach, chi


def _along(values: np.ndarray, params: Params):
    """Numbers of the motion, moments first, in front of the lanes."""
    return jnp.asarray(values).reshape(-1, *(1,) * len(lanes(params)))


def _outcomes(params: Params, law: str, motion: Squeeze, status):
    compression, rate = _along(motion.compression, params), _along(motion.rate, params)
    force = heel_force(params, compression, rate, law)
    elastic = heel_force(dict(params) | {"c": jnp.zeros_like(params["c"])}, compression, rate, law)
    K, chi = _of_exponent(params, law)

    def work(of):  # trapezoidal, over compression
        return jnp.sum(0.5 * (of[1:] + of[:-1]) * jnp.diff(compression, axis=0), axis=0)

    numbers = {
        "K": K,
        "chi": chi,
        "tangent": params["m"] * params["k"],
        "F_peak": jnp.max(force, axis=0),
        "work": work(force),
        "work_damping": work(force - elastic),
    }
    numbers = {name: jnp.broadcast_to(value, lanes(params)) for name, value in numbers.items()}
    return _told(numbers, status) | {"status": status, "n_steps": jnp.zeros_like(status)}


def _curves(params: Params, law: str, motion: Squeeze, status):
    compression, rate = _along(motion.compression, params), _along(motion.rate, params)
    force = heel_force(params, compression, rate, law)
    curves = {
        "t": jnp.broadcast_to(_along(motion.time, params), force.shape),
        "compression": jnp.broadcast_to(compression, force.shape),
        "compression_rate": jnp.broadcast_to(rate, force.shape),
        "F_z": force,
    }
    return _told(curves, status)


def _told(numbers: Mapping[str, Any], status) -> dict[str, Any]:
    """NaN for lanes that did not finish."""
    return {name: jnp.where(status == FINISHED, value, jnp.nan) for name, value in numbers.items()}
