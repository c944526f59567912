"""Bodies that move, without ground."""
