"""Inputs in which NaN stands for a missing value: which they are, and what becomes of their samples."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, helper

import edgekit
from edgekit.data.missing_values import missing_value_inputs
from edgekit.errors import InputError

ML = "ai.onnx.ml"
OPSETS = f'<ir_version: 10, opset_import: ["" : 17, "{ML}" : 3]>'
TREE = f"{ML}.TreeEnsembleRegressor"


def inputs_of(graph: str) -> frozenset[str]:
    return missing_value_inputs(ir.from_proto(onnx.parser.parse_model(f"{OPSETS} {graph}")).graph)


@pytest.mark.parametrize(
    "body",
    [
        f"y = {TREE}(x)",
        f"y, z = {ML}.TreeEnsembleClassifier(x)",
        f"y = {ML}.TreeEnsemble(x)",
        "m = IsNaN(x) y = Where(m, k, x)",
        f"a = Cast<to = 11>(x) b = Identity(a) c = Reshape(b, k) y = {TREE}(c)",
        f"a = {ML}.Scaler(x) b = {ML}.ArrayFeatureExtractor(a, k) c = Concat<axis = 1>(b, k) y = {TREE}(c)",
        "a = Max(x, k) b = Min(a, k) c = Relu(b) d = Pow(c, k) m = IsNaN(d) y = Where(m, k, d)",
        "a = Round(x) b = Floor(a) c = Ceil(b) d = Sign(c) e = Sigmoid(d) f = Tanh(e) m = IsNaN(f) y = Where(m, k, f)",
        f"a = Sub(x, k) b = Div(a, k) c = Gather<axis = 1>(b, k) d, e = Split<axis = 1>(c) y = {TREE}(e)",
    ],
)
def test_they_reach_a_node_that_takes_nan_for_missing(body: str) -> None:
    assert inputs_of(f"g (float[n, 4] x) => (float[n, 1] y) <float[1] k = {{2}}> {{ {body} }}") == {"x"}


@pytest.mark.parametrize("gap", ["nan", "0.0"])
def test_an_imputer_does_where_it_replaces_nan(gap: str) -> None:
    node = helper.make_node(
        "Imputer", ["x"], ["y"], domain=ML, imputed_value_floats=[1.0], replaced_value_float=float(gap)
    )
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy"]
    model = helper.make_model(helper.make_graph([node], "g", values[:1], values[1:]), ir_version=10)
    assert missing_value_inputs(ir.from_proto(model).graph) == ({"x"} if gap == "nan" else set())


@pytest.mark.parametrize(
    "body",
    [
        "y = Relu(x)",
        "s = Softmax(x) m = IsNaN(s) y = Where(m, k, s)",  # as PyTorch exports attention
        f"a = MatMul(x, w) y = {TREE}(a)",
        f"a = Cast<to = 7>(x) y = {TREE}(a)",
        "m = Greater(x, k) y = Where(m, k, x)",
    ],
)
def test_other_inputs_hold_numbers(body: str) -> None:
    constants = "<float[1] k = {2}, float[1, 1] w = {2}>"
    assert inputs_of(f"g (float[n, 1] x) => (float[n, 1] y) {constants} {{ {body} }}") == set()


def test_of_several_inputs_those_count_that_reach_it() -> None:
    graph = f"g (float[n, 4] a, float[n, 4] b) => (float[n, 1] y) {{ t = {TREE}(a) s = MatMul(b, b) y = Add(t, s) }}"
    assert inputs_of(graph) == {"a"}


def stump(tracks: int, mode: str = "BRANCH_LEQ") -> onnx.ModelProto:
    """10 where feature 1 of `x` compares with 0.5, else 20; added to the first number of `other`."""
    tree = helper.make_node(
        "TreeEnsembleRegressor",
        ["x"],
        ["leaf"],
        domain=ML,
        n_targets=1,
        nodes_treeids=[0, 0, 0],
        nodes_nodeids=[0, 1, 2],
        nodes_featureids=[1, 0, 0],
        nodes_values=[0.5, 0.0, 0.0],
        nodes_modes=[mode, "LEAF", "LEAF"],
        nodes_truenodeids=[1, 0, 0],
        nodes_falsenodeids=[2, 0, 0],
        nodes_missing_value_tracks_true=[tracks, 0, 0],
        target_treeids=[0, 0],
        target_nodeids=[1, 2],
        target_ids=[0, 0],
        target_weights=[10.0, 20.0],
    )
    add = helper.make_node("Add", ["leaf", "other"], ["y"])
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size]) for name, size in (("x", 3), ("other", 1))
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(ML, 3)]
    return helper.make_model(
        helper.make_graph([tree, add], "stump", inputs, [output]), opset_imports=opsets, ir_version=8
    )


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(stump(tracks=1), tmp_path / "stump.onnx")
    return tmp_path / "stump.onnx"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Feature 1 is missing in the first sample, feature 0 in all."""
    folder = tmp_path / "data"
    folder.mkdir()
    for number, feature in enumerate([np.nan, 0.0, 1.0, -3.0]):
        x = np.array([[np.nan, feature, 2.0]], np.float32)
        np.savez(folder / f"{number}.npz", x=x, other=np.array([[number]], np.float32))
    return folder


