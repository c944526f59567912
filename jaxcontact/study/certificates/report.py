"""A certificate in words and in numbers that JSON can hold."""

from typing import Any

import numpy as np

from jaxcontact.study.certificates import judge
from jaxcontact.study.certificates.certify import ENOUGH, Certificate
from jaxcontact.study.certificates.differences import DIAGNOSTICS, FINER, STEPS
from jaxcontact.study.certificates.draw import range_of

MOST = 5  # worst cases and kinks that are printed
_QUANTILES = {"median": 0.5, "95 %": 0.95, "99 %": 0.99, "worst": 1.0}
_HEAD = ("OUTCOME", "COMPARED", "MEDIAN", "95 %", "99 %", "WORST", "UNRESOLVED", "ZERO", "KINKS", "WRONG")


def text(certificate: Certificate) -> str:
    """Everything that a person should know, in lines."""
    c = certificate
    laws = ", ".join(f"{name} {law}" for name, law in c.laws.items())
    lines = [
        f"{c.model}, {c.method} ({laws or 'no laws to choose'})",
        f"derivatives of {len(c.outcomes)} outcomes by {len(c.leaves)} leaves, exact against differences of whole runs",
        f"{c.count} configurations, seed {c.seed}, rtol {c.settings.rtol:g}, atol {c.settings.atol:g}; "
        + (f"did not finish: {_counts(c.failed)}" if c.failed else "all finished"),
    ]
    if len(c.numbers):
        lines += [*happenings(c), *_what_error_means(), "", *_table(c), ""]
        lines += _worst(c) + _kinks(c)
    if c.unused:
        lines.append(f"unused, with derivatives of exactly 0: {', '.join(c.unused)}")
    return "\n".join([*lines, "", conclusion(c)])


def happenings(certificate: Certificate) -> list[str]:
    """What the runs went through, in lines."""
    c = certificate
    if not c.events.any() and not c.regimes:
        return ["the runs went through no events: nothing is integrated, or nothing switches"]
    lines = []
    if c.regimes:
        lines.append(
            "each run begins with a touch-down; runs by regime: "
            + ", ".join(f"{count} {name}" for name, count in c.regimes.items())
        )
    if c.events.any():
        lines.append(f"events that runs went through: {_span(c.events)}, of which")
        lines += [
            f"  {name}: {f'{_span(counts)} in a run, met in {np.sum(counts > 0)} runs' if counts.any() else 'none'}"
            for name, counts in c.met.items()
        ]
        rest = c.events - sum(c.met.values())
        lines.append(f"  other (a largest value, the end of a run): {_span(rest)}")
    return lines


def conclusion(certificate: Certificate) -> str:
    """Whether it holds, in a sentence or two."""
    c, v = certificate, certificate.verdict
    if not len(c.numbers):
        return "THE CERTIFICATE DOES NOT HOLD: no configuration finished"
    errors = c.errors()
    if c.holds:
        worst = f"worst relative error {errors.max():.1e}" if errors.size else "nothing to resolve"
        away = f", away from {_kink_count(c)} kinks" if _kink_count(c) else ""
        return f"the certificate holds: {worst}, allowed {c.limit:g}{away}; {c.compared:.1%} of derivatives compared"
    reasons = []
    if not c.finite:
        reasons.append(f"{np.sum(~np.isfinite(c.exact))} derivatives are NaN or infinite")
    if wrong := int(np.sum(v.wrong & np.isfinite(c.exact))):
        reasons.append(f"{wrong} of {v.wrong.size} derivatives differ from differences by more than {c.limit:g}")
    if c.compared < ENOUGH:
        reasons.append(f"only {c.compared:.0%} of the derivatives could be compared, {ENOUGH:.0%} are needed")
    return f"THE CERTIFICATE DOES NOT HOLD: {' and '.join(reasons)}"


