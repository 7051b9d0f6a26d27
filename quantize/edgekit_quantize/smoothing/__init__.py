"""Divides activations by a factor a channel, so that their integers tell more."""
