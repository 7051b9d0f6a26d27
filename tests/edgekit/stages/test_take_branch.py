from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from edgekit.api import package, verify
from edgekit.errors import InputError
from edgekit.graph.sizes.shape_request import ShapeRequest
from edgekit.model import Model
from edgekit.stages import StageResult
from edgekit.stages.fix_shapes import FixShapes
from edgekit.stages.load import Load
from edgekit.stages.take_branch import TakeBranch, forks, needs_branch

WIDTH, PAST = 4, 3
RNG = np.random.default_rng(0)
FEEDS = {
    "x": RNG.standard_normal((1, 1, WIDTH)).astype(np.float32),
    "memory": RNG.standard_normal((1, 5, WIDTH)).astype(np.float32),
    "past_key": RNG.standard_normal((1, PAST, WIDTH)).astype(np.float32),
    "past_value": RNG.standard_normal((1, PAST, WIDTH)).astype(np.float32),
}
SHAPES = {name: list(array.shape) for name, array in FEEDS.items()}


def branch(*, cached: bool) -> onnx.GraphProto:
    """A decoder's step; in both branches the values that lead to the zeros have the same names."""
    if cached:
        keys, values = ["past_key", "x"], ["past_value", "x"]
    else:
        keys, values = ["memory", "x"], ["memory", "x"]
    nodes = [
        helper.make_node("Concat", keys, ["key"], axis=1),
        helper.make_node("Concat", values, ["value"], axis=1),
        helper.make_node("Shape", ["key"], ["shape"]),
        helper.make_node("Gather", ["shape", "place"], ["length"]),
        helper.make_node("Unsqueeze", ["length", "zero"], ["sizes"]),
        helper.make_node("ConstantOfShape", ["sizes"], ["zeros"]),
        helper.make_node("Unsqueeze", ["zeros", "last"], ["column"]),
        helper.make_node("Add", ["key", "column"], ["masked"]),
        helper.make_node("Mul", ["masked", "value"], ["product"]),
        helper.make_node("ReduceSum", ["product", "place_list"], ["y"], keepdims=1),
        helper.make_node("Gather", ["memory", "none" if cached else "places"], ["cross"], axis=1),
    ]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "key", "cross")]
    return helper.make_graph(nodes, "cached" if cached else "first", [], outputs)


