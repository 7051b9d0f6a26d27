"""Operators of the standard domain, ai.onnx."""
