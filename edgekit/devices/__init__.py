"""Where a bundle's model is executed: on this machine, or on a device that a URL names."""

LOCAL = "local"
"""The URL of this machine."""
