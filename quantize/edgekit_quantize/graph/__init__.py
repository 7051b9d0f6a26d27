"""Queries and edits of ONNX graphs that the quantizer uses."""
