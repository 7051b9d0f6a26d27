from __future__ import annotations

import json

import numpy as np
import pytest

import edgekit_coreml
from edgekit.errors import InputError
from edgekit_mlruntime.border import Port
from edgekit_mlruntime.failures import ExecutionError


@pytest.fixture
def types(ct):
    from coremltools.converters.mil.mil import types

    return types


@pytest.fixture
def native(save, mb, types):
    def program(x, n):
        return mb.add(x=x, y=mb.cast(x=n, dtype="fp32"), name="out")

    return edgekit_coreml.load(save(program, {"x": ((2, 3),), "n": ((1,), types.int32)}))


def feeds(**changes):
    return {"x": np.zeros((2, 3), np.float32), "n": np.int32([1]), **changes}


def test_ports_tell_what_a_native_model_takes(native):
    assert native.inputs == (Port("x", "float32", (2, 3)), Port("n", "int32", (1,)))
    assert native.outputs == (Port("out", "float32", (2, 3)),)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": np.zeros(1)}, "y: no such input"),
        ({"x": np.zeros((3, 2), np.float32)}, r"input 'x': wrong shape\nexpected: \(2, 3\)\nfound: \(3, 2\)"),
        ({"n": np.float32([1])}, r"input 'n': wrong element type\nexpected: int32\nfound: float32\nhint: "),
        ({"n": np.int64([2**31])}, "input 'n': a value does not fit"),
    ],
)
def test_wrong_feeds_are_refused_by_name(native, changes, message):
    with pytest.raises(InputError, match=message):
        native.run(feeds(**changes))


def test_a_missing_feed_is_refused_by_name(native):
    with pytest.raises(InputError, match="n: input is missing"):
        native.run({"x": np.zeros((2, 3), np.float32)})


def test_wider_native_feeds_are_taken_if_they_fit(native):
    results = native.run(feeds(x=np.full((2, 3), 0.5), n=np.int64([7])))
    np.testing.assert_array_equal(results["out"], np.full((2, 3), 7.5, np.float32))
    assert results["out"].dtype == np.float32


def test_results_belong_to_the_caller(save, mb):
    runner = edgekit_coreml.load(
        save(lambda x: (mb.identity(x=x, name="same"), mb.identity(x=np.float32([1, 2]), name="fixed")), {"x": ((2,),)})
    )
    x = np.float32([5, 6])
    for _ in range(2):
        results = runner.run({"x": x})
        assert results["same"].tolist() == [5, 6]
        assert results["fixed"].tolist() == [1, 2]
        results["same"][:] = 0
        results["fixed"][:] = 0


def port(name, dtype, shape, native_name, native_dtype="float32", native_shape=None):
    return {
        "name": name,
        "dtype": dtype,
        "shape": shape,
        "native_name": native_name,
        "native_dtype": native_dtype,
        "native_shape": native_shape or shape,
    }


@pytest.fixture
def mapped(save, mb, types):
    """An ONNX model with a scalar int64, a bool and a float64 input behind a native interface."""

    def program(ids, flag, x):
        chosen = mb.select(cond=mb.cast(x=flag, dtype="bool"), a=x, b=mb.cast(x=ids, dtype="fp32"))
        return mb.cast(x=chosen, dtype="int32", name="whole"), mb.mul(x=chosen, y=2.0, name="twice")

    record = {
        "inputs": [
            port("x.1", "float64", [2, 2], "x", native_shape=[4]),
            port("input:0", "int64", [], "ids", "int32", [1]),
            port("onnx::flag", "bool", [1], "flag", "int32"),
        ],
        "outputs": [
            port("twice/a", "float32", [2, 2], "twice", native_shape=[4]),
            port("twice/b", "float64", [2, 2], "twice", native_shape=[4]),
            port("whole.1", "int64", ["n", 2], "whole", "int32", [4]),
        ],
    }
    inputs = {"ids": ((1,), types.int32), "flag": ((1,), types.int32), "x": ((4,),)}
    return save(program, inputs, metadata={"edgekit.io": record})


def test_a_recorded_interface_speaks_onnx(mapped):
    runner = edgekit_coreml.load(mapped)
    assert [(port.name, port.dtype, port.shape) for port in runner.inputs] == [
        ("x.1", "float64", (2, 2)),
        ("input:0", "int64", ()),
        ("onnx::flag", "bool", (1,)),
    ]
    x = np.float64([[1.5, 2], [3, 4]])
    results = runner.run({"x.1": x, "input:0": np.array(9, np.int64), "onnx::flag": np.array([True])})
    assert {name: (value.dtype.name, value.tolist()) for name, value in results.items()} == {
        "twice/a": ("float32", [[3, 4], [6, 8]]),
        "twice/b": ("float64", [[3, 4], [6, 8]]),
        # A shape that is known only at run time is left as the program has it.
        "whole.1": ("int64", [1, 2, 3, 4]),
    }
    results = runner.run({"x.1": x, "input:0": np.array(9, np.int64), "onnx::flag": np.array([False])})
    assert results["whole.1"].tolist() == [9, 9, 9, 9]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input:0": np.array(2**31, np.int64)}, "input 'input:0': a value does not fit.*\nexpected: int32"),
        ({"input:0": np.array(9, np.int32)}, "input 'input:0': wrong element type"),
        ({"x.1": np.zeros(4)}, "input 'x.1': wrong shape"),
    ],
)
def test_a_recorded_interface_takes_onnx_types_and_shapes_only(mapped, changes, message):
    given = {"x.1": np.zeros((2, 2)), "input:0": np.array(9, np.int64), "onnx::flag": np.array([True]), **changes}
    with pytest.raises(InputError, match=message):
        edgekit_coreml.load(mapped).run(given)


