"""Operators of TensorFlow that tf2onnx leaves in a file under their own names, in operators of the standard.

tf2onnx 1.17 has no ONNX equivalent for them, and writes the file nevertheless: Keras' exact GELU uses ``Erfc``. The
operators are defined as in ``tf.math``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import onnx
from onnx import numpy_helper

from edgekit.graph.reading.onnx_file import STANDARD_DOMAINS
from edgekit.graph.reading.steps import CAST_LIKE_SINCE, Steps
from edgekit.graph.reading.subgraphs import lists_of_nodes


def _erfc(steps: Steps, x: str) -> str:
    return steps.step("Sub", steps.number(1, x), steps.step("Erf", x))


def _expm1(steps: Steps, x: str) -> str:
    """``tanh(x / 2) * (exp(x) + 1)``, in which nothing cancels near 0."""
    half = steps.step("Mul", x, steps.number(0.5, x))
    return steps.step("Mul", steps.step("Tanh", half), steps.step("Add", steps.step("Exp", x), steps.number(1, x)))


def _log1p(steps: Steps, x: str) -> str:
    return steps.step("Log", steps.step("Add", x, steps.number(1, x)))


def _xdivy(steps: Steps, x: str, y: str) -> str:
    return _zero_where_zero(steps, x, steps.step("Div", x, y))


def _xlogy(steps: Steps, x: str, y: str) -> str:
    return _zero_where_zero(steps, x, steps.step("Mul", x, steps.step("Log", y)))


def _zero_where_zero(steps: Steps, x: str, result: str) -> str:
    zero = steps.number(0, x)
    return steps.step("Where", steps.step("Equal", x, zero), zero, result)


def _bucketize(steps: Steps, x: str) -> str:
    """The number of boundaries that each number is not less than; all for NaN, as with ``std::upper_bound``."""
    boundaries = steps.constant(np.array(steps.attributes.get("boundaries", []), np.float32))
    last = steps.constant(np.array([-1]))
    numbers = steps.step("Unsqueeze", steps.step("Cast", x, to=onnx.TensorProto.FLOAT), last)
    reached = steps.step("Not", steps.step("Less", numbers, boundaries))
    return steps.step("ReduceSum", steps.step("Cast", reached, to=onnx.TensorProto.INT32), last, keepdims=0)


def _broadcast_args(steps: Steps, first: str, second: str) -> str:
    """The broadcast of two shapes: the shorter gets ones in front, and the other shape's size replaces a 1."""
    shapes = [steps.step("Cast", shape, to=onnx.TensorProto.INT64) for shape in (first, second)]
    ranks = [steps.step("Shape", shape) for shape in shapes]
    rank = steps.step("Max", *ranks)
    one = numpy_helper.from_array(np.ones(1, np.int64))
    ones = [steps.step("ConstantOfShape", steps.step("Sub", rank, each), value=one) for each in ranks]
    left, right = (steps.step("Concat", *each, axis=0) for each in zip(ones, shapes, strict=True))
    is_one = steps.step("Equal", left, steps.constant(np.array(1)))
    return steps.step("CastLike", steps.step("Where", is_one, right, left), first)


def _rgb_to_hsv(steps: Steps, x: str) -> str:
    """Hue in sixths of a turn from red, green or blue, as TensorFlow's kernel computes it (``colorspace_op.h``)."""
    red, green, blue = (steps.step("Gather", x, steps.constant(np.array([place])), axis=-1) for place in range(3))
    value = steps.step("Max", red, green, blue)
    spread = steps.step("Sub", value, steps.step("Min", red, green, blue))
    zero, six = steps.number(0, x), steps.number(6, x)

    def turned(first: str, second: str, sixths: int) -> str:
        part = steps.step("Div", steps.step("Sub", first, second), steps.step("Mul", spread, six))
        return steps.step("Add", part, steps.number(sixths / 6, x)) if sixths else part

    from_green = steps.step("Where", steps.step("Equal", green, value), turned(blue, red, 2), turned(red, green, 4))
    hue = steps.step("Where", steps.step("Equal", red, value), turned(green, blue, 0), from_green)
    hue = steps.step("Where", steps.step("Greater", spread, zero), hue, zero)
    around = steps.step("Add", hue, steps.number(1, x))
    hue = steps.step("Where", steps.step("Less", hue, zero), around, hue)
    share = steps.step("Div", spread, value)
    saturation = steps.step("Where", steps.step("Greater", value, zero), share, zero)
    return steps.step("Concat", hue, saturation, value, axis=-1)


class _Written(NamedTuple):
    """An operator's description, its number of inputs, the function that writes it, and the first opset for that."""

    description: str
    inputs: int
    write: Callable[..., str]
    since: int = 1


_WRITTEN: Mapping[str, _Written] = {
    "BroadcastArgs": _Written("the shape that two shapes broadcast to", 2, _broadcast_args, CAST_LIKE_SINCE),
    "Bucketize": _Written("the number of boundaries that x is not less than", 1, _bucketize, 13),
    "Erfc": _Written("1 - Erf(x)", 1, _erfc),
    "Expm1": _Written("Tanh(x / 2) * (Exp(x) + 1)", 1, _expm1),
    "Log1p": _Written("Log(1 + x)", 1, _log1p),
    "RGBToHSV": _Written("hue, saturation and value of red, green and blue", 1, _rgb_to_hsv, 13),
    "Xdivy": _Written("x / y, 0 where x is 0", 2, _xdivy),
    "Xlogy": _Written("x * Log(y), 0 where x is 0", 2, _xlogy),
}


def write_out_tensorflow_operators(proto: onnx.ModelProto) -> list[str]:
    """Replaces TensorFlow's operators, in place, also in branches, loops and functions.

    Returns:
        Descriptions of the replacements.
    """
    opset = max((each.version for each in proto.opset_import if each.domain in STANDARD_DOMAINS), default=0)
    replaced: Counter[str] = Counter()
    for nodes in lists_of_nodes(proto):
        if any(_is_left(node, opset) for node in nodes):
            replaced.update(node.op_type for node in nodes if _is_left(node, opset))
            written = [step for node in nodes for step in _written(node, opset)]
            del nodes[:]
            nodes.extend(written)
    return [
        f"{operator} is an operator of TensorFlow that ONNX does not have, and the exporter did not convert it: "
        f"{count} {'node is' if count == 1 else 'nodes are'} replaced by {_WRITTEN[operator].description}"
        for operator, count in sorted(replaced.items())
    ]


def _is_left(node: onnx.NodeProto, opset: int) -> bool:
    known = _WRITTEN.get(node.op_type)
    if known is None or node.domain or opset < known.since:
        return False
    return len(node.input) == known.inputs and len(node.output) == 1


def _written(node: onnx.NodeProto, opset: int) -> list[onnx.NodeProto]:
    if not _is_left(node, opset):
        return [node]
    steps = Steps(node, opset)
    _WRITTEN[node.op_type].write(steps, *node.input)
    steps.nodes[-1].output[0] = node.output[0]
    return steps.nodes
