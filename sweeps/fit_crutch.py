"""Crutch section 5.5, asked backwards: stiffness, damping and friction of the tip from one force-time curve.

The curve is simulated, not measured: the reference case (mu 0.75, dq5 -0.2 rad/s, q3 12 deg; it slides, then sticks)
at a tolerance 1000 times tighter than the fit's and recorded 20 times as finely, sampled at 20 kHz, with white noise.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxcontact import plots
from jaxcontact.models import get_model
from jaxcontact.models.impact_model import NOMINAL_CHI, NOMINAL_K_N
from jaxcontact.study import run as run_study
from jaxcontact.study import study
from jaxcontact.study.fit import Fit, Problem, Unknown, fit, make_channel
from jaxcontact.study.fit.diagnosis import covariance_of
from jaxcontact.study.fit.labelled import fit_dataset
from jaxcontact.study.fit.profile import Profile, profile
from jaxcontact.study.fit.solvers import REASON_NAMES
from jaxcontact.study.fit.words import describe_fit, describe_profile
from jaxcontact.study.published import Published
from jaxcontact.study.sweep import Progress

from ._crutch import REFERENCE

STARTS = 64
POINTS = 101  # at which the fit records a run
FINE = 2001  # at which the data are made
NOISE = 50.0  # N: 1 % of the peak
RATE = 20e3  # Hz
END = 3.9e-3  # s: the impact lasts 4.0 ms, to the greatest indentation
TRUTH = {"k_n": NOMINAL_K_N, "chi": NOMINAL_CHI, "mu": REFERENCE["mu"]}
UNKNOWNS = (
    Unknown("k_n", 3e6, 3e8, "log", start=1e7),
    Unknown("chi", 1e5, 1e9, "log", start=1e6),
    Unknown("mu", 0.55, 1.2, start=1.0),
)
POSTURE = {name: value for name, value in REFERENCE.items() if name != "mu"}
JUMP = 0.3e-3  # s either way of the moment when the tip sticks
WINDOWS = np.linspace(0.5e-3, END, 33)  # s: how much of the curve is used

NOTE = """\
Truth: k_n {k_n:.6g} N/m^1.5, chi {chi:.6g} N s/m^2.5, mu {mu:g}. Data are simulated, with noise of {noise:g} N.
F_t jumps when the tip sticks. Its samples within {jump:g} ms of that are left out: there a sample tells how curves are
sampled rather than what the contact does.
Off by, in standard deviations: {off}.
Starts that ended in other valleys of the cost: {elsewhere}.
With less of the curve, by the same derivatives (no new fit): at first the tip's velocity hardly changes, and then F_n =
depth^1.5 (k_n - chi v_n) holds stiffness and damping only together: over {early:.1f} ms they correlate by {rho:+.4f}.
An sd falls below 10 % with {mu_ms:.1f} ms of the curve for mu, {k_n_ms:.1f} for k_n, {chi_ms:.1f} for chi."""


def run(progress: Progress, starts: int = STARTS, points: int = POINTS, rate: float = RATE, profiled=("chi",)):
    """Make the curve, find what made it, profile the damping, and ask what a shorter curve would tell."""
    problem = crutch_problem(force_curve(rate), points=points)
    found = fit(problem, starts=starts, progress=progress)
    profiles = [profile(found, name) for name in profiled]
    windows = window_widths(found)
    text = "\n\n".join([describe_fit(found), *(describe_profile(each) for each in profiles), _note(found, windows)])
    dataset = fit_dataset(found).assign(windows)
    return Published(text, dataset, {"fit_crutch": _figure(found, profiles, windows)})


def force_curve(rate: float = RATE, seed: int | None = 12) -> dict[str, np.ndarray]:
    """Times (s) and the tip's forces (N), with noise; without, for seed None. `sticks`: when sliding ends (s)."""
    made = run_study(
        study(
            "crutch",
            cases={"values": {name: [value] for name, value in TRUTH.items()}},
            set=POSTURE,
            solver={"rtol": 1e-11, "atol": 1e-13},
            output={"curves": True, "points": FINE},
        )
    ).isel(case=0)
    times = np.arange(1, int(END * rate) + 1) / rate
    moments = made["t"].values
    sliding = np.abs(made["v_t_tip_curve"].values) > 1e-9
    noise = 0.0 if seed is None else NOISE
    white = np.random.default_rng(seed).standard_normal((2, len(times)))
    forces = {
        name: np.interp(times, moments, made[name].values) + noise * white[i] for i, name in enumerate(("F_n", "F_t"))
    }
    return {"times": times, **forces, "sticks": moments[np.flatnonzero(sliding)[-1]]}


