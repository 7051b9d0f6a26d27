"""Sizes on their way from a Shape to a Reshape: vectors of numbers and of the symbols of open dimensions.

The program computes such a vector like any other tensor. In addition, the number or symbol for each element is tracked
here, so that tensors of the computed shapes keep the sizes that are numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from edgekit_mil.core.values import Value
from edgekit_mil.support.runtime_shapes import is_number, quotient

Elements = np.ndarray


def taken(x: Elements, indices: Elements, *, axis: int = 0) -> Elements:
    """Gather."""
    return np.asarray(np.take(x, indices.astype(np.int64), axis=axis), object)


def sliced(x: Elements, starts: Elements, ends: Elements, *more: Elements) -> Elements | None:
    """Slice of a vector, which has only one axis; None if the bounds are not numbers, or ``x`` is not a vector."""
    bounds = [*starts.reshape(-1), *ends.reshape(-1), *(more[1].reshape(-1) if len(more) > 1 else ())]
    if x.ndim != 1 or len(bounds) > 3 or not all(isinstance(bound, int | np.integer) for bound in bounds):
        return None
    return x[slice(*map(int, bounds))]


def joined(*xs: Elements, axis: int = 0) -> Elements:
    """Concat."""
    return np.concatenate(xs, axis)


def unsqueezed(x: Elements, *axes: Elements) -> Elements:
    """Unsqueeze of a scalar or a vector of one element."""
    return x.reshape(1)


def squeezed(x: Elements, *axes: Elements) -> Elements:
    """Squeeze of a vector of one element."""
    return x.reshape(())


def unchanged(x: Elements) -> Elements:
    """Identity, and Cast between integers."""
    return x


def divided(x: Elements, y: Elements) -> Elements | None:
    """Div of numbers without a remainder, which is the same for integers and floats; None for other operands."""
    numbers = [*x.reshape(-1), *y.reshape(-1)]
    if not all(map(is_number, numbers)) or not y.all() or np.any(x % y):
        return None
    return np.asarray(x // y, object)


def divided_integers(x: Elements, y: Elements) -> Elements | None:
    """Div of sizes, also open ones, by positive numbers, rounded down: for the number of windows of a fixed size."""
    if not all(is_number(number) and number > 0 for number in y.reshape(-1)):
        return None
    if any(is_number(number) and number < 0 for number in x.reshape(-1)):
        return None
    wide, by = np.broadcast_arrays(x, y)
    found = [quotient(*pair) for pair in zip(wide.reshape(-1), by.reshape(-1), strict=True)]
    return np.array(found, object).reshape(wide.shape)


def as_vector(x: Elements, shape: Elements) -> Elements | None:
    """Reshape to a vector; None for all other shapes."""
    return x.reshape(-1) if shape.shape == (1,) and (shape[0] == -1 or shape[0] == x.size) else None


RULES: dict[str, Callable[..., Elements | None]] = {
    "Cast": unchanged,
    "Concat": joined,
    "Gather": taken,
    "Add": np.add,
    "Div": divided,
    "Identity": unchanged,
    "Mul": np.multiply,
    "Reshape": as_vector,
    "Sub": np.subtract,
    "Slice": sliced,
    "Squeeze": squeezed,
    "Unsqueeze": unsqueezed,
}
TAKES_AXIS = frozenset({"Concat", "Gather"})
MOST_ELEMENTS = {"Squeeze": 1, "Unsqueeze": 1}


def elements_of(op_type: str, inputs: Sequence[Value | None], attributes: Mapping[str, Any]) -> Elements | None:
    """Returns each element of a node's result as a number or an open size; None if that is not known.

    Args:
        op_type: An operator of the standard domain.
        inputs: The node's inputs.
        attributes: Its attributes.
    """
    rule = RULES.get(op_type)
    if rule is None or not any(value is not None and value.elements is not None for value in inputs):
        return None
    known = [known_elements(value) for value in inputs if value is not None]
    if op_type == "Slice" and "starts" in attributes:  # before operator set 10
        known += [np.asarray(attributes[bound], object) for bound in ("starts", "ends")]
    if op_type == "Div" and inputs[0] is not None and inputs[0].dtype.is_integer():
        rule = divided_integers
    arrays = [array for array in known if array is not None]
    if len(arrays) < len(known) or arrays[0].size > MOST_ELEMENTS.get(op_type, arrays[0].size):
        return None
    keywords = {"axis": attributes.get("axis", 0)} if op_type in TAKES_AXIS else {}
    found = rule(*arrays, **keywords)
    return None if found is None else np.asarray(found, object)  # for two scalars NumPy returns a plain number


def known_elements(value: Value) -> Elements | None:
    """Returns the elements of a value as numbers or open sizes; None if they are not known."""
    return value.elements if value.constant is None else value.constant.astype(object)
