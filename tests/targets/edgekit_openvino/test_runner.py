from __future__ import annotations

import json
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest

import edgekit
import edgekit_openvino
from edgekit.errors import InputError
from edgekit_openvino.runner import CompiledRunner


@pytest.fixture
def runner(tmp_path: Path) -> CompiledRunner:
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]> g (float[2, 3] x, int64[3] i) => (float[2, 3] y, int64[3] j)'
        " { y = Relu(x) j = Add(i, i) }"
    )
    return edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model"))


def test_it_says_what_executes(runner: CompiledRunner) -> None:
    assert runner.executed_by.startswith("OpenVINO 20")
    assert runner.executed_by.endswith("CPU, f32, 1 thread")


def test_it_takes_arrays_that_cannot_be_written_and_that_are_not_contiguous(runner: CompiledRunner) -> None:
    x = np.arange(6, dtype=np.float32).reshape(3, 2).T
    x.flags.writeable = False
    np.testing.assert_array_equal(runner.run({"x": x, "i": np.arange(3)})["y"], x)


def test_results_outlive_the_next_run(runner: CompiledRunner) -> None:
    first = runner.run({"x": np.ones((2, 3), np.float32), "i": np.arange(3)})
    runner.run({"x": np.zeros((2, 3), np.float32), "i": np.arange(3)})
    assert first["y"].sum() == 6


def test_threads_that_share_a_runner_get_their_own_results(runner: CompiledRunner) -> None:
    def is_right(number: int) -> bool:
        feeds = {"x": np.full((2, 3), number, np.float32), "i": np.full(3, number)}
        results = runner.run(feeds)
        return bool(np.all(results["y"] == number) and np.all(results["j"] == 2 * number))

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(is_right, range(2000)))


def test_inputs_follow_the_sample_in_values_shape_and_type(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]> g (float[n, 2] x, int64 i) => (float[n, 2] y, int64 j)'
        " { y = Neg(x) j = Add(i, i) }"
    )
    runner = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model"))
    rng = np.random.default_rng(0)
    for rows, number in ((3, 1), (3, 2), (1, 3), (4, 4), (4, 5)):
        x = rng.standard_normal((rows, 2)).astype(np.float32)
        outputs = runner.run({"x": x, "i": np.array(number, np.int64)})
        np.testing.assert_array_equal(outputs["y"], -x)
        np.testing.assert_array_equal(outputs["j"], 2 * number)
    with pytest.raises(InputError):
        runner.run({"x": np.zeros((4, 3), np.float32), "i": np.array(1)})
    x = np.ones((4, 2), np.float32)
    np.testing.assert_array_equal(runner.run({"x": x, "i": np.array(7)})["y"], -x)


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({"x": np.zeros((2, 3), np.float32)}, "names"),
        ({"z": np.zeros((2, 3), np.float32), "i": np.arange(3)}, "names"),
        ({"x": np.zeros((2, 4), np.float32), "i": np.arange(3)}, r"shape|incompatible"),
        ({"x": np.zeros((2, 3), np.float64), "i": np.arange(3)}, "f64"),
        ({"x": np.zeros((2, 3), np.float32), "i": np.array([0, 1, 2**31])}, "32 bits"),
    ],
)
def test_inputs_that_are_not_the_models_are_refused(
    runner: CompiledRunner, feeds: dict[str, np.ndarray], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        runner.run(feeds)


def test_doubles_that_are_changed_on_the_way_are_refused(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]> g (double[2] x) => (double[2] y) { y = Neg(x) }'
    )
    runner = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model"))
    np.testing.assert_array_equal(runner.run({"x": np.array([1.5, -2.0])})["y"], [-1.5, 2.0])
    with pytest.raises(InputError, match="doubles"):
        runner.run({"x": np.array([1.5, 1e200])})


def test_without_its_settings_the_plugin_chooses_the_precision(tmp_path: Path) -> None:
    """An app that sets nothing computes in bfloat16 where the processor has instructions for it."""
    import openvino

    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]> g (float[2] x) => (float[2] y) { y = Neg(x) }'
    )
    chosen = openvino.Core().get_property("CPU", "INFERENCE_PRECISION_HINT").to_string()
    runner = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model"))
    assert ", f32, " in runner.executed_by
    by_default = runner.by_default()
    if chosen == "f32":
        assert by_default is None
    else:
        assert by_default is not None
        assert f", {chosen}, " in by_default.executed_by


