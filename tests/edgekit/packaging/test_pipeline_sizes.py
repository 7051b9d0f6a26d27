"""Which sizes a bundle takes: those that were asked for, those of the samples, and what the device holds."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from edgekit.api_bundles import load
from edgekit.bundle import Bundle
from edgekit.bundle_checks.verification import verify_bundle
from edgekit.errors import InputError
from edgekit.graph.sizes.shape_request import ShapeRequest
from edgekit.packaging.pipeline import package
from edgekit.packaging.request import PackageRequest
from edgekit.progress import Progress


def packaged(output: Path, model: Path, target: str, **rest: Any) -> Bundle:
    return package(PackageRequest(model, target, output, **rest), Progress())


def record(bundle: Bundle, stage: str) -> Any:
    return [one["record"] for one in bundle.manifest["stages"] if one["name"] == stage][-1]


STEPS = "g (float[batch, steps] x) => (float[batch, steps] y) { y = Relu(x) }"


def drawn(folder: Path, *sizes: int) -> Path:
    """A folder of samples of one row each."""
    folder.mkdir()
    for number, size in enumerate(sizes):
        x = np.random.default_rng(number).standard_normal((1, size)).astype(np.float32)
        np.savez(folder / f"{number}.npz", x=x)
    return folder


@pytest.mark.parametrize(("target", "shape"), [("ios18", [1, 16]), ("onnxruntime", [1, "steps"])])
def test_a_device_of_fixed_shapes_has_the_sizes_of_the_samples(
    tmp_path: Path, onnx_file: Callable[..., Path], target: str, shape: list[Any]
) -> None:
    model, data = onnx_file(STEPS), drawn(tmp_path / "data", 16, 16)
    bundle = packaged(tmp_path / "out", model, target, data=data, quantize="none")
    assert [feature["shape"] for feature in bundle.manifest["inputs"]] == [shape]
    assert verify_bundle(bundle, data, model).accuracy is not None


def test_a_dimension_has_the_range_of_the_samples_on_a_device_that_takes_one(
    tmp_path: Path, onnx_file: Callable[..., Path]
) -> None:
    model, data = onnx_file(STEPS), drawn(tmp_path / "data", 16, 12, 30)
    bundle = packaged(tmp_path / "out", model, "ios18", data=data, quantize="none")
    assert [feature["shape"] for feature in bundle.manifest["inputs"]] == [[1, "steps"]]
    assert bundle.open_dims == {"steps": range(12, 31)}
    assert verify_bundle(bundle, data, model).accuracy is not None


def test_a_dimension_without_a_name_gets_one_where_samples_have_several_sizes(
    tmp_path: Path, onnx_file: Callable[..., Path]
) -> None:
    model, data = onnx_file(STEPS.replace("steps", "?")), drawn(tmp_path / "data", 16, 12, 30)
    bundle = packaged(tmp_path / "out", model, "ios18", data=data, quantize="none")
    assert [feature["shape"] for feature in bundle.manifest["inputs"]] == [[1, "x_1"]]
    assert bundle.open_dims == {"x_1": range(12, 31)}
    assert verify_bundle(bundle, data, model).accuracy is not None
    (stage,) = (stage for stage in bundle.manifest["stages"] if stage["name"] == "tell dimensions apart")
    assert stage["record"]["warnings"] == [
        "dimension 1 of input 'x' is called 'x_1', it has no name in the file: samples have the sizes 12..30"
    ]


@pytest.mark.parametrize(
    ("target", "sizes", "shape"),
    [
        ("ios18", (16, 16), [1, 16]),
        ("ios18", (16, 8, 24), [1, "x_1"]),
        ("intel-npu", (16, 8, 16), [1, 16]),
        ("onnxruntime", (16, 8, 24), [1, "8*steps"]),
    ],
)
def test_a_dimension_that_is_an_expression_has_the_sizes_of_the_samples(
    tmp_path: Path, onnx_file: Callable[..., Path], target: str, sizes: tuple[int, ...], shape: list[Any]
) -> None:
    """``torch.export`` writes sizes that have to be multiples of 8 so, and there need be no dimension ``steps``."""
    model, data = onnx_file(STEPS), drawn(tmp_path / "data", *sizes)
    proto = onnx.load(model)
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.shape.dim[1].dim_param = "8*steps"
    onnx.save(proto, model)
    bundle = packaged(tmp_path / "out", model, target, data=data, quantize="none")
    assert [feature["shape"] for feature in bundle.manifest["inputs"]] == [shape]
    assert verify_bundle(bundle, data, model).accuracy is not None


@pytest.mark.parametrize("apart", [False, True])
def test_a_device_of_one_size_gets_that_of_most_samples(
    tmp_path: Path, onnx_file: Callable[..., Path], apart: bool
) -> None:
    model, data = onnx_file(STEPS), drawn(tmp_path / "data", 16, 12, 30, 12)
    others = drawn(tmp_path / "others", 16, 12) if apart else None
    bundle = packaged(tmp_path / "out", model, "intel-npu", data=data, verify_data=others, quantize="none")
    assert [feature["shape"] for feature in bundle.manifest["inputs"]] == [[1, 12]]
    assert bundle.manifest["accuracy"]["data"]["samples"] == (1 if apart else 2)
    (stage,) = (stage["record"] for stage in bundle.manifest["stages"] if stage["name"] == "fix shapes")
    assert stage["warnings"][0] == (
        f"{3 if apart else 2} of {6 if apart else 4} samples are left out: dimension 1 (steps) of input 'x' has sizes "
        "12..30, of which 12 is the most frequent; --dim steps=SIZE keeps another"
    )
    accuracy = verify_bundle(bundle, data, model).accuracy
    assert accuracy is not None
    assert accuracy.samples == 2


CACHED = """g (float[1, 4] x, float[1, past, 4] k) => (float[1, M, 4] y) {
    row = Unsqueeze (x, middle)
    all = Concat <axis = 1> (k, row)
    y = Softmax <axis = 1> (all)
}"""


@pytest.mark.parametrize(
    ("target", "left_out", "open_dims"),
    [
        (
            "ios18",
            "1 of 4 samples are left out: dimension 1 (past) of input 'k' has sizes 0..5, and",
            {"past": range(2, 6)},
        ),
        ("onnxruntime", "", {}),
        ("intel-npu", "2 of 4 samples are left out: dimension 1 (past) of input 'k' has sizes 0..5, of which 2 is", {}),
    ],
)
def test_an_empty_past_is_left_out_where_the_device_takes_no_empty_tensor(
    tmp_path: Path, onnx_file: Callable[..., Path], target: str, left_out: str, open_dims: dict[str, range]
) -> None:
    """The first step of a decoder, whose cache is empty then."""
    model, data = onnx_file(CACHED, middle=np.array([1])), tmp_path / "data"
    data.mkdir()
    for number, past in enumerate((0, 2, 5, 2)):
        rng = np.random.default_rng(number)
        np.savez(data / f"{number}.npz", x=rng.random((1, 4), np.float32), k=rng.random((1, past, 4), np.float32))
    bundle = packaged(tmp_path / "out", model, target, data=data, quantize="none")
    (stage,) = (stage["record"] for stage in bundle.manifest["stages"] if stage["name"] == "fix shapes")
    assert "".join(text for text in stage["warnings"] if "left out" in text).startswith(left_out)
    assert bundle.open_dims == open_dims
    accuracy = verify_bundle(bundle, data, model).accuracy
    assert accuracy is not None
    assert accuracy.samples == {"ios18": 3, "onnxruntime": 4, "intel-npu": 2}[target]


def test_a_batch_is_that_of_the_sample_that_is_left_where_all_have_other_sizes(
    tmp_path: Path, onnx_file: Callable[..., Path]
) -> None:
    model, data = onnx_file(STEPS), tmp_path / "data"
    data.mkdir()
    for steps in (16, 12, 30):
        np.savez(data / f"{steps}.npz", x=np.random.default_rng(steps).random((2, steps), np.float32))
    bundle = packaged(tmp_path / "out", model, "intel-npu", data=data, quantize="none")
    assert [feature["shape"] for feature in bundle.manifest["inputs"]] == [[2, 30]]


COUNTED = """g (float[rows, 2] x) => (float[M, 2] y) {{
    shape = Shape (x)
    {size}
    end, kept, y = Loop <body = b (int64 turn, bool go, int64 i, int32 all)
      => (bool more, int64 j, int32 still, float[2] row) {{
        one = Constant <value = int64 {{1}}> ()
        cells = Gather (x, i)
        rows = Cast <to = 1> (all)
        row = Div (cells, rows)
        j = Add (i, one)
        still = Identity (all)
        more = Less (j, size)
    }}> ({most}, on, zero, n)
}}"""
"""Rows that are collected until a condition ends the loop, as TensorFlow's exporter writes it."""
SIZES = [
    ("size = Gather (shape, zero) n = Cast <to = 6> (size)", ""),
    (
        "short = Cast <to = 6> (shape) few = Slice (short, from, to, from) n = Squeeze (few) size = Cast <to = 7> (n)",
        "size",
    ),
]
"""The number of rows and the trip count; the second is cut out of a shape of 32-bit integers, as TensorFlow's are."""


