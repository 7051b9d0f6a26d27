"""Operators of ``com.microsoft`` in standard ones, with the results that ONNX Runtime gives."""