def test_a_gated_feed_forward_layer_runs_in_the_precision_that_the_plugin_chooses(tmp_path: Path) -> None:
    """On one thread the plugin's fused layer ended the process where the processor has AMX."""
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 18]> g (float[1, 4, 32] x) => (float[1, 4, 32] y) {
            a = MatMul(x, gate) s = Sigmoid(a) b = Mul(a, s) c = MatMul(x, up) d = Mul(b, c) y = MatMul(d, down)
        }"""
    )
    random = np.random.default_rng(0)
    shapes = ((32, 64), (32, 64), (64, 32))
    gate, up, down = ((random.standard_normal(shape) / 6).astype(np.float32) for shape in shapes)
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(array, name) for array, name in ((gate, "gate"), (up, "up"), (down, "down"))
    )
    runner = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model"))
    x = random.standard_normal((1, 4, 32)).astype(np.float32)
    gates = x @ gate
    for each in filter(None, (runner, runner.by_default())):
        expected = gates / (1 + np.exp(-gates)) * (x @ up) @ down
        np.testing.assert_allclose(each.run({"x": x})["y"], expected, atol=0.05)


@pytest.mark.parametrize(
    ("profile", "settings"),
    [("intel-cpu", {"INFERENCE_PRECISION_HINT": "f32"}), ("intel-gpu", None), ("intel-npu", None)],
)
def test_the_manifest_says_what_an_app_sets(profile: str, settings: dict[str, str] | None, tmp_path: Path) -> None:
    onnx.save(
        onnx.parser.parse_model(
            '<ir_version: 9, opset_import: ["" : 18]> g (float[2, 2] x) => (float[2, 2] y) { y = Neg(x) }'
        ),
        tmp_path / "m.onnx",
    )
    bundle = edgekit.package(tmp_path / "m.onnx", profile, tmp_path / "bundle")
    written = json.loads((bundle.path / "manifest.json").read_text())
    assert written["model"].get("app_settings") == settings


def test_a_file_that_is_no_ir_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "model.xml"
    file.write_text("<net/>")
    with pytest.raises(InputError, match=r"model\.xml"):
        edgekit_openvino.load(file)


def test_an_operation_of_no_fixed_rank_is_named_with_what_to_do(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> g (float[N, 3] x) => (float y)
        <int64 one = {1}, int64 zero = {0}, int64[1] first = {0}> {
            s = Shape (x) d = Gather (s, zero) c = Equal (d, one)
            [fork] h = If (c) <
                then_branch = yes () => (float[1, N, 3] a) { a = Unsqueeze (x, first) },
                else_branch = no () => (float[N, 3] b) { b = Relu (x) }
            >
            y = ReduceSum <keepdims = 0> (h)
        }"""
    )
    converted = edgekit_openvino.convert(model, tmp_path / "model")
    with pytest.raises(InputError) as caught:
        edgekit_openvino.load(converted)
    assert caught.value.hint == (
        "'fork' has no fixed number of dimensions, as where the branches of an If differ in it or a Loop changes it: "
        "fix the sizes that decide with `edgekit fix`, or export the branch that is used alone"
    )


def test_an_unknown_precision_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="float16"):
        edgekit_openvino.convert(onnx.ModelProto(), tmp_path / "model", precision="int8")


def test_it_shows_values_inside_the_model_and_outputs(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]> g (float[2] x) => (float[2] y)'
        " { a = Neg(x) b = Exp(a) y = Add(b, x) }"
    )
    runner = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model"))
    x = np.array([0.5, -1], np.float32)
    shown = runner.intermediates({"x": x}, ["b", "y", "nobody"])
    assert set(shown) == {"b", "y"}
    np.testing.assert_allclose(shown["b"], np.exp(-x), rtol=1e-6)
    np.testing.assert_allclose(shown["y"], np.exp(-x) + x, rtol=1e-6)
    assert set(runner.run({"x": x})) == {"y"}


SIGNALLED = """
import signal
from pathlib import Path
from edgekit_openvino.runner import CompiledRunner

signal.signal(signal.SIGTERM, lambda number, frame: print("handled"))
first, second = (CompiledRunner(Path({path!r})) for _ in range(2))
del first
del second
signal.raise_signal(signal.SIGTERM)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_signal_is_handled_after_models_were_closed_in_the_order_of_their_opening(
    tmp_path: Path, runner: CompiledRunner
) -> None:
    """The plugin's own signal stack, left behind after it is freed, would end the process instead."""
    path = str(runner._path)
    program = SIGNALLED.format(path=path)
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stdout) == (0, "handled\n"), signal.strsignal(abs(finished.returncode))


def test_a_size_at_which_the_plugin_fails_does_not_give_the_results_before(tmp_path: Path) -> None:
    """On one thread, OpenVINO's own infer() hides the failure."""
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]> g (float[1, 1, w] x) => (float[1, 1, 1] y)'
        " { p = MaxPool <kernel_shape = [2]> (x) y = GlobalMaxPool (p) }"
    )
    runner = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model"))
    assert runner.run({"x": np.full((1, 1, 3), 7, np.float32)})["y"].item() == 7
    with pytest.raises(InputError, match="cannot run the model"):
        runner.run({"x": np.full((1, 1, 1), 5, np.float32)})
    assert runner.run({"x": np.full((1, 1, 2), 3, np.float32)})["y"].item() == 3
