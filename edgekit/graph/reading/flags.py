"""Attributes that are 0 or 1 and have another number, which runtimes take for one or the other."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from edgekit.graph.reading.onnx_file import STANDARD_DOMAINS
from edgekit.graph.reading.subgraphs import nodes_inside, written_nodes

COMPARED_WITH_ONE = ("ceil_mode", "interleaved", "is_causal", "keepdims", "largest", "noop_with_empty_axes", "sorted")
COMPARED_WITH_ZERO = (
    *("align_corners", "antialias", "count_include_pad", "detect_negative", "detect_positive", "exclude_outside"),
    *("inverse", "linear_before_reset", "onesided", "periodic", "select_last_index", "transA", "transB", "upper"),
)
TAKEN_AS = dict.fromkeys(COMPARED_WITH_ONE, 0) | dict.fromkeys(COMPARED_WITH_ZERO, 1)
"""What another number than 0 and 1 is to ONNX Runtime, by the attribute's name."""


def set_flags(proto: onnx.ModelProto) -> Iterator[str]:
    """Writes 0 or 1 in the place of other numbers, as ONNX Runtime takes them; yields a description of each."""
    for node in nodes_inside(written_nodes(proto)):
        if node.domain and node.domain not in STANDARD_DOMAINS:
            continue
        for attribute in node.attribute:
            taken = TAKEN_AS.get(attribute.name)
            if taken is None or attribute.type != onnx.AttributeProto.INT or attribute.i in (0, 1):
                continue
            called = node.name or next(iter(node.output), "")
            found = f"{node.op_type} {called!r} has {attribute.i} for {attribute.name}"
            yield f"{found}, which is 0 or 1: it counts as {taken}"
            attribute.i = taken
