"""Finds the layer from which a device's results differ, layer by layer."""
