"""How near a built model is to the original: who executes both, by which figures, and at which layer they part."""
