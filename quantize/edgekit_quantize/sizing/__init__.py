"""Chooses the number of bits of each weight: the smallest model that holds a budget, or the best one of a size."""
