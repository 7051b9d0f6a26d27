"""Writes OpenVINO's Intermediate Representation: small, and the same bytes for the same model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from edgekit.model import Model
from edgekit_openvino.exact.rounding import drop_integer_detours
from edgekit_openvino.ir.attention_axes import keep_attention_on_its_axes
from edgekit_openvino.ir.bias_folding import fold_biases
from edgekit_openvino.ir.overwritten_queries import keep_queries
from edgekit_openvino.ir.scaled_roundings import scale_ahead_of_roundings
from edgekit_openvino.ir.shape_folding import fold_shapes
from edgekit_openvino.ir.sixteen_bit_roundings import keep_sixteen_bit_roundings
from edgekit_openvino.loadable.shared_numbers import part_shared_numbers
from edgekit_openvino.networks import LOOPS, networks_in
from edgekit_openvino.quick.loop_weights import widen_ahead_of_loops

_BINARY = (
    *("Add", "Divide", "FloorMod", "Maximum", "Minimum", "Mod", "Multiply", "Power", "SquaredDifference", "Subtract"),
    *("Equal", "Greater", "GreaterEqual", "Less", "LessEqual", "NotEqual", "LogicalAnd", "LogicalOr", "LogicalXor"),
)
_REDUCTIONS = ("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum")
_CONVOLUTIONS = ("Convolution", "ConvolutionBackpropData", "GroupConvolution", "GroupConvolutionBackpropData")
DEFAULTS: Mapping[str, Mapping[str, str]] = {
    **{kind: {"auto_broadcast": "numpy"} for kind in (*_BINARY, "FakeQuantize", "Select")},
    **{kind: {"keep_dims": "false"} for kind in _REDUCTIONS},
    **{kind: {"auto_pad": "explicit"} for kind in _CONVOLUTIONS},
    "Gather": {"batch_dims": "0"},
    "MatMul": {"transpose_a": "false", "transpose_b": "false"},
}
"""Default values of attributes by type of operation, from OpenVINO's specification of operations."""
WITH_BODIES = ("If", "Loop", "TensorIterator")
COUNTED_NAME = re.compile(r"\w+_\d+(\.\d+)?")
SMALL_CONSTANT = 64
"""In bytes; a constant of at most this size takes less room than its entries in the topology."""
OPERATION_BYTES = 400
"""The approximate number of bytes of the topology's entries for one operation and its edges."""
WIDENS = "decompression_0"
"""The mark of an operation that OpenVINO's compression to float16 put behind a constant."""
WORTH_HALVING = 450
"""In bytes; a constant of which float16 saves less stays in float32: the topology's entries for the operation that
widens it again, and for its edges, take more."""

COMPARES = frozenset({"Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual"})


def write_ir(converted: Any, model: Model, topology: Path, *, half_weights: bool, draft: bool = False) -> None:
    """Write an ``openvino.Model`` as ``topology`` (``.xml``) and a ``.bin`` file of the same name beside it.

    Args:
        converted: The network that the ONNX model was converted to.
        model: The ONNX model, whose names the operations keep.
        topology: The ``.xml`` file.
        half_weights: Store float32 weights as float16; OpenVINO widens them again where it computes in float32.
        draft: Whether the topology may stay as large as OpenVINO writes it.
    """
    import openvino

    fused = _fused(converted)
    keep_queries(fused)
    keep_sixteen_bit_roundings(fused)
    scale_ahead_of_roundings(fused)
    fold_shapes(fused)
    fold_biases(fused)
    drop_integer_detours(fused)
    _share_small_constants(fused)
    part_shared_numbers(fused)
    _name_anew(fused, model)
    if half_weights:
        fused = _halved(fused)
        widen_ahead_of_loops(fused)
    openvino.save_model(fused, topology, compress_to_fp16=False)
    if not draft:
        topology.write_bytes(_without_repetitions(topology.read_bytes()))


def _without_repetitions(topology: bytes) -> bytes:
    """Returns the topology without indentation, repetitions and default values of attributes.

    The type and shape of an input are those of an output, the shape of a constant is among its attributes, and
    attributes have defaults. Together they are a third of what OpenVINO writes. Its reader uses only the id of an
    input; Netron looks up the rest, too, except for operators that have a body. OpenVINO writes and reads names with
    control characters, which XML 1.0 cannot hold: a file with such names is left unchanged.
    """
    try:
        root = ElementTree.fromstring(topology)
    except ElementTree.ParseError:
        return topology
    for element in root.iter():
        if not (element.text or "").strip():
            element.text = None
        element.tail = None
    for layer in root.iter("layer"):
        if layer.get("type") not in WITH_BODIES:
            for port in layer.iterfind("input/port"):
                number = port.attrib["id"]
                port.clear()
                port.set("id", number)
        _drop_known_attributes(layer)
    text = ElementTree.tostring(root, encoding="unicode").replace(" />", "/>")  # in what is quoted ">" is "&gt;"
    return f'<?xml version="1.0"?>{text}'.encode()


def _drop_known_attributes(layer: ElementTree.Element) -> None:
    """Remove from a layer the attributes that have their default values, and the shape of a constant's output."""
    kind, data = layer.get("type", ""), layer.find("data")
    if data is None:
        return
    for name, default in DEFAULTS.get(kind, {}).items():
        if data.get(name) == default:
            del data.attrib[name]
    if not data.attrib and not len(data):
        layer.remove(data)
    if kind == "Const":
        for port in layer.iterfind("output/port"):
            for size in port.findall("dim"):
                port.remove(size)


