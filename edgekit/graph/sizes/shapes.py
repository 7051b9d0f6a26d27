"""Works out the shapes inside a graph from those of its inputs."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from edgekit.errors import InputError
from edgekit.graph.folding import ELEMENTS, FoldingBudget, growth_allowed
from edgekit.graph.long_lists import leave_out_long_lists
from edgekit.graph.sizes.microsoft_shapes import microsoft_operators_known
from edgekit.graph.sizes.ml_shapes import ML_DOMAIN, fill_in
from edgekit.graph.sizes.pool_sizes import round_down, rounds_up
from edgekit.graph.sizes.reshape_ranks import fill_in_ranks
from edgekit.model import Model, values_of

SHAPE_ELEMENTS = 1024
"""The most elements of a tensor that counts as part of a shape's computation.

Shape inference sees its values, and folding may store it.
"""

_FOLDING_ROUNDS = 4
"""The most rounds of folding and inference. Folding makes shapes known, which allows more folding.

No model is known to need more rounds.
"""


_UNKNOWN_DOMAIN = "edgekit.untyped"
"""A domain that ONNX knows nothing of."""
_LONGEST_TEXT = 1000
"""The most characters of a library's error message that are kept: some messages print the whole graph."""


class ContradictionError(InputError):
    """The operators of a graph cannot take the shapes that they get."""


def infer_shapes(model: Model, *, strict: bool = True, with_microsoft: bool = True) -> Model:
    """Returns the model with shapes and types of all values as far as they can be inferred; the argument is unchanged.

    Args:
        model: The model.
        strict: Whether shapes that operators cannot accept are an error.
        with_microsoft: Whether to infer shapes of ``com.microsoft`` operators, which other readers of a file ignore.

    Raises:
        ContradictionError: With ``strict``, if an operator gets shapes that it cannot accept.
    """
    inferred = _inferred(model, strict=strict, with_microsoft=with_microsoft)
    for _ in range(_FOLDING_ROUNDS):
        found = fill_in_ranks(inferred.graph_model)
        if ML_DOMAIN in inferred.graph_model.opset_imports:
            found = fill_in(inferred.graph_model) or found
        if not found:
            break
        inferred = _inferred(inferred, strict=strict, with_microsoft=with_microsoft)
    return inferred


def _inferred(model: Model, *, strict: bool, with_microsoft: bool) -> Model:
    """Returns the model with the results of ONNX's inference; see :func:`infer_shapes`."""
    try:
        result = model.graph_model.clone()
        proto = light_proto(model)
        _hide_untyped_encoders(proto)
        with microsoft_operators_known(proto) if with_microsoft else nullcontext():
            while rounds_up(proto) and round_down(proto, _inferred_by_onnx(proto, strict=False)):
                pass  # a pool's output sizes are the next pool's input sizes
            inferred = _inferred_by_onnx(proto, strict=strict)
        inferred_model = ir.from_proto(inferred)
    except Exception as error:  # the errors of onnx and onnx_ir for graphs of unusual types have no common base
        cause: BaseException = error
        while cause.__cause__ is not None:  # onnx_ir wraps what it raises into errors that print the whole graph
            cause = cause.__cause__
        raise ContradictionError(" ".join(str(cause).split())[:_LONGEST_TEXT]) from error
    names = {dim.value for value in values_of(result) for dim in value.shape or () if isinstance(dim, ir.SymbolicDim)}
    for graph, inferred_graph in zip(result.graphs(), inferred_model.graphs(), strict=True):
        found = ir.convenience.create_value_mapping(inferred_graph)
        for name, value in ir.convenience.create_value_mapping(graph).items():
            if name not in found or value.is_initializer():
                continue
            shape, value_type = found[name].shape, found[name].type
            value.shape = value.shape if shape is None else _with_names(shape, names)
            value.type = value.type if value_type is None else value_type
    return model.with_graph(result)


