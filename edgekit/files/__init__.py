"""Writes files completely or not at all, and reads untrusted files with care."""
