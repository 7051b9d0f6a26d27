"""Tracing of a model's input texts: the nodes that move them, and the nodes that look them up in a list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import onnx_ir as ir

from edgekit.features.vocabularies import as_text
from edgekit.graph.words.lists import ML_DOMAIN, constant_texts, gives_texts, words_of
from edgekit.model import bodies, node_name, op_name, read_by

_MOVERS: Mapping[tuple[str, str], tuple[int, ...]] = {
    ("ArrayFeatureExtractor", ML_DOMAIN): (0,),
    ("Compress", ""): (0,),
    ("Expand", ""): (0,),
    ("Flatten", ""): (0,),
    ("Gather", ""): (0,),
    ("GatherElements", ""): (0,),
    ("GatherND", ""): (0,),
    ("Identity", ""): (0,),
    ("Reshape", ""): (0,),
    ("ScatterElements", ""): (0, 2),
    ("ScatterND", ""): (0, 2),
    ("Slice", ""): (0,),
    ("Split", ""): (0,),
    ("Squeeze", ""): (0,),
    ("Tile", ""): (0,),
    ("Transpose", ""): (0,),
    ("Unsqueeze", ""): (0,),
    ("Where", ""): (1, 2),
}
"""Operators whose outputs consist of elements of the inputs with these indices, whatever their type."""
TOKENIZER = ("Tokenizer", "com.microsoft")
_UNHEARD_OF = 16
"""A separator of at least this many characters is taken to occur in no text.

Azure's AutoML writes such a separator to keep texts in one piece.
"""
_SEE_SIZES = {("Shape", ""), ("Size", "")}


@dataclass
class TextFlow:
    """Texts that have to share one numbering, because one operator moves or looks up all of them."""

    values: set[ir.Value] = field(default_factory=set)
    """Inputs of the graph, and the texts made from them."""
    movers: list[ir.Node] = field(default_factory=list)
    lookups: list[ir.Node] = field(default_factory=list)
    words: dict[str, None] = field(default_factory=dict)
    """The words that the operators look for or insert, in the order of the graph."""
    obstacle: str | None = None
    """Why the values have to stay texts; None if they do not."""

    def join(self, other: TextFlow) -> None:
        """Takes another flow in."""
        self.values |= other.values
        self.movers += other.movers
        self.lookups += other.lookups
        self.words |= other.words
        self.obstacle = self.obstacle or other.obstacle

    def add_words(self, texts: Iterator[str] | list[str]) -> None:
        """Adds the texts that are not in the words yet."""
        self.words |= dict.fromkeys(texts)


def text_flows(graph: ir.Graph) -> list[TextFlow]:
    """Returns the flows that begin at inputs of the graph, in the order of the inputs.

    Args:
        graph: A graph with its nodes in the order of computation, and with known types.
    """
    flows = _Flows()
    inputs = [value for value in graph.inputs if value.dtype == ir.DataType.STRING and not value.is_initializer()]
    for value in inputs:
        flows.start(value)
    for node in graph:
        flows.follow(node)
    for value in graph.outputs:
        flows.hinder([value], f"output {value.name!r} returns its texts")
    return list({id(flow): flow for flow in map(flows.of, inputs) if flow is not None}.values())


class _Flows:
    def __init__(self) -> None:
        self._by_value: dict[ir.Value, TextFlow] = {}

    def of(self, value: ir.Value | None) -> TextFlow | None:
        return None if value is None else self._by_value.get(value)

    def start(self, value: ir.Value) -> TextFlow:
        flow = self._by_value[value] = TextFlow({value})
        return flow

    def hinder(self, values: list[ir.Value], obstacle: str) -> None:
        for flow in map(self.of, values):
            if flow is not None:
                flow.obstacle = flow.obstacle or obstacle

    def follow(self, node: ir.Node) -> None:
        """Extends flows from the values that a node reads to the values that it makes from them."""
        read = [value for value in read_by(node) if value in self._by_value]
        constants = [texts for texts in map(constant_texts, node.inputs) if texts is not None]
        if not read and not constants:
            self._begin_within(node)
            return
        places = moved_places(node)
        texts_at = {
            place
            for place, value in enumerate(node.inputs)
            if value in self._by_value or constant_texts(value) is not None
        }
        name = f"node {node_name(node)!r} ({op_name(node)})"
        if any(True for _ in bodies(node)):
            self.hinder(read, f"{name} reads texts in a loop or branch")
        elif places is not None and texts_at <= set(places):
            flow = self._joined(read, list(node.outputs))
            flow.movers.append(node)
            for texts in constants:
                flow.add_words(as_text(text) for text in texts.ravel())
        elif texts_at == {0} and read and (words := words_of(node)) is not None:
            flow = self._joined(read, list(node.outputs) if gives_texts(node) else [])
            flow.lookups.append(node)
            flow.add_words(words)
        elif node.op_type == "Equal" and len(read) == 1 and (words := words_of(node)) is not None:
            flow = self._joined(read, [])
            flow.lookups.append(node)
            flow.add_words(words)
        elif (node.op_type, node.domain) not in _SEE_SIZES:
            self._begin_within(node)
            self.hinder([*read, *node.outputs], f"{name} uses texts for something other than looking them up in a list")

    def _begin_within(self, node: ir.Node) -> None:
        """Starts flows that have to stay texts for texts that a node makes from other values."""
        for value in node.outputs:
            if value.dtype == ir.DataType.STRING and constant_texts(value) is None:
                self.start(value).obstacle = f"node {node_name(node)!r} ({op_name(node)}) makes texts"

    def _joined(self, read: list[ir.Value], made: list[ir.Value]) -> TextFlow:
        """Merges the flows of what a node reads, adds what it makes, and returns the merged flow."""
        flow = TextFlow()
        for value in read:
            other = self._by_value[value]
            if other is not flow:
                flow.join(other)
                self._by_value |= dict.fromkeys(other.values, flow)
        flow.values |= set(made)
        self._by_value |= dict.fromkeys(made, flow)
        return flow


def moved_places(node: ir.Node) -> list[int] | None:
    """Returns the indices of the inputs whose elements a node only moves, or None for other nodes."""
    if (node.op_type, node.domain) == ("Concat", ""):
        return list(range(len(node.inputs)))
    if (node.op_type, node.domain) == TOKENIZER:
        return [0] if leaves_texts_whole(node) else None
    if (node.op_type, node.domain) == ("Cast", ""):
        return [0] if node.attributes.get_int("to", 0) == ir.DataType.STRING else None
    places = _MOVERS.get((node.op_type, node.domain))
    return None if places is None else [place for place in places if place < len(node.inputs)]


def leaves_texts_whole(node: ir.Node) -> bool:
    """Whether a tokenizer makes one token of every text, in a new last dimension."""
    attributes = node.attributes
    separators = attributes.get_strings("separators", ())
    return (
        not attributes.get_string("tokenexp", "")
        and attributes.get_int("mark", 0) == 0
        and attributes.get_int("mincharnum", 1) <= 1
        and len(separators) > 0
        and all(len(separator) >= _UNHEARD_OF for separator in separators)
        and node.inputs[0] is not None
        and node.inputs[0].shape is not None
    )
