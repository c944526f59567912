"""The program of the lanes as a GPU gets it: lowered without one, and compiled without one where JAX's plugin is.

`python -m jaxcontact.bench.gpu_program KERNEL STEPS LANES` compiles it for an A100 and prints what it consists of as
JSON. That needs no card, only `jax-cuda12-plugin` and `jax-cuda12-pjrt`; a process of its own, for the plugin is found
when JAX starts.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxcontact.bench.ours import CRUTCH, crutch_job
from jaxcontact.integrate.machine import Machine
from jaxcontact.integrate.settings import Settings
from jaxcontact.integrate.turns import Turns, in_turns
from jaxcontact.study.lane_program import Carry, lane_program, machine_shapes
from jaxcontact.study.together import rooms_for

INSTALL = "pip install jax-cuda12-plugin jax-cuda12-pjrt nvidia-cuda-nvcc-cu12, of JAX's version; no card is needed"
_QUEUE = 4  # configurations in the queue, per lane
_SECONDS = 900  # that compiling may take

# What the compiler wants to know of an A100-SXM4-40GB (NVIDIA A100 architecture whitepaper, 2020).
_A100 = """
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: 2048 core_count: 108 fpus_per_core: 64
  shared_memory_per_block: 49152 shared_memory_per_core: 167936 shared_memory_per_block_optin: 166912
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  memory_bandwidth: 1555000000000 l2_cache_size: 41943040 clock_rate_ghz: 1.41 device_memory_size: 42331013120
  cuda_compute_capability { major: 8 minor: 0 } registers_per_core_limit: 65536 registers_per_block_limit: 65536
}
platform_name: "CUDA" dnn_version_info { major: 9 minor: 8 patch: 0 } device_description_str: "NVIDIA A100-SXM4-40GB"
"""


@dataclass(frozen=True)
class Stepping:
    """A compiled stepping loop: kernels of a turn, and of looking whether to go on; bytes that a turn's kernels move.

    `waits` is how often a turn the host waits for a number on the device, to know which way to go: once to look, and
    once for every branch.
    """

    kernels: int
    look: int
    waits: int
    bytes: int


def crutch_machine(settings: Settings) -> Machine:
    """Compliant impacts with the default laws."""
    return CRUTCH.machine("compliant", {name: allowed[0] for name, allowed in CRUTCH.choices.items()}, settings)


def lanes_program(turns: Turns, lanes: int, sharding: Any = None) -> Any:
    """The program of so many lanes, traced; where it is compiled to is in `sharding`, or open."""
    job, number = crutch_job(lanes), jnp.result_type(float)
    shapes = machine_shapes(crutch_machine, Settings(), tuple(job.constants), job.names)
    rooms = (_QUEUE + 1) * lanes

    def of(shape: tuple[int, ...], kind: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, kind, sharding=sharding)

    carry = Carry(
        state=jax.tree.map(lambda a: of((*a.shape[:-1], lanes), a.dtype), shapes.state),
        varied={name: of((lanes,), number) for name in job.names},
        place=of((lanes,), np.int32),
        next=of((), np.int32),
        steps=of((), np.int32),
        results=[of(a.shape, a.dtype) for a in rooms_for(shapes.results, rooms)],
    )
    queue = {name: of((_QUEUE * lanes,), number) for name in job.names}
    constants = {name: of((), number) for name in job.constants}

    def program(carry, queue, count, constants, settings, budget, drain):
        return lane_program(
            lambda settings: in_turns(crutch_machine(settings), turns),
            *(carry, queue, count, constants, settings, budget, drain),
        )

    whole = of((), np.int32)
    return jax.jit(program, donate_argnums=0).trace(carry, queue, whole, constants, Settings(), whole, of((), np.bool_))


# ---------------------------------------------------------------- as lowered


# How a program calls its host, or waits for it.
_HOST = ("infeed", "outfeed", "send", "recv", "callback", "FFI_Python", "host_")


def calls_to_the_host(stablehlo: str) -> list[str]:
    """Operations of a lowered program that go to the host."""
    called = re.findall(r"stablehlo\.(infeed|outfeed|send|recv)\b", stablehlo)
    targets = re.findall(r"stablehlo\.custom_call @([^\s(]+)", stablehlo)
    return sorted({*called, *(t for t in targets if any(word in t for word in _HOST))})


def shapes_left_open(stablehlo: str) -> list[str]:
    """Types whose shape depends on data: with one of these a program would be compiled again for other data."""
    return sorted(set(re.findall(r"tensor<[^>]*\?[^>]*>", stablehlo)))


# ---------------------------------------------------------------- as compiled


def compiled_stepping(turns: Turns, lanes: int) -> Stepping | str:
    """Compile for an A100 in a process of its own and say what a turn consists of, or why that was not possible."""
    if find_spec("jax_plugins") is None or find_spec("jax_plugins.xla_cuda12") is None:
        return f"no compiler for GPUs here ({INSTALL})"
    settings = {
        "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
        "JAX_ENABLE_X64": str(int(jnp.result_type(float) == np.float64)),
    }
    command = [sys.executable, "-m", "jaxcontact.bench.gpu_program", turns.kernel, str(turns.steps), str(lanes)]
    try:
        done = subprocess.run(
            command, env=os.environ | settings, capture_output=True, text=True, timeout=_SECONDS, check=True
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        said = str(getattr(error, "stderr", "") or error).strip().splitlines()
        return f"the compiler for GPUs failed: {said[-1][:200]}"
    return Stepping(**json.loads(done.stdout.splitlines()[-1]))


def _compile(kernel: str, steps: int, lanes: int) -> Stepping:
    from jax.experimental import topologies

    card = topologies.get_topology_desc("", platform="cuda", target_config=_A100, topology="1x1x1")
    place = jax.sharding.SingleDeviceSharding(card.devices[0])
    lowered = lanes_program(Turns(kernel, steps), lanes, place).lower(lowering_platforms=("cuda",))
    return stepping_of(lowered.compile().as_text() or "")


_NO_KERNEL = ("parameter", "constant", "get-tuple-element", "tuple", "bitcast", "while", "conditional", "call")
_OPERATION = re.compile(r"^\s+(?:ROOT )?(%[\w.\-]+) = (\(.*?\)|\S+) ([\w\-]+)\((.*)$", re.MULTILINE)
_TURNS = r'known_trip_count":\{"n":"(\d+)"'
_WIDTHS = {"pred": 1, "s8": 1, "u8": 1, "s16": 2, "f16": 2, "bf16": 2, "s32": 4, "u32": 4, "f32": 4}


class _Module:
    """An optimised program in XLA's text form, by its computations."""

    def __init__(self, text: str) -> None:
        pattern = re.compile(r"^(ENTRY )?(%[\w.\-]+) \(.*?\) -> .*? \{\n(.*?)\n\}", re.DOTALL | re.MULTILINE)
        found = [(m[1], m[2], _OPERATION.findall(m[3])) for m in pattern.finditer(text)]
        self.operations: dict[str, list[tuple[str, str, str, str]]] = {name: body for _, name, body in found}
        self.entry = next(name for entry, name, _ in found if entry)

    def loops(self, name: str) -> Iterator[tuple[str, str, int | None]]:
        """Condition, body and number of turns (if it is known) of the loops in a computation."""
        for _, _, kind, rest in self.operations[name]:
            if kind == "while":
                turns = re.search(_TURNS, rest)
                yield _named(rest, "condition"), _named(rest, "body"), int(turns[1]) if turns else None

    def cost(self, name: str, turns: int = 1) -> np.ndarray:
        """Kernels, waits and bytes of a computation, the body of a loop of so many turns.

        Of two branches in a loop over evaluations, the dearer one is taken once (where a step arrives) and the other
        in all other turns: so a loop knows its number of turns, and a branch is counted as both, with that weight.
        """
        total = np.zeros(3)
        shapes = {n: shape for n, shape, _, _ in self.operations[name]}
        for _, shape, kind, rest in self.operations[name]:
            if kind == "while":
                count = re.search(_TURNS, rest)
                length = int(count[1]) if count else 1
                total += length * self.cost(_named(rest, "body"), length)
            elif kind == "conditional":
                cheap, *_, dear = sorted((self.cost(n) for n in _branches(rest)), key=lambda cost: cost[0])
                total += cheap * (turns - 1) / turns + dear / turns + [0, 1, 0]
            elif kind not in _NO_KERNEL:
                total += [1, 0, self._moved(shape, kind, rest, shapes)]
        return total

    def _moved(self, shape: str, kind: str, rest: str, shapes: Mapping[str, str]) -> int:
        """Bytes that a kernel reads and writes; of what it only takes or puts in a piece, that piece."""
        operands = re.findall(r"%[\w.\-]+", rest.split("), ")[0])
        called = re.search(r"calls=(%[\w.\-]+)", rest)
        if kind != "fusion" or called is None:
            return _size(shape) + sum(_size(shapes.get(o, "")) for o in operands)
        inside = self.operations[called[1]]
        sizes = {n: _size(s) for n, s, _, _ in inside}
        total, written = 0, _size(shape)
        for name, full, _, _ in [o for o in inside if o[2] == "parameter"]:
            users = [o for o in inside if re.search(re.escape(name) + r"[,)\s]", o[3]) and o[0] != name]
            pieces = 0
            for user, _, how, arguments in users:
                first, *others = re.findall(r"%[\w.\-]+", arguments)
                if how in ("slice", "dynamic-slice", "gather"):
                    pieces += sizes[user]
                elif how == "dynamic-update-slice" and first == name:
                    written += sizes[others[0]] - _size(full)
                else:
                    pieces = _size(full)
                    break
            total += min(pieces, _size(full))
        return total + max(written, 0)


