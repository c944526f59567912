"""What compiling costs: first calls in fresh processes, with an empty cache of programs and with a full one.

And why it costs no more: how often the right-hand side is written in the program of a start and of a step.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from jaxcontact.bench.cases import COUNT
from jaxcontact.bench.derivatives import BY
from jaxcontact.bench.ours import CRUTCH, workers
from jaxcontact.bench.peers import INSTALL, PEERS
from jaxcontact.bench.rows import Part, Row, Tell, silent
from jaxcontact.integrate.settings import Settings
from jaxcontact.integrate.tangents import with_tangents
from jaxcontact.models import compliant
from jaxcontact.models.model import default_params

ROUNDS, SHORT_COUNT = 2, 64
_LAW = "hunt_crossley"
_LAW_IN_FLOW = 2  # the right-hand side has the law's value and its rate of change


@dataclass(frozen=True)
class FirstCall:
    """Seconds of the first call after import, and of the next, which compiles nothing."""

    what: str
    first: float
    again: float

    @property
    def compiling(self) -> float:
        """What only the first call takes."""
        return max(self.first - self.again, 0.0)


def measure_compiling(tell: Tell = silent, *, short: bool = False) -> Part:
    """The part `compile` of the table."""
    calls = first_calls(tell, short=short)
    copies = copies_of_the_right_hand_side()
    sweep, tangents, warm = (calls[what] for what in ("sweep", "tangents", "warm"))
    rows = [
        Row(
            f"first call with {len(BY)} tangents, cold, over one without",
            tangents.first / sweep.first,
            f"{tangents.first:.2f} s, of which {tangents.again:.2f} s remain in the next; without {sweep.first:.2f} s, "
            f"of which {sweep.again:.2f} s",
        ),
        Row(
            "first call with a cold cache over one with a warm one",
            sweep.first / warm.first,
            f"a process that finds its programs compiled: {warm.first:.2f} s, of which {warm.again:.2f} s remain",
        ),
        _against_diffrax(calls),
        Row(
            "right-hand side in the program of a step",
            copies["step"],
            f"copies, whatever the number of lanes; with derivatives {copies['tangents']:.0f}, whatever their number; "
            f"to start a lane {copies['init']:.0f} more",
        ),
    ]
    return Part(
        "compile",
        f"first calls of the sweep of {sweep_count(short):,} impacts after import, each in a fresh process",
        tuple(rows),
        {"calls": {name: asdict(call) for name, call in calls.items()}, "right-hand side": copies},
    )


def _against_diffrax(calls: dict[str, FirstCall]) -> Row:
    what = "diffrax's time to compile over ours"
    if "diffrax" not in calls:
        return Row(what, None, f"not installed: {INSTALL}")
    its, ours = calls["diffrax"], calls["sweep"]
    said = f"segments restarted by hand in a scan, plain runs: {its.compiling:.2f} s; ours {ours.compiling:.2f} s"
    return Row(what, its.compiling / max(ours.compiling, 1e-9), said)


# ---------------------------------------------------------------- first calls


def sweep_count(short: bool) -> int:
    """Impacts in the sweep."""
    return SHORT_COUNT if short else COUNT


def first_calls(tell: Tell = silent, *, short: bool = False) -> dict[str, FirstCall]:
    """Cold ones, and then one that finds what another has left; the shortest of several rounds, in turn."""
    kinds = ["sweep", "tangents", "warm"]
    kinds += ["diffrax"] if any(peer.installed for peer in PEERS if peer.tool == "diffrax") else []
    rounds = 1 if short else ROUNDS
    found: dict[str, FirstCall] = {}
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as kept:  # by the sweep, for the warm one
            for place, kind in enumerate(kinds):
                tell(number * len(kinds) + place, rounds * len(kinds))
                with tempfile.TemporaryDirectory() as empty:
                    cache = kept if kind in ("sweep", "warm") else empty
                    one = _first_call(kind, "sweep" if kind == "warm" else kind, sweep_count(short), cache)
                if kind not in found or one.first < found[kind].first:
                    found[kind] = one
    tell(rounds * len(kinds), rounds * len(kinds))
    return found


def _first_call(what: str, kind: str, count: int, cache: str) -> FirstCall:
    settings = {
        "JAX_ENABLE_X64": "1",
        "JAX_NUM_CPU_DEVICES": str(workers()),
        "JAX_COMPILATION_CACHE_DIR": cache,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    command = [sys.executable, "-m", "jaxcontact.bench.first_call", kind, str(count)]
    done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return FirstCall(what, **json.loads(done.stdout.splitlines()[-1]))


# ---------------------------------------------------------------- what is in a program


_MARK = 0.12345678901234567  # m: a depth at which no tip is, to be found again in a program


def copies_of_the_right_hand_side(by: Sequence[str] = BY) -> dict[str, float]:
    """How often the right-hand side is in the programs that start a lane and step it, loops counted once.

    "tangents" is a step that carries derivatives by these parameters along.
    """
    law = compliant.NORMAL_LAWS[_LAW]

    def marked(params, depth, rate):
        force = law(params, depth, rate)
        return jnp.where(depth == _MARK, 0.0, force)

    compliant.NORMAL_LAWS[_LAW] = marked
    try:
        machine = CRUTCH.machine(
            "compliant", {name: allowed[0] for name, allowed in CRUTCH.choices.items()}, Settings()
        )
        params = {name: jnp.full(8, value) for name, value in default_params(CRUTCH).items()}
        programs = {"init": jax.make_jaxpr(machine.init)(params)}
        for name, stepped in (("step", machine), ("tangents", with_tangents(machine, by))):
            programs[name] = jax.make_jaxpr(stepped.step)(params, jax.eval_shape(stepped.init, params))
    finally:
        compliant.NORMAL_LAWS[_LAW] = law
    return {name: _marks(program.jaxpr) / _LAW_IN_FLOW for name, program in programs.items()}


def _marks(jaxpr: Jaxpr) -> int:
    count = 0
    for equation in jaxpr.eqns:
        count += any(isinstance(v, Literal) and v.val == _MARK for v in equation.invars)
        count += sum(_marks(inner) for inner in _inner(equation.params.values()))
    return count


def _inner(values: Any) -> Iterator[Jaxpr]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _inner(value)
        elif isinstance(value, (Jaxpr, ClosedJaxpr)):
            yield value.jaxpr if isinstance(value, ClosedJaxpr) else value
