"""ONNX to OpenVINO's own representation, with the names that the ONNX model gives its inputs and outputs."""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from edgekit.errors import InputError, InternalError, UnsupportedOpsError
from edgekit.model import Model, node_name
from edgekit_openvino.exact.corrections import corrected
from edgekit_openvino.exact.missing_values import keep_missing_values
from edgekit_openvino.exact.open_branches import keep_open_branches_apart
from edgekit_openvino.exact.quantized.four_bits import store_in_8_bits_where_misread
from edgekit_openvino.exact.quantized.softmax_products import widen_behind_softmax
from edgekit_openvino.exact.rounding import keep_activations
from edgekit_openvino.loadable.concatenations import round_ahead_of_concats
from edgekit_openvino.loadable.constant_bytes import with_constants_as_bytes
from edgekit_openvino.loadable.element_types import border_gaps, inner_gaps
from edgekit_openvino.loadable.empty_constants import put_back_empty_constants, with_empty_factors_as_inputs
from edgekit_openvino.loadable.equal_shapes import let_extremes_broadcast
from edgekit_openvino.loadable.expansion import expanded
from edgekit_openvino.loadable.matrix_chains import end_chains
from edgekit_openvino.loadable.read_outputs import named_apart
from edgekit_openvino.loadable.refused import refused_nodes
from edgekit_openvino.loadable.single_precision import in_single_precision
from edgekit_openvino.loadable.stored_operands import give_stored_operands_all_axes
from edgekit_openvino.loadable.stored_weights import widen_where_not_loadable
from edgekit_openvino.loadable.untyped_limits import without_missing_limits
from edgekit_openvino.misread import misread_nodes
from edgekit_openvino.misread.shapes import misshapen_nodes
from edgekit_openvino.misread.uncomputed import nodes_with_missing_results, nodes_with_uncomputed_outputs
from edgekit_openvino.quick.activations import fuse_hard_sigmoids
from edgekit_openvino.quick.integer_products import keep_weights_of_integer_products
from edgekit_openvino.quick.loop_weights import widen_ahead_of_loops
from edgekit_openvino.quick.upright_convolutions import lay_down_convolutions
from edgekit_openvino.report import gaps_in, last_line


@dataclass(frozen=True)
class Conversion:
    """A model that was converted to OpenVINO."""

    network: Any
    """The ``openvino.Model``."""
    expanded: tuple[str, ...] = ()
    """Operators that were replaced by their definitions first, since OpenVINO does not convert them right."""
    widened: tuple[str, ...] = ()
    """Convolutions whose weights are stored as floats, since OpenVINO does not load them as integers."""
    integer_products: tuple[str, ...] = ()
    """Products of integers that are computed in floats, with weights that stay stored in 8 bits."""


def convert_model(model: Model, *, compare_shapes: bool = True) -> Conversion:
    """Converts an ONNX model to an OpenVINO network that computes the same.

    Its inputs and outputs are the ONNX model's, in the same order and under the same names; an input that nothing uses
    stays.

    Args:
        model: The ONNX model.
        compare_shapes: Whether inner shapes are compared with the ONNX standard's; not needed if outputs will be.

    Raises:
        edgekit.errors.UnsupportedOpsError: OpenVINO cannot convert some operators; all of them are listed.
        edgekit.errors.InputError: OpenVINO cannot read the model.
    """
    try:
        read = _read_right(model, compare_shapes=compare_shapes)
        return _loadable(_with_the_borders_of(model, read))
    except UnsupportedOpsError as error:
        simpler = expanded(model, error.ops)
        if simpler is None:
            raise
        try:
            network = _read_right(simpler, compare_shapes=compare_shapes)
        except UnsupportedOpsError:
            raise error from None  # the gaps of the model as it was given
        return _loadable(_with_the_borders_of(model, network), tuple(error.ops))


def read_by_openvino(model: Model) -> Conversion | None:
    """Returns what OpenVINO makes of the ONNX file without corrections, or None if it refuses or misreads the file.

    Its optimizations can make other numbers of this network than of the one that
    :mod:`edgekit_openvino.exact.corrections` changed: a maximum that is followed by the Select that keeps it infinite
    was right, and the maximum without the Select was wrong.
    """
    if border_gaps(model) or misread_nodes(model):
        return None
    try:
        return Conversion(_with_the_borders_of(model, _read_plainly(model)))
    except (UnsupportedOpsError, InputError):
        return None


def _loadable(network: Any, expanded_ops: tuple[str, ...] = ()) -> Conversion:
    fuse_hard_sigmoids(network)
    keep_missing_values(network)
    round_ahead_of_concats(network)
    end_chains(network)
    give_stored_operands_all_axes(network)
    widen_behind_softmax(network)
    store_in_8_bits_where_misread(network)
    let_extremes_broadcast(network)
    integer_products = keep_weights_of_integer_products(network)
    if integer_products:
        keep_activations(network)  # the model rounds them by itself
    widened = widen_where_not_loadable(network)
    widen_ahead_of_loops(network)
    lay_down_convolutions(network)
    keep_open_branches_apart(network)
    return Conversion(network, expanded_ops, tuple(widened), tuple(integer_products))


def _with_the_borders_of(model: Model, read: Any) -> Any:
    """The network with inputs and outputs in the ONNX model's order and under its names."""
    import openvino

    parameters, results = _parameters(read, model), _results(read)
    network = openvino.Model(results, read.get_sinks(), parameters, model.graph.name or model.name)
    if model.open_dims:
        _set_bounds(network, model)
    for port, value in zip((*network.inputs, *network.outputs), (*model.inputs, *model.outputs), strict=True):
        port.get_node().set_friendly_name(value.name)
        port.get_tensor().set_names({value.name})
    return network


