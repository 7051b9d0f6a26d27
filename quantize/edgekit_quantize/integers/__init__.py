"""Quantized values: integer types, scales and zero points."""
