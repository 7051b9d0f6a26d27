from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import openvino
import pytest
from onnx import TensorProto, helper, numpy_helper

import edgekit
import edgekit_openvino
from edgekit.model import Model
from edgekit_openvino.ir.ir_file import write_ir

RNG = np.random.default_rng(0)


def model_of(nodes: list[onnx.NodeProto], constants: dict[str, np.ndarray], shape: list[int]) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def convolution() -> onnx.ModelProto:
    """A convolution whose weights are 8-bit, with the same limits before and after it."""
    rng = np.random.default_rng(1)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "scale", "zero"], ["xd"]),
        helper.make_node("DequantizeLinear", ["wq", "wscale", "wzero"], ["w"], axis=0),
        helper.make_node("Conv", ["xd", "w"], ["c"]),
        helper.make_node("QuantizeLinear", ["c", "scale", "zero"], ["cq"]),
        helper.make_node("DequantizeLinear", ["cq", "scale", "zero"], ["y"]),
    ]
    constants = {
        "scale": np.array(0.05, np.float32),
        "zero": np.array(0, np.int8),
        "wq": rng.integers(-64, 65, (4, 3, 3, 3)).astype(np.int8),  # whose products fit into 16 bits in pairs
        "wscale": rng.random(4).astype(np.float32) / 100,
        "wzero": np.zeros(4, np.int8),
    }
    return model_of(nodes, constants, [1, 3, 8, 8])


def test_the_same_model_gives_the_same_bytes_however_many_were_converted_before(tmp_path: Path) -> None:
    files = [edgekit_openvino.convert(convolution(), tmp_path / f"model{n}") for n in range(3)]
    assert len({file.read_bytes() for file in files}) == 1
    assert len({file.with_suffix(".bin").read_bytes() for file in files}) == 1


def test_a_quantized_model_computes_the_same_and_keeps_its_weights_in_eight_bits(tmp_path: Path) -> None:
    model = convolution()
    file = edgekit_openvino.convert(model, tmp_path / "model")
    feeds = {"x": RNG.standard_normal((1, 3, 8, 8)).astype(np.float32)}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    got, want = edgekit_openvino.load(file).run(feeds)["y"], session.run(["y"], feeds)[0]
    # Where a value lies between two steps, the one or the other is right.
    assert np.abs(got - want).max() <= 0.0501
    assert (got != want).mean() < 0.02
    assert file.with_suffix(".bin").stat().st_size < 4 * 3 * 9 + 200


def test_weights_of_a_branch_stay_in_eight_bits(tmp_path: Path) -> None:
    size = 64
    rng = np.random.default_rng(2)
    weights = {name: rng.integers(-127, 128, (1, 4 * size, size)).astype(np.int8) for name in ("w", "r")}
    nodes = []
    for name in weights:
        nodes.append(helper.make_node("Cast", [f"{name}_levels"], [f"{name}_wide"], to=TensorProto.FLOAT))
        nodes.append(helper.make_node("Div", [f"{name}_wide", "steps"], [name]))
    nodes.append(helper.make_node("LSTM", ["x", "w", "r"], ["", "then_y"], hidden_size=size))
    branches = {
        "then_branch": helper.make_graph(
            nodes,
            "recurrent",
            [],
            [helper.make_tensor_value_info("then_y", TensorProto.FLOAT, [1, 1, size])],
            [numpy_helper.from_array(array, f"{name}_levels") for name, array in weights.items()],
        ),
        "else_branch": helper.make_graph(
            [helper.make_node("Identity", ["last"], ["else_y"])],
            "last",
            [],
            [helper.make_tensor_value_info("else_y", TensorProto.FLOAT, [1, 1, size])],
        ),
    }
    model = model_of(
        [
            helper.make_node("Gather", ["x", "first"], ["last"], axis=0),
            helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
            helper.make_node("Greater", ["most", "zero"], ["is_positive"]),
            helper.make_node("If", ["is_positive"], ["y"], **branches),
        ],
        {"first": np.array([0]), "zero": np.array(0, np.float32), "steps": np.array(1000, np.float32)},
        [3, 1, size],
    )
    file = edgekit_openvino.convert(model, tmp_path / "model")

    assert file.with_suffix(".bin").stat().st_size < 1.2 * sum(array.nbytes for array in weights.values())
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    network = edgekit_openvino.load(file)
    drawn = RNG.standard_normal((3, 1, size)).astype(np.float32)
    for x in (drawn, -np.abs(drawn)):
        np.testing.assert_allclose(network.run({"x": x})["y"], session.run(["y"], {"x": x})[0], atol=1e-4)


def test_equal_limits_stand_in_the_file_once(tmp_path: Path) -> None:
    text = edgekit_openvino.convert(convolution(), tmp_path / "model").read_text()
    assert text.count('type="FakeQuantize"') == 2
    assert text.count('shape="1, 1, 1, 1"') == 2  # low and high, for both of them and for their inputs and outputs
    assert "\n\t" not in text


