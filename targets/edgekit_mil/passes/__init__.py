"""Graph passes over a finished program, and the compression of its weights."""
