"""Texts in a graph: the lists that they are looked up in, the classes that they name, and numbers that replace them."""