def merged(path: Path, *, condition: str = "input") -> Path:
    """Both steps in one model, as optimum merges them; the condition is an input or computed from one."""
    constants = {
        "place": np.array(1),
        "place_list": np.array([1]),
        "zero": np.array([0]),
        "last": np.array([1]),
        "none": np.array([], np.int64),
        "places": np.arange(5),
    }
    sizes = {"x": [1, 1, WIDTH], "memory": [1, "source", WIDTH], "past_key": [1, "past", WIDTH]}
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in {**sizes, "past_value": [1, "past", WIDTH]}.items()
    ]
    nodes = []
    if condition == "input":
        inputs.append(helper.make_tensor_value_info("use_cache", TensorProto.BOOL, [1]))
        nodes.append(helper.make_node("Squeeze", ["use_cache"], ["flag"]))
    else:
        nodes = [
            helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
            helper.make_node("Cast", ["most"], ["flag"], to=TensorProto.BOOL),
        ]
    nodes.append(
        helper.make_node(
            "If",
            ["flag"],
            ["y", "present", "cross"],
            name="merged",
            then_branch=branch(cached=True),
            else_branch=branch(cached=False),
        )
    )
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "present", "cross")]
    graph = helper.make_graph(
        nodes,
        "g",
        inputs,
        outputs,
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    path.write_bytes(model.SerializeToString())
    return path


def by_onnxruntime(model: Path | Model, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    content = model.read_bytes() if isinstance(model, Path) else model.proto().SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    wanted = {value.name: feeds[value.name] for value in session.get_inputs()}
    return dict(zip((value.name for value in session.get_outputs()), session.run(None, wanted), strict=True))


def taken(path: Path, past: int = PAST) -> StageResult:
    shapes = {**SHAPES, "past_key": [1, past, WIDTH], "past_value": [1, past, WIDTH]}
    return TakeBranch()(FixShapes(ShapeRequest(shapes=shapes))(Load()(path).model).model)


@pytest.mark.parametrize("cached", [True, False])
def test_a_size_that_the_file_names_right_for_one_branch_alone(tmp_path: Path, cached: bool) -> None:
    path = merged(tmp_path / "model.onnx")
    model = onnx.load(path)
    forked = next(node for node in model.graph.node if node.op_type == "If")
    first = next(attribute.g for attribute in forked.attribute if attribute.name == "else_branch")
    first.node[0].output[0] = "joined"
    for node in reversed(
        [  # a shape that only execution tells
            helper.make_node("Shape", ["joined"], ["found"]),
            helper.make_node("Abs", ["found"], ["sides"]),
            helper.make_node("Reshape", ["joined", "sides"], ["key"]),
        ]
    ):
        first.node.insert(1, node)
    named = [attribute.g.output[1] for attribute in forked.attribute] + [model.graph.output[1]]
    for value in named:
        value.CopyFrom(helper.make_tensor_value_info(value.name, TensorProto.FLOAT, [1, "past + 1", WIDTH]))
    onnx.save(model, path)

    fixed = FixShapes(ShapeRequest(shapes=SHAPES))(Load()(path).model).model

    feeds = {**FEEDS, "use_cache": np.array([cached])}
    expected, found = by_onnxruntime(path, feeds), by_onnxruntime(fixed, feeds)
    assert found["present"].shape == (1, PAST + 1 if cached else 6, WIDTH)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("cached", [True, False])
def test_names_shared_by_two_branches_do_not_mix_up_their_shapes(tmp_path: Path, cached: bool) -> None:
    path = merged(tmp_path / "model.onnx")
    fixed = FixShapes(ShapeRequest(shapes=SHAPES))(Load()(path).model)
    assert fixed.record["warnings"] == []
    feeds = {**FEEDS, "use_cache": np.array([cached])}
    expected, found = by_onnxruntime(path, feeds), by_onnxruntime(fixed.model, feeds)
    assert expected.keys() == found.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)


def test_the_branch_that_reads_more_inputs_is_taken(tmp_path: Path) -> None:
    path = merged(tmp_path / "model.onnx")
    result = taken(path)
    assert [spec.name for spec in result.model.inputs] == ["x", "past_key", "past_value"]
    assert [str(spec) for spec in result.model.outputs] == ["y: float32 1×1×4", "present: float32 1×4×4"]
    assert result.record["inputs"] == {"use_cache": True}
    assert result.record["left_out"] == ["memory", "use_cache", "cross"]
    assert result.warnings == (
        "the branches of If 'merged' give different shapes, and the device holds fixed ones: the bundle is the "
        "branch for use_cache = true, and 'use_cache' is left out; for the branch for false, package with "
        "'past_key' empty",
    )
    expected = by_onnxruntime(path, {**FEEDS, "use_cache": np.array([True])})
    found = by_onnxruntime(result.model, FEEDS)
    for name in ("y", "present"):
        np.testing.assert_array_equal(found[name], expected[name])


def test_an_empty_past_asks_for_the_branch_without(tmp_path: Path) -> None:
    path = merged(tmp_path / "model.onnx")
    result = taken(path, past=0)
    assert result.record["inputs"] == {"use_cache": False}
    assert result.record["left_out"] == ["past_key", "past_value", "use_cache"]
    expected = by_onnxruntime(path, {**FEEDS, "use_cache": np.array([False])})
    found = by_onnxruntime(result.model, FEEDS)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)


def test_a_condition_that_is_computed_is_not_chosen(tmp_path: Path) -> None:
    path = merged(tmp_path / "model.onnx", condition="computed")
    fixed = FixShapes(ShapeRequest(shapes=SHAPES))(Load()(path).model).model
    assert not any(forks(fixed))


def test_branches_of_one_shape_stay(onnx_file: Callable[..., Path]) -> None:
    path = onnx_file(
        """g (float[1, 4] x, bool[1] flag) => (float[1, 4] y) {
            y = If (flag) <
                then_branch = t () => (float[1, 4] a) { a = Relu (x) },
                else_branch = e () => (float[1, 4] b) { b = Neg (x) }
            >
        }"""
    )
    assert not any(forks(Load()(path).model))


@pytest.mark.parametrize(("target", "inputs"), [("onnxruntime", 5), ("ios18", 3), ("intel-cpu", 3)])
def test_a_merged_decoder_becomes_a_bundle(tmp_path: Path, target: str, inputs: int) -> None:
    path = merged(tmp_path / "model.onnx")
    bundle = package(path, target, tmp_path / "bundle", shapes=SHAPES)
    assert len(bundle.inputs) == inputs
    assert ("take branch" in [stage["name"] for stage in bundle.manifest["stages"]]) == (target != "onnxruntime")
    data = tmp_path / "data"
    data.mkdir()
    feeds = {**FEEDS, "use_cache": np.array([True])}
    np.savez(data / "sample.npz", **{feature.name: feeds[feature.name] for feature in bundle.inputs})
    accuracy = verify(bundle, data=data, model=path).accuracy
    assert accuracy is not None
    assert {output.name for output in accuracy.outputs} >= {"y", "present"}


