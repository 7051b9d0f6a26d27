"""Writes candidates: quantized copies of the prepared model."""
