"""Text inputs that a model only looks up become inputs of numbers: most device runtimes do not support texts.

Each word that the model knows has a number, and one more number represents every other word. Texts that are moved or
compared together share one numbering.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import onnx_ir as ir

from edgekit.features.tokens import Tokens, shape_of_numbers
from edgekit.features.vocabularies import Vocabulary
from edgekit.graph.building import NodeBuilder
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.graph.words.column_picks import pick_from_parts
from edgekit.graph.words.lists import constant_texts, fails_at_others, look_up_numbers, store_numbers
from edgekit.graph.words.text_flow import TOKENIZER, TextFlow, moved_places, text_flows
from edgekit.graph.words.tokenizers import cut_texts, obstacle_behind, take_words, with_counts
from edgekit.model import Model, node_name


@dataclass(frozen=True)
class WordInputs:
    """A model some of whose inputs take the numbers of words."""

    model: Model
    vocabularies: Mapping[str, Vocabulary] = field(default_factory=dict)
    """The words by the name of the input that now takes numbers."""
    tokens: Mapping[str, Tokens] = field(default_factory=dict)
    """How a text becomes words, by the name of the input that now takes the numbers of a text's words."""
    obstacles: Mapping[str, str] = field(default_factory=dict)
    """By the name of an input that keeps its texts: the reason."""
    looked_up: tuple[str, ...] = ()
    """The values that nodes look up for the words; everything computed from these values is unchanged."""
    failing: tuple[str, ...] = ()
    """The nodes that failed at a word that is not in their list, and now give zeros."""


def takes_texts(model: Model) -> bool:
    """Whether an input takes texts."""
    return any(spec.dtype == "str" for spec in model.inputs)


def first_numbers(model: Model) -> list[str]:
    """Returns the values from which on a model computes with numbers only: the numbers that nodes make from texts."""
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


def words_of_texts(model: Model) -> dict[str, Tokens]:
    """Returns, by input, how texts become words where :func:`with_word_inputs` can accept words instead."""
    if not takes_texts(model):
        return {}
    return {name: cut.tokens for name, cut in cut_texts(_prepared(model).graph).items() if cut.obstacle is None}


def with_word_inputs(model: Model, counts: Mapping[str, Sequence[int]] | None = None) -> WordInputs:
    """Returns the model with numbers in place of texts at the inputs whose texts it only moves and looks up in lists.

    An input whose texts are first cut into words accepts the numbers of the words, in one more dimension. Nodes in
    loops and branches are not followed. The given model is not changed.

    Args:
        model: The model.
        counts: By input name, for each rule of :func:`words_of_texts`, how many words of a text the input has places
            for; texts of other inputs stay whole. None for a default everywhere.
    """
    if not takes_texts(model):
        return WordInputs(model)
    cuts = cut_texts(_prepared(model).graph)
    refused = {name: cut.obstacle for name, cut in cuts.items() if cut.obstacle is not None}
    tokens = {
        name: cut.tokens if counts is None else with_counts(cut.tokens, counts[name])
        for name, cut in cuts.items()
        if name not in refused and (counts is None or name in counts)
    }
    found = _with_words(model, tokens)
    while both := found.obstacles.keys() & tokens.keys():
        tokens = {name: rules for name, rules in tokens.items() if name not in both}
        found = _with_words(model, tokens)
    return replace(found, obstacles={**found.obstacles, **refused})


def _prepared(model: Model) -> Model:
    """Returns a copy with inferred shapes, and with columns picked from the inputs themselves."""
    copy = infer_shapes(model, strict=False).graph_model.clone()
    pick_from_parts(copy.graph, model.opset)
    return model.with_graph(copy)


def _with_words(model: Model, tokens: Mapping[str, Tokens]) -> WordInputs:
    """The model with numbers in place of texts, or of the words of texts at the inputs that rules are given for."""
    prepared = _prepared(model)
    if tokens:
        cuts = cut_texts(prepared.graph)
        for value in prepared.graph.inputs:
            name = str(value.name)
            if name in tokens:
                take_words(prepared.graph, value, cuts[name], tokens[name], model.opset)
        prepared = infer_shapes(prepared, strict=False)
    copy = prepared.graph_model
    graph = copy.graph
    vocabularies: dict[str, Vocabulary] = {}
    obstacles: dict[str, str] = {}
    looked_up: list[str] = []
    failing: list[str] = []
    for flow in text_flows(graph):
        names = [str(value.name) for value in graph.inputs if value in flow.values]
        counts = {rule.count for name in names for rule in tokens.get(name, ())}
        obstacle = flow.obstacle or (obstacle_behind(flow, counts) if counts else None)
        if obstacle is not None:
            obstacles |= dict.fromkeys(names, obstacle)
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
    tokens = {name: tokens[name] for name in order if name in tokens}
    changed = replace(
        model.with_graph(copy),
        vocabularies={**model.vocabularies, **vocabularies},
        tokens={**model.tokens, **tokens},
        sample_shapes={
            name: shape_of_numbers(shape, tokens.get(name, ())) for name, shape in model.sample_shapes.items()
        },
    )
    changed = infer_shapes(changed, strict=False)
    return WordInputs(changed, vocabularies, tokens, obstacles, tuple(looked_up), tuple(failing))


def _number(flow: TextFlow, graph: ir.Graph, opset: int) -> None:
    """Replaces the texts of a flow by numbers, in place."""
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
        if value.name in names:  # not by identity: a lookup that returns texts has created another value of that name
            value.type = ir.TensorType(ir.DataType.INT64)  # not its dtype: clones share their types


def _unsqueeze_in_place_of(node: ir.Node, graph: ir.Graph, opset: int) -> None:
    """Replaces a tokenizer that leaves texts whole by an Unsqueeze of their numbers, in place."""
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
