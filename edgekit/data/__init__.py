"""Samples: where they come from, what they are called, and how they are drawn where there are none."""
