"""Adaptive rounding of weights, and correction of the mean errors of rounding."""
