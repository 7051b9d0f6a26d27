"""Accounts of how every layer was quantized, and of the error that it adds."""
