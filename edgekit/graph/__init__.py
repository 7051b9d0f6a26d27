"""What is known of a graph before anything is built.

Rooms: how a file is read, the sizes of its tensors, what simplification replaces, loops that are something simpler, and
texts. Beside them: what a graph costs, how a part is cut out, and how nodes are built.
"""