@pytest.mark.parametrize(("size", "most"), SIZES)
def test_sizes_stay_open_where_simplification_gives_a_device_what_it_lacks(
    tmp_path: Path, onnx_file: Callable[..., Path], size: str, most: str
) -> None:
    constants = {"zero": np.array(0), "on": np.array(True), "from": np.array([0]), "to": np.array([1])}
    model, data = onnx_file(COUNTED.format(size=size, most=most), **constants), tmp_path / "data"
    data.mkdir()
    for rows in (3, 4, 5):
        np.savez(data / f"{rows}.npz", x=np.random.default_rng(rows).random((rows, 2), np.float32))
    bundle = packaged(tmp_path / "out", model, "ios18", data=data, quantize="none")
    assert bundle.open_dims == {"rows": range(3, 6)}
    assert bundle.manifest["accuracy"]["data"]["samples"] == 3


def test_a_size_that_follows_from_a_fixed_and_an_open_one_is_tried_at_all_sizes(
    tmp_path: Path, onnx_file: Callable[..., Path]
) -> None:
    """Steps of a decoder: one token at a time, and a mask as long as the past and the token."""
    model = onnx_file(
        """g (float[1, S, 2] x, float[1, P, 2] past, float[1, T] mask) => (float[1, T, 2] y) {
            all = Concat <axis = 1> (past, x)  last = Constant <value = int64[1] {2}> ()
            column = Unsqueeze (mask, last)  y = Mul (all, column) }"""
    )
    proto, data, rng = onnx.load(model), tmp_path / "data", np.random.default_rng(0)
    for value, axis in ((proto.graph.input[2], 1), (proto.graph.output[0], 1)):
        value.type.tensor_type.shape.dim[axis].dim_param = "P + S"
    onnx.save(proto, model)
    data.mkdir()
    for past in (3, 5, 4):
        shapes = {"x": (1, 1, 2), "past": (1, past, 2), "mask": (1, past + 1)}
        np.savez(data / f"{past}.npz", **{name: rng.random(shape, np.float32) for name, shape in shapes.items()})
    bundle = packaged(tmp_path / "out", model, "ios18", data=data, quantize="none")
    assert bundle.open_dims == {"P": range(3, 6)}
    assert [tried["sizes"] for tried in bundle.manifest["accuracy"]["sizes"]] == [{"P": 3}, {"P": 4}, {"P": 5}]


