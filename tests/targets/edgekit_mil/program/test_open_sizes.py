"""Sizes that follow from open dimensions: declared as ranges, and computed with as the sums that they are."""

from __future__ import annotations

import coremltools as ct
import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, parser

import edgekit_coreml
from edgekit.errors import InputError, UnsupportedOpsError
from edgekit_mil.program.open_sizes import OpenSize

DIMENSIONS = {"past": range(1, 13), "new": (1, 4, 2)}


@pytest.mark.parametrize(
    ("dim", "factors", "constant", "bounds"),
    [
        ("past", {"past": 1}, 0, (1, 12)),
        ("past + 1", {"past": 1}, 1, (2, 13)),
        ("past + new", {"past": 1, "new": 1}, 0, (2, 16)),
        ("2*past - new + 3", {"past": 2, "new": -1}, 3, (1, 26)),
    ],
)
def test_sums_are_read(dim: str, factors: dict[str, int], constant: int, bounds: tuple[int, int]) -> None:
    size = OpenSize.parse(dim, DIMENSIONS)
    assert size == OpenSize(factors, constant)
    assert size.bounds(DIMENSIONS) == bounds


@pytest.mark.parametrize(
    "dim", [None, "other", "past + other", "past - 1", "past*new", "floor(past/2)", "Max(past, 3)", "8*(past//8)"]
)
def test_what_is_no_positive_sum_of_open_dimensions_is_none(dim: str | None) -> None:
    assert OpenSize.parse(dim, DIMENSIONS) is None


def decoder_step():
    """A key is appended to those of the past, and what the mask says is added to the scores of all of them."""
    model = parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[1, n, 4] q, float[1, p, 4] past, float[1, m] mask) => (float[1, n, m] y)
        {
            keys = Concat <axis = 1> (past, q)
            turned = Transpose <perm = [0, 2, 1]> (keys)
            scores = MatMul (q, turned)
            masked = Add (scores, mask)
            y = Softmax <axis = -1> (masked)
        }
    """)
    model.graph.input[2].type.tensor_type.shape.dim[1].dim_param = "p + n"
    assert model.graph.input[2].type.tensor_type.elem_type == TensorProto.FLOAT
    return model


def feeds_of(rng, new: int, past: int):
    shapes = {"q": (1, new, 4), "past": (1, past, 4), "mask": (1, past + new)}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def test_a_mask_as_long_as_past_and_new(tmp_path, rng):
    model = decoder_step()
    package = edgekit_coreml.convert(
        model, tmp_path / "m", precision="float32", dimensions={"n": range(1, 4), "p": range(2, 10)}
    )
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    runner = edgekit_coreml.load(package)
    for new, past in [(1, 2), (3, 9), (2, 5)]:
        feeds = feeds_of(rng, new, past)
        np.testing.assert_allclose(runner.run(feeds)["y"], session.run(None, feeds)[0], rtol=0, atol=1e-6)
    spec = ct.models.MLModel(str(package), skip_model_load=True).get_spec()
    mask = next(feature for feature in spec.description.input if feature.name == "mask")
    sizes = mask.type.multiArrayType.shapeRange.sizeRanges[1]
    assert (sizes.lowerBound, sizes.upperBound) == (3, 12)
    with pytest.raises(InputError, match="out of the range"):
        runner.run({**feeds_of(rng, 1, 2), "mask": np.zeros((1, 13), np.float32)})


def test_listed_sizes_that_follow_from_others_are_listed(tmp_path, rng):
    model = decoder_step()
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 1
    model.graph.input[2].type.tensor_type.shape.dim[1].dim_param = "p + 1"
    package = edgekit_coreml.convert(
        model, tmp_path / "m", deployment_target="iOS18", precision="float32", dimensions={"p": (2, 9)}
    )
    spec = ct.models.MLModel(str(package), skip_model_load=True).get_spec()
    shapes = {
        feature.name: [list(one.shape) for one in feature.type.multiArrayType.enumeratedShapes.shapes]
        for feature in spec.description.input
    }
    assert (shapes["past"], shapes["mask"]) == ([[1, 2, 4], [1, 9, 4]], [[1, 3], [1, 10]])
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for past in (2, 9):
        feeds = feeds_of(rng, 1, past)
        found = edgekit_coreml.load(package).run(feeds)["y"]
        np.testing.assert_allclose(found, session.run(None, feeds)[0], rtol=0, atol=1e-6)


def test_a_dimension_that_a_run_tells_to_be_one_or_what_is_asked_for_is_expanded(tmp_path):
    """Compress keeps one column, or all four: nothing tells before a run how many."""
    model = parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[rows, 4] x, int64[4] kept) => (float[rows, 4] y)
        <int64[2] asked_for = {1, 4}>
        {
            is_kept = Cast <to = 9> (kept)
            columns = Compress <axis = 1> (x, is_kept)
            y = Expand (columns, asked_for)
        }
    """)
    dimensions = {"rows": range(1, 6)}
    runner = edgekit_coreml.load(
        edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions=dimensions)
    )
    for rows in (2, 5):
        x = np.arange(rows * 4, dtype=np.float32).reshape(rows, 4)
        for kept in ([0, 0, 1, 0], [1, 1, 1, 1]):
            found = runner.run({"x": x, "kept": np.array(kept)})["y"]
            np.testing.assert_array_equal(found, np.broadcast_to(x[:, np.array(kept, bool)], (rows, 4)))


