"""Derivatives of many configurations, batch by batch through the lanes: exact, by parameters and by free names.

The machine carries derivatives by the model's own numbers along (`integrate.tangents`). What a person varies may reach
several of them through [derive]: the formulas' derivatives are taken by JAX and multiplied in here.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxcontact.errors import InputError, unknown
from jaxcontact.integrate.machine import EXCLUDED, FINISHED, NOT_FAILED
from jaxcontact.study.chunks import Chunk, Cut
from jaxcontact.study.definition import Study
from jaxcontact.study.execute import LocalExecutor, job_of
from jaxcontact.study.sensitivity.chosen import TIME, Chosen, names_listed
from jaxcontact.study.units import to_si

AT_A_TIME, AT_A_TIME_WITH_CURVES = 4096, 64  # configurations

Progress = Callable[..., None]  # configurations done, configurations in all, failed so far


class Part(NamedTuple):
    """What was found of one chunk: arrays end with its configurations (n). Failed ones are NaN, and have a status."""

    chunk: Chunk
    status: np.ndarray
    numbers: np.ndarray  # (by, n): the parameters themselves, in stated units
    outcomes: dict[str, np.ndarray]  # (n,)
    curves: dict[str, np.ndarray]  # (points, n); with the time, if any curve is wanted
    outcome_slopes: dict[str, np.ndarray]  # (by, n), per stated unit
    curve_slopes: dict[str, np.ndarray]  # (by, points, n), at a fixed fraction of the run


def names_to_derive_by(study: Study, by: Sequence[str] | None) -> list[str]:
    """Check what derivatives are asked by: numbers that a person gives, of the model or used in [derive].

    Without a list it is what varies; where nothing does, every parameter of the model that is not derived.
    """
    leaves = [p.name for p in study.model.parameters if p.name not in study.derived]
    free = [name for name in (*study.space.names, *study.free_fixed) if name not in leaves]
    used = {name for expression in study.derived.values() for name in expression.names}
    if by is None:
        varied = [name for name in study.space.names if name in leaves or name in used]
        return varied or leaves
    for name in (names := names_listed(by, "by")):
        if name in study.derived:
            text = study.derived[name].text
            raise InputError(
                f"[sensitivity] by: {name} is derived ({text}), so it cannot change while those stay\n"
                f"allowed: what it is derived from: {', '.join(study.derived[name].names)}"
            )
        if name not in (*leaves, *free):
            raise unknown("parameter", name, [*leaves, *free], "[sensitivity] by")
        if name in free and name not in used:
            raise InputError(f"[sensitivity] by: {name} is used in [require] only: no result depends on it")
    return names


def chunks_of_slopes(study: Study, chosen: Chosen) -> list[Chunk]:
    """The chunks in which derivatives will come, in the order of their numbers."""
    return list(_cut(study, chosen).chunks())


def _cut(study: Study, chosen: Chosen) -> Cut:
    return Cut.into(study.space.sizes, AT_A_TIME_WITH_CURVES if chosen.curves else AT_A_TIME)


def stream_slopes(
    study: Study,
    by: Sequence[str],
    chosen: Chosen,
    *,
    executor: LocalExecutor | None = None,
    progress: Progress | None = None,
) -> Iterator[Part]:
    """Run every configuration with derivatives and yield them chunk by chunk, in any order."""
    executor = executor or LocalExecutor()
    if not isinstance(executor, LocalExecutor):
        raise InputError(
            "derivatives run on this machine's devices: a cluster cannot carry them\nallowed: no --cluster"
        )
    cut = _cut(study, chosen)
    leaves = _leaves(study, by)
    times = [f"curves:{TIME}"] if chosen.curves else []
    only = [f"outcomes:{n}" for n in (*chosen.outcomes, "status")] + [
        f"curves:{q.name}" for q in chosen.curves.values()
    ]
    job = job_of(study, cut.most)._replace(by=tuple(leaves), only=tuple(sorted({*only, *times})))
    under_way: dict[Any, tuple[Chunk, Any]] = {}

    def batches():
        for chunk in cut.chunks():
            numbers = study.configurations(chunk.start, chunk.stop)
            under_way[chunk.number] = chunk, numbers
            # Where nothing varies, the model's first parameter is brought all the same.
            constants = study.constant_params()
            params = numbers.params or {name: np.full(chunk.size, constants[name]) for name in job.names}
            yield chunk.number, {name: values[numbers.allowed] for name, values in params.items()}

    done = failed = 0
    total = study.space.total

    def watch(runs: int) -> None:
        if progress is not None:
            progress(min(max(done, runs), total), total, failed)

    watch(0)
    for number, found in executor.stream(job, batches(), watch):
        chunk, numbers = under_way.pop(number)
        part = _part(study, by, leaves, chosen, chunk, numbers.allowed, found)
        done += chunk.size
        failed += int(np.sum(~np.isin(part.status, NOT_FAILED)))
        watch(0)
        yield part


def _leaves(study: Study, by: Sequence[str]) -> list[str]:
    """The model's own parameters through which anything that is asked by acts."""
    reached = set(by)
    for name, expression in study.derived.items():  # in evaluation order
        if not reached.isdisjoint(expression.names):
            reached.add(name)
    return [p.name for p in study.model.parameters if p.name in reached]


