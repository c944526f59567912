"""Many runs through a few lanes. Lanes step together; one that is done is written out and refilled with the next run.

So the cost follows the mean number of steps, not the slowest run's, and a run that hangs holds up one lane. Batches of
configurations stream through: lanes still at work when a batch's queue is empty go on beside the next batch, so there
is no tail but the last one. Every device has lanes and a queue of its own and never waits for another inside the
compiled program. The program pauses after a number of steps, so that the host can be interrupted and tell how far it
is; nothing is compiled again for another batch, setting or number of steps.
"""

import time
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxcontact.errors import InputError
from jaxcontact.integrate.settings import Settings
from jaxcontact.integrate.turns import Turns, turns_on
from jaxcontact.study.lane_program import Builder, Carry, building_turns, compiled_program, machine_shapes
from jaxcontact.study.together import apart, rooms_for
from jaxcontact.study.uncollected import collecting_later

# How many lanes a device has at most by default. A CPU's are few enough for the states to stay in its cache, and no
# power of two, whose rows would fall on the same lines of it (measured on the crutch: 320 lanes 6 % slower than 504,
# 632 alike, 256 a quarter slower; float32 has room for twice as many); an accelerator needs enough to be busy.
CPU_LANES, ACCELERATOR_LANES = 504, 2**15
_FEWER_ON_CPU = (1, 8, 120, 240)  # for smaller studies; each number of lanes is a program to compile
_STEP_OF_NO_LANES = 60  # a step takes as long as to compute so many lanes, before it has computed any
_QUEUES = (1, 4, 32)  # configurations in a device's queue, per lane
_MOST_BYTES = {"cpu": 2**27}  # that lanes and results may take on a device; time histories are large
_MOST_BYTES_ELSEWHERE = 2**31
_MOST_BYTES_KEPT = 2**24  # of a device, between two streams
_PAUSE = 0.5  # s that the compiled program may run before the host has a look

Numbers = Mapping[str, np.ndarray]


