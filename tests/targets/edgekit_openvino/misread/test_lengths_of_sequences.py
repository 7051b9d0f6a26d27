"""Lengths of sequences that are computed from open sizes: only the layer's own number of steps is left out."""

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
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model
from edgekit_openvino.frontend import convert_model

SIZES = [(3, 2), (5, 5), (2, 2), (6, 4), (1, 1), (6, 4)]
STEPS, SEQUENCES = "t = Slice (s, zero, one)", "k = Slice (s, one, two)"
EACH = f"{STEPS} {SEQUENCES} e = Expand (t, k)"
FALLING = f"{EACH} q = Squeeze (k) r = Range (start, q, step) d = Sub (e, r) n = Max (d, one)"
HALF = f"{STEPS} {SEQUENCES} h = Div (t, two) m = Max (h, one) n = Expand (m, k)"
OTHER_SIZE = f"{STEPS} {SEQUENCES} c = Min (k, t) n = Expand (c, k)"
OF_ANOTHER = f"o = Shape (z) t = Slice (o, zero, one) {SEQUENCES} n = Expand (t, k)"


def model_of(lengths: str, kind: str = "GRU", other: str = "K") -> onnx.ModelProto:
    rng, gates = np.random.default_rng(5), {"GRU": 3, "LSTM": 4, "RNN": 1}[kind]
    model = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 17]> g (float[T, N, 4] x, float[{other}] z) =>'
        " (float[T, 2, N, 5] y, float[2, N, 5] last, float[A] w)"
        " <int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64 start = {0}, int64 step = {1}>"
        f" {{ w = Neg (z) s = Shape (x) {lengths} l = Cast <to = 6> (n)"
        f' y, last = {kind} <hidden_size = 5, direction = "bidirectional"> (x, a, b, , l) }}'
    )
    for name, width in (("a", 4), ("b", 5)):
        array = rng.standard_normal((2, gates * 5, width)).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return model


def read_by(model: onnx.ModelProto) -> Model:
    return infer_shapes(Model(ir.from_proto(model)), strict=False)


@pytest.mark.parametrize(
    ("lengths", "kind"),
    [(FALLING, "GRU"), (HALF, "LSTM"), (OTHER_SIZE, "RNN"), (OF_ANOTHER, "GRU")],
    ids=["falling", "half", "least", "of another"],
)
def test_other_lengths_than_all_steps_are_kept(lengths: str, kind: str, tmp_path: Path) -> None:
    model = model_of(lengths, kind)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    itself = openvino.compile_model(openvino.Core().read_model(model.SerializeToString()), "CPU")
    with pytest.raises(UnsupportedOpsError, match="it ignores lengths of sequences of open sizes"):
        convert_model(read_by(model))
    runner = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model"))
    rng, misread = np.random.default_rng(6), []
    for steps, sequences in SIZES:
        feeds = {
            "x": rng.standard_normal((steps, sequences, 4)).astype(np.float32),
            "z": np.zeros(max(1, steps - 1), np.float32),
        }
        expected, found = session.run(["y", "last"], feeds), runner.run(feeds)
        for name, array in zip(["y", "last"], expected, strict=True):
            np.testing.assert_allclose(found[name], array, atol=1e-5)
        misread.append(not np.allclose(itself(feeds)["y"], expected[0], atol=1e-2))
    assert any(misread)


@pytest.mark.parametrize(
    ("lengths", "other"),
    [
        (f"{STEPS} {SEQUENCES} n = Expand (t, k)", "K"),
        (f"{STEPS} {SEQUENCES} n = Tile (t, k)", "K"),
        (OF_ANOTHER, "T"),
    ],
    ids=["expanded", "repeated", "of another of the same size"],
)
def test_the_number_of_steps_of_each_sequence_is_left_out(lengths: str, other: str) -> None:
    convert_model(read_by(model_of(lengths, other=other)))
