"""Text inputs that are cut into words at once accept the words in place of the texts.

Text classifiers of scikit-learn begin this way: ``StringNormalizer`` changes the case, ``Tokenizer`` of
``com.microsoft`` makes words, and a ``TfIdfVectorizer`` looks them up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import onnx_ir as ir

from edgekit.features.tokens import ASCII_LOWER, ASCII_UPPER, LOWER, UPPER, TokenRule, Tokens, places
from edgekit.graph.building import NodeBuilder
from edgekit.graph.words.lists import ML_DOMAIN
from edgekit.graph.words.text_flow import TOKENIZER, TextFlow, leaves_texts_whole
from edgekit.model import Model, node_name, op_name

_ONE_BY_ONE = {"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"}
"""Operators whose output has the elements of their first input in the same order."""
_NORMALIZER = "StringNormalizer"
_CASES = {"LOWER": LOWER, "UPPER": UPPER}
_ASCII_CASES = {"LOWER": ASCII_LOWER, "UPPER": ASCII_UPPER}
_ASCII_LOCALES = {"C", "POSIX"}
"""Locales that leave letters beyond ASCII unchanged."""
_UNICODE_LOCALES = re.compile(r"(C|en_[A-Z]{2})\.(UTF-8|utf8)")
"""Locales that change letters by Unicode's simple mapping; Turkish and others have special rules."""
DEFAULT_LOCALE = "en_US.UTF-8"
"""ONNX Runtime's locale for nodes that name none."""
_LOOKS_UP = "TfIdfVectorizer"
"""The operator that ignores words that are not in its list, and so the unused places behind a text's last word."""


@dataclass(frozen=True)
class CutTexts:
    """An input all of whose texts are cut into words."""

    rules: Mapping[ir.Node, TokenRule] = field(default_factory=dict)
    """The rules by the Tokenizer that applies them."""
    obstacle: str | None = None
    """Why the input keeps its texts, although they are cut; None if it does not."""

    @property
    def tokens(self) -> Tokens:
        """The rules, each once."""
        return tuple(dict.fromkeys(self.rules.values()))


def cut_texts(graph: ir.Graph) -> dict[str, CutTexts]:
    """Returns, by name, the inputs that only Tokenizers read, directly or behind nodes that pass texts on one by one.

    Args:
        graph: A graph with known types and shapes.
    """
    found = {}
    for value in graph.inputs:
        if value.dtype == ir.DataType.STRING and not value.is_initializer():
            cut = _cut(value, graph)
            if cut is not None and cut.rules:
                found[str(value.name)] = cut
    return found


def take_words(graph: ir.Graph, value: ir.Value, cut: CutTexts, tokens: Tokens, opset: int) -> None:
    """Makes an input accept words, still as texts, in a new last dimension, in place.

    Args:
        graph: The graph of the input.
        value: The input.
        cut: The Tokenizers that cut its texts, with their rules.
        tokens: The same rules, with the number of places for words.
        opset: The version of the standard operators.
    """
    counted = dict(zip(cut.tokens, tokens, strict=True))
    starts = {rule: places(tokens[:number]) for number, rule in enumerate(cut.tokens)}
    assert value.shape is not None
    shape = list(value.shape)
    readers = list(value.uses())
    moved = {node: _texts_shape(node.inputs[0]) for node in cut.rules if _is_moved(node.inputs[0])}
    value.shape = ir.Shape([*shape, places(tokens)])
    for node, rule in cut.rules.items():
        build = NodeBuilder(opset, node_name(node))
        words, count = value, counted[rule].count
        if len(tokens) > 1:
            start, axis = starts[rule], len(shape)
            words = build.slice(words, [start], [start + count], [axis])
        if node in moved:
            sizes = [size if isinstance(size, int) else -1 for size in moved[node] or ()]
            words = build("Reshape", words, [*sizes, count])
        if words is value:
            words = build("Identity", words)
        for constant in build.initializers:
            graph.register_initializer(constant)
        ir.convenience.replace_nodes_and_values(graph, node, [node], build.nodes, [node.outputs[0]], [words])
    for reader, _ in readers:
        _drop_unread(graph, reader)


