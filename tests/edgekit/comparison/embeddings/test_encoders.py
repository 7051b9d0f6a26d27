from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.comparison.embeddings.encoders import embeddings_of
from edgekit.execution.reference import Reference
from edgekit.model import Model

WIDTH = 24
NORMALIZED = {
    "LpNormalization": "y = LpNormalization<axis = 1, p = 2>(h)",
    "torch.nn.functional.normalize": (
        "n = ReduceL2<keepdims = 1>(h, axes) c = Clip(n, tiny) s = Shape(h) e = Expand(c, s) y = Div(h, e)"
    ),
    "torch.linalg.vector_norm": (
        "a = Abs(h) q = Pow(a, two) s = ReduceSum<keepdims = 1>(q, axes) n = Pow(s, half) c = Max(n, tiny) "
        "y = Div(h, c)"
    ),
    "keras UnitNormalization": (
        "q = Mul(h, h) s = ReduceSum<keepdims = 1>(q, axes) c = Max(s, tiny) r = Sqrt(c) i = Reciprocal(r) "
        "y = Mul(h, i)"
    ),
    "tf.math.l2_normalize": (
        "q = Pow(h, two) s = ReduceSum<keepdims = 1>(q, axes) c = Add(s, tiny) r = Sqrt(c) i = Div(one, r) "
        "y = Mul(i, h)"
    ),
    "a power": "s = ReduceSumSquare<keepdims = 1>(h, axes) i = Pow(s, minus) y = Mul(h, i)",
    "no zeros": (
        "n = ReduceL2<keepdims = 1>(h, axes) z = Equal(n, nought) c = Where(z, one, n) d = Div(h, c) y = Identity(d)"
    ),
    "in a map": (
        "g = Reshape(h, map) f = Flatten(g) n = ReduceL2<keepdims = 1>(f, axes) d = Div(f, n) "
        "j = Concat<axis = 1>(d) y = Squeeze(j, none)"
    ),
}
OTHERS = {
    "as it is": "y = Identity(h)",
    "by its sum": "s = ReduceSum<keepdims = 1>(h, axes) y = Div(h, s)",
    "by its first norm": "y = LpNormalization<axis = 1, p = 1>(h)",
    "by another vector's length": "o = Tanh(h) n = ReduceL2<keepdims = 1>(o, axes) y = Div(h, n)",
    "across the samples": "n = ReduceL2<keepdims = 1>(h, nought_axes) y = Div(h, n)",
    "scores": "p = Softmax<axis = 1>(h) n = ReduceL2<keepdims = 1>(p, axes) y = Div(p, n)",
    "layer normalization": (
        "m = ReduceMean<keepdims = 1>(h, axes) d = Sub(h, m) q = Mul(d, d) v = ReduceMean<keepdims = 1>(q, axes) "
        "r = Sqrt(v) y = Div(d, r)"
    ),
}
CONSTANTS: dict[str, Any] = {
    "axes": np.array([1]),
    "nought_axes": np.array([0]),
    "none": np.array([], np.int64),
    "map": np.array([-1, WIDTH, 1, 1]),
    **{
        name: np.float32(number)
        for name, number in (("tiny", 1e-12), ("two", 2), ("half", 0.5), ("one", 1), ("minus", -0.5), ("nought", 0))
    },
}


def encoder(body: str, output: str = "y", width: int = WIDTH) -> Model:
    """``h`` is the hidden vector of each of two samples, and ``body`` computes ``y`` of it."""
    head = '<ir_version: 9, opset_import: ["": 18]>'
    text = f"{head} g (float[2, 6] x) => (float[b, {width}] {output}) {{ h = MatMul(x, w) {body} }}"
    proto = onnx.parser.parse_model(text if output == "y" else text.replace("y = ", f"{output} = "))
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((6, width)).astype(np.float32), **CONSTANTS}
    used = {name for node in proto.graph.node for name in node.input}
    for name in sorted(used & weights.keys()):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(weights[name]), name))
    return Model(ir.from_proto(onnx.shape_inference.infer_shapes(proto)))


