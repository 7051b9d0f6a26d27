from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from onnx import TensorProto, helper, numpy_helper

import edgekit_onnxruntime
from edgekit.model import Model
from edgekit.target import Artifact, BuildOptions
from edgekit_onnxruntime.build import write_ort_format
from edgekit_onnxruntime.target import ONNXRuntimeTarget

TARGET = ONNXRuntimeTarget()


def many_operators() -> onnx.ModelProto:
    """A model with so many operators that ONNX Runtime writes its table of them in another order each time."""
    return onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]> g (float[2, 8] x) => (float[8, 2] y, int64[2] k)'
        " <float[8, 8] w = {" + ", ".join(map(str, range(64))) + "}> {\n"
        "  a = MatMul(x, w) b = Sin(a) c = Exp(b) d = Sqrt(c) e = Tanh(d) f = Softmax(e) h = LeakyRelu(f)\n"
        "  i = Floor(h) j = Sub(h, i) y = Transpose(j) k = ArgMax <axis = 1, keepdims = 0> (j)\n}"
    )


def widened_weights() -> onnx.ModelProto:
    """8-bit weights that the graph itself turns into floats."""
    weights = np.random.default_rng(0).integers(-127, 128, (256, 256)).astype(np.int8)
    nodes = [
        helper.make_node("Cast", ["w"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["f", "scale"], ["s"]),
        helper.make_node("MatMul", ["x", "s"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 256])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 256])],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(np.array(0.01, np.float32), "scale")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def built(model: onnx.ModelProto, folder: Path) -> Artifact:
    folder.mkdir(exist_ok=True)
    return TARGET.build(Model(ir.from_proto(model)), TARGET.profiles[0], folder, BuildOptions())


def test_both_files_ship_and_one_of_them_counts(tmp_path: Path) -> None:
    artifact = built(many_operators(), tmp_path / "built")
    assert artifact.main.name == "model.onnx"
    assert [file.name for file in artifact.files] == ["model.onnx", "model.ort"]
    assert [file.name for file in artifact.alternatives] == ["model.ort"]
    assert [(feature.name, feature.dtype, feature.shape) for feature in artifact.outputs] == [
        ("y", "float32", (8, 2)),
        ("k", "int64", (2,)),
    ]


def test_both_files_compute_the_same(tmp_path: Path) -> None:
    artifact = built(many_operators(), tmp_path / "built")
    feeds = {"x": np.random.default_rng(1).standard_normal((2, 8)).astype(np.float32)}
    first, second = (edgekit_onnxruntime.load(file).run(feeds) for file in artifact.files)
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name])


def test_the_same_model_gives_the_same_files(tmp_path: Path) -> None:
    builds = [built(many_operators(), tmp_path / str(number)) for number in range(4)]
    for name in ("model.onnx", "model.ort"):
        assert len({(build.main.parent / name).read_bytes() for build in builds}) == 1


def test_the_size_of_the_file_does_not_depend_on_the_order_of_names_of_many_lengths(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 18]>
        g (float[4, 1, 8] x, int64[2] k, bool[8] c) => (float[2, 1, 3] y, int64[2, 1, 3] z, float[8] p)
        <float[1, 12, 8] w, float[1, 12, 3] r, float[8] v = {1, 2, 3, 4, 5, 6, 7, 8}> {
          hs, h, s = LSTM <hidden_size = 3> (x, w, r)
          u = Squeeze (hs, one)
          y = Gather (u, k)
          q, sc, zp = DynamicQuantizeLinear (y)
          i = Cast <to = 7> (q)
          z = Mod (i, seven)
          p = Where (c, v, n)
        }"""
    )
    rng = np.random.default_rng(0)
    del model.graph.initializer[:]
    for name, array in {
        "w": rng.standard_normal((1, 12, 8)).astype(np.float32),
        "r": rng.standard_normal((1, 12, 3)).astype(np.float32),
        "v": np.arange(8, dtype=np.float32),
        "n": -np.arange(8, dtype=np.float32),
        "one": np.array([1]),
        "seven": np.array(7),
    }.items():
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    onnx.save(model, tmp_path / "m.onnx")
    written = set()
    for number in range(12):
        target = tmp_path / f"{number}.ort"
        write_ort_format(tmp_path / "m.onnx", target)
        written.add(target.read_bytes())
    assert len(written) == 1


def test_eight_bit_weights_stay_so_in_the_ort_file(tmp_path: Path) -> None:
    artifact = built(widened_weights(), tmp_path / "built")
    assert (tmp_path / "built" / "model.ort").stat().st_size < 1.1 * 256 * 256
    assert artifact.record["ort_format"] == "constants not folded"
    feeds = {"x": np.ones((1, 256), np.float32)}
    first, second = (edgekit_onnxruntime.load(file).run(feeds)["y"] for file in artifact.files)
    np.testing.assert_allclose(first, second, rtol=0, atol=1e-4)  # sums of 256 numbers of up to 1.27
