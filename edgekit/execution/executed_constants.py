"""Folds nodes of constants with ONNX Runtime: windows, mel filters, and operators that ONNX's evaluator gets wrong.

ONNX's evaluator folds all other constants. If it folded these as well, the model's outputs would show its errors, and
the whole folding would be dropped.
"""

from __future__ import annotations

import onnx
import onnx_ir as ir

from edgekit.execution.reference import NotRunnableError, Reference
from edgekit.graph.folding import FOLDED_BY_EXECUTION
from edgekit.model import Model

MOST_ELEMENTS = 1 << 20
"""Most elements of a tensor that is put into the model: enough for a mel matrix of 4097 bins by 256 bands."""


def execute_constants(graph_model: ir.Model) -> bool:
    """Replaces nodes of :data:`FOLDED_BY_EXECUTION` that read only constants by their results, in place.

    Returns:
        Whether any node was replaced.
    """
    changed = False
    for node in list(graph_model.graph.all_nodes()):
        if node.domain or node.op_type not in FOLDED_BY_EXECUTION:
            continue
        table = _table(node, graph_model)
        if table is None:
            continue
        home, output = node.graph, node.outputs[0]
        assert isinstance(home, ir.Graph)
        name = f"{output.name}_table"
        shape = ir.Shape(table.shape.numpy())
        value = ir.Value(name=name, const_value=table, shape=shape, type=ir.TensorType(table.dtype))
        home.register_initializer(value)
        ir.convenience.replace_all_uses_with(output, value, replace_graph_outputs=True)
        home.remove(node, safe=True)
        changed = True
    return changed


def _table(node: ir.Node, graph_model: ir.Model) -> ir.TensorProtocol | None:
    """The node's output; None if it has several, reads a value that is not constant, cannot run, or gives too much."""
    if len(node.outputs) > 1:
        return None
    constants = {}
    for value in node.inputs:
        tensor = ir.convenience.get_const_tensor(value) if value is not None else None
        if value is None or tensor is None:
            return None
        constants[str(value.name)] = onnx.numpy_helper.from_array(tensor.numpy(), str(value.name))
    output = str(node.outputs[0].name)
    made = onnx.helper.make_empty_tensor_value_info(output)
    graph = onnx.helper.make_graph([ir.to_proto(node)], "table", [], [made], list(constants.values()))
    imports = [onnx.helper.make_opsetid("", graph_model.opset_imports[""])]
    proto = onnx.helper.make_model(graph, opset_imports=imports, ir_version=graph_model.ir_version)
    try:
        table = Reference(Model(ir.from_proto(proto))).run({})[output]
    except NotRunnableError:
        return None
    return ir.tensor(table) if table.size <= MOST_ELEMENTS else None
