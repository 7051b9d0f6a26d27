from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from edgekit_mil.core.mil import Function, ct, get_new_symbol, mb
from edgekit_mil.core.values import Value, constant
from edgekit_mil.support.symbolic_sizes import elements_of


def scalar_size(symbol, dtype=ir.DataType.INT64):
    """A size that a program computes, and the symbol that it stands for."""
    elements = np.array(symbol, object)
    with Function({"x": mb.placeholder(shape=(1,))}, ct.target.iOS18) as function:
        return Value(dtype, variable=function.inputs["x"], elements=elements)


@pytest.mark.parametrize(("op_type", "expected"), [("Mul", lambda n: n * 6), ("Add", lambda n: n + 6)])
def test_arithmetic_of_scalars_can_be_put_into_a_vector(op_type, expected):
    symbol = get_new_symbol()
    total = elements_of(op_type, [scalar_size(symbol), constant(np.array(6))], {})
    assert isinstance(total, np.ndarray)
    assert total.shape == ()
    assert total.item() == expected(symbol)


def test_gather_takes_from_the_first_axis_where_it_names_none():
    symbol = get_new_symbol()
    with Function({"x": mb.placeholder(shape=(2,))}, ct.target.iOS18) as function:
        sizes = Value(ir.DataType.INT64, variable=function.inputs["x"], elements=np.array([3, symbol], object))
    taken = elements_of("Gather", [sizes, constant(np.array(1))], {})
    assert taken is not None
    assert taken.item() is symbol


@pytest.mark.parametrize(
    "bounds", [{"inputs": [np.array([1]), np.array([2])]}, {"attributes": {"starts": (1,), "ends": (2,)}}]
)
def test_slice_takes_bounds_as_inputs_and_as_attributes_as_before_operator_set_10(bounds):
    symbol = get_new_symbol()
    with Function({"x": mb.placeholder(shape=(2,))}, ct.target.iOS18) as function:
        sizes = Value(ir.DataType.INT64, variable=function.inputs["x"], elements=np.array([3, symbol], object))
    inputs = [sizes, *map(constant, bounds.get("inputs", ()))]
    sliced = elements_of("Slice", inputs, bounds.get("attributes", {}))
    assert sliced is not None
    assert sliced.tolist() == [symbol]


@pytest.mark.parametrize(
    ("dtype", "size", "parts", "expected"),
    [
        (ir.DataType.INT64, 8, 4, 2),
        (ir.DataType.INT64, 8, 3, 2),
        (ir.DataType.INT64, 8, 0, None),
        (ir.DataType.INT64, -8, 3, None),
        (ir.DataType.FLOAT, 8, 4, 2),
        (ir.DataType.FLOAT, 8, 3, None),
    ],
)
def test_numbers_are_divided(dtype, size, parts, expected):
    """As the windows of Swin are counted; a rest is dropped by integers, and kept by floats."""
    quotient = elements_of("Div", [scalar_size(size, dtype), scalar_size(parts, dtype)], {})
    assert (None if quotient is None else quotient.item()) == expected


def test_an_open_size_goes_by_the_same_symbol_whenever_it_is_divided_by_the_same_number():
    symbol = get_new_symbol()
    divided = [elements_of("Div", [scalar_size(symbol), constant(np.array(parts))], {}) for parts in (4, 4, 3)]
    assert all(each is not None for each in divided)
    first, again, other = (each.item() for each in divided)
    assert first == again != other
    assert symbol not in (first.free_symbols | other.free_symbols)
    whole = elements_of("Div", [scalar_size(4 * symbol), constant(np.array(4))], {})
    assert whole is not None
    assert whole.item() == symbol


def test_open_sizes_are_not_divided_as_floats():
    assert elements_of("Div", [scalar_size(get_new_symbol(), ir.DataType.FLOAT), constant(np.array(4.0))], {}) is None
