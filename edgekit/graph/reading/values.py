"""The values of a file's graphs: each one that is read is made somewhere, and branches make what they return."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx

from edgekit.errors import InputError
from edgekit.graph.reading.subgraphs import graphs_of, nodes_inside, written_nodes

PASSED_ON = "edgekit/passed_on/"


def check_values(proto: onnx.ModelProto, path: Path | None) -> None:
    """Checks that each value that a node reads, or the model returns, is an input, an initializer or made by a node.

    Args:
        proto: The model.
        path: Its file; None where there is none.

    Raises:
        InputError: A node reads a value that nothing makes, or the model returns one.
    """
    subject = path or proto.graph.name
    for reader, name in _unmade(proto.graph, set()):
        raise InputError(
            f"{reader} {name!r}, which is no input, no initializer and no node's output",
            subject=subject,
            hint="export the model again; the file may be damaged, or a tool has removed the node or the weights",
        )
    for function in proto.functions:
        body = onnx.GraphProto(node=function.node, output=[onnx.ValueInfoProto(name=name) for name in function.output])
        for reader, name in _unmade(body, {*function.input}):
            raise InputError(
                f"{reader} {name!r}, which nothing makes in the function {function.name!r}",
                subject=subject,
                hint="export the model again",
            )


def _unmade(graph: onnx.GraphProto, outside: set[str]) -> Iterator[tuple[str, str]]:
    """Yields who reads a value that nothing makes, and the value's name."""
    known = outside | _made_in(graph)
    for node in graph.node:
        for name in node.input:
            if name and name not in known:
                yield f"node {node.name or ', '.join(node.output)!r} ({node.op_type}) reads", name
        for inner in graphs_of(node):
            yield from _unmade(inner, known)
    for value in graph.output:
        if value.name not in known:
            yield "it returns" if not outside else f"graph {graph.name!r} returns", value.name


def _made_in(graph: onnx.GraphProto) -> set[str]:
    names = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    names |= {tensor.values.name for tensor in graph.sparse_initializer}
    return names | {name for node in graph.node for name in node.output if name}


def pass_on_outer_values(proto: onnx.ModelProto) -> list[str]:
    """Makes branches and bodies return copies of values from outside, in place.

    ONNX Runtime refuses a graph inside a node that returns a value which it does not make.

    Returns:
        A description of the repairs, if there are any.
    """
    passed_on = []
    for node in nodes_inside(written_nodes(proto)):
        for graph in graphs_of(node):
            made = _made_in(graph)
            for value in graph.output:
                if value.name in made:
                    continue
                outer, value.name = value.name, f"{PASSED_ON}{graph.name}/{value.name}"
                value.ClearField("type")  # some exporters state another one than the value has
                graph.node.append(onnx.helper.make_node("Identity", [outer], [value.name]))
                passed_on.append(outer)
    if not passed_on:
        return []
    names = ", ".join(map(repr, sorted(set(passed_on))))
    return [f"branches or bodies returned values that they do not make, {names}: they return copies"]
