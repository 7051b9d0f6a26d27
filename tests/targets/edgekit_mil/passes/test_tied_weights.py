from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from coremltools.proto import Model_pb2

import edgekit_coreml
from edgekit_mil.core.mil import Function, Program, ct, mb, types
from edgekit_mil.passes.tied_weights import store_equal_weights_once

WORDS, WIDTH = 512, 64


@pytest.fixture
def language_model(rng):
    """Makes a model that reads embeddings [WORDS, WIDTH] by rows and multiplies by a matrix [WIDTH, WORDS]."""

    def make(embeddings, matrix, nodes):
        ids = onnx.helper.make_tensor_value_info("ids", onnx.TensorProto.INT64, [1, 5])
        scores = onnx.helper.make_tensor_value_info("scores", onnx.TensorProto.FLOAT, [1, 5, WORDS])
        values = {"table": embeddings, "matrix": matrix, "scale": np.float32(0.01), "zero": embeddings.dtype.type(3)}
        used = {name for node in nodes for name in node.input}
        initializers = [onnx.numpy_helper.from_array(np.asarray(values[name]), name) for name in used & set(values)]
        graph = onnx.helper.make_graph(nodes, "g", [ids], [scores], initializers)
        return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)

    return make


@pytest.fixture
def converted(tmp_path, rng):
    """Converts, compares with ONNX Runtime, and returns the weight file's bytes and the operations by name."""

    def convert(model, **options):
        package = edgekit_coreml.convert(model, tmp_path / "m", **options)
        feeds = {"ids": rng.integers(0, WORDS, (1, 5))}
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        (expected,) = session.run(None, feeds)
        found = edgekit_coreml.load(package).run(feeds)["scores"]
        np.testing.assert_allclose(found, expected, rtol=2e-2, atol=2e-2 * np.abs(expected).max())
        spec = Model_pb2.Model()
        spec.ParseFromString((package / "Data/com.apple.CoreML/model.mlmodel").read_bytes())
        (function,) = spec.mlProgram.functions.values()
        kinds = [operation.type for operation in function.block_specializations[function.opset].operations]
        return (package / "Data/com.apple.CoreML/weights/weight.bin").stat().st_size, kinds

    return convert


def node(op_type, inputs, output, **attributes):
    return onnx.helper.make_node(op_type, inputs, [output], **attributes)


GATHERED = node("Gather", ["table", "ids"], "rows")
PRODUCT = node("MatMul", ["rows", "matrix"], "scores")


@pytest.mark.parametrize(("precision", "width"), [("float32", 4), ("float16", 2)])
def test_an_embedding_whose_transpose_is_multiplied_by_is_stored_once(language_model, converted, rng, precision, width):
    table = rng.standard_normal((WORDS, WIDTH), np.float32)
    size, _ = converted(language_model(table, np.ascontiguousarray(table.T), [GATHERED, PRODUCT]), precision=precision)
    assert table.size * width <= size < 1.1 * table.size * width


def test_another_matrix_is_stored_beside_the_embedding(language_model, converted, rng):
    table, matrix = rng.standard_normal((WORDS, WIDTH), np.float32), rng.standard_normal((WIDTH, WORDS), np.float32)
    size, _ = converted(language_model(table, matrix, [GATHERED, PRODUCT]), precision="float32")
    assert size >= 8 * table.size


def test_a_matrix_that_differs_in_one_number_is_stored_beside_the_embedding(language_model, converted, rng):
    table = rng.standard_normal((WORDS, WIDTH), np.float32)
    matrix = np.ascontiguousarray(table.T)
    matrix[3, 4] += 1
    size, _ = converted(language_model(table, matrix, [GATHERED, PRODUCT]), precision="float32")
    assert size >= 8 * table.size


def test_eight_bit_rows_and_the_matrix_to_decompress_have_one_place(language_model, converted, rng):
    table = rng.integers(0, 255, (WORDS, WIDTH), np.uint8)
    nodes = [
        GATHERED,
        node("DequantizeLinear", ["rows", "scale", "zero"], "real"),
        node("DynamicQuantizeLinear", ["real"], "q"),
        node("Transpose", ["table"], "turned", perm=[1, 0]),
        node("MatMulInteger", ["q", "turned", "qz", "zero"], "sums"),
        node("Cast", ["sums"], "scores", to=onnx.TensorProto.FLOAT),
    ]
    nodes[2].output.extend(["qs", "qz"])
    size, kinds = converted(language_model(table, table, nodes), precision="float32")
    assert table.size <= size < 1.1 * table.size
    assert "constexpr_affine_dequantize" in kinds


def test_two_products_with_each_others_weight_share_it(converted, rng):
    left = rng.standard_normal((WORDS, WORDS), np.float32)
    ids = onnx.helper.make_tensor_value_info("ids", onnx.TensorProto.INT64, [1, 5])
    scores = onnx.helper.make_tensor_value_info("scores", onnx.TensorProto.FLOAT, [1, 5, WORDS])
    nodes = [
        node("OneHot", ["ids", "depth", "values"], "x"),
        node("MatMul", ["x", "left"], "h"),
        node("Tanh", ["h"], "t"),
        node("MatMul", ["t", "right"], "scores"),
    ]
    values = {"depth": np.int64(WORDS), "values": np.array([0, 1], np.float32), "left": left, "right": left.T.copy()}
    initializers = [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in values.items()]
    graph = onnx.helper.make_graph(nodes, "g", [ids], [scores], initializers)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    size, _ = converted(model, precision="float32")
    assert size < 1.1 * left.nbytes


def test_equal_numbers_of_other_widths_have_places_of_their_own():
    numbers = np.zeros((64, 64), np.int8)
    with Function({"x": mb.placeholder(shape=(1, 64))}, ct.target.iOS18) as function:
        scale = np.ones((1, 1), np.float32)
        narrow, wide = (
            mb.constexpr_blockwise_shift_scale(data=data, scale=scale)
            for data in (numbers.astype(types.np_int4_dtype), numbers)
        )
        product = mb.add(x=mb.matmul(x=function.inputs["x"], y=narrow), y=mb.matmul(x=function.inputs["x"], y=wide))
        function.set_outputs([product])
    program = Program()
    program.add_function("main", function)
    store_equal_weights_once(program)
    places = {op.data.op.weight_id for op in function.operations if op.op_type == "constexpr_blockwise_shift_scale"}
    assert len(places) == 2
