from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest

from edgekit.bundle import Bundle
from edgekit.devices.browser import VARIABLE as LIBRARY_VARIABLE
from edgekit.devices.browser_process import find_chromium
from edgekit.errors import InputError
from edgekit.graph.shape_request import ShapeRequest
from edgekit.pipeline import PackageRequest, package
from edgekit.terminal.progress import Progress

ZOO_SHAPES = {"qonnx_mnist_conv": (1, 1, 28, 28), "speech_embedding": (1, 76, 32, 1)}


@pytest.fixture
def bare_bundle(tmp_path: Path) -> Callable[..., Bundle]:
    """Makes a bundle that holds an ONNX model, and nothing to check it with."""

    def make(model: onnx.ModelProto, kind: str = "float32") -> Bundle:
        onnx.save(model, tmp_path / "model.onnx")
        return Bundle(tmp_path, {"model": {"main": "model.onnx", "kind": kind}, "target": {"profile": "web"}})

    return make


@pytest.fixture
def temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder that temporary files go to, empty. Its name is short, as those of temporary folders are."""
    tmp_path_factory.getbasetemp()  # which is made in the folder that is the temporary one when it is first asked for
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


@pytest.fixture
def chromium_program() -> Path:
    """Chromium's program."""
    try:
        return find_chromium()
    except InputError:
        pytest.skip("Chromium is not installed (`make tools` installs what the tests need)")


@pytest.fixture
def web_library(node_modules: Path, chromium_program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that the browser device needs."""
    monkeypatch.setenv(LIBRARY_VARIABLE, str(node_modules / "onnxruntime-web"))


@pytest.fixture(scope="session")
def zoo_bundle(
    zoo_model: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, str, str], Bundle]:
    """Makes a bundle of a trained model with one input, by its name in the zoo, a target and a quantization scheme."""
    made: dict[tuple[str, str, str], Bundle] = {}

    def make(name: str, target: str, quantize: str) -> Bundle:
        if (name, target, quantize) not in made:
            source, folder = zoo_model(name), tmp_path_factory.mktemp(name)
            declared = onnx.load(source, load_external_data=False).graph.input[0]  # others may be weights
            random, data = np.random.default_rng(0), folder / "data"
            data.mkdir()
            shape = ZOO_SHAPES[name]
            for number in range(8):
                np.savez(data / f"{number}.npz", **{declared.name: random.normal(size=shape).astype(np.float32)})  # type: ignore[arg-type]  # no input is called allow_pickle
            shapes = ShapeRequest.declared({}, {declared.name: list(shape)})
            request = PackageRequest(source, target, folder / "out", data=data, quantize=quantize, shapes=shapes)
            made[name, target, quantize] = package(request, Progress())
        return made[name, target, quantize]

    return make
