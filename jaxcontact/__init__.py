"""Contact in human gait: batched sweeps, exact sensitivities and identification, in JAX.

`jaxcontact.study` builds and runs sweeps; `jaxcontact.models` holds the systems; `jaxcontact.contact` the laws of one
contact. Importing changes no JAX setting: choose float64 with `jax.config.update("jax_enable_x64", True)`.
"""
