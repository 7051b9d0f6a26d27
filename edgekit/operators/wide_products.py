"""Arithmetic of 64-bit integers that exceeds 32 bits, the only width in which some devices compute."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import onnx_ir as ir

from edgekit.data.limits import index_limits
from edgekit.graph.nodes import constant_input, input_at
from edgekit.graph.sizes.size_inputs import SIZES
from edgekit.graph.traversal import reached
from edgekit.model import Model, node_name

LEAST_FACTOR = 1 << 16
"""Smaller factors exceed 32 bits only with numbers beyond 32,767; computations of indices use such factors."""
_WIDE = (np.int64, np.uint64)
_WIDE_TYPES = frozenset({ir.DataType.INT64, ir.DataType.UINT64})
_NUMBER_TYPES = _WIDE_TYPES | {ir.DataType.INT32, ir.DataType.UINT32}
"""Types of numbers that may have any size; numbers of 16 bits and fewer are pictures, flags and codes."""
_GREATEST = int(np.iinfo(np.int32).max)
_SIZES = frozenset({"Shape", "Size"})
_KEEPS = frozenset({"Cast", "Concat", "Expand", "Flatten", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Tile"})
_KEEPS |= {"Transpose", "Unsqueeze"}
"""Operators that pass on numbers of their first input, or of all inputs (Concat)."""
_COMBINES = frozenset(
    {"Abs", "Add", "Clip", "CumSum", "Div", "Floor", "Gather", "Max", "Min", "Mul", "Neg", "ReduceMax"}
)
_COMBINES |= {"ReduceSum", "Sub", "Where"}
"""Operators used on indices and flags: if a result is looked up or compared, it is small, and so are its operands."""
_GROWS = frozenset({"CumSum", "Gather", "GatherElements", "GatherND", "Mul", "ReduceSum"})
"""Operators whose results are at least as large as the numbers of their first input."""
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
"""For each operator, the inputs with indices, lengths, or values compared with such, for example padding."""
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
"""Operators whose two factors both have to be numbers of any size to overflow."""


def wide_products(model: Model) -> list[str]:
    """Returns warnings if the graph's computations with an input's integers may exceed 32 bits.

    It multiplies them by large factors, as hashes do, or multiplies or adds up numbers of any size. A number counts as
    of any size if it is no index, length or flag: nothing is looked up, sized or compared by it, and its input's name
    does not contain "mask". Samples with small numbers do not reveal the overflow.

    Args:
        model: A model that a device will compute in 32 bits.
    """
    return [*_factors(model), *_of_any_size(model)]


def _factors(model: Model) -> Iterator[str]:
    found = [(node, factor) for node in model.graph.all_nodes() if (factor := _factor(node)) >= LEAST_FACTOR]
    if found:
        node, factor = max(found, key=lambda pair: pair[1])
        yield (
            f"node {node_name(node)!r}{_one_of(len(found))} multiplies 64-bit integers by {factor}: the device "
            f"computes in 32 bits, and gives other numbers if the other factor is beyond {_GREATEST // factor}"
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
    """Returns the integer inputs that nothing shows to be small."""
    limits = index_limits(model)
    numbers = (
        value
        for value in model.graph.inputs
        if value.dtype in _NUMBER_TYPES and value.name not in limits and "mask" not in str(value.name).lower()
    )
    return {value for value in numbers if not value.is_initializer() and not _tells_places(value)}


def _tells_places(value: ir.Value) -> bool:
    """Whether an input's numbers are used for lookups, sizes or comparisons, or are flags."""
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
    """Whether a value depends on numbers of the given inputs, or on larger numbers made from them."""

    def made_of(one: ir.Value) -> Iterable[ir.Value | None]:
        producer = one.producer()
        if producer is None or producer.domain:
            return ()
        if producer.op_type in ("Add", "Concat", "Mul", "Sub", "Where"):
            return producer.inputs
        moves = producer.op_type in _KEEPS | _GROWS or producer.op_type in _OVERFLOWS
        return (input_at(producer, 0),) if moves else ()

    return any(one in sources for one in reached([value], made_of))


def _factor(node: ir.Node) -> int:
    """Returns the greatest magnitude by which a node multiplies an input's integers, or 0 if it does not."""
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

    def made_of(one: ir.Value) -> Iterable[ir.Value | None]:
        producer = one.producer()
        return () if producer is None or (not producer.domain and producer.op_type in _SIZES) else producer.inputs

    return any(one.is_graph_input() and not one.is_initializer() for one in reached([value], made_of))
