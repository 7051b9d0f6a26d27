"""Streaming calibration: what the samples tell about every observed tensor, in one pass and bounded memory."""
