"""Tells whether a model's first output is a choice between classes, by its graph and the float model's answers."""

from __future__ import annotations

import onnx_ir as ir

from edgekit.comparison.decisions.shared import Decision, DecisionCount
from edgekit.comparison.numbers.columns import Columns
from edgekit.data.limits import index_limits
from edgekit.model import Model
from edgekit_quantize.calibration.references import References
from edgekit_quantize.graph.nodes import is_standard

FORMS = ("Cast", "DequantizeLinear", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
"""Operators that pass on all numbers of their first input, in another shape or type."""
_BIAS = 2
"""The index of a convolution's bias among its inputs."""
_RANK_OF_ROWS = 2
"""An output of at most this rank may be a sample's features, and not words at positions."""


def decides(graph: ir.Graph) -> bool:
    """Whether the first output is a choice between classes.

    This holds for the output of a Softmax, LogSoftmax, ArgMax or Gemm, of a MatMul with a bias, and of a convolution
    with a bias whose output has one position.
    """
    if not graph.outputs:
        return False
    node = _maker(graph.outputs[0])
    if node is not None and is_standard(node, "ArgMax"):
        return True
    if node is not None and is_standard(node, "Softmax", "LogSoftmax"):
        return _has_classes(graph.outputs[0])
    return decides_by_product(graph.outputs[0])


def decides_by_product(output: ir.Value) -> bool:
    """Whether an output is computed by a Gemm or by a MatMul with a bias: logits, if its numbers may be scores.

    A convolution with a bias whose output has one position is such a product.
    """
    node = _maker(output)
    if node is None or not _has_classes(output):
        return False
    if is_standard(node, "Gemm") or _is_of_one_place(node):
        return True
    operands = [value.producer() for value in node.inputs if value is not None]
    return is_standard(node, "Add") and any(n is not None and is_standard(n, "MatMul", "Gemm") for n in operands)


def _is_of_one_place(node: ir.Node) -> bool:
    """Whether the node is a convolution with a bias whose output has one position, as behind global pooling."""
    shape = node.outputs[0].shape
    has_bias = is_standard(node, "Conv") and len(node.inputs) > _BIAS and node.inputs[_BIAS] is not None
    return has_bias and shape is not None and all(size == 1 for size in list(shape)[2:])


def tells_words(model: Model) -> bool:
    """Whether the first output is a choice between words at each position, as that of a language model.

    The output is a matrix product with one number for each row of the table in which an input's ids are looked up. A
    bias is not required, as few decoders have one.
    """
    output = model.graph.outputs[0] if model.graph.outputs else None
    shape = None if output is None else output.shape
    if output is None or shape is None or len(shape) <= _RANK_OF_ROWS:
        return False
    node = output.producer()
    while node is not None and is_standard(node, *FORMS):
        value = node.inputs[0]
        node = value.producer() if value is not None else None
    if node is None or not is_standard(node, "MatMul"):
        return False
    return any(isinstance(limit, int) and limit == shape[-1] for limit in index_limits(model).values())


def _maker(output: ir.Value) -> ir.Node | None:
    """The node that computes an output's numbers, before nodes that only pass them on."""
    node = output.producer()
    while node is not None and is_standard(node, *FORMS):
        value = node.inputs[0]
        node = value.producer() if value is not None else None
    return node


def _has_classes(value: ir.Value) -> bool:
    shape = value.shape
    return shape is None or (len(shape) >= 1 and shape[-1] != 1)


def has_decisions(references: References, decision: Decision, output: str | None = None) -> bool:
    """Whether one of the float model's outputs decides something; the first output if none is named.

    It may hold amounts instead: a few quantities of which the same one is always the largest, also in each row of a
    table, or quantities on different scales. Or it may hold probabilities by which nearly all samples are of one class,
    as few orders are frauds. Such outputs are judged by what varies between samples
    (:meth:`edgekit.comparison.numbers.columns.Columns.centred_db`).
    """
    count, columns = _gathered(references, decision, output)
    if not decision.is_known and not decision.are_scores and columns.worst() is not None:
        return False
    decides = columns.is_vector or count.shared()[0] is not None
    return count.may_decide and columns.centred_db(decides=decides, shares_decide=not count.says_little) is None


def only_ranks(references: References, decision: Decision) -> bool:
    """Whether the float model's first output holds probabilities by which nearly all samples are of one class.

    Their remaining information is the ranking of the samples, which neither labels nor decisions show.
    """
    count, columns = _gathered(references, decision)
    return count.says_little and columns.are_shares and columns.centred_db(shares_decide=False) is not None


def _gathered(references: References, decision: Decision, output: str | None = None) -> tuple[DecisionCount, Columns]:
    count, columns = DecisionCount(decision), Columns()
    for reference in references.answers():
        answer = reference.outputs[output or next(iter(reference.outputs))]
        count.add(answer, answer)
        columns.add(answer, answer)
    return count, columns
