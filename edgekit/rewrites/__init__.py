"""ONNX-to-ONNX rewrites for nodes that a target refuses or computes wrong, and the stage's part that applies them."""