def crutch_problem(curve: Mapping[str, Any], points: int = POINTS) -> Problem:
    """Ask for k_n, chi and mu from a force-time curve."""
    model, times = get_model("crutch"), curve["times"]
    clear = np.abs(times - curve["sticks"]) > JUMP
    channels = [
        make_channel(model, "F_n", "time", curve["F_n"], NOISE, times=times),
        make_channel(model, "F_t", "time", curve["F_t"], NOISE, times=times, valid=clear),
    ]
    title = "Crutch tip: stiffness, damping and friction from one force-time curve (simulated)"
    return Problem.of_model(
        model, unknowns=UNKNOWNS, channels=channels, fixed=POSTURE, points=points, title=title,
        source={"data": f"simulated, converged, with white noise of {NOISE:g} N"},
    )  # fmt: skip


def window_widths(found: Fit) -> dict[str, tuple]:
    """Standard deviations and correlation of k_n and chi if only the first part of the curve had been there."""
    times = np.concatenate([np.asarray(channel.times)[channel.valid] for channel in found.problem.channels])
    free = np.ones(len(UNKNOWNS), bool)
    matrices = np.array([covariance_of(found.diagnosis.jacobian[times <= end], free) for end in WINDOWS])
    sd = np.sqrt(np.diagonal(matrices, axis1=1, axis2=2))
    words = "standard deviation if only this much of the curve were used; of the logarithm on a log scale"
    return {
        "window": ("window", WINDOWS, {"units": "s", "long_name": "length of the curve that is used"}),
        "window_sd": (("window", "unknown"), sd, {"long_name": words}),
        "window_correlation": ("window", matrices[:, 0, 1] / (sd[:, 0] * sd[:, 1]), {"long_name": "of k_n and chi"}),
    }


def _note(found: Fit, windows: dict[str, tuple]) -> str:
    off = {
        each.name: (float(each.size(found.values[each.name])) - float(each.size(TRUTH[each.name]))) / sd
        for each, sd in zip(UNKNOWNS, found.diagnosis.sd, strict=True)
    }
    early = int(np.argmin(np.abs(WINDOWS - 1e-3)))
    sd = windows["window_sd"][1] / [1.0, 1.0, TRUTH["mu"]]
    enough = {f"{name}_ms": 1e3 * WINDOWS[np.argmax(sd[:, i] < 0.1)] for i, name in enumerate(TRUTH)}
    return NOTE.format(
        **TRUTH,
        **enough,
        noise=NOISE,
        jump=1e3 * JUMP,
        off=", ".join(f"{name} {value:+.2f}" for name, value in off.items()),
        elsewhere=_elsewhere(found),
        early=1e3 * WINDOWS[early],
        rho=windows["window_correlation"][1][early],
    )


def _elsewhere(found: Fit) -> str:
    others = found.starts.cost > 1.01 * found.cost
    if not others.any():
        return "none"
    ended = Counter(REASON_NAMES[code] for code in found.starts.reason[others])
    counts = ", ".join(f"{name} {count}" for name, count in ended.items())
    return f"{counts}; their costs are {found.starts.cost[others].min() / found.cost:.1f} times the best one or more"


# ---------------------------------------------------------------- figure


