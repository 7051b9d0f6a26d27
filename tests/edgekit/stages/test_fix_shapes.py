from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx.reference import ReferenceEvaluator

from edgekit.errors import InputError
from edgekit.graph.sizes.shape_request import ShapeRequest
from edgekit.model import Model
from edgekit.stages import StageResult
from edgekit.stages.fix_shapes import FixShapes
from edgekit.stages.load import Load

WriteOnnx = Callable[..., Path]

CONV = "g (float[N, 3, H, W] x) => (float[N, 2, OH, OW] y) { [conv] y = Conv (x, w) }"
CONV_WEIGHTS = np.random.default_rng(0).standard_normal((2, 3, 3, 3)).astype(np.float32)

FLATTEN = """g (float[N, 4, L] x) => (float[N, M] y) {
    s = Shape (x)
    n = Gather (s, first)
    n1 = Unsqueeze (n, axes)
    wanted = Concat <axis = 0> (n1, rest)
    y = Reshape (x, wanted)
}"""
"""What exporters write for ``x.view(x.size(0), -1)``."""
FLATTEN_CONSTANTS = {"first": np.array(0), "axes": np.array([0]), "rest": np.array([-1])}


def fix(path: Path, dims: Sequence[str] = (), shapes: Sequence[str] = ()) -> StageResult:
    return FixShapes(ShapeRequest.parse(dims, shapes))(Load()(path).model)


def refusal(path: Path, dims: Sequence[str] = (), shapes: Sequence[str] = ()) -> str:
    with pytest.raises(InputError) as caught:
        fix(path, dims, shapes)
    return str(caught.value)


def operators(model: Model) -> list[str]:
    return [node.op_type for node in model.graph]


def test_all_shapes_follow_from_the_inputs(onnx_file: WriteOnnx) -> None:
    result = fix(onnx_file(CONV, w=CONV_WEIGHTS), ["N=1", "H=8", "W=10"])
    assert [str(spec) for spec in result.model.inputs] == ["x: float32 1×3×8×10"]
    assert [str(spec) for spec in result.model.outputs] == ["y: float32 1×2×6×8"]
    assert result.record == {
        "sizes": {"N": 1, "H": 8, "W": 10},
        "open": {},
        "inputs": {"x": [1, 3, 8, 10]},
        "outputs": {"y": [1, 2, 6, 8]},
        "still_dynamic": [],
        "folded_nodes": 0,
        "warnings": [],
    }


def test_the_given_model_stays_as_it_is(onnx_file: WriteOnnx) -> None:
    given = Load()(onnx_file(CONV, w=CONV_WEIGHTS)).model
    before = given.proto().SerializeToString()
    FixShapes(ShapeRequest({"N": 1}))(given)
    assert given.proto().SerializeToString() == before


def test_what_stays_dynamic_is_listed_with_its_flag(onnx_file: WriteOnnx) -> None:
    graph = "g (float[N, 3, H] x, float[?, 5] z) => (float[N, 3, H] y, float[?, 5] u) { y = Relu(x) u = Relu(z) }"
    path = onnx_file(graph)
    result = fix(path, ["N=1"])
    assert result.record["still_dynamic"] == [
        {"input": "x", "axis": 2, "dimension": "H", "fix": "--dim H=SIZE"},
        {"input": "z", "axis": 0, "dimension": None, "fix": "--shape z=SIZE,5"},
    ]
    assert result.record["outputs"] == {"y": [1, 3, "H"], "u": [None, 5]}


def test_computed_shapes_become_constant(onnx_file: WriteOnnx) -> None:
    path = onnx_file(FLATTEN, **FLATTEN_CONSTANTS)
    result = fix(path, ["N=2", "L=5"])
    assert operators(result.model) == ["Reshape"]
    assert result.record["outputs"] == {"y": [2, 20]}
    x = np.random.default_rng(0).standard_normal((2, 4, 5)).astype(np.float32)
    found = ReferenceEvaluator(result.model.proto()).run(None, {"x": x})[0]
    np.testing.assert_array_equal(found, x.reshape(2, 20))


def test_computed_shapes_stay_where_they_are_not_known(onnx_file: WriteOnnx) -> None:
    result = fix(onnx_file(FLATTEN, **FLATTEN_CONSTANTS), ["L=5"])
    assert result.record["outputs"]["y"][0] == "N"
    for batch in (1, 3):
        x = np.ones((batch, 4, 5), np.float32)
        assert ReferenceEvaluator(result.model.proto()).run(None, {"x": x})[0].shape == (batch, 20)


