"""Sparse initializers and constants (ONNX's ``SparseTensorProto``), as in pruned models, become dense.

The code that reads graphs supports dense tensors only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx

from edgekit.errors import InputError
from edgekit.graph.reading.subgraphs import graphs_of, nodes_inside, written_nodes

MOST_BYTES = 1 << 30
"""The most bytes of a dense tensor: a file of a few bytes may describe a tensor of any size."""


def write_dense(proto: onnx.ModelProto, path: Path) -> bool:
    """Makes sparse tensors dense, in place.

    Args:
        proto: The model.
        path: The model's file, for error messages.

    Returns:
        Whether there was a sparse tensor.

    Raises:
        InputError: A tensor has its values in another file, is too large when dense, or has indices outside its shape.
    """
    found = False
    for graph in _graphs(proto):
        graph.initializer.extend(_dense(sparse, sparse.values.name, path) for sparse in graph.sparse_initializer)
        found |= bool(graph.sparse_initializer)
        del graph.sparse_initializer[:]
    for node in nodes_inside(written_nodes(proto)):
        for attribute in node.attribute:
            if attribute.name == "sparse_value" and attribute.HasField("sparse_tensor"):
                dense = _dense(attribute.sparse_tensor, ", ".join(node.output), path)
                attribute.CopyFrom(onnx.helper.make_attribute("value", dense))
                found = True
    return found


def _graphs(proto: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    yield proto.graph
    for node in nodes_inside(written_nodes(proto)):
        yield from graphs_of(node)


def _dense(sparse: onnx.SparseTensorProto, name: str, path: Path) -> onnx.TensorProto:
    if onnx.TensorProto.EXTERNAL in (sparse.values.data_location, sparse.indices.data_location):
        raise InputError(
            f"sparse tensor {name!r} has its values in another file",
            subject=path,
            hint="export the model with dense weights, or with all of it in one file",
        )
    shape = tuple(sparse.dims)
    values, places = onnx.numpy_helper.to_array(sparse.values), onnx.numpy_helper.to_array(sparse.indices)
    elements = math.prod(shape)
    if elements * values.itemsize > MOST_BYTES:
        raise InputError(
            f"sparse tensor {name!r} is too large when it is dense",
            subject=path,
            expected=f"{MOST_BYTES} bytes at most",
            found=f"{elements * values.itemsize} bytes, {values.size} values",
        )
    if places.ndim > 1 and places.shape == (values.size, len(shape)) and (places >= 0).all() and (places < shape).all():
        places = np.ravel_multi_index(tuple(places.T), shape)
    if places.shape != (values.size,) or not ((places >= 0) & (places < elements)).all():
        raise InputError(
            f"sparse tensor {name!r} has values outside of it",
            subject=path,
            expected=f"{values.size} places in {'×'.join(map(str, shape))}",
            found=f"{places.dtype.name} of shape {list(places.shape)}",
            hint="export the model again",
        )
    dense = np.zeros(elements, values.dtype)
    dense[places] = values.reshape(-1)
    return onnx.numpy_helper.from_array(dense.reshape(shape), sparse.values.name)