def _fitting(runs: int, usual: int, on_cpu: bool) -> int:
    """How many lanes suit so many runs: few different numbers, so that few programs are compiled.

    Runs of a study take about as many steps each, so what counts is how often all lanes are filled, and what a step of
    them costs: on a CPU so much for its kernels and so much for each lane. An accelerator has room.
    """
    if not on_cpu:
        return next((lanes for lanes in (1, 8, 64, 512, 4096) if runs <= lanes <= usual), usual)
    if runs == 1:
        return 1
    choices = [*(lanes for lanes in _FEWER_ON_CPU if 1 < lanes < usual), usual]
    return min(choices, key=lambda lanes: -(-runs // lanes) * (lanes + _STEP_OF_NO_LANES))


@dataclass
class _Batch:
    """A batch on its way: its numbers, until it is complete, and what has come back."""

    varied: Numbers
    missing: int
    results: list[np.ndarray] = field(default_factory=list)  # configurations first


class _Legacy:
    """What one driver of a program leaves to the next, which without it would take 4 ms more for a small sweep."""

    def __init__(self) -> None:
        self.budget = 32  # steps that the program may take until it pauses
        self.carry = deque[Carry](maxlen=1)  # lanes without work

    def adapt(self, steps: int, seconds: float) -> None:
        """Choose how many steps the next call may take; one that compiled tells nothing but is short of the mark."""
        if steps >= self.budget:
            self.budget = int(np.clip(self.budget * min(4.0, _PAUSE / max(seconds, 1e-3)), 16, 2**20))


@lru_cache(maxsize=64)
def _legacy(build: Builder, devices: tuple[Any, ...], *shape: Hashable) -> _Legacy:
    return _Legacy()


def _size(varied: Numbers) -> int:
    """How many configurations a batch has."""
    return len(next(iter(varied.values()), ()))


@dataclass
class Tally:
    """What a stream has cost: machine steps times lanes, runs that came back, and how often memory ran out."""

    lane_steps: int = 0
    runs: int = 0
    shrunk: int = 0


class LaneDriver:
    """Streams batches of configurations through lanes on one or more devices.

    `build(settings)` gives the machine; the same function object means the same compiled program. `constants` are the
    parameters shared by all configurations (SI numbers), `names` those that each configuration brings. At most `total`
    configurations will come, small studies get few lanes; at most `batch` of them at a time, if that is known.
    `lanes` is the most that a device may have. `step_kernel` is "xla", or "pallas" for several steps in one kernel of
    our own; `steps_per_turn` says how many steps are taken before one looks which lanes are done (see `turns`).
    """

    def __init__(
        self,
        build: Builder,
        settings: Settings,
        constants: Mapping[str, float],
        names: Iterable[str],
        *,
        total: int,
        batch: int | None = None,
        devices: Iterable[Any] | None = None,
        lanes: int | None = None,
        watch: Callable[[int], None] = lambda runs: None,
        step_kernel: str = "xla",
        steps_per_turn: int | None = None,
    ) -> None:
        available = tuple(devices) if devices is not None else tuple(jax.local_devices())
        on_cpu = available[0].platform == "cpu"
        turns = turns_on(available[0].platform, step_kernel, steps_per_turn)
        on_cpu_usual = CPU_LANES * 8 // np.dtype(jnp.result_type(float)).itemsize
        usual = lanes or (on_cpu_usual if on_cpu else ACCELERATOR_LANES)
        # A quarter of its lanes is worth a core: with fewer, steps are mostly kernels' own time.
        self._devices = available[: max(1, min(len(available), -(-total // (max(1, usual // 4) if on_cpu else usual))))]
        each = -(-total // len(self._devices))
        self._lanes = lanes if lanes and each >= lanes else _fitting(each, usual, on_cpu)
        at_a_time = -(-min(batch or total, total) // len(self._devices))
        # As much room as can be used, in few sizes.
        rooms = [self._lanes * size for size in _QUEUES]
        self._queue = next((room for room in rooms if room >= at_a_time), rooms[-1])
        self._build = build if turns == Turns() else building_turns(build, turns)
        self._settings, self._names = settings, tuple(names)
        self._constants = {name: np.asarray(value) for name, value in constants.items()}
        self._watch, self._total = watch, total
        self.tally = Tally()
        self._returned = 0  # runs of batches that have been handed out
        with collecting_later():
            self._shapes = machine_shapes(build, settings, tuple(self._constants), self._names)
        self._fit_memory(_MOST_BYTES.get(available[0].platform, _MOST_BYTES_ELSEWHERE))
        self._carry: Carry | None = None  # made when it is needed
        self._batches: dict[Hashable, _Batch] = {}

    def stream(self, batches: Iterable[tuple[Hashable, Numbers]]) -> Iterator[tuple[Hashable, Any]]:
        """Yield (key, results) of every batch as soon as it is complete; results end with an axis over the batch.

        An empty batch comes straight back, with None. Batches may come back in another order. When a device's memory
        runs out, lanes and queue are halved and what was under way starts again.
        """
        waiting, again = iter(batches), deque[tuple[Hashable, Numbers]]()
        come = 0
        while True:
            if again:
                batch = again.popleft()
            elif (batch := next(waiting, None)) is not None:
                come += _size(batch[1])
            try:
                if self._carry is None:
                    self._reset()
                yield from self._feed(*batch, last=come >= self._total and not again) if batch else self._drain()
            except _OUT_OF_MEMORY as error:
                if not _is_out_of_memory(error):
                    raise
                under_way = {key: kept.varied for key, kept in self._batches.items()}
                again.extend((under_way if batch is None else under_way | {batch[0]: batch[1]}).items())
                self._shrink(error)
                continue
            if batch is None:
                if self._carry is not None and self._bytes <= _MOST_BYTES_KEPT:
                    self._legacy.carry.append(self._carry)
                    self._carry = None
                return

    # ---------------------------------------------------------------- on the host

    def _reset(self) -> None:
        """Lanes without work, on every device."""
        self._batches: dict[Hashable, _Batch] = {}
        self._owner: dict[tuple[int, int], tuple[Hashable, int]] = {}  # device, lane -> batch and position in it
        mesh = Mesh(np.array(self._devices), ("device",))
        self._split = NamedSharding(mesh, PartitionSpec("device"))
        self._program = compiled_program(self._build, self._devices)
        devices, lanes, shapes = len(self._devices), self._lanes, self._shapes
        leaves, tree = jax.tree.flatten(shapes)
        each = tuple((a.shape, a.dtype) for a in leaves)
        self._legacy = _legacy(self._build, self._devices, lanes, self._queue, self._names, tree, each)
        if self._legacy.carry:
            self._carry = self._legacy.carry.pop()
            return
        rooms = self._queue + self._lanes
        whole = Carry(
            state=jax.tree.map(lambda a: np.zeros((devices, *a.shape[:-1], lanes), a.dtype), shapes.state),
            varied={name: np.zeros((devices, lanes), jnp.result_type(float)) for name in self._names},
            place=np.full((devices, lanes), rooms, np.int32),
            next=np.zeros(devices, np.int32),
            steps=np.zeros(devices, np.int32),
            results=[np.zeros((devices, *a.shape), a.dtype) for a in rooms_for(shapes.results, rooms)],
        )
        self._carry = jax.device_put(whole, self._split)

    def _fit_memory(self, most: int) -> None:
        """Have fewer lanes, and a shorter queue, where states and results are large."""
        state, result = (
            sum(int(np.prod(a.shape)) * a.dtype.itemsize for a in jax.tree.leaves(t)) for t in self._shapes
        )
        state *= 2  # what a call is given is there until it has what comes out
        while self._lanes > 1 and self._lanes * (state + result) > most // 2:
            self._lanes //= 2
        self._queue = max(self._lanes, min(self._queue, most // 2 // max(result, 1)))
        self._bytes = self._lanes * state + (self._queue + self._lanes) * result  # on each device

    def _shrink(self, error: Exception) -> None:
        if self._lanes == 1:
            raise InputError(
                f"the device has not enough memory even for one configuration at a time ({str(error).splitlines()[0]})"
            ) from None
        self.tally.shrunk += 1
        self.tally.runs = self._returned
        self._lanes //= 2
        self._queue = max(self._lanes, self._queue // 2)
        self._carry, self._batches = None, {}

    def _feed(self, key: Hashable, varied: Numbers, *, last: bool) -> Iterator[tuple[Hashable, Any]]:
        """Put a batch through the queues, a part at a time."""
        size = _size(varied)
        if size == 0:
            yield key, None
            return
        self._batches[key] = _Batch(varied, size)
        part = self._queue * len(self._devices)
        for first in range(0, size, part):
            numbers = {name: v[first : first + part] for name, v in varied.items()}
            # The end of the last batch: lanes may as well empty now, a call of the program less, if nobody has to wait.
            drain = last and first + part >= size and len(self._batches) == 1
            yield from self._through(key, first, numbers, drain=drain)

    def _drain(self) -> Iterator[tuple[Hashable, Any]]:
        if self._batches:
            nothing = {name: np.zeros(0) for name in self._names}
            yield from self._through(None, 0, nothing, drain=True)

    def _through(self, key: Hashable, first: int, varied: Numbers, *, drain: bool = False):
        """Run one queue until it is empty, and yield the batches that this completed."""
        devices, lanes, queue = len(self._devices), self._lanes, self._queue
        size, pace = _size(varied), self._legacy
        counts = np.array([len(range(d, size, devices)) for d in range(devices)], np.int32)
        # Neighbours go to different devices: an expensive corner of the space is then everybody's.
        entries = {name: self._dealt(values) for name, values in varied.items()}
        # Lanes at work keep their run, and their results go to the room behind the queue.
        assert self._carry is not None
        place = np.asarray(self._carry.place)
        at_work = place < queue + lanes
        place = np.where(at_work, queue + np.arange(lanes, dtype=np.int32), place)
        # Only these: to look at all that is there already would take a millisecond.
        fresh = entries, counts, {"place": place, "next": np.zeros_like(counts), "steps": np.zeros_like(counts)}
        entries, on_devices, anew = jax.device_put(fresh, self._split)
        self._carry = self._carry._replace(**anew)

        before = self.tally.runs
        while True:
            began = time.perf_counter()
            arguments = (entries, on_devices, self._constants, self._settings, np.int32(pace.budget), np.bool_(drain))
            with collecting_later():  # its first call traces it
                now = self._program(self._carry.results, self._carry._replace(results=()), *arguments)
            self._carry = now
            taken, steps, place = (np.asarray(a) for a in (now.next, now.steps, now.place))
            pace.adapt(int(steps.max()), time.perf_counter() - began)
            self.tally.lane_steps += int(steps.sum()) * lanes
            busy = int(np.sum(place < queue + lanes))
            self.tally.runs = before + int(taken.sum()) + int(np.sum(at_work)) - busy
            self._watch(self.tally.runs)
            if np.all(taken >= counts) and not (drain and busy):
                break
        yield from self._collect(key, first, size, at_work, place)

    def _dealt(self, values: np.ndarray) -> np.ndarray:
        """The numbers of a queue, dealt to the devices in turn and filled up: (devices, queue)."""
        devices = len(self._devices)
        padded = np.zeros(self._queue * devices, np.asarray(values).dtype)
        padded[: len(values)] = values
        return np.ascontiguousarray(padded.reshape(self._queue, devices).T)

    def _collect(self, key: Hashable, first: int, size: int, carried: np.ndarray, place: np.ndarray):
        """Hand out what the results hold: of lanes carried over that have finished, and of this queue's entries."""
        devices, lanes, queue = len(self._devices), self._lanes, self._queue
        assert self._carry is not None
        shapes, arrays = self._shapes.results, self._carry.results
        # Device by device: put together they would all be copied once more.
        parts = [
            apart(shapes, [np.asarray(a.addressable_data(device))[0] for a in arrays]) for device in range(devices)
        ]

        def taken(device: int, rooms: np.ndarray | slice) -> list[np.ndarray]:  # configurations first
            return [_first_axis(part[..., rooms]) for part in parts[device]]

        finished = defaultdict(list)  # together by device and batch: one by one they would take longer than their runs
        for device, lane in np.argwhere(carried & (place != queue + np.arange(lanes))).tolist():
            owner, position = self._owner.pop((device, lane))
            finished[device, owner].append((position, queue + lane))
        for (device, owner), pairs in finished.items():
            positions, rooms = np.array(pairs).T
            self._keep(owner, positions, taken(device, rooms), len(pairs))
        under_way = np.zeros(devices, int)
        for device, lane in np.argwhere(place < queue).tolist():
            under_way[device] += 1
            self._owner[device, lane] = (key, first + int(place[device, lane]) * devices + device)
        for device in range(min(devices, size)):
            count = len(range(device, size, devices))
            # Also of those that are under way, whose own will replace these: to leave them out takes longer.
            everyone = slice(first + device, first + size, devices)
            self._keep(key, everyone, taken(device, slice(count)), count - int(under_way[device]))
        for complete in [k for k, batch in self._batches.items() if batch.missing == 0]:
            whole = self._batches.pop(complete).results
            self._returned += len(whole[0])
            tree = jax.tree.structure(shapes)
            yield complete, tree.unflatten([a if a.ndim == 1 else np.moveaxis(a, 0, -1) for a in whole])

    def _keep(self, key: Hashable, where: np.ndarray | slice, found: list[np.ndarray], complete: int) -> None:
        """Put results, configurations first, into their batch; so many of them are complete."""
        batch = self._batches[key]
        if not batch.results:
            batch.results = [np.empty((_size(batch.varied), *a.shape[1:]), a.dtype) for a in found]
        for kept, a in zip(batch.results, found, strict=True):
            kept[where] = a
        batch.missing -= complete


def _first_axis(a: np.ndarray) -> np.ndarray:
    """The last axis first. Most results are numbers, without a call of `moveaxis`, which takes as long as a copy."""
    return a if a.ndim == 1 else np.moveaxis(a, -1, 0)


_OUT_OF_MEMORY = (jax.errors.JaxRuntimeError, MemoryError)


def _is_out_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error) or "out of memory" in str(error).lower()
