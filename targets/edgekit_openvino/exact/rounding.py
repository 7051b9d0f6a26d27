"""Quantization exactly as ONNX defines it, for models that OpenVINO's CPU plugin computes wrong or less precisely.

The plugin computes a network in integers if it has FakeQuantize, which QuantizeLinear becomes, and sums them up in 16
bits on processors without VNNI (OpenVINO 2026.4). Without FakeQuantize it computes in floats what ONNX defines. Where
weights are stored as integers and widened, the plugin quantizes activations at run time
(``DYNAMIC_QUANTIZATION_GROUP_SIZE``, 32 by default): a sentence encoder computes twice as fast, at 31 dB in place of
115. A network can turn this off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.instruction_sets import WITHOUT_VNNI, own_set
from edgekit.model import Model, node_name
from edgekit.rewrite import OPSETS, InapplicableError, Rewrite
from edgekit.rewrites.application import rewritten
from edgekit.rewrites.quantized_operators import MICROSOFT, QuantizedProduct
from edgekit_openvino.networks import operations_of

OP_TYPE = "QuantizeLinear"
STORED = ("i8", "u8", "i4", "u4")
"""Element types of weights for which the plugin quantizes activations at run time."""


class QuantizationAsRounding(Rewrite):
    """``saturate(round(x / scale) + zero_point)``, as ONNX defines it."""

    name: ClassVar[str] = "quantization as rounding"
    op_types: ClassVar[Sequence[str]] = (OP_TYPE,)
    versions: ClassVar[range] = range(10, 1000)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Rounds and clips in the float type, and casts the result to integers."""
        x, scale = node.inputs[:2]
        zero_point = node.inputs[2] if len(node.inputs) > 2 else None
        if x is None or scale is None or scale.shape is None or scale.dtype is None:
            raise InapplicableError("what it is fed is not known")
        dtype = ir.DataType(node.attributes.get_int("output_dtype", 0)) or ir.DataType.UINT8
        dtype = dtype if zero_point is None or zero_point.dtype is None else zero_point.dtype
        if dtype not in (ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT16, ir.DataType.UINT16):
            raise InapplicableError(f"it makes {dtype}")
        if (
            node.attributes.get_int("block_size", 0)
            or scale.shape.rank() > 1
            or (x.dtype or scale.dtype) != ir.DataType.FLOAT
        ):
            raise InapplicableError("it has blocks, or another type than float")
        along: list[int] = []
        if scale.shape.rank() == 1 and scale.shape != (1,):
            if x.shape is None:
                raise InapplicableError("along which axis its scales stand is not known")
            rank = x.shape.rank()
            axis = node.attributes.get_int("axis", 1) % rank
            along = [place for place in range(rank) if place != axis]
        divisor = build.unsqueeze(scale, along) if along else scale
        rounded = build("Round", build("Div", x, divisor))
        if zero_point is not None:
            moved = build.cast(zero_point, ir.DataType.FLOAT)
            rounded = build("Add", rounded, build.unsqueeze(moved, along) if along else moved)
        limits = np.iinfo(dtype.numpy())
        kept = build("Clip", rounded, np.float32(limits.min), np.float32(limits.max))
        return [build.cast(kept, dtype)]


class OthersWrittenOut(QuantizationAsRounding):
    """ONNX Runtime's own operator, which its quantizer writes for 16 bits before opset 21."""

    name: ClassVar[str] = "ONNX Runtime's quantization as rounding"
    domain: ClassVar[str] = MICROSOFT
    versions: ClassVar[range] = OPSETS


def with_rounding_written_out(model: Model) -> Model:
    """Returns the model with operators that quantize written out, as far as possible; the same model if it has none."""
    for among, rewrites in (
        (_multiplies, [QuantizedProduct()]),
        (_quantizes, [QuantizationAsRounding(), OthersWrittenOut()]),
    ):
        names = _names(model, among)
        if names:
            model = rewritten(model, partial(_left, among, names), rewrites).model
    return model


def _left(among: Callable[[ir.Node], bool], names: Sequence[str], model: Model) -> list[str]:
    return [name for name in _names(model, among) if name in names]


def _names(model: Model, among: Callable[[ir.Node], bool]) -> list[str]:
    return [node_name(node) for node in model.graph.all_nodes() if among(node)]


def _multiplies(node: ir.Node) -> bool:
    return node.op_type in QuantizedProduct.op_types and not node.domain


def _quantizes(node: ir.Node) -> bool:
    return node.op_type == OP_TYPE and node.domain in ("", MICROSOFT)


def drop_integer_detours(network: Any) -> None:
    """Drops conversions of rounded floats to 8-bit integers and back, in an ``openvino.Model`` that is simplified.

    What :class:`QuantizationAsRounding` computes before its cast are whole numbers within the integers' limits. Without
    the two conversions the plugin computes an activation in one pass: a MobileNetV2 takes half the time.
    """
    for operation in network.get_ordered_ops():
        if operation.get_type_name() != "Convert" or operation.get_output_element_type(0).get_type_name() != "f32":
            continue
        narrowed = operation.input_value(0).get_node()
        if narrowed.get_type_name() != "Convert" or narrowed.get_element_type().get_type_name() not in ("i8", "u8"):
            continue
        rounded, readers = narrowed.input_value(0), operation.output(0).get_target_inputs()
        if any(reader.get_node().get_type_name() == "Result" for reader in readers):
            continue  # the output has its name from here
        if _is_whole_within(rounded.get_node(), np.iinfo(narrowed.get_element_type().to_dtype())):
            for reader in readers:
                reader.replace_source_output(rounded)


def _is_whole_within(node: Any, limits: np.iinfo[Any]) -> bool:
    """Whether an operation clips a rounded number, a whole zero point added or not, to an integer type's limits."""
    if node.get_type_name() != "Clamp":
        return False
    low, high = (float(node.get_attributes()[bound]) for bound in ("min", "max"))
    rounded = node.input_value(0).get_node()
    if rounded.get_type_name() == "Add":
        zero_point = rounded.input_value(1).get_node()
        if zero_point.get_type_name() != "Constant" or np.any(np.array(zero_point.get_data()) % 1):
            return False
        rounded = rounded.input_value(0).get_node()
    within = limits.min <= low <= high <= limits.max and low.is_integer() and high.is_integer()
    return within and rounded.get_type_name() == "Round"


def stores_integers(network: Any) -> bool:
    """Whether a converted ``openvino.Model`` has matrix products whose weights are stored in 8 or 4 bits."""
    return any(
        operation.get_element_type().get_type_name() in STORED and len(operation.get_output_shape(0)) > 1
        for operation in operations_of(network, "Constant")
    )


def leaves_activations_here() -> bool:
    """Whether the plugin leaves activations unquantized on this processor even if nothing tells it to.

    It has no kernels that quantize activations on processors without VNNI. A bundle that was judged on such a processor
    was judged with unquantized activations; elsewhere the plugin would quantize them, unless the bundle turns it off.
    """
    return own_set() in WITHOUT_VNNI


def keep_activations(network: Any) -> None:
    """Keeps the plugin from quantizing activations at run time, wherever the converted ``openvino.Model`` is loaded."""
    network.set_rt_info("0", ["runtime_options", "DYNAMIC_QUANTIZATION_GROUP_SIZE"])
