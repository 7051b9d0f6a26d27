from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from edgekit.execution.reference import Reference
from edgekit.stages.load import Load

X = np.array([[3, 1, 2], [3, 1, 2], [0, 255, 7]])
MASK = X > 1


@pytest.mark.parametrize(
    ("nodes", "y"),
    [
        # as PyTorch exports torch.where of two masks; the Where's own type is nowhere stated
        ("m = Greater (x, one) n = Not (m) t = Transpose (n) y = Where (m, m, t)", np.where(MASK, MASK, ~MASK.T)),
        ("m = Greater (x, one) n = Not (m) w = Where (m, n, m) y = Where (m, w, n)", ~MASK),
        ("y = EyeLike <dtype = 9, k = 1> (x)", np.eye(3, k=1, dtype=bool)),
        ("c = Cast <to = 9> (x) y = EyeLike (c)", np.eye(3, dtype=bool)),
        # as PyTorch exports torch.eye(3, dtype=torch.bool)
        ("s = Shape (x) c = ConstantOfShape <value = bool[1] {0}> (s) y = EyeLike (c)", np.eye(3, dtype=bool)),
        ("c = Cast <to = 2> (x) y = Trilu <upper = 0> (c)", np.tril(X).astype(np.uint8)),
        ("c = Cast <to = 6> (x) y, i, j, n = Unique (c)", np.unique(X).astype(np.int32)),
        ("c = Cast <to = 2> (x) y, i, j, n = Unique <axis = 0> (c)", np.unique(X, axis=0).astype(np.uint8)),
    ],
)
def test_elements_are_chosen_and_placed_in_types_without_a_kernel(tmp_path: Path, nodes: str, y: np.ndarray) -> None:
    kind = {"b": "bool", "i": "int32", "u": "uint8"}[y.dtype.kind]
    shape = "P" if y.ndim == 1 else "P, 3"
    graph = f"g (int64[3, 3] x) => ({kind}[{shape}] y) <int64 one = {{1}}> {{ {nodes} }}"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]> {graph}'), tmp_path / "model.onnx")
    found = Reference(Load()(tmp_path / "model.onnx").model).run({"x": X})["y"]
    assert found.dtype == y.dtype
    np.testing.assert_array_equal(found, y)
