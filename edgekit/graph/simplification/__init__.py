"""The steps of simplification: replacing, removing and precomputing nodes."""
