"""Apple's runtime beside the reference runtime, on packages for Core ML."""

from __future__ import annotations

from pathlib import Path

import coremltools as ct
import numpy as np
import onnx
import pytest
from coremltools.converters.mil import Builder as mb  # noqa: N813 - as everybody calls it
from coremltools.converters.mil.mil import types
from onnx import TensorProto, helper, numpy_helper

import edgekit_coreml
from edgekit.bundle_checks.verification import verify_bundle
from edgekit.errors import InputError
from edgekit.packaging.pipeline import package as run_pipeline
from edgekit.packaging.request import PackageRequest
from edgekit.progress import Progress
from edgekit.reporting.summary import stage_record, summary_rows
from edgekit_coreai.process import CoreAICrashError
from edgekit_coreai.witness import CoreAIWitness

RANDOM = np.random.default_rng(7)


def package(tmp_path: Path, precision: str) -> Path:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("LayerNormalization", ["c", "g"], ["n"], axis=-1),
        helper.make_node("Tanh", ["n"], ["y"]),
    ]
    weights = {
        "w": RANDOM.standard_normal((4, 2, 3, 3)).astype(np.float32),
        "g": RANDOM.random(8).astype(np.float32),
    }
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 8, 8])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    onnx.checker.check_model(model)
    return edgekit_coreml.convert(model, tmp_path / precision, precision=precision)


def test_both_witnesses_agree_on_a_package(tmp_path: Path) -> None:
    witness = CoreAIWitness()
    feeds = {"x": RANDOM.standard_normal((1, 2, 8, 8)).astype(np.float32)}
    for precision, tolerance in (("float32", 1e-5), ("float16", 5e-3)):
        path = package(tmp_path, precision)
        theirs, ours = witness.load(path).run(feeds)["y"], edgekit_coreml.load(path).run(feeds)["y"]
        np.testing.assert_allclose(theirs, ours, atol=tolerance)
    assert witness.parting(path.with_name("float32.mlpackage"), feeds) is None


def test_the_operation_where_they_part_is_named(tmp_path: Path) -> None:
    """Where NaN stands in an order is not documented: first in the reference runtime, last in Apple's."""

    @mb.program(input_specs=[mb.TensorSpec((2,))], opset_version=ct.target.iOS18)
    def program(x):  # type: ignore[no-untyped-def]
        doubled = mb.mul(x=x, y=2.0, name="doubled")
        order = mb.argsort(x=doubled, axis=0, name="order")
        return mb.add(x=order, y=1, name="y")

    model = ct.convert(program, minimum_deployment_target=ct.target.iOS18, compute_precision=ct.precision.FLOAT32)
    path = tmp_path / "argsort.mlpackage"
    model.save(str(path))
    parting = CoreAIWitness().parting(path, {"x": np.array([3.0, np.nan], np.float32)})
    assert parting is not None
    assert (parting.operation, parting.op_type) == ("order", "argsort")
    assert str(parting) == "argsort 'order', other values"


def test_a_refusal_of_apples_runtime_names_the_model_and_its_reason(tmp_path: Path) -> None:
    @mb.program(
        input_specs=[mb.TensorSpec((4,)), mb.TensorSpec((1,), dtype=types.int32)], opset_version=ct.target.iOS18
    )
    def program(x, i):  # type: ignore[no-untyped-def]
        return mb.gather(x=x, indices=i, axis=0, validate_indices=False, name="y")

    model = ct.convert(program, minimum_deployment_target=ct.target.iOS18, compute_precision=ct.precision.FLOAT32)
    path = tmp_path / "gather.mlpackage"
    model.save(str(path))
    runner = CoreAIWitness().load(path)
    with pytest.raises(CoreAICrashError, match=r"Index 9 is out of range \[-4, 4\)[\s\S]*while executing the model"):
        runner.run({"x": np.arange(4, dtype=np.float32), "i": np.array([9], np.int32)})


def test_a_witness_executes_what_is_packaged(tmp_path: Path) -> None:
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node("Softmax", ["x"], ["y"])],
            "test",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8])],
        ),
        opset_imports=[helper.make_opsetid("", 19)],
        ir_version=9,
    )
    onnx.save(model, tmp_path / "model.onnx")
    request = PackageRequest(
        tmp_path / "model.onnx", "ios18", tmp_path / "bundle", precision="float32", witness="coreai"
    )
    bundle = run_pipeline(request, Progress())
    record = stage_record(bundle.manifest, "witness")
    assert record["executed_by"].startswith("Apple's Core AI runtime")
    assert record["parting"] is None
    assert float(record["against_runtime"][0]["sqnr_db"]) > 100
    assert dict(summary_rows(bundle.manifest))["and by"].startswith("Apple's Core AI runtime")


def test_what_no_build_of_is_executed_by_the_witness_is_refused_before_the_model_is_read(tmp_path: Path) -> None:
    request = PackageRequest(tmp_path / "none.onnx", "onnxruntime", tmp_path / "bundle", witness="coreai")
    with pytest.raises(InputError) as caught:
        run_pipeline(request, Progress())
    assert str(caught.value) == (
        "--witness coreai: the witness executes none of these builds\n"
        "expected: a profile of target coreml\n"
        "found: onnxruntime, of target onnxruntime"
    )


def test_a_bundle_that_the_witness_does_not_execute_is_not_verified_by_it(tmp_path: Path) -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8]) for name in "xy")
    onnx.save(helper.make_model(helper.make_graph([node], "test", [x], [y])), tmp_path / "model.onnx")
    bundle = run_pipeline(PackageRequest(tmp_path / "model.onnx", "onnxruntime", tmp_path / "bundle"), Progress())
    with pytest.raises(InputError, match="the witness executes none of these builds"):
        verify_bundle(bundle, witness=CoreAIWitness())


def test_a_witness_executes_a_classifier_but_for_the_class_as_a_text(tmp_path: Path) -> None:
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node("Softmax", ["x"], ["y"])],
            "test",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])],
        ),
        opset_imports=[helper.make_opsetid("", 19)],
        ir_version=9,
    )
    onnx.save(model, tmp_path / "model.onnx")
    (tmp_path / "labels.txt").write_text("cat\ndog\nbird\n", encoding="utf-8")
    request = PackageRequest(
        tmp_path / "model.onnx", "ios18", tmp_path / "bundle", labels=tmp_path / "labels.txt", witness="coreai"
    )
    bundle = run_pipeline(request, Progress())
    assert stage_record(bundle.manifest, "build")["classifier"]
    assert stage_record(bundle.manifest, "witness")["executed_by"].startswith("Apple's Core AI runtime")
    feeds = {"x": np.log(np.array([[1, 2, 5]], np.float32))}
    results = CoreAIWitness().load(bundle.main).run(feeds)
    np.testing.assert_allclose(results["y"], [[0.125, 0.25, 0.625]], atol=1e-3)
    assert not any(isinstance(value, str | dict) for value in results.values())
    assert CoreAIWitness().parting(bundle.main, feeds) is None
