"""Inputs of texts that a model only looks up become inputs of numbers: runtimes of devices mostly have no texts.

Each word that the model knows has a number, and one more number stands for every other word. Texts that are moved or
compared together have the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import onnx_ir as ir

from edgekit.features.vocabularies import Vocabulary
from edgekit.graph.building import NodeBuilder
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.graph.words.column_picks import pick_from_parts
from edgekit.graph.words.lists import constant_texts, fails_at_others, look_up_numbers, store_numbers
from edgekit.graph.words.text_flow import TOKENIZER, TextFlow, moved_places, text_flows
from edgekit.model import Model, node_name


@dataclass(frozen=True)
class WordInputs:
    """A model some of whose inputs take the numbers of words."""

    model: Model
    vocabularies: Mapping[str, Vocabulary] = field(default_factory=dict)
    """The words by the name of the input that now takes numbers."""
    obstacles: Mapping[str, str] = field(default_factory=dict)
    """By the name of an input whose texts stay: why."""
    looked_up: tuple[str, ...] = ()
    """The values that nodes make of the words; all that follows from them is as it was."""
    failing: tuple[str, ...] = ()
    """The nodes that failed at a word that is not in their list, and now give zeros."""


def takes_texts(model: Model) -> bool:
    """Whether an input takes texts."""
    return any(spec.dtype == "str" for spec in model.inputs)


def first_numbers(model: Model) -> list[str]:
    """The values behind which a model computes with numbers alone: what is read of those that nodes make of texts."""
    graph = infer_shapes(model, strict=False).graph
    texts = {value for value in graph.inputs if value.dtype == ir.DataType.STRING}
    found = []
    for node in graph:
        if texts.isdisjoint(node.inputs):
            continue
        for value in node.outputs:
            if value.dtype in (None, ir.DataType.STRING):
                texts.add(value)
            elif value.uses():
                found.append(str(value.name))
    return found


def with_word_inputs(model: Model) -> WordInputs:
    """The model with numbers in place of texts at the inputs whose texts it only moves and looks up in lists.

    Nodes in loops and branches are not followed. The given model is not changed.
    """
    if not takes_texts(model):
        return WordInputs(model)
    copy = infer_shapes(model, strict=False).graph_model.clone()
    graph = copy.graph
    pick_from_parts(graph, model.opset)
    vocabularies: dict[str, Vocabulary] = {}
    obstacles: dict[str, str] = {}
    looked_up: list[str] = []
    failing: list[str] = []
    for flow in text_flows(graph):
        names = [str(value.name) for value in graph.inputs if value in flow.values]
        if flow.obstacle is not None:
            obstacles |= dict.fromkeys(names, flow.obstacle)
            continue
        made = {str(value.name) for value in flow.values}
        looked_up += [str(value.name) for node in flow.lookups for value in node.outputs if str(value.name) not in made]
        failing += [node_name(node) for node in flow.lookups if fails_at_others(node)]
        _number(flow, graph, model.opset)
        vocabularies |= dict.fromkeys(names, tuple(flow.words))
    if not vocabularies:
        return WordInputs(model, obstacles=obstacles)
    _drop_unread_texts(graph)
    order = [spec.name for spec in model.inputs if spec.name in vocabularies]
    vocabularies = {name: vocabularies[name] for name in order}
    changed = replace(model.with_graph(copy), vocabularies={**model.vocabularies, **vocabularies})
    changed = infer_shapes(changed, strict=False)
    return WordInputs(changed, vocabularies, obstacles, tuple(looked_up), tuple(failing))


def _number(flow: TextFlow, graph: ir.Graph, opset: int) -> None:
    """Puts numbers in the place of texts, in place."""
    numbers = {word: number for number, word in enumerate(flow.words)}
    names = {value.name for value in flow.values}
    for node in flow.movers:
        for place in moved_places(node) or ():
            texts = constant_texts(node.inputs[place])
            if texts is not None:
                store_numbers(node, place, texts, numbers, graph)
        if (node.op_type, node.domain) == TOKENIZER:
            _unsqueeze_in_place_of(node, graph, opset)
        elif node.op_type == "Cast":
            node.attributes.add(ir.AttrInt64("to", int(ir.DataType.INT64)))
    for node in flow.lookups:
        look_up_numbers(node, numbers, graph, opset)
    for value in (*graph.inputs, *(value for node in graph for value in node.outputs)):
        if value.name in names:  # not by identity: a lookup that gives texts has made another value of that name
            value.type = ir.TensorType(ir.DataType.INT64)  # not its dtype: clones share their types


def _unsqueeze_in_place_of(node: ir.Node, graph: ir.Graph, opset: int) -> None:
    """Gives numbers the dimension that a tokenizer which leaves texts whole gives them, in place."""
    text = node.inputs[0]
    assert text is not None
    assert text.shape is not None
    build = NodeBuilder(opset, node_name(node))
    result = build.unsqueeze(text, [len(text.shape)])
    for constant in build.initializers:
        graph.register_initializer(constant)
    ir.convenience.replace_nodes_and_values(graph, node, [node], build.nodes, [node.outputs[0]], [result])


def _drop_unread_texts(graph: ir.Graph) -> None:
    """Drops constant texts that nothing reads any more, in place."""
    for node in list(graph):
        unread = not any(value.uses() or value.is_graph_output() for value in node.outputs)
        if node.op_type == "Constant" and unread and constant_texts(node.outputs[0]) is not None:
            graph.remove(node, safe=True)
    for name, value in list(graph.initializers.items()):
        if not value.uses() and not value.is_graph_output() and constant_texts(value) is not None:
            del graph.initializers[name]
