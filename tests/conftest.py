"""Every test runs in float64 on two devices: the caller chooses them, the library itself changes no JAX setting.

Nearly all of the time of `pytest` is XLA's, which compiles programs that then run for milliseconds. So the quick tests
have it compile with fewer optimisations, which changes results by rounding at most, and a process keeps what it has
compiled, for the tests that ask for the same program again. Commands that tests start in processes of their own are
compiled as for anybody. `pytest -m slow`, `pytest -m ''` and any XLA_FLAGS of the caller's own are left alone.
"""

import os
import shutil
import subprocess
import sys
import tempfile

import jax

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_num_cpu_devices", 2)

# Optimisation level 0 would take half the time again, but gives wrong digits in a while_loop (jaxlib 0.10.2).
QUICK_TO_COMPILE = "--xla_backend_optimization_level=1 --xla_cpu_use_fusion_emitters=false"

flags_in_use = ""  # of XLA, in this process
compiled = None  # folder of programs that this process has compiled

# Files that take longest, to be started first: the last file of one process should not keep the other waiting.
LONG_FILES = (
    "test_derivatives",
    "test_sweeps",
    "test_faults",
    "test_models",
    "test_foot",
    "test_contact_studies",
    "test_stance",
    "test_rolling",
    "test_lanes",
    "test_foot_space",
    "test_cluster",
    "test_foot_studies",
    "test_certificates",
    "test_sensitivity_crutch",
    "test_measured_fits",
    "test_fit",
    "test_fit_diagnosis",
    "test_rollover",
    "test_sole",
)


def pytest_configure(config):
    global flags_in_use, compiled
    starts_others = getattr(config.option, "numprocesses", None)
    if config.option.markexpr != "not slow" or starts_others or "XLA_FLAGS" in os.environ:
        return
    # One folder a process: a file that the other one is still writing would be a warning.
    compiled = tempfile.mkdtemp(prefix="jaxcontact-tests-")
    jax.config.update("jax_compilation_cache_dir", compiled)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    # XLA ends a process that gives it a flag which it does not know, so another one has to try.
    flags = {"XLA_FLAGS": QUICK_TO_COMPILE}
    read_flags = [sys.executable, "-c", "import jaxlib.xla_client as xla; xla.CompileOptions()"]
    if subprocess.run(read_flags, env=os.environ | flags, capture_output=True).returncode == 0:
        os.environ.update(flags)
        flags_in_use = QUICK_TO_COMPILE
        jax.local_devices()  # this reads them, once and for all
        del os.environ["XLA_FLAGS"]


def pytest_unconfigure():
    if compiled is not None:
        shutil.rmtree(compiled, ignore_errors=True)


def pytest_collection_modifyitems(items):
    def turn(item):
        return LONG_FILES.index(item.path.stem) if item.path.stem in LONG_FILES else len(LONG_FILES)

    items.sort(key=turn)
