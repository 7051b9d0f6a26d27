from __future__ import annotations

import gc
import hashlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

try:
    import fcntl
except ImportError:  # Windows has no such locks: there, each process has its own shared folder
    fcntl = None

from edgekit.bundle import Bundle, read_bundle
from edgekit.cli import main
from edgekit.config import read_config
from edgekit.graph.sizes.shape_request import ShapeRequest
from edgekit.packaging.declared import request_for
from edgekit.packaging.pipeline import package
from edgekit.packaging.request import PackageRequest
from edgekit.progress import Progress

os.environ.setdefault("KERAS_BACKEND", "torch")  # TensorFlow is not among the packages for development
os.environ.pop("COLUMNS", None)  # pytest-xdist sets it, and the width of tables depends on it
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # shells start background jobs this way, and commands inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

SAMPLE_APPS = Path(__file__).parents[1] / "sample_apps"
DIGITS = SAMPLE_APPS / "digits"

WriteOnnx = Callable[..., Path]


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Uses the parameter's name as the ID of bytes, whose contents may hold a time and differ between xdist workers."""
    return argname if isinstance(val, bytes) else None


def parse_onnx(graph: str, *, opset: int = 17, ir_version: int = 8, **initializers: np.ndarray) -> onnx.ModelProto:
    """A model from ONNX's textual syntax, with initializers from arrays."""
    model = onnx.parser.parse_model(f'<ir_version: {ir_version}, opset_import: ["": {opset}]> {graph}')
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in initializers.items())
    return model


@pytest.fixture(scope="session")
def onnx_model() -> Callable[..., onnx.ModelProto]:
    """Makes a model from ONNX's textual syntax, with initializers from arrays."""
    return parse_onnx


@pytest.fixture
def onnx_file(tmp_path: Path) -> WriteOnnx:
    """Makes a model from ONNX's textual syntax, with initializers from arrays, and writes it to a file."""

    def write(graph: str, *, name: str = "model.onnx", **rest: Any) -> Path:
        path = tmp_path / name
        onnx.save(parse_onnx(graph, **rest), path)
        return path

    return write


class Searches:
    """Excludes the objects of imported modules from garbage collection, which coremltools starts at each conversion.

    Tests and the libraries that they import are a million objects: a collection over them takes most of a second.
    """

    MANY = 200
    """Number of newly imported modules after which garbage is collected and the remaining objects are frozen."""

    def __init__(self) -> None:
        self._modules = 0

    def pass_over_modules(self) -> None:
        if len(sys.modules) > self._modules + self.MANY:
            gc.collect()
            gc.freeze()
            self._modules = len(sys.modules)


SEARCHES = Searches()


@pytest.fixture(scope="module", autouse=True)
def quick_searches() -> None:
    """Keeps garbage collection quick, see :class:`Searches`."""
    SEARCHES.pass_over_modules()


@dataclass(frozen=True)
class Finished:
    """How a command line ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


RunEdgeKit = Callable[..., Finished]


@pytest.fixture(autouse=True)
def same_numbers(request: pytest.FixtureRequest) -> None:
    """Resets a module's random generators, so that a test draws the same numbers alone and together with others."""
    for name, value in list(vars(request.module).items()):
        if isinstance(value, np.random.Generator):
            setattr(request.module, name, np.random.default_rng(1))


