from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from edgekit.errors import UnsupportedOpsError
from edgekit.packaging.pipeline import package
from edgekit.packaging.request import PackageRequest
from edgekit.progress import Progress
from edgekit.reporting.summary import stage_record
from edgekit.stages import StageResult
from edgekit.stages.load import Load

WriteOnnx = Callable[..., Path]
X = np.random.default_rng(3).standard_normal((2, 3)).astype(np.float32)
TWO_LABELS = "a = Softmax (x) b = Sigmoid (x) label = ArgMax <axis = 1, keepdims = 0> (a)"


def run(model: Path | onnx.ModelProto) -> dict[str, object]:
    serialized = str(model) if isinstance(model, Path) else model.SerializeToString()
    session = onnxruntime.InferenceSession(serialized, providers=["CPUExecutionProvider"])
    return dict(zip((output.name for output in session.get_outputs()), session.run(None, {"x": X}), strict=True))


def outputs(result: StageResult) -> list[tuple[str, str]]:
    return [(spec.name, spec.dtype) for spec in result.model.outputs]


@pytest.mark.parametrize(
    ("built", "elements"),
    [
        ("probabilities = SequenceConstruct (a, b)", "ab"),
        ("s = SequenceConstruct (a, b) t = Identity (s) probabilities = Identity (t)", "ab"),
        ("probabilities = SequenceConstruct (x, a, a)", "xaa"),
        ("short = ReduceMax <axes = [1]> (b) probabilities = SequenceConstruct (short, b)", None),
    ],
)
def test_each_element_of_a_sequence_becomes_an_output(onnx_file: WriteOnnx, built: str, elements: str | None) -> None:
    path = onnx_file(
        f"g (float[n, 3] x) => (int64[n] label, seq(float[]) probabilities, float[n, 3] b) {{ {TWO_LABELS} {built} }}"
    )
    expected = run(path)
    result = Load()(path)
    names = [f"probabilities_{number}" for number in range(len(expected["probabilities"]))]
    assert outputs(result) == [("label", "int64"), *((name, "float32") for name in names), ("b", "float32")]
    assert "SequenceConstruct" not in [node.op_type for node in result.model.graph]
    found = run(result.model.proto())
    for name, element in zip(names, expected["probabilities"], strict=True):
        np.testing.assert_array_equal(found[name], element)
    if elements is not None:
        np.testing.assert_array_equal(found[names[0]], X if elements[0] == "x" else expected["probabilities"][0])
    np.testing.assert_array_equal(found["label"], expected["label"])
    assert result.record["sequences"] == {"probabilities": names}
    assert result.warnings == (
        f"output 'probabilities' was a sequence and is a tensor for each of its elements: {', '.join(names)}",
    )


@pytest.mark.parametrize(
    ("made", "elements"),
    [
        ("p = SplitToSequence <axis = -1> (x)", [X[:, :1], X[:, 1:2], X[:, 2:]]),
        ("p = SplitToSequence <axis = 1, keepdims = 0> (x)", [X[:, 0], X[:, 1], X[:, 2]]),
        ("two = Constant <value_int = 2> () p = SplitToSequence <axis = 1> (x, two)", [X[:, :2], X[:, 2:]]),
        ("two = Constant <value_ints = [1, 2]> () p = SplitToSequence <axis = 1> (x, two)", [X[:, :1], X[:, 1:]]),
        ("s = SequenceConstruct (x, a) p = SequenceInsert (s, b)", [X, np.abs(X), -X]),
        (
            "s = SequenceEmpty () t = SequenceInsert (s, x) u = SequenceInsert (t, a) "
            "last = Constant <value_int = -1> () p = SequenceInsert (u, b, last)",
            [X, -X, np.abs(X)],
        ),
        ("s = SequenceConstruct (x, a, b) p = SequenceErase (s)", [X, np.abs(X)]),
        (
            "s = SequenceConstruct (x, a, b) first = Constant <value_int = -3> () p = SequenceErase (s, first)",
            [np.abs(X), -X],
        ),
    ],
)
@pytest.mark.parametrize("opset", [12, 20])
def test_steps_that_make_a_fixed_number_of_tensors_are_followed(
    onnx_file: WriteOnnx, made: str, elements: list[np.ndarray], opset: int
) -> None:
    path = onnx_file(f"g (float[n, 3] x) => (seq(float[]) p) {{ a = Abs (x) b = Neg (x) {made} }}")
    proto = onnx.load(path)
    proto.opset_import[0].version = opset
    onnx.save(proto, path)
    result = Load()(path)
    found = run(result.model.proto())
    assert list(found) == [f"p_{number}" for number in range(len(elements))]
    for array, expected in zip(found.values(), elements, strict=True):
        np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize("target", ["intel-cpu", "ios18", "onnxruntime"])
def test_a_returned_optional_value_is_its_tensor(onnx_file: WriteOnnx, tmp_path: Path, target: str) -> None:
    path = onnx_file("g (float[2, 3] x) => (optional(float[2, 3]) y) { a = Neg (x) y = Optional (a) }")
    made = package(PackageRequest(path, target, tmp_path / "bundle"), Progress())
    assert [(output["name"], output["dtype"]) for output in made.manifest["outputs"]] == [("y", "float32")]
    np.testing.assert_array_equal(run(Load()(path).model.proto())["y"], -X)