def obstacle_behind(flow: TextFlow, counts: set[int]) -> str | None:
    """Returns why padded words would be read differently from the words alone, or None if they would not.

    Args:
        flow: The flow of the words.
        counts: How many places each rule has.
    """
    for node in flow.movers:
        if node.op_type not in {*_ONE_BY_ONE, "Slice"}:
            return f"node {node_name(node)!r} ({op_name(node)}) moves words by their places"
    for node in flow.lookups:
        read = node.inputs[0]
        if node.op_type != _LOOKS_UP:
            return f"node {node_name(node)!r} ({op_name(node)}) gives something for each word, however many there are"
        if read is None or read.shape is None or read.shape[-1] not in counts:
            return f"node {node_name(node)!r} ({op_name(node)}) reads the words of several texts together"
    known = {*flow.movers, *flow.lookups}
    for value in flow.values:
        for node, _ in value.uses():
            if node not in known:
                return f"node {node_name(node)!r} ({op_name(node)}) sees how many words there are"
    return None


def _cut(value: ir.Value, graph: ir.Graph) -> CutTexts | None:
    """Returns the Tokenizers that cut an input's texts, or None if other nodes read them."""
    rules: dict[ir.Node, TokenRule] = {}
    obstacle = None if value.shape is not None else f"input {value.name!r} has no known rank"
    for node, case, flaw in _reached(value):
        if node is None or node.graph is not graph:
            return None
        rules[node] = _rule(node, case)
        reason = rules[node].flaw or _unknown_shape(node)
        obstacle = (
            obstacle or flaw or (None if reason is None else f"node {node_name(node)!r} ({op_name(node)}): {reason}")
        )
    return CutTexts(rules, obstacle)


def _reached(
    value: ir.Value, case: str = "", flaw: str | None = None
) -> Iterator[tuple[ir.Node | None, str, str | None]]:
    """Yields the Tokenizers that read a value, and None in place of any other reader.

    Yields:
        The node, the case of the texts that it reads, and why the case cannot be expressed, or None.
    """
    if value.is_graph_output():
        yield None, case, flaw
    for node, place in value.uses():
        if (node.op_type, node.domain) == TOKENIZER and not leaves_texts_whole(node):
            yield node, case, flaw
        elif place == 0 and (_picks_all(node) or (node.op_type in _ONE_BY_ONE and not node.domain)):
            yield from _reached(node.outputs[0], case, flaw)
        elif node.op_type == _NORMALIZER and not node.domain and not node.attributes.get_strings("stopwords", ()):
            change, unknown = _changed(node)
            if change and case and change != case:
                unknown = f"node {node_name(node)!r} ({op_name(node)}) changes the case again"
            yield from _reached(node.outputs[0], change or case, flaw or unknown)
        else:
            yield None, case, flaw


def _picks_all(node: ir.Node) -> bool:
    """Whether a node picks the only column of a table with one column."""
    if (node.op_type, node.domain) != ("ArrayFeatureExtractor", ML_DOMAIN):
        return False
    table, columns = node.inputs[:2]
    chosen = None if columns is None else ir.convenience.get_const_tensor(columns)
    is_one = table is not None and table.shape is not None and table.shape.rank() > 1 and table.shape[-1] == 1
    return is_one and chosen is not None and chosen.size == 1


def changes_as_unicode(locale: str) -> bool:
    """Whether a locale changes letters by Unicode's simple mapping."""
    return _UNICODE_LOCALES.fullmatch(locale) is not None