def test_a_device_of_one_size_gets_the_size_that_was_asked_for(tmp_path: Path, onnx_file: Callable[..., Path]) -> None:
    model, data = onnx_file(STEPS), drawn(tmp_path / "data", 16, 12, 30, 12)
    request = ShapeRequest({"steps": 30})
    bundle = packaged(tmp_path / "out", model, "intel-npu", data=data, quantize="none", shapes=request)
    assert [feature["shape"] for feature in bundle.manifest["inputs"]] == [[1, 30]]
    (stage,) = (stage["record"] for stage in bundle.manifest["stages"] if stage["name"] == "fix shapes")
    assert stage["warnings"][0] == (
        "3 of 4 samples are left out: dimension 1 (steps) of input 'x' has sizes 12..30, of which 30 was asked for"
    )


def test_samples_of_several_sizes_are_named_where_the_device_holds_one(
    tmp_path: Path, onnx_file: Callable[..., Path]
) -> None:
    model, data = onnx_file(STEPS), drawn(tmp_path / "data", 16, 12, 30)
    others = drawn(tmp_path / "others", 14)
    with pytest.raises(InputError) as failure:
        packaged(tmp_path / "out", model, "intel-npu", data=data, verify_data=others, quantize="none")
    assert str(failure.value) == (
        "dimension 1 (steps) of input 'x': the samples have several sizes in a dimension that the model leaves "
        "open, and the device holds fixed shapes\n"
        "expected: one size\n"
        "found: 12 to 30 in 4 samples\n"
        "hint: fix it with --dim steps=SIZE, and give samples of that size"
    )


