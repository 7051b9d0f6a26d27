"""Activation functions in the form that OpenVINO's CPU plugin computes inside of the layer before them.

The plugin fuses ``HSwish`` and ``HSigmoid`` into convolutions, and runs ``HardSigmoid``, which ONNX models have in
their place, as an operation of its own: a MobileNetV3 takes 1.6 times as long with it. Measured on OpenVINO 2026.4;
OpenVINO's own transformations find the two in Clamp, Add and Divide, and not in ``HardSigmoid``.
"""

from __future__ import annotations

import math
from typing import Any

ALPHA, BETA = 1 / 6, 0.5
"""The slope and the shift with which HardSigmoid is ``clamp(x + 3, 0, 6) / 6``."""
SLOPE_TOLERANCE = 1e-5
"""Relative; exporters write a sixth with 6 to 17 digits."""


def fuse_hard_sigmoids(network: Any) -> int:
    """Writes ``x * HardSigmoid(x)`` as HSwish and other HardSigmoids as HSigmoid, in place, in bodies too.

    Only those with a slope of 1/6 and a shift of 0.5 (Howard et al., Searching for MobileNetV3, ICCV 2019, section
    5.2); values keep their names.

    Args:
        network: An ``openvino.Model``.

    Returns:
        The number of HardSigmoids that were replaced.
    """
    from openvino import opset5

    count = 0
    for operation in network.get_ordered_ops():
        kind = operation.get_type_name()
        if kind == "If":
            count += fuse_hard_sigmoids(operation.get_then_body()) + fuse_hard_sigmoids(operation.get_else_body())
        elif kind in ("Loop", "TensorIterator"):
            count += fuse_hard_sigmoids(operation.get_function())
        if kind != "HardSigmoid" or not _is_of_a_sixth(operation):
            continue
        count += 1
        data, gate = operation.input_value(0), operation.output(0)
        for reader in [port.get_node() for port in gate.get_target_inputs()]:
            if _is_product_of(reader, data, gate):
                _replace(reader, opset5.hswish(data))
        if gate.get_target_inputs():
            _replace(operation, opset5.hsigmoid(data))
    if count:
        network.validate_nodes_and_infer_types()
    return count


def _is_of_a_sixth(operation: Any) -> bool:
    numbers = [operation.input_value(place).get_node() for place in (1, 2)]
    if any(number.get_type_name() != "Constant" for number in numbers):
        return False
    alpha, beta = (float(number.get_data().reshape(-1)[0]) for number in numbers)
    return math.isclose(alpha, ALPHA, rel_tol=SLOPE_TOLERANCE) and beta == BETA


def _is_product_of(operation: Any, data: Any, gate: Any) -> bool:
    """Whether an operation is the product of exactly ``data`` and ``gate``."""
    if operation.get_type_name() != "Multiply":
        return False
    first, second = operation.input_value(0), operation.input_value(1)
    return bool((first == data and second == gate) or (first == gate and second == data))


def _replace(operation: Any, by: Any) -> None:
    """Puts ``by`` in the operation's place, under its name and those of its value."""
    old, new = operation.output(0), by.output(0)
    names, name = old.get_tensor().get_names(), operation.get_friendly_name()
    old.get_tensor().set_names(set())
    operation.set_friendly_name(f"{name}/replaced")
    by.set_friendly_name(name)
    for reader in old.get_target_inputs():
        reader.replace_source_output(new)
    new.get_tensor().set_names(names)
