"""Whether a built model is accurate enough: floors, other explanations of a difference, and warnings."""