def as_dict(certificate: Certificate, model: Any) -> dict[str, Any]:
    """The certificate for JSON: what was asked, every outcome's errors, and the numbers that reproduce each case."""
    c = certificate
    return {
        "model": c.model,
        "method": c.method,
        "laws": dict(c.laws),
        "holds": c.holds,
        "conclusion": conclusion(c),
        "limit": c.limit,
        "error_is": " ".join(_what_error_means()),
        "settings": {k: v for k, v in c.settings.as_dict().items() if v != float("inf")},
        "count": c.count,
        "seed": c.seed,
        "not_finished": dict(c.failed),
        "compared": c.compared,
        "regimes": dict(c.regimes),
        "events": {"all": c.events.tolist(), **{name: counts.tolist() for name, counts in c.met.items()}},
        "ranges": {
            p.name: {"low": range_of(p).low, "high": range_of(p).high, "unit": p.unit, "log": range_of(p).log}
            for p in model.parameters
        },
        "leaves": list(c.leaves),
        "unused": list(c.unused),
        "outcomes": {name: summary(c, name) for name in c.outcomes},
        "worst": [case(c, place) for place in worst_places(c)],
        "wrong": [case(c, place) for place in np.argwhere(c.verdict.wrong)[:100].tolist()],
        "kinks": kinks(c)[:1000],
        "configurations": {
            int(number): {name: float(values[i]) for name, values in c.params.items()}
            for i, number in enumerate(c.numbers)
        },
        "configurations_are_in": "SI units, angles in rad",
    }


def summary(certificate: Certificate, outcome: str) -> dict[str, Any]:
    """Counts and quantiles of one outcome."""
    c, i = certificate, certificate.outcomes.index(outcome)
    kinds, errors = c.verdict.kind[i], c.errors(outcome)
    used = np.array([leaf not in c.unused for leaf in c.leaves])
    counts = {name: int(np.sum(kinds[used] == code)) for code, name in enumerate(judge.KINDS)}
    unresolved = kinds == judge.UNRESOLVED
    blur = (c.verdict.uncertainty[i] / np.where(c.verdict.scale[i] > 0, c.verdict.scale[i], 1.0))[unresolved]
    usual = c.at_usual[i][kinds == judge.RESOLVED]
    return {
        **counts,
        "wrong": int(np.sum(c.verdict.wrong[i])),
        "quantiles": _quantiles(errors),
        "unresolved_to": float(np.max(blur)) if blur.size else None,
        "at_default_tolerance": _quantiles(usual),
    }


def worst_places(certificate: Certificate, most: int = MOST) -> list[list[int]]:
    """Outcome, leaf and case of the largest errors: wrong ones first, then those that differences resolve."""
    v = certificate.verdict
    rank = np.where(v.wrong, 1e6, 0.0) + np.where((v.kind == judge.RESOLVED) | v.wrong, np.nan_to_num(v.error), 0.0)
    order = np.argsort(rank, axis=None)[::-1][:most]
    places = np.stack(np.unravel_index(order, rank.shape), axis=1).tolist()
    return [place for place in places if rank[tuple(place)] > 0]


def case(certificate: Certificate, place: list[int]) -> dict[str, Any]:
    """One derivative with all that was found about it; derivatives are by a relative change of the leaf."""
    c, v = certificate, certificate.verdict
    o, leaf, i = place
    name = c.leaves[leaf]
    return {
        "configuration": int(c.numbers[i]),
        "outcome": c.outcomes[o],
        "leaf": name,
        "value_of_leaf": float(c.params[name][i]),
        "kind": judge.KINDS[v.kind[o, leaf, i]],
        "exact": _number(c.exact[o, leaf, i]),
        "difference": _number(v.difference[o, leaf, i]),
        "uncertainty": _number(v.uncertainty[o, leaf, i]),
        "error": _number(v.error[o, leaf, i]),
        "wrong": bool(v.wrong[o, leaf, i]),
    }


