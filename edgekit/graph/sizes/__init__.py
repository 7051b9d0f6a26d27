"""The sizes of a graph's tensors: requested, taken from samples, weights and names, and inferred inside the graph."""
