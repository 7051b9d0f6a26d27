"""What is known of a graph before anything is built: its file, its shapes, what it costs, and how to cut it."""
