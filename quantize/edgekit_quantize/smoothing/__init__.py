"""Divides activations by a factor per channel, so that their integers are more precise."""
