"""Stores operands of products that depend on constants alone, and that OpenVINO would compute at run time, as numbers.

The CPU plugin (2026.4) lets the product transpose such an operand, but reads the operand in the order from before the
Transpose. Most operators are known to OpenVINO's constant folding, so that their results are constants by then;
``GatherElements`` and some others are not.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from edgekit_openvino.cores import new_core

PRODUCTS = ("Einsum", "MatMul")
TAKEN_APART = frozenset({"Constant", "Einsum", "Result"})
"""Operations that remain of an operand that folds completely; an Einsum becomes products, which fold as well."""


def store_operands(operation: Any, constants: Collection[str]) -> None:
    """Replaces the transposed operands of a product that the plugin would compute at run time by constants, in place.

    Args:
        operation: A ``MatMul`` or an ``Einsum`` of an ``openvino.Model``.
        constants: The names of the operations that depend on constants alone.
    """
    from openvino import opset13

    is_einsum = operation.get_type_name() == "Einsum"
    for place in range(operation.get_input_size()):
        value = operation.input_value(place)
        node = value.get_node()
        may_be_transposed = is_einsum or node.get_type_name() == "Transpose"
        if not may_be_transposed or node.get_name() not in constants or node.get_type_name() == "Constant":
            continue
        if not _is_folded(value):
            operation.input(place).replace_source_output(opset13.constant(_numbers(value)).output(0))


def _is_folded(value: Any) -> bool:
    from openvino import Model
    from openvino.passes import ConstantFolding, Manager

    alone = Model([value], []).clone()
    passes = Manager()
    passes.register_pass(ConstantFolding())
    passes.run_passes(alone)
    return all(each.get_type_name() in TAKEN_APART for each in alone.get_ops())


def _numbers(value: Any) -> np.ndarray:
    from openvino import Model

    options = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    compiled = new_core().compile_model(Model([value], []).clone(), "CPU", options)
    return np.array(compiled([])[0])