@pytest.mark.parametrize("dtype", ["int64", "int32", "bool"])
@pytest.mark.parametrize("shape", ["n, 3", "2, n"])
def test_integers_and_booleans_of_an_open_size_are_padded(tmp_path, dtype, shape):
    model = parser.parse_model(f"""
        <ir_version: 8, opset_import: ["" : 17]>
        g ({dtype}[{shape}] x) => ({dtype}[P, Q] y) <int64[4] pads = {{1, 0, 2, 1}}> {{ y = Pad (x, pads) }}
    """)
    package = edgekit_coreml.convert(model, tmp_path / "m", dimensions={"n": range(1, 6)})
    runner = edgekit_coreml.load(package)
    for size in (1, 4):
        x = np.ones([size if dim == "n" else int(dim) for dim in shape.split(", ")], dtype)
        np.testing.assert_array_equal(runner.run({"x": x})["y"], np.pad(x, [(1, 2), (0, 1)]))


def test_a_size_of_0_that_onnx_infers_from_an_open_one_is_not_believed(tmp_path, rng):
    model = parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[2, n] x) => (float[2, 0] y) { y = Concat <axis = 1> (x, x) }
    """)
    x = rng.standard_normal((2, 3)).astype(np.float32)
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions={"n": range(1, 5)})
    np.testing.assert_array_equal(edgekit_coreml.load(package).run({"x": x})["y"], np.concatenate([x, x], 1))


def test_an_input_without_elements_has_no_open_sizes(tmp_path):
    model = parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[n, 0] x) => (float[n, 1] y) { y = ReduceSum <keepdims = 1> (x) }
    """)
    with pytest.raises(UnsupportedOpsError, match=r"'x'\): has no elements, and open sizes \(n\).*--dim n=SIZE"):
        edgekit_coreml.convert(model, tmp_path / "m", dimensions={"n": range(1, 5)})


def test_a_size_beside_an_open_one_that_cannot_be_repeated_is_refused(tmp_path):
    model = parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[n, 2] x) => (float[a, 4] y) <int64[2] shape = {1, 4}> { y = Expand (x, shape) }
    """)
    with pytest.raises(UnsupportedOpsError, match=r"cannot repeat .×2 to 1×4"):
        edgekit_coreml.convert(model, tmp_path / "m", dimensions={"n": range(1, 5)})
