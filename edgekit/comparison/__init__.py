"""How near a built model is to the original: what executes both, by which figures, and at which layer they differ."""