def test_a_small_constant_of_shape_is_folded(onnx_file: WriteOnnx) -> None:
    """PyTorch computes paddings through ConstantOfShape; without folding it no shape after a Pad would be known."""
    graph = """g (float[N, 4] x) => (float[P, Q] y) {
        zeros = ConstantOfShape <value = int64[1] {0}> (two)
        pads = Concat <axis = 0> (zeros, ends)
        y = Pad (x, pads)
    }"""
    path = onnx_file(graph, two=np.array([2], np.int64), ends=np.array([0, 3], np.int64))
    result = fix(path, ["N=2"])
    assert operators(result.model) == ["Pad"]
    assert result.record["outputs"] == {"y": [2, 7]}


def test_a_large_constant_of_shape_is_not(onnx_file: WriteOnnx) -> None:
    graph = "g (float[N, 4096] x) => (float[N, 4096] y) { zeros = ConstantOfShape (size) y = Add (x, zeros) }"
    result = fix(onnx_file(graph, size=np.array([4096], np.int64)), ["N=1"])
    assert operators(result.model) == ["ConstantOfShape", "Add"]


def test_a_fixed_shape_may_be_changed_where_the_graph_can_take_it(onnx_file: WriteOnnx) -> None:
    graph = "g (float[1, 3, 8, 8] x) => (float[1, 2, 6, 6] y) { c = Conv (x, w) y = Relu (c) }"
    path = onnx_file(graph, w=CONV_WEIGHTS)
    proto = onnx.shape_inference.infer_shapes(onnx.load(path))  # inner shapes that are about to be wrong
    onnx.save(proto, path)
    result = fix(path, shapes=["x=2,3,16,16"])
    assert result.record["outputs"] == {"y": [2, 2, 14, 14]}
    assert result.warnings == ()


def test_a_model_that_computes_with_ids_is_compared_within_their_range(onnx_file: WriteOnnx) -> None:
    graph = """g (int64[N, L] ids) => (float[N, M] y) {
        e = Gather (table, ids)
        s = Shape (ids)
        n = Gather (s, axes)
        wanted = Concat <axis = 0> (n, rest)
        y = Reshape (e, wanted)
    }"""
    path = onnx_file(graph, table=np.eye(5, 2, dtype=np.float32), **FLATTEN_CONSTANTS)
    result = fix(path, ["N=1", "L=3"])
    assert operators(result.model) == ["Gather", "Reshape"]
    assert result.warnings == ()


# Shapes that the graph cannot take


def test_shapes_that_inference_refuses_name_the_node(onnx_file: WriteOnnx) -> None:
    path = onnx_file("g (float[N, A] x, float[N, B] z) => (float[N, C] y) { [sum] y = Add (x, z) }")
    assert refusal(path, ["N=1", "A=4", "B=3"]) == (
        "node 'sum': cannot take these shapes: Incompatible dimensions\n"
        "found: x: float32 1×4; z: float32 1×3\n"
        "hint: give the shapes that the model was made for"
    )


def test_shapes_of_open_sizes_that_inference_refuses_tell_the_sizes(onnx_file: WriteOnnx) -> None:
    path = onnx_file("g (float[N, A] x, float[N, B] z) => (float[N, C] y) { [sum] y = Add (x, z) }")
    assert "\nfound: x: float32 N×4; z: float32 N×3; N=2..5\n" in refusal(path, ["N=2..5", "A=4", "B=3"])


def test_of_several_nodes_that_inference_refuses_the_first_is_told(onnx_file: WriteOnnx) -> None:
    graph = """g (float[N, 2] x, float[M, 2] z) => (float[K, 4] y) {
        [join] both = Concat <axis = 1> (x, z)
        [root] roots = Sqrt (both)
        [twice] y = Add (roots, roots)
    }"""
    text = refusal(onnx_file(graph), ["N=4", "M=3"])
    assert text.startswith("node 'join': cannot take these shapes: Can't merge shape info.")
    assert text.count("op_type") == 0


def test_the_hint_names_sizes_that_nobody_gave(onnx_file: WriteOnnx) -> None:
    path = onnx_file("g (float[N, 2] x, float[M, 2] z) => (float[K, 4] y) { [join] y = Concat <axis = 1> (x, z) }")
    with pytest.raises(InputError) as caught:
        FixShapes(ShapeRequest.parse(["N=4"]), defaults=True).run(Load()(path).model)
    assert caught.value.hint == "dimension 0 (M) of input 'z' is 1, one sample; --dim M=SIZE makes it another"


