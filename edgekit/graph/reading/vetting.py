"""What is held against a model before it is worked on: that it stays small, and that libraries can read it at all."""

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
"""Nodes that a model may have once the functions that it calls are in their place."""
NODES_PER_NODE = 20
"""What every node of the file adds to that."""
MOST_LEVELS = 24
"""How deep subgraphs may stand inside each other; runtimes take time that doubles with every level."""
DEEP_LEVELS = 6
MOST_DEEP = 100
"""Subgraphs that may stand side by side so deep: branches that double at each level are many before they are deep."""
_LONGEST_TEXT = 1000

_Key = tuple[str, str, str]


def check_expansion(proto: onnx.ModelProto, path: Path) -> None:
    """Counts the nodes that a model has once its functions are inlined, without inlining them.

    Thirty functions that call one another twice are a few kilobytes, and a billion nodes.

    Raises:
        InputError: There are too many, or a function calls itself.
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
            "its functions stand for too many nodes",
            subject=path,
            expected=f"{most} nodes at most, for {written} in the file",
            found=total,
        )


def check_equations(proto: onnx.ModelProto, path: Path) -> None:
    """Holds the equations of Einsum nodes against the operator's grammar.

    ONNX's own shape inference never ends on a term with more than one ellipsis, or with single dots.

    Raises:
        InputError: An equation is none.
    """
    for node in nodes_inside(written_nodes(proto)):
        for attribute in node.attribute if node.op_type == "Einsum" else ():
            text = attribute.s.decode(errors="replace")
            if attribute.name == "equation" and _EQUATION.fullmatch(text) is None:
                raise InputError(
                    f"node {node.name or ', '.join(node.output)!r} (Einsum) has an equation that is none",
                    subject=path,
                    expected="terms of letters and at most one `...`, such as `...ij,...jk->...ik`",
                    found=text[:_LONGEST_TEXT],
                )


def check_references(proto: onnx.ModelProto, path: Path) -> None:
    """Looks for attributes that stand for those of a function, outside of functions.

    Raises:
        InputError: There is one: it has no value (ONNX's specification, "Attribute Reference").
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
    """Looks for a NUL in names and in what the model says of itself: C ends a text there, and no manifest holds it.

    Raises:
        InputError: There is one.
    """
    for what, text in _texts(proto):
        if "\0" in text:
            raise InputError(
                f"{what} holds a NUL",
                subject=path,
                expected="names and metadata without one",
                found=repr(text[:_LONGEST_TEXT]),
                hint="export the model again",
            )


def _texts(proto: onnx.ModelProto) -> Iterator[tuple[str, str]]:
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


def _names_of_values(graph: onnx.GraphProto) -> Iterator[tuple[str, str]]:
    for value in (*graph.input, *graph.output, *graph.initializer):
        yield "the name of a value", value.name
    for value in graph.input:
        for dim in value.type.tensor_type.shape.dim:
            yield "the name of a dimension", dim.dim_param


_TERM = r"[A-Za-z ]*+(?:\.\.\.)?+[A-Za-z ]*+"
_EQUATION = re.compile(rf"{_TERM}(?:,{_TERM})*+(?:->{_TERM})?")
"""As the operator's documentation has it."""


def check_depth(proto: onnx.ModelProto, path: Path) -> None:
    """Counts how deep branches and bodies of loops stand inside each other.

    Raises:
        InputError: Deeper than :data:`MOST_LEVELS`, or more than :data:`MOST_DEEP` side by side that are deep.
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
def unreadable_as_input_error(path: Path) -> Iterator[None]:
    """Makes an error about the file of whatever onnx and onnx_ir raise while they read it.

    They raise what they stumble over: of files that nobody has vetted that is no fault of EdgeKit.

    Raises:
        InputError: The file cannot be read.
    """
    require_name_for_libraries(path)
    try:
        yield
    except EdgeKitError:
        raise
    except (OSError, MemoryError):
        raise  # what the system refuses has errors of its own
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
