"""Checks of a model before it is processed: it does not expand beyond limits, and libraries can read it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import onnx

from edgekit.errors import EdgeKitError, InputError
from edgekit.files.utf8_names import require_name_for_libraries
from edgekit.graph.reading.subgraphs import graphs_of, nodes_inside, written_nodes

MOST_NODES = 200_000
"""The most nodes of a model after its functions are inlined."""
NODES_PER_NODE = 20
"""How much each node in the file adds to :data:`MOST_NODES`."""
MOST_LEVELS = 24
"""The most levels of nested subgraphs; the time that runtimes take doubles with every level."""
DEEP_LEVELS = 6
MOST_DEEP = 100
"""The most subgraphs at one level from :data:`DEEP_LEVELS` on.

Branches that double at each level become many before they are deep.
"""
_LONGEST_TEXT = 1000

_Key = tuple[str, str, str]


def check_expansion(proto: onnx.ModelProto, path: Path) -> None:
    """Counts the nodes of a model after inlining its functions, without inlining them.

    Thirty functions that each call the next one twice take a few kilobytes, and expand to a billion nodes.

    Raises:
        InputError: There are too many nodes, or a function calls itself.
    """
    functions = {(function.domain, function.name, function.overload): function for function in proto.functions}
    if not functions:
        return
    written = len(written_nodes(proto))
    most = MOST_NODES + NODES_PER_NODE * written
    counts: dict[_Key, int] = {}
    for key in _in_order(functions, path):
        counts[key] = _expanded(functions[key].node, counts)
    total = _expanded(proto.graph.node, counts)
    if total > most:
        raise InputError(
            "its functions expand to too many nodes",
            subject=path,
            expected=f"{most} nodes at most, as the file has {written}",
            found=total,
        )


def check_equations(proto: onnx.ModelProto, path: Path) -> None:
    """Checks the equations of Einsum nodes against the operator's grammar.

    ONNX's own shape inference never returns for a term with more than one ellipsis, or with single dots.

    Raises:
        InputError: An equation is invalid.
    """
    for node in nodes_inside(written_nodes(proto)):
        for attribute in node.attribute if node.op_type == "Einsum" else ():
            text = attribute.s.decode(errors="replace")
            if attribute.name == "equation" and _EQUATION.fullmatch(text) is None:
                raise InputError(
                    f"node {node.name or ', '.join(node.output)!r} (Einsum) has an invalid equation",
                    subject=path,
                    expected="terms of letters and at most one `...`, such as `...ij,...jk->...ik`",
                    found=text[:_LONGEST_TEXT],
                )


def check_references(proto: onnx.ModelProto, path: Path) -> None:
    """Checks that no attribute outside of functions refers to an attribute of a function.

    Raises:
        InputError: An attribute does: it has no value (ONNX's specification, "Attribute Reference").
    """
    for node in nodes_inside(proto.graph.node):
        for attribute in node.attribute:
            if attribute.ref_attr_name:
                name = node.name or ", ".join(node.output)
                raise InputError(
                    f"node {name!r} ({node.op_type}) refers to an attribute of a function",
                    subject=path,
                    expected=f"a value of its attribute {attribute.name!r}: the node is in no function",
                    found=f"a reference to {attribute.ref_attr_name[:_LONGEST_TEXT]!r}",
                    hint="export the model again",
                )


def check_texts(proto: onnx.ModelProto, path: Path) -> None:
    """Checks that names and metadata are UTF-8 without NUL: a C string ends there, and no manifest can hold it.

    Raises:
        InputError: A name or an entry of the metadata has a NUL, or is not in UTF-8.
    """
    for what, text in _texts(proto):
        if isinstance(text, bytes):  # protobuf returns what is not UTF-8 as bytes
            raise InputError(
                f"{what} is not text in UTF-8",
                subject=path,
                found=repr(text[:_LONGEST_TEXT]),
                hint="export the model again; the file may be damaged",
            )
        if "\0" in text:
            raise InputError(
                f"{what} holds a NUL",
                subject=path,
                expected="names and metadata without one",
                found=repr(text[:_LONGEST_TEXT]),
                hint="export the model again",
            )


def _texts(proto: onnx.ModelProto) -> Iterator[tuple[str, str | bytes]]:
    yield from (("the producer", text) for text in (proto.producer_name, proto.producer_version))
    yield from (("the model's domain", proto.domain), ("the graph's name", proto.graph.name))
    for entry in proto.metadata_props:
        yield from (("an entry of the metadata", text) for text in (entry.key, entry.value))
    for function in proto.functions:
        yield from (("a function's name", text) for text in (function.name, function.domain))
    yield from _names_of_values(proto.graph)
    for node in nodes_inside(written_nodes(proto)):
        yield from (("the name of a node", text) for text in (node.name, node.op_type, node.domain))
        yield from (("the name of a value", text) for text in (*node.input, *node.output))
        for attribute in node.attribute:
            yield "the name of an attribute", attribute.name
        for graph in graphs_of(node):
            yield from _names_of_values(graph)


def _names_of_values(graph: onnx.GraphProto) -> Iterator[tuple[str, str | bytes]]:
    for value in (*graph.input, *graph.output, *graph.initializer):
        yield "the name of a value", value.name
    for value in graph.input:
        for dim in value.type.tensor_type.shape.dim:
            yield "the name of a dimension", dim.dim_param


_TERM = r"[A-Za-z ]*+(?:\.\.\.)?+[A-Za-z ]*+"
_EQUATION = re.compile(rf"{_TERM}(?:,{_TERM})*+(?:->{_TERM})?")
"""The form of equations in the operator's documentation."""


def check_depth(proto: onnx.ModelProto, path: Path) -> None:
    """Checks how deeply branches and bodies of loops are nested.

    Raises:
        InputError: They are deeper than :data:`MOST_LEVELS`, or a deep level has more than :data:`MOST_DEEP` of them.
    """
    level, depth = written_nodes(proto), 0
    while graphs := [graph for outer in level for graph in graphs_of(outer)]:
        depth += 1
        level = [node for graph in graphs for node in graph.node]
        if depth >= DEEP_LEVELS and len(graphs) > MOST_DEEP:
            raise InputError(
                "has too many subgraphs inside each other",
                subject=path,
                expected=f"{MOST_DEEP} side by side at level {depth} at most",
                found=len(graphs),
                hint="compute the branches once, and choose between their results with Where",
            )
        if level and depth > MOST_LEVELS:
            raise InputError(
                "has subgraphs that are nested too deeply",
                subject=path,
                expected=f"{MOST_LEVELS} levels at most",
                found=f"more, at node {level[0].name or ', '.join(level[0].output)!r} ({level[0].op_type})",
                hint="write the branches side by side",
            )


def _in_order(functions: Mapping[_Key, onnx.FunctionProto], path: Path) -> Iterator[_Key]:
    """The functions, each after those that it calls."""
    done: set[_Key] = set()
    for start in functions:
        waiting, open_calls = [(start, False)], set[_Key]()
        while waiting:
            key, left = waiting.pop()
            if left:
                open_calls.discard(key)
                if key not in done:
                    done.add(key)
                    yield key
                continue
            if key in done:
                continue
            if key in open_calls:
                raise InputError(f"function {key[1]!r} calls itself", subject=path)
            open_calls.add(key)
            waiting.append((key, True))
            called = {_key(node) for node in nodes_inside(functions[key].node)} & functions.keys()
            for other in called:
                if other in open_calls:
                    raise InputError(f"function {other[1]!r} calls itself", subject=path)
                waiting.append((other, False))


def _expanded(nodes: Iterable[onnx.NodeProto], counts: Mapping[_Key, int]) -> int:
    return sum(counts.get(_key(node), 1) for node in nodes_inside(nodes))


def _key(node: onnx.NodeProto) -> _Key:
    return node.domain, node.op_type, node.overload


@contextmanager
def unreadable_as_input_error(path: Path | None) -> Iterator[None]:
    """Turns the errors of onnx and onnx_ir while they read a file into an error about the file.

    For an unchecked file, the two libraries raise errors of any type, which are no fault of EdgeKit.

    Args:
        path: The file; None for a message that was given.

    Raises:
        InputError: The file cannot be read.
    """
    if path is not None:
        require_name_for_libraries(path)
    try:
        yield
    except EdgeKitError:
        raise
    except (OSError, MemoryError, ImportError):
        raise  # errors of the operating system and of the environment are reported elsewhere
    except Exception as error:
        root = error
        while root.__cause__ is not None and isinstance(root.__cause__, Exception):
            root = root.__cause__
        text = " ".join(str(root).split())[:_LONGEST_TEXT]
        raise InputError(
            "cannot be read as a model",
            subject=path,
            expected="a graph that onnx and onnx_ir can read",
            found=f"{type(root).__name__}: {text}",
            hint="export the model again; `onnx.checker.check_model` may tell more",
        ) from error
