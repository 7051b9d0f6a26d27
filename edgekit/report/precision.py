"""In which precision each node computes, as far as the manifest tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgekit.report.summary import Manifest, stage_record

_QUANTIZERS = {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"}
_FLOATS = {"float16", "bfloat16", "float32", "float64"}


def node_precisions(graph: Mapping[str, Any], manifest: Manifest) -> list[str]:
    """For each node of ``graph.json``: ``int8``, ``int8 weights``, ``float16``, ``float32`` or ``no arithmetic``.

    Nodes whose results are no floating-point numbers, and those that only change from one precision to another, do no
    arithmetic in this sense.
    """
    quantization = stage_record(manifest, "quantize")
    quantized, stored = set(quantization.get("quantized", ())), set(quantization.get("stored", ()))
    kept = set(stage_record(manifest, "build").get("kept_float32", ()))
    return [
        _precision(node, graph["values"], quantized, stored, "float32" if node["name"] in kept else _float(manifest))
        for node in graph["nodes"]
    ]


def _float(manifest: Manifest) -> str:
    return str(manifest["model"]["precision"])


def _precision(
    node: Mapping[str, Any], values: list[Mapping[str, Any]], quantized: set[str], stored: set[str], otherwise: str
) -> str:
    results = {values[place]["dtype"] for place in node["outputs"] if place is not None}
    if node["name"] in quantized:
        return "int8"
    if node["name"] in stored:
        return "int8 weights"
    if node["op"] in _QUANTIZERS or not results & _FLOATS:
        return "no arithmetic"
    return otherwise
