"""Lowers an ONNX graph to MIL: folds, lowers or expands each node."""
