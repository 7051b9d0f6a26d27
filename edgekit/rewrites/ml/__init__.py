"""Operators of ``ai.onnx.ml`` in standard ones, with the results that ONNX Runtime gives."""
