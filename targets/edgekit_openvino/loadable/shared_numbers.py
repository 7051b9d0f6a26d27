"""Single numbers that several operations of a chain of matrix products read, which OpenVINO's CPU plugin refuses.

Where elementwise operators follow two products of matrices in one kernel (see
:mod:`edgekit_openvino.loadable.matrix_chains`) and read one constant of the shape 1×1, compiling ends with "All
consumers of a Scalar expression are expected to have the same loop IDs" (OpenVINO 2026.4.1). A constant for each
compiles, and so does one with fewer axes.
"""

from __future__ import annotations

from typing import Any

from edgekit_openvino.loadable.matrix_chains import JOINS, MOST_AXES


def part_shared_numbers(network: Any) -> None:
    """Gives each operation that reads a shared constant of the shape 1×1 a constant of its own, in place.

    Args:
        network: The ``openvino.Model``.
    """
    from openvino import opset13

    read: set[str] = set()
    for operation in network.get_ordered_ops():
        if operation.get_type_name() not in JOINS:
            continue
        for port in operation.inputs():
            constant = port.get_source_output().get_node()
            if constant.get_type_name() != "Constant" or list(constant.get_output_shape(0)) != [1] * MOST_AXES:
                continue
            if constant.get_name() in read:
                copy = opset13.constant(constant.get_data(), constant.get_element_type())
                port.replace_source_output(copy.output(0))
            read.add(constant.get_name())
