"""Rewrites operations that OpenVINO refuses, or that crash it, in a form that it loads."""
