"""What OpenVINO's frontend refuses: that it still does, and that all such nodes are told of at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import openvino
import pytest

import edgekit_openvino
from edgekit.errors import UnsupportedOpsError
from edgekit.model import Model
from edgekit_openvino.frontend import convert_model

RANDOM = np.random.default_rng(6)


def of_blocks(size: int, block: int) -> onnx.ModelProto:
    """Two products with stored integers of 4 bits, with a scale for each block of rows."""
    helper, kinds = onnx.helper, onnx.TensorProto
    blocks = -(-size // block)
    constants, nodes, value = [], [], "x"
    for n in range(2):
        stored, zeros = (RANDOM.integers(0, 16, (rows, size)) for rows in (size, blocks))
        constants += [
            helper.make_tensor(f"w{n}", kinds.UINT4, stored.shape, stored.ravel()),
            helper.make_tensor(f"s{n}", kinds.FLOAT, zeros.shape, RANDOM.uniform(0.01, 0.02, zeros.size)),
            helper.make_tensor(f"z{n}", kinds.UINT4, zeros.shape, zeros.ravel()),
        ]
        given = [f"w{n}", f"s{n}", f"z{n}"]
        nodes += [
            helper.make_node("DequantizeLinear", given, [f"r{n}"], f"weights{n}", axis=0, block_size=block),
            helper.make_node("MatMul", [value, f"r{n}"], [f"y{n}"]),
        ]
        value = f"y{n}"
    border = [helper.make_tensor_value_info(name, kinds.FLOAT, ["n", size]) for name in ("x", "y1")]
    graph = helper.make_graph(nodes, "blocks", border[:1], border[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize(("size", "block"), [(144, 32), (148, 32), (145, 16), (24, 32)])
def test_blocks_that_are_not_whole(tmp_path: Path, size: int, block: int) -> None:
    proto = of_blocks(size, block)
    onnx.save(proto, tmp_path / "plain.onnx")
    with pytest.raises(RuntimeError, match="cannot be divided by block_size"):  # OpenVINO still refuses it
        openvino.Core().read_model(tmp_path / "plain.onnx")
    with pytest.raises(UnsupportedOpsError) as refusal:
        convert_model(Model(ir.from_proto(proto)))
    assert [gap.node for gap in refusal.value.gaps] == ["weights0", "weights1"]
    path = edgekit_openvino.convert(proto, tmp_path / "model")
    feeds = {"x": RANDOM.standard_normal((3, size)).astype(np.float32)}
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    expected = onnxruntime.InferenceSession(proto.SerializeToString(), options).run(None, feeds)[0]
    # else the plugin rounds what the stored weights are multiplied with
    as_floats = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}
    found = next(iter(openvino.Core().compile_model(path, "CPU", as_floats)(feeds).values()))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
    if size > 100:
        assert path.with_suffix(".bin").stat().st_size < 2 * size * size  # of float32: 8


@pytest.mark.parametrize("place", [2, 3, 4])
@pytest.mark.parametrize("is_fed", [False, True])
def test_a_limit_or_threshold_without_elements(tmp_path: Path, place: int, is_fed: bool) -> None:
    names = ["boxes", "scores", "most", "overlap", "least"]
    arrays = [np.zeros(size, np.float32) for size in ((1, 6, 4), (1, 1, 6))]
    arrays += [np.array([2]), np.float32([0.5]), np.float32([0.5])]
    arrays[place] = arrays[place][:0]
    fed = (0, 1, place) if is_fed else (0, 1)
    infos = [
        onnx.helper.make_tensor_value_info(n, onnx.helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in zip(names, arrays, strict=True)
    ]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("NonMaxSuppression", names, ["y"])],
        "suppression",
        [infos[number] for number in fed],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.INT64, ["n", 3])],
        [
            onnx.numpy_helper.from_array(a, n)
            for number, (n, a) in enumerate(zip(names, arrays, strict=True))
            if number not in fed
        ],
    )
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 11)], ir_version=8)
    with pytest.raises(UnsupportedOpsError, match="a limit or threshold is one number, and one has none"):
        edgekit_openvino.convert(proto, tmp_path / "m")
