"""Where a device begins to compute something else, found in models that were changed at a known place."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import pytest

from edgekit.bundle import Bundle, read_bundle
from edgekit.bundle_checks.original import original_of
from edgekit.device import Device, Session, Timing
from edgekit.device_check.python_check import PROGRAM
from edgekit.devices.channel import Channel
from edgekit.devices.local import LocalDevice
from edgekit.devices.service_session import ServiceSession
from edgekit.diagnosis.divergence import Divergence, compare_layers, shipped_graph
from edgekit.errors import InputError, RequirementError
from edgekit.model import Arrays
from edgekit.packaging.pipeline import package
from edgekit.packaging.request import PackageRequest
from edgekit.progress import Progress

GRAPH = """g (float[1, 3, 8, 8] x) => (float[1, 5] y) {
    a = Conv <pads = [1, 1, 1, 1]> (x, wa)
    b = Relu (a)
    c = Conv <pads = [1, 1, 1, 1]> (b, wc)
    d = Relu (c)
    e = Add (b, d)
    f = GlobalAveragePool (e)
    g2 = Flatten (f)
    y = MatMul (g2, wy)
}"""
SHAPES = {"wa": (4, 3, 3, 3), "wc": (4, 4, 3, 3), "wy": (4, 5)}
FROM_C = ["c", "d", "e", "f", "g2", "y"]
"""What is computed from ``wc``."""

Packaged = Callable[..., Path]


def weights() -> dict[str, np.ndarray]:
    random = np.random.default_rng(5)
    return {name: random.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}


@pytest.fixture
def packaged(onnx_model: Callable[..., onnx.ModelProto], tmp_path: Path) -> Packaged:
    """Packages the model for a target in float32, and returns the bundle's folder."""

    def make(target: str) -> Path:
        onnx.save(onnx_model(GRAPH, **weights()), tmp_path / "model.onnx")
        request = PackageRequest(tmp_path / "model.onnx", target, tmp_path / target, precision="float32")
        return package(request, Progress()).path

    return make


def compared(folder: Path, original: Path | None = None) -> Divergence:
    bundle = read_bundle(folder)
    reference = shipped_graph(bundle) if original is None else original_of(bundle, original)
    with LocalDevice().open(bundle) as session:
        return compare_layers(session, bundle, reference, next(bundle.golden())[0])


def spoil(file: Path, weight: np.ndarray) -> None:
    """Reverses a weight where its bytes stand in a file."""
    content = file.read_bytes()
    assert content.count(weight.tobytes()) == 1
    file.write_bytes(content.replace(weight.tobytes(), weight.ravel()[::-1].tobytes()))


WEIGHT_FILES = {
    "onnxruntime": "model.onnx",
    "intel-cpu": "model.bin",
    "ios18": "model.mlpackage/Data/com.apple.CoreML/weights/weight.bin",
}


@pytest.mark.parametrize("target", WEIGHT_FILES)
def test_a_good_build_diverges_nowhere(target: str, packaged: Packaged, tmp_path: Path) -> None:
    divergence = compared(packaged(target), tmp_path / "model.onnx")
    assert divergence.first is None
    assert {"a", "b", "c", "d", "e", "y"} <= {layer.value for layer in divergence.layers}
    assert all(layer.is_near for layer in divergence.layers)


@pytest.mark.parametrize("target", WEIGHT_FILES)
def test_the_layer_whose_weight_is_wrong_is_named(target: str, packaged: Packaged, tmp_path: Path) -> None:
    bundle = packaged(target)
    spoil(bundle / WEIGHT_FILES[target], weights()["wc"])
    divergence = compared(bundle, tmp_path / "model.onnx")
    assert divergence.first is not None
    assert (divergence.first.value, divergence.first.op_type) == ("c", "Conv")
    assert {layer.value for layer in divergence.layers if layer.diverges} <= set(FROM_C)
    assert "'c' of node" in divergence.summary


