"""Certificates: exact derivatives of a model's outcomes against differences of whole runs, at random."""
