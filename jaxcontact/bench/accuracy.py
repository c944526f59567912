"""What is right: impulses at a far smaller tolerance, held against scipy's; and how far off somebody is."""

from dataclasses import dataclass

import numpy as np

from jaxcontact.bench.cases import Cases
from jaxcontact.bench.ours import crutch_sweep_of, found_by
from jaxcontact.bench.peers import Found
from jaxcontact.bench.peers.chain import crutch_chain
from jaxcontact.integrate.settings import Settings

TIGHT = Settings(rtol=1e-12, atol=1e-14)
REFEREED = 16  # configurations that scipy computes again, with an 8th-order method


@dataclass(frozen=True)
class Errors:
    """Largest error of the two impulses relative to the normal one, over the configurations that finished."""

    median: float
    p95: float  # what one in twenty exceeds
    largest: float
    unfinished: int = 0

    def __str__(self) -> str:
        failed = f", {self.unfinished} unfinished" if self.unfinished else ""
        return f"median {self.median:.1e}, 95 % {self.p95:.1e}, largest {self.largest:.1e}{failed}"


def errors(found: Found, truth: Found) -> Errors:
    """Hold impulses against the truth; `found` may have only the first of its configurations."""
    count = len(found.P_n)
    apart = [np.abs(ours - right[:count]) for ours, right in zip(found[:2], truth[:2], strict=True)]
    error = np.maximum(*apart) / np.abs(truth.P_n[:count])
    known = error[np.isfinite(error)]
    if not known.size:
        return Errors(np.nan, np.nan, np.nan, count)
    return Errors(float(np.median(known)), float(np.quantile(known, 0.95)), float(known.max()), count - known.size)


def truth_of(cases: Cases) -> Found:
    """Our own impulses at a tolerance that leaves nothing but rounding."""
    return found_by(crutch_sweep_of(cases, TIGHT))


def referee(cases: Cases, truth: Found, count: int = REFEREED) -> Errors:
    """How far our truth is from scipy's (DOP853, rtol 1e-12) in some configurations."""
    from jaxcontact.bench.peers.in_scipy import case_rows, impact

    rows = case_rows(crutch_chain(), cases.first(count))
    found = np.array([impact(crutch_chain(), row, rtol=1e-12, method="DOP853") for row in rows])
    return errors(Found(*found.T), truth)
