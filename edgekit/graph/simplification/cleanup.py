"""Removes from a graph what it does not need: operators that pass on their input, and duplicate tensors."""

from __future__ import annotations

import hashlib

import onnx_ir as ir


def remove_identities(graph_model: ir.Model) -> bool:
    """Removes Identity nodes, in place, also in subgraphs.

    An Identity stays if it passes an input, an initializer or a value of an outer graph to an output of its graph,
    because a node of the graph has to make an output. It also stays between two outputs, which need two names.

    Returns:
        Whether there were any.
    """
    changed = False
    for graph in graph_model.graphs():
        for node in list(graph):
            if node.op_type != "Identity" or node.domain or node.inputs[0] is None:
                continue
            source, made = node.inputs[0], node.outputs[0]
            if made.is_graph_output():
                producer = source.producer()
                if producer is None or producer.graph is not graph or source.is_graph_output():
                    continue
                name = made.name
                made.name = None
                source.name = name
            source.shape = made.shape if source.shape is None else source.shape
            source.type = made.type if source.type is None else source.type
            ir.convenience.replace_all_uses_with(made, source, replace_graph_outputs=True)
            graph.remove(node, safe=True)
            changed = True
    return changed


def store_once(graph_model: ir.Model) -> bool:
    """Removes duplicate initializers within each graph, in place; returns whether there were any."""
    changed = False
    for graph in graph_model.graphs():
        kept: dict[tuple[ir.DataType, tuple[int, ...], bytes], ir.Value] = {}
        for name, value in list(graph.initializers.items()):
            tensor = value.const_value
            if tensor is None or value.is_graph_input() or value.is_graph_output():
                continue
            first = kept.setdefault((tensor.dtype, tuple(tensor.shape.numpy()), digest(tensor)), value)
            if first is not value:
                ir.convenience.replace_all_uses_with(value, first)
                del graph.initializers[name]
                changed = True
    return changed


def drop_unused_initializers(graph: ir.Graph) -> None:
    """Removes initializers that no node reads and that are no graph output, in place, in branches and loops too."""
    for each in (graph, *graph.subgraphs()):
        for name in [name for name, value in each.initializers.items() if not value.uses()]:
            if not each.initializers[name].is_graph_output():
                each.initializers.pop(name)


def digest(tensor: ir.TensorProtocol) -> bytes:
    """Returns a hash of a tensor's numbers or strings, independent of their memory layout."""
    if isinstance(tensor, ir.StringTensor):
        parts = [len(text).to_bytes(8) + text for text in tensor.string_data()]
        return hashlib.blake2b(b"".join(parts), digest_size=16).digest()
    return hashlib.blake2b(tensor.tobytes(), digest_size=16).digest()
