"""Corrects networks of integers, and weights of few bits, that OpenVINO computes otherwise than ONNX defines them."""
