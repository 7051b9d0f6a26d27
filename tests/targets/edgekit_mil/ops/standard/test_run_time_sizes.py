"""Post-processing on as many rows as a run finds: every size that ONNX Runtime gets, none included."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import coremltools as ct
import numpy as np
import onnx
import onnxruntime
import pytest

import edgekit_coreml
from edgekit.errors import UnsupportedOpsError

CONSTANTS = {
    "threshold": np.float32(0.5), "overlap": np.float32([0.4]), "least": np.float32([0.3]), "most": np.int64([8]),
    "all": np.int64([2**63 - 1]), "zero": np.int64([0]), "one": np.int64([1]), "two": np.int64([2]),
    "both": np.int64([0, 1]), "few": np.int64([5]), "last": np.int64([-2]), "back": np.int64([-3, -1]),
    "rows": np.int64([-1, 2, 2]), "width": np.int64([10]), "end": np.int64([-1]), "before": np.int64([-(2**63)]),
    "skip": np.int64([-2]), "shift": np.int64([1, -1]), "row": np.float32([[0, 1, 1, 0]]),
    "thirds": np.int64([3, 0, 1]), "first": np.int64(1),
}  # fmt: skip
SELECTED = "over = Greater(s, threshold) found = NonZero(over) i = Squeeze(found, zero) rows_b = Gather(b, i) "
SELECTED += "rows_s = Gather(s, i) "
SUPPRESSED = "b3 = Unsqueeze(b, zero) s3 = Unsqueeze(s, both) kept = NonMaxSuppression(b3, s3, most, overlap, least) "
CASES = {
    "the best of what is kept": SUPPRESSED
    + "t = GatherND(s3, kept) n = Shape(t) k = Min(n, few) v, p = TopK(t, k) r = Gather<axis = 1>(kept, two) "
    "q = Squeeze(r, one) c = Gather(b, q) y = Gather(c, p)",
    "suppression of selected boxes": SELECTED
    + "b3 = Unsqueeze(rows_b, zero) s3 = Unsqueeze(rows_s, both) kept = NonMaxSuppression(b3, s3, all, overlap) "
    "r = Gather<axis = 1>(kept, two) q = Squeeze(r, one) y = Gather(rows_b, q) v = Gather(rows_s, q)",
    "suppression of the best of two classes": SELECTED
    + "n = Shape(rows_s) k = Min(n, few) best, p = TopK(rows_s, k) near = Gather(rows_b, p) "
    "t = Mul(s, s) over_t = Greater(t, threshold) found_t = NonZero(over_t) i_t = Squeeze(found_t, zero) "
    "rows_t = Gather(t, i_t) n_t = Shape(rows_t) k_t = Min(n_t, few) best_t, p_t = TopK(rows_t, k_t) "
    "b_t = Gather(b, i_t) near_t = Gather(b_t, p_t) apart_t = Add(near_t, threshold) "
    "all_b = Concat<axis = 0>(near, apart_t) all_s = Concat<axis = 0>(best, best_t) "
    "b3 = Unsqueeze(all_b, zero) s3 = Unsqueeze(all_s, both) kept = NonMaxSuppression(b3, s3, all, overlap) "
    "r = Gather<axis = 1>(kept, two) q = Squeeze(r, one) y = Gather(all_b, q) v = Gather(all_s, q)",
    "top of all": SELECTED
    + "n = Shape(rows_s) k = Min(n, few) y, p = TopK<largest = 0>(rows_s, k) v = Cast<to = 1>(p)",
    "all of a size that is known, taken from a shape of which the other is not": SELECTED
    + "n = Shape(rows_b) k = Gather(n, one) y, p = TopK(rows_b, k) v = Cast<to = 1>(p)",
    "slice to a computed end": SELECTED
    + "n = Shape(rows_s) k = Min(n, few) y = Slice(rows_b, zero, k, zero) v = Neg(y)",
    "slice from the end": SELECTED + "n = Shape(rows_s) y = Slice(rows_b, last, n, zero) v = Slice(rows_s, zero, last)",
    "split along another axis": SELECTED
    + "x1, y1, x2, y2 = Split<axis = 1, num_outputs = 4>(rows_b) w = Sub(x2, x1) h = Sub(y2, y1) "
    "j = Concat<axis = 1>(x1, y1, w, h) y = Reshape(j, rows) v = Mul(w, h)",
    "split into parts of which one has nothing": SELECTED
    + "x1, none, y2 = Split<axis = 1>(rows_b, thirds) y = Neg(x1) v = Neg(y2)",
    "a size that is known beside one that is not": SELECTED
    + "n = Shape(rows_b) k = Cast<to = 6>(n) p = Slice(k, one, two, zero) w = Squeeze(p, zero) f = Cast<to = 1>(w) "
    "y = Div(rows_s, f) v = Neg(y)",
    "padding to a fixed number": SELECTED
    + "cut = Slice(rows_b, zero, width, zero) n = Shape<start = 0, end = 1>(cut) lacking = Sub(width, n) "
    "pads = Concat<axis = 0>(zero, lacking) y = Pad(cut, pads, , zero) v = Neg(y)",
    "backwards from the end": SELECTED
    + "y = Slice(rows_b, end, before, zero, end) v = Slice(rows_s, end, last, zero, end)",
    "backwards from a place, in steps": SELECTED
    + "y = Slice(rows_s, two, before, zero, skip) v = Slice(rows_b, last, zero, zero, skip)",
    "triangles": SELECTED
    + "t = Transpose(rows_b) m = MatMul(rows_b, t) y = Trilu<upper = 0>(m) u = Trilu(rows_b, first) v = Trilu(t, few)",
    "spectra of rows": SELECTED
    + "u = Unsqueeze(rows_b, end) y = DFT<axis = 1, onesided = 1>(u) v = DFT<axis = 1, inverse = 1>(u)",
    "distinct ones": SELECTED + "t = Round(rows_s) y, f, w, n = Unique(t) v = Cast<to = 1>(n)",
    "distinct rows in the order of their first": SELECTED
    + "t = Round(rows_b) y, f, w, n = Unique<axis = 0, sorted = 0>(t) v = Cast<to = 1>(w)",
    "shifted": SELECTED
    + 'some = Concat<axis = 0>(rows_s, least, overlap) y = Pad<mode = "edge">(some, shift) v = Neg(y)',
    "words in each row": SELECTED + "some = Concat<axis = 0>(rows_b, row) t = Round(some) c = Cast<to = 6>(t) "
    "y = TfIdfVectorizer<max_gram_length = 1, max_skip_count = 0, "
    'min_gram_length = 1, mode = "TF", ngram_counts = [0], ngram_indexes = [1, 0], pool_int64s = [1, 0]>(c) v = Neg(y)',
    "cropping by a computed amount": SELECTED
    + "n = Shape(rows_s) less = Neg(n) half = Div(less, two) pads = Concat<axis = 0>(half, one) "
    "y = Pad(rows_s, pads) v = Neg(y)",
}


def model_of(text: str, outputs: tuple[str, ...] = ("y", "v")) -> onnx.ModelProto:
    """A model of 24 boxes b [24, 4] and scores s [24]."""
    model = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 18]> g (float[24, 4] b, float[24] s) => (float[] z) {{ {text} }}'
    )
    used = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in CONSTANTS.items() if name in used
    )
    made = {name for node in model.graph.node for name in node.output}
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs if name in made)
    for output in model.graph.output:
        output.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    return model


def boxes_and_scores() -> Iterator[dict[str, np.ndarray]]:
    rng = np.random.default_rng(3)
    for scale in (1.0, 1.0, 0.6, 0.01):  # of the last, no score is large enough
        corners = rng.random((24, 2), np.float32)
        sizes = rng.random((24, 2), np.float32)
        scores = rng.random(24, np.float32) * np.float32(scale)
        yield {"b": np.concatenate([corners, corners + sizes], axis=1), "s": scores}


@pytest.mark.parametrize("target", ["iOS16", "iOS18"])
@pytest.mark.parametrize("case", CASES)
def test_agrees_with_onnx_runtime(case: str, target: str, tmp_path: Path) -> None:
    model = model_of(CASES[case])
    package = edgekit_coreml.convert(model, tmp_path / "model", precision="float32", deployment_target=target)
    runner = edgekit_coreml.load(package)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for feeds in boxes_and_scores():
        results = runner.run(feeds)
        for output, expected in zip(session.get_outputs(), session.run(None, feeds), strict=True):
            assert results[output.name].shape == expected.shape
            np.testing.assert_allclose(results[output.name], expected, rtol=1e-5, atol=1e-6)


def test_no_more_boxes_are_chosen_than_are_taken_of_both_classes(tmp_path: Path) -> None:
    model = model_of(CASES["suppression of the best of two classes"])
    package = edgekit_coreml.convert(model, tmp_path / "model", precision="float32", deployment_target="iOS18")
    (function,) = ct.utils.load_spec(str(package)).mlProgram.functions.values()
    (block,) = function.block_specializations.values()
    (suppression,) = (op for op in block.operations if op.type == "non_maximum_suppression")
    (limit,) = suppression.inputs["max_boxes"].arguments
    constants = {op.outputs[0].name: op.attributes["val"] for op in block.operations if op.type == "const"}
    value = constants[limit.name] if limit.name else limit.value
    assert list(value.immediateValue.tensor.ints.values) == [2 * CONSTANTS["few"].item()]


def test_a_size_that_inputs_of_fixed_shape_leave_open_is_not_asked_for(tmp_path: Path) -> None:
    model = model_of(SELECTED + 't = Cast<to = 6>(rows_s) p = Pad<mode = "edge">(t, both) y = Cast<to = 1>(p)')
    with pytest.raises(UnsupportedOpsError) as raised:
        edgekit_coreml.convert(model, tmp_path / "model")
    assert "--dim" not in str(raised.value)
    assert "cut the model before this node with `edgekit extract`" in str(raised.value)
