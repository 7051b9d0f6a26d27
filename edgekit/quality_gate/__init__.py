"""Judges bundles by their budgets: what CI asks before it lets a model ship."""
