from __future__ import annotations

import itertools

import numpy as np
import onnx
import onnxruntime
import pytest

import edgekit_coreml
from edgekit_mil.core.mil import Function, Program, ct, mb
from edgekit_mil.passes.affine_fusion import fuse_affine_operations

IN, OUT = 4, 8
FOLLOWERS = {
    "mul": [("Mul", "c k")],
    "mul scalar": [("Mul", "s c")],
    "div": [("Div", "c k")],
    "divided by it": [("Div", "k c")],
    "scalar divided by it": [("Div", "s c")],
    "add": [("Add", "k c")],
    "sub": [("Sub", "c k")],
    "subtracted": [("Sub", "k c")],
    "batch norm": [("BatchNormalization", "c gamma beta mean var")],
    "several": [("Mul", "c k"), ("BatchNormalization", "c gamma beta mean var"), ("Sub", "k c"), ("Div", "c k")],
    "of other elements": [("Mul", "c full")],
}


def check(nodes, shape, constants, tmp_path, outputs=("c",)):
    """Nodes that all write ``c`` (renamed on the way) agree with ONNX Runtime."""
    rng = np.random.default_rng(0)
    current, protos = "c0", []
    for number, (op_type, inputs, attributes) in enumerate(nodes):
        names = [current if name == "c" else name for name in inputs.split()]
        current = f"c{number}"
        protos.append(onnx.helper.make_node(op_type, names, [current], **attributes))
    made = [current] if outputs == ("c",) else [f"c{number}" for number in range(len(nodes))]
    graph = onnx.helper.make_graph(
        protos,
        "g",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in made],
        [onnx.numpy_helper.from_array(np.asarray(array, np.float32), name) for name, array in constants.items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    feeds = {"x": rng.standard_normal(shape).astype(np.float32)}
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(made, feeds)
    package = edgekit_coreml.convert(model, tmp_path / "fused", precision="float32")
    results = edgekit_coreml.load(package).run(feeds)
    for name, want in zip(made, expected, strict=True):
        assert np.median(np.abs(results[name] - want) / (np.abs(want) + 1e-3)) < 1e-5


@pytest.mark.parametrize("follower", FOLLOWERS)
@pytest.mark.parametrize(
    ("op_type", "groups", "dimensions"),
    [*itertools.product(["Conv", "ConvTranspose"], [1, 2], [2]), ("ConvTranspose", 2, 1), ("ConvTranspose", 2, 3)],
)
def test_channels_after_a_convolution(op_type, groups, dimensions, follower, tmp_path):
    rng = np.random.default_rng(1)
    ones = (1,) * dimensions
    first = (OUT, IN // groups) if op_type == "Conv" else (IN, OUT // groups)
    constants = {
        "w": rng.standard_normal((*first, *(1,) * dimensions)),
        "b": rng.standard_normal(OUT),
        "k": rng.uniform(0.5, 1.5, (OUT, *ones)),
        "s": 1.7,
        "full": rng.uniform(0.5, 1.5, (OUT, *(3,) * dimensions)),
        **{name: rng.uniform(0.5, 1.5, OUT) for name in ("gamma", "beta", "mean", "var")},
    }
    nodes = [(op_type, "x w b", {"group": groups}), *((*node, {}) for node in FOLLOWERS[follower])]
    check(nodes, [2, IN, *(3,) * dimensions], constants, tmp_path)


@pytest.mark.parametrize("follower", ["add", "sub", "subtracted", "mul"])
@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (4, 4)])
def test_an_offset_after_a_matrix_product(shape, follower, tmp_path):
    constants = {"w": np.arange(16).reshape(4, 4) / 7 - 1, "k": np.linspace(-1, 1, 4)}
    check([("MatMul", "x w", {}), (*FOLLOWERS[follower][0], {})], list(shape), constants, tmp_path)


@pytest.mark.parametrize("offset", [(4,), (4, 1)])
def test_an_offset_after_a_product_with_the_matrix_on_the_left(offset, tmp_path):
    constants = {"w": np.arange(16).reshape(4, 4) / 7 - 1, "k": np.linspace(-1, 1, 4).reshape(offset)}
    check([("MatMul", "w x", {}), ("Add", "c k", {})], [4, 4], constants, tmp_path)


@pytest.mark.parametrize("op_type", ["MatMul", "Conv"])
def test_what_is_an_output_itself_stays_as_it_is(op_type, tmp_path):
    shape, w, k = ([3, 4], (4, 4), 4) if op_type == "MatMul" else ([1, 4, 3], (4, 4, 1), (4, 1))
    constants = {"w": np.arange(16).reshape(w) / 7 - 1, "k": np.ones(k)}
    check([(op_type, "x w", {}), ("Add", "c k", {})], shape, constants, tmp_path, outputs=("all",))


def operations_after_fusion(body, shape):
    with Function({"x": mb.placeholder(shape=shape)}, ct.target.iOS18) as function:
        function.set_outputs([body(function.inputs["x"])])
    program = Program()
    program.add_function("main", function)
    fuse_affine_operations(program)
    program.validate()
    return [op.op_type for op in program.functions["main"].operations if op.op_type != "const"]


def test_a_chain_after_a_convolution_becomes_one_operation():
    def body(x):
        y = mb.conv(x=x, weight=np.ones((2, 3, 1, 1), np.float32))
        y = mb.mul(x=y, y=np.ones((2, 1, 1), np.float32) * 2)
        return mb.sub(x=np.float32(3), y=mb.batch_norm(x=y, mean=np.zeros(2), variance=np.ones(2)))

    assert operations_after_fusion(body, (1, 3, 4, 4)) == ["conv"]


def test_a_product_with_an_offset_becomes_a_linear_layer():
    def body(x):
        return mb.add(x=mb.matmul(x=x, y=np.ones((3, 2), np.float32)), y=np.ones(2, np.float32))

    assert operations_after_fusion(body, (4, 3)) == ["linear"]
