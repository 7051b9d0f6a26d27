"""Whether a built model is accurate enough: floors, what else explains a difference, and what people are told."""
