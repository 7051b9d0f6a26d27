"""Texts in a graph: the lists that look them up, the classes that they name, and numbers in their place."""
