"""What is said of a model's inputs and outputs beyond their types: open sizes, random numbers, words, and meanings."""
