"""Force-plate and marker files: one stance phase in SI units and one frame."""
