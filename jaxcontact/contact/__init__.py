"""One contact: no bodies, no time."""
