"""Points of the unit cube, by number: any slice of them costs only itself, and a seed always means the same points.

Every sampler has the form points(start, stop, dimensions, count, seed) -> array (stop - start, dimensions). Seeds go
through numpy's SeedSequence and PCG64, whose streams numpy promises not to change; the rest is arithmetic.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

SOBOL_BITS = 30  # scipy's engine: 2^30 points at most, each coordinate on a lattice of 2^-30
LATIN_ROUNDS = 8  # of the shuffle; four make a Feistel network hard to tell from chance (Luby and Rackoff 1988)
LATIN_BITS = 24  # where in its slice a point lies; slice and place together fit a float64 up to 2^28 points


def sobol(start: int, stop: int, dimensions: int, count: int, seed: int) -> np.ndarray:
    """Sobol points under a random digital shift, which leaves them a (t, m, s)-net.

    The shift is ours and not scipy's scrambling, so that a seed means the same points whatever the scipy version.
    """
    number = np.arange(start, stop)
    gray = number ^ (number >> 1)
    lattice = np.zeros((stop - start, dimensions), np.int64)
    for bit, direction in enumerate(_sobol_directions(dimensions, (count - 1).bit_length())):
        lattice ^= ((gray >> bit) & 1)[:, np.newaxis] * direction
    shift = (_keys(seed, dimensions) >> np.uint64(64 - SOBOL_BITS)).astype(np.int64)
    return ((lattice ^ shift) + 0.5) / 2.0**SOBOL_BITS  # the middle of each cell: never on an end


def latin(start: int, stop: int, dimensions: int, count: int, seed: int) -> np.ndarray:
    """One point in each of `count` slices of every dimension, shuffled (McKay, Beckman and Conover 1979)."""
    points = np.empty((stop - start, dimensions))
    for i, keys in enumerate(_keys(seed, dimensions * (LATIN_ROUNDS + 1)).reshape(dimensions, LATIN_ROUNDS + 1)):
        slices = shuffled(np.arange(start, stop), count, keys[1:])
        place = (_mixed(slices.astype(np.uint64) + keys[0]) >> np.uint64(64 - LATIN_BITS)) + 0.5
        points[:, i] = (slices + place / 2.0**LATIN_BITS) / count
    return points


def random(start: int, stop: int, dimensions: int, count: int, seed: int) -> np.ndarray:
    """Independent uniform points."""
    generator = np.random.PCG64(seed)
    generator.advance(start * dimensions)  # one draw per number, so a slice can be reached directly
    draws = generator.random_raw((stop - start) * dimensions).reshape(stop - start, dimensions)
    return (draws >> np.uint64(11)) * 2.0**-53


SAMPLERS: dict[str, Callable[[int, int, int, int, int], np.ndarray]] = {
    "sobol": sobol,
    "latin": latin,
    "random": random,
}


def saltelli(start: int, stop: int, dimensions: int, count: int, seed: int, *, second_order: bool) -> np.ndarray:
    """Rows start ... stop - 1 of the design for Sobol indices over `count` base points (Saltelli 2002).

    A base point is a Sobol point in twice the dimensions, A and B side by side; see `space.Saltelli` for the order.
    """
    group = (2 if second_order else 1) * dimensions + 2
    first, last = start // group, -(-stop // group)
    base = sobol(first, last, 2 * dimensions, count, seed)
    return cross_sampled(base, second_order=second_order)[start - first * group : stop - first * group]


def cross_sampled(base: np.ndarray, *, second_order: bool) -> np.ndarray:
    """Every row that belongs to base points (n, 2 D): A, AB_1 ... AB_D, (BA_1 ... BA_D), B for each in turn."""
    dimensions = base.shape[1] // 2
    one, other = base[:, np.newaxis, :dimensions], base[:, np.newaxis, dimensions:]
    swapped = np.eye(dimensions, dtype=bool)
    rows = [one, np.where(swapped, other, one), *([np.where(swapped, one, other)] if second_order else []), other]
    return np.concatenate(rows, axis=1).reshape(-1, dimensions)


@lru_cache(maxsize=8)
def morris_levels(dimensions: int, count: int, levels: int, seed: int) -> np.ndarray:
    """All points of `count` Morris trajectories on a grid of `levels` values, as SALib draws them; read-only."""
    from SALib.sample.morris import sample  # slow to import, and only needed here

    names = [f"x{i}" for i in range(dimensions)]
    problem = {"num_vars": dimensions, "names": names, "bounds": [[0.0, 1.0]] * dimensions}
    points = sample(problem, count, num_levels=levels, seed=seed)
    points.setflags(write=False)
    return points


def shuffled(number: np.ndarray, count: int, keys: np.ndarray) -> np.ndarray:
    """Where a shuffle of 0 ... count - 1, given by `keys`, puts each `number`; nothing else of it is computed.

    A number is two digits in base `side`, the least with side^2 >= count. A Feistel round adds to one digit a hash of
    the other, so it can be undone, and rounds of it shuffle 0 ... side^2 - 1. What lands at or beyond `count` is sent
    through again until it does not, which is still one-to-one ("cycle walking", Black and Rogaway 2002).
    """
    side = np.uint64(math.isqrt(count - 1) + 1)

    def once(number: np.ndarray) -> np.ndarray:
        left, right = np.divmod(number, side)
        for key in keys:
            left, right = right, (left + _mixed(right + key) % side) % side
        return left * side + right

    found = once(np.asarray(number, np.uint64))
    while np.any(outside := found >= count):  # a few: side^2 is less than count + 2 side
        found[outside] = once(found[outside])
    return found.astype(np.int64)


def _keys(seed: int, count: int) -> np.ndarray:
    return np.random.SeedSequence(seed).generate_state(count, np.uint64)


def _mixed(number: np.ndarray) -> np.ndarray:
    """Hash 64 bits: the finaliser of SplitMix64 (Steele, Lea and Flood 2014). uint64 wraps around, as it should."""
    number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return number ^ (number >> np.uint64(31))


@lru_cache(maxsize=16)
def _sobol_directions(dimensions: int, bits: int) -> np.ndarray:
    """Direction numbers 0 ... bits - 1 of every dimension, shape (bits, dimensions), read off scipy's points.

    Points come in Gray-code order, so point 2^(b+1) - 1 is direction number b. Scipy walks there at some 4 ns a point:
    half a second for 10^8 points, once, and after that no slice has to walk at all.
    """
    from scipy.stats import qmc  # slow to import, and only needed here

    engine = qmc.Sobol(dimensions, scramble=False, bits=SOBOL_BITS)
    engine.random(1)  # the origin; scipy also warns unless the first request is a power of two
    points = np.zeros((bits, dimensions))
    for bit in range(bits):
        points[bit] = engine.fast_forward(2 ** (bit + 1) - 1 - engine.num_generated).random(1)[0]
    return np.round(points * 2.0**SOBOL_BITS).astype(np.int64)
