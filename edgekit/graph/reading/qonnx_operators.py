"""QONNX's quantization, written by Brevitas and QKeras, in operators of the standard.

``Quant`` rounds floats to the values that integers of some bits and a scale stand for; ``BipolarQuant`` to plus or
minus a scale. Both are defined in the QONNX repository (``docs/qonnx-custom-ops``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import onnx
from onnx import external_data_helper, helper, numpy_helper

from edgekit.graph.reading.onnx_file import STANDARD_DOMAINS
from edgekit.graph.reading.steps import Steps
from edgekit.graph.reading.subgraphs import lists_of_nodes, nodes_inside, written_nodes

_DOMAINS = frozenset({"qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general"})
_INPUTS = {"Quant": 4, "IntQuant": 4, "BipolarQuant": 2}
_EVEN = frozenset({"ROUND", "HALF_EVEN"})
_ROUNDINGS = _EVEN | {"CEIL", "FLOOR", "UP", "DOWN", "HALF_UP", "HALF_DOWN"}
_SINCE = 13
"""The first opset with a scale per channel, and ``Clip`` of small integers."""
_WIDEST = 32
"""Bits of a bias; of more than 24, float32 holds neither the ends nor the integers near them."""


def write_out_qonnx_operators(proto: onnx.ModelProto) -> list[str]:
    """Replaces the nodes, in place, also in branches, loops and functions.

    ``Quant`` of at most 8 bits becomes ``QuantizeLinear`` and ``DequantizeLinear``, as in Brevitas' own export of this
    form, and thus stays integers on a target that has them. An odd zero point then lets halves round to the other side.
    Other widths and roundings are computed in floats. A ``Quant`` whose bits are no constant stays.

    Returns:
        A description of the replacements, if there are any.
    """
    opset = max((each.version for each in proto.opset_import if each.domain in STANDARD_DOMAINS), default=0)
    if opset < _SINCE or not any(node.domain in _DOMAINS for node in nodes_inside(written_nodes(proto))):
        return []
    constants = _constants(proto)
    replaced: Counter[str] = Counter()
    for nodes in lists_of_nodes(proto):
        written = []
        for node in nodes:
            steps = _written(node, opset, constants)
            replaced.update([node.op_type] if steps else [])
            written += steps or [node]
        del nodes[:]
        nodes.extend(written)
    return [
        f"{operator} is an operator of QONNX, which no target executes: {count} "
        f"{'node is' if count == 1 else 'nodes are'} replaced by operators of the standard"
        for operator, count in sorted(replaced.items())
    ]


def _constants(proto: onnx.ModelProto) -> Mapping[str, np.ndarray]:
    """The constants of the file by name, without those in other files."""
    nodes = list(nodes_inside(written_nodes(proto)))
    tensors = {tensor.name: tensor for tensor in proto.graph.initializer}
    for node in nodes:
        if node.op_type == "Constant" and node.attribute[0].HasField("t"):
            tensors[node.output[0]] = node.attribute[0].t
    read = {name for node in nodes if node.domain in _DOMAINS for name in node.input[1:]}
    return {
        name: numpy_helper.to_array(tensor)
        for name, tensor in tensors.items()
        if name in read and not external_data_helper.uses_external_data(tensor)
    }


class _Grid(NamedTuple):
    """The integers of a ``Quant``."""

    lowest: int
    highest: int
    dtype: type[np.int8 | np.uint8]
    rounding: str


def _written(node: onnx.NodeProto, opset: int, constants: Mapping[str, np.ndarray]) -> list[onnx.NodeProto]:
    """The nodes that replace a node; none if it stays."""
    if node.domain not in _DOMAINS or len(node.input) != _INPUTS.get(node.op_type) or len(node.output) != 1:
        return []
    steps = Steps(node, opset)
    x, scale, *others = node.input
    if others:
        grid = _grid_of(node, constants.get(others[1]))
        if grid is None:
            return []
        if not _pair(steps, x, grid, constants.get(scale), constants.get(others[0])):
            _in_floats(steps, x, scale, others[0], grid)
    else:
        steps.step("Where", _is_positive(steps, x), scale, steps.step("Neg", scale))
    steps.nodes[-1].output[0] = node.output[0]
    return steps.nodes


def _grid_of(node: onnx.NodeProto, bits: np.ndarray | None) -> _Grid | None:
    given = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    rounding = (given.get("rounding_mode") or b"ROUND").decode().upper()
    if bits is None or bits.size != 1 or rounding not in _ROUNDINGS:
        return None
    width = bits.item()
    if width != int(width) or not 1 <= width <= _WIDEST:
        return None
    left_out = 1 if given.get("narrow", 1) else 0
    half = 2 ** (int(width) - 1)
    if given.get("signed", 1):
        return _Grid(left_out - half, half - 1, np.int8, rounding)
    return _Grid(0, 2 * half - 1 - left_out, np.uint8, rounding)


def _pair(steps: Steps, x: str, grid: _Grid, scale: np.ndarray | None, zero: np.ndarray | None) -> bool:
    """Writes a pair around integers of 8 bits, with a scale for all or for each place along an axis.

    Returns:
        Whether there is such a pair.
    """
    limits = np.iinfo(grid.dtype)
    is_known = scale is not None and zero is not None
    if not is_known or _is_bipolar(grid) or grid.rounding not in _EVEN:
        return False
    assert scale is not None
    assert zero is not None
    axes = [axis - scale.ndim for axis, size in enumerate(scale.shape) if size > 1]
    zeros = np.unique(zero)
    is_whole = zeros.size == 1 and zeros[0] == round(float(zeros[0]))
    fits = grid.lowest >= limits.min and grid.highest <= limits.max
    if not fits or len(axes) > 1 or not is_whole or not limits.min <= zeros[0] <= limits.max or not (scale > 0).all():
        return False
    scales = steps.constant(scale.reshape(-1 if axes else ()).astype(np.float32))
    place = steps.constant(np.full(scale.size if axes else (), zeros[0]).astype(grid.dtype))
    axis = {"axis": axes[0]} if axes else {}
    integers = steps.step("QuantizeLinear", x, scales, place, **axis)
    if (grid.lowest, grid.highest) != (limits.min, limits.max):
        ends = [steps.constant(np.array(end, grid.dtype)) for end in (grid.lowest, grid.highest)]
        integers = steps.step("Clip", integers, *ends)
    steps.step("DequantizeLinear", integers, scales, place, **axis)
    return True


def _in_floats(steps: Steps, x: str, scale: str, zero: str, grid: _Grid) -> None:
    placed = steps.step("Add", steps.step("Div", x, scale), zero)
    if _is_bipolar(grid):
        one = steps.number(1, x)
        rounded = steps.step("Where", _is_positive(steps, placed), one, steps.step("Neg", one))
    else:
        ends = [steps.number(end, x) for end in (grid.lowest, grid.highest)]
        rounded = _rounded(steps, steps.step("Clip", placed, *ends), grid.rounding)
    steps.step("Mul", steps.step("Sub", rounded, zero), scale)


def _is_bipolar(grid: _Grid) -> bool:
    """Whether the integers are those of one bit with a sign, which stand for -1 and 1."""
    return grid.dtype is np.int8 and grid.highest == 0


def _is_positive(steps: Steps, x: str) -> str:
    return steps.step("GreaterOrEqual", x, steps.number(0, x))


def _rounded(steps: Steps, x: str, rounding: str) -> str:
    if rounding in _EVEN:
        return steps.step("Round", x)
    if rounding in ("CEIL", "FLOOR"):
        return steps.step(rounding.capitalize(), x)
    size = steps.step("Abs", x)
    if rounding.startswith("HALF"):
        size = steps.step("Add", size, steps.number(0.5 if rounding == "HALF_UP" else -0.5, x))
    size = steps.step("Ceil" if rounding in ("UP", "HALF_DOWN") else "Floor", size)
    return steps.step("Mul", steps.step("Sign", x), size)
