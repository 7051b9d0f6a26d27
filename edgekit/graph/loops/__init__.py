"""Loops and scans that compute something simpler: a recurrent layer, a gather, or all their iterations at once."""
