import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from edgekit.bundle import Bundle
from edgekit.bundle_checks.benchmark import bench_bundle
from edgekit.bundle_checks.verification import verify_bundle
from edgekit.comparison.acceptance.refusal import InaccurateError
from edgekit.comparison.custom_metric import Evaluation
from edgekit.errors import InputError, RequirementError, UnsupportedOpsError
from edgekit.graph.sizes.shape_request import ShapeRequest
from edgekit.packaging.pipeline import package
from edgekit.packaging.request import PackageRequest
from edgekit.preprocessing import ImagePreprocessing
from edgekit.progress import Progress
from edgekit.reporting.summary import summary_rows

PIXELS = ImagePreprocessing(scale=1 / 255, mean=(0.1307,), std=(0.3081,), resize="pad")


class Told(Progress):
    """A progress that keeps what it is told."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.stages: list[str] = []

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self.stages.append(name)
        yield

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


def test_one_probability_finds_the_labels_of_yes_and_no(tmp_path: Path, onnx_file: Callable[..., Path]) -> None:
    """As a Keras model with ``Dense(1, activation="sigmoid")`` has it: of ten logits from -4.5 to 4.5 one is wrong."""
    data = tmp_path / "data"
    data.mkdir()
    for number in range(10):
        np.savez(data / f"{number}.npz", x=np.full((1, 1), number - 4.5, np.float32), label=int(number > 5))
    model = onnx_file("f (float[1, 1] x) => (float[1, 1] y) { y = Sigmoid(x) }")
    bundle = packaged(tmp_path / "out", model, "onnxruntime", data=data, quantize="none")
    task = bundle.manifest["accuracy"]["task"]
    assert (task["output"], task["reference"], task["built"]) == ("y", 0.9, 0.9)
    told = "90.00% of the labels found, 90.00% by the original; AUC 1.0000, the original's 1.0000"
    assert dict(summary_rows(bundle.manifest))["accuracy"] == told
    assert bundle.manifest["classes"] is None
    assert record(bundle, "verify")["warnings"] == []
    found = verify_bundle(bundle, data).labels
    assert found is not None
    assert (found.built, found.samples, found.packaged_reference) == (0.9, 10, 0.9)

    np.savez(data / "3.npz", x=np.zeros((1, 1), np.float32), label=2)
    with pytest.raises(InputError) as failure:
        packaged(tmp_path / "grades", model, "onnxruntime", data=data, quantize="none")
    assert str(failure.value) == (
        f"{data / '3.npz'}: the label is not a class of the model\n"
        "expected: 0 or 1: output 'y' is the probability of class 1\n"
        "found: 2\n"
        "hint: a number to predict is not a label: leave it out, and judge by it with --metric"
    )


def first_output_at_the_label(run: Callable[..., Any], samples: Any) -> float:
    """An evaluation function that reads the samples' labels."""
    return float(sum(run(sample.feeds)["y"][0, sample.label] for sample in samples))


def test_a_metric_of_the_project_is_told_and_reads_the_labels(tmp_path: Path, onnx_file: Callable[..., Path]) -> None:
    data = tmp_path / "data"
    data.mkdir()
    np.savez(data / "0.npz", x=np.array([[1, 2], [3, 4]], np.float32), label=1)
    model = onnx_file("f (float[2, 2] x) => (float[2, 2] y) { y = Add(x, x) }")
    metric = Evaluation.of(first_output_at_the_label)
    bundle = packaged(tmp_path / "out", model, "onnxruntime", data=data, quantize="none", evaluation=metric)
    assert record(bundle, "verify")["warnings"] == []
    rows = [text for name, text in summary_rows(bundle.manifest) if name == "measured"]
    assert rows == [f"{__name__}:first_output_at_the_label 4, the original's 4"]  # 2 + 2


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
            "expected: auto | int8 | int8-weights | int4-weights | int8-dynamic | float16 | none\nfound: int7\n"
            "hint: did you mean int8?",
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


