"""Certify a model: draw configurations, differentiate exactly, run differences, judge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from jaxcontact.errors import InputError, unknown
from jaxcontact.integrate.machine import FINISHED, STATUS_NAMES
from jaxcontact.integrate.settings import Settings
from jaxcontact.models.model import Model
from jaxcontact.study.certificates import judge
from jaxcontact.study.certificates.differences import DIAGNOSTICS, STEPS, Differences, Meter, Progress
from jaxcontact.study.certificates.draw import draw, sizes
from jaxcontact.study.certificates.happenings import MEANINGS, regimes, what_modes_mean
from jaxcontact.study.certificates.runs import Runs

LIMIT = 1e-5  # largest relative error away from kinks
RTOL = 1e-12  # of certificates; atol is a hundredth of rtol
RTOL_ALLOWED = (1e-14, 1e-3)  # below, rounding rules the steps
COUNT = 64
ENOUGH = 0.5  # share of the derivatives that has to be compared, for a certificate to say anything


@dataclass(frozen=True)
class Certificate:
    """What was found. Arrays are (outcome, leaf, case) or (case,), cases being those configurations that finished."""

    model: str
    method: str
    laws: Mapping[str, str]
    settings: Settings
    usual: Settings  # the default tolerance
    seed: int
    count: int
    limit: float
    leaves: tuple[str, ...]
    outcomes: tuple[str, ...]
    params: Mapping[str, np.ndarray]  # of the cases, SI units
    numbers: np.ndarray  # of the cases among all that were drawn
    failed: Mapping[str, int]  # how many configurations did not finish, by status
    events: np.ndarray  # landings on events
    met: Mapping[str, np.ndarray]  # how often each kind of event happened (`happenings`)
    regimes: Mapping[str, int]  # how many configurations had each; for models of single impacts
    exact: np.ndarray  # by relative changes of the leaves
    verdict: judge.Verdict
    reach: np.ndarray  # (leaf, case): the longest relative step with the same events on both sides; 0: none
    moved: np.ndarray  # (leaf, case): whether some step met other events
    at_usual: np.ndarray  # relative distance of derivatives at the default tolerance from these

    @property
    def finite(self) -> bool:
        """Whether every derivative is a number."""
        return bool(np.all(np.isfinite(self.exact)))

    @property
    def holds(self) -> bool:
        """Whether enough could be compared, and no derivative is wrong, NaN or infinite."""
        return bool(self.compared >= ENOUGH and self.finite and not self.verdict.wrong.any())

    @property
    def compared(self) -> float:
        """Share of the derivatives that differences resolve, confirm to be 0, or check on one side of a kink."""
        kind, unchecked = self.verdict.kind, self.verdict.unchecked
        told = (kind == judge.RESOLVED) | (kind == judge.NEARLY_ZERO) | ((kind == judge.KINK) & ~unchecked)
        told = told[:, [leaf not in self.unused for leaf in self.leaves]]
        return float(np.mean(told)) if told.size else 0.0

    @property
    def unused(self) -> tuple[str, ...]:
        """Leaves by which every derivative is exactly 0, and every difference too."""
        moves = (self.exact != 0) | (self.verdict.difference != 0)  # NaN moves
        return tuple(leaf for i, leaf in enumerate(self.leaves) if not moves[:, i].any())

    def errors(self, outcome: str | None = None) -> np.ndarray:
        """Relative errors of what differences can resolve, away from kinks and by leaves that are used."""
        rows = slice(None) if outcome is None else [self.outcomes.index(outcome)]
        used = [leaf not in self.unused for leaf in self.leaves]
        kept = self.verdict.kind[rows][:, used] == judge.RESOLVED
        return self.verdict.error[rows][:, used][kept]


def certify(
    model: Model,
    method: str | None = None,
    laws: Mapping[str, str] | None = None,
    *,
    count: int = COUNT,
    seed: int = 0,
    by: Sequence[str] = (),
    outcomes: Sequence[str] = (),
    rtol: float = RTOL,
    limit: float = LIMIT,
    params: Mapping[str, np.ndarray] | None = None,
    progress: Progress = lambda done, total: None,
) -> Certificate:
    """Hold derivatives of the outcomes by leaves against differences, in random configurations around the defaults.

    Without names it is all leaves, and all real outcomes but DIAGNOSTICS. `params` (SI units, one array a leaf) are
    configurations to take instead of random ones. Needs float64.
    """
    method, laws = checked_choice(model, method, laws or {})
    _check_numbers(count, rtol, limit)
    leaves = _chosen("parameter", by, [p.name for p in model.parameters], ())
    wanted = _chosen("outcome", outcomes, [q.name for q in model.outcomes if not q.labels], DIAGNOSTICS)
    settings = Settings(rtol=rtol, atol=1e-2 * rtol, first_step=1e-5, max_steps=500_000)
    drawn = dict(params) if params is not None else draw(model, count, seed)
    count = len(next(iter(drawn.values())))
    runs = Runs(model, method, laws, settings)
    meter = Meter(progress, count * len(leaves) * (2 + 2 * len(STEPS)))

    # Exact derivatives at both tolerances.
    values, slopes = runs.slopes(drawn, leaves, watch=meter.each(len(leaves)))
    for name in outcomes:
        if name not in slopes:
            raise InputError(f"outcome '{name}' has no derivative in method {method}")
    names = tuple(name for name in wanted if name in slopes)
    ran = values["status"] == FINISHED
    cases = {name: value[ran] for name, value in drawn.items()}
    _, loose = runs.slopes(drawn, leaves, replace(settings, **_tolerance(Settings())), meter.each(len(leaves)))
    size = sizes(model, cases)
    widths = np.stack([size[leaf] for leaf in leaves])
    exact, at_usual = (np.stack([s[name][:, ran] for name in names]) * widths for s in (slopes, loose))

    # Differences of whole runs.
    unit_of = {q.name: q.unit for q in model.outcomes}
    units = [unit_of[name] for name in names]
    here = {name: value[ran] for name, value in values.items()}
    found = Differences(runs, cases, here, names, leaves, size, meter, units).of(exact, limit)
    verdict = judge.judge(exact, found, limit, units)
    return Certificate(
        model=model.name,
        method=method,
        laws=laws,
        settings=settings,
        usual=Settings(),
        seed=seed,
        count=count,
        limit=limit,
        leaves=leaves,
        outcomes=names,
        params=cases,
        numbers=np.flatnonzero(ran),
        failed={
            STATUS_NAMES[code]: int(np.sum(values["status"] == code)) for code in np.unique(values["status"][~ran])
        },
        events=here["events"],
        met={name: here[name] for name in MEANINGS[what_modes_mean(model, method)]},
        regimes=regimes(model, here),
        exact=exact,
        verdict=verdict,
        reach=found.reach,
        moved=found.moved,
        at_usual=np.abs(at_usual - exact) / np.where(verdict.scale > 0, verdict.scale, 1.0),
    )


def checked_choice(model: Model, method: str | None, laws: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return method and laws, the defaults where none is named, or say what is allowed."""
    method = method or model.methods[0]
    if method not in model.methods:
        raise unknown("method", method, model.methods)
    for name, law in laws.items():
        if name not in model.choices:
            raise unknown("law", name, model.choices)
        if law not in model.choices[name]:
            raise unknown(f"{name} law", law, model.choices[name])
    return method, {name: laws.get(name, allowed[0]) for name, allowed in model.choices.items()}


def _check_numbers(count: int, rtol: float, limit: float) -> None:
    if not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        raise InputError("a certificate needs float64: differences of float32 runs tell nothing")
    if count < 1:
        raise InputError(f"count {count}: at least 1 configuration is needed")
    if not RTOL_ALLOWED[0] <= rtol <= RTOL_ALLOWED[1]:
        raise InputError(f"rtol {rtol:g}: a number from {RTOL_ALLOWED[0]:g} to {RTOL_ALLOWED[1]:g} is needed")
    if not 0 < limit < 1:
        raise InputError(f"limit {limit:g}: a number between 0 and 1 is needed")


def _chosen(kind: str, named: Sequence[str], allowed: list[str], left_out: Sequence[str]) -> tuple[str, ...]:
    for name in named:
        if name not in allowed:
            raise unknown(kind, name, allowed)
    return tuple(named) or tuple(name for name in allowed if name not in left_out)


def _tolerance(settings: Settings) -> dict[str, Any]:
    return {"rtol": settings.rtol, "atol": settings.atol, "first_step": settings.first_step}
