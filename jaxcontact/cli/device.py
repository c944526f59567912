"""The machine that a command runs on: number type, devices, a cache of compiled programs. The library sets nothing."""

import os
from pathlib import Path

from jaxcontact.errors import InputError


def prepare_jax(dtype: str = "float64", devices: int | None = None) -> None:
    """Choose the number type, make every core a device (or as many as asked) and keep compiled programs.

    Must come before JAX looks for devices. Where there is an accelerator, JAX uses that and the cores do not matter.
    """
    import jax

    jax.config.update("jax_enable_x64", dtype == "float64")
    _split_cores(devices)
    if getattr(jax.config, "jax_compilation_cache_dir", None):
        return  # the user's own setting (JAX_COMPILATION_CACHE_DIR)
    folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "jaxcontact" / "xla"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return  # no home, or a read-only one: compile every time
    if os.access(folder, os.W_OK):
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def draw_without_a_screen() -> None:
    """Let matplotlib draw to files only."""
    import matplotlib

    matplotlib.use("Agg")


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _split_cores(devices: int | None) -> None:
    import jax

    if devices is not None and devices > max(cores(), 64):
        raise InputError(f"--devices {devices}: this machine has {cores()} cores")
    if "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", ""):
        return  # the user's own setting
    try:
        jax.config.update("jax_num_cpu_devices", devices or cores())
    except RuntimeError:
        return  # JAX has started already, as in a notebook: its devices are what they are