def _changed(node: ir.Node) -> tuple[str, str | None]:
    """Returns the case to which a StringNormalizer changes texts, and why its mapping is unknown, or None."""
    change = node.attributes.get_string("case_change_action", "NONE")
    locale = node.attributes.get_string("locale", "") or DEFAULT_LOCALE
    if change not in _CASES:
        return "", None
    if locale in _ASCII_LOCALES:
        return _ASCII_CASES[change], None
    if changes_as_unicode(locale):
        return _CASES[change], None
    return "", f"node {node_name(node)!r} ({op_name(node)}) changes letters beyond ASCII as locale {locale!r} does"


def _rule(node: ir.Node, case: str) -> TokenRule:
    attributes = node.attributes
    separators = tuple(attributes.get_strings("separators", ()))
    expression = "" if separators else attributes.get_string("tokenexp", "")
    by_character = separators == ("",) or expression == "."
    return TokenRule(
        expression="" if by_character else expression,
        separators=() if by_character else separators,
        case=case,
        least=attributes.get_int("mincharnum", 1),
        marked=attributes.get_int("mark", 0) != 0,
    )


def _unknown_shape(node: ir.Node) -> str | None:
    """Why the texts that a Tokenizer reads cannot be counted; None where they can."""
    text = node.inputs[0]
    if not _is_moved(text):
        return None
    shape = _texts_shape(text)
    if shape is None or sum(not isinstance(size, int) for size in shape) > 1:
        return "it is not known how many texts are in each dimension"
    return None


def _is_moved(text: ir.Value | None) -> bool:
    """Whether texts are in other dimensions than at the input."""
    while text is not None and (maker := text.producer()) is not None:
        source = maker.inputs[0]
        if maker.op_type not in (_NORMALIZER, "Identity"):
            ranks = {None if value is None or value.shape is None else value.shape.rank() for value in (text, source)}
            if ranks != {1}:
                return True
        text = source
    return False


def _texts_shape(text: ir.Value | None) -> list[int | ir.SymbolicDim] | None:
    """Returns the shape of texts; a StringNormalizer without stop words does not change it."""
    while text is not None and (maker := text.producer()) is not None and maker.op_type in (_NORMALIZER, "Identity"):
        text = maker.inputs[0]
    return None if text is None or text.shape is None else list(text.shape)


def _drop_unread(graph: ir.Graph, node: ir.Node) -> None:
    """Removes a node that nothing reads any more; its readers that nothing reads are removed first."""
    if node.graph is None:
        return
    for value in node.outputs:
        for reader, _ in list(value.uses()):
            _drop_unread(graph, reader)
    if any(value.uses() or value.is_graph_output() for value in node.outputs):
        return
    constants = [value for value in node.inputs if value is not None and value.is_initializer()]
    graph.remove(node, safe=True)
    for constant in constants:
        if not constant.uses() and not constant.is_graph_output():
            graph.initializers.pop(str(constant.name), None)


def with_counts(tokens: Tokens, counts: Sequence[int]) -> Tokens:
    """Returns the rules with the given numbers of places for words."""
    return tuple(replace(rule, count=count) for rule, count in zip(tokens, counts, strict=True))


def pads(model: Model) -> set[str]:
    """Returns the texts with which Tokenizers pad shorter texts when they process several at once."""
    return {node.attributes.get_string("pad_value", "") for node in model.graph if _is_tokenizer(node)}


def with_other_pads(model: Model, vocabulary: Iterable[str]) -> Model:
    """Returns the model with Tokenizers that pad shorter texts with a text outside a vocabulary.

    Each text then has the same results as if it were alone.
    """
    known, pad = set(vocabulary), "\x04"
    if not pads(model) & known:
        return model
    while pad in known:
        pad += "\x04"
    copy = model.graph_model.clone()
    for node in copy.graph:
        if _is_tokenizer(node):
            node.attributes.add(ir.AttrString("pad_value", pad))
    return model.with_graph(copy)


def _is_tokenizer(node: ir.Node) -> bool:
    return (node.op_type, node.domain) == TOKENIZER
