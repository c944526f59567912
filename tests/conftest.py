"""Every test runs in float64 on two devices: the caller chooses them, the library itself changes no JAX setting."""

import jax

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_num_cpu_devices", 2)
