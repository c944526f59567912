"""Forces under a given motion: nine spheres along a stance, for thousands of layouts, against numpy and numba.

Everybody gets the same layouts and gives force, centre of pressure and free moment of every frame, with the default
laws of the model `stance`, on all cores. Errors are relative to the largest that a quantity is along the layout's own
stance. Derivatives are those of all of that by 30 numbers, frame by frame; they come in batches of layouts, for all at
once are some gigabytes.
"""

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxcontact.bench.ours import workers
from jaxcontact.bench.peers import INSTALL
from jaxcontact.bench.peers.soles import Foot, Seen, Soles, draw_soles, segments_of
from jaxcontact.bench.rows import Part, Row, Tell, silent
from jaxcontact.bench.timing import Timed, take_turns
from jaxcontact.models.layouts import NINE_SPHERES
from jaxcontact.models.model import default_params
from jaxcontact.models.prescribed import evaluate, sagittal_feet
from jaxcontact.models.slopes import evaluate_with_slopes
from jaxcontact.models.stance import LOADED, reference_motion, stance_model
from jaxcontact.study.devices import on_all_devices

FRAMES, LAYOUTS, ROUNDS = 300, 10_000, 7
SHORT_FRAMES, SHORT_LAYOUTS = 20, 32
BATCH = 2000  # layouts whose derivatives are in memory at a time
BY = (
    *(f"{sphere}.{field}" for sphere in NINE_SPHERES.names() for field in ("x", "z", "radius")),
    *("k", "chi", "mu"),
)
_CHECKED = 4  # layouts whose derivatives are compared with forward mode's
_MODEL = stance_model()
_CHOICES = {name: allowed[0] for name, allowed in _MODEL.choices.items()}


class Peer(NamedTuple):
    """Somebody else: the name, what has to be installed, where the function is, the threads it gets, what it does."""

    name: str
    tool: str
    module: str
    threads: int
    words: str

    @property
    def installed(self) -> bool:
        """Whether the tool can be imported."""
        return importlib.util.find_spec(self.tool) is not None

    def forces(self) -> Callable[[Foot, Soles, int], Seen]:
        """What it computes with."""
        return importlib.import_module(f"jaxcontact.bench.peers.{self.module}").forces


def peers(threads: int) -> tuple[Peer, ...]:
    """Everybody, on so many threads; numpy also as most people run it."""
    whole = "whole arrays, in pieces that stay in the cache"
    return (
        Peer("numpy", "numpy", "numpy_forces", 1, f"{whole}; numpy uses one core"),
        Peer("numpy in threads", "numpy", "numpy_forces", threads, f"{whole}, pieces on {threads} threads"),
        Peer("a numba parallel loop", "numba", "numba_forces", threads, f"scalar code, {threads} threads over layouts"),
    )


class Task:
    """The same soles and motion, as we take them and as the peers do."""

    def __init__(self, frames: int = FRAMES, count: int = LAYOUTS) -> None:
        params = default_params(_MODEL)
        self._params, self._motion = params, reference_motion(NINE_SPHERES, _CHOICES, frames)
        printed = NINE_SPHERES.elements()
        places = np.stack([printed.x, printed.y, printed.z, np.asarray(printed.radius)], axis=1)
        self.soles = draw_soles(places, count, params["k"], params["chi"])
        on_toes = np.array([segment == "toes" for segment in NINE_SPHERES.segments])
        joint, toes = ((params[f"{part}.x"], params[f"{part}.z"]) for part in ("toe_joint", "toes"))
        self.foot = Foot(
            segments_of(self._motion, joint, toes, on_toes), params["mu_viscous"], params["v_slip"], LOADED
        )

    def _given(self, soles: Soles) -> dict[str, Any]:
        varied = soles._asdict()
        elements = NINE_SPHERES.elements()._replace(**{name: varied[name] for name in ("x", "y", "z", "radius")})
        return {
            "motion": self._motion,
            "feet": lambda frame: sagittal_feet(frame, self._params),
            "layout": NINE_SPHERES,
            "elements": elements,
            "laws": {**self._params, **{name: varied[name] for name in ("k", "chi", "mu")}},
            "choices": _CHOICES,
            "threshold": LOADED,
        }

    def plain(self, soles: Soles) -> Seen:
        """What a plate sees."""
        return _seen(evaluate(**self._given(soles)))

    def slopes(self, soles: Soles) -> dict[str, Any]:
        """How that changes with 30 numbers."""
        return {name: _seen(change) for name, change in evaluate_with_slopes(**self._given(soles), by=BY).by.items()}

    def forward_slopes(self, soles: Soles) -> dict[str, Seen]:
        """The same by forward mode, in one direction after the other."""

        def along(name: str) -> Soles:
            sphere, _, field = name.rpartition(".")
            place = NINE_SPHERES.names().index(sphere) if sphere else slice(None)
            still = jax.tree.map(jnp.zeros_like, soles)
            return still._replace(**{field: getattr(still, field).at[place].set(1.0)})

        directions = jax.tree.map(lambda *each: jnp.stack(each), *map(along, BY))
        found = jax.lax.map(lambda direction: jax.jvp(self.plain, (soles,), (direction,))[1], directions)
        return {name: jax.tree.map(lambda values, i=i: values[i], found) for i, name in enumerate(BY)}


