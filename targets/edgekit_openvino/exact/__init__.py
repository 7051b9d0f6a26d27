"""What OpenVINO computes otherwise than ONNX defines, put right in the converted network."""
