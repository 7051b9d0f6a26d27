"""Arithmetic of 64-bit integers that leaves the range of 32 bits, which is all that some devices compute in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import onnx_ir as ir

from edgekit.data.limits import index_limits
from edgekit.graph.nodes import constant_input, input_at
from edgekit.graph.sizes.size_inputs import SIZES
from edgekit.model import Model, node_name

LEAST_FACTOR = 1 << 16
"""Of smaller factors it takes a number beyond 32,767 to leave 32 bits: places in tensors are computed with those."""
_WIDE = (np.int64, np.uint64)
_WIDE_TYPES = frozenset({ir.DataType.INT64, ir.DataType.UINT64})
_NUMBER_TYPES = _WIDE_TYPES | {ir.DataType.INT32, ir.DataType.UINT32}
"""What numbers of any size come in; those of 16 bits and fewer are pictures, flags and codes."""
_GREATEST = int(np.iinfo(np.int32).max)
_SIZES = frozenset({"Shape", "Size"})
_KEEPS = frozenset({"Cast", "Concat", "Expand", "Flatten", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Tile"})
_KEEPS |= {"Transpose", "Unsqueeze"}
"""Operators that hand on numbers of their first input, or of all of them (Concat)."""
_COMBINES = frozenset(
    {"Abs", "Add", "Clip", "CumSum", "Div", "Floor", "Gather", "Max", "Min", "Mul", "Neg", "ReduceMax"}
)
_COMBINES |= {"ReduceSum", "Sub", "Where"}
"""Operators of places and flags: what comes of them is looked up or compared, so that it is small, and so were they."""
_GROWS = frozenset({"CumSum", "Gather", "GatherElements", "GatherND", "Mul", "ReduceSum"})
"""Operators behind which numbers are at least as large as those of their first input."""
_PLACES: Mapping[str, tuple[int, ...]] = {
    **SIZES,
    "ArrayFeatureExtractor": (1,),
    "Compress": (1,),
    "CumSum": (1,),
    "Equal": (0, 1),
    "Gather": (1,),
    "GatherElements": (1,),
    "GatherND": (1,),
    "Greater": (0, 1),
    "GreaterOrEqual": (0, 1),
    "Less": (0, 1),
    "LessOrEqual": (0, 1),
    "Loop": (0,),
    "OneHot": (0, 1),
    "ReverseSequence": (1,),
    "RoiAlign": (2,),
    "ScatterElements": (1,),
    "ScatterND": (1,),
}
"""The inputs of an operator that are places in tensors, lengths, or what is compared with such: padding, say."""
_OVERFLOWS = {
    "CumSum": "adds up 64-bit integers",
    "Gemm": "multiplies matrices of 64-bit integers",
    "MatMul": "multiplies matrices of 64-bit integers",
    "Mul": "multiplies 64-bit integers with each other",
    "Pow": "raises 64-bit integers to a power",
    "ReduceProd": "multiplies 64-bit integers with each other",
}
"""What an operator does with numbers of any size that may leave 32 bits."""
_OF_TWO = frozenset({"Gemm", "MatMul", "Mul"})
"""Of these both factors are numbers of any size."""


def wide_products(model: Model) -> list[str]:
    """Warnings where the graph computes with integers of an input what may leave 32 bits; none else.

    It multiplies them by factors as hashes have them, or those of an input that may be of any size with each other, or
    adds them up. Of any size are numbers that are no places in tensors, no lengths, and no flags: nothing is looked up
    by them, sized by them or compared with them, and no mask is named so. Samples that are small enough show nothing.

    Args:
        model: What a device is to compute in 32 bits.
    """
    return [*_factors(model), *_of_any_size(model)]


def _factors(model: Model) -> Iterator[str]:
    found = [(node, factor) for node in model.graph.all_nodes() if (factor := _factor(node)) >= LEAST_FACTOR]
    if found:
        node, factor = max(found, key=lambda pair: pair[1])
        yield (
            f"node {node_name(node)!r}{_one_of(len(found))} multiplies 64-bit integers by {factor}: the device "
            f"computes in 32 bits, and gives other numbers where what is multiplied is beyond {_GREATEST // factor}"
        )


def _of_any_size(model: Model) -> Iterator[str]:
    computing = [node for node in model.graph.all_nodes() if not node.domain and node.op_type in _OVERFLOWS]
    computing = [node for node in computing if node.outputs[0].dtype in _WIDE_TYPES]
    sources = _numbers_of_any_size(model) if computing else set()
    found = [node for node in computing if sources and _may_overflow(node, sources)]
    if found:
        node = found[0]
        yield (
            f"node {node_name(node)!r}{_one_of(len(found))} {_OVERFLOWS[node.op_type]}: the device computes in 32 "
            f"bits, and gives other numbers where one is beyond {_GREATEST}"
        )


def _one_of(count: int) -> str:
    return f", one of {count} such nodes," if count > 1 else ""


def _may_overflow(node: ir.Node, sources: set[ir.Value]) -> bool:
    places = (0, 1) if node.op_type in _OF_TWO else (0,)
    if not all(_holds(input_at(node, place), sources) for place in places):
        return False
    exponent = constant_input(node, 1) if node.op_type == "Pow" else None
    return exponent is None or bool(np.max(exponent, initial=0) > 1)


def _numbers_of_any_size(model: Model) -> set[ir.Value]:
    """The inputs of integers of which nothing tells that they are small."""
    limits = index_limits(model)
    numbers = (
        value
        for value in model.graph.inputs
        if value.dtype in _NUMBER_TYPES and value.name not in limits and "mask" not in str(value.name).lower()
    )
    return {value for value in numbers if not value.is_initializer() and not _tells_places(value)}


def _tells_places(value: ir.Value) -> bool:
    """Whether something is looked up by an input's numbers, sized by them or compared with them, or they are flags."""
    seen = {value}
    left = [value]
    while left:
        for use in left.pop().uses():
            node = use.node
            if node.domain:
                continue
            if use.idx in _PLACES.get(node.op_type, ()) or (node.op_type == "Where" and use.idx == 0):
                return True
            if node.op_type not in _KEEPS and node.op_type not in _COMBINES:
                continue
            for output in node.outputs:
                if output.dtype is ir.DataType.BOOL:
                    return True
                if output not in seen:
                    seen.add(output)
                    left.append(output)
    return False


