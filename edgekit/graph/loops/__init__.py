"""Loops and scans that are something simpler: a recurrent layer, a gather, as many rows at once."""
