"""Corrects operations of the converted network that OpenVINO computes otherwise than ONNX defines them."""