def test_numbers_whose_rank_inference_forgets_are_no_contradiction(onnx_file: WriteOnnx) -> None:
    """Places in each of two sounds, from the end: 2×1 less 3 numbers, which ONNX takes for 2 less 3."""
    graph = """g (int64[B] lengths, float[B, 9] x) => (float[B, 3] y) {
        last = Unsqueeze (lengths, one)
        places = Sub (last, steps)
        y = GatherElements <axis = 1> (x, places)
    }"""
    path = onnx_file(graph, one=np.array([1]), steps=np.array([1, 2, 3]))
    assert [str(spec) for spec in fix(path, ["B=2"]).model.outputs] == ["y: float32 2×3"]


def test_shapes_that_only_execution_refuses_name_the_node(onnx_file: WriteOnnx) -> None:
    path = onnx_file(CONV, w=CONV_WEIGHTS)
    assert refusal(path, shapes=["x=1,4,8,8"]) == (
        "node 'conv': cannot take these shapes: Input channels C is not equal to kernel channels * group. "
        "C: 4 kernel channels: 3 group: 1\n"
        "found: x: float32 1×4×8×8\n"
        "hint: give the shapes that the model was made for"
    )


def test_a_constant_reshape_names_its_node(onnx_file: WriteOnnx) -> None:
    graph = "g (float[N, L] x) => (float[2, 8] y) { [view] y = Reshape (x, wanted) }"
    path = onnx_file(graph, wanted=np.array([2, 8], np.int64))
    assert refusal(path, ["N=1", "L=15"]).startswith("node 'view': cannot take these shapes: ")


def test_what_onnx_runtime_cannot_execute_is_fixed_with_a_warning(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17, "vendor": 1]>
        g (float[N, 4] x) => (float[N, 4] y) { r = Relu (x) y = vendor.Secret (r) }"""
    )
    onnx.save(model, tmp_path / "model.onnx")
    result = fix(tmp_path / "model.onnx", ["N=2"])
    assert result.model.inputs[0].shape == (2, 4)
    assert len(result.warnings) == 1
    assert result.warnings[0].startswith("constants were not folded, because the result could not be compared: ")


def test_texts_are_drawn_and_compared(onnx_file: WriteOnnx) -> None:
    result = fix(onnx_file("g (string[N, 4] x) => (string[N, 4] y) { y = Identity (x) }", opset=19), ["N=2"])
    assert result.record["outputs"] == {"y": [2, 4]}
    assert result.warnings == ()


def test_inputs_that_cannot_be_fed_are_a_warning(onnx_file: WriteOnnx) -> None:
    result = fix(
        onnx_file("g (float8e4m3fn[N, 4] x) => (float8e4m3fn[N, 4] y) { y = Identity (x) }", opset=19), ["N=2"]
    )
    assert result.record["outputs"] == {"y": [2, 4]}
    assert len(result.warnings) == 1
    assert result.warnings[0].startswith("constants were not folded, because the result could not be compared: ")


@pytest.mark.slow
def test_a_model_of_more_than_two_gibibytes(tmp_path: Path) -> None:
    """A lookup reads few of its weights: a product of matrices would copy them all, each time that it is executed."""
    rows = 540_000
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> g (int64[N] i) => (float[N, M] y) {
            h = Gather (w, i) s = Shape (h) r = Reshape (h, s) y = Relu (r)
        }"""
    )
    tensor = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=(rows, 1024))
    tensor.data_location = onnx.TensorProto.EXTERNAL
    size = 4 * rows * 1024
    for key, value in {"location": "big.data", "offset": 0, "length": size}.items():
        tensor.external_data.add(key=key, value=str(value))
    model.graph.initializer.append(tensor)
    (tmp_path / "big.onnx").write_bytes(model.SerializeToString())
    with (tmp_path / "big.data").open("wb") as file:
        file.truncate(size)  # zeros that take no room on the disk
    assert size > 2**31
    result = fix(tmp_path / "big.onnx", ["N=1"])
    assert operators(result.model) == ["Gather", "Relu"]
    assert result.record["outputs"] == {"y": [1, 1024]}


def test_a_dimension_with_several_sizes_stays_open(onnx_file: WriteOnnx) -> None:
    result = fix(onnx_file(FLATTEN, **FLATTEN_CONSTANTS), ["N=1..4", "L=5"])
    assert result.model.open_dims == {"N": range(1, 5)}
    assert result.record["open"] == {"N": {"least": 1, "greatest": 4, "default": 1}}
    assert result.record["still_dynamic"] == []
    assert result.model.inputs[0].shape == ("N", 4, 5)
    for batch in (1, 3):
        x = np.ones((batch, 4, 5), np.float32)
        assert ReferenceEvaluator(result.model.proto()).run(None, {"x": x})[0].shape == (batch, 20)