def _holds(value: ir.Value | None, sources: set[ir.Value]) -> bool:
    """Whether numbers of these inputs, or larger ones that are made of them, go into a value."""
    seen: set[ir.Value] = set()
    left = [value]
    while left:
        one = left.pop()
        if one is None or one in seen:
            continue
        seen.add(one)
        if one in sources:
            return True
        producer = one.producer()
        if producer is None or producer.domain:
            continue
        if producer.op_type in ("Add", "Concat", "Mul", "Sub", "Where"):
            left.extend(producer.inputs)
        elif producer.op_type in _KEEPS | _GROWS or producer.op_type in _OVERFLOWS:
            left.append(input_at(producer, 0))
    return False


def _factor(node: ir.Node) -> int:
    """The greatest magnitude of what a node multiplies integers by that come from an input; 0 where there is none."""
    if node.domain or node.op_type not in ("Mul", "BitShift"):
        return 0
    shifts = node.op_type == "BitShift"
    if shifts and node.attributes.get_string("direction", "LEFT") != "LEFT":
        return 0
    for place in (1,) if shifts else (0, 1):
        numbers = constant_input(node, place)
        if numbers is not None and numbers.dtype in _WIDE and numbers.size and _holds_inputs(node.inputs[1 - place]):
            most = max(map(abs, (int(numbers.min()), int(numbers.max()))))
            return (1 << min(most, 63)) if shifts else most
    return 0


def _holds_inputs(value: ir.Value | None) -> bool:
    """Whether numbers of the model's inputs go into a value, not their sizes alone."""
    seen: set[ir.Value] = set()
    left = [value]
    while left:
        one = left.pop()
        if one is None or one in seen:
            continue
        seen.add(one)
        producer = one.producer()
        if producer is None:
            if one.is_graph_input() and not one.is_initializer():
                return True
        elif producer.domain or producer.op_type not in _SIZES:
            left.extend(producer.inputs)
    return False