def _fused(converted: Any) -> Any:
    """The model after OpenVINO's hardware-independent passes, which halve the topology of a quantized one.

    They may also turn 8-bit weights into floats, those of MatMulInteger for one; then the model is left as it is.
    """
    # What OpenVINO's own converter does before it saves; it has no public name.
    from openvino._offline_transformations import apply_moc_transformations

    fused = converted.clone()
    keep_attention_on_its_axes(fused)
    apply_moc_transformations(fused, cf=True)
    return min(fused, converted, key=_expected_bytes)


def _halved(converted: Any) -> Any:
    """The model with its float32 constants in float16, where that is worth it, behind operations that widen them.

    OpenVINO halves all constants, or none; small ones, and those that numbers are compared with, are put back: a
    rounded threshold may change the decision about a number next to it.
    """
    from openvino._offline_transformations import compress_model_transformation

    halved = converted.clone()
    compress_model_transformation(halved)
    for whole, half in zip(networks_in(converted), networks_in(halved), strict=True):
        _put_back(whole, half)
    return halved


def _put_back(given: Any, halved: Any) -> None:
    """Restore the float32 constants of a network for which float16 saves no room, or may change decisions."""
    from openvino import opset13

    constants = [each for each in given.get_ops() if each.get_type_name() == "Constant"]
    named = Counter(each.get_friendly_name() for each in constants)
    singles = {name: each for each in constants if named[name := each.get_friendly_name()] == 1}
    for widened in halved.get_ops():
        if widened.get_type_name() != "Convert" or WIDENS not in widened.get_rt_info():
            continue
        half = widened.input_value(0).get_node()
        single = singles.get(widened.get_friendly_name())
        if single is None:
            continue  # several have that name
        if half.get_byte_size() > WORTH_HALVING and not _is_compared(widened.output(0)):
            continue
        kept = opset13.constant(single.get_data(), single.get_element_type())
        kept.set_friendly_name(widened.get_friendly_name())
        for reader in widened.output(0).get_target_inputs():
            reader.replace_source_output(kept.output(0))


def _is_compared(numbers: Any) -> bool:
    """Whether a comparison reads the numbers, or some that are looked up among them."""
    readers = [reader.get_node() for reader in numbers.get_target_inputs()]
    kinds = {reader.get_type_name() for reader in readers}
    looked_up = [reader for reader in readers if reader.get_type_name() == "Gather"]
    return bool(kinds & COMPARES) or any(_is_compared(reader.output(0)) for reader in looked_up)


def _expected_bytes(converted: Any) -> int:
    """Returns the approximate size of the files in bytes, with the bodies of loops and branches."""
    operations = converted.get_ops()
    total = OPERATION_BYTES * len(operations)
    for operation in operations:
        kind = operation.get_type_name()
        if kind == "Constant":
            total += operation.get_byte_size()
        elif kind == "If":
            total += _expected_bytes(operation.get_then_body()) + _expected_bytes(operation.get_else_body())
        elif kind in LOOPS:
            total += _expected_bytes(operation.get_function())
    return total


def _share_small_constants(converted: Any) -> None:
    """Merge small equal constants into one: a quantized model has the same few limits again and again."""
    first: dict[tuple[Any, ...], Any] = {}
    for operation in converted.get_ordered_ops():
        if operation.get_type_name() != "Constant" or operation.get_byte_size() > SMALL_CONSTANT:
            continue
        shape = tuple(operation.get_output_shape(0))
        number = (operation.get_element_type().get_type_name(), shape, operation.get_data().tobytes())
        for reader in operation.output(0).get_target_inputs():
            kept = first.setdefault((*number, _limit_apart(reader)), operation)
            if kept is not operation:
                reader.replace_source_output(kept.output(0))


def _limit_apart(reader: Any) -> tuple[str, int]:
    """Returns name and place of an input that is a limit of a rounding to another range; the same for all other inputs.

    If such a rounding to integers, behind a product, has one constant as both its lower limits (input and output), or
    shares its limits with a rounding behind another product, OpenVINO's low-precision transformations compute it wrong
    (OpenVINO 2026.4); other roundings may share limits.
    """
    rounding, place = reader.get_node(), int(reader.get_index())
    shared = ("", 0)
    if rounding.get_type_name() != "FakeQuantize" or place == 0:
        return shared
    limits = [port.get_node() for port in rounding.input_values()[1:]]
    if any(limit.get_type_name() != "Constant" for limit in limits):
        return rounding.get_name(), place
    numbers = [limit.get_data() for limit in limits]
    keeps_range = all(np.array_equal(numbers[side], numbers[side + 2]) for side in range(2))
    return shared if keeps_range else (rounding.get_name(), place)


def _name_anew(converted: Any, model: Model) -> None:
    """Give inputs and outputs the ONNX model's names, and renumber those that OpenVINO numbered itself."""
    nodes = list(model.graph.all_nodes())
    given = {node.name for node in nodes} | {value.name for node in nodes for value in node.outputs}
    given |= set(model.graph.initializers) | {value.name for value in model.graph.inputs}
    counted: Counter[str] = Counter()
    for operation in converted.get_ordered_ops():
        name = operation.get_friendly_name()
        if name not in given and COUNTED_NAME.fullmatch(name):
            kind = operation.get_type_name()
            operation.set_friendly_name(f"{kind}.{counted[kind]}")
            counted[kind] += 1
    borders = (
        *zip(converted.get_parameters(), model.inputs, strict=True),
        *zip(converted.get_results(), model.outputs, strict=True),
    )
    for operation, value in borders:
        operation.set_friendly_name(value.name)
