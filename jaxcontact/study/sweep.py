"""Run a study: cut its space into chunks, simulate each chunk's configurations together, and label the results."""

from collections.abc import Callable, Iterator
from functools import lru_cache

import jax
import numpy as np
import xarray as xr

from jaxcontact.errors import InputError
from jaxcontact.integrate.machine import BAD_VALUE, CANNOT_TOUCH, FINISHED, MOVING_UP, STATUS, simulate
from jaxcontact.integrate.settings import Settings
from jaxcontact.study.definition import Study
from jaxcontact.study.labelled import to_dataset
from jaxcontact.study.units import to_si

Progress = Callable[[int, int], None]  # configurations done, configurations in all

CURVE_CHUNK = 256  # a time history is hundreds of times as large as an outcome


def run(study: Study, *, progress: Progress | None = None, chunk: int = 1024) -> xr.Dataset:
    """Simulate every configuration of `study`, at most `chunk` of them at a time, and return the labelled results.

    A configuration that fails has a status and harms no other. Results do not depend on `chunk`. Numbers are float64
    if the caller enabled it in JAX and float32 otherwise; attribute `dtype` says which. `progress(done, total)` is
    called at the start and after every chunk.
    """
    if isinstance(chunk, bool) or not isinstance(chunk, int) or chunk < 1:
        raise InputError(f"chunk = {chunk!r}: a whole number of at least 1 is needed")
    total, laws = study.space.total, tuple(sorted(study.choices.items()))
    passes = 2 if study.output.curves else 1
    tell = progress or (lambda done, total: None)
    tell(0, passes * total)

    outcomes: dict[str, np.ndarray] = {}
    simulate_lanes = _outcome_function(study.model.machine, study.method, laws)
    for start, stop, params in _chunks(study, chunk):
        _collect(outcomes, simulate_lanes(params, study.settings), start, stop, total, lane_axis=0)
        tell(stop, passes * total)

    curves: dict[str, np.ndarray] = {}
    if study.output.curves:
        trace_lanes = _curve_function(study.model.curves, study.method, laws, study.output.points)
        for start, stop, params in _chunks(study, min(chunk, CURVE_CHUNK)):
            _collect(curves, trace_lanes(params, study.settings), start, stop, total, lane_axis=1)
            tell(total + stop, passes * total)
    return to_dataset(study, outcomes, curves)


def describe_failures(dataset: xr.Dataset) -> str:
    """Say what went wrong and how often, a line per status; empty if every configuration finished."""
    codes, counts = np.unique(dataset["status"].values, return_counts=True)
    failed = [(STATUS[code], count) for code, count in zip(codes, counts, strict=True) if code != FINISHED]
    if not failed:
        return ""
    lines = [f"{sum(count for _, count in failed)} of {counts.sum()} configurations did not finish:"]
    lines += [f"  {count} {name}: {sentence}" for (name, sentence), count in failed]
    return "\n".join(lines)


def raise_if_single_failure(dataset: xr.Dataset) -> None:
    """For a study of one configuration, an impossible start is bad input; in a sweep it is one lane's status."""
    status = dataset["status"]
    if status.ndim == 0 and int(status) in (CANNOT_TOUCH, MOVING_UP, BAD_VALUE):
        name, sentence = STATUS[int(status)]
        raise InputError(f"{dataset.attrs['model']}: {sentence} ({name})\nset here: {dataset.attrs['set']}")


# The functions below are kept between runs, so that studies which differ only in numbers compile once. Every parameter
# and tolerance is an argument of the compiled function, never a constant inside it.


@lru_cache(maxsize=64)
def _outcome_function(machine_of: Callable, method: str, laws: tuple) -> Callable:
    @jax.jit
    def outcomes(params, settings: Settings):
        return simulate(machine_of(method, dict(laws), settings), params)

    return outcomes


@lru_cache(maxsize=64)
def _curve_function(curves_of: Callable, method: str, laws: tuple, points: int) -> Callable:
    @jax.jit
    def lanes_last(params, settings: Settings):
        return curves_of(method, dict(laws), settings, points)(params)

    return lanes_last


def _chunks(study: Study, chunk: int) -> Iterator[tuple[int, int, dict[str, np.ndarray]]]:
    """Each chunk's first and last + 1 configuration, and its parameters in SI units.

    Parameters that vary have shape (lanes,), the others () so that they are not copied per lane. All chunks have the
    same number of lanes, and small studies a power of two, so that few shapes are compiled; the last chunk is filled up
    with its own last row, which costs nothing since lanes step together.
    """
    si = {p.name: to_si(p.unit) for p in study.model.parameters}
    constants = {name: np.asarray(value * si[name]) for name, value in study.constants().items()}
    total = study.space.total
    lanes = min(chunk, 1 << (total - 1).bit_length())
    for start in range(0, total, lanes):
        stop = min(start + lanes, total)
        rows = study.space.rows(start, stop)
        varied = {name: np.pad(v * si[name], (0, lanes - len(v)), mode="edge") for name, v in rows.items()}
        yield start, stop, constants | varied


def _collect(kept: dict, arrays: dict, start: int, stop: int, total: int, *, lane_axis: int) -> None:
    """Copy a chunk's results into arrays over the whole space, lanes first. What nothing varied enters has no lanes."""
    for name, array in arrays.items():
        values = np.asarray(array)
        lanes_first = np.moveaxis(values, lane_axis, 0) if values.ndim > lane_axis else values[np.newaxis]
        kept.setdefault(name, np.empty((total, *lanes_first.shape[1:]), lanes_first.dtype))
        kept[name][start:stop] = lanes_first[: stop - start]
