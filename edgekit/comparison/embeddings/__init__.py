"""Outputs that are compared by their angle: embeddings, and the encoders that give them."""
