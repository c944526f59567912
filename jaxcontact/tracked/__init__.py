"""Models that follow a measured motion."""