def test_no_more_is_asked_than_two_executions_of_the_reference_agree_on(
    onnx_model: Callable[..., onnx.ModelProto], tmp_path: Path
) -> None:
    """Sums that nearly cancel out depend on their order, which ONNX Runtime changes when it optimizes."""
    weight = np.random.default_rng(1).normal(size=(16, 8, 3, 3)).astype(np.float32)
    graph = "g (float[1, 8, 24, 24] x) => (float[1, 16, 22, 22] y) { t = Concat <axis = 1> (x, x) y = Conv(t, w) }"
    cancelling = np.concatenate([weight, weight * np.float32(-(1 - 1e-5))], axis=1)
    manifest = {
        "model": {"main": "model.onnx", "kind": "float32"},
        "target": {"profile": "onnxruntime", "runs_here": False},
    }
    bundle = Bundle(tmp_path, manifest)
    onnx.save(onnx_model(graph, w=cancelling), bundle.main)
    feeds = {"x": np.random.default_rng(2).normal(size=(1, 8, 24, 24)).astype(np.float32)}
    with LocalDevice().open(bundle) as session:
        divergence = compare_layers(session, bundle, shipped_graph(bundle), feeds)
    (layer,) = (layer for layer in divergence.layers if layer.value == "y")
    assert layer.sqnr_db is not None
    if layer.sqnr_db >= divergence.floor_db:
        pytest.skip("this processor sums in the same order either way")
    assert layer.is_near
    assert 10 <= layer.floor_db < divergence.floor_db


def test_without_the_original_a_device_is_compared_with_the_shipped_graph(packaged: Packaged) -> None:
    bundle = packaged("onnxruntime")
    spoil(bundle / "model.onnx", weights()["wc"])
    assert compared(bundle).first is None  # this device computes what it was given


def test_a_bundle_without_an_onnx_graph_needs_the_original(packaged: Packaged) -> None:
    with pytest.raises(InputError, match="give --model"):
        compared(packaged("intel-cpu"))


class CheckDevice(Device):
    """A device that runs the bundle's own check, whose runtime shows nothing but outputs.

    Args:
        weight: A weight that the device reads wrongly.
    """

    def __init__(self, weight: np.ndarray | None = None) -> None:
        self._weight = weight

    @contextmanager
    def open(self, bundle: Bundle) -> Iterator[Session]:
        if self._weight is not None:
            content = bundle.main.read_bytes()
            wrong = self._weight.ravel()[::-1].tobytes()
            bundle.main.write_bytes(content.replace(self._weight.tobytes(), wrong))
        with Channel([sys.executable, PROGRAM, "--serve"], self.timeout, folder=bundle.path) as channel:
            yield ServiceSession(channel, bundle, "check")


def compared_by_rebuilding(folder: Path, original: Path, device: Device) -> Divergence:
    bundle = read_bundle(folder)
    with device.open(bundle) as session:
        feeds, _ = next(bundle.golden())
        assert session.intermediates(feeds, ["a"]) is None
        return compare_layers(session, bundle, original_of(bundle, original), feeds, device)


@pytest.mark.parametrize("target", ["onnxruntime", "intel-cpu"])
def test_a_device_that_shows_nothing_gets_models_that_do(target: str, packaged: Packaged, tmp_path: Path) -> None:
    divergence = compared_by_rebuilding(packaged(target), tmp_path / "model.onnx", CheckDevice())
    assert [layer.value for layer in divergence.layers] == ["a", "b", "c", "d", "e", "f", "g2", "y"]
    assert divergence.first is None


def test_a_weight_that_the_device_reads_wrongly_is_found_so(packaged: Packaged, tmp_path: Path) -> None:
    device = CheckDevice(weights()["wc"])
    divergence = compared_by_rebuilding(packaged("onnxruntime"), tmp_path / "model.onnx", device)
    assert divergence.first is not None
    assert divergence.first.value == "c"
    assert {layer.value for layer in divergence.layers if layer.diverges} <= set(FROM_C)


def test_what_was_quantized_since_is_not_built_anew(packaged: Packaged, tmp_path: Path) -> None:
    bundle = read_bundle(packaged("onnxruntime"))
    manifest = {**bundle.manifest, "model": {**bundle.manifest["model"], "kind": "quantized"}}
    quantized, device = Bundle(bundle.path, manifest), CheckDevice()
    original = original_of(bundle, tmp_path / "model.onnx")
    with device.open(quantized) as session, pytest.raises(RequirementError, match="not what was quantized"):
        compare_layers(session, quantized, original, next(bundle.golden())[0], device)


