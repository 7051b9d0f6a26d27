"""Writes candidates: copies of the prepared model with integers in them."""
