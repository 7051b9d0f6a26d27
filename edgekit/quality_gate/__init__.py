"""Judges bundles by their budgets: the check that CI makes before a model ships."""
