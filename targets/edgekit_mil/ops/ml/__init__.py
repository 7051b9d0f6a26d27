"""Operators of ai.onnx.ml: classic machine learning."""
