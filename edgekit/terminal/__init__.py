"""Shows people progress, warnings and results."""