def _part(study: Study, by, leaves, chosen: Chosen, chunk: Chunk, allowed: np.ndarray, found: Any) -> Part:
    """Everything over the whole chunk, NaN where nothing was run or a run failed, per stated unit of what is given."""
    status = np.full(chunk.size, EXCLUDED)
    if found is not None:
        status[allowed] = found["values"]["outcomes"]["status"]
    finished = status == FINISHED
    numbers, reach = _reach(study, by, leaves, chunk)

    def whole(values: np.ndarray | None, leading: tuple[int, ...]) -> np.ndarray:
        array = np.full((*leading, chunk.size), np.nan)
        if values is not None:
            array[..., allowed] = values
        array[..., ~finished] = np.nan
        return array

    def slopes(kind: str, name: str, leading: tuple[int, ...]) -> np.ndarray:
        raw = None if found is None else found["slopes"][kind][name]
        by_leaf = whole(raw, (len(leaves), *leading))
        total = np.where(finished, np.zeros((len(by), *leading, chunk.size)), np.nan)
        for i, leaf in np.argwhere(np.any(reach != 0, axis=-1)):
            total[i] += reach[i, leaf] * by_leaf[leaf]
        return total

    def values(kind: str, name: str, leading: tuple[int, ...]) -> np.ndarray:
        return whole(None if found is None else found["values"][kind][name], leading)

    points = (study.output.points,)
    histories = {name: q.name for name, q in chosen.curves.items()}
    if chosen.curves and TIME in {q.name for q in study.model.curve_outcomes}:
        histories.setdefault(TIME, TIME)
    return Part(
        chunk,
        status,
        numbers,
        {name: values("outcomes", name, ()) for name in chosen.outcomes},
        {name: values("curves", inside, points) for name, inside in histories.items()},
        {name: slopes("outcomes", name, ()) for name in chosen.outcomes},
        {name: slopes("curves", inside, points) for name, inside in histories.items()},
    )


def _reach(study: Study, by: Sequence[str], leaves: Sequence[str], chunk: Chunk) -> tuple[np.ndarray, np.ndarray]:
    """What is given (by, n) in stated units, and how the leaves follow it: (by, leaf, n), SI per stated unit."""
    given: dict[str, Any] = study.constants() | study.free_constants() | study.space.rows(chunk.start, chunk.stop)
    size = chunk.size
    given = {name: np.broadcast_to(np.asarray(value, float), (size,)) for name, value in given.items()}
    factor = {p.name: to_si(p.unit) for p in study.model.parameters}
    reach = np.zeros((len(by), len(leaves), size))

    def derived(values):
        for name, expression in study.derived.items():
            values = values | {name: expression.traced(values)}
        return {name: values[name] for name in study.derived}

    for i, name in enumerate(by):
        if name in leaves:
            reach[i, leaves.index(name)] = factor[name]
        if study.derived:
            start = {other: jnp.asarray(value) for other, value in given.items()}
            tangent = {other: (jnp.ones if other == name else jnp.zeros)(size) for other in given}
            _, slopes = jax.jvp(derived, (start,), (tangent,))
            for leaf in leaves:
                if leaf in study.derived:
                    reach[i, leaves.index(leaf)] = factor[leaf] * np.broadcast_to(slopes[leaf], (size,))
    return np.stack([given[name] for name in by]), reach
