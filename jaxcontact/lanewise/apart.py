"""Constants that no other loop has, so that loops are compiled on all cores.

XLA for a CPU cuts a program into parts for the threads of its compiler. It has one copy of equal constants inside of
reductions, and functions that share one end up in the same part: all large loops over the lanes did, and one thread
compiled them. Here a constant is written as one that is another in each loop, and what takes it back; the compiler
works that out, exactly. With twelve tangents that made a first call on two cores half a second shorter, of 11.4.
"""

from typing import Any

import numpy as np
from jaxlib.mlir.dialects import stablehlo

_MARKS = 67  # how many loops can be told apart; a prime, for the sizes that loops are told apart by
_SPREAD = {np.dtype(np.float64): 7, np.dtype(np.float32): 1}  # binary orders between marks


def mark_of(*sizes: int) -> int:
    """A mark that loops of other sizes mostly do not have; the same in every process, as compiled programs are kept."""
    return sum(factor * size for factor, size in zip((31, 7, 1), sizes, strict=True)) % _MARKS + 1


def write_constant(known: np.ndarray, mark: int, plainly: Any) -> Any:
    """A single number, in the way of the loop with that mark; `plainly` writes one as it is."""

    def hidden(number: Any) -> Any:  # else XLA would work it out before it counts
        return stablehlo.OptimizationBarrierOp([plainly(np.asarray(number, known.dtype))]).results[0]

    if known.dtype.kind == "i" and known.dtype.itemsize >= 4 and abs(int(known)) < 2**30:
        return stablehlo.add(hidden(known + 1009 * mark), hidden(-1009 * mark))
    if known.dtype not in _SPREAD or np.isnan(known):
        return plainly(known)
    far = known.dtype.type(2.0 ** (mark * _SPREAD[known.dtype]))
    if known == 0:
        zero = stablehlo.add(hidden(far), hidden(-far))
        return stablehlo.negate(zero) if np.signbit(known) else zero
    if np.isinf(known):
        most = np.finfo(known.dtype).max / far
        return stablehlo.multiply(hidden(np.copysign(most, known)), hidden(4 * far))
    with np.errstate(over="ignore"):
        moved = known * far
    if not np.isfinite(moved) or moved * (1 / far) != known:
        return plainly(known)
    return stablehlo.multiply(hidden(moved), hidden(1 / far))