def _set_bounds(network: Any, model: Model) -> None:
    """Gives open dimensions their least and their greatest size; OpenVINO's shapes cannot list sizes in between."""
    from openvino import Dimension, PartialShape

    bounds = {name: Dimension(min(sizes), max(sizes)) for name, sizes in model.open_dims.items()}
    shapes = {
        position: PartialShape(
            [
                bounds.get(dim, Dimension()) if isinstance(dim, str) else Dimension() if dim is None else Dimension(dim)
                for dim in value.shape or ()
            ]
        )
        for position, value in enumerate(model.inputs)
    }
    try:
        network.reshape(shapes)
    except RuntimeError as error:
        raise InputError(
            f"OpenVINO cannot leave the dimensions open: {last_line(error)}",
            subject=model.name,
            hint="fix them with --dim NAME=SIZE",
        ) from error


def _read_right(model: Model, *, compare_shapes: bool) -> Any:
    """Returns the frontend's network for the model; raises if a node is refused, misread or has a wrong shape."""
    gaps = [*border_gaps(model), *misread_nodes(model), *refused_nodes(model)]
    try:
        converted = _read(_without(model, {gap.node for gap in gaps}) if gaps else model)
    except UnsupportedOpsError as error:
        raise UnsupportedOpsError([*gaps, *error.gaps], subject=model.name) from error
    gaps = gaps or nodes_with_uncomputed_outputs(converted, model)
    gaps = gaps or (misshapen_nodes(converted, model) if compare_shapes else [])
    if gaps:
        raise UnsupportedOpsError(gaps, subject=model.name)
    return converted


def _without(model: Model, names: Collection[str]) -> Model:
    """Returns the model without the named nodes, with new inputs in the place of their outputs.

    The outputs of a node that OpenVINO misreads have other shapes than their readers expect: the frontend then refuses
    readers that are in order, and has crashed at them.
    """
    graph_model = model.graph_model.clone()
    graph = graph_model.graph
    for node in [node for node in graph if node_name(node) in names]:
        for value in node.outputs:
            if not value.uses() and not value.is_graph_output():
                continue  # such as the outputs that are left out, which have no names
            stand_in = ir.Value(name=f"edgekit/given/{value.name}", shape=value.shape, type=value.type)
            ir.convenience.replace_all_uses_with(value, stand_in, replace_graph_outputs=True)
            graph.inputs.append(stand_in)
        graph.remove(node, safe=True)
    return model.with_graph(graph_model)


def _read(model: Model) -> Any:
    """Returns the frontend's network for the model, with corrections."""
    network = _read_plainly(model)
    put_back_empty_constants(network, model)
    return corrected(network, model.opset)


def _read_plainly(model: Model) -> Any:
    """Returns the frontend's network for the model, without corrections."""
    from edgekit_openvino.loadable.own_nodes import core

    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "model.onnx"
        stored = with_empty_factors_as_inputs(with_constants_as_bytes(in_single_precision(model)))
        saved = named_apart(without_missing_limits(stored))
        saved.save(source)
        try:
            return core().read_model(source)
        except RuntimeError as error:
            gaps = gaps_in(str(error), saved.graph_model) or inner_gaps(model, last_line(error))
            gaps = gaps or nodes_with_missing_results(str(error), model)
            if gaps:
                raise UnsupportedOpsError(gaps, subject=model.name) from error
            raise InputError(f"OpenVINO cannot convert the model: {last_line(error)}", subject=model.name) from error


def _parameters(converted: Any, model: Model) -> list[Any]:
    """An input for each of the ONNX model's, in their order: new ones for those that the frontend dropped as unused."""
    from openvino import PartialShape, opset13

    kept = _kept_inputs(converted, model)
    parameters = []
    for value in model.inputs:
        shape = PartialShape([dim if isinstance(dim, int) else -1 for dim in value.shape or ()])
        parameters.append(kept.get(value.name) or opset13.parameter(shape, np.dtype(value.dtype)))
    return parameters


def _kept_inputs(converted: Any, model: Model) -> dict[str, Any]:
    """The frontend's input for each of the ONNX model's that it kept.

    The frontend keeps the order. An input that an operator only passes on bears the name of what it becomes.
    """
    parameters = converted.get_parameters()
    names = [value.name for value in model.inputs]
    if len(parameters) == len(names):
        return dict(zip(names, parameters, strict=True))
    kept = {name: p for p in parameters for name in names if name in (p.get_friendly_name(), *p.output(0).names)}
    renamed = [parameter for parameter in parameters if parameter not in kept.values()]
    used = _used_values(model.graph)
    candidates = [name for name in names if name not in kept and name in used]
    if renamed and len(renamed) != len(candidates):
        raise InternalError(
            "which inputs OpenVINO dropped cannot be told",
            subject=model.name,
            expected=names,
            found=[parameter.get_friendly_name() for parameter in parameters],
        )
    return kept | dict(zip(candidates, renamed, strict=False))


def _used_values(graph: ir.Graph) -> set[str | None]:
    """Names of the values that a node reads or the graph returns."""
    read = {value.name for node in graph.all_nodes() for value in node.inputs if value is not None}
    return read | {value.name for value in graph.outputs}


def _results(converted: Any) -> list[Any]:
    """Returns the outputs, with a copy for each that would be the same value as an input or an output before it.

    A value has one set of names, so it cannot have the names of both.
    """
    from openvino import opset13, opset16

    taken = {(parameter.get_name(), 0) for parameter in converted.get_parameters()}
    results = []
    for result in converted.get_results():
        source = result.input_value(0)
        value = (source.get_node().get_name(), source.get_index())
        results.append(opset13.result(opset16.identity(source).output(0)) if value in taken else result)
        taken.add(value)
    return results
