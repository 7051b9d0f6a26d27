"""ONNX Runtime: builds ``model.onnx`` and ``model.ort`` for desktops, Android and the web, and executes both here."""

from edgekit_onnxruntime.api import convert, load

__all__ = ["convert", "load"]
