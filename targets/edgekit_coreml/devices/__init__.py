"""Apple hardware as devices: a Mac, and results from Xcode."""
