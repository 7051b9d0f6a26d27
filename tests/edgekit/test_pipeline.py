import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from edgekit.bundle import Bundle
from edgekit.bundle_checks.benchmark import bench_bundle
from edgekit.bundle_checks.verification import verify_bundle
from edgekit.errors import InputError, RequirementError, UnsupportedOpsError
from edgekit.graph.sizes.shape_request import ShapeRequest
from edgekit.pipeline import PackageRequest, package
from edgekit.preprocessing import ImagePreprocessing
from edgekit.progress import Progress
from edgekit.stages.verify import InaccurateError

PIXELS = ImagePreprocessing(scale=1 / 255, mean=(0.1307,), std=(0.3081,), resize="pad")


class Told(Progress):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        self.warnings.append(text)


def packaged(output: Path, model: Path, target: str, **rest: Any) -> Bundle:
    return package(PackageRequest(model, target, output, **rest), Progress())


def record(bundle: Bundle, stage: str) -> Any:
    return [one["record"] for one in bundle.manifest["stages"] if one["name"] == stage][-1]


@pytest.mark.parametrize("target", ["onnxruntime", "intel-cpu", pytest.param("ios18", marks=pytest.mark.slow)])
def test_a_model_as_the_newest_onnx_marks_it(tmp_path: Path, onnx_file: Callable[..., Path], target: str) -> None:
    model = onnx_file("g (float[1, 4] x) => (float[1, 4] y) { y = Relu(x) }", ir_version=onnx.IR_VERSION)
    data = tmp_path / "data"
    data.mkdir()
    np.savez(data / "0.npz", x=np.array([[1, -2, 3, -4]], np.float32))
    bundle = packaged(tmp_path / "out", model, target, data=data, quantize="none")
    assert verify_bundle(bundle, data, model).accuracy is not None
    assert bench_bundle(bundle, model=model)[-1].name == str(model)


@pytest.mark.parametrize(
    ("target", "executed_by", "runs_here"),
    [
        ("onnxruntime", "ONNX Runtime ", True),
        ("intel-cpu", "OpenVINO ", True),
        pytest.param("ios18", "EdgeKit reference runtime for Core ML", False, marks=pytest.mark.slow),
    ],
)
def test_a_bundle_for_each_target_says_what_executed_it(
    tmp_path: Path, digits: Path, target: str, executed_by: str, runs_here: bool
) -> None:
    bundle = packaged(tmp_path / "out", digits, target, shapes=ShapeRequest({"batch": 1}))
    accuracy = bundle.manifest["accuracy"]
    assert accuracy["executed_by"].startswith(executed_by)
    assert accuracy["data"] == {"kind": "seeded", "samples": 4}
    assert accuracy["task"] is None
    assert float(accuracy["outputs"][0]["worst_sample_db"]) >= 25
    assert bundle.manifest["latency"]["of_device"] is runs_here
    checked = subprocess.run(
        [sys.executable, "check.py", "--json"], cwd=bundle.path, capture_output=True, text=True, check=False
    )
    if runs_here:  # the others' checks need their device
        assert checked.returncode == 0, checked.stderr
        assert json.loads(checked.stdout)["passed"] is True


def test_quantized_to_a_quarter_and_measured_on_other_samples(
    tmp_path: Path, digits: Path, labelled_digits: Path
) -> None:
    calibration = digits.parent / "samples" / "calibration"
    bundle = packaged(
        tmp_path / "out",
        digits,
        "onnxruntime",
        shapes=ShapeRequest({"batch": 1}),
        data=calibration,
        verify_data=labelled_digits,
        quantize="int8",
        preprocessing=PIXELS,
    )
    manifest = bundle.manifest
    assert manifest["model"]["kind"] == "quantized"
    assert manifest["size"]["ratio"] < 0.5
    assert manifest["accuracy"]["data"] == {"kind": "samples", "samples": 20}
    assert manifest["accuracy"]["task"]["drop"] <= 0.01
    assert record(bundle, "verify")["warnings"] == []


