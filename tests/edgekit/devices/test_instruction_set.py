"""Bundles whose runtime is held to an instruction set, on a product of integers that saturates without VNNI."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.data.samples import Sample
from edgekit.devices import instruction_set
from edgekit.devices.instruction_set import FLAGS, processor_flags
from edgekit.devices.opening import open_device
from edgekit.errors import InputError
from edgekit.model import Model
from edgekit.quantizer import QuantizationRequest
from edgekit.registry import find_profile, installed_quantizer
from edgekit.stages.quantize import Execute
from edgekit.target import BuildOptions

RunEdgeKit = Callable[..., Any]

pytestmark = pytest.mark.skipif(not set(FLAGS["avx2"]) <= processor_flags(), reason="this processor has no AVX2")
INPUTS, OUTPUTS, SAMPLES = 64, 32, 8
BY_HAND = f"""<ir_version: 8, opset_import: ["" : 17]>
g (float[1, {INPUTS}, 4, 4] x) => (float[1, {OUTPUTS}, 4, 4] y) {{ y = Conv(x, w) }}"""
WRITTEN = f"""<ir_version: 8, opset_import: ["" : 17]>
g (float[1, {INPUTS}, 4, 4] x) => (float[1, {OUTPUTS}, 4, 4] y) {{
  q = QuantizeLinear(x, step, zero)  d = DequantizeLinear(q, step, zero)
  v = DequantizeLinear<axis = 0>(w, scale)  y = Conv(d, v)
}}"""
"""Weights of 127 and activations near 255: two of their products are about 60,000, and 16 bits hold 32,767."""


class Large:
    """Samples that are near the largest activation throughout, but for a corner."""

    has_labels = False

    def __len__(self) -> int:
        return SAMPLES

    def __iter__(self) -> Any:
        rng = np.random.default_rng(6)
        for number in range(SAMPLES):
            x = rng.uniform(0.8, 1, (1, INPUTS, 4, 4)).astype(np.float32)
            x[..., :2] *= rng.uniform(0.1, 1)
            yield Sample(str(number), {"x": x})


def _model(text: str, **arrays: np.ndarray) -> ir.Model:
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in arrays.items())
    return ir.from_proto(onnx.shape_inference.infer_shapes(proto))


@pytest.fixture
def saturating(tmp_path: Path) -> Path:
    integers = np.where(np.random.default_rng(5).random((OUTPUTS, INPUTS, 1, 1)) < 0.9, 127, -127).astype(np.int8)
    scales = {"step": np.float32(1 / 255), "zero": np.uint8(0), "scale": np.full(OUTPUTS, 1 / 127, np.float32)}
    path = tmp_path / "saturating.onnx"
    ir.save(_model(WRITTEN, w=integers, **{name: np.asarray(value) for name, value in scales.items()}), path)
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    for sample in Large():
        np.savez(folder / f"{sample.name}.npz", **sample.feeds)
    return folder


@pytest.fixture
def unlimited(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Lets this processor have what a test says."""

    def have(flags: str) -> None:
        monkeypatch.setattr(instruction_set, "processor_flags", lambda: frozenset(flags.split()))

    return have


@pytest.mark.skipif(not set(FLAGS["vnni"]) <= processor_flags(), reason="this processor has no VNNI")
def test_a_sum_that_saturates_without_vnni_is_found(
    edgekit: RunEdgeKit, saturating: Path, data: Path, tmp_path: Path
) -> None:
    bundle = tmp_path / "bundle"
    assert edgekit("package", saturating, "--target", "intel-cpu", "--data", data, "-o", bundle).code == 0

    here = edgekit("verify", bundle, "--isa", "vnni", "--json")
    older = edgekit("verify", bundle, "--isa", "vnni,avx2")

    assert here.code == 0
    assert [*here.json["instruction_sets"]] == ["vnni"]
    assert here.json["executed_by"].endswith(", isa:vnni")
    assert older.code == 1
    assert "does not compute its golden outputs, executed by OpenVINO" in older.err
    assert ", isa:avx2" in older.err


def test_the_quantizer_writes_weights_whose_sums_do_not_saturate(
    edgekit: RunEdgeKit, data: Path, tmp_path: Path
) -> None:
    weights = np.where(np.random.default_rng(5).random((OUTPUTS, INPUTS, 1, 1)) < 0.9, 1.0, -1.0).astype(np.float32)
    target, profile = find_profile("intel-cpu")
    request = QuantizationRequest(
        Model(_model(BY_HAND, w=weights)),
        "int8",
        Large(),
        placement=target.placement(profile),
        execute=Execute(target, profile, BuildOptions()),
    )
    result = installed_quantizer().quantize(request)
    assert result.record["quantized"]
    ir.save(result.model.graph_model, tmp_path / "int8.onnx")
    bundle = tmp_path / "bundle"
    packaged = edgekit("package", tmp_path / "int8.onnx", "--target", "intel-cpu", "--data", data, "-o", bundle)

    assert packaged.code == 0
    assert edgekit("verify", bundle, "--isa", "avx2").code == 0


def test_what_this_processor_lacks_is_told(
    edgekit: RunEdgeKit, saturating: Path, data: Path, tmp_path: Path, unlimited: Callable[[str], None]
) -> None:
    bundle = tmp_path / "bundle"
    assert edgekit("package", saturating, "--target", "intel-cpu", "--data", data, "-o", bundle).code == 0
    unlimited("sse2")

    finished = edgekit("verify", bundle, "--isa", "avx2,amx")

    assert finished.code == 2
    assert "isa:amx: this processor does not have the instructions\nfound: no amx_tile, amx_int8" in finished.err
    assert "--isa avx2,amx: this processor has none of the instruction sets" in finished.err


def test_latency_is_measured_with_the_instructions_of_a_set(
    edgekit: RunEdgeKit, saturating: Path, data: Path, tmp_path: Path
) -> None:
    bundle = tmp_path / "bundle"
    assert edgekit("package", saturating, "--target", "intel-cpu", "--data", data, "-o", bundle).code == 0

    finished = edgekit("bench", bundle, "--device", "isa:avx2", "--json")

    assert finished.code == 0
    assert all(model["executed_by"].endswith(", isa:avx2") for model in finished.json["candidates"])


def test_names_of_instruction_sets() -> None:
    with pytest.raises(InputError) as caught:
        open_device("isa:sse9")
    assert str(caught.value) == (
        "isa:sse9: no such instruction set\nexpected: avx2, avx512, vnni, amx\nfound: sse9\n"
        "hint: qemu:arm64 emulates a processor with Neon"
    )


def test_a_runtime_without_a_switch_says_so(edgekit: RunEdgeKit, saturating: Path, data: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    assert edgekit("package", saturating, "--target", "onnxruntime", "--data", data, "-o", bundle).code == 0

    finished = edgekit("verify", bundle, "--isa", "avx2")

    assert finished.code == 1
    assert "isa:avx2: its runtime has no switch that holds it to an instruction set\nfound: onnxruntime" in finished.err
