"""Scores and times candidates, and chooses one."""
