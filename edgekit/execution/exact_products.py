"""Products of 8-bit integers in the reference: as ONNX defines them, even on processors that add them in 16 bits.

ONNX Runtime's kernels for unsigned activations and signed weights saturate on x86 processors without VNNI. What a
model's operators mean does not depend on a processor.
"""

from __future__ import annotations

import onnx_ir as ir

from edgekit.graph.unsigned_weights import with_unsigned_weights
from edgekit.instruction_sets import WITHOUT_VNNI, own_set
from edgekit.model import Model

BLOCK_PRODUCT = "MatMulNBits", "com.microsoft"
"""The operator for products with weights of a few bits in blocks, and its domain."""
_ACCURACY = "accuracy_level"
_IN_FLOATS = 1
"""The value of ``accuracy_level`` for a product in float32. The attribute is the least accuracy that is enough: with 4,
ONNX Runtime rounds the other factor to 8 bits, and for numbers midway between two steps the last bit decides."""


def with_exact_products(model: Model) -> Model:
    """The model in a form whose integer products this processor computes exactly, or the model if it does already.

    Args:
        model: It is not changed.
    """
    return with_unsigned_weights(model) if own_set() in WITHOUT_VNNI else model


def with_blocks_in_floats(model: Model) -> Model:
    """The model with products of weights in blocks computed in float32, so that forms of a model can be compared.

    This is the model itself if its products in blocks are already computed in float32.

    Args:
        model: It is not changed.
    """
    if not any(_may_be_rough(node) for node in model.graph.all_nodes()):
        return model
    graph_model = model.graph_model.clone()
    for node in graph_model.graph.all_nodes():
        if _may_be_rough(node):
            node.attributes.add(ir.AttrInt64(_ACCURACY, _IN_FLOATS))
    return model.with_graph(graph_model)


def _may_be_rough(node: ir.Node) -> bool:
    return (node.op_type, node.domain) == BLOCK_PRODUCT and node.attributes.get_int(_ACCURACY, 0) > _IN_FLOATS