def test_sizes_that_the_graph_cannot_take(onnx_file: WriteOnnx) -> None:
    graph = "g (float[1, L] x) => (float[P, 4] y) { [rows] y = Reshape (x, wanted) }"
    path = onnx_file(graph, wanted=np.array([-1, 4], np.int64))
    assert fix(path, ["L=4,8"]).model.open_dims == {"L": (4, 8)}
    assert refusal(path, ["L=4..9"]).startswith("node 'rows': cannot take these shapes")


TWO_HEIGHTS = "g (float[b, 3, height, w] x, float[b, 1, height, 1] state) => (float[b, 3, height, w] y) { %s }"


def test_whole_shapes_tell_sizes_of_one_name_apart(onnx_file: WriteOnnx) -> None:
    path = onnx_file(TWO_HEIGHTS % "y = Mul (x, state)")
    result = fix(path, shapes=["x=1,3,8,6", "state=1,1,1,1"])
    assert [spec.shape for spec in result.model.inputs] == [(1, 3, 8, 6), (1, 1, 1, 1)]
    assert [spec.shape for spec in result.model.outputs] == [(1, 3, 8, 6)]
    assert (
        "the name 'height' stands for several sizes; each input has the shape that is given for it" in result.warnings
    )


def test_a_size_that_contradicts_a_named_one_is_refused(onnx_file: WriteOnnx) -> None:
    path = onnx_file(TWO_HEIGHTS % "y = Mul (x, state)")
    assert refusal(path, dims=["height=8"], shapes=["x=1,3,8,6", "state=1,1,1,1"]) == (
        "--shape state=1,1,1,1: makes the dimension 'height' 1, while --dim height=8 makes it 8\n"
        "hint: give every dimension one size"
    )


def test_an_output_that_is_named_as_an_input_and_has_another_size(onnx_file: WriteOnnx) -> None:
    """A model that cuts a recording into overlapping windows; its exporter gave all sizes one name."""
    graph = """g (float[N, 2] x) => (float[N, 2] y) {
        rounded = Ceil (half)
        repeats = Cast <to = 7> (rounded)
        y = Tile (x, repeats)
    }"""
    result = fix(onnx_file(graph, half=np.array([1.5, 1.0], np.float32)), ["N=5"])
    assert [str(spec) for spec in result.model.outputs] == ["y: float32 10×2"]


def test_sizes_that_drawn_values_spoil_are_no_fault_of_the_shapes() -> None:
    """A list as long as the numbers say, of which there is none where all are small."""
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[N, 4] x) => (float[?, ?] y) <float limit = {10}> {
        greatest = ReduceMax <keepdims = 0> (x)
        large = Greater(greatest, limit)
        rows = Cast <to = 7> (large)
        given = Unsqueeze(rows, zero)
        shape = Concat <axis = 0> (given, rest)
        y = Reshape <allowzero = 1> (x, shape)
    }"""
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.array([number], np.int64), name) for name, number in (("zero", 0), ("rest", -1))
    )
    model = Model(onnx_ir.from_proto(proto))
    result = FixShapes(ShapeRequest({"N": 2}))(model)
    assert result.model.inputs[0].shape == (2, 4)
    assert "the result could not be compared" in str(result.record["warnings"])


@pytest.mark.parametrize(
    ("declared", "warnings"),
    [
        ("float y", []),  # which inference alone contradicts
        ("float[batch, M, 5] y", []),
        (
            "float[batch, 54, 4] y",
            [
                (
                    "shapes inside the model are computed anew, because those in the file are wrong: output 'y' has "
                    "the shape [1, 12, 4], not [1, 54, 4] as the file says"
                )
            ],
        ),
    ],
)
def test_a_shape_that_an_output_does_not_have_is_not_believed(
    onnx_file: WriteOnnx, declared: str, warnings: list[str]
) -> None:
    """Sizes that were traced with, as LORE's table model has them, or no dimensions, as Paddle's recognizers have."""
    path = onnx_file(f"g (float[batch, N, 4] x) => ({declared}) {{ y = Relu (x) }}")
    loaded = replace(Load()(path).model, sample_shapes={"x": (1, 12, 4)})
    result = FixShapes(ShapeRequest.parse(["batch=1"], []))(loaded)
    assert [str(spec) for spec in result.model.outputs] == ["y: float32 1×N×4"]
    assert result.record["warnings"] == warnings


def test_a_model_is_tried_at_the_shapes_of_a_sample(onnx_file: WriteOnnx) -> None:
    """Of the sizes that are tried else none fits the weights."""
    path = onnx_file(
        "g (float[N, M] x) => (float[N, K] y) { s = Shape (x) c = Concat <axis = 1> (x, x) y = MatMul (c, w) }",
        w=np.ones((54, 2), "f"),
    )
    loaded = Load()(path).model
    (warning,) = FixShapes(ShapeRequest())(loaded).record["warnings"]
    assert warning.startswith("constants were not folded, because the result could not be compared")
    assert not FixShapes(ShapeRequest())(replace(loaded, sample_shapes={"x": (3, 27)})).record["warnings"]


def test_a_size_of_0_is_for_an_input_that_may_be_empty(onnx_file: WriteOnnx) -> None:
    """A decoder's first step, whose past is empty, computes something; a batch of none computes nothing."""
    path = onnx_file(
        "g (float[1, past, 4] cache, float[1, 1, 4] x) => (float[1, K, 4] y) { y = Concat <axis = 1> (cache, x) }"
    )
    result = fix(path, ["past=0"])
    assert [str(spec) for spec in (*result.model.inputs, *result.model.outputs)] == [
        "cache: float32 1×0×4",
        "x: float32 1×1×4",
        "y: float32 1×1×4",
    ]
    assert refusal(onnx_file("g (float[N, 4] x) => (float[N, 4] y) { y = Relu (x) }"), ["N=0"]) == (
        "--dim N=0: leaves every output without elements\n"
        "expected: a whole number from 1; 0 is for an input that may be empty, such as a decoder's past"
    )


