"""The way over an ONNX graph: lowered, folded, or expanded, node by node."""
