"""Integers for Qualcomm's NPU, judged by what its compiler accepts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.data.samples import Sample
from edgekit.model import Model
from edgekit.quantizer import QuantizationRequest, QuantizationResult
from edgekit.registry import find_profile
from edgekit.stages.quantize import refused
from edgekit_quantize.plugin import PostTrainingQuantizer

CNN = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 3, 16, 16] x) => (float[1, 10] y) {
  c = Conv<pads = [1, 1, 1, 1]>(x, w1, b1)
  h = HardSwish(c)
  d = Conv<group = 16, pads = [1, 1, 1, 1]>(h, w2, b1)
  r = Relu(d)
  e = Conv(r, w3, b1)
  p = GlobalAveragePool(e)
  f = Flatten(p)
  y = Gemm(f, w4, b4)
}"""
PICTURE = CNN[: CNN.index("  p = ")].replace("[1, 10] y", "[1, 16, 16, 16] e") + "}"
SHAPES = {"w1": (16, 3, 3, 3), "w2": (16, 1, 3, 3), "w3": (16, 16, 1, 1), "w4": (16, 10), "b1": (16,), "b4": (10,)}


class Drawn:
    has_labels = False

    def __len__(self) -> int:
        return 16

    def __iter__(self) -> Iterator[Sample]:
        rng = np.random.default_rng(1)
        for number in range(len(self)):
            yield Sample(str(number), {"x": rng.normal(size=(1, 3, 16, 16)).astype(np.float32)})


def quantized(scheme: str, max_drop: float, graph: str = CNN, loudest: float = 1.0) -> QuantizationResult:
    """For the NPU.

    Args:
        graph: The network.
        scheme: Of the quantizer.
        max_drop: The budget.
        loudest: How many times as large as the others the first filter of the depthwise convolution is; the layer
            behind takes as much off again.
    """
    rng = np.random.default_rng(2)
    proto = onnx.parser.parse_model(graph)
    for name, shape in SHAPES.items():
        array = (rng.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        if name == "w2":
            array[0] *= loudest
        if name == "w3":
            array[:, 0] /= loudest
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    model = Model(ir.from_proto(onnx.shape_inference.infer_shapes(proto)))
    target, profile = find_profile("android-qnn")
    placement = target.placement(profile)
    request = QuantizationRequest(model, scheme, Drawn(), max_drop, placement=placement)
    return PostTrainingQuantizer().quantize(request)


@pytest.fixture
def small() -> Model:
    return quantized("int8", 1.0).model


def activation_types(model: Model) -> set[ir.DataType | None]:
    zero_points = [node.inputs[2] for node in model.graph if node.op_type == "QuantizeLinear"]
    return {value.dtype for value in zero_points if value is not None}


def test_activations_have_8_bits_where_they_do(small: Model) -> None:
    assert activation_types(small) == {ir.DataType.UINT8}


def test_activations_have_16_bits_where_8_lose_too_much() -> None:
    """A channel 30 times as loud as the others leaves each of those 8 steps of 255."""
    result = quantized("auto", 0.003, PICTURE, loudest=30)

    tried = {point["candidate"]: point for point in result.record["curve"]}
    assert tried["integers from layer to layer"]["drop"] > 0.015
    assert result.record["chosen"] == "integers from layer to layer, 16 bits for activations"
    assert activation_types(result.model) == {ir.DataType.UINT16}
    assert result.model.opset == 21  # the first one whose QuantizeLinear has 16 bits


def test_integers_that_miss_are_rounded_with_more_care_though_stored_ones_hold() -> None:
    budget = 0.0012
    result = quantized("auto", budget, PICTURE, loudest=30)

    tried = {point["candidate"]: point["drop"] for point in result.record["curve"]}
    assert tried["weights only"] < budget < tried["integers from layer to layer, 16 bits for activations"]
    assert "integers from layer to layer, 16 bits for activations, weights rounded adaptively" in tried


def test_layers_hand_integers_to_each_other(small: Model) -> None:
    for node in small.graph:
        if node.op_type == "Conv":
            sources = [value.producer() for value in node.inputs if value is not None]
            assert [source.op_type for source in sources if source is not None] == ["DequantizeLinear"] * 3
            (reader,) = {user.op_type for user, _ in node.outputs[0].uses()}
            assert reader in {"QuantizeLinear", "Relu"}
    biases = [v for v in small.graph.initializers.values() if v.dtype is ir.DataType.INT32]
    assert len(biases) == 4


@pytest.mark.slow
def test_the_compiler_takes_all_between_input_and_output(small: Model) -> None:
    pytest.importorskip("onnxruntime_qnn", reason="QNN's compiler is not installed (onnxruntime-qnn)")
    target, profile = find_profile("android-qnn")

    verdicts = target.check(small, profile)

    left = [verdict for verdict in verdicts if verdict.unit != "NPU"]
    assert {verdict.op_type for verdict in verdicts if verdict.unit == "NPU"} >= {"Conv", "GlobalAveragePool"}
    assert not {verdict.op_type for verdict in left} & {"Conv", "HardSwish", "Relu", "GlobalAveragePool"}
    assert len(left) <= 5  # where floats become integers and the other way round: the first node, and the last layer


def test_ranges_of_the_moment_are_refused() -> None:
    assert "int8-dynamic" in refused(*find_profile("android-qnn"))
    assert "int8-dynamic" not in refused(*find_profile("android-cpu"))
