"""Weights that a file stores sparse, against ONNX Runtime and numpy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from edgekit.errors import InputError
from edgekit.stages.load import Load

WriteOnnx = Callable[..., Path]
MATMUL = "g (float[N, 4] x) => (float[N, 3] y) { y = MatMul(x, w) }"


def run(model: onnx.ModelProto | Path, **feeds: np.ndarray) -> list[np.ndarray]:
    data = str(model) if isinstance(model, Path) else model.SerializeToString()
    return onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, feeds)


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        Load()(path)
    return str(caught.value)


def sparse(shape: list[int], places: np.ndarray) -> onnx.SparseTensorProto:
    values = onnx.numpy_helper.from_array(np.arange(1, len(places) + 1, dtype=np.float32), "w")
    return onnx.helper.make_sparse_tensor(values, onnx.numpy_helper.from_array(places, "places"), shape)


def with_sparse(path: Path, tensor: onnx.SparseTensorProto, *, as_constant: bool = False) -> Path:
    proto = onnx.load(path)
    if as_constant:
        proto.graph.node.insert(0, onnx.helper.make_node("Constant", [], ["w"], sparse_value=tensor))
    else:
        proto.graph.sparse_initializer.append(tensor)
    onnx.save(proto, path)
    return path


@pytest.mark.parametrize("as_constant", [False, True])
@pytest.mark.parametrize("places", [np.array([0, 5, 10]), np.array([[0, 0], [1, 2], [3, 1]])])
def test_sparse_weights_become_dense(onnx_file: WriteOnnx, places: np.ndarray, as_constant: bool) -> None:
    path = with_sparse(onnx_file(MATMUL), sparse([4, 3], places), as_constant=as_constant)
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    (found,) = run(Load()(path).model.proto(), x=x)
    np.testing.assert_array_equal(found, x @ [[1, 0, 0], [0, 0, 2], [0, 0, 0], [0, 3, 0]])
    if places.ndim == 1:  # ONNX Runtime does not take places by axis
        np.testing.assert_array_equal(found, *run(path, x=x))


@pytest.mark.parametrize("places", [np.array([0, 12]), np.array([-1, 3]), np.array([[0, 3], [0, 1]])])
def test_sparse_weights_with_values_outside(onnx_file: WriteOnnx, places: np.ndarray) -> None:
    text = refusal(with_sparse(onnx_file(MATMUL), sparse([4, 3], places)))
    assert "sparse tensor 'w' has values outside of it\nexpected: 2 places in 4×3\nfound: int64 of shape [2" in text


def test_sparse_weights_that_stand_for_any_size(onnx_file: WriteOnnx) -> None:
    text = refusal(with_sparse(onnx_file(MATMUL), sparse([1 << 20, 1 << 20], np.array([0, 5]))))
    assert "sparse tensor 'w' is too large when it is dense\nexpected: 1073741824 bytes at most" in text