@pytest.mark.parametrize("target", ["onnxruntime", "intel-cpu", pytest.param("ios18", marks=pytest.mark.slow)])
def test_packaged_verified_and_run_with_missing_values(tmp_path: Path, model: Path, data: Path, target: str) -> None:
    bundle = edgekit.package(model, target, tmp_path / "out", data=data, quantize="none")
    assert bundle.nan_inputs == {"x"}
    assert [feature.get("takes_nan") for feature in bundle.manifest["inputs"]] == [True, None]
    golden = [(feeds["x"], outputs["y"].item()) for feeds, outputs in bundle.golden()]
    assert np.isnan(golden[0][0][0, :2]).all()
    assert [y for _, y in golden] == [10.0, 11.0, 22.0]  # by hand: the missing feature goes to the true leaf
    assert edgekit.verify(bundle, data=data, model=model).accuracy is not None
    assert edgekit.load(bundle).run(data / "0.npz")["y"].item() == 10.0
    if target != "ios18":  # whose check runs on a Mac
        subprocess.run([sys.executable, "check.py"], cwd=bundle.path, check=True, capture_output=True)


def test_another_input_of_such_a_model_holds_numbers(tmp_path: Path, model: Path, data: Path) -> None:
    np.savez(data / "9.npz", x=np.zeros((1, 3), np.float32), other=np.array([[np.nan]], np.float32))
    with pytest.raises(InputError) as caught:
        edgekit.package(model, "onnxruntime", tmp_path / "out", data=data, quantize="none")
    assert str(caught.value) == (
        f"{data / '9.npz'}: the sample holds NaN\nexpected: numbers in array 'other'\nfound: 1 of 1 values are NaN\n"
        "hint: only 'x' may hold NaN: leave the sample out, or mend what wrote it"
    )


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_quantized_with_missing_values_and_without_infinite_ones(tmp_path: Path, bad: float) -> None:
    rng = np.random.default_rng(0)
    graph = """g (float[1, 16] x) => (float[1, 8] y) <float mean = {4}> {
        m = IsNaN(x)
        f = Where(m, mean, x)
        y = MatMul(f, w)
    }"""
    proto = onnx.parser.parse_model(f"{OPSETS} {graph}")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(rng.normal(size=(16, 8)).astype(np.float32), "w"))
    onnx.save(proto, tmp_path / "net.onnx")
    folder = tmp_path / "data"
    folder.mkdir()
    samples = [rng.normal(4, 2, (1, 16)).astype(np.float32) for _ in range(16)]
    for number, x in enumerate(samples):
        x[0, number] = bad
        np.savez(folder / f"{number:02}.npz", x=x)

    def quantized() -> None:
        edgekit.quantize(
            tmp_path / "net.onnx",
            tmp_path / "int8.onnx",
            data=folder,
            target="onnxruntime",
            scheme="int8",
            max_drop=0.1,
        )

    if np.isinf(bad):
        with pytest.raises(InputError, match="the array 'x' holds 1 values that are infinite"):
            quantized()
        return
    quantized()
    assert "DequantizeLinear" in {node.op_type for node in onnx.load(tmp_path / "int8.onnx").graph.node}
    before, after = (onnxruntime.InferenceSession(tmp_path / name) for name in ("net.onnx", "int8.onnx"))
    for x in samples:
        expected = before.run(None, {"x": x})[0]
        assert np.abs(after.run(None, {"x": x})[0] - expected).max() < 0.05 * np.abs(expected).max()
