"""Outputs as numbers: how far two models' numbers differ, in which unit, and which rows or columns are kept apart."""
