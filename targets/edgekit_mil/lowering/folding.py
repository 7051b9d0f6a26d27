"""Folding: a node whose inputs are all known is evaluated now, with ONNX's own semantics.

The evaluator is the ONNX project's reference implementation, so integer widths, type promotion and corner cases are
the specification's, not MIL's. Operators that the evaluator computes wrongly are left to their lowerings.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnx_ir as ir
from onnx.reference import ReferenceEvaluator

from edgekit.graph.folding import is_miscomputed
from edgekit.rewrites.randomness import RANDOM
from edgekit_mil.core.values import Value, constant
from edgekit_mil.lowering.stored_weights import kept

CONSTANTS = frozenset({"Constant", "ConstantOfShape"})
"""Operators that are not folded: their lowerings return constants, in less time or memory."""
KEPT = frozenset({"DequantizeLinear"})
"""Operators that are not folded, so that quantized weights stay quantized; their lowerings decide."""
UNDEFINED_OF_NOTHING = frozenset({"ReduceMax", "ReduceMin"})
"""Operators that the evaluator cannot compute for tensors without elements, although the specification defines them."""
SCALARS = {"CumSum": 1, "CumProd": 1}
"""Index of an input that is a scalar by the specification; exporters and runtimes also have vectors of one element."""
GROWTH_FACTOR = 8
GROWTH_LIMIT = 1 << 20
"""A fold may make 8 times the bytes that it replaces (a cast from bool to double does), and 1 MiB more.
A larger result is a repetition, which is computed at run time."""


def is_foldable(node: ir.Node, schema: onnx.defs.OpSchema | None, inputs: Sequence[Value | None]) -> bool:
    """Whether the node can be evaluated during the conversion."""
    if schema is None or node.op_type in RANDOM | KEPT | CONSTANTS:
        return False
    if any(value is not None and not value.is_constant for value in inputs):
        return False
    if not schema.domain and is_miscomputed(node.op_type, schema.since_version):
        return False
    if node.op_type == "Dropout" and any(value is not None for value in inputs[2:]):
        return False  # in training mode it is random
    if node.op_type in UNDEFINED_OF_NOTHING and any(value is not None and 0 in value.shape for value in inputs):
        return False
    return not any(attr.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS) for attr in node.attributes.values())


def fold(node: ir.Node, opset: Mapping[str, int], inputs: Sequence[Value | None]) -> list[Value | None] | None:
    """Returns the node's outputs as constants; None if the evaluator fails, or if they are much larger than the inputs.

    A node that the evaluator fails on is left to the operator's lowering, which says what is wrong with it.

    Args:
        node: The node, its attributes without references.
        opset: Opset imports by domain.
        inputs: Its inputs, all constant or left out.
    """
    names = [f"x{i}" if value is not None else "" for i, value in enumerate(inputs)]
    outputs = [f"y{i}" if value.name else "" for i, value in enumerate(node.outputs)]
    proto = onnx.helper.make_node(node.op_type, names, outputs, domain=node.domain)
    proto.attribute.extend(ir.to_proto(attr) for attr in node.attributes.values())
    known = {name: value for name, value in zip(names, inputs, strict=True) if value is not None}
    graph = onnx.helper.make_graph(
        [proto],
        "fold",
        [onnx.helper.make_tensor_value_info(name, value.dtype, None) for name, value in known.items()],
        [onnx.helper.make_empty_tensor_value_info(name) for name in outputs if name],
    )
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in opset.items()]
    model = onnx.helper.make_model(graph, opset_imports=imports)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # overflow and division by zero have defined results here
        try:
            results = ReferenceEvaluator(model).run(None, _feeds(node.op_type, known))
        except Exception:  # each operator raises another type of error
            return None
    arrays = iter(results)
    values = [next(arrays) if name else None for name in outputs]
    if not all(array is None or isinstance(array, np.ndarray | np.generic) for array in values):
        return None  # a sequence or an optional
    before = sum(value.constant.nbytes for value in known.values() if value.constant is not None)
    after = sum(np.asarray(array).nbytes for array in values if array is not None)
    if after > GROWTH_FACTOR * before + GROWTH_LIMIT:
        return None
    return [None if array is None else kept(node, inputs, constant(np.asarray(array))) for array in values]


def _feeds(op_type: str, known: Mapping[str, Value]) -> dict[str, np.ndarray | None]:
    """The constants as the evaluator takes them."""
    feeds = {name: value.constant for name, value in known.items()}
    scalar = f"x{SCALARS.get(op_type)}"
    array = feeds.get(scalar)
    if array is not None and array.shape == (1,):
        feeds[scalar] = array.reshape(())
    return feeds