def stepping_of(text: str) -> Stepping:
    """Find the loop that steps in a compiled program of lanes: the one inside of that which refills."""
    module = _Module(text)
    _, refilling, _ = next(loop for loop in module.loops(module.entry) if loop[2] is None)
    condition, body, _ = next(loop for loop in module.loops(refilling) if loop[2] is None)
    (kernels, waits, moved), look = module.cost(body), module.cost(condition)
    return Stepping(round(kernels), round(look[0]), round(waits) + 1, round(moved))


def _named(rest: str, what: str) -> str:
    found = re.search(rf"{what}=(%[\w.\-]+)", rest)
    if found is None:
        raise ValueError(f"a loop without {what}: {rest[:200]}")
    return found[1]


def _branches(rest: str) -> list[str]:
    listed = re.search(r"branch_computations=\{([^}]*)\}", rest)
    return re.findall(r"%[\w.\-]+", listed[1]) if listed else re.findall(r"_computation=(%[\w.\-]+)", rest)


def _size(shape: str) -> int:
    """Bytes of a type, or of all in a tuple."""
    total = 0
    for kind, dimensions in re.findall(r"([a-z]+\d*)\[([\d,]*)\]", shape):
        total += _WIDTHS.get(kind, 8) * prod(int(d) for d in dimensions.split(",") if d)
    return total


if __name__ == "__main__":
    print(json.dumps(asdict(_compile(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))))
