"""One file a family of lowerings; every file here is imported by the registry."""