def test_accuracy_on_the_calibration_samples_is_called_so(tmp_path: Path, digits: Path, labelled_digits: Path) -> None:
    told = Told()
    request = PackageRequest(
        digits,
        "onnxruntime",
        tmp_path / "out",
        shapes=ShapeRequest({"batch": 1}),
        data=labelled_digits,
        quantize="int8",
        preprocessing=PIXELS,
    )
    package(request, told)
    assert any("measured on the samples that the model was calibrated on" in text for text in told.warnings)


def test_labels_that_no_output_can_be_judged_by(tmp_path: Path, onnx_file: Callable[..., Path]) -> None:
    data = tmp_path / "data"
    data.mkdir()
    np.savez(data / "0.npz", x=np.ones((2, 2), np.float32), label=1)
    model = onnx_file("f (float[2, 2] x) => (float[2, 2] y) { y = Exp(x) }")
    bundle = packaged(tmp_path / "out", model, "onnxruntime", data=data, quantize="none")
    assert bundle.manifest["accuracy"]["task"] is None
    assert record(bundle, "verify")["warnings"] == [
        "the samples have labels, but no output of the model tells a class: they were not used"
    ]


def test_half_precision_that_loses_too_much_becomes_single(tmp_path: Path, onnx_file: Callable[..., Path]) -> None:
    model = onnx_file(
        "f (float[1, 64] x) => (float[1, 64] y) { a = MatMul(x, v) b = MatMul(x, w) y = Sub(a, b) }",
        v=np.full((64, 64), 1 + 2**-12, np.float32),  # which is 1 in half precision
        w=np.full((64, 64), 1, np.float32),
    )
    bundle = packaged(tmp_path / "out", model, "intel-gpu")
    assert bundle.manifest["model"]["kind"] == bundle.manifest["model"]["precision"] == "float32"
    names = [stage["name"] for stage in bundle.manifest["stages"]]
    assert names[-6:] == ["build", "verify", "build", "verify", "bench", "layers"]
    failed = bundle.manifest["stages"][-5]["record"]
    assert failed["failed"]["type"] == "InaccurateError"
    assert failed["warnings"][0].startswith("float16 is not accurate enough (output 'y'")
    assert not any(path.name.startswith(".edgekit") for path in tmp_path.iterdir())

    with pytest.raises(InaccurateError) as failure:
        packaged(tmp_path / "half", model, "intel-gpu", precision="float16")
    assert failure.value.exit_code == 1
    assert not (tmp_path / "half").exists()


def test_an_older_bundle_is_replaced_and_nothing_else_is(bundle: Path, tmp_path: Path, digits: Path) -> None:
    shapes = ShapeRequest({"batch": 1})
    made = packaged(bundle, digits, "onnxruntime", shapes=shapes, name="newer")
    assert made.name == "newer"
    other = tmp_path / "photos"
    other.mkdir()
    (other / "holiday.jpg").touch()
    with pytest.raises(InputError, match="exists and is not a bundle"):
        packaged(other, digits, "onnxruntime", shapes=shapes)
    assert (other / "holiday.jpg").exists()


