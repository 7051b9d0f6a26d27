"""Ends chains of matrix products where OpenVINO's CPU plugin would end the process, or compute zeros.

The plugin makes one kernel of products of matrices that follow each other, with the elementwise operations between
and behind them. Compiling ends with a segmentation fault if an elementwise operation behind the last product reads
a further tensor that such an operation computes (seen in OpenVINO 2026.4.1): ``h + mlp(h)`` behind ``h = Relu(x)``,
``mlp(x) - x``, a gate; for one row on one thread, for several rows on several threads.
Where products of integers follow each other, the kernel gives zeros, or 1e9, on processors with VNNI or AMX: mostly
where nothing is added to the first, and with a bias where a further factor follows it, either one scale for all or one
per channel. Chains hold tensors of at most two axes, so that a third axis ends them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOST_AXES = 2
"""The largest number of axes of a tensor in a chain."""
PRODUCT = "MatMul"
ROUNDS = "FakeQuantize"
LEAST_PRODUCTS = 2
"""The least number of consecutive matrix products of which the plugin makes one kernel."""
JOINS = frozenset(
    {
        "Add",
        "Divide",
        "Equal",
        "FloorMod",
        "Greater",
        "GreaterEqual",
        "Less",
        "LessEqual",
        "Maximum",
        "Minimum",
        "Mod",
        "Multiply",
        "NotEqual",
        "Power",
        "Select",
        "SquaredDifference",
        "Subtract",
    }
)
"""Elementwise operations on several tensors, whose shapes are broadcast as in NumPy."""
UNARY = frozenset(
    {
        "Abs",
        "Ceiling",
        "Clamp",
        "Convert",
        "Elu",
        "Erf",
        "Exp",
        "FakeQuantize",
        "Floor",
        "Gelu",
        "HSigmoid",
        "HSwish",
        "HardSigmoid",
        "Log",
        "Mish",
        "Negative",
        "PRelu",
        "ReLU",
        "Relu",
        "Round",
        "Selu",
        "Sigmoid",
        "Sign",
        "SoftPlus",
        "SoftSign",
        "Softmax",
        "Sqrt",
        "Swish",
        "Tanh",
    }
)
"""Further operations that may be part of a chain."""
WIDENING = frozenset({"Convert", "Multiply", "Subtract"})
"""Operations that turn stored integers into floats."""
REWRITTEN = frozenset({"Divide", "Subtract"})
"""Operations whose second operand the plugin replaces (by its reciprocal, its negative), even an input of the model."""


def end_chains(network: Any) -> list[str]:
    """Adds an axis to the operations at which chains have to end, in place; values and their names stay.

    Args:
        network: The ``openvino.Model``.

    Returns:
        The names of these operations.
    """
    lengths: dict[str, int] = {}
    found: dict[str, tuple[Any, list[Any]]] = {}
    for operation in network.get_ordered_ops():
        lengths[operation.get_name()] = _chain_length(operation, lengths)
        chained = [port for port in operation.inputs() if _length_before(port, lengths) >= LEAST_PRODUCTS]
        joins = operation.get_type_name() in JOINS and _reads_computed(operation, chained)
        roundings = _roundings_before(operation, lengths) if operation.get_type_name() == PRODUCT else []
        for each, ports in [(operation, chained)] * joins + [(each, each.inputs()[:1]) for each in roundings]:
            if _has_known_axes(each):
                found.setdefault(each.get_name(), (each, ports))
    for operation, ports in found.values():  # after all are found, since operations put between would hide later ones
        _give_an_axis(operation, ports)
    network.validate_nodes_and_infer_types()
    return [operation.get_friendly_name() for operation, _ in found.values()]


def _chain_length(operation: Any, lengths: Mapping[str, int]) -> int:
    """Returns how many consecutive matrix products lead to the result of an operation; 0 if it is in no chain.

    Args:
        operation: The operation.
        lengths: The chain lengths of the operations before it, by their names.
    """
    axes = operation.output(0).get_partial_shape().rank if operation.get_output_size() else None
    if axes is None or axes.is_dynamic or axes.get_length() > MOST_AXES:
        return 0
    if operation.get_type_name() == PRODUCT:
        return 1 + _length_before(operation.input(0), lengths)
    if operation.get_type_name() in JOINS | UNARY:
        return max(_length_before(port, lengths) for port in operation.inputs())
    return 0


def _length_before(port: Any, lengths: Mapping[str, int]) -> int:
    """The length of the chain that an input reads."""
    return lengths.get(port.get_source_output().get_node().get_name(), 0)


def _roundings_before(product: Any, lengths: Mapping[str, int]) -> list[Any]:
    """Returns the operations that round to integers between a product and the products before it in its chain."""
    found, seen = [], set()
    waiting = [product.inputs()[0]]
    while waiting:
        port = waiting.pop()
        node = port.get_source_output().get_node()
        if not _length_before(port, lengths) or node.get_type_name() == PRODUCT or node.get_name() in seen:
            continue
        seen.add(node.get_name())
        if node.get_type_name() == ROUNDS:
            found.append(node)
        waiting += node.inputs()
    return found


def _reads_computed(operation: Any, chained: list[Any]) -> bool:
    """Whether an operation reads, besides the end of a chain, a value that is neither stored nor an unchanged input."""
    stored = {"Constant"} if operation.get_type_name() in REWRITTEN else {"Constant", "Parameter", "ReadValue"}
    computed = {
        port.get_index()
        for port in operation.inputs()
        if _widened(port.get_source_output().get_node()).get_type_name() not in stored
    }
    return any(computed - {port.get_index()} for port in chained)


def _widened(node: Any) -> Any:
    """Returns the constant that operations widen and scale, such as a rounding's zero point; any other node itself.

    A quantized bias is such a constant: with an added axis it ends the process, because OpenVINO moves it past that.
    """
    source = node
    while source.get_type_name() in WIDENING and all(
        _widened(other.get_node()).get_type_name() == "Constant" for other in source.input_values()[1:]
    ):
        source = source.input_value(0).get_node()
    return source if source.get_type_name() == "Constant" else node


def _has_known_axes(operation: Any) -> bool:
    return all(value.get_partial_shape().rank.is_static for value in operation.input_values())


def _give_an_axis(operation: Any, chained: list[Any]) -> None:
    """Makes an operation compute with a further axis in front; drops it behind, unless the result had it before."""
    from openvino import opset13

    front = opset13.constant(0)
    result = operation.output(0)
    before = result.get_partial_shape().rank.get_length()
    readers, names = result.get_target_inputs(), result.get_tensor().get_names()
    for port in chained:
        value = port.get_source_output()
        missing = MOST_AXES + 1 - value.get_partial_shape().rank.get_length()
        port.replace_source_output(opset13.unsqueeze(value, opset13.constant(list(range(missing)))).output(0))
    operation.constructor_validate_and_infer_types()
    added = result.get_partial_shape().rank.get_length() - before
    for _ in range(added):
        result = opset13.squeeze(result, front).output(0)
    operation.output(0).get_tensor().set_names(set())
    for reader in readers:
        reader.replace_source_output(result)
    result.get_tensor().set_names(names)