def test_what_openvino_knows_by_itself_is_not_in_the_file(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "x"], ["m"]),
        helper.make_node("Greater", ["m", "x"], ["g"]),
        helper.make_node("Where", ["g", "m", "half"], ["c"]),
        helper.make_node("Conv", ["c", "k"], ["k_c"]),
        helper.make_node("Gather", ["k_c", "rows"], ["y"], axis=2),
    ]
    constants = {
        "k": RNG.standard_normal((4, 3, 3, 3)).astype(np.float32),
        "rows": np.array([4, 0, 1]),
        "half": np.array(0.5, np.float32),
    }
    file = edgekit_openvino.convert(model_of(nodes, constants, [1, 3, 8, 8]), tmp_path / "model")
    layers = [*ElementTree.parse(file).iter("layer")]
    assert not [size for layer in layers if layer.get("type") == "Const" for size in layer.iter("dim")]
    told = {name for layer in layers for data in layer.iterfind("data") for name in data.attrib}
    defaults = {
        **{kind: {"auto_broadcast": "numpy"} for kind in ("Less", "Select")},
        "MatMul": {"transpose_a": False, "transpose_b": False},
        "Convolution": {"auto_pad": "explicit"},
        "Gather": {"batch_dims": 0},
    }
    assert not told & {name for attributes in defaults.values() for name in attributes}
    read = {
        operation.get_type_name(): operation.get_attributes()
        for operation in openvino.Core().read_model(file).get_ops()
    }
    assert {kind: {name: read[kind][name] for name in defaults[kind]} for kind in defaults} == defaults


def test_weights_that_fusing_would_widen_stay_as_they_are(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["xq", "xs", "xz"]),
        helper.make_node("MatMulInteger", ["xq", "w", "xz", "wz"], ["i"]),
        helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["f", "xs"], ["y"]),
    ]
    constants = {"w": RNG.integers(0, 256, (256, 256)).astype(np.uint8), "wz": np.array(128, np.uint8)}
    file = edgekit_openvino.convert(model_of(nodes, constants, [1, 256]), tmp_path / "model")
    assert file.with_suffix(".bin").stat().st_size < 1.05 * 256 * 256


