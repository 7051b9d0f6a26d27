"""Where a device begins to compute something else: layer by layer."""
