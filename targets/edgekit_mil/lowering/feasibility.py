"""Whether a node can run at all with inputs of given types and shapes.

ONNX's schemas tell, its own shape inference, and ONNX Runtime, which is asked last: the inference does not look at all
shapes. They are asked when a node could not be lowered: a node that no runtime could run is a fault of the model, or of
the sizes that its inputs were fixed to. A model for several settings (sampling rates, say) chooses between them by an
If at run time; once the input shapes are fixed, often only one branch fits them.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnx_ir as ir

from edgekit.execution.kernels import NO_KERNEL
from edgekit.execution.reference import NotRunnableError, Reference
from edgekit.graph.reading.ir_version import newest_ir_version, newest_opset
from edgekit.graph.reading.subgraphs import graphs_of, nodes_inside
from edgekit.model import Model
from edgekit_mil.core.values import TensorList, Value
from edgekit_mil.lowering.function_bodies import STANDARD_DOMAINS, type_proto

GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
LARGEST_GIVEN = 64
"""Constants with at most 64 elements are given to the inference by value: shapes and axes are, weights are not."""
DIVISIONS = frozenset({"Div", "Mod"})
"""Operators that are not tried on zeros: the division of an integer by zero ends the process."""


def broken_rule(node: ir.Node, schema: onnx.defs.OpSchema | None, opsets: Mapping[str, int]) -> str | None:
    """Returns which rule of its operator's schema a node breaks: inputs and attributes that have to be given, say.

    Args:
        node: The node, detached, its attributes without references, inputs left out without a name.
        schema: The operator's schema, if there is one.
        opsets: Opset imports by domain.
    """
    context = onnx.checker.C.CheckerContext()
    context.ir_version, context.opset_imports = onnx.IR_VERSION, dict(opsets)
    proto = ir.to_proto(node)
    for graph in graphs_of(proto):
        _take_outer_values_as_inputs(graph)
    try:
        onnx.checker.check_node(proto, context)
    except onnx.checker.ValidationError as error:
        return str(error).strip().splitlines()[0]
    formals = schema.inputs if schema is not None else []
    for index, value in enumerate(node.inputs):
        formal = formals[min(index, len(formals) - 1)] if formals else None
        if value is None and formal is not None and formal.option is onnx.defs.OpSchema.FormalParameterOption.Variadic:
            return f"input {index + 1} is left out of {formal.name}, which may have any number but no gaps"
    return None


def _take_outer_values_as_inputs(graph: onnx.GraphProto) -> None:
    """Adds inputs for values that a body reads from outside, which the checker does not know, in place."""
    inner = list(nodes_inside(graph.node))
    levels = [graph, *(each for node in inner for each in graphs_of(node))]
    made = {name for node in inner for name in node.output}
    made |= {value.name for level in levels for value in (*level.input, *level.initializer)}
    outer = {name for node in inner for name in node.input if name} - made
    graph.input.extend(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in sorted(outer))


def contradiction(node: ir.Node, inputs: Sequence[Value | None], opsets: Mapping[str, int]) -> str | None:
    """Returns the reason why a node cannot run.

    Args:
        node: The node, detached, its attributes without references, inputs left out without a name.
        inputs: Its inputs' values.
        opsets: Opset imports by domain.

    Returns:
        The inference's message, or None if it found no contradiction.
    """
    has_graphs = any(attr.type in GRAPHS for attr in node.attributes.values())
    if node.domain not in STANDARD_DOMAINS or has_graphs or any(isinstance(value, TensorList) for value in inputs):
        return None
    graph = onnx.helper.make_graph([ir.to_proto(node)], "node", [], [])
    for name, value in _named(node, inputs).items():
        if (
            value.constant is not None
            and value.constant.size <= LARGEST_GIVEN
            and value.constant.dtype.kind not in "OSU"
        ):
            graph.initializer.append(onnx.numpy_helper.from_array(value.constant, name))
        else:
            graph.input.append(onnx.helper.make_value_info(name, type_proto(value)))
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    model = onnx.helper.make_model(graph, opset_imports=imports)
    try:
        onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except onnx.shape_inference.InferenceError as error:
        return str(error).strip().splitlines()[-1]
    return None


def refusal_by_reference(node: ir.Node, inputs: Sequence[Value | None], opsets: Mapping[str, int]) -> str | None:
    """Returns why ONNX Runtime runs the node neither on ones nor on zeros of these types and shapes.

    Open dimensions get, all together, the sizes 1 and 2 and every size that an input has: some of them may be equal.

    Args:
        node: The node, detached, its attributes without references, inputs left out without a name.
        inputs: Its inputs' values.
        opsets: Opset imports by domain.

    Returns:
        ONNX Runtime's message; None if the node runs, or if ONNX Runtime has no kernel for it.
    """
    has_graphs = any(attr.type in GRAPHS for attr in node.attributes.values())
    is_known = opsets.get("", 1) <= newest_opset()
    if has_graphs or not is_known or any(isinstance(value, TensorList) for value in inputs):
        return None
    graph = onnx.helper.make_graph([ir.to_proto(node)], "node", [], [])
    graph.output.extend(onnx.helper.make_empty_tensor_value_info(value.name) for value in node.outputs if value.name)
    fed: dict[str, Value] = {}
    for name, value in _named(node, inputs).items():
        if value.constant is not None:
            tensor = ir.Tensor(value.constant, dtype=value.dtype, name=name)
            graph.initializer.append(ir.to_proto(tensor))
        else:
            graph.input.append(onnx.helper.make_value_info(name, type_proto(value)))
            fed[name] = value
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    proto = onnx.helper.make_model(graph, opset_imports=imports, ir_version=newest_ir_version())
    sizes = {size for value in inputs if value is not None for size in value.shape if isinstance(size, int)}
    is_open = any(not value.is_static for value in fed.values())
    numbers = (1,) if node.op_type in DIVISIONS else (1, 0)
    message = ""
    try:
        reference = Reference(Model(ir.from_proto(proto)))
    except NotRunnableError as error:
        return None if NO_KERNEL in error.cause else error.cause
    for size, number in itertools.product(sorted({1, 2, *sizes}) if is_open else [1], numbers):
        shapes = {name: [each if isinstance(each, int) else size for each in fed[name].shape] for name in fed}
        feeds = {name: np.full(shapes[name], number, value.dtype.numpy()) for name, value in fed.items()}
        try:
            reference.run(feeds)
        except NotRunnableError as error:
            message = error.cause
        else:
            return None
    return message


def _named(node: ir.Node, inputs: Sequence[Value | None]) -> dict[str, Value]:
    """The inputs that are given, by name: a node may read the same value twice."""
    pairs = zip(node.inputs, inputs, strict=False)
    return {formal.name: value for formal, value in pairs if formal is not None and formal.name and value is not None}


def type_contradiction(schema: onnx.defs.OpSchema | None, inputs: Sequence[Value | None]) -> str | None:
    """Returns which input has an element type that the operator is not defined for; None if there is no such input.

    Args:
        schema: The operator's schema, if there is one.
        inputs: The node's inputs.
    """
    if schema is None or not schema.inputs:
        return None
    for index, value in enumerate(inputs):
        formal = schema.inputs[min(index, len(schema.inputs) - 1)]
        if value is None or isinstance(value, TensorList):
            continue
        if f"tensor({value.dtype.name.lower()})" not in formal.types:
            return f"is not defined for {value.dtype.name.lower()}: input {index + 1} ({formal.name})"
    return None