class Recorded(Session):
    """A device that shows certain values."""

    def __init__(self, values: Mapping[str, np.ndarray] | None) -> None:
        self._values = values

    @property
    def executed_by(self) -> str:
        return "a record"

    def run(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
        raise NotImplementedError

    def time(self, sample: Mapping[str, np.ndarray], runs: int, warm_up: int) -> Timing:
        raise NotImplementedError

    def intermediates(self, sample: Mapping[str, np.ndarray], names: Sequence[str]) -> Arrays | None:
        return None if self._values is None else {name: self._values[name] for name in names if name in self._values}


@pytest.fixture
def against(onnx_model: Callable[..., onnx.ModelProto], tmp_path: Path) -> Callable[..., Divergence]:
    """Compares what a device shows with what a graph computes of x = 1, 2."""

    def compare(graph: str, shown: Mapping[str, np.ndarray] | None, kind: str = "float32") -> Divergence:
        bundle = Bundle(tmp_path, {"model": {"main": "model.onnx", "kind": kind}})
        onnx.save(onnx_model(graph), bundle.main)
        return compare_layers(Recorded(shown), bundle, shipped_graph(bundle), {"x": np.array([1, 2], np.float32)})

    return compare


CHAIN = "g (float[2] x) => (float[2] y) { a = Neg(x) b = Abs(a) c = Add(b, x) y = Sqrt(c) }"


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_a_value_recovers_where_all_that_is_computed_from_it_is_right(against: Callable[..., Divergence]) -> None:
    right = {"b": floats(1, 2), "c": floats(2, 4), "y": floats(2**0.5, 2)}
    divergence = against(CHAIN, {"a": floats(5, 5), **right})
    assert divergence.first is None
    assert [layer.recovers for layer in divergence.layers] == [True, False, False, False]


def test_a_value_does_not_recover_by_what_is_not_shown(against: Callable[..., Divergence]) -> None:
    divergence = against(CHAIN, {"a": floats(5, 5), "c": floats(9, 9), "y": floats(3, 3)})
    assert divergence.first is not None
    assert divergence.first.value == "a"
    assert divergence.not_shown == 1


def test_an_output_never_recovers(against: Callable[..., Divergence]) -> None:
    divergence = against(CHAIN, {"a": floats(-1, -2), "y": floats(1, 1)})
    assert divergence.first is not None
    assert divergence.first.value == "y"


def test_infinities_and_nan_diverge(against: Callable[..., Divergence]) -> None:
    for wrong in (np.nan, np.inf):
        divergence = against(CHAIN, {"y": floats(2**0.5, wrong)})
        assert divergence.first is not None


def test_decibels_are_those_of_the_definition(against: Callable[..., Divergence]) -> None:
    divergence = against(CHAIN, {"b": floats(1, 2.05), "y": floats(2**0.5, 2)})
    # 10 log10((1 + 4) / 0.05²)
    assert divergence.layers[0].sqnr_db == pytest.approx(33.01, abs=0.01)
    assert not divergence.layers[0].is_near


@pytest.mark.parametrize(("shown", "mismatch"), [([255, 254], 0), ([254, 255], 0), ([253, 254], 0.5), ([0, 1], 1.0)])
def test_integers_of_8_bits_may_be_a_step_apart(
    shown: list[int], mismatch: float, against: Callable[..., Divergence]
) -> None:
    graph = "g (float[2] x) => (uint8[2] y) { m = Neg(x) f = Floor(m) i = Cast <to = 6> (f) y = Cast <to = 2> (i) }"
    (layer,) = against(graph, {"y": np.array(shown, np.uint8)}, "quantized").layers
    assert layer.sqnr_db is None
    assert layer.mismatch == mismatch
    assert layer.is_near is (mismatch == 0)


def test_values_in_another_width_are_compared_and_other_shapes_are_not(against: Callable[..., Divergence]) -> None:
    graph = "g (float[2] x) => (int64[2] y) { a = Neg(x) y = Cast <to = 7> (a) }"
    divergence = against(graph, {"a": floats(-1), "y": np.array([[-1, -2]], np.int32)})
    assert [(layer.value, layer.is_near) for layer in divergence.layers] == [("y", True)]
    assert divergence.not_shown == 1


def test_a_device_that_shows_nothing_is_told(against: Callable[..., Divergence]) -> None:
    with pytest.raises(RequirementError, match="cannot show"):
        against(CHAIN, None)
    with pytest.raises(RequirementError, match="shares no value"):
        against(CHAIN, {})
