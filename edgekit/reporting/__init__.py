"""Reports what a bundle holds: a summary, a Markdown page inside the bundle, and an HTML page."""
