"""The house: imports run downwards, importing changes no setting, graphs stay small."""

import ast
import subprocess
import sys
from pathlib import Path

import jax

from jaxcontact.integrate.machine import simulate
from jaxcontact.integrate.settings import Settings
from jaxcontact.models import compliant, get_model
from jaxcontact.models.model import default_params

ROOT = Path(__file__).parent.parent / "jaxcontact"
LAYERS = [
    "errors",
    "safemath",
    "lanewise",
    "vectors",
    "contact",
    "bodies",
    "integrate",
    "models",
    "measured",
    "tracked",
    "study",
    "plots",
    "captions",
    "bench",
    "overview",
    "reports",
    "cli",
]


def layer(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def test_imports_run_downwards_only():
    for path in ROOT.rglob("*.py"):
        here = layer(path)
        if here not in LAYERS:
            continue  # the package's own __init__ and __main__
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path.name}: imports are absolute here"
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            for name in names:
                parts = name.split(".")
                if parts[0] == "jaxcontact" and len(parts) > 1:
                    assert LAYERS.index(parts[1]) <= LAYERS.index(here), f"{path.name} imports {name}"


def test_every_module_belongs_to_a_layer():
    assert {layer(p) for p in ROOT.rglob("*.py")} <= {*LAYERS, "__init__", "__main__", "sweeps"}


def test_importing_changes_no_setting():
    modules = "jaxcontact.models, jaxcontact.study.sweep, jaxcontact.plots, jaxcontact.overview"
    code = f"import jax; before = jax.config.values.copy(); import {modules}; assert jax.config.values == before"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_right_hand_side_is_traced_a_bounded_number_of_times(monkeypatch):
    # Twice to start (for the mode, then the slopes), once in the loop over stages, once on arrival; each traced call
    # may be visited again by JAX's own shape inference of the loop. Compile time must not grow with stages or events.
    calls = []
    law = compliant.NORMAL_LAWS["hunt_crossley"]
    monkeypatch.setitem(compliant.NORMAL_LAWS, "hunt_crossley", lambda *a: calls.append(1) or law(*a))
    model = get_model("crutch")
    machine = model.machine("compliant", {"normal": "hunt_crossley", "friction": "coulomb"}, Settings())
    params = {k: jax.numpy.asarray(v) for k, v in default_params(model).items()}
    jaxpr = str(jax.make_jaxpr(lambda p: simulate(machine, p))(params))
    # The law appears twice in each flow: its value, and its rate of change.
    assert len(calls) <= 2 * 8
    # One rounding to quarter turns per set of sines and cosines: four flows, and the start that is measured against.
    assert jaxpr.count(" round[") <= 8
