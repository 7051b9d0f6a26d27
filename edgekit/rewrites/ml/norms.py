"""L2 normalizers, written out before anything executes them, since ONNX Runtime loses signs in them.

Its kernel reads the sign of a number after it has written the result, which takes the input's memory if the shape is
known (ONNX Runtime 1.31): -3 beside 4 becomes 0.6. Reference and bundle would agree on the wrong sign.
"""

from __future__ import annotations

import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.model import Model, node_name
from edgekit.rewrites.ml.features import Normalizer


def with_signed_norms(model: Model) -> Model:
    """Returns the model with L2 normalizers as standard operators; the model itself if it has none.

    Args:
        model: Its nodes have names; it is not changed.
    """
    if not any(_loses_signs(node) for node in model.graph.all_nodes()):
        return model
    copy = model.with_graph(model.graph_model.clone())
    for node in [node for node in copy.graph.all_nodes() if _loses_signs(node)]:
        build = NodeBuilder(copy.opset, node_name(node))
        results = Normalizer().replacement(node, build)
        assert isinstance(node.graph, ir.Graph), "functions are inlined before"
        for constant in build.initializers:
            copy.graph.register_initializer(constant)
        ir.convenience.replace_nodes_and_values(node.graph, node, [node], build.nodes, node.outputs, results)
    return copy


def _loses_signs(node: ir.Node) -> bool:
    is_normalizer = node.op_type in Normalizer.op_types and node.domain == Normalizer.domain
    return is_normalizer and node.attributes.get_string("norm", "MAX") == "L2"
