"""Work of the host that is done in a thread of its own, beside what the devices do.

On two cores, sweeps of the crutch spent a tenth of their time on drawing configurations and writing results while the
devices stood still.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

Item = TypeVar("Item")
Made = TypeVar("Made")


def one_ahead(make: Callable[[Item], Made], items: Iterable[Item]) -> Iterator[tuple[Item, Made]]:
    """Yield (item, make(item)) of each item, while that of the next one is being made."""
    with ThreadPoolExecutor(1, "jaxcontact-ahead") as thread:
        next_one: tuple[Item, Future[Made]] | None = None
        for item in items:
            this_one, next_one = next_one, (item, thread.submit(make, item))
            if this_one is not None:
                yield this_one[0], this_one[1].result()
        if next_one is not None:
            yield next_one[0], next_one[1].result()


def one_behind(deal_with: Callable[[Item], Any], items: Iterable[Item]) -> Generator[Item]:
    """Yield each item that has been dealt with, while the next one is waited for: never more than one is under way.

    What was begun is finished, whatever happens, once this is closed. An error comes out when the next item is there,
    or in place of whatever else ends this.
    """
    with ThreadPoolExecutor(1, "jaxcontact-behind") as thread:
        before: tuple[Item, Future[Any]] | None = None
        try:
            for item in items:
                if before is not None:
                    before[1].result()
                done, before = before, (item, thread.submit(deal_with, item))
                if done is not None:
                    yield done[0]
        except BaseException as other:
            lost = before[1].exception() if before is not None else None
            if lost is not None and lost is not other:
                raise lost from other
            raise
        if before is not None:
            before[1].result()
            yield before[0]
