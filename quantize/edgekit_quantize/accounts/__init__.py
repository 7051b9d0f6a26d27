"""What became of every layer, and the error that it adds."""
