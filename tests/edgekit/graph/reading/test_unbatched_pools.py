"""Pools of tensors without a batch are loaded with one; ONNX Runtime does not take them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from edgekit.errors import InputError
from edgekit.execution.reference import Reference
from edgekit.stages.load import Load

X = np.random.default_rng(0).standard_normal((3, 6, 4)).astype(np.float32)
WINDOWS = X.reshape(3, 3, 2, 2, 2)
"""Height and width in windows of two."""


def saved(nodes: str, folder: Path, opset: int = 17) -> Path:
    proto = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}]> g (float[3, 6, 4] x) => (float[a, b, c] y) {{ {nodes} }}'
    )
    onnx.save(proto, folder / "m.onnx")
    return folder / "m.onnx"


@pytest.mark.parametrize("opset", [11, 17])
@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)", WINDOWS.max((2, 4))),
        ("y = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (x)", WINDOWS.mean((2, 4))),
        (
            "m = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x) n = Neg (m)"
            " y = MaxPool <kernel_shape = [3, 2], strides = [3, 2]> (n)",
            (-WINDOWS.max((2, 4))).max((1, 2), keepdims=True),
        ),
    ],
)
def test_it_pools_as_with_a_batch(nodes: str, expected: np.ndarray, opset: int, tmp_path: Path) -> None:
    file = saved(nodes, tmp_path, opset)
    with pytest.raises(Exception, match=r"incorrect size|kernel_shape num_dims"):
        onnxruntime.InferenceSession(file)
    loaded = Load()(file)
    assert any("pools of tensors without a batch" in text for text in loaded.warnings)
    np.testing.assert_allclose(Reference(loaded.model).run({"x": X})["y"], expected, rtol=1e-6)


def test_what_is_wrong_otherwise_is_told_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="contradicts itself"):
        Load()(saved("y = MaxPool <kernel_shape = [2, 2, 2, 2]> (x)", tmp_path))
