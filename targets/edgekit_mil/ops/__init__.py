"""One file for each family of lowerings; the catalogue finds every file in this package."""
