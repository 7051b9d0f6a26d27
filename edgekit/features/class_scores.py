"""What the numbers are that an output has for each class: what makes probabilities of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import onnx_ir as ir

from edgekit.features.written_softmax import written_softmax

_MOVERS = {
    "Cast", "DequantizeLinear", "Flatten", "Identity", "QuantizeLinear", "Reshape", "Squeeze", "Transpose", "Unsqueeze",
}  # fmt: skip
"""Operators that hand the numbers of their first input on."""
_ORDER_KEPT = {"LogSoftmax", "Sigmoid", "Softmax"}
"""Operators after which the greatest number of a row is the one that was the greatest."""
EMBEDDINGS = "embeddings"
"""What outputs are said to tell that are compared by their angle."""
_ML_DOMAIN = "ai.onnx.ml"
_DECIDERS = {"LinearClassifier", "TreeEnsembleClassifier"}
"""Classifiers whose label is the class with the greatest score."""
_TRANSFORMS_THAT_KEEP_ORDER = {"NONE", "LOGISTIC", "SOFTMAX"}
_SUM_TOLERANCE = 1e-2
"""How far from 1 a sum of probabilities may be that are quantized, or half precision."""


class Scores(StrEnum):
    """What a class's score is."""

    PROBABILITIES = "probabilities"
    """A probability; those of all classes add up to 1."""
    LOGITS = "logits"
    """What softmax makes probabilities of."""
    INDEPENDENT = "independent"
    """A probability of its own: several classes may be there at once, or none."""


@dataclass(frozen=True)
class ClassChoice:
    """What is known of the output that tells the class before a sample is seen."""

    output: str | None = None
    """Its name, as the user says; None: the first that fits."""
    classes: int | None = None
    """How many classes there are; None where their names are not known."""
    numbers: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """By output that tells a class by a number: what it calls the classes, in their order, where that is not 0, 1, …"""
    states: frozenset[str] = frozenset()
    """Outputs of the type and shape of a further input: states for the next run, not scores, where others may be."""

    embeddings: frozenset[str] = frozenset()
    """Outputs that are embeddings, and tell no class."""
    superseded: frozenset[str] = frozenset()
    """Outputs of which another one is the softmax: the probabilities tell the class."""
    answers: frozenset[str] = frozenset()
    """Outputs of a Sigmoid. One that holds a single number tells class 1 above a half, else class 0."""
    in_order: frozenset[str] = frozenset()
    """Outputs of scores that TopK puts in order: their first is the largest of every sample, and tells no class."""
    listed: frozenset[str] = frozenset()
    """Outputs of the numbers that TopK has for these scores: a label is found where it is among them."""

    @property
    def has_classes(self) -> bool:
        """Whether anybody says that there are classes: by an output's name, by their names or by their numbers."""
        return self.output is not None or self.classes is not None or bool(self.numbers)


def scores_by_graph(output: ir.Value) -> Scores | None:
    """What an output's scores are by the operator that they come from; None where that tells nothing.

    Softmax gives probabilities, and LogSoftmax gives logits: softmax of the logarithms of probabilities is the
    probabilities. Both may be written out. Sigmoid gives scores that are independent of each other.
    """
    node = output.producer()
    while node is not None and not node.domain and node.op_type in _MOVERS:
        source = node.inputs[0]
        node = None if source is None else source.producer()
    if node is None or node.domain:
        return None
    if node.op_type in ("Sigmoid", "HardSigmoid"):
        return Scores.INDEPENDENT
    written = written_softmax(node)
    op_type = node.op_type if written is None else written.op_type
    return {"Softmax": Scores.PROBABILITIES, "LogSoftmax": Scores.LOGITS}.get(op_type)


def is_greatest_of(label: ir.Value, scores: ir.Value) -> bool:
    """Whether a label is the place of the greatest score, or what stands at that place in a list of the classes.

    The ArgMax may read what the scores are made of by an operator that keeps their order.
    """
    value: ir.Value | None = label
    while value is not None and (node := value.producer()) is not None and node.op_type != "ArgMax":
        if node.op_type in ("ArrayFeatureExtractor", "Gather"):
            value = node.inputs[1]
        elif node.op_type in _MOVERS and not node.domain:
            value = node.inputs[0]
        else:
            return False
    if value is None or node is None:
        return False
    compared = set(_in_the_same_order(node.inputs[0]))
    return any(made_of in compared for made_of in _in_the_same_order(scores))


