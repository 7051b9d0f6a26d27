"""How long models take, measured side by side."""
