"""Brings a graph into a form that quantizes well: folded constants, and few, simple operators."""

from edgekit_quantize.prepare.pipeline import prepared

__all__ = ["prepared"]
