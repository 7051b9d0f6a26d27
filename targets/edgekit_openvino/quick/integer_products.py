"""Products of 8-bit integers (MatMulInteger), whose weights the CPU plugin would widen to four bytes each.

The frontend converts MatMulInteger to a product of int32. The plugin computes it in float32, with weights that it has
widened: a product of few rows waits for its weights to be read. Weights with a scale, in a product of floats, the
plugin keeps in 8 bits in memory, and widens them as it multiplies.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from edgekit_openvino.networks import operations_of

STORED = ("i8", "u8")
SCALE = np.float32(2.0**-7)
"""Weights are multiplied, and sums divided, by this: the plugin looks for a scale, and a power of two is exact."""


def keep_weights_of_integer_products(network: Any) -> list[str]:
    """Turns products of int32 whose weights are constants of 8 bits into products of floats, in place.

    The sums are those that the plugin computes anyway, since it has no product of int32.

    Args:
        network: The ``openvino.Model``.

    Returns:
        The products, by name.
    """
    products = [
        product
        for product in operations_of(network, "MatMul")
        if product.get_output_element_type(0).get_type_name() == "i32"
    ]
    return [product.get_friendly_name() for product in products if _multiplied_in_floats(product)]


def _multiplied_in_floats(product: Any) -> bool:
    """Replaces a product of int32 by one of floats; returns False if the weights are not constants of 8 bits."""
    from openvino import opset13

    stored, zero_point = _integers(product.input_value(1))
    if not (_is_constant(stored) and stored.get_element_type().get_type_name() in STORED):
        return False
    if len(stored.get_shape()) != 2 or not (zero_point is None or _is_constant(zero_point)):
        return False
    shape = [1, 1]
    columns = 0 if product.get_attributes()["transpose_b"] else 1
    shape[columns] = stored.get_shape()[columns]
    weights = _as_floats(stored, zero_point if zero_point is not None and np.any(_numbers(zero_point)) else None)
    scaled = opset13.multiply(weights, np.full(shape, SCALE))
    activations = _as_floats(*_integers(product.input_value(0)))
    attributes = product.get_attributes()
    sums = opset13.matmul(activations, scaled, attributes["transpose_a"], attributes["transpose_b"])
    sums.set_friendly_name(product.get_friendly_name())
    whole = opset13.multiply(sums, np.float32(1 / SCALE))
    for reader in [port.get_node() for port in product.output(0).get_target_inputs()]:
        if reader.get_type_name() == "Convert" and reader.get_output_element_type(0).get_type_name() == "f32":
            _replace(reader, whole)
    if product.output(0).get_target_inputs():
        _replace(product, opset13.convert(whole, "i32"))
    return True


def _integers(factor: Any) -> tuple[Any, Any]:
    """Returns a factor of a product of int32 before it was widened, and the zero point subtracted from it, or None."""
    node = factor.get_node()
    if node.get_type_name() != "Subtract":
        return _narrow(factor), None
    return _narrow(node.input_value(0)), _narrow(node.input_value(1))


def _narrow(value: Any) -> Any:
    node = value.get_node()
    return node.input_value(0) if node.get_type_name() == "Convert" else value


def _is_constant(value: Any) -> bool:
    return bool(value.get_node().get_type_name() == "Constant")


def _numbers(constant: Any) -> np.ndarray:
    return np.asarray(constant.get_node().get_data())


def _as_floats(integers: Any, zero_point: Any) -> Any:
    from openvino import opset13

    wide = opset13.convert(integers, "f32")
    return wide if zero_point is None else opset13.subtract(wide, opset13.convert(zero_point, "f32"))


def _replace(node: Any, by: Any) -> None:
    """Redirects readers of a node to another node, whose output also gets the names of the first."""
    by.output(0).get_tensor().add_names(node.output(0).get_names())
    for port in node.output(0).get_target_inputs():
        port.replace_source_output(by.output(0))
