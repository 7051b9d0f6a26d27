"""Reads a file's content and normalizes it to the form that the other packages expect."""