@pytest.mark.parametrize("length", ["64", "length"])
def test_a_spectrum_that_does_not_say_that_it_is_one_sided(onnx_file: WriteOnnx, length: str) -> None:
    graph = f"""g (float[1, {length}] x) => (float[1, frames, 3] y) {{
        x3 = Unsqueeze (x, last)
        s = STFT (x3, step, window)
        p = ReduceSumSquare <axes = [-1], keepdims = 0> (s)
        y = MatMul (p, bands)
    }}"""
    weights = {
        "last": np.array([-1]),
        "step": np.array(8),
        "window": np.hanning(16).astype(np.float32),
        "bands": np.ones((9, 3), np.float32),
    }
    result = Load()(onnx_file(graph, opset=17, **weights))
    assert result.record["warnings"] == []
    (output,) = FixShapes(ShapeRequest.parse([], ["x=1,64"]))(result.model).model.outputs
    assert output.shape == (1, 7, 3)


HALVED = """<ir_version: 8, opset_import: ["" : 17]> g (float[N, 2, H, W] x) => (float[N, 2] y)
<int64[1] zero = {0}, int64[1] two = {2}, int64[1] three = {3}, int64[1] channels = {2}> {
    p = MaxPool <kernel_shape = [1, 1], strides = [2, 2]> (x)
    s = Shape (p)
    n = Gather (s, zero)
    h = Gather (s, two)
    w = Gather (s, three)
    hw = Mul (h, w)
    wanted = Concat <axis = 0> (n, channels, hw)
    r = Reshape (p, wanted)
    y = ReduceMax <axes = [2], keepdims = 0> (r)
}"""
"""A picture of half the height and width in one row of places, as attention has it."""


def stated(text: str, name: str, *shape: int | str) -> Model:
    """A graph whose file states a shape for an inner value."""
    proto = onnx.parser.parse_model(text)
    proto.graph.value_info.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape))
    return Model(onnx_ir.from_proto(proto))


@pytest.mark.parametrize("places", ["((H - 1)//2) + 1*((W - 1)//2) + 1", "((H + 1)//2)*((W + 1)//2)"])
def test_inference_is_believed_before_an_expression_of_the_file(places: str) -> None:
    """Exporters leave the brackets of a product out, which makes 2 + 1·3 + 1 of (2 + 1)·(3 + 1)."""
    model = stated(HALVED, "r", "N", 2, places)
    result = FixShapes(ShapeRequest.parse(["N=1", "H=5", "W=7"]))(model).model
    shapes = {value.name: value.shape for node in result.graph for value in node.outputs}
    assert shapes["r"] == (1, 2, 12)
    assert result.graph.outputs[0].shape == (1, 2)


def test_an_expression_of_the_file_counts_where_inference_tells_no_size() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17, "own" : 1]> g (float[N, H] x) => (float[N] y)
    { r = own.Twice (x) y = ReduceMax <axes = [1], keepdims = 0> (r) }"""
    result = FixShapes(ShapeRequest.parse(["N=1", "H=5"]))(stated(text, "r", "N", "2*H")).model
    shapes = {value.name: value.shape for node in result.graph for value in node.outputs}
    assert shapes["r"] == (1, 10)
