"""Masks with one row for all queries, against ONNX's reference: ONNX Runtime refuses them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

import edgekit
from edgekit.graph.reading.attention_masks import give_each_query_a_mask

FOUR = "float[2, 2, 5, 4] q, float[2, 2, 7, 4] k, float[2, 2, 7, 4] v"
THREE = "float[2, 5, 8] q, float[2, 7, 8] k, float[2, 7, 8] v"
OPEN = "float[2, n, 8] q, float[2, 7, 8] k, float[2, 7, 8] v"
HEADS = "<kv_num_heads = 2, q_num_heads = 2>"


def model_of(inputs: str, mask: str, attributes: str = "") -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 23]> g ({inputs}, {mask} m) => (float y) '
        f"{{ y = Attention {attributes} (q, k, v, m) }}"
    )


def feeds(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    arrays = {}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        array = rng.standard_normal([dim.dim_value or 3 for dim in tensor.shape.dim])
        arrays[value.name] = array > -0.5 if tensor.elem_type == onnx.TensorProto.BOOL else array.astype(np.float32)
    return arrays


def run(model: onnx.ModelProto, given: dict[str, np.ndarray]) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return np.asarray(session.run(None, given)[0])


@pytest.mark.parametrize(
    ("inputs", "mask", "attributes"),
    [
        (FOUR, "float[2, 1, 1, 7]", ""),
        (FOUR, "bool[2, 2, 1, 7]", ""),
        (FOUR, "float[1, 7]", ""),
        (THREE, "float[1, 1, 7]", HEADS),
        (OPEN, "float[2, 1, 1, 7]", HEADS),
    ],
)
def test_each_query_gets_a_row(inputs: str, mask: str, attributes: str) -> None:
    proto = model_of(inputs, mask, attributes)
    given = feeds(proto)
    with pytest.raises(Exception, match="inconsistent q_sequence_length"):
        run(proto, given)  # or the test shows nothing
    model = ir.from_proto(proto)
    assert give_each_query_a_mask(model.graph, 23) == 1
    np.testing.assert_allclose(run(ir.to_proto(model), given), ReferenceEvaluator(proto).run(None, given)[0], atol=1e-5)


@pytest.mark.parametrize(
    "model",
    [
        model_of(FOUR, "float[5, 7]"),
        model_of(FOUR, "float[2, 1, 5, 7]"),
        model_of("float[2, 2, 1, 4] q, float[2, 2, 7, 4] k, float[2, 2, 7, 4] v", "float[2, 1, 1, 7]"),
        onnx.parser.parse_model(
            f'<ir_version: 10, opset_import: ["" : 23]> g ({FOUR}) => (float y) {{ y = Attention (q, k, v) }}'
        ),
    ],
    ids=["a row each", "a row each, four axes", "one query", "no mask"],
)
def test_others_stay_as_they_are(model: onnx.ModelProto) -> None:
    assert give_each_query_a_mask(ir.from_proto(model).graph, 23) == 0


@pytest.mark.parametrize("target", ["ios18", "intel-cpu", "onnxruntime"])
def test_such_a_model_is_packaged(tmp_path: Path, target: str) -> None:
    proto = model_of(FOUR, "bool[2, 1, 1, 7]")
    onnx.save(proto, tmp_path / "m.onnx")
    given = feeds(proto)
    (tmp_path / "data").mkdir()
    np.savez(tmp_path / "data" / "0.npz", **given)  # type: ignore[arg-type]
    edgekit.package(tmp_path / "m.onnx", target, tmp_path / "bundle", data=tmp_path / "data", quantize="none")
    expected = ReferenceEvaluator(proto).run(None, given)[0]
    np.testing.assert_allclose(edgekit.load(tmp_path / "bundle").run(given)["y"], expected, atol=0.01)
