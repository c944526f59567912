"""Crutch Table 3: total impulses for nine pairs of contact stiffness and damping.

The reference case (mu 0.75, dq5 -0.2 rad/s, q3 12 deg) slides and then sticks. Printed values stand beside ours, at the
default tolerance and converged.
"""

import numpy as np
import xarray as xr

from jaxcontact.study import run as run_study
from jaxcontact.study import study
from jaxcontact.study.published import Published
from jaxcontact.study.sweep import Progress

from ._approaches import side_by_side
from ._crutch import PAIR_CASES, PAIRS, REFERENCE

# P_n and P_t in N s, as printed; the first row is the nominal pair.
PRINTED = np.array(
    [
        (14.409, -9.899),
        (14.476, -9.927),
        (14.461, -9.922),
        (14.353, -9.868),
        (14.241, -9.797),
        (14.428, -9.908),
        (14.394, -9.886),
        (14.343, -9.858),
        (14.331, -9.851),
    ]
)
TOLERANCES = {"default": {}, "converged": {"rtol": 1e-11, "atol": 1e-13}}

SAMPLING = 1e-5  # s

NOTE = """\
d is (converged - printed) / printed. Default and converged impulses differ by {change:.0e} at most.
Why d is not zero: the paper summed sampled forces (trapezoidal rule, its section 5.2), and it seems that what comes
after the last sample is missing. Column "10 us" is the converged P_n up to the last multiple of 10 us: it meets print
within {close:.3f} N s in all rows but chi/5, which ends {late:.1f} us before the next sample. The paper does not state
its step: 10 us is inferred from these numbers.
The printed chi column is not even monotone; converged impulses fall steadily as either parameter rises."""


def run(progress: Progress) -> Published:
    """Run the nine pairs at both tolerances and print them beside the paper's."""
    pairs = {"cases": {"values": PAIR_CASES}, "set": REFERENCE}
    found = {
        name: run_study(study("crutch", **pairs, solver=solver), progress=progress)
        for name, solver in TOLERANCES.items()
    }
    results = side_by_side(found, dim="solver")
    results["printed_P_n"] = ("case", PRINTED[:, 0], {"units": "N s", "long_name": "P_n in Crutch Table 3"})
    results["printed_P_t"] = ("case", PRINTED[:, 1], {"units": "N s", "long_name": "P_t in Crutch Table 3"})
    results["sampled_P_n"] = _until_last_sample(found["converged"])
    default, converged = (np.stack([one["P_n"], one["P_t"]], axis=1) for one in found.values())
    return Published(
        text=f"{_table(results, default, converged)}\n\n{_note(results, default, converged)}", dataset=results
    )


def _until_last_sample(results: xr.Dataset) -> xr.DataArray:
    """P_n up to the last full sampling step: at the end the normal velocity is zero, so F_n = k_n depth^1.5."""
    F_n_end = results["k_n"] * results["depth_end"] ** 1.5
    sampled = results["P_n"] - F_n_end * (results["t_end"] % SAMPLING)
    return sampled.assign_attrs(units="N s", long_name="converged P_n up to the last multiple of 10 us")


def _table(results: xr.Dataset, default: np.ndarray, converged: np.ndarray) -> str:
    percent = 100 * (converged / PRINTED - 1)
    head = f"{'printed':>9} {'default':>9} {'converged':>11} {'d (%)':>8}"
    lines = [
        f"{'':14} {'P_n (N s)':>40} {'':9}   {'P_t (N s)':>40}",
        f"{'k_n':6} {'chi':7} {head} {'10 us':>9}   {head}",
    ]
    for i, (k_n, chi) in enumerate(PAIRS):
        normal, tangential = (
            f"{PRINTED[i, j]:9.3f} {default[i, j]:9.3f} {converged[i, j]:11.6f} {percent[i, j]:+8.3f}" for j in (0, 1)
        )
        lines.append(f"{k_n:6} {chi:7} {normal} {float(results['sampled_P_n'][i]):9.3f}   {tangential}")
    return "\n".join(lines)


def _note(results: xr.Dataset, default: np.ndarray, converged: np.ndarray) -> str:
    odd = PAIRS.index(("k_n", "chi/5"))
    off = np.abs(results["sampled_P_n"].values - PRINTED[:, 0])
    t_end = float(results["t_end"].sel(solver="converged")[odd])
    return NOTE.format(
        change=np.abs(default / converged - 1).max(),
        close=np.delete(off, odd).max(),
        late=1e6 * (SAMPLING - t_end % SAMPLING),
    )
