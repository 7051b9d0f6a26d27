"""Checks of nodes that ONNX's checker lets pass, and at which ONNX Runtime reads beyond its memory.

That ends the process, or gives any numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import onnx

from edgekit.errors import InputError
from edgekit.graph.reading.subgraphs import nodes_inside, written_nodes

_VARIADIC = onnx.defs.OpSchema.FormalParameterOption.Variadic


def check_operands(proto: onnx.ModelProto, path: Path | None) -> None:
    """Checks that lists of inputs have no gaps, and that each n-gram of a TfIdfVectorizer has a column.

    Args:
        proto: The model.
        path: Its file; None where there is none.

    Raises:
        InputError: A node has a gap, or an n-gram without a column.
    """
    opsets = {each.domain: each.version for each in proto.opset_import}
    for node in nodes_inside(written_nodes(proto)):
        rule = _gap(node, opsets) or _missing_column(node)
        if rule is not None:
            raise InputError(
                f"breaks the rules of ONNX: node {node.name or ', '.join(node.output)!r} ({node.op_type}): {rule}",
                subject=path or proto.graph.name,
                hint="export the model again, with a newer exporter if there is one",
            )


def _gap(node: onnx.NodeProto, opsets: Mapping[str, int]) -> str | None:
    if "" not in node.input:
        return None
    try:
        formals = onnx.defs.get_schema(node.op_type, opsets.get(node.domain, 1), node.domain).inputs
    except onnx.defs.SchemaError:
        return None
    for index, name in enumerate(node.input):
        if not name and formals and formals[min(index, len(formals) - 1)].option is _VARIADIC:
            formal = formals[min(index, len(formals) - 1)]
            return f"input {index + 1} is left out of {formal.name}, which may have any number but no gaps"
    return None


def _missing_column(node: onnx.NodeProto) -> str | None:
    if node.op_type != "TfIdfVectorizer" or node.domain not in ("", "ai.onnx"):
        return None
    given = {attribute.name: attribute for attribute in node.attribute}
    if not {"ngram_counts", "ngram_indexes"} <= given.keys():
        return None
    starts, columns = list(given["ngram_counts"].ints), len(given["ngram_indexes"].ints)
    pool = sum(len(getattr(given[name], kind)) for name, kind in _POOLS.items() if name in given)
    ends = [*starts[1:], pool]
    count = sum(max(end - start, 0) // size for size, (start, end) in enumerate(zip(starts, ends, strict=True), 1))
    return None if count <= columns else f"its pool has {count} n-grams, ngram_indexes has {columns}"


_POOLS = {"pool_int64s": "ints", "pool_strings": "strings"}
