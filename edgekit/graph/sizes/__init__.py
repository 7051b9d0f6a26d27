"""The sizes of a graph's tensors: asked for, told by samples, weights and names, and worked out for what is inside."""
