"""Nodes of constants as ONNX Runtime computes them: windows, mel filters, and what ONNX's own evaluator gets wrong.

By that evaluator other constants are folded. Folding was left out as a whole where the model's outputs showed it.
"""

from __future__ import annotations

import onnx
import onnx_ir as ir

from edgekit.execution.reference import NotRunnableError, Reference
from edgekit.graph.folding import FOLDED_BY_EXECUTION
from edgekit.model import Model

MOST_ELEMENTS = 1 << 20
"""Of a tensor that is put into the model: a mel matrix of 4097 bins by 256 bands."""


def execute_constants(graph_model: ir.Model) -> bool:
    """Puts what such nodes give into the model, in place, where all that they read is constant.

    Returns:
        Whether there were any.
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
    """What the node gives; None where that is several, depends on an input, cannot be executed, or is large."""
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
