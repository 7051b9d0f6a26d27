"""A detector's outputs: how they are recognized and read as boxes, and which boxes two models both find."""
