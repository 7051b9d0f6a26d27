"""Attributes that are 0 or 1 and have another number, which runtimes take for one or the other."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from edgekit.graph.reading.onnx_file import STANDARD_DOMAINS
from edgekit.graph.reading.subgraphs import nodes_inside, written_nodes

TRUE_AT_ONE = frozenset(
    {"ceil_mode", "interleaved", "is_causal", "keepdims", "largest", "noop_with_empty_axes", "sorted"}
)
"""Attributes that ONNX Runtime compares with 1."""
TRUE_BUT_AT_ZERO = frozenset(
    {
        *("align_corners", "antialias", "count_include_pad", "detect_negative", "detect_positive", "exclude_outside"),
        *("inverse", "linear_before_reset", "onesided", "periodic", "select_last_index", "transA", "transB", "upper"),
    }
)
"""Attributes that ONNX Runtime compares with 0."""


def set_flags(proto: onnx.ModelProto) -> Iterator[str]:
    """Writes 0 or 1 in the place of other numbers, as ONNX Runtime takes them; yields a description of each."""
    for node in nodes_inside(written_nodes(proto)):
        if node.domain and node.domain not in STANDARD_DOMAINS:
            continue
        for attribute in node.attribute:
            name = attribute.name
            is_flag = attribute.type == onnx.AttributeProto.INT and name in TRUE_AT_ONE | TRUE_BUT_AT_ZERO
            if is_flag and attribute.i not in (0, 1):
                taken = int(name in TRUE_BUT_AT_ZERO)
                called = node.name or next(iter(node.output), "")
                yield f"{node.op_type} {called!r} has {attribute.i} for {name}, which is 0 or 1: it counts as {taken}"
                attribute.i = taken