def is_decision_by(label: ir.Value, scores: ir.Value) -> bool:
    """Whether a label and scores are what one classifier of ``ai.onnx.ml`` gives, whose label has the greatest score.

    An ``SVMClassifier`` decides by votes, of which its probabilities know nothing.
    """
    sources = [_moved(value) for value in (label, scores)]
    node = sources[0].producer()
    if node is None or node is not sources[1].producer() or node.domain != _ML_DOMAIN or node.op_type not in _DECIDERS:
        return False
    transform = node.attributes.get("post_transform")
    kept = transform is None or transform.as_string() in _TRANSFORMS_THAT_KEEP_ORDER
    return kept and [source.index() for source in sources] == [0, 1]


def _moved(value: ir.Value) -> ir.Value:
    """What a value's numbers come from, through operators that hand them on, or divide a row of them by its sum."""
    while (node := value.producer()) is not None and (
        (not node.domain and node.op_type in _MOVERS) or (node.domain == _ML_DOMAIN and node.op_type == "Normalizer")
    ):
        source = node.inputs[0]
        if source is None:
            break
        value = source
    return value


def _in_the_same_order(value: ir.Value | None) -> Iterator[ir.Value]:
    """The value, and what it is made of by operators that keep the order of a row's numbers."""
    while value is not None:
        yield value
        node = value.producer()
        if node is None or node.domain:
            return
        written = written_softmax(node)
        if written is not None:
            value = written.source
        else:
            value = node.inputs[0] if node.op_type in {*_MOVERS, *_ORDER_KEPT} else None


def superseded_by_softmax(outputs: Sequence[ir.Value]) -> frozenset[str]:
    """The outputs by name of which another one is the softmax: both put the same class first.

    Args:
        outputs: A graph's outputs.
    """
    made_of = {_moved(source) for output in outputs if (source := _before_softmax(output)) is not None}
    return frozenset(str(output.name) for output in outputs if _moved(output) in made_of)


def lists_by_topk(outputs: Sequence[ir.Value]) -> tuple[frozenset[str], frozenset[str]]:
    """The outputs by name that TopK makes: scores that it puts in order, and the places that they had.

    Args:
        outputs: A graph's outputs.
    """
    found: tuple[set[str], set[str]] = (set(), set())
    for output in outputs:
        value = _moved(output)
        node = value.producer()
        if node is not None and not node.domain and node.op_type == "TopK":
            found[node.outputs.index(value)].add(str(output.name))
    return frozenset(found[0]), frozenset(found[1])


def _before_softmax(output: ir.Value) -> ir.Value | None:
    """What an output is the softmax of, along an axis with several numbers; None where it is none."""
    node = _moved(output).producer()
    written = None if node is None else written_softmax(node)
    if written is not None and written.op_type == "Softmax":
        size = None if written.source.shape is None else written.source.shape[written.axis]
        return None if size == 1 else written.source
    if node is None or node.domain or node.op_type != "Softmax" or node.inputs[0] is None:
        return None
    axis = node.attributes.get("axis")
    shape = next((value.shape for value in (*node.inputs, *node.outputs) if value is not None and value.shape), None)
    if shape is None:
        return node.inputs[0] if axis is None or axis.as_int() != 0 else None
    size = shape[-1 if axis is None else axis.as_int()]
    return node.inputs[0] if isinstance(size, int) and size > 1 else None


def scores_of(output: ir.Value | None, answers: Sequence[np.ndarray]) -> Scores:
    """What an output's scores are: by the graph, else by the values.

    Args:
        output: The output in the graph; None where it is not at hand.
        answers: Its values on a few samples, one score a class each.
    """
    told = None if output is None else scores_by_graph(output)
    if told is not None:
        return told
    values = np.stack([answer.astype(np.float64).ravel() for answer in answers])
    if not np.isfinite(values).all() or values.min() < 0 or values.max() > 1 + _SUM_TOLERANCE:
        return Scores.LOGITS
    return Scores.PROBABILITIES if (np.abs(values.sum(axis=1) - 1) < _SUM_TOLERANCE).all() else Scores.INDEPENDENT


def probabilities_of(scores: np.ndarray, kind: Scores) -> np.ndarray:
    """The probability of each class: softmax of logits, other scores as they are."""
    values = scores.astype(np.float64)
    if kind is not Scores.LOGITS:
        return values
    powers = np.exp(values - values.max())
    return np.asarray(powers / powers.sum())