def kinks(certificate: Certificate) -> list[dict[str, Any]]:
    """Where outcomes have a kink: leaf, configuration, how near (a relative change of the leaf), and of which kind."""
    c, v = certificate, certificate.verdict
    found = []
    for leaf, i in np.argwhere((v.kind == judge.KINK).any(axis=0)).tolist():
        bent = v.kind[:, leaf, i] == judge.KINK
        reach = float(c.reach[leaf, i])
        moved = bool(c.moved[leaf, i])
        found.append(
            {
                "configuration": int(c.numbers[i]),
                "leaf": c.leaves[leaf],
                "value_of_leaf": float(c.params[c.leaves[leaf]][i]),
                "within": 2 * reach if reach else float(FINER[-1]),
                "why": "events come, go or change their order" if moved else "an outcome bends without an event",
                "outcomes": [name for name, here in zip(c.outcomes, bent, strict=True) if here],
                "unchecked": bool(v.unchecked[:, leaf, i].any()),
            }
        )
    return found


# ---------------------------------------------------------------- lines


def _what_error_means() -> list[str]:
    return [
        "an error is relative to the derivative itself, or to 1e-2 of the largest derivative of that outcome in that",
        "configuration; derivatives are by relative changes of the leaves; differences of second and fourth order with",
        f"steps of {STEPS[0]:.1e} to {STEPS[-1]:.1e} ({FINER[-1]:.1e} near kinks); unresolved: the difference is less"
        " certain than the limit",
        f"and agrees within its uncertainty; not among the outcomes unless named: {', '.join(DIAGNOSTICS)}",
    ]


def _table(c: Certificate) -> list[str]:
    rows: list[tuple[str, ...]] = [(*_HEAD, f"AT RTOL {c.usual.rtol:g}: 99 %", "WORST")]
    for name in c.outcomes:
        s = summary(c, name)
        q, usual = s["quantiles"], s["at_default_tolerance"]
        counts = (str(s[key]) for key in ("unresolved", "zero", "kink", "wrong"))
        rows.append((name, str(s["resolved"]), *_shown(q), *counts, *_shown(usual)[2:]))
    everything = _quantiles(c.errors())
    rows.append(("all", str(c.errors().size), *_shown(everything)))
    widths = [max(len(row[i]) for row in rows if i < len(row)) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=False)).rstrip() for row in rows]


def _worst(c: Certificate) -> list[str]:
    lines = ["worst:"] if worst_places(c) else []
    for place in worst_places(c):
        w = case(c, place)
        mark = "WRONG " if w["wrong"] else ""
        lines.append(
            f"  {mark}d {w['outcome']} / d {w['leaf']} in configuration {w['configuration']} ({w['leaf']} ="
            f" {w['value_of_leaf']:.9g}, {w['kind']}): exact {w['exact']:.9g}, difference {w['difference']:.9g} +-"
            f" {w['uncertainty']:.1e}, error {w['error']:.1e}"
        )
    return lines


def _kinks(c: Certificate) -> list[str]:
    found = kinks(c)
    if not found:
        return ["kinks: none"]
    unchecked = sum(k["unchecked"] for k in found)
    lines = [
        f"kinks: {len(found)} pairs of leaf and configuration in {len({k['configuration'] for k in found})}"
        f" configurations; {len(found) - unchecked} agree with the side on which events stay, {unchecked} have no such"
        " side"
    ]
    for k in sorted(found, key=lambda k: k["within"])[:MOST]:
        lines.append(
            f"  {k['leaf']} = {k['value_of_leaf']:.9g} in configuration {k['configuration']},"
            f" within {k['within']:.1e} of it: {k['why']}"
        )
    return lines


def _kink_count(c: Certificate) -> int:
    return int((c.verdict.kind == judge.KINK).any(axis=0).sum())


def _counts(failed) -> str:
    return ", ".join(f"{count} {status}" for status, count in failed.items())


def _span(counts: np.ndarray) -> str:
    return f"{counts.min()}" if counts.min() == counts.max() else f"{counts.min()} to {counts.max()}"


def _quantiles(errors: np.ndarray) -> dict[str, float] | None:
    if not errors.size:
        return None
    return dict(
        zip(("median", "95 %", "99 %", "worst"), np.quantile(errors, [0.5, 0.95, 0.99, 1.0]).tolist(), strict=True)
    )


def _shown(quantiles: dict[str, float] | None) -> tuple[str, ...]:
    return ("-",) * 4 if quantiles is None else tuple(f"{value:.1e}" for value in quantiles.values())


def _number(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None
