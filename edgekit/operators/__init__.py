"""The verdicts on a model's nodes: what they mean, what would help, and how they are reported."""
