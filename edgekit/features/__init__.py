"""Facts about inputs and outputs beyond their types: open sizes, random numbers, words, and meanings."""
