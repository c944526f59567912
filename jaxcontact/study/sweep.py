"""Run a study: cut its space into chunks, run them wherever there is room, and label what they find."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import xarray as xr

from jaxcontact.errors import InputError
from jaxcontact.integrate.machine import BAD_VALUE, CANNOT_TOUCH, MOVING_UP, NOT_FAILED, STATUS
from jaxcontact.study.beside import one_behind
from jaxcontact.study.checks import whole_number
from jaxcontact.study.chunks import USUAL, USUAL_WITH_CURVES, Chunk, Cut
from jaxcontact.study.definition import Configurations, Study
from jaxcontact.study.execute import Executor, Found, LocalExecutor, compute
from jaxcontact.study.labelled import InMemory, chunk_values
from jaxcontact.study.store import Store

Progress = Callable[..., None]  # configurations done, configurations in all, failed so far


def run(
    study: Study,
    *,
    out: str | Path | None = None,
    fresh: bool = False,
    chunk: int | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
    notice: Callable[[str], None] = lambda text: None,
) -> xr.Dataset:
    """Simulate every configuration of `study` and return the labelled results.

    With `out`, results stream to that folder chunk by chunk, memory is bounded by the chunk, and what an earlier run of
    the same study left there is gone on with (`fresh`: thrown away first); the dataset returned reads from disk.
    Without it they stay in memory. `chunk` is the largest number of configurations computed and written together, and
    `executor` where they run: by default on all devices of this process.

    A configuration that fails has a status and harms no other. Numbers are float64 if the caller enabled it in JAX and
    float32 otherwise; attribute `dtype` says which. `progress(done, total, failed)` is called as the run goes on, and
    `notice` with what a person should know about the store: damage that was found, and what is done about it.
    """
    if not isinstance(study, Study):
        raise InputError(f"run: a study is needed, not {study!r}\nallowed: study(...), or Study.from_file(path)")
    if fresh and out is None:
        raise InputError("fresh = True: there is nothing to throw away without out = a directory")
    if chunk is not None:
        chunk = whole_number(chunk, "chunk", least=1)
    executor = executor or LocalExecutor()
    most = chunk or (USUAL_WITH_CURVES if study.output.curves else USUAL)
    if out is None:
        cut = Cut.into(study.space.sizes, most)
        kept = InMemory(study, cut)
        _fill(study, kept, executor, progress)
        return kept.dataset()
    store = Store(out, study, chunk=most, fresh=fresh)
    if study.space.dims == () and not store.begun:
        _try_one(study, executor)  # before anything is written: if it is impossible, nothing is
    with store:
        for text in store.notices():
            notice(text)
        _fill(study, store, executor, progress)
        return store.dataset()


def _fill(study: Study, kept: InMemory | Store, executor: Executor, progress: Progress | None) -> None:
    """Compute the chunks that are missing and keep them, telling how far it is."""
    done, failed, total = kept.configurations_done, kept.failed, study.space.total
    returned = latest = 0

    def tell(runs: int) -> None:
        nonlocal latest
        latest = runs
        if progress is not None:  # runs of chunks that are not complete yet count too
            progress(min(done + max(0, latest - returned), total), total, failed)

    def keep(one: tuple[Chunk, Configurations, Found]) -> None:
        chunk, numbers, found = one
        if study.space.dims == ():
            _raise_if_impossible(study, int(found["outcomes"]["status"][0]))
        kept.write(chunk, chunk_values(study, chunk, numbers, found))

    tell(0)
    computed = compute(study, kept.missing(), executor, kept.cut.most, tell)
    with closing(one_behind(keep, computed)) as in_place:  # closed before the store is: what was begun is written
        for chunk, numbers, found in in_place:
            returned += int(numbers.allowed.sum())
            done += chunk.size
            failed += int(np.sum(~np.isin(found["outcomes"]["status"], NOT_FAILED)))
            tell(max(latest, returned))


def _try_one(study: Study, executor: Executor) -> None:
    """Run a study of one configuration for its status alone."""
    _fill(study, InMemory(study, Cut.into((), 1)), executor, None)


def _raise_if_impossible(study: Study, status: int) -> None:
    """For a study of one configuration, an impossible start is bad input; in a sweep it is one lane's status."""
    if status in (CANNOT_TOUCH, MOVING_UP, BAD_VALUE):
        name, sentence = STATUS[status]
        values = {**study.fixed, **study.free_constants()}
        text = "; ".join(f"{each} = {value:.12g} {study.units_of(each)}" for each, value in values.items())
        raise InputError(f"{study.model.name}: {sentence} ({name})\nset here: {text or 'nothing: defaults only'}")
