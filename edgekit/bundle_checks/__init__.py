"""Verifies and measures bundles that were written earlier."""
