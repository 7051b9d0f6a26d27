"""Executing the original on the CPU, and telling whether a changed model still computes the same."""
