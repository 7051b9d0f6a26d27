"""What simplification replaces, takes out and works out ahead."""