def found(model: Model) -> tuple[str, ...]:
    """Returns which outputs are recognized as embeddings, from what ONNX Runtime computes for two samples."""
    rng = np.random.default_rng(1)
    feeds = {spec.name: rng.standard_normal((2, 6)).astype(np.float32) for spec in model.inputs}
    return embeddings_of(model.graph, [Reference(model).run(feeds)])


@pytest.mark.parametrize("written", NORMALIZED)
def test_a_vector_that_the_graph_divides_by_its_length_is_an_embedding(written: str) -> None:
    assert found(encoder(NORMALIZED[written])) == ("y",)


@pytest.mark.parametrize("written", OTHERS)
def test_other_vectors_are_none(written: str) -> None:
    assert found(encoder(OTHERS[written])) == ()


@pytest.mark.parametrize("name", ["sentence_embedding", "embedding", "embeddings", "text_embeds", "image_embeds"])
def test_the_name_that_exporters_give_tells_an_embedding(name: str) -> None:
    assert found(encoder("y = Identity(h)", name)) == (name,)
    assert found(encoder("y = Softmax<axis = 1>(h)", name)) == ()
    assert found(encoder("y = Sigmoid(h)", name)) == ()


def test_few_numbers_are_no_embedding() -> None:
    assert found(encoder(NORMALIZED["LpNormalization"], width=15)) == ()
    assert found(encoder("y = Identity(h)", "embedding", width=15)) == ()
    assert found(encoder(NORMALIZED["LpNormalization"], width=16)) == ("y",)


POOLED = (
    '<ir_version: 9, opset_import: ["": 18]> g (float[2, 5, 24] x, int64[2, 5] mask) => (float[2, 24] y) '
    "{ m = Cast<to = 1>(mask) u = Unsqueeze(m, last) s = Shape(x) e = Expand(u, s) p = Mul(x, e) "
    "t = ReduceSum<keepdims = 0>(p, axes) c = ReduceSum<keepdims = 0>(COUNTED, axes) k = Clip(c, tiny) y = Div(t, k) }"
)


@pytest.mark.parametrize(("counted", "outputs"), [("e", ("y",)), ("x", ())])
def test_a_sequence_s_mean_under_a_mask_is_an_embedding(counted: str, outputs: tuple[str, ...]) -> None:
    proto = onnx.parser.parse_model(POOLED.replace("COUNTED", counted))
    for name, array in (("last", np.array([-1])), ("axes", np.array([1])), ("tiny", np.float32(1e-9))):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), name))
    model = Model(ir.from_proto(proto))
    feeds = {"x": np.ones((2, 5, 24), np.float32), "mask": np.array([[1, 1, 0, 0, 0], [1, 1, 1, 1, 0]])}
    assert embeddings_of(model.graph, [Reference(model).run(feeds)]) == outputs


@pytest.mark.parametrize("opset", [11, 17])
def test_what_pytorch_exports_is_recognised(opset: int) -> None:
    torch = pytest.importorskip("torch")

    class Encoder(torch.nn.Module):  # type: ignore[misc, name-defined]  # torch is optional, so untyped here
        def __init__(self) -> None:
            super().__init__()
            self.hidden, self.classes = torch.nn.Linear(6, WIDTH), torch.nn.Linear(6, WIDTH)

        def forward(self, x: Any) -> Any:
            return torch.nn.functional.normalize(self.hidden(x), dim=-1), torch.softmax(self.classes(x), -1)

    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of the exporter by tracing, which most files come from
        torch.onnx.export(
            Encoder().eval(),
            (torch.zeros(2, 6),),
            file,
            dynamo=False,
            opset_version=opset,
            input_names=["x"],
            output_names=["vector", "scores"],
        )
    assert found(Model(ir.from_proto(onnx.load_from_string(file.getvalue())))) == ("vector",)