@pytest.fixture(scope="session", autouse=True)
def short_measurements() -> Iterator[None]:
    """Limits each measurement of latency to 10 ms, in this process and in processes that tests start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGEKIT_MEASURE_SECONDS", "0.01")
        yield


@pytest.fixture
def edgekit(capsys: pytest.CaptureFixture[str]) -> RunEdgeKit:
    """Runs one command line in this process."""

    def run(*arguments: object) -> Finished:
        code = main([str(argument) for argument in arguments])
        return Finished(code, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def sample_apps() -> Path:
    """The folder of the sample apps."""
    return SAMPLE_APPS


SharedFolder = Callable[[str], AbstractContextManager[Path]]
MakeOnce = Callable[[str, Callable[[Path], object]], Path]


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> SharedFolder:
    """Opens a folder, by its name, that all processes of a run share; only one process at a time has it open."""
    own = tmp_path_factory.getbasetemp()
    common = own.parent if fcntl is not None and "PYTEST_XDIST_WORKER" in os.environ else own

    @contextmanager
    def opened(name: str) -> Iterator[Path]:
        folder = common / "shared" / name
        folder.mkdir(parents=True, exist_ok=True)
        with folder.with_name(f"{name}.lock").open("w") as lock:
            if fcntl is not None:
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield folder

    return opened


@pytest.fixture(scope="session")
def made_once(shared_folder: SharedFolder) -> MakeOnce:
    """Makes a folder, by its name, once for all processes of a run; ``make`` must not leave an unfinished folder."""

    def once(name: str, make: Callable[[Path], object]) -> Path:
        with shared_folder(name) as folder:
            if not (folder / name).exists():
                make(folder / name)
        return folder / name

    return once


@pytest.fixture(scope="session")
def digits_bundle(made_once: MakeOnce) -> Callable[[str, str], Path]:
    """Makes a bundle of the sample model, by its name in the sample project and a quantization scheme."""

    def make(name: str, quantize: str) -> Path:
        return made_once(
            f"{name}-{quantize}",
            lambda folder: package_declared(DIGITS / "edgekit.toml", name, quantize, folder),
        )

    return make


def package_declared(config: Path, name: str, quantize: str, folder: Path) -> Path:
    """Packages the bundle ``name`` of a project file into ``folder``, with the quantization scheme ``quantize``."""
    bundle = next(bundle for bundle in read_config(config).bundles if bundle.name == name)
    request = replace(request_for(bundle), output=folder, name=name, quantize=quantize)
    return package(request, Progress()).path


@pytest.fixture(scope="session")
def declared_bundle() -> Callable[[Path, str, str, Path], Path]:
    """Makes a bundle that a project file declares, see :func:`package_declared`."""
    return package_declared


@pytest.fixture(scope="session")
def zoo_model() -> Callable[[str], Path]:
    """Fetches a trained model by its name in ``zoo/models.json``, once per machine."""
    zoo = _module_of(Path(__file__).with_name("zoo") / "fetch.py")

    def fetched(name: str) -> Path:
        model = next(model for model in zoo.zoo_models() if model.name == name)
        try:
            return Path(zoo.fetch(model, zoo.CACHE))
        except RuntimeError as error:
            pytest.skip(f"{name} cannot be fetched: {error}")

    return fetched


def _module_of(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up their module here
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def node_modules(pytestconfig: pytest.Config) -> Path:
    """The folder into which npm installed onnxruntime-web: in the web sample app, or in the cache of the tests."""
    beside = SAMPLE_APPS / "web" / "node_modules"
    if beside.is_dir():
        return beside
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed (`make tools` installs what the sample apps need)")
    assert pytestconfig.cache is not None
    declared = (SAMPLE_APPS / "web" / "package.json").read_text()
    kept = pytestconfig.cache.mkdir("sample-app-web")
    installed = kept / hashlib.sha256(declared.encode()).hexdigest()[:16]
    if not installed.is_dir():
        # Another worker may install it at the same time: a folder with the final name is complete.
        with tempfile.TemporaryDirectory(dir=kept) as scratch:
            unfinished = Path(scratch) / "app"
            unfinished.mkdir()
            (unfinished / "package.json").write_text(declared)
            command = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]
            done = subprocess.run(command, cwd=unfinished, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                pytest.skip(f"npm cannot install onnxruntime-web: {done.stderr.strip().splitlines()[-1]}")
            try:
                unfinished.rename(installed)
            except OSError:
                if not installed.is_dir():
                    raise
    return installed / "node_modules"


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Headless Chromium, driven by Playwright; a process can have only one driver."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed (pip install playwright)"
    )
    executable = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if executable is None:
        pytest.skip("Chromium is not installed (`make tools` installs what the tests need)")
    with playwright.sync_playwright() as driver:
        # In a container Chromium runs as root, where its sandbox does not work; it opens local pages only.
        chromium = driver.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield chromium
        chromium.close()


ZOO_SHAPES = {"qonnx_mnist_conv": (1, 1, 28, 28), "speech_embedding": (1, 76, 32, 1)}
ZOO_SAMPLES = {"speech_embedding": "logmel"}
"""Kind of realistic samples by model, for models whose outputs vary too little on noise to judge quantization."""


@pytest.fixture
def bare_bundle(tmp_path: Path) -> Callable[..., Bundle]:
    """Makes a bundle that holds only an ONNX model, without golden samples."""

    def make(model: onnx.ModelProto, kind: str = "float32") -> Bundle:
        onnx.save(model, tmp_path / "model.onnx")
        return Bundle(tmp_path, {"model": {"main": "model.onnx", "kind": kind}, "target": {"profile": "web"}})

    return make


@pytest.fixture
def temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder for temporary files, with a short name, as the system's temporary folder has."""
    tmp_path_factory.getbasetemp()  # is created on first use in the current temporary folder, so before that changes
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


@pytest.fixture(scope="session")
def zoo_bundle(
    zoo_model: Callable[[str], Path], made_once: MakeOnce, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, str, str], Bundle]:
    """Makes a bundle of a trained model with one input, by its name in the zoo, a target and a quantization scheme."""

    def make(name: str, target: str, quantize: str) -> Bundle:
        source = zoo_model(name)

        def packaged(folder: Path) -> None:
            declared = onnx.load(source, load_external_data=False).graph.input[0]  # the other inputs may be weights
            random, data = np.random.default_rng(0), tmp_path_factory.mktemp(name)
            shape = ZOO_SHAPES[name]
            if name in ZOO_SAMPLES:
                module = _module_of(Path(__file__).parent / "zoo" / "samples.py")
                module.write_samples(source, {declared.name: shape}, {declared.name: ZOO_SAMPLES[name]}, data, 8)
            else:
                for number in range(8):
                    drawn = {declared.name: random.normal(size=shape).astype(np.float32)}
                    np.savez(data / f"{number}.npz", **drawn)  # type: ignore[arg-type]  # no input is called allow_pickle
            shapes = ShapeRequest.declared({}, {declared.name: list(shape)})
            package(PackageRequest(source, target, folder, data=data, quantize=quantize, shapes=shapes), Progress())

        return read_bundle(made_once(f"{name}-{target}-{quantize}", packaged))

    return make
