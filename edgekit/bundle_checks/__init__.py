"""What is done with a bundle that was written earlier: verify it again, measure it."""
