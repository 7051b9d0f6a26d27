"""INT8 quantization of ONNX models."""