def test_a_device_that_lacks_operators_of_open_sizes_gets_the_size_of_most_samples(
    tmp_path: Path, onnx_file: Callable[..., Path]
) -> None:
    model = onnx_file(
        "g (float[1, 2, h, 8] x) => (float[1, 2, p, q] y) "
        "{ y = MaxPool <kernel_shape = [2, 2], dilations = [2, 2]> (x) }"
    )
    data = tmp_path / "data"
    data.mkdir()
    for number, height in enumerate((9, 12, 12, 15)):
        x = np.random.default_rng(number).standard_normal((1, 2, height, 8)).astype(np.float32)
        np.savez(data / f"{number}.npz", x=x)
    bundle = packaged(tmp_path / "out", model, "ios18", data=data, quantize="none")
    assert [feature["shape"] for feature in bundle.manifest["inputs"]] == [[1, 2, 12, 8]]
    assert bundle.manifest["accuracy"]["data"]["samples"] == 2
    (stage,) = (stage["record"] for stage in bundle.manifest["stages"] if stage["name"] == "fix shapes")
    assert stage["warnings"][0].startswith("2 of 4 samples are left out: dimension 2 (h) of input 'x' has sizes 9..15")
    assert stage["warnings"][-1].startswith(
        "the bundle takes only the sizes that the samples have: ios18 does not take MaxPool 'y' where they are open"
    )


# Copies rows of a table: what the indices are good for depends on how many rows a sample has.
LOOKUP = """
f (float[rows, 3] x, float[picks] i) => (float[picks, 3] y) {
    places = Cast <to = 7> (i)
    y = Gather <axis = 0> (x, places)
}
"""