def _seen(found: Any) -> Seen:
    F_x, F_y, F_z = found.force
    return Seen(F_x, F_y, F_z, found.cop[0], found.cop[1], found.free_moment)


def measure_prescribed(tell: Tell = silent, *, short: bool = False) -> Part:
    """The part `prescribed` of the table."""
    task = Task(SHORT_FRAMES, SHORT_LAYOUTS) if short else Task()
    soles, count = jax.tree.map(jnp.asarray, task.soles), len(task.soles.mu)
    everybody = peers(workers())
    plain, slopes = on_all_devices(task.plain), on_all_devices(task.slopes)
    batches = [jax.tree.map(jnp.asarray, task.soles.some(i, i + BATCH)) for i in range(0, count, BATCH)]

    def all_slopes() -> None:
        for batch in batches:
            jax.block_until_ready(slopes(batch))

    ways: dict[str, Callable[[], Any]] = {"ours": lambda: jax.block_until_ready(plain(soles)), "slopes": all_slopes}
    ways |= {
        peer.name: partial(peer.forces(), task.foot, task.soles, peer.threads) for peer in everybody if peer.installed
    }
    timed = take_turns(ways, 1 if short else ROUNDS, tell)
    rows = tuple(_row(peer, timed, len(task.foot.segments) * count) for peer in everybody)
    error = slope_error(task, slopes(batches[0]))
    each = timed["slopes"].seconds / timed["ours"].seconds
    rows += (
        Row(
            f"exact derivatives by {len(BY)} numbers over plain runs",
            each,
            f"plain runs; of all six by x, z, radius of the spheres, k, chi, mu; {BATCH:,} layouts at a time",
            f"{error:.0e} from forward mode",
        ),
    )
    numbers = {"seconds": {name: one.seconds for name, one in timed.items()}, "slope error": error}
    return Part(
        "prescribed",
        f"nine spheres, {len(task.foot.segments)} frames, {count:,} layouts: forces, centre of pressure, free moment",
        rows,
        numbers,
    )


def _row(peer: Peer, timed: Mapping[str, Timed], forces: int) -> Row:
    what = f"our rate over that of {peer.name}"
    if not peer.installed:
        return Row(what, None, f"not installed: {INSTALL}")
    its, ours = timed[peer.name], timed["ours"]
    said = f"{peer.words}: {1e9 * its.seconds / forces:.1f} ns each, ours {1e9 * ours.seconds / forces:.1f}"
    return Row(what, its.seconds / ours.seconds, said, f"{largest_error(its.found, ours.found):.0e} from ours")


def largest_error(found: Seen, right: Seen) -> float:
    """Relative to the largest that a quantity is in any frame of the layout."""
    worst = 0.0
    for one, other in zip(found, right, strict=True):
        other = np.asarray(other)
        size = np.max(np.abs(other), axis=0)
        apart = np.max(np.abs(np.asarray(one) - other), axis=0)
        worst = max(worst, float(np.max(np.where(size > 0, apart / np.where(size > 0, size, 1.0), apart))))
    return worst


def slope_error(task: Task, found: Mapping[str, Seen]) -> float:
    """How far derivatives are from forward mode, of the first few layouts."""
    right = jax.jit(task.forward_slopes)(jax.tree.map(jnp.asarray, task.soles.some(0, _CHECKED)))
    some = {name: _first(found[name], right[name]) for name in right}
    return max(largest_error(some[name], right[name]) for name in right)


def _first(found: Seen, right: Seen) -> Seen:
    """As many layouts as there are to compare with; one number stands for all that nothing changes."""
    pairs = zip(found, right, strict=True)
    return Seen(
        *(
            np.broadcast_to(np.asarray(one)[..., : other.shape[-1]] if np.ndim(one) else one, other.shape)
            for one, other in pairs
        )
    )