def test_a_failure_leaves_the_older_bundle_as_it_was(bundle: Path, onnx_file: Callable[..., Path]) -> None:
    before = (bundle / "manifest.json").read_bytes()
    model = onnx_file("f (float[1, 7, 7] x) => (float[1] y) { y = Det(x) }")
    with pytest.raises(UnsupportedOpsError) as failure:
        packaged(bundle, model, "intel-cpu")
    assert failure.value.ops == ["Det"]
    assert (bundle / "manifest.json").read_bytes() == before
    assert not any(path.name.startswith(".edgekit") for path in bundle.parent.iterdir())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"target": "toaster"}, "there is no target 'toaster'"),
        (
            {"quantize": "int7"},
            "--quantize: unknown scheme\n"
            "expected: auto | int8 | int8-weights | int4-weights | int8-dynamic | float16 | none\nfound: int7",
        ),
        (
            {"quantize": "int8"},
            "--quantize int8: quantization needs samples to calibrate on\n"
            "expected: a folder of samples\nfound: none\n"
            "hint: give --data DIR, or one that needs none: int8-weights",
        ),
        ({"precision": "float8"}, "--precision: unknown type\nexpected: auto | float32 | float16\nfound: float8"),
    ],
)
def test_a_request_that_cannot_be_met_is_refused_at_once(
    tmp_path: Path, digits: Path, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(InputError) as failure:
        package(
            PackageRequest(**{"model": digits, "target": "onnxruntime", "output": tmp_path / "out", **options}), Told()
        )
    assert text in str(failure.value)
    assert list(tmp_path.iterdir()) == []


def test_what_the_file_states_is_used_and_kept(tmp_path: Path, onnx_file: Callable[..., Path]) -> None:
    graph = """g (float[batch, 3, height, width] images) => (float[batch, 2] scores) {
        m = GlobalAveragePool (images) f = Flatten (m) scores = Gemm (f, w) }"""
    path = onnx_file(graph, w=np.random.default_rng(0).standard_normal((3, 2)).astype(np.float32))
    model = onnx.load(path)
    metadata = {"names": "{0: 'cat', 1: 'dog'}", "task": "classify", "stride": "1", "imgsz": "[24, 32]", "author": "A"}
    onnx.helper.set_model_props(model, metadata)
    onnx.save(model, path)
    for scheme in ("none", "int8-weights"):
        bundle = packaged(tmp_path / scheme, path, "onnxruntime", quantize=scheme)
        manifest = bundle.manifest
        assert manifest["labels"] == ["cat", "dog"]
        assert manifest["inputs"][0]["shape"] == [1, 3, 24, 32]
        assert manifest["preprocessing"]["resize"] == "crop"
        built = onnx.load(bundle.main)
        assert {entry.key: entry.value for entry in built.metadata_props}.items() >= metadata.items()


def test_dynamic_inputs_without_data(tmp_path: Path, onnx_file: Callable[..., Path]) -> None:
    with pytest.raises(InputError, match=r"no input can be drawn while its shape is dynamic\nhint: fix it with --dim"):
        packaged(tmp_path / "out", onnx_file("f (float[W] x) => (float[W] y) { y = Relu(x) }"), "onnxruntime")


def test_a_free_batch_is_one_and_said(tmp_path: Path, digits: Path) -> None:
    manifest = packaged(tmp_path / "out", digits, "onnxruntime").manifest
    assert [feature["shape"] for feature in manifest["inputs"]] == [[1, 1, 28, 28]]
    (fixed,) = (stage["record"] for stage in manifest["stages"] if stage["name"] == "fix shapes")
    assert fixed["warnings"] == [
        "dimension 0 (batch) of input 'image' is 1, one sample; --dim batch=SIZE makes it another"
    ]


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
        "dimension 1 (steps) of input 'x': the samples have several sizes where the model leaves one free, and the "
        "device holds fixed shapes\nexpected: one size\nfound: 12 to 30 in 4 samples\nhint: fix it with --dim "
        "steps=SIZE, and give samples of that size"
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


# Copies rows of a table: what the indices are good for depends on how many rows a sample has.
LOOKUP = "f (float[rows, 3] x, int64[picks] i) => (float[picks, 3] y) { y = Gather <axis = 0> (x, i) }"


@pytest.mark.parametrize("target", ["ios18", "onnxruntime"])
def test_sizes_that_fit_no_sample_are_not_tried_where_nobody_asked_for_them(
    tmp_path: Path, onnx_file: Callable[..., Path], target: str
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for number, (rows, picks) in enumerate([(4, 9), (7, 5), (5, 12)]):
        x = np.random.default_rng(number).standard_normal((rows, 3)).astype(np.float32)
        np.savez(data / f"{number}.npz", x=x, i=np.arange(picks)[::-1] % rows)
    bundle = packaged(tmp_path / "out", onnx_file(LOOKUP), target, data=data, quantize="none")
    assert [feature["shape"] for feature in bundle.manifest["inputs"]] == [["rows", 3], ["picks"]]
    assert verify_bundle(bundle, data, onnx_file(LOOKUP)).accuracy is not None
    warnings = [text for stage in bundle.manifest["stages"] for text in stage["record"].get("warnings", [])]
    assert any(text.startswith("not tried at rows=4, picks=5") for text in warnings) == (target == "ios18")


def test_random_inputs_that_the_model_cannot_take(tmp_path: Path, onnx_file: Callable[..., Path]) -> None:
    model = onnx_file("f (float[4] x, int64[1] rows) => (float[r, c] y) { y = Reshape(x, rows) }")
    with pytest.raises((InputError, RequirementError)):
        packaged(tmp_path / "out", model, "onnxruntime")
    assert not (tmp_path / "out").exists()


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


def test_a_size_that_the_model_does_not_run_at(tmp_path: Path, onnx_file: Callable[..., Path]) -> None:
    """Even sizes alone: the trials before, at the least and the greatest size, do not show it."""
    graph = "g (float[1, L] x) => (float[P, 2] y) { [pairs] y = Reshape (x, wanted) }"
    model = onnx_file(graph, wanted=np.array([-1, 2], np.int64))
    with pytest.raises(InputError) as caught:
        packaged(tmp_path / "out", model, "onnxruntime", shapes=ShapeRequest({"L": range(2, 9)}))
    assert str(caught.value).startswith("node 'pairs': does not run at L=5: ")
    assert "as a list: --dim NAME=SIZE,SIZE" in str(caught.value)


LEAKY_SUM = """g (float[1, 3] x, float[1, 3] h) => (float[1, 3] y, float[1, 3] after) {
    kept = Mul(h, half)
    after = Add(x, kept)
    y = Tanh(after)
}"""


def test_states_are_kept_by_the_program(tmp_path: Path, onnx_file: Callable[..., Path]) -> None:
    model = onnx_file(LEAKY_SUM, half=np.array(0.5, np.float32))
    data = tmp_path / "data"
    data.mkdir()
    steps = np.random.default_rng(0).standard_normal((12, 1, 3)).astype(np.float32)
    for number, x in enumerate(steps):
        np.savez(data / f"{number:02}.npz", x=x)
    bundle = packaged(tmp_path / "out", model, "ios18", data=data, states={"h": "after"})
    assert bundle.states == {"h": "after"}
    assert ([f.name for f in bundle.inputs], [f.name for f in bundle.outputs]) == (["x"], ["y"])
    assert bundle.manifest["model"]["kind"] == "float16"
    assert bundle.manifest["accuracy"]["data"] == {"kind": "samples", "samples": 12}
    held = np.zeros((1, 3))
    golden = list(bundle.golden())
    assert len(golden) == 8
    for x, (feeds, outputs) in zip(steps, golden, strict=False):
        held = x + held / 2
        np.testing.assert_array_equal(feeds["x"], x)
        np.testing.assert_allclose(outputs["y"], np.tanh(held), rtol=1e-5)
    found = verify_bundle(bundle, data, model)
    assert found.accuracy is not None
    assert float(found.accuracy.worst_db or 0) > 40


def test_states_where_there_are_none_or_where_calibration_would_need_them(
    tmp_path: Path, onnx_file: Callable[..., Path]
) -> None:
    model = onnx_file(LEAKY_SUM, half=np.array(0.5, np.float32))
    for target in ("ios17", "intel-cpu", "onnxruntime"):
        with pytest.raises(InputError, match=f"--state h=after: {target} has no states"):
            packaged(tmp_path / "out", model, target, states={"h": "after"})
    with pytest.raises(InputError, match="the samples hold no states"):
        packaged(tmp_path / "out", model, "ios18", data=tmp_path, quantize="int8", states={"h": "after"})


def test_a_size_whose_samples_find_nothing_is_told_as_such(tmp_path: Path, onnx_file: Callable[..., Path]) -> None:
    """A classifier that is sure of its no: ONNX Runtime's Sigmoid is 0 where others leave 1e-13."""
    graph = "g (float[N, 4] x) => (float[N, 4] y) { d = Sub (x, thirty) y = Sigmoid (d) }"
    model, data = onnx_file(graph, thirty=np.float32(30)), tmp_path / "data"
    data.mkdir()
    for number, (batch, mean) in enumerate(((1, 0), (1, 1), (2, 30), (2, 29), (1, 2))):
        drawn = np.random.default_rng(number).standard_normal((batch, 4)).astype(np.float32)
        np.savez(data / f"{number}.npz", x=drawn + np.float32(mean))
    bundle = packaged(tmp_path / "out", model, "ios18", data=data, quantize="none")
    one, *_ = bundle.manifest["accuracy"]["sizes"]
    assert (one["sizes"], one["vanished"]) == ({"N": 1}, ["y"])
    assert "vanished" not in bundle.manifest["accuracy"]
