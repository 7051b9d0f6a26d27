"""Finds all nodes that ONNX Runtime has no kernel for, while the runtime itself stops at the first one.

Each node is loaded in a separate model, with the input types that it has in the whole model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import onnx_ir as ir
from google.protobuf.message import DecodeError
from onnx_ir.passes.common import ShapeInferencePass

from edgekit.errors import OpGap
from edgekit.execution.reference import missing_locale
from edgekit.model import node_name, op_name
from edgekit.operators.hints import locale_hint, replacement_hint
from edgekit_onnxruntime.session import CPU_PROVIDER, first_line, runtime_errors, session_options

NO_KERNEL = re.compile(r"Could not find an implementation for (?P<op>[\w.]+)\(\d+\) node with name '(?P<node>.*)'")
CONTROL_FLOW = ("If", "Loop", "Scan", "SequenceMap")
NODE_IN_MESSAGE = re.compile(r"^.*?This is an invalid model\. In Node, .*?, Error ")
NO_SCHEMA = re.compile(r"No Op registered for \S+|is not a registered function/op|No opset import for domain")


def find_gaps(path: Path, error: Exception) -> list[OpGap]:
    """The nodes of the model at ``path`` that keep ONNX Runtime from loading it.

    Args:
        path: A ``.onnx`` file, all of whose nodes are tried, or a ``.ort`` file, for which ``error`` names one node.
        error: The error that the runtime raised for the whole model.

    Returns:
        The gaps in graph order; empty if the model fails for another reason.
    """
    if path.suffix == ".onnx":
        return list(_probe(path))
    match = NO_KERNEL.search(str(error))
    return [OpGap(op_type=match["op"], node=match["node"], reason=first_line(error))] if match else []


def _probe(path: Path) -> Iterator[OpGap]:
    import onnxruntime

    try:
        model = ShapeInferencePass()(ir.load(path)).model
    except (DecodeError, OSError):
        return  # not a model: none of its nodes is to blame
    options = session_options(optimize="DISABLED")
    for node in model.graph.all_nodes():
        if node.domain == "" and node.op_type in CONTROL_FLOW:
            continue  # its bodies' nodes are probed one by one
        try:
            onnxruntime.InferenceSession(_alone(node, model), options, providers=[CPU_PROVIDER])
        except runtime_errors() as error:
            reason = _reason(node, model, str(error))
            if reason:
                yield OpGap(
                    op_type=op_name(node), node=node_name(node), reason=reason, hint=_hint(node, model, str(error))
                )


def _reason(node: ir.Node, model: ir.Model, text: str) -> str:
    """Why the node alone cannot be loaded; empty if the cause may be an input type that is not known."""
    if NO_SCHEMA.search(text):
        return f"ONNX Runtime does not know it in opset {model.opset_imports.get(node.domain)}"
    if any(value is not None and value.dtype is None for value in node.inputs):
        return ""
    if NO_KERNEL.search(text):
        types = ", ".join(str(value.dtype) for value in node.inputs if value is not None)
        return f"ONNX Runtime has no CPU kernel for it with inputs {types}"
    locale = missing_locale(text)
    if locale is not None:
        return f"it changes texts by the locale {locale}, which this system does not have"
    return f"ONNX Runtime refuses it: {NODE_IN_MESSAGE.sub('', first_line(text))}"


def _hint(node: ir.Node, model: ir.Model, text: str) -> str:
    """The hint for a node that cannot be loaded, by the runtime's message."""
    if NO_SCHEMA.search(text):
        known = "" if node.domain else f"a newer opset than {model.opset_imports.get('')} or "
        return f"export the model with {known}standard operators only"
    if NO_KERNEL.search(text):
        return "cast its inputs to float32 around it, or to another type that the operator's kernel has"
    locale = missing_locale(text)
    return replacement_hint(node, model.opset_imports.get("", 0)) if locale is None else locale_hint(locale)


def _alone(node: ir.Node, model: ir.Model) -> bytes:
    """A serialized model that consists of the node alone; the node's inputs are the graph's inputs."""
    values = {value.name: value for value in node.inputs if value is not None}
    inputs = {name: ir.Value(name=name, type=value.type, shape=value.shape) for name, value in values.items()}
    copy = ir.Node(
        node.domain,
        node.op_type,
        [None if value is None else inputs[value.name] for value in node.inputs],
        node.attributes.values(),
        num_outputs=len(node.outputs),
        name=node_name(node),
    )
    for output, original in zip(copy.outputs, node.outputs, strict=True):
        output.name = original.name
    outputs = [value for value in copy.outputs if value.name]
    graph = ir.Graph(list(inputs.values()), outputs, nodes=[copy], opset_imports=model.opset_imports, name="probe")
    alone = ir.Model(graph, ir_version=model.ir_version, functions=list(model.functions.values()))
    return bytes(ir.to_proto(alone).SerializeToString())
