"""The project file at work: all of its bundles built, and a first draft written from a model and its samples."""
