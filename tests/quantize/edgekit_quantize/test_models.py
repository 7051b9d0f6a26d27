"""What models may contain: each is quantized as a whole, and its outputs are compared with those of the original."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from edgekit.data.samples import Sample
from edgekit.model import Model
from edgekit.quantizer import QuantizationRequest
from edgekit.registry import find_profile
from edgekit.stages.quantize import Execute
from edgekit.target import BuildOptions
from edgekit_quantize.plugin import PostTrainingQuantizer

X = "float[1, 3, 12, 12] x"
SHAPES = {
    "w": (16, 3, 3, 3),
    "v": (16, 16, 3, 3),
    "flat": (16, 27),
    "turned": (3, 3, 3, 16),
    "m": (16, 24),
    "s": (24, 24),
    "start": (3, 24),
}
MODELS = {
    "branch": (
        17,
        f"""g ({X}, bool b) => (float[1, 16, 8, 8] y) {{
          c = Conv(x, w)
          a = If(b) <then_branch = t () => (float[1, 16, 10, 10] p) {{ p = Relu(c) }},
                     else_branch = e () => (float[1, 16, 10, 10] q) {{ q = Neg(c) }}>
          y = Conv(a, v)
        }}""",
        2,
    ),
    "convolutions inside a branch": (
        17,
        f"""g ({X}, bool b) => (float[1, 16, 8, 8] y) {{
          c = Conv(x, w)
          y = If(b) <then_branch = t () => (float[1, 16, 8, 8] p) {{ p = Conv(c, v) }},
                     else_branch = e () => (float[1, 16, 8, 8] q) {{ r = Relu(c)  q = Conv(r, v) }}>
        }}""",
        3,
    ),
    "branches with the same names": (
        17,
        f"""g ({X}, bool b) => (float[1, 16, 8, 8] y) {{
          y = If(b) <then_branch = t () => (float[1, 16, 8, 8] q) {{ c = Conv(x, w)  r = Relu(c)  q = Conv(r, v) }},
                     else_branch = e () => (float[1, 16, 8, 8] q) {{ c = Conv(x, w)  r = Tanh(c)  q = Conv(r, v) }}>
        }}""",
        4,
    ),
    "a branch that no sample takes": (
        17,
        f"""g ({X}, bool b) => (float[1, 16, 8, 8] y) {{
          c = Conv(x, w)
          h = Abs(x)
          all = ReduceMax<keepdims = 0>(h)
          far = Greater(all, limit)
          y = If(far) <then_branch = t () => (float[1, 16, 8, 8] p) {{ i = Neg(c)  p = Conv(i, v) }},
                       else_branch = e () => (float[1, 16, 8, 8] q) {{ r = Relu(c)  q = Conv(r, v) }}>
        }}""",
        2,
    ),
    "a branch in a loop": (
        17,
        f"""g ({X}, bool b) => (float[1, 24] y) {{
          p = GlobalAveragePool(x)
          f = Flatten(p)
          first = MatMul(f, start)
          y = Loop(three, go, first) <body = l (int64 i, bool before, float[1, 24] state) =>
                                               (bool after, float[1, 24] next) {{
            after = Identity(before)
            odd = Equal(i, one)
            next = If(odd) <then_branch = t () => (float[1, 24] h) {{ n = MatMul(state, s)  h = Tanh(n) }},
                            else_branch = e () => (float[1, 24] k) {{ a = Relu(state)  k = MatMul(a, s) }}>
          }}>
        }}""",
        3,
    ),
    "scan": (
        17,
        f"""g ({X}, bool b) => (float[1, 24] y) {{
          c = Conv(x, w)
          p = GlobalAveragePool(c)
          f = Flatten(p)
          first = MatMul(f, m)
          y, each = Scan<num_scan_inputs = 1, body = l (float[1, 24] state, float[3, 12, 12] of) =>
                                              (float[1, 24] next, float[1, 24] out) {{
            n = MatMul(state, s)
            next = Tanh(n)
            out = Identity(n)
          }}>(first, x)
        }}""",
        2,
    ),
    "loop": (
        17,
        f"""g ({X}, bool b) => (float[1, 24] y) {{
          c = Conv(x, w)
          p = GlobalAveragePool(c)
          f = Flatten(p)
          first = MatMul(f, m)
          y = Loop(three, go, first) <body = l (int64 i, bool before, float[1, 24] state) =>
                                               (bool after, float[1, 24] next) {{
            after = Identity(before)
            n = MatMul(state, s)
            next = Tanh(n)
          }}>
        }}""",
        3,
    ),
    "opset 9": (
        9,
        f"""g ({X}, bool b) => (float[1, 24] y) {{
          c = Conv(x, w)
          r = Relu(c)
          p = GlobalAveragePool(r)
          f = Squeeze<axes = [2, 3]>(p)
          y = MatMul(f, m)
        }}""",
        2,
    ),
    "shared weights": (
        17,
        f"""g ({X}, bool b) => (float[1, 16, 6, 6] y) {{
          c = Conv(x, w)  r = Relu(c)  d = Conv(r, v)  t = Tanh(d)  y = Conv(t, v)
        }}""",
        3,
    ),
    "weights out of Reshape": (
        17,
        f"""g ({X}, bool b) => (float[1, 16, 10, 10] y) {{
          shape = Constant<value_ints = [16, 3, 3, 3]>()
          k = Reshape(flat, shape)
          y = Conv(x, k)
        }}""",
        1,
    ),
    "weights out of Transpose": (
        17,
        f"""g ({X}, bool b) => (float[1, 16, 10, 10] y) {{
          k = Transpose<perm = [3, 0, 1, 2]>(turned)
          y = Conv(x, k)
        }}""",
        1,
    ),
    "weights in Constant nodes": (
        17,
        f"""g ({X}, bool b) => (float[1, 16, 10, 10] y) {{
          k = Constant<value = float[1] {{0.0}}>()
          y = Conv(x, k)
        }}""",
        1,
    ),
    "parts that are quantized": (
        17,
        f"""g ({X}, bool b) => (float[1, 16, 8, 8] y) {{
          xq = QuantizeLinear(x, xs, xz)
          xd = DequantizeLinear(xq, xs, xz)
          kd = DequantizeLinear<axis = 0>(kq, ks)
          c = Conv(xd, kd)
          r = Relu(c)
          y = Conv(r, v)
        }}""",
        1,
    ),
    "weights in half precision": (
        17,
        f"""g ({X}, bool b) => (float[1, 16, 10, 10] y) {{ k = Cast<to = 1>(half)  y = Conv(x, k) }}""",
        1,
    ),
    "arithmetic in half precision": (
        17,
        f"""g ({X}, bool b) => (float[1, 16, 10, 10] y) {{
          h = Cast<to = 10>(x)  c = Conv(h, half)  y = Cast<to = 1>(c)
        }}""",
        1,
    ),
}
"""The opset, the graph, and how many layers compute with integers afterwards."""


class Drawn:
    has_labels = False

    def __len__(self) -> int:
        return 16

    def __iter__(self) -> Iterator[Sample]:
        rng = np.random.default_rng(3)
        for number in range(len(self)):
            x = rng.normal(size=(1, 3, 12, 12)).astype(np.float32)
            yield Sample(str(number), {"x": x, "b": np.array(number % 2 == 0)})


def _model(name: str) -> Model:
    opset, text, _ = MODELS[name]
    rng = np.random.default_rng(4)
    arrays = {key: (rng.normal(size=shape) / 5).astype(np.float32) for key, shape in SHAPES.items()}
    constants = {
        **arrays,
        "three": np.array(3),
        "one": np.array(1),
        "limit": np.array(9.0, np.float32),
        "go": np.array(True),
        "half": arrays["w"].astype(np.float16),
        "kq": np.clip(np.rint(arrays["w"] * 127), -127, 127).astype(np.int8),
        "ks": np.full(16, 1 / 127, np.float32),
        "xs": np.array(0.03, np.float32),
        "xz": np.array(128, np.uint8),
    }
    proto = onnx.parser.parse_model(f'<ir_version: 4, opset_import: ["" : {opset}]> {text}')
    used = {value for node in _nodes(proto.graph) for value in node.input}
    for key, array in constants.items():
        if key in used:
            proto.graph.initializer.append(onnx.numpy_helper.from_array(array, key))
    for node in proto.graph.node:
        if node.op_type == "Constant" and node.output[0] == "k":
            node.attribute[0].t.CopyFrom(onnx.numpy_helper.from_array(arrays["w"], "k"))
    onnx.checker.check_model(proto, full_check=True)
    return Model(ir.from_proto(proto))


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            yield from _nodes(attribute.g)


def _outputs(model: Model) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(model.proto().SerializeToString(), providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    return [session.run(None, {name: sample.feeds[name] for name in names})[0] for sample in Drawn()]


def _sqnr(exact: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> float:
    signal, noise = np.concatenate(exact).astype(np.float64), np.concatenate(found) - np.concatenate(exact)
    return float(10 * np.log10(np.sum(signal**2) / np.sum(noise**2))) if noise.any() else np.inf


@pytest.mark.parametrize("name", MODELS)
def test_integers_stand_for_the_float_model(name: str) -> None:
    model = _model(name)
    result = PostTrainingQuantizer().quantize(QuantizationRequest(model, "int8", Drawn(), 1.0))

    onnx.checker.check_model(result.model.proto(), full_check=True)
    assert len(result.record["quantized"]) == MODELS[name][2]
    assert _sqnr(_outputs(model), _outputs(result.model)) > 28


@pytest.mark.parametrize("scheme", ["int8-weights", "int4-weights", "int8-dynamic", "float16"])
@pytest.mark.parametrize("name", MODELS)
def test_so_do_weights_alone(name: str, scheme: str) -> None:
    model = _model(name)
    result = PostTrainingQuantizer().quantize(QuantizationRequest(model, scheme, None))

    onnx.checker.check_model(result.model.proto(), full_check=True)
    assert _sqnr(_outputs(model), _outputs(result.model)) > (15 if scheme == "int4-weights" else 30)


@pytest.mark.parametrize("target", ["onnxruntime", "intel-cpu", "ios18"])
@pytest.mark.parametrize("name", MODELS)
def test_and_so_they_do_on_a_target(name: str, target: str) -> None:
    model = _model(name)
    plugin, profile = find_profile(target)
    execute = Execute(plugin, profile, BuildOptions())
    placement = plugin.placement(profile)
    request = QuantizationRequest(model, "int8", Drawn(), 1.0, placement=placement, execute=execute)
    small = PostTrainingQuantizer().quantize(request).model

    runner = execute(small)
    names = [spec.name for spec in model.inputs]
    found = [runner.run({name: sample.feeds[name] for name in names})["y"] for sample in Drawn()]
    assert _sqnr(_outputs(model), found) > 25