def written_samples(folder: Path, conditions: Sequence[bool]) -> Path:
    """Samples of the original's inputs, with what each holds for ``use_cache``."""
    folder.mkdir()
    for number, condition in enumerate(conditions):
        np.savez(folder / f"{number}.npz", **FEEDS, use_cache=np.array([condition]))
    return folder


@pytest.mark.parametrize(("condition", "inputs"), [(True, 3), (False, 2)])
def test_samples_of_the_original_choose_the_branch(tmp_path: Path, condition: bool, inputs: int) -> None:
    path = merged(tmp_path / "model.onnx")
    data = written_samples(tmp_path / "data", [condition] * 2)
    bundle = package(path, "ios18", tmp_path / "bundle", shapes=SHAPES, data=data, quantize="none")
    assert len(bundle.inputs) == inputs
    (taken,) = (stage["record"] for stage in bundle.manifest["stages"] if stage["name"] == "take branch")
    assert taken["inputs"] == {"use_cache": condition}
    assert f"the branch for use_cache = {str(condition).lower()}, as in the samples, and" in taken["warnings"][0]
    accuracy = verify(bundle, data=data, model=path).accuracy
    assert accuracy is not None
    assert {output.samples for output in accuracy.outputs} == {2}


def test_samples_of_both_branches_are_refused(tmp_path: Path) -> None:
    path = merged(tmp_path / "model.onnx")
    data = written_samples(tmp_path / "data", [True, False, True])
    with pytest.raises(InputError) as caught:
        package(path, "ios18", tmp_path / "bundle", shapes=SHAPES, data=data)
    assert str(caught.value).startswith(
        "input 'use_cache': the samples take both branches, which give different shapes, and the device holds fixed "
        "ones"
    )
    assert caught.value.found == "true in 2 of 3 samples"


def test_it_is_asked_for_by_devices_of_fixed_shapes_alone(tmp_path: Path) -> None:
    from edgekit.registry import find_profile

    model = FixShapes(ShapeRequest(shapes=SHAPES))(Load()(merged(tmp_path / "model.onnx")).model).model
    assert not needs_branch(model, [find_profile("onnxruntime")])
    assert needs_branch(model, [find_profile("onnxruntime"), find_profile("ios18")])


@pytest.fixture
def with_dropout(onnx_file: Callable[..., Path]) -> Path:
    """As TensorFlow 1 has it: dropout by a rate that is fed, where the model is being trained."""
    return onnx_file(
        """g (float[1, 64] x, bool is_training, float rate) => (float[1, 64] y) {
            d = If (is_training) <
                then_branch = t () => (float[1, 64] a) {
                    u = RandomUniformLike (x) k = GreaterOrEqual (u, rate) f = CastLike (k, x) a = Mul (x, f)
                },
                else_branch = e () => (float[1, 64] b) { b = Identity (x) }
            >
            y = Exp (d)
        }"""
    )


@pytest.mark.parametrize("target", ["onnxruntime", "ios18", "intel-cpu"])
def test_a_branch_that_draws_is_not_taken(with_dropout: Path, target: str, tmp_path: Path) -> None:
    bundle = package(with_dropout, target, tmp_path / "bundle")
    assert [feature.name for feature in bundle.inputs] == ["x"]
    (taken,) = (stage["record"] for stage in bundle.manifest["stages"] if stage["name"] == "take branch")
    assert taken["left_out"] == ["is_training", "rate"]
    assert taken["warnings"] == [
        "a branch of If 'd' draws random numbers, which differ between runtimes: the bundle is the branch for "
        "is_training = false, and 'is_training' is left out; the other one draws"
    ]


def test_samples_that_ask_for_the_branch_that_draws_as_well_are_refused(with_dropout: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for number in range(2):
        feeds = {"x": np.ones((1, 64), np.float32), "rate": np.array(0.5, np.float32)}
        np.savez(data / f"{number}.npz", **feeds, is_training=np.array(number == 0))
    with pytest.raises(
        InputError, match="both branches, and the one for true draws random numbers, which differ"
    ) as it:
        package(with_dropout, "ios18", tmp_path / "bundle", data=data)
    assert it.value.found == "true in 1 of 2 samples"
