"""A detector's outputs: how they are recognised and read as boxes, and which boxes two models both find."""
