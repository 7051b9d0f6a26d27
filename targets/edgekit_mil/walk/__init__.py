"""The walk over an ONNX graph, which folds, lowers or expands each node."""
