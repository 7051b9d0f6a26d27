"""Tells people what a bundle holds: a summary, a Markdown page inside the bundle, an HTML page beside it."""
