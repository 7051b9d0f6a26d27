"""Integers that stand for numbers: types, scales, zero points."""
