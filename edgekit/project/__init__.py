"""Builds the bundles of a project file, and drafts a project file from a model and its samples."""
