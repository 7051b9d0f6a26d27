"""Brings a graph into the form that quantizes well: constants in place, few and plain operators."""

from edgekit_quantize.prepare.pipeline import prepared

__all__ = ["prepared"]
