"""Outputs that decide: which classes, labels and answers two models share, and what a single class loses."""