def test_sums_that_an_exporter_lost_are_told(tmp_path: Path, onnx_file: Callable[..., Path]) -> None:
    """torch.Tensor.index_add, as the exporter of TorchScript writes it; random indices tell nothing."""
    model = onnx_file(
        """g (float[3] x, int64[3] at) => (float[4] y) {
            zeros = Constant <value = float[4] {0, 0, 0, 0}> ()  y = ScatterElements <axis = 0> (zeros, at, x) }"""
    )
    data = tmp_path / "data"
    data.mkdir()
    for number in range(2):
        np.savez(data / f"{number}.npz", x=np.float32([1, 2, number + 3]), at=np.array([2, 1, 2]))
    bundle = packaged(tmp_path / "out", model, "onnxruntime", data=data, quantize="none")
    (told,) = [text for text in bundle.manifest["stages"][1]["record"]["warnings"] if "ScatterElements" in text]
    assert told.startswith("node 'y' (ScatterElements) writes several values to one place (overwritten in a sample: 1)")
    without = packaged(tmp_path / "without", model, "onnxruntime", quantize="none")
    assert "ScatterElements) writes" not in json.dumps(without.manifest)


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
        assert manifest["model"]["kind"] == "float32"  # 6 weights are no smaller in int8


@pytest.mark.parametrize(("suffix", "what"), [(".png", "a picture"), (".wav", "a sound")])
def test_media_without_a_declaration_are_refused_before_the_model_is_fixed(
    tmp_path: Path, onnx_file: Callable[..., Path], suffix: str, what: str
) -> None:
    model = onnx_file("g (float[batch, 3, 4, 4] x) => (float[batch, 3, 4, 4] y) { y = Relu(x) }")
    data, told = tmp_path / "data", Told()
    data.mkdir()
    (data / f"0{suffix}").touch()
    with pytest.raises(InputError, match=f"how {what} becomes the model's input is not declared"):
        package(PackageRequest(model, "onnxruntime", tmp_path / "out", data=data), told)
    assert told.stages == ["load"]


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


@pytest.mark.parametrize("target", ["onnxruntime", "ios18"])
def test_a_training_mode_export_is_told_once(tmp_path: Path, onnx_file: Callable[..., Path], target: str) -> None:
    model = onnx_file(
        "f (float[1, 3] x) => (float[1, 3] y) { y, mask = Dropout(x, ratio, training) }",
        ratio=np.array(0.5, np.float32),
        training=np.array(True),
    )
    with pytest.raises(InputError) as failure:
        packaged(tmp_path / "out", model, target)
    assert str(failure.value).endswith(
        ": was exported in training mode: Dropout sets numbers to zero at random\n"
        "expected: a model that gives the same outputs for the same inputs\n"
        f"found: Dropout {'y'!r}\n"
        "hint: export it in evaluation mode: in PyTorch model.eval() first, and no training= in torch.onnx.export"
    )


def test_random_inputs_that_the_model_cannot_take(tmp_path: Path, onnx_file: Callable[..., Path]) -> None:
    model = onnx_file("f (float[4] x, int64[1] rows) => (float[r, c] y) { y = Reshape(x, rows) }")
    with pytest.raises((InputError, RequirementError)):
        packaged(tmp_path / "out", model, "onnxruntime")
    assert not (tmp_path / "out").exists()


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
    for number, x in enumerate(steps):
        np.savez(data / f"{number:02}.npz", x=x, h=np.full((1, 3), 9, np.float32))
    again = packaged(tmp_path / "again", model, "ios18", data=data, states={"h": "after"})
    warnings = [text for stage in again.manifest["stages"] for text in stage["record"].get("warnings", ())]
    assert "'h' in the samples is not used: the built model keeps its states itself, starting from zero" in warnings
    for (_, one), (_, other) in zip(golden, again.golden(), strict=True):
        np.testing.assert_array_equal(one["y"], other["y"])
    assert verify_bundle(again, data, model).accuracy is not None


def test_states_where_there_are_none_or_where_calibration_would_need_them(
    tmp_path: Path, onnx_file: Callable[..., Path]
) -> None:
    model = onnx_file(LEAKY_SUM, half=np.array(0.5, np.float32))
    for target in ("ios17", "intel-cpu", "onnxruntime"):
        with pytest.raises(InputError) as raised:
            packaged(tmp_path / "out", model, target, states={"h": "after"})
        assert str(raised.value) == (
            f"--state h=after: {target} has no states\n"
            "hint: leave --state out, in a project file by `states = {}` in [bundle.overrides.TARGET]: the app then "
            "feeds the states, as the original model has it"
        )
    with pytest.raises(InputError, match="the samples hold no states") as failure:
        packaged(tmp_path / "out", model, "ios18", data=tmp_path, quantize="int8", states={"h": "after"})
    assert str(failure.value).endswith(
        "hint: int4-weights, palette4, palette6, palette8: these store weights alone, which needs no samples"
    )


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
