from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

import edgekit
from edgekit.features.draws import Draw
from edgekit.reporting.summary import stage_record
from edgekit.target import Support

GRAPH = """<ir_version: 8, opset_import: ["" : 15]>
policy (float[1, 4] state) => (float[1, 4] action, int64[1, 1] choice)
<float scale = {0.5}> {
    noise = RandomNormalLike <mean = 1.0, scale = 2.0> (state)
    spread = Mul(noise, scale)
    action = Add(state, spread)
    choice = Multinomial <dtype = 7> (state)
}"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(onnx.parser.parse_model(GRAPH), tmp_path / "policy.onnx")
    return tmp_path / "policy.onnx"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Samples of what the model as it was exported takes."""
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(3):
        state = np.random.default_rng(number).standard_normal((1, 4)).astype(np.float32)
        np.savez(folder / f"{number}.npz", state=state)
    return folder


@pytest.mark.parametrize("target", ["onnxruntime", "intel-cpu", "ios18"])
def test_packaged_verified_and_run_with_random_numbers_from_outside(
    tmp_path: Path, model: Path, data: Path, target: str
) -> None:
    bundle = edgekit.package(model, target, tmp_path / "out", data=data, quantize="none")
    assert {feature.name: feature.drawn for feature in bundle.inputs} == {
        "state": None,
        "random_numbers": Draw("normal", 1.0, 2.0),
        "random_numbers_2": Draw("gumbel", 0.0, 1.0),
    }
    for feeds, outputs in bundle.golden():
        state, noise, draws = feeds["state"], feeds["random_numbers"], feeds["random_numbers_2"]
        np.testing.assert_allclose(outputs["action"], state + noise / 2, atol=1e-6)
        assert outputs["choice"].item() == np.argmax(state + draws[0])
    assert edgekit.verify(bundle, data=data, model=model).accuracy is not None
    if target != "ios18":  # whose check runs on a Mac
        subprocess.run([sys.executable, "check.py"], cwd=bundle.path, check=True, capture_output=True)


def test_a_loaded_bundle_draws_anew_where_a_sample_lacks_the_numbers(tmp_path: Path, model: Path, data: Path) -> None:
    loaded = edgekit.load(edgekit.package(model, "onnxruntime", tmp_path / "out", data=data, quantize="none"))
    state = np.array([[0.0, 1.0, 2.0, 3.0]], np.float32)
    first, second = (loaded.run(state)["action"] for _ in range(2))
    assert not np.array_equal(first, second)
    zeros = {"random_numbers": np.zeros((1, 4), np.float32), "random_numbers_2": np.zeros((1, 1, 4), np.float32)}
    fixed = loaded.run({"state": state, **zeros})
    np.testing.assert_array_equal(fixed["action"], state)
    assert fixed["choice"].item() == 3


def test_samples_may_hold_the_numbers(tmp_path: Path, model: Path, data: Path) -> None:
    bundle = edgekit.package(model, "onnxruntime", tmp_path / "out", data=data, quantize="none")
    folder = tmp_path / "given"
    folder.mkdir()
    golden = [feeds for feeds, _ in bundle.golden()]
    for number, feeds in enumerate(golden):
        np.savez(folder / f"{number}.npz", **feeds)
    assert edgekit.verify(bundle, data=folder, model=model).accuracy is not None


def test_the_same_sample_gets_the_same_numbers_whichever_others_there_are(
    tmp_path: Path, model: Path, data: Path
) -> None:
    def numbers(name: str) -> np.ndarray:
        bundle = edgekit.package(model, "onnxruntime", tmp_path / name, data=data, quantize="none")
        return next(iter(bundle.golden()))[0]["random_numbers"]

    before = numbers("before")
    (data / "2.npz").unlink()
    np.testing.assert_array_equal(numbers("after"), before)


def test_quantized_on_samples_without_the_numbers(tmp_path: Path, data: Path) -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 15]> g (float[1, 4] state) => (float[1, 8] action) '
        "{ wide = MatMul(state, w) noise = RandomNormalLike(wide) action = Add(wide, noise) }"
    )
    weights = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    onnx.save(proto, tmp_path / "net.onnx")
    edgekit.quantize(tmp_path / "net.onnx", tmp_path / "q.onnx", data=data, scheme="int8")
    inputs = [value.name for value in onnx.load(tmp_path / "q.onnx").graph.input]
    assert inputs == ["state", "random_numbers"]


def test_it_is_told_and_the_check_of_operators_follows(model: Path) -> None:
    found = edgekit.check(model, "ios18")
    assert found.warnings == (
        "input 'random_numbers' takes the random numbers that node 'noise' drew; the app has to draw them: normal "
        "with mean 1 and standard deviation 2",
        "input 'random_numbers_2' takes the random numbers that node 'choice' drew; the app has to draw them: "
        "-log(-log(u)) of a u that is uniform between 0 and 1",
    )
    assert Support.UNSUPPORTED not in {verdict.support for verdict in found.verdicts}


def test_a_size_that_folding_tells_is_enough(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 15]> g (float[1, 2, 3] x) => (float[?, ?] y) <int64[1] rest = {-1}> {
        shape = Shape(x)
        batch = Slice(shape, zero, one)
        flat = Concat <axis = 0> (batch, rest)
        row = Reshape(x, flat)
        noise = RandomNormalLike(row)
        y = Add(row, noise)
    }"""
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.array([number], np.int64), name) for number, name in enumerate(("zero", "one"))
    )
    onnx.save(proto, tmp_path / "net.onnx")
    bundle = edgekit.package(tmp_path / "net.onnx", "ios18", tmp_path / "out", quantize="none")
    assert [(feature.name, feature.shape) for feature in bundle.inputs] == [
        ("x", (1, 2, 3)),
        ("random_numbers", (1, 6)),
    ]
    assert "constants were not folded" not in str(stage_record(bundle.manifest, "fix shapes")["warnings"])


def test_draws_of_a_size_that_only_a_run_tells(tmp_path: Path) -> None:
    graph = """<ir_version: 8, opset_import: ["" : 15]>
    policy (float[batch, 6] x) => (int64[rows, 1] choice)
    <int64[2] in_threes = {-1, 3}, int64[2] halves = {3, 3}> {
        left, right = Split <axis = 1> (x, halves)
        logits = Reshape(right, in_threes)
        choice = Multinomial <dtype = 7> (logits)
    }"""
    onnx.save(onnx.parser.parse_model(graph), tmp_path / "policy.onnx")
    bundle = edgekit.package(tmp_path / "policy.onnx", "onnxruntime", tmp_path / "out", dims={"batch": range(1, 5)})
    _, numbers = bundle.inputs
    assert (numbers.drawn, numbers.shape) == (Draw("gumbel", 0.0, 1.0), ("batch", 1, 3))
