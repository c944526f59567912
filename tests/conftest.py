"""Every test runs in float64: the caller chooses it, the library itself changes no JAX setting."""

import jax

jax.config.update("jax_enable_x64", True)