@pytest.mark.parametrize("target", ["intel-cpu", "ios18", "onnxruntime", "web"])
@pytest.mark.parametrize(
    "made",
    [
        "parts = SplitToSequence (x, place)",
        "s = SequenceConstruct (x, x) parts = SequenceErase (s, place)",
    ],
)
def test_a_sequence_of_an_uncertain_length_is_refused_by_name(
    onnx_file: WriteOnnx, tmp_path: Path, target: str, made: str
) -> None:
    path = onnx_file(f"g (float[2, 3] x, int64 place) => (seq(float[]) parts) {{ {made} }}")
    arrays = {"x": X, "place": np.array(1)}
    with pytest.raises(UnsupportedOpsError, match=r"\(node 'parts'\)") as caught:
        package(PackageRequest(path, target, tmp_path / "bundle", data=_saved(tmp_path / "data", arrays)), Progress())
    assert caught.value.exit_code == 1
    assert not (tmp_path / "bundle").exists()


def _saved(folder: Path, arrays: dict[str, np.ndarray]) -> Path:
    folder.mkdir()
    np.savez(folder / "0.npz", **arrays)
    return folder


def test_names_that_values_have_are_left_to_them(onnx_file: WriteOnnx) -> None:
    path = onnx_file(
        """g (float[2, 3] x) => (seq(float[]) p) {
        p_1 = Abs (x) total = ReduceSum <keepdims = 0> (p_1) zero = Constant <value = float {0.0}> ()
        some = Greater (total, zero)
        q = If (some) <
            then_branch = yes () => (float[2, 3] p__0) { p__0 = Neg (x) },
            else_branch = no () => (float[2, 3] other) { other = Identity (x) }
        >
        p = SequenceConstruct (p_1, q)
        }"""
    )
    result = Load()(path)
    assert result.record["sequences"] == {"p": ["p___0", "p___1"]}
    found = run(result.model.proto())
    np.testing.assert_array_equal(found["p___0"], np.abs(X))
    np.testing.assert_array_equal(found["p___1"], -X)


def test_a_sequence_that_the_graph_reads_stays_for_that(onnx_file: WriteOnnx) -> None:
    path = onnx_file(
        """g (float[2, 3] x) => (seq(float[]) p, float[2, 3] first) {
        a = Abs (x) p = SequenceConstruct (a, x) zero = Constant <value_int = 0> () first = SequenceAt (p, zero)
        }"""
    )
    result = Load()(path)
    assert [name for name, _ in outputs(result)] == ["p_0", "p_1", "first"]
    found = run(result.model.proto())
    np.testing.assert_array_equal(found["first"], np.abs(X))
    np.testing.assert_array_equal(found["p_1"], X)


def test_the_functions_of_a_file_may_build_a_sequence(onnx_file: WriteOnnx) -> None:
    proto = onnx.load(onnx_file("g (float[2, 3] x) => (seq(float[]) p) { a = Abs (x) p = SequenceConstruct (a, x) }"))
    body = list(proto.graph.node)
    standard = list(proto.opset_import)
    proto.functions.append(onnx.helper.make_function("own", "Pair", ["x"], ["p"], body, standard))
    del proto.graph.node[:]
    proto.graph.node.append(onnx.helper.make_node("Pair", ["x"], ["p"], domain="own"))
    proto.opset_import.append(onnx.helper.make_opsetid("own", 1))
    path = onnx_file("g (float[2, 3] x) => (float[2, 3] y) { y = Abs (x) }")
    onnx.save(proto, path)
    found = run(Load()(path).model.proto())
    np.testing.assert_array_equal(found["p_0"], np.abs(X))
    np.testing.assert_array_equal(found["p_1"], X)


def test_a_sequence_of_a_length_that_is_not_certain_stays(onnx_file: WriteOnnx) -> None:
    path = onnx_file("g (float[n, 3] x) => (seq(float[]) parts) { parts = SplitToSequence <axis = 0> (x) }")
    result = Load()(path)
    assert (outputs(result), result.record["sequences"]) == ([("parts", "seq(float32)")], {})


@pytest.mark.parametrize("target", ["intel-cpu", "ios18", "onnxruntime"])
def test_every_target_packages_a_model_that_returns_a_sequence(
    onnx_file: WriteOnnx, tmp_path: Path, target: str
) -> None:
    path = onnx_file(
        f"""g (float[2, 3] x) => (int64[2] label, seq(float[]) probabilities) {{
        {TWO_LABELS} probabilities = SequenceConstruct (a, b) }}"""
    )
    package(PackageRequest(path, target, tmp_path / "bundle"), Progress())
    manifest = json.loads((tmp_path / "bundle" / "manifest.json").read_text())
    names = ["probabilities_0", "probabilities_1"]
    assert [output["name"] for output in manifest["outputs"]] == ["label", *names]
    assert stage_record(manifest, Load.name)["sequences"] == {"probabilities": names}
