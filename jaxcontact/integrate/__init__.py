"""Time: tableaus, steps, modes and events."""
