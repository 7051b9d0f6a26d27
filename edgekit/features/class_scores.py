"""The kind of numbers that an output has for each class, and how they become probabilities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
import onnx_ir as ir

from edgekit.features.written_softmax import written_softmax

_MOVERS = {
    "Cast", "DequantizeLinear", "Flatten", "Identity", "QuantizeLinear", "Reshape", "Squeeze", "Transpose", "Unsqueeze",
}  # fmt: skip
"""Operators that pass on the numbers of their first input."""
_ORDER_KEPT = {"LogSoftmax", "Sigmoid", "Softmax"}
"""Operators that do not change which number of a row is the greatest."""
EMBEDDINGS = "embeddings"
"""The name for the meaning of outputs that are compared by their angle."""
_SHAPERS = {"Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
"""Operators that change the shape alone."""
_ML_DOMAIN = "ai.onnx.ml"
_DECIDERS = {"LinearClassifier", "TreeEnsembleClassifier"}
"""Classifiers whose label is the class with the greatest score."""
_TRANSFORMS_THAT_KEEP_ORDER = {"NONE", "LOGISTIC", "SOFTMAX"}
_SUM_TOLERANCE = 1e-2
"""How far the sum of quantized or half-precision probabilities may be from 1."""


class Scores(StrEnum):
    """The kind of a class's score."""

    PROBABILITIES = "probabilities"
    """Probabilities that add up to 1 over all classes."""
    LOGITS = "logits"
    """Numbers that softmax turns into probabilities."""
    INDEPENDENT = "independent"
    """A separate probability for each class: a sample may belong to several classes, or to none."""
    INTEGERS = "integers"
    """Integers whose largest is the class's, and that nothing says how to make probabilities of."""


@dataclass(frozen=True)
class Levels:
    """What the integers of a quantized output stand for: ``(integer - zero_point) * scale``."""

    scale: float
    zero_point: int

    def numbers(self, integers: np.ndarray) -> np.ndarray:
        """The numbers that integers stand for, as float64."""
        return np.asarray((integers.astype(np.float64) - self.zero_point) * self.scale)


@dataclass(frozen=True)
class ClassChoice:
    """What is known of the output that tells the class before a sample is seen."""

    output: str | None = None
    """The output's name as the user gives it; None for the first output that fits."""
    classes: int | None = None
    """How many classes there are; None where their names are not known."""
    numbers: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """For each output with a class as a number: the classes' numbers in order, if they are not 0, 1, …"""
    states: frozenset[str] = frozenset()
    """Outputs of the type and shape of a further input: states for the next run, not scores, where others may be."""

    embeddings: frozenset[str] = frozenset()
    """Outputs that are embeddings, from which no class is read."""
    superseded: frozenset[str] = frozenset()
    """Outputs whose softmax is another output: the class is read from the probabilities."""
    answers: frozenset[str] = frozenset()
    """Outputs of a Sigmoid. A single number above 0.5 means class 1, otherwise class 0."""
    in_order: frozenset[str] = frozenset()
    """Outputs of scores sorted by TopK: the first is always the largest, so its position is no class."""
    listed: frozenset[str] = frozenset()
    """Outputs of the class indices that belong to these scores: a label is correct if it is among them."""

    @property
    def has_classes(self) -> bool:
        """Whether classes are declared: by an output's name, by their names or by their numbers."""
        return self.output is not None or self.classes is not None or bool(self.numbers)


def scores_by_graph(output: ir.Value) -> Scores | None:
    """Returns the kind of an output's scores according to the operator that makes them, or None if unknown.

    Softmax gives probabilities, and LogSoftmax gives logits, because the softmax of logarithms of probabilities is the
    probabilities. Both may be written out in several nodes. Sigmoid gives scores that are independent of each other.
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
    """Whether a label is the index of the greatest score, or that index's entry in a list of the classes.

    The ArgMax may also read a value that the scores are made from by operators that keep its order.
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
    """Whether a label and scores come from one ``ai.onnx.ml`` classifier whose label has the greatest score.

    An ``SVMClassifier`` decides by votes, which its probabilities do not reflect.
    """
    sources = [_moved(value) for value in (label, scores)]
    node = sources[0].producer()
    if node is None or node is not sources[1].producer() or node.domain != _ML_DOMAIN or node.op_type not in _DECIDERS:
        return False
    transform = node.attributes.get("post_transform")
    kept = transform is None or transform.as_string() in _TRANSFORMS_THAT_KEEP_ORDER
    return kept and [source.index() for source in sources] == [0, 1]


