"""What rounding alone does to a model: numbers are moved to their neighbors, as by another order of additions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy as np
import onnx_ir as ir

from edgekit.graph.nodes import held_tensor
from edgekit.model import Arrays, Model

_MOVED = 0.5
"""The share of numbers that move by one unit in the last place: half a unit on average."""


PERTURBATIONS = 3
"""How often inputs and weights are moved, to see what rounding does."""

ROUNDING_FACTOR = 8.0
"""Another order of arithmetic may change a value by this factor times what the moved inputs and weights change."""

_EXACT = {"Resize", "Upsample", "Range", "NonMaxSuppression"}
"""Operators whose inputs after the first say how much to compute: these numbers are exact and are not moved."""


_LINEAR = {"LinearClassifier", "LinearRegressor", "SVMClassifier", "SVMRegressor"}
_IN_ATTRIBUTES = ("coefficients", "intercepts", "prob_a", "prob_b", "rho", "support_vectors")
"""Attributes in which the operators of :data:`_LINEAR`, of ``ai.onnx.ml``, hold factors and summands."""


def perturbed_inputs(arrays: Arrays, seed: int, *, whole_too: bool = False) -> Arrays:
    """The arrays, half of their floating-point numbers moved to the next one up or down.

    Args:
        arrays: Arrays by name; those that are not floating-point stay as they are.
        seed: Chooses the numbers and the directions.
        whole_too: Whether whole numbers and halves move as well, although they may be exact.
    """
    rng = np.random.default_rng([seed, 1])
    return {name: perturbed(array, rng, whole_too=whole_too) for name, array in arrays.items()}


def perturbed_weights(model: Model, seed: int) -> Model:
    """The model, half of the floating-point numbers among its weights moved to the next one up or down.

    Weights are initializers, Constant nodes, and the attributes of linear models and support vector machines.

    Args:
        model: It is not changed.
        seed: Chooses the numbers and the directions.
    """
    rng = np.random.default_rng([seed, 2])
    graph_model = model.graph_model.clone()
    exact = {
        value.name
        for node in graph_model.graph.all_nodes()
        if node.op_type in _EXACT
        for value in node.inputs[1:]
        if value is not None
    }
    for graph in graph_model.graphs():
        for value in graph.initializers.values():
            tensor = value.const_value
            if tensor is not None and tensor.dtype.is_floating_point() and value.name not in exact:
                value.const_value = ir.Tensor(perturbed(tensor.numpy(), rng), dtype=tensor.dtype, name=tensor.name)
    for node in graph_model.graph.all_nodes():
        for name in _IN_ATTRIBUTES if node.domain == "ai.onnx.ml" and node.op_type in _LINEAR else ():
            numbers = np.asarray(node.attributes.get_floats(name, ()), np.float32)
            if numbers.size:
                node.attributes.add(ir.AttrFloat32s(name, perturbed(numbers, rng).tolist()))
        if node.op_type != "Constant" or node.domain or node.outputs[0].name in exact:
            continue
        tensor = held_tensor(node.outputs[0])
        if tensor is not None and tensor.dtype.is_floating_point():
            node.attributes.clear()
            node.attributes.add(ir.AttrTensor("value", ir.Tensor(perturbed(tensor.numpy(), rng), dtype=tensor.dtype)))
    return model.with_graph(graph_model)


def with_values_moved(model: Model, names: Collection[str], seed: int) -> Model:
    """The model, which moves numbers of some values of its main graph up or down as it runs.

    Each number is moved by up to one epsilon of single precision, relative to itself, as two roundings may do.

    Args:
        model: It is not changed.
        names: The values; those that are not in single precision, and those that no node computes, stay as they are.
        seed: Chooses how far each number moves.
    """
    graph_model = model.graph_model.clone()
    graph = graph_model.graph
    made = [output for node in graph for output in node.outputs if output.name in names]
    for number, value in enumerate(each for each in made if each.dtype == ir.DataType.FLOAT):
        node, name = value.producer(), value.name
        assert node is not None
        epsilon, one = (
            ir.Value(name=f"{name}/{kind}", const_value=ir.tensor(np.float32(amount), name=f"{name}/{kind}"))
            for kind, amount in (("epsilon", np.finfo(np.float32).eps), ("one", 1))
        )
        for constant in (epsilon, one):
            graph.register_initializer(constant)
        drawing = {"low": -1.0, "high": 1.0, "seed": float(1 + seed * len(made) + number)}
        drawn = ir.node("RandomUniformLike", [value], drawing, name=f"{name}/drawn")
        share = ir.node("Mul", [drawn.outputs[0], epsilon], name=f"{name}/share")
        factor = ir.node("Add", [share.outputs[0], one], name=f"{name}/factor")
        moved = ir.node("Mul", [value, factor.outputs[0]], name=f"{name}/moved")
        ir.convenience.replace_all_uses_with(value, moved.outputs[0], replace_graph_outputs=True)
        drawn.replace_input_with(0, value)
        moved.replace_input_with(0, value)
        moved.outputs[0].name, value.name = name, f"{name}/exact"
        moved.outputs[0].shape, moved.outputs[0].type = value.shape, value.type
        graph.insert_after(node, [drawn, share, factor, moved])
    return model.with_graph(graph_model)


def perturbed(array: np.ndarray, rng: np.random.Generator, *, whole_too: bool = False) -> np.ndarray:
    """The array, half of its numbers moved to a neighbor; the array itself if it does not hold ``float16/32/64``.

    Args:
        array: The numbers.
        rng: Chooses the numbers and the directions.
        whole_too: Whether whole numbers and halves move as well, although they may be exact.
    """
    if array.dtype.kind != "f" or array.size == 0:
        return array
    draw = rng.random(array.shape, dtype=np.float32)
    goes_up = draw >= _MOVED / 2
    with np.errstate(over="ignore"):  # the greatest numbers of a type
        moves = (draw < _MOVED) & np.isfinite(array) & (whole_too | (2 * array != np.rint(2 * array)))
    return np.asarray(np.where(moves, _neighbours(array, goes_up), array))


def _neighbours(array: np.ndarray, goes_up: np.ndarray) -> np.ndarray:
    """The next number in a direction, as NumPy's ``nextafter`` gives it, in a fifth of its time.

    IEEE 754 orders numbers of a sign as the integers of their bits.
    """
    bits = np.ascontiguousarray(array).reshape(array.shape).view(f"i{array.itemsize}")
    grows = np.asarray(goes_up ^ (bits < 0))
    with np.errstate(over="ignore"):
        found = np.asarray(bits + (2 * grows.view(np.int8) - 1)).view(array.dtype)
    is_zero = array == 0
    if is_zero.any():
        direction = np.where(goes_up, np.inf, -np.inf).astype(array.dtype)
        found = np.where(is_zero, np.nextafter(np.zeros_like(array), direction), found)
    return found


def is_rounding(expected: Any, found: Any, perturbed: Iterable[Any], exact: Callable[[], Any] | None = None) -> bool:
    """Whether an output differs at most :data:`ROUNDING_FACTOR` times as much as perturbed ones, or the exact one, do.

    Args:
        expected: The output of the original.
        found: The output of the changed model.
        perturbed: Outputs of the original with inputs and weights moved to neighboring numbers; only as many are
            computed as are needed.
        exact: Returns the original's output in double precision, called if the perturbed outputs do not explain the
            difference. It only explains how far finite numbers differ, not at which places numbers are not finite.
    """
    if not isinstance(expected, np.ndarray) or not isinstance(found, np.ndarray) or expected.dtype != found.dtype:
        return False
    if expected.shape != found.shape:  # how many boxes are left, say
        return len(expected.shape) == len(found.shape) and any(other.shape != expected.shape for other in perturbed)
    flipped, error = _distances(expected, found)
    flips, errors = list[int](), list[float]()
    for other in perturbed:
        if other.shape != expected.shape:
            continue
        flip, moved = _distances(expected, other)
        flips.append(flip)
        errors.append(moved)
        if flipped <= ROUNDING_FACTOR * max(flips) and error <= ROUNDING_FACTOR * max(errors):
            return True
    if not flips or flipped > ROUNDING_FACTOR * max(flips) or exact is None or expected.dtype.kind != "f":
        return False
    in_doubles = exact()
    if not isinstance(in_doubles, np.ndarray) or in_doubles.shape != expected.shape:
        return False
    return error <= ROUNDING_FACTOR * _distances(expected, in_doubles)[1]


def _distances(expected: np.ndarray, other: np.ndarray) -> tuple[int, float]:
    """How many elements differ in being finite, and the largest difference of the elements that are finite in both.

    Of arrays that are not floating-point: how many elements differ, and 0.
    """
    if expected.dtype.kind not in "fc":
        return int(np.count_nonzero(expected != other)), 0.0
    finite = np.isfinite(expected) & np.isfinite(other)
    flipped = np.count_nonzero(~finite & ~((expected == other) | (np.isnan(expected) & np.isnan(other))))
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    return int(flipped), float(np.max(np.abs(expected[finite].astype(wide) - other[finite]), initial=0.0))
