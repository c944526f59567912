"""Differences of whole runs: coarse steps for every leaf, finer ones where events move or something seems wrong."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from jaxcontact.study.certificates import judge
from jaxcontact.study.certificates.runs import Runs

STEPS = 3.2e-4 / 2.0 ** np.arange(5)  # relative, of every leaf
FINER = STEPS[-1] / 2.0 ** np.arange(1, 6)  # where an event moves, or something seems wrong

# They tell about the integration and not about the system: zero but for its error, or steps that were counted.
DIAGNOSTICS = ("energy_error", "drift", "drift_angle", "mean_step", "n_steps")

Progress = Callable[[int, int], None]  # done, total


class Meter:
    """Adds up what has been done, in runs; a run that carries derivatives counts for as many as it has."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress, self._total, self._before = progress, total, 0
        progress(0, total)

    def each(self, weight: int) -> Callable[[int], None]:
        """Return the watcher of a stream whose runs have this weight."""
        before, seen = self._before, 0

        def watch(runs: int) -> None:
            nonlocal seen
            seen = max(seen, runs)
            self._before = before + seen * weight
            self._progress(min(self._before, self._total), self._total)

        return watch

    def expect(self, more: int) -> None:
        """So many runs are still to come."""
        self._total = self._before + more


class Differences:
    """Runs beside those of the cases, one leaf changed at a time. A pair is (leaf, case)."""

    def __init__(
        self,
        runs: Runs,
        cases: Mapping[str, np.ndarray],
        here: Mapping[str, np.ndarray],
        names: tuple[str, ...],
        leaves: tuple[str, ...],
        size: Mapping[str, np.ndarray],
        meter: Meter,
        units: Sequence[str],
    ) -> None:
        self._runs, self._cases, self._here, self._meter = runs, cases, here, meter
        self._names, self._leaves, self._size, self._units = names, leaves, size, units

    def of(self, exact: np.ndarray, limit: float) -> judge.Slopes:
        """Differences of all pairs, with more effort where exact derivatives (outcome, leaf, case) disagree."""
        found = _blank(exact.shape)
        flat = np.broadcast_to(np.all(exact == 0, axis=(0, 2))[:, None], exact.shape[1:])
        self._meter.expect(2 * len(STEPS) * int(np.sum(~flat)) + 2 * int(np.sum(flat)))

        # By a leaf of which all exact derivatives are 0, one long step is enough to see that nothing happens.
        unmoved = self._mark_unmoved(found, np.argwhere(flat))
        pairs = np.argwhere(~unmoved)
        if not len(pairs):
            return found
        self._meter.expect(2 * len(STEPS) * len(pairs))
        coarse = self._sides(pairs, STEPS)
        _put(found, judge.difference(coarse), pairs)

        first = judge.judge(exact, found, limit, self._units)
        doubtful = (first.wrong | (first.kind == judge.KINK)).any(axis=0)
        again = doubtful[tuple(pairs.T)]
        if again.any():
            self._meter.expect(2 * len(FINER) * int(again.sum()))
            finer = self._sides(pairs[again], FINER)
            whole = judge.Sides(
                np.concatenate([coarse.steps, finer.steps]),
                finer.here,
                *(np.concatenate([a[..., again], b]) for a, b in zip(coarse[2:], finer[2:], strict=True)),
            )
            _put(found, judge.difference(whole), pairs[again])
        return found

    def _mark_unmoved(self, found: judge.Slopes, pairs: np.ndarray) -> np.ndarray:
        """Pairs (leaf, case) whose runs are the same bit by bit after a long step to either side."""
        unmoved = np.zeros(found.smooth.shape, bool)
        if len(pairs):
            sides = self._sides(pairs, STEPS[:1])
            same = np.all((sides.plus == sides.here[:, None]) & (sides.minus == sides.here[:, None]), axis=(0, 1, 2))
            same &= (sides.same_plus & sides.same_minus)[0, 0]
            leaf, case = pairs[same].T
            for slope in (found.central, found.regardless):
                slope.value[:, leaf, case], slope.uncertainty[:, leaf, case] = 0.0, 0.0
            found.smooth[leaf, case], found.reach[leaf, case] = True, STEPS[0]
            unmoved[leaf, case] = True
        return unmoved

    def _sides(self, pairs: np.ndarray, steps: np.ndarray) -> judge.Sides:
        """Runs to both sides of pairs, one row each: values (rung, outcome, 1, pair)."""
        leaf, case = pairs.T
        shifts = np.concatenate([steps, -steps])
        many = {}
        for name, value in self._cases.items():
            chosen = leaf == self._leaves.index(name) if name in self._leaves else np.zeros(len(pairs), bool)
            many[name] = (value[case] + shifts[:, None] * chosen * self._size[name][case]).ravel()
        shape = (2, len(steps), len(pairs))
        out = {name: value.reshape(shape) for name, value in self._runs.outcomes(many, self._meter.each(1)).items()}
        same = np.ones(shape, bool)
        for name, value in out.items():
            if np.issubdtype(value.dtype, np.integer) and name not in DIAGNOSTICS:
                same &= value == self._here[name][case]
        plus, minus = np.stack([out[name] for name in self._names], axis=2)[..., None, :]
        now = np.stack([self._here[name][case] for name in self._names])
        return judge.Sides(steps, now, plus, minus, same[0][:, None], same[1][:, None])


def _blank(shape: tuple[int, ...]) -> judge.Slopes:
    slopes = [judge.Slope(np.full(shape, np.nan), np.full(shape, np.inf)) for _ in range(5)]
    smooth, reach, moved = np.zeros(shape[1:], bool), np.zeros(shape[1:]), np.zeros(shape[1:], bool)
    return judge.Slopes(slopes[0], slopes[1], slopes[2], slopes[3], slopes[4], smooth, reach, moved)


def _put(into: judge.Slopes, found: judge.Slopes, pairs: np.ndarray) -> None:
    """Put differences of pairs in their places: (outcome, leaf, case)."""
    leaf, case = pairs.T
    for kept, new in zip(into[:5], found[:5], strict=True):
        kept.value[:, leaf, case], kept.uncertainty[:, leaf, case] = new.value[:, 0], new.uncertainty[:, 0]
    for kept, new in zip(into[5:], found[5:], strict=True):
        kept[leaf, case] = new[0]