def test_float16_halves_the_weights_and_still_takes_float32(tmp_path: Path) -> None:
    weights = RNG.standard_normal((64, 64)).astype(np.float32)
    model = model_of([helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": weights}, [1, 64])
    full = edgekit_openvino.convert(model, tmp_path / "full")
    half = edgekit_openvino.convert(model, tmp_path / "half", precision="float16")
    assert half.with_suffix(".bin").stat().st_size < 0.51 * full.with_suffix(".bin").stat().st_size
    x = RNG.standard_normal((1, 64)).astype(np.float32)
    got = edgekit_openvino.load(half).run({"x": x})["y"]
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, x @ weights.astype(np.float16).astype(np.float32), rtol=1e-4, atol=1e-5)


LOOPED = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 3, 4, 4] x) => (float[1, 4, 4, 4] y) <int64 most = {3}, bool go = {1}> {
  c = Conv<pads = [1, 1, 1, 1]>(x, w)
  y = Loop(most, go, c) <body = body (int64 i, bool on, float[1, 4, 4, 4] s) => (bool more, float[1, 4, 4, 4] t) {
    more = Identity(on) t = Abs(s)
  }>
}"""


def test_the_topology_tells_shapes_where_values_are_made_and_not_again_where_they_are_read(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(LOOPED)
    weights = RNG.standard_normal((4, 3, 3, 3)).astype(np.float32)
    proto.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    file = edgekit_openvino.convert(proto, tmp_path / "model")
    assert b"\n" not in file.read_bytes()
    layers = {layer.attrib["type"]: layer for layer in ElementTree.parse(file).getroot().iterfind("layers/layer")}
    inputs = layers["Convolution"].findall("input/port")
    assert [port.attrib for port in inputs] == [{"id": "0"}, {"id": "1"}]
    assert [port.findall("dim") for port in inputs] == [[], []]
    (output,) = layers["Convolution"].findall("output/port")
    assert [dim.text for dim in output.findall("dim")] == ["1", "4", "4", "4"]
    body = layers.get("Loop", layers.get("TensorIterator"))
    assert body is not None
    assert any(port.findall("dim") for port in body.findall("input/port"))
    feeds = {"x": RNG.standard_normal((1, 3, 4, 4)).astype(np.float32)}
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(
        edgekit_openvino.load(file).run(feeds)["y"], session.run(["y"], feeds)[0], rtol=1e-5, atol=1e-6
    )


DOUBLES = """<ir_version: 8, opset_import: ["" : 17]>
g (float[4, 256] x) => (double[4] y) {
  h = MatMul(x, w)  d = Cast<to = 11>(h)  p = Mul(d, factors)  y = ReduceSum<keepdims = 0>(p, axes)
}"""


def test_float16_halves_constants_of_float64_too_which_the_plugin_computes_in_float32(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(DOUBLES)
    constants = {
        "w": RNG.standard_normal((256, 300)).astype(np.float32),
        "factors": RNG.standard_normal(300),
        "axes": np.array([1], np.int64),
    }
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    model, folder = tmp_path / "doubles.onnx", tmp_path / "bundle"
    onnx.save(proto, model)

    bundle = edgekit.package(model, "intel-cpu", folder, precision="float16")

    topology = ElementTree.parse(folder / "model.xml").getroot()
    kept = [data.attrib for data in topology.iterfind("layers/layer/data") if "offset" in data.attrib]
    sizes = {(each["element_type"], int(each["size"])) for each in kept if int(each["size"]) > 64}
    assert sizes == {("f16", 256 * 300 * 2), ("f16", 300 * 2)}
    x = RNG.standard_normal((4, 256)).astype(np.float32)
    halves, factors = (constants[name].astype(np.float16).astype(np.float64) for name in ("w", "factors"))
    found = edgekit.load(bundle)({"x": x})["y"]
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, (x @ halves) @ factors, rtol=1e-4)


@pytest.mark.parametrize("looked_up", [False, True])
def test_float16_leaves_what_numbers_are_compared_with_as_it_is(tmp_path: Path, *, looked_up: bool) -> None:
    """1000.05 is under 1000.1, and over the 1000 that float16 makes of it."""
    nodes = [
        helper.make_node("Mul", ["x", "zero"], ["zeros"]),
        helper.make_node("Cast", ["zeros"], ["places"], to=TensorProto.INT64),
        helper.make_node("Gather", ["thresholds", "places"], ["found"], axis=0),
        helper.make_node("Greater", ["x", "found" if looked_up else "thresholds"], ["is_over"]),
        helper.make_node("Cast", ["is_over"], ["y"], to=TensorProto.FLOAT),
    ]
    constants = {"thresholds": np.full(400, 1000.1, np.float32), "zero": np.array(0, np.float32)}
    model = model_of(nodes if looked_up else nodes[3:], constants, [400])
    half = edgekit_openvino.convert(model, tmp_path / "half", precision="float16")
    x = np.resize(np.array([1000.05, 1000.1, 1000.15], np.float32), 400)
    np.testing.assert_array_equal(edgekit_openvino.load(half).run({"x": x})["y"], x > np.float32(1000.1))


@pytest.mark.parametrize("name", ["\x1b[31m", "bell\x07", "\ufffe", "tab\tand\nline", "\x7f", "\u202e", 'a,"<&>'])
def test_names_with_characters_that_xml_cannot_hold(tmp_path: Path, name: str) -> None:
    """OpenVINO writes them as references to characters that XML 1.0 has not, and reads them again."""
    graph = helper.make_graph(
        [helper.make_node("Relu", [f"{name}x"], [f"{name}y"], name=name)],
        name,
        [helper.make_tensor_value_info(f"{name}x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info(f"{name}y", TensorProto.FLOAT, [1, 4])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    file = edgekit_openvino.convert(model, tmp_path / "model")
    outputs = edgekit_openvino.load(file).run({f"{name}x": np.array([[-1, 0, 1, 2]], np.float32)})
    assert {key: value.tolist() for key, value in outputs.items()} == {f"{name}y": [[0, 0, 1, 2]]}


def test_a_rounding_to_integers_behind_a_product_shares_no_limit_of_its_input(tmp_path: Path) -> None:
    """With one zero for both ranges OpenVINO's low-precision transformations compute another network."""
    import openvino
    from openvino import opset13

    rng = np.random.default_rng(0)

    def limit(value: float) -> openvino.Node:
        return opset13.constant(np.full((1, 1), value, np.float32))

    def weights(rows: int, columns: int) -> openvino.Node:
        stored = opset13.constant(rng.integers(-127, 128, (rows, columns)).astype(np.int8))
        scales = rng.uniform(0.001, 0.003, (1, columns)).astype(np.float32)
        return opset13.multiply(opset13.convert(stored, "f32"), opset13.constant(scales))

    x = opset13.parameter([-1, 64], np.float32, "x")
    rounded = opset13.fake_quantize(x, limit(0), limit(2), limit(0), limit(2), 256)
    hidden = opset13.matmul(rounded, weights(64, 64), False, False)
    biased = opset13.add(hidden, opset13.constant(rng.normal(size=(1, 64)).astype(np.float32)))
    integers = opset13.convert(opset13.fake_quantize(biased, limit(0), limit(1.5), limit(0), limit(255), 256), "u8")
    there, back = (np.array([1], np.int64) for _ in range(2))
    widened = opset13.unsqueeze(opset13.convert(integers, "f32"), there)
    centred = opset13.squeeze(opset13.subtract(widened, np.float32(0)), back)  # so that it is fused with no product
    scaled = opset13.multiply(centred, np.float32(1.5 / 255))
    shifted = opset13.add(opset13.matmul(scaled, weights(64, 3), False, False), np.ones((1, 3), np.float32))
    network = openvino.Model([shifted], [x], "g")
    text = '<ir_version: 9, opset_import: ["" : 18]> g (float[N, 64] x) => (float[N, 64] y) { y = Identity(x) }'
    write_ir(network, Model(ir.from_proto(onnx.parser.parse_model(text))), tmp_path / "y.xml", half_weights=False)
    feeds, settings = rng.uniform(0, 2, (4, 64)).astype(np.float32), {"INFERENCE_PRECISION_HINT": "f32"}
    found, expected = (
        next(iter(openvino.Core().compile_model(each, "CPU", settings)(feeds).values()))
        for each in (tmp_path / "y.xml", network)
    )
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_two_roundings_to_integers_share_no_limits(tmp_path: Path) -> None:
    """With the limits of the integers in common, OpenVINO's low-precision transformations compute another network.

    A transformer whose projections are QGemm has such pairs.
    """
    import openvino
    from openvino import opset13

    rng = np.random.default_rng(1)

    def limit(value: float, rank: int = 2) -> openvino.Node:
        return opset13.constant(np.full((1,) * rank, value, np.float32))

    def weights(rows: int, columns: int) -> openvino.Node:
        stored = opset13.constant(rng.integers(-127, 128, (rows, columns)).astype(np.int8))
        scales = rng.uniform(0.001, 0.003, (1, columns)).astype(np.float32)
        return opset13.multiply(opset13.convert(stored, "f32"), opset13.constant(scales))

    def integers(x: openvino.Node, most: float, shape: list[int], scale: float) -> openvino.Node:
        rounded = opset13.fake_quantize(x, limit(-most), limit(most * 127 / 128), limit(-128), limit(127), 256)
        kept = opset13.reshape(opset13.convert(rounded, "i8"), np.array(shape, np.int64), False)
        return opset13.multiply(opset13.convert(kept, "f32"), limit(scale, len(shape)))

    x = opset13.parameter([10, 16], np.int8, "x")
    skipped = opset13.parameter([1, 10, 16], np.float32, "s")
    read = opset13.multiply(opset13.subtract(opset13.convert(x, "f32"), np.float32(3)), limit(0.02))
    first = integers(opset13.matmul(read, weights(16, 16), False, False), 1.7, [1, 10, 16], 1.7 / 128)
    ends = [limit(value, 3) for value in (-4, 3.97)]
    summed = opset13.fake_quantize(opset13.add(skipped, first), *ends, *ends, 256)
    normed = opset13.mvn(summed, np.array([-1], np.int64), True, 1e-5, "inside_sqrt")
    rows = opset13.reshape(normed, np.array([10, 16], np.int64), False)
    ends = [limit(value) for value in (-3, 2.98)]
    hidden = opset13.matmul(opset13.fake_quantize(rows, *ends, *ends, 256), weights(16, 32), False, False)
    biased = opset13.add(hidden, opset13.constant(rng.normal(size=32).astype(np.float32)))
    network = openvino.Model([integers(biased, 1.6, [1, 10, 32], 1.6 / 128)], [x, skipped], "g")
    text = """<ir_version: 9, opset_import: ["" : 18]>
    g (int8[10, 16] x, float[1, 10, 16] s) => (float[1, 10, 16] y) { y = Identity(s) }"""
    write_ir(network, Model(ir.from_proto(onnx.parser.parse_model(text))), tmp_path / "y.xml", half_weights=False)
    feeds = [rng.integers(-128, 128, (10, 16)).astype(np.int8), rng.normal(size=(1, 10, 16)).astype(np.float32)]
    found, exact, expected = (
        next(iter(openvino.Core().compile_model(each, "CPU", settings)(feeds).values()))
        for each, settings in (
            (tmp_path / "y.xml", {"INFERENCE_PRECISION_HINT": "f32"}),
            (tmp_path / "y.xml", {"INFERENCE_PRECISION_HINT": "f32", "LP_TRANSFORMS_MODE": "NO"}),
            (network, {"INFERENCE_PRECISION_HINT": "f32", "LP_TRANSFORMS_MODE": "NO"}),
        )
    )
    np.testing.assert_allclose(exact, expected, atol=1e-4)
    np.testing.assert_allclose(found, expected, atol=0.02)  # one step of the last rounding is 0.0125
