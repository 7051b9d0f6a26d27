"""ONNX to OpenVINO IR."""
