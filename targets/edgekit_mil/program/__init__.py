"""The MIL program of a model and its interface."""
