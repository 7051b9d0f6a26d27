from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from edgekit.errors import EdgeKitError
from edgekit.graph.sizes.shape_request import ShapeRequest
from edgekit.packaging.pipeline import package
from edgekit.packaging.request import PackageRequest
from edgekit.progress import Progress

OPENVINO_PACKAGE = "onnxruntime-openvino==1.24.1"
"""A build of ONNX Runtime of its own, which cannot be installed beside the package onnxruntime."""
HEADERS_PACKAGE = "libonnxruntime-dev"
TESTS = Path(__file__).parents[2]
RunCheck = Callable[..., "subprocess.CompletedProcess[str]"]


def made_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """What ``make`` writes into a folder, kept from one run of the tests to the next."""
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            unfinished = Path(scratch) / "unfinished"
            unfinished.mkdir()
            make(unfinished)
            try:
                unfinished.rename(folder)
            except OSError:  # another worker was at it too
                if not folder.is_dir():
                    raise
    return folder


@pytest.fixture(scope="session")
def openvino_build(pytestconfig: pytest.Config) -> Path:
    """The folder of a build of ONNX Runtime that has OpenVINO's provider."""

    def install(folder: Path) -> None:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:"]
        done = subprocess.run(
            [*command, "--target", str(folder), OPENVINO_PACKAGE], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            pytest.skip(f"pip cannot install {OPENVINO_PACKAGE}: {(done.stderr.strip().splitlines() or [''])[-1]}")

    assert pytestconfig.cache is not None
    return made_once(pytestconfig.cache.mkdir("onnxruntime-openvino") / OPENVINO_PACKAGE.partition("==")[2], install)


@pytest.fixture(scope="session")
def onnxruntime_headers(pytestconfig: pytest.Config) -> Path:
    """The folder of ONNX Runtime's C and C++ headers, out of a package of Debian's."""
    spec = importlib.util.spec_from_file_location("install_qemu", TESTS / "install_qemu.py")
    assert spec is not None
    assert spec.loader is not None
    debian = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(debian)

    def download(folder: Path) -> None:
        try:
            debian.unpack([HEADERS_PACKAGE], "amd64", folder, "./usr/include")
        except EdgeKitError as error:
            pytest.skip(f"{HEADERS_PACKAGE} cannot be had: {error}")

    assert pytestconfig.cache is not None
    folder = made_once(pytestconfig.cache.mkdir(HEADERS_PACKAGE) / debian.SUITE, download)
    return folder / "usr" / "include" / "onnxruntime"


@pytest.fixture(scope="session")
def bundle_for(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Makes a bundle of a model in ONNX's textual syntax for a profile, with sizes as --dim takes them."""

    def make(graph: str, profile: str, *dims: str, **options: str) -> Path:
        folder = tmp_path_factory.mktemp(profile)
        onnx.save(onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]> g {graph}'), folder / "model.onnx")
        request = PackageRequest(
            folder / "model.onnx",
            profile,
            folder / "bundle",
            quantize="none",
            shapes=ShapeRequest.parse(dims, ()),
            **options,
        )
        return package(request, Progress()).path

    return make


@pytest.fixture(scope="session")
def run_check() -> RunCheck:
    """Runs a bundle's check with the onnxruntime that is installed, or with another build of it."""

    def run(bundle: Path, *arguments: object, build: Path | None = None) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **({} if build is None else {"PYTHONPATH": str(build)})}
        command = [sys.executable, "check.py", *map(str, arguments)]
        return subprocess.run(command, cwd=bundle, env=environment, capture_output=True, text=True, check=False)

    return run
