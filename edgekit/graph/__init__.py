"""Analysis and preparation of a graph before anything is built.

Subpackages: how a file is read, the sizes of its tensors, what simplification replaces, loops that compute something
simpler, and texts. The modules here cover what a graph costs, how a part is cut out, and how nodes are built.
"""
