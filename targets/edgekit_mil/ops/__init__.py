"""One file a family of lowerings; the catalogue finds every file here."""