def _moved(value: ir.Value) -> ir.Value:
    """Returns the value ahead of operators that pass numbers on or divide a row by its sum."""
    while (node := value.producer()) is not None and (
        (not node.domain and node.op_type in _MOVERS) or (node.domain == _ML_DOMAIN and node.op_type == "Normalizer")
    ):
        source = node.inputs[0]
        if source is None:
            break
        value = source
    return value


def _in_the_same_order(value: ir.Value | None) -> Iterator[ir.Value]:
    """Yields the value, and the values that it is made from by operators that keep the order of a row's numbers."""
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
    """Returns the names of outputs whose softmax is another output: both rank the same class first.

    Args:
        outputs: A graph's outputs.
    """
    made_of = {_moved(source) for output in outputs if (source := _before_softmax(output)) is not None}
    return frozenset(str(output.name) for output in outputs if _moved(output) in made_of)


def lists_by_topk(outputs: Sequence[ir.Value]) -> tuple[frozenset[str], frozenset[str]]:
    """Returns the names of outputs made by TopK: of sorted scores, and of the indices that these scores had.

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
    """Returns the value whose softmax along an axis of more than one number an output is, or None."""
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


def levels_of(output: ir.Value) -> Levels | None:
    """Returns what an output's integers stand for, or None if no QuantizeLinear with one constant scale makes them."""
    value: ir.Value | None = output
    while value is not None and (node := value.producer()) is not None and not node.domain:
        if node.op_type == "QuantizeLinear":
            scale, zero_point = (*(_only_number(given) for given in node.inputs[1:] if given is not None), 0.0)[:2]
            return None if scale is None or zero_point is None else Levels(scale, int(zero_point))
        value = node.inputs[0] if node.op_type in _SHAPERS else None
    return None


def _only_number(value: ir.Value) -> float | None:
    """The number of a constant with one element; None for other values, and for what a caller may replace."""
    tensor = None if value.is_graph_input() else ir.convenience.get_const_tensor(value)
    return float(tensor.numpy().item()) if tensor is not None and tensor.size == 1 else None


def scores_of(output: ir.Value | None, answers: Sequence[np.ndarray]) -> Scores:
    """Returns the kind of an output's scores, according to the graph, or else to their values.

    Args:
        output: The output in the graph; None if it is not available.
        answers: The output's values on a few samples, each with one score per class.
    """
    values = np.stack([answer.ravel() for answer in answers])
    if values.dtype.kind in "iu":
        levels = None if output is None else levels_of(output)
        if levels is None:
            return Scores.INTEGERS
        values = levels.numbers(values)
    by_graph = None if output is None else scores_by_graph(output)
    if by_graph is not None:
        return by_graph
    values = values.astype(np.float64)
    if not np.isfinite(values).all() or values.min() < 0 or values.max() > 1 + _SUM_TOLERANCE:
        return Scores.LOGITS
    return Scores.PROBABILITIES if (np.abs(values.sum(axis=1) - 1) < _SUM_TOLERANCE).all() else Scores.INDEPENDENT


def probabilities_of(scores: np.ndarray, kind: Scores) -> np.ndarray:
    """Returns the probability of each class: the softmax of logits, or other scores unchanged.

    Args:
        scores: The numbers; of quantized ones what they stand for.
        kind: Their kind, not :attr:`Scores.INTEGERS`, of which no probabilities follow.
    """
    values = scores.astype(np.float64)
    if kind is not Scores.LOGITS:
        return values
    powers = np.exp(values - values.max())
    return np.asarray(powers / powers.sum())


def probabilities_as_recorded(scores: np.ndarray, classes: Mapping[str, Any] | None) -> np.ndarray | None:
    """Returns the probability of each class, or None if nothing says how to make it of the scores.

    Args:
        scores: A row of the output's numbers.
        classes: What the manifest's ``classes`` says of the output.
    """
    if classes is None or classes["scores"] in (None, Scores.INTEGERS):
        return None
    if scores.dtype.kind != "f":
        if "scale" not in classes:
            return None
        scores = Levels(classes["scale"], classes["zero_point"]).numbers(scores)
    return probabilities_of(scores, Scores(classes["scores"]))
