"""Outputs as numbers: how far two models' are apart, in which unit, and which rows or columns are held apart."""
