"""Texts for inputs that hold texts: words that the graph looks for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgekit.graph.sizes.shapes import ContradictionError, infer_shapes
from edgekit.model import Model

LONGEST_LINE = 8
"""Most words of a line."""
ANY_WORDS = ("a", "b", "c")
"""Words for an input whose words the graph does not tell."""
_WORD_LISTS = ("cats_strings", "classes_strings", "keys_strings", "keys_tensor", "pool_strings", "stopwords")
"""Attributes that hold the words that an operator looks for in its first input."""
KEEPS_VALUES = frozenset(
    {
        "Cast",
        "Concat",
        "Expand",
        "Flatten",
        "Identity",
        "Reshape",
        "Slice",
        "Split",
        "Squeeze",
        "Tile",
        "Transpose",
        "Unsqueeze",
    }
)
"""Operators whose outputs hold nothing but values of their (first) input."""
_HAND_ON = KEEPS_VALUES | {"StringNormalizer"}
"""Operators whose output holds the texts of their input, possibly changed in case."""
_PICKS = {"ArrayFeatureExtractor", "Gather"}
"""Operators that take columns by number."""
_TAKES_LINES = {"RegexFullMatch", "StringSplit", "Tokenizer"}
"""Operators that search within a text."""


@dataclass(frozen=True)
class Words:
    """The texts that an input takes."""

    columns: tuple[tuple[int | None, tuple[str, ...]], ...]
    """The words by column, the place along the last axis; those by None are for columns that are not told apart."""
    in_lines: bool = False
    """Whether each text is a line of several words."""

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Draws an array of texts of a shape."""
        drawn = np.empty(shape, object)
        for place in np.ndindex(*shape):
            words = self._words(place[-1] if place else None)
            count = int(rng.integers(1, LONGEST_LINE + 1)) if self.in_lines else 1
            drawn[place] = " ".join(words[number] for number in rng.integers(0, len(words), count))
        return drawn.astype(str)

    def _words(self, column: int | None) -> Sequence[str]:
        known = dict(self.columns)
        return known.get(column) or known.get(None) or [word for words in known.values() for word in words] or ANY_WORDS


def word_limits(model: Model) -> dict[str, Words]:
    """What texts each input of texts takes, by the input's name."""
    found: dict[str, dict[int | None, list[str]]] = {
        str(value.name): {}
        for value in model.graph.inputs
        if value.dtype == ir.DataType.STRING and not value.is_initializer()
    }
    if not found:
        return {}
    in_lines: set[str] = set()
    for node in _with_shapes(model).graph.all_nodes():
        words = _words(node)
        for name, column in _sources(node.inputs[0] if node.inputs else None, in_lines):
            if name in found and words:
                found[name].setdefault(column, []).extend(words)
    return {
        name: Words(
            tuple((column, tuple(dict.fromkeys(words))) for column, words in columns.items()), in_lines=name in in_lines
        )
        for name, columns in found.items()
    }


def _with_shapes(model: Model) -> Model:
    """The model with inferred shapes, which tell columns apart; the model itself if shapes contradict each other."""
    try:
        return infer_shapes(model, strict=False)
    except ContradictionError:
        return model


def _words(node: ir.Node) -> list[str]:
    """The words that a node looks for, without empty texts and texts with control characters."""
    texts: list[str | bytes] = []
    for name in _WORD_LISTS:
        attribute = node.attributes.get(name)
        if attribute is not None and attribute.type == ir.AttributeType.STRINGS:
            texts.extend(attribute.as_strings())
        elif attribute is not None and attribute.type == ir.AttributeType.TENSOR:
            texts.extend(_texts(attribute.as_tensor()))
    if node.op_type == "Equal" and not node.domain:
        for value in node.inputs:
            tensor = None if value is None else ir.convenience.get_const_tensor(value)
            texts.extend([] if tensor is None else _texts(tensor))
    words = [text.decode("utf-8", "replace") if isinstance(text, bytes) else text for text in texts]
    return [word for word in words if word.strip() and word.isprintable()]


def _texts(tensor: ir.TensorProtocol) -> list[str | bytes]:
    return list(tensor.numpy().ravel()) if tensor.dtype == ir.DataType.STRING else []


def _sources(value: ir.Value | None, in_lines: set[str]) -> Iterator[tuple[str, int | None]]:
    """The names of the inputs that texts come from, each with the column that is picked, or None.

    Args:
        value: The texts.
        in_lines: Names of inputs within whose texts an operator searches; those found here are added.
    """
    open_values: list[tuple[ir.Value | None, int | None, bool]] = [(value, None, False)]
    seen = set()
    while open_values:
        current, column, cut = open_values.pop()
        if current is None or (current, column, cut) in seen:
            continue
        seen.add((current, column, cut))
        node = current.producer()
        if node is None:
            if cut and current.name:
                in_lines.add(current.name)
            yield str(current.name), column
        elif not node.inputs:
            continue
        elif node.op_type in _PICKS:
            picked = _picked(node)
            columns = [column] if picked is None else picked
            open_values.extend((node.inputs[0], place, cut) for place in columns)
        elif node.op_type == "Concat":
            open_values.extend((part, place, cut) for part, place in _parts(node, column))
        elif node.op_type in _HAND_ON:
            open_values.append((node.inputs[0], column, cut))
        elif node.op_type in _TAKES_LINES:
            open_values.append((node.inputs[0], None, True))


def _parts(node: ir.Node, column: int | None) -> list[tuple[ir.Value | None, int | None]]:
    """The input of a Concat that a column belongs to, with its place in it; all inputs, with None, if not known."""
    whole = node.outputs[0].shape
    widths = [None if part is None or part.shape is None else part.shape[-1] for part in node.inputs]
    known = [width for width in widths if isinstance(width, int)]
    along_columns = whole is not None and node.attributes.get_int("axis", 0) in (-1, len(whole) - 1)
    if column is not None and along_columns and len(known) == len(widths):
        place = column % sum(known)
        for part, width in zip(node.inputs, known, strict=True):
            if place < width:
                return [(part, place)]
            place -= width
    return [(part, None) for part in node.inputs]


def _picked(node: ir.Node) -> list[int] | None:
    """The columns that a node picks, or None if it picks along another axis or the columns are computed."""
    texts, places = [*node.inputs, None][:2]
    tensor = None if places is None else ir.convenience.get_const_tensor(places)
    sizes = () if texts is None or texts.shape is None else tuple(texts.shape)
    axis = node.attributes.get_int("axis", 0) if node.op_type == "Gather" else -1
    if tensor is None or not sizes or axis % len(sizes) != len(sizes) - 1:
        return None
    last = sizes[-1]
    return [int(place) % last if isinstance(last, int) and last else int(place) for place in tensor.numpy().ravel()]
