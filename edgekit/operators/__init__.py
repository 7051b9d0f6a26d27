"""What the verdicts on a model's nodes mean, what would help, and how they are told."""
