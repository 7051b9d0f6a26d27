"""Operators of com.microsoft, which ONNX Runtime adds to the standard."""