@pytest.mark.parametrize("target", ["ios18", "onnxruntime"])
def test_sizes_that_fit_no_sample_are_not_tried_where_nobody_asked_for_them(
    tmp_path: Path, onnx_file: Callable[..., Path], target: str
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for number, (rows, picks) in enumerate([(4, 9), (7, 5), (5, 12)]):
        x = np.random.default_rng(number).standard_normal((rows, 3)).astype(np.float32)
        np.savez(data / f"{number}.npz", x=x, i=(np.arange(picks)[::-1] % rows).astype(np.float32))
    bundle = packaged(tmp_path / "out", onnx_file(LOOKUP), target, data=data, quantize="none")
    assert [feature["shape"] for feature in bundle.manifest["inputs"]] == [["rows", 3], ["picks"]]
    assert verify_bundle(bundle, data, onnx_file(LOOKUP)).accuracy is not None
    warnings = [text for stage in bundle.manifest["stages"] for text in stage["record"].get("warnings", [])]
    assert any(text.startswith("not tried at rows=4, picks=5") for text in warnings) == (target == "ios18")


# Directions from one atom to another: of one to itself 1 / length is too much for float16. Atoms are of four kinds.
EDGES = """
f (float[atoms, 3] x, int64[2, edges] e, int64[edges] kind) => (float[edges, 3] y, float[edges] h)
<int64 first = {0}, int64 last = {1}, float tiny = {1e-5}, float[4] heights = {1, 2, 3, 4}> {
    h = Gather <axis = 0> (heights, kind)
    from = Gather <axis = 0> (e, first)  to = Gather <axis = 0> (e, last)
    a = Gather <axis = 0> (x, from)  b = Gather <axis = 0> (x, to)  d = Sub (a, b)
    n = ReduceL2 <axes = [1], keepdims = 1> (d)  m = Max (n, tiny)  r = Reciprocal (m)  y = Mul (d, r)
}
"""


def test_cut_samples_whose_places_are_lowered_refuse_nothing(tmp_path: Path, onnx_file: Callable[..., Path]) -> None:
    """Graphs without an edge from an atom to itself get such edges where they are cut to fewer atoms."""
    data = tmp_path / "data"
    data.mkdir()
    for number, atoms in enumerate([6, 9, 12, 20]):
        rng = np.random.default_rng(number)
        start = rng.integers(0, atoms, 3 * atoms)
        edges = np.stack([start, (start + rng.integers(1, atoms, start.size)) % atoms])
        kinds = np.arange(edges.shape[1]) % 4
        np.savez(data / f"{number}.npz", x=rng.standard_normal((atoms, 3)).astype(np.float32), e=edges, kind=kinds)
    bundle = packaged(tmp_path / "out", onnx_file(EDGES), "ios18", data=data, quantize="none")
    assert [feature["shape"] for feature in bundle.manifest["inputs"]] == [["atoms", 3], [2, "edges"], ["edges"]]
    warnings = [text for stage in bundle.manifest["stages"] for text in stage["record"].get("warnings", [])]
    (unlike,) = [
        text for text in warnings if text.startswith("not judged at atoms=6, edges=18, where the samples are cut")
    ]
    assert "('e' below 6): " in unlike
    assert bundle.manifest["model"]["precision"] == "float16"
    assert verify_bundle(bundle, data, onnx_file(EDGES)).accuracy is not None


@pytest.mark.parametrize("target", ["onnxruntime", "intel-cpu", "ios18"])
@pytest.mark.parametrize("sizes", [range(1, 5), (2, 3)])
def test_a_dimension_stays_open(tmp_path: Path, onnx_file: Callable[..., Path], target: str, sizes: Any) -> None:
    graph = "g (float[N, 4] x, float[N, 2] z) => (float[N, 6] y) { a = Relu(x) y = Concat <axis = 1> (a, z) }"
    model = onnx_file(graph)
    bundle = packaged(tmp_path / "out", model, target, shapes=ShapeRequest({"N": sizes}))
    assert bundle.open_dims == {"N": sizes}
    assert [feature.shape for feature in bundle.inputs] == [("N", 4), ("N", 2)]
    tried = [size["sizes"]["N"] for size in bundle.manifest["accuracy"]["sizes"]]
    assert tried == ([1, 3, 4] if sizes == range(1, 5) else [2, 3])
    for feeds, outputs in bundle.golden():
        np.testing.assert_array_equal(outputs["y"], np.concatenate([np.maximum(feeds["x"], 0), feeds["z"]], axis=1))
    assert {len(feeds["x"]) for feeds, _ in bundle.golden()} == set(tried)
    data = tmp_path / "data"
    data.mkdir()
    for size in tried:
        np.savez(data / f"{size}.npz", x=np.ones((size, 4), np.float32), z=np.zeros((size, 2), np.float32))
    assert verify_bundle(bundle, data, model).accuracy is not None
    np.savez(data / "9.npz", x=np.ones((9, 4), np.float32), z=np.zeros((9, 2), np.float32))
    with pytest.raises(InputError, match=r"a size that dimension 'N' does not take"):
        verify_bundle(bundle, data, model)
    np.savez(data / "0.npz", x=np.ones((2, 4), np.float32), z=np.zeros((3, 2), np.float32))
    two = r"two sizes for dimension 'N'\nexpected: 2 in input 'z', as in input 'x'\nfound: 3\nhint: .* a name for each"
    with pytest.raises(InputError, match=two):
        verify_bundle(bundle, data, model)


def test_a_target_of_fixed_shapes_refuses_an_open_dimension(tmp_path: Path, digits: Path) -> None:
    with pytest.raises(InputError) as caught:
        packaged(tmp_path / "out", digits, "intel-npu", shapes=ShapeRequest({"batch": range(1, 9)}))
    assert str(caught.value) == (
        "--dim batch=1..8: intel-npu takes fixed shapes only\nexpected: one size\n"
        "hint: fix it with --dim batch=1, or make a bundle for each size"
    )


def test_samples_of_several_sizes(tmp_path: Path, onnx_file: Callable[..., Path]) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for size in (3, 1, 5):
        np.savez(data / f"{size}.npz", x=np.random.default_rng(size).standard_normal((size, 4)).astype(np.float32))
    model = onnx_file("g (float[N, 4] x) => (float[N, 4] y) { y = Softmax(x) }")
    shapes = ShapeRequest({"N": range(1, 6)})
    bundle = packaged(tmp_path / "out", model, "onnxruntime", shapes=shapes, data=data, quantize="none")
    assert bundle.manifest["accuracy"]["data"] == {"kind": "samples", "samples": 3}
    assert [feeds["x"].shape[0] for feeds, _ in bundle.golden()] == [1, 3, 5, 3, 5]


@pytest.mark.parametrize("target", ["ios18", "onnxruntime"])
def test_dimensions_that_have_to_be_equal_may_both_have_a_range(
    tmp_path: Path, onnx_file: Callable[..., Path], target: str
) -> None:
    """As PyTorch's exporter calls the pasts of two layers."""
    model = onnx_file("g (float[s51, 3] x, float[s29, 3] z) => (float[n, 3] y) { y = Add (x, z) }")
    shapes = ShapeRequest({"s51": range(2, 6), "s29": range(2, 6)})
    bundle = packaged(tmp_path / "out", model, target, shapes=shapes)
    assert [each["sizes"] for each in bundle.manifest["accuracy"]["sizes"]] == [
        {"s51": size, "s29": size} for size in (2, 4, 5)
    ]
    warnings = [text for stage in bundle.manifest["stages"] for text in stage["record"].get("warnings", [])]
    untried = "not tried at s51=2, s29=5, where the original does not run on samples cut or filled up to it: "
    assert [text for text in warnings if text.startswith(untried)]


def test_a_size_that_the_model_does_not_run_at(tmp_path: Path, onnx_file: Callable[..., Path]) -> None:
    """Even sizes alone: the trials before, at the least and the greatest size, do not show it."""
    graph = "g (float[1, L] x) => (float[P, 2] y) { [pairs] y = Reshape (x, wanted) }"
    model = onnx_file(graph, wanted=np.array([-1, 2], np.int64))
    with pytest.raises(InputError) as caught:
        packaged(tmp_path / "out", model, "onnxruntime", shapes=ShapeRequest({"L": range(2, 9)}))
    assert str(caught.value).startswith("node 'pairs': does not run at L=5: ")
    assert "as a list: --dim NAME=SIZE,SIZE" in str(caught.value)


@pytest.mark.parametrize("target", ["ios18", "onnxruntime"])
def test_a_decoder_s_first_step_has_an_empty_past(tmp_path: Path, onnx_file: Callable[..., Path], target: str) -> None:
    model = onnx_file(
        "g (float[1, past, 4] cache, float[1, 1, 4] x) => (float[1, K, 4] y) { y = Concat <axis = 1> (cache, x) }"
    )
    bundle = packaged(tmp_path / "out", model, target, shapes=ShapeRequest.parse(["past=0"]), quantize="none")
    assert bundle.manifest["options"]["dims"] == {"past": 0}
    assert [feature["shape"] for feature in bundle.manifest["outputs"]] == [[1, 1, 4]]
    assert all(one.max_abs_error < 0.01 for one in verify_bundle(bundle).golden)


@pytest.mark.parametrize("target", ["intel-cpu", "onnxruntime"])
def test_a_range_with_an_empty_past_is_verified_at_the_first_step_and_at_later_ones(
    tmp_path: Path, onnx_file: Callable[..., Path], target: str
) -> None:
    model = onnx_file(
        "g (float[1, past, 4] cache, float[1, 1, 4] x) => (float[1, K, 4] y) { y = Concat <axis = 1> (cache, x) }"
    )
    bundle = packaged(tmp_path / "out", model, target, shapes=ShapeRequest.parse(["past=0..8"]), quantize="none")
    assert bundle.open_dims == {"past": range(9)}
    assert bundle.manifest["dimensions"]["past"]["default"] == 1
    assert {feeds["cache"].shape[1] for feeds, _ in bundle.golden()} == {0, 1, 4, 8}
    assert all(one.max_abs_error == 0 for one in verify_bundle(bundle).golden)
    for past in (0, 3):
        feeds = {"cache": np.full((1, past, 4), 2, np.float32), "x": np.ones((1, 1, 4), np.float32)}
        (found,) = load(bundle).run(feeds).values()
        assert np.asarray(found).tolist() == [[[2.0] * 4] * past + [[1.0] * 4]]


@pytest.mark.parametrize(
    ("asked", "others"), [("past=0..8", "past=1..8"), ("past=0,8,4", "past=8,4"), ("past=0..1", "past=1")]
)
def test_a_device_without_empty_tensors_takes_an_empty_past_as_a_bundle_of_its_own(
    tmp_path: Path, onnx_file: Callable[..., Path], asked: str, others: str
) -> None:
    model = onnx_file(CACHED, middle=np.array([1]))
    with pytest.raises(InputError) as caught:
        packaged(tmp_path / "out", model, "ios18", shapes=ShapeRequest.parse([asked]))
    assert str(caught.value) == (
        f"--dim {asked}: ios18 takes an empty input only where it always is empty\nexpected: sizes from 1\n"
        f"hint: make two bundles, with --dim {others} and with --dim past=0"
    )
