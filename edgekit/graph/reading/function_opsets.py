"""Functions that use another version of the standard operators than the model that calls them."""

from __future__ import annotations

import onnx
import onnx_ir as ir


def agree_on_versions(graph_model: ir.Model) -> None:
    """Gives functions the model's operator versions, in place, where their operators are the same in both versions.

    ONNX Runtime executes such models, and refuses other models with several versions of a domain.

    Args:
        graph_model: A model with functions. For a domain that it does not import, its functions' newest version counts.
    """
    wanted: dict[str, int] = {}
    for function in graph_model.functions.values():
        for domain, version in function.opset_imports.items():
            wanted[domain] = max(version, wanted.get(domain, 0))
    wanted.update(graph_model.opset_imports)
    for function in graph_model.functions.values():
        for domain, version in list(function.opset_imports.items()):
            if version == wanted[domain]:
                continue
            if all(_is_same(node, version, wanted[domain]) for node in function.all_nodes() if node.domain == domain):
                function.opset_imports[domain] = wanted[domain]


def _is_same(node: ir.Node, one: int, other: int) -> bool:
    """Whether a node's operator is the same in two versions of its domain; True for unknown operators."""
    if not onnx.defs.has(node.op_type, node.domain):
        return True
    try:
        versions = {onnx.defs.get_schema(node.op_type, each, node.domain).since_version for each in (one, other)}
    except onnx.defs.SchemaError:  # one of the versions does not have the operator
        return False
    return len(versions) == 1
