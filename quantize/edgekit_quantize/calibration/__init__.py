"""Streaming calibration: statistics of every observed tensor over the samples, in one pass and bounded memory."""
