"""Finds how few bits each weight may have: the smallest model that holds a budget, or the best one of a size."""