def _figure(found: Fit, profiles: list[Profile], windows: dict[str, tuple]):
    title = "Crutch: stiffness, damping and friction of the tip, found from a simulated force-time curve"
    figure, axes = plots.new_figure(2, 2, title, panel=(4.6, 3.1))
    _curves(axes[0, 0], found)
    _starts(axes[0, 1], found)
    _profiles(axes[1, 0], found, profiles)
    _windows(axes[1, 1], windows)
    for panel in axes.flat:
        panel.legend(fontsize=8)
    return figure


def _curves(axes, found: Fit) -> None:
    for colour, channel, sign in zip(plots.COLOURS, found.problem.channels, (1, -1), strict=False):
        name, times = ("F_n", "-F_t")[sign < 0], 1e3 * np.asarray(channel.times)
        kept = channel.valid
        axes.plot(times[kept], sign * channel.values[kept], ".", color=colour, markersize=3, label=f"{name}, data")
        axes.plot(times, sign * found.predictions[channel.name], color=colour, linewidth=1.2, label=f"{name}, fitted")
    axes.set_xlabel("time since touch-down (ms)")
    axes.set_ylabel("force on the tip (N)")


def _starts(axes, found: Fit) -> None:
    begun, ended = (
        np.array([[float(u.value_at(t)) for u, t in zip(UNKNOWNS, row, strict=True)] for row in rows])
        for rows in (found.starts.first, found.starts.last)
    )
    good = found.starts.cost <= 1.01 * found.cost
    for i in range(len(begun)):
        axes.plot(*np.stack([begun[i], ended[i]])[:, :2].T, color="0.8", linewidth=0.6, zorder=1)
    axes.plot(*begun[:, :2].T, ".", color="0.6", markersize=4, label=f"{len(begun)} starts")
    if not good.all():
        axes.plot(*ended[~good, :2].T, "x", color=plots.COLOURS[1], label=f"{np.sum(~good)} ended elsewhere")
    axes.plot(*ended[good, :2].T, "o", color=plots.COLOURS[0], label=f"{np.sum(good)} ended at the best cost")
    axes.plot(TRUTH["k_n"], TRUTH["chi"], "+", color="black", markersize=12, label="truth")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(plots.raised("stiffness k_n (N/m^1.5)"))
    axes.set_ylabel(plots.raised("damping chi (N s/m^2.5)"))


def _profiles(axes, found: Fit, profiles: list[Profile]) -> None:
    for colour, each in zip(plots.COLOURS, profiles, strict=False):
        place = found.problem.names.index(each.name)
        unknown, sd = UNKNOWNS[place], found.diagnosis.sd[place]
        off = np.log(each.values / each.best) if unknown.scale == "log" else each.values - each.best
        lowest, factor = min(each.cost.min(), found.cost), each.values / TRUTH[each.name]
        axes.plot(factor, each.cost - lowest, "o", color=colour, markersize=4, label=f"{each.name}, all others fitted")
        axes.plot(
            factor, (off / sd * found.diagnosis.widened) ** 2, color=colour, linewidth=1, label="from its interval"
        )
        axes.axhline(each.threshold - lowest, color=plots.GREY, linestyle=":", linewidth=1, label="95 %")
    axes.axvline(1.0, color="black", linewidth=0.8, label="truth")
    axes.set_xlabel("value over truth (1)")
    axes.set_ylabel("rise of the cost (1)")


def _windows(axes, windows: dict[str, tuple]) -> None:
    for i, (each, colour) in enumerate(zip(UNKNOWNS, plots.COLOURS, strict=False)):
        sd = windows["window_sd"][1][:, i] / (1.0 if each.scale == "log" else TRUTH[each.name])
        axes.plot(1e3 * WINDOWS, 100 * sd, color=colour, label=each.name)
    axes.set_yscale("log")
    axes.set_ylim(0.3, 1e3)
    axes.set_xlabel("how much of the curve is used (ms)")
    axes.set_ylabel("standard deviation (% of the value)")
