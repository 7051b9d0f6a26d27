"""The precision in which each node computes, as far as the manifest shows it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from edgekit.reporting.summary import Manifest, stage_record

_QUANTIZERS = {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"}
_FLOATS = {"float16", "bfloat16", "float32", "float64"}


def node_precisions(graph: Mapping[str, Any], manifest: Manifest) -> list[str]:
    """For each node of ``graph.json``: ``int8``, ``int8 weights``, ``float16``, ``float32`` or ``no arithmetic``.

    Nodes whose results are not floating-point numbers, and nodes that only convert from one precision to another, count
    as no arithmetic.
    """
    quantization = stage_record(manifest, "quantize")
    quantized, stored = set(quantization.get("quantized", ())), set(quantization.get("stored", ()))
    kept = {_identifier(name) for name in stage_record(manifest, "build").get("kept_float32", ())}
    values, otherwise = graph["values"], str(manifest["model"]["precision"])
    found = []
    for node in graph["nodes"]:
        results = [values[place] for place in node["outputs"] if place is not None]
        is_kept = any(_identifier(value["name"]) in kept for value in results)
        found.append(_precision(node, results, quantized, stored, "float32" if is_kept else otherwise))
    return found


def _identifier(name: str) -> str:
    """A value's name in formats that allow only identifiers as names."""
    return re.sub(r"^(?=\d)|\W", "_", name, flags=re.ASCII)


def _precision(
    node: Mapping[str, Any], results: list[Mapping[str, Any]], quantized: set[str], stored: set[str], otherwise: str
) -> str:
    has_floats = any(value["dtype"] in _FLOATS for value in results)
    if node["name"] in quantized:
        return "int8"
    if node["name"] in stored:
        return "int8 weights"
    if node["op"] in _QUANTIZERS or not has_floats:
        return "no arithmetic"
    return otherwise
