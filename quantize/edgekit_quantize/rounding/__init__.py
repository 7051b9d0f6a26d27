"""Where rounding goes, and what it adds on average."""