def test_tensors_without_elements_stay_outside(save, mb):
    record = {
        "inputs": [port("x", "float32", [0, 3], "x", native_shape=[1, 3])],
        "outputs": [port("y", "int64", [2, 0], "y", native_shape=[1, 3])],
    }
    path = save(lambda x: mb.relu(x=x, name="y"), {"x": ((1, 3),)}, metadata={"edgekit.io": record})
    result = edgekit_coreml.load(path).run({"x": np.zeros((0, 3), np.float32)})["y"]
    assert (result.shape, result.dtype) == ((2, 0), np.int64)


def test_a_result_of_another_shape_than_the_record_states_is_an_error(save, mb):
    record = {"inputs": [port("x", "float32", [1, 3], "x")], "outputs": [port("y", "float32", [1, 2], "y")]}
    path = save(lambda x: mb.relu(x=x, name="y"), {"x": ((1, 3),)}, metadata={"edgekit.io": record})
    with pytest.raises(ExecutionError, match=r"output 'y': .*\nexpected: \(1, 2\)\nfound: \(1, 3\)"):
        edgekit_coreml.load(path).run({"x": np.zeros((1, 3), np.float32)})


@pytest.mark.parametrize("record", ["no JSON", json.dumps({"inputs": [], "outputs": [{"name": "y"}]})])
def test_a_record_that_does_not_fit_the_model_is_refused(save, mb, record):
    path = save(lambda x: mb.relu(x=x, name="out"), {"x": ((1,),)}, metadata={"edgekit.io": record})
    with pytest.raises(InputError, match=r"edgekit\.io"):
        edgekit_coreml.load(path)


def test_flexible_shapes_are_held_to_their_declaration(save, mb, ct):
    from coremltools.converters.mil.mil import get_new_symbol

    shape = ct.Shape((1, ct.RangeDim(2, 4, default=2)))
    ranged = save(
        lambda x: mb.relu(x=x, name="out"), {"x": ((1, get_new_symbol()),)}, inputs=[ct.TensorType("x", shape=shape)]
    )
    runner = edgekit_coreml.load(ranged)
    assert runner.inputs[0].shape == (1, None)
    for size in (2, 3, 4):
        assert runner.run({"x": -np.ones((1, size), np.float32)})["out"].tolist() == [[0] * size]
    with pytest.raises(InputError, match=r"out of the range.*\nexpected: 1\.\.1, 2\.\.4"):
        runner.run({"x": np.ones((1, 5), np.float32)})


def test_enumerated_shapes_are_held_to_their_declaration(save, mb, ct):
    from coremltools.converters.mil.mil import get_new_symbol

    shape = ct.EnumeratedShapes([(1, 2), (1, 5)], default=(1, 2))
    listed = save(
        lambda x: mb.relu(x=x, name="out"), {"x": ((1, get_new_symbol()),)}, inputs=[ct.TensorType("x", shape=shape)]
    )
    runner = edgekit_coreml.load(listed)
    assert runner.run({"x": np.ones((1, 5), np.float32)})["out"].shape == (1, 5)
    with pytest.raises(InputError, match=r"expected: \(1, 2\) or \(1, 5\)"):
        runner.run({"x": np.ones((1, 3), np.float32)})


def test_optional_inputs_have_their_default(save, mb, ct):
    path = save(
        lambda x, bias: mb.add(x=x, y=bias, name="out"),
        {"x": ((2,),), "bias": ((2,),)},
        inputs=[
            ct.TensorType("x", shape=(2,)),
            ct.TensorType("bias", shape=(2,), default_value=np.full((2,), 0.5, np.float32)),
        ],
    )
    runner = edgekit_coreml.load(path)
    assert runner.run({"x": np.float32([1, 2])})["out"].tolist() == [1.5, 2.5]
    assert runner.run({"x": np.float32([1, 2]), "bias": np.float32([1, 1])})["out"].tolist() == [2, 3]


@pytest.mark.parametrize("labels", [["cat", "dog", "eel"], [7, 8, 9]])
def test_a_classifier_gives_its_label_and_all_probabilities(save, mb, ct, labels):
    path = save(lambda x: mb.softmax(x=x, name="p"), {"x": ((1, 3),)}, classifier_config=ct.ClassifierConfig(labels))
    results = edgekit_coreml.load(path).run({"x": np.log(np.float32([[0.2, 0.5, 0.3]]))})
    assert results["classLabel"] == labels[1]
    assert type(results["classLabel"]) is type(labels[1])
    assert results["classLabel_probs"] == pytest.approx(dict(zip(labels, [0.2, 0.5, 0.3], strict=True)), rel=1e-5)


def test_images_come_as_float_tensors_of_their_colours(save, mb, ct):
    path = save(
        lambda image: mb.mul(x=image, y=2.0, name="out"),
        {"image": ((1, 3, 2, 2),)},
        inputs=[ct.ImageType("image", shape=(1, 3, 2, 2), color_layout="RGB")],
    )
    image = np.arange(12, dtype=np.float32).reshape(1, 3, 2, 2)
    np.testing.assert_array_equal(edgekit_coreml.load(path).run({"image": image})["out"], image * 2)