def _hide_untyped_encoders(proto: onnx.ModelProto) -> None:
    """Hides label encoders whose input has no known type from ONNX's inference, in place.

    The inference reads the type without checking that there is one (onnx 1.23), which crashes the process.
    """
    if all(opset.domain != ML_DOMAIN for opset in proto.opset_import):
        return
    hidden = list(_untyped_encoders(proto.graph, frozenset()))
    for node in hidden:
        node.domain = _UNKNOWN_DOMAIN
    if hidden:
        proto.opset_import.append(onnx.helper.make_opsetid(_UNKNOWN_DOMAIN, 1))


def _untyped_encoders(graph: onnx.GraphProto, outside: frozenset[str]) -> Iterator[onnx.NodeProto]:
    infos = [*graph.input, *graph.value_info, *graph.output]
    typed = outside | {info.name for info in infos if info.type.WhichOneof("value")}
    typed |= {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        if node.domain == ML_DOMAIN and node.op_type == "LabelEncoder" and node.input[0] not in typed:
            yield node
        for attribute in node.attribute:
            yield from _untyped_encoders(attribute.g, typed)


def _inferred_by_onnx(proto: onnx.ModelProto, *, strict: bool) -> onnx.ModelProto:
    """Returns what ONNX infers, with data propagation for the numbers that sizes may depend on.

    Data propagation forgets the rank of numbers: it takes integers of shapes 2×1 and 200 for shapes that do not
    broadcast, which is an error with ``strict`` (onnx 1.23). An error that does not occur without data propagation is
    ignored.
    """
    try:
        return onnx.shape_inference.infer_shapes(proto, check_type=strict, strict_mode=strict, data_prop=True)
    except onnx.shape_inference.InferenceError:
        if not strict:
            raise
        try:
            onnx.shape_inference.infer_shapes(proto, check_type=True, strict_mode=True, data_prop=False)
        except onnx.shape_inference.InferenceError as error:
            raise error from None
        return onnx.shape_inference.infer_shapes(proto, data_prop=True)


def _with_names(shape: ir.Shape, names: Collection[str | None]) -> ir.Shape:
    """Returns the shape with the names that the inference invented replaced by unknown dimensions."""
    return ir.Shape([dim if isinstance(dim, int) or dim.value in names else None for dim in shape])


def fold_constants(graph_model: ir.Model, **limits: Any) -> bool:
    """Folds constants in place, without NumPy's warnings of divisions by zero and the like, which models contain.

    Args:
        graph_model: The model.
        limits: Options of onnxscript's ``fold_constants_ir``.

    Returns:
        Whether anything changed.
    """
    from onnxscript.optimizer import fold_constants_ir  # the import takes an eighth of a command's start time

    answered = _answer_known_sizes(graph_model) | _split_constants(graph_model)
    with np.errstate(all="ignore"), _without_misread_splits(graph_model):
        return bool(fold_constants_ir(graph_model, onnx_shape_inference=True, **limits)) or answered


@contextmanager
def _without_misread_splits(graph_model: ir.Model) -> Iterator[None]:
    """Keeps nodes from the folder for a time by naming an unknown domain: the SplitToSequence that it misreads."""
    opset = graph_model.opset_imports.get("", 0)
    for node in graph_model.graph.all_nodes():
        if node.op_type == "SplitToSequence" and not node.domain and _is_misread(node, opset):
            node.domain = _UNKNOWN_DOMAIN
    try:
        yield
    finally:
        for node in graph_model.graph.all_nodes():
            if node.domain == _UNKNOWN_DOMAIN:
                node.domain = ""


def _is_misread(split: ir.Node, opset: int) -> bool:
    """Whether onnxscript's folder (0.7) ends or is wrong at a SplitToSequence with lengths.

    It ends if a length for all parts is not constant, writes Splits of newer operator sets, and removes the axis
    although ``keepdims`` counts only without lengths.
    """
    lengths = split.inputs[1] if len(split.inputs) > 1 else None
    if lengths is None:
        return False
    tensor = ir.convenience.get_const_tensor(lengths)
    shape = lengths.shape if tensor is None else tensor.shape
    if opset < 13 or not split.attributes.get_int("keepdims", 1):
        return True
    return shape is None or (len(shape) != 1 and (tensor is None or opset < 18))


def _answer_known_sizes(graph_model: ir.Model) -> bool:
    """Turns known sizes that nodes read into constants, in place, even if other sizes of the tensor are open.

    onnxscript's folder (0.7) answers ``x.shape[1]`` only if all sizes of x are known.
    """
    answered = False
    for node in list(graph_model.graph.all_nodes()):
        sizes = _asked_sizes(node)
        graph = node.graph
        if sizes is None or graph is None or node.outputs[0].is_graph_output():
            continue
        _replace_by_constant(node.outputs[0], sizes, node, graph)
        graph.remove(node, safe=True)
        answered = True
    return answered


def _split_constants(graph_model: ir.Model) -> bool:
    """Turns the parts of a few constant integers that are split into constants, in place; returns whether any were.

    onnxscript's folder (0.7) leaves nodes of several outputs; tf2onnx splits paddings to put them in another order.
    """
    found = False
    for node in list(graph_model.graph.all_nodes()):
        parts, graph = _constant_parts(node), node.graph
        if parts is None or graph is None or any(output.is_graph_output() for output in node.outputs):
            continue
        for output, part in zip(node.outputs, parts, strict=True):
            _replace_by_constant(output, part, node, graph)
        graph.remove(node, safe=True)
        found = True
    return found


def _constant_parts(node: ir.Node) -> list[np.ndarray] | None:
    """Returns the parts that a Split makes of a few constant integers, or None for other nodes."""
    whole, asked, *_ = (*node.inputs, None, None)
    if node.op_type != "Split" or node.domain or whole is None or whole.is_graph_input():
        return None
    tensor = ir.convenience.get_const_tensor(whole)
    if tensor is None or tensor.size > SHAPE_ELEMENTS or tensor.dtype not in {ir.DataType.INT32, ir.DataType.INT64}:
        return None
    axis, count = node.attributes.get_int("axis", 0), len(node.outputs)
    sizes = list(node.attributes.get_ints("split", ()))
    if asked is not None:
        stated = ir.convenience.get_const_tensor(asked)
        if stated is None:
            return None
        sizes = stated.numpy().tolist()
    numbers = tensor.numpy()
    if not sizes:  # equal parts; the last one is smaller from operator set 18 on
        step = -(-numbers.shape[axis] // count)
        sizes = [step] * (count - 1)
    return np.split(numbers, np.cumsum(sizes)[: count - 1], axis)


def _replace_by_constant(value: ir.Value, numbers: np.ndarray, node: ir.Node, graph: ir.Graph) -> None:
    """Has a Constant ahead of a node give what one of its outputs gave."""
    attribute = ir.AttrTensor("value", ir.Tensor(numbers))
    constant = ir.Node("", "Constant", [], attributes=[attribute], name=f"{node.name}_known")
    graph.insert_before(node, constant)
    constant.outputs[0].type = ir.TensorType(ir.DataType.from_numpy(numbers.dtype))
    constant.outputs[0].shape = ir.Shape(numbers.shape)
    ir.convenience.replace_all_uses_with(value, constant.outputs[0])


def _asked_sizes(node: ir.Node) -> np.ndarray | None:
    """Returns the sizes that a Gather takes from a Shape, or None unless all of them are known."""
    read, place, *_ = (*node.inputs, None, None)
    if node.op_type != "Gather" or node.domain or read is None or place is None:
        return None
    asked = read.producer()
    places = ir.convenience.get_const_tensor(place)
    if asked is None or asked.op_type != "Shape" or asked.domain or asked.inputs[0] is None or places is None:
        return None
    shape = asked.inputs[0].shape
    if shape is None:
        return None
    dims = shape[asked.attributes.get_int("start", 0) : asked.attributes.get_int("end", len(shape))]
    numbers = places.numpy()
    if not np.all((-len(dims) <= numbers) & (numbers < len(dims))):
        return None
    taken = [dims[number] for number in numbers.reshape(-1).tolist()]
    known = [size for size in taken if isinstance(size, int)]
    return np.array(known, np.int64).reshape(numbers.shape) if len(known) == len(taken) else None


def fold_shapes(model: Model) -> Model:
    """Returns the model with its computations from known shapes folded to constants; the argument is unchanged.

    Only small tensors are folded, and smaller ones still if the model would grow too much.
    """
    *limits, last = ELEMENTS
    for most in limits:
        folded = _with_shapes_folded(model, most)
        if folded.weight_bytes - model.weight_bytes <= growth_allowed(model.weight_bytes):
            return folded
    return _with_shapes_folded(model, last)


def _with_shapes_folded(model: Model, most: int) -> Model:
    """Returns the model with tensors of up to ``most`` elements folded."""
    for _ in range(_FOLDING_ROUNDS):
        graph_model = model.graph_model.clone()
        changed = fold_constants(
            graph_model,
            input_size_limit=SHAPE_ELEMENTS,
            output_size_limit=most,
            should_fold=FoldingBudget(_should_fold),
        )
        RemoveUnusedNodesPass()(graph_model)
        if not changed and len(graph_model.graph) == len(model.graph):
            break
        model = infer_shapes(model.with_graph(graph_model), strict=False)
    return model


def _should_fold(node: ir.Node) -> bool | None:
    """Whether to fold a node whose inputs are constant; None leaves the decision to the folder.

    The folder keeps every ConstantOfShape so that the file does not grow; exporters compute paddings and axes with
    small ones.
    """
    if node.op_type != "ConstantOfShape" or node.domain or node.inputs[0] is None:
        return None
    shape = ir.convenience.get_const_tensor(node.inputs[0])
    return True if shape is not None and math.prod(shape.numpy().tolist()) <= SHAPE_ELEMENTS else None


def light_proto(model: Model, *, keeps_small_weights: bool = True) -> onnx.ModelProto:
    """Returns the model for readers of shapes but not of weights: large initializers become inputs.

    Long lists of trees' learned numbers are left out.

    Args:
        model: The model.
        keeps_small_weights: Whether small initializers of types other than int64, so no shapes, axes or indices, stay.
    """
    graph_model = model.graph_model.clone()
    leave_out_long_lists(graph_model)
    graph = graph_model.graph
    for name, value in list(graph.initializers.items()):
        tensor = value.const_value
        if tensor is None:
            continue
        if tensor.size <= SHAPE_ELEMENTS and (keeps_small_weights or tensor.dtype == ir.DataType.INT64):
            if isinstance(tensor, ir.ExternalTensor):
                value.const_value = ir.Tensor(tensor.numpy(), dtype=tensor.dtype, name=name)
            continue
        value.shape, value.dtype = ir.Shape(tensor.shape.numpy()), tensor.dtype
        value.const_value = None
        del graph.initializers[name]
        if not value.is_graph_input():  # before IR version 4 every initializer is a graph input
            graph.inputs.append(value)
    return ir.to_proto(graph_model)


def topology_digest(model: Model) -> str:
    """Returns a digest of the nodes, their connections, and small constants; the weights' values are left out."""
    return _digest(light_proto(model))


def operations_digest(model: Model) -> str:
    """Returns a digest of the nodes, their connections, and the types and shapes of the weights.

    Models with equal digests take equally long to run.
    """
    return _digest(light_proto(model, keeps_small_weights=False))


def _digest(proto: onnx.ModelProto) -> str:
    return hashlib.blake2b(proto.SerializeToString(deterministic=True), digest_size=16).hexdigest()
