from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import edgekit
from edgekit.bundle import Bundle
from edgekit.bundle_checks.verification import verify_bundle
from edgekit.comparison.acceptance.recorded import ExportError, check_export
from edgekit.data.samples import FolderSamples, open_samples
from edgekit.errors import EdgeKitError, InputError
from edgekit.execution.recurrence import reference_of
from edgekit.model import Model
from edgekit.packaging.pipeline import package
from edgekit.packaging.request import PackageRequest
from edgekit.stages.load import Load
from edgekit.terminal.progress import Progress

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
INPUTS = [RNG.standard_normal((1, 3, 8, 8)).astype(np.float32) for _ in range(4)]


def network() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.GELU(), torch.nn.Flatten(), torch.nn.Linear(288, 5)
    )


def exported(module: Any, path: Path) -> Path:
    module.eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module, (torch.from_numpy(INPUTS[0]),), str(path), input_names=["input"], output_names=["y"], dynamo=False
        )
    return path


def with_a_fault(path: Path) -> Path:
    """The exported model with one weight that differs from the module's."""
    proto = onnx.load(path)
    bias = next(tensor for tensor in proto.graph.initializer if list(tensor.dims) == [5])
    bias.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(bias) + 1, bias.name))
    onnx.save(proto, path)
    return path


def samples_for(model: Model, folder: Path) -> FolderSamples:
    return open_samples(folder, model.fed_inputs)


def packaged(model: Path, data: Path, output: Path) -> Bundle:
    return package(PackageRequest(model, "onnxruntime", output, data=data, quantize="none"), Progress())


def test_a_right_export_passes(tmp_path: Path) -> None:
    module = network().train()
    data = edgekit.record(module, INPUTS, tmp_path / "data")
    assert module.training
    model = Load()(exported(module, tmp_path / "m.onnx")).model
    check = check_export(model, reference_of(model), samples_for(model, data))
    assert check is not None
    assert check.outputs[0].worst_sample_db is not None
    assert check.outputs[0].worst_sample_db > 100
    bundle = packaged(tmp_path / "m.onnx", data, tmp_path / "bundle")
    accuracy = verify_bundle(bundle, data).accuracy  # neither labels nor the original are needed
    assert accuracy is not None
    assert accuracy.reference == "the outputs recorded with the samples"


def test_a_fault_in_the_export_is_blamed_on_the_export(tmp_path: Path) -> None:
    data = edgekit.record(network(), INPUTS, tmp_path / "data")
    path = with_a_fault(exported(network(), tmp_path / "m.onnx"))
    with pytest.raises(ExportError) as caught:
        packaged(path, data, tmp_path / "bundle")
    assert "m: does not compute what its framework computed: the fault is in the export" in str(caught.value)
    assert "output 'y': SQNR " in str(caught.value)
    assert not (tmp_path / "bundle").exists()


def test_a_fault_in_the_target_is_blamed_on_the_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from edgekit_onnxruntime.runner import SessionRunner

    data = edgekit.record(network(), INPUTS, tmp_path / "data")
    right = SessionRunner.run

    def wrong(self: Any, feeds: Any, **rest: Any) -> Any:
        return {name: array + np.float32(1) for name, array in right(self, feeds, **rest).items()}

    monkeypatch.setattr(SessionRunner, "run", wrong)
    with pytest.raises(EdgeKitError) as caught:
        packaged(exported(network(), tmp_path / "m.onnx"), data, tmp_path / "bundle")
    assert "the fault is in the target, not in the export" in str(caught.value.hint)


def test_names_of_inputs_and_outputs(tmp_path: Path) -> None:
    class Two(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, first: Any, second: Any) -> Any:
            return {"total": first + second, "parts": (first, second)}

    data = edgekit.record(
        Two(), [{"second": np.ones(2, np.float32), "first": np.zeros(2, np.float32)}], tmp_path / "data"
    )
    with np.load(data / "sample-0001.npz") as arrays:
        assert set(arrays.files) == {"first", "second", "output:total", "output:parts.0", "output:parts.1"}
        np.testing.assert_array_equal(arrays["output:total"], [1, 1])


def test_what_cannot_be_recorded(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not of a framework whose outputs can be recorded"):
        edgekit.record(lambda x: x, INPUTS, tmp_path / "data")
    with pytest.raises(InputError, match="there are no inputs to record"):
        edgekit.record(network(), [], tmp_path / "data")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="exists and is not a folder of samples"):
        edgekit.record(network(), INPUTS, tmp_path / "other")


def test_an_output_that_the_model_does_not_have(tmp_path: Path) -> None:
    model = Load()(exported(network(), tmp_path / "m.onnx")).model
    data = tmp_path / "data"
    data.mkdir()
    np.savez(data / "a.npz", **{"input": INPUTS[0], "output:scores": np.zeros((1, 5), np.float32)})
    with pytest.raises(InputError, match="the model has no output 'scores'"):
        check_export(model, reference_of(model), samples_for(model, data))


def test_a_keras_model(tmp_path: Path) -> None:
    keras = pytest.importorskip("keras")
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3), keras.layers.Dropout(0.5)])
    # whole numbers: their sums are exact in every order
    x, kernel, bias = (RNG.integers(-9, 10, shape).astype(np.float32) for shape in ((1, 4), (4, 3), (3,)))
    model.set_weights([kernel, bias])
    data = edgekit.record(model, [x], tmp_path / "data")
    with np.load(data / "sample-0001.npz") as arrays:
        np.testing.assert_array_equal(arrays["output:0"], x @ kernel + bias)
    graph = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 17]> g (float[1, 4] {model.inputs[0].name}) => (float[1, 3] y) {{
            m = MatMul ({model.inputs[0].name}, kernel) y = Add (m, bias)
        }}"""
    )
    for wrong in (0, 1):
        del graph.graph.initializer[:]
        graph.graph.initializer.extend(
            onnx.numpy_helper.from_array(array, name) for name, array in (("kernel", kernel + wrong), ("bias", bias))
        )
        onnx.save(graph, tmp_path / "m.onnx")
        loaded = Load()(tmp_path / "m.onnx").model
        if wrong:
            with pytest.raises(ExportError):
                check_export(loaded, reference_of(loaded), samples_for(loaded, data))
        else:
            assert check_export(loaded, reference_of(loaded), samples_for(loaded, data)) is not None
