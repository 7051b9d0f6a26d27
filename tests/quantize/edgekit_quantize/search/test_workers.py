"""Candidates that other processes score: a pool on this machine, and a Dask cluster."""

from __future__ import annotations

import importlib
import os
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from edgekit.comparison.custom_metric import Evaluation
from edgekit.data.samples import FolderSamples, open_samples
from edgekit.errors import InputError, InternalError, OpGap, UnsupportedOpsError
from edgekit.model import Model
from edgekit.processes.executors import open_executor
from edgekit.quantizer import QuantizationRequest
from edgekit_quantize.plugin import PostTrainingQuantizer

GRAPH = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 3, 8, 8] x) => (float[1, 4, 4, 4] y) { c = Conv(x, w)  r = Relu(c)  y = Conv(r, v) }"""
PLACEMENT = {
    "candidates": [
        {"name": "integers", "layers": {"Conv": "input"}},
        {"name": "weights only", "layers": {"Conv": "weights"}},
    ]
}
MODULE = """
import multiprocessing, os, time
from pathlib import Path
import numpy as np
from edgekit.errors import OpGap, UnsupportedOpsError
from edgekit_quantize.graph.session import SessionRunner

HERE = multiprocessing.parent_process() is None

class Logged:
    "Executes a model, and leaves a file that tells who ran it, and when."
    executed_by = "a test"
    def __init__(self, model, folder):
        self._runner, self._folder = SessionRunner(model.graph_model), Path(folder)
    def run(self, feeds):
        start = time.monotonic_ns()
        outputs = self._runner.run(feeds)
        (self._folder / f"{start}-{time.monotonic_ns()}-{os.getpid()}").touch()
        return outputs

class Execute:
    def __init__(self, folder):
        self.folder = folder
    def __call__(self, model):
        return Logged(model, self.folder)

def refusing(model):
    if HERE:
        return SessionRunner(model.graph_model)
    raise UnsupportedOpsError([OpGap(op_type="Conv", node="c", reason="not today")], subject="a test")

def largest(run, samples):
    return sum(float(np.abs(run(sample.feeds)["y"]).max()) for sample in samples)

def dies(run, samples):
    if not HERE:
        os._exit(9)
    return 1.0

def fails(run, samples):
    return 1.0 if HERE else 1 / 0
"""


@pytest.fixture(scope="module")
def model() -> Model:
    rng = np.random.default_rng(0)
    proto = ir.to_proto(ir.from_onnx_text(GRAPH))
    for name, shape in {"w": (8, 3, 3, 3), "v": (4, 8, 3, 3)}.items():
        tensor = ir.tensor(rng.normal(size=shape).astype(np.float32), name=name)
        proto.graph.initializer.append(ir.to_proto(tensor))
    return Model(ir.from_proto(proto))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The working directory of this file's tests, where the workers' processes start too."""
    place = tmp_path_factory.mktemp("workers")
    (place / "code_of_workers.py").write_text(MODULE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.syspath_prepend(place)
        yield place


@pytest.fixture(scope="module")
def samples(model: Model, folder: Path) -> FolderSamples:
    rng = np.random.default_rng(1)
    (folder / "data").mkdir()
    for number in range(12):
        np.savez(folder / "data" / f"{number:02}.npz", x=rng.normal(size=(1, 3, 8, 8)).astype(np.float32))
    return open_samples(folder / "data", model.inputs)


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[str]:
    """The scheduler's address of a Dask cluster of two processes on this machine."""
    distributed = pytest.importorskip("distributed", reason="Dask is not installed (pip install 'distributed>=2024.8')")
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True}
    with distributed.LocalCluster(**options, dashboard_address=":0", silence_logs=50) as started:
        yield started.scheduler_address


@pytest.fixture(params=["processes", "cluster"])
def where(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"processes": 2} if request.param == "processes" else {"cluster": request.getfixturevalue("cluster")}


Ask = Callable[..., QuantizationRequest]


@pytest.fixture
def ask(model: Model, samples: FolderSamples) -> Ask:
    def request(**more: Any) -> QuantizationRequest:
        given: dict[str, Any] = {"scheme": "auto", "samples": samples, "max_drop": 0.5, "placement": PLACEMENT}
        return QuantizationRequest(model, **{**given, **more})

    return request


@pytest.mark.slow
def test_workers_find_what_this_process_finds(ask: Ask, where: dict[str, Any]) -> None:
    evaluation = Evaluation("code_of_workers:largest")
    here = PostTrainingQuantizer().quantize(ask(evaluation=evaluation))
    with open_executor(**where) as executor:
        there = PostTrainingQuantizer().quantize(ask(evaluation=evaluation, executor=executor))

    assert there.record == here.record
    assert there.record["curve"][0]["metric"] == "code_of_workers:largest"
    assert there.model.proto().SerializeToString() == here.model.proto().SerializeToString()


@pytest.mark.slow
def test_latency_is_measured_alone_and_here(ask: Ask, folder: Path, tmp_path: Path, where: dict[str, Any]) -> None:
    execute = importlib.import_module("code_of_workers").Execute(str(tmp_path))
    with open_executor(**where) as executor:
        request = ask(execute=execute, latency_counts=True, executor=executor)
        curve = PostTrainingQuantizer().quantize(request).record["curve"]

    assert all(point["latency_ms"] > 0 for point in curve)
    runs = [tuple(map(int, file.name.split("-"))) for file in tmp_path.iterdir()]
    scored = [run for run in runs if run[2] != os.getpid()]
    timed = [run for run in runs if run[2] == os.getpid()]
    assert len(scored) == len(PLACEMENT["candidates"]) * 12
    assert max(end for _, end, _ in scored) < min(start for start, _, _ in timed)


@pytest.mark.slow
def test_what_the_project_or_the_target_refuses_arrives_as_it_was(ask: Ask, where: dict[str, Any]) -> None:
    with open_executor(**where) as executor:
        with pytest.raises(InputError, match="code_of_workers:fails: the evaluation function failed\nfound: ZeroDiv"):
            PostTrainingQuantizer().quantize(
                ask(evaluation=Evaluation("code_of_workers:fails"), executor=executor),
            )
        refusing = importlib.import_module("code_of_workers").refusing
        with pytest.raises(UnsupportedOpsError, match="a test: 1 unsupported node\n  Conv") as caught:
            PostTrainingQuantizer().quantize(ask(execute=refusing, executor=executor))
    assert caught.value.ops == ["Conv"]


@pytest.mark.slow
def test_a_worker_that_dies_is_told(ask: Ask, where: dict[str, Any]) -> None:
    gone = r"a worker (process ended|failed: KilledWorker)"
    with open_executor(**where) as executor, pytest.raises(InternalError, match=gone) as caught:
        PostTrainingQuantizer().quantize(ask(evaluation=Evaluation("code_of_workers:dies"), executor=executor))
    assert caught.value.hint


def test_what_is_too_large_to_be_handed_over_is_refused(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgekit_quantize.search.workers.PROTOBUF_LIMIT", 100)
    with ThreadPoolExecutor(1) as executor, pytest.raises(InputError) as caught:
        PostTrainingQuantizer().quantize(ask(executor=executor))
    assert str(caught.value).startswith("the model is too large for a worker\nexpected: at most 100 bytes of weights\n")
    assert str(caught.value).endswith("hint: evaluate in this process: leave out --workers and --cluster")


def test_errors_survive_the_way_between_processes() -> None:
    error = UnsupportedOpsError(
        [OpGap(op_type="Foo", node="node", reason="unknown", hint="leave it out")], subject="model", hint="so be it"
    )

    again = pickle.loads(pickle.dumps(error))

    assert (str(again), again.gaps, again.as_record()) == (str(error), error.gaps, error.as_record())


def test_models_survive_it_too(model: Model) -> None:
    assert pickle.loads(pickle.dumps(model)).proto().SerializeToString() == model.proto().SerializeToString()
