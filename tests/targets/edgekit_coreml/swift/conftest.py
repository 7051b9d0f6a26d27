"""Swift 6, and packages of bundles with stubs in place of Apple's frameworks."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx
import pytest

from edgekit.bundle import read_bundle
from edgekit.packaging.pipeline import package
from edgekit.packaging.request import PackageRequest
from edgekit.progress import Progress
from edgekit_mlprogram.app_package import module_name

HERE = Path(__file__).parent
ROOT = Path(os.environ.get("EDGEKIT_SWIFT_ROOT") or Path.home() / ".cache" / "edgekit-swift" / "root")
OLDEST = 6
ENTER = 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'
"""Swift's programs look for themselves in /proc; the mount is gone with the command."""


@dataclass(frozen=True)
class Swift:
    """Swift's commands: the system's, or those below :data:`ROOT`."""

    scratch: Path
    """A folder that Swift's commands see."""
    prefix: Sequence[str]
    programs: str
    """The value of PATH with which Swift's commands are found."""

    stubs = HERE / "package" / "Stubs"
    sample_apps = HERE.parents[3] / "sample_apps"

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command."""
        path = f"{self.programs}:{os.environ['PATH']}"
        return subprocess.run(
            [*self.prefix, "env", f"PATH={self.programs}", *command],
            env={**os.environ, "PATH": path, "HOME": "/tmp", **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def path(self, place: Path) -> str:
        """The path by which the commands know a file or folder."""
        return f"/{place.relative_to(ROOT)}" if place.is_relative_to(ROOT) else str(place)

    def new_folder(self) -> Path:
        """An empty folder that the commands see."""
        return Path(tempfile.mkdtemp(dir=self.scratch))

    @staticmethod
    def stub_models(
        bundle: Path, outputs: Sequence[str], constants: Mapping[str, Sequence[float]] | None = None
    ) -> None:
        """Describe the models of a bundle to the stubs: the native names of outputs, and what comes out of them."""
        for build in read_bundle(bundle).builds:
            inputs: list[object] = [feature.native_name for feature in build.inputs]
            if build.main.suffix == ".mlpackage":
                inputs = [{"name": feature.native_name, "shape": feature.native_shape} for feature in build.inputs]
            stub = {"inputs": inputs, "outputs": outputs, "constants": constants or {}}
            (build.main / "stub.json").write_text(json.dumps(stub))

    def stubbed(self, bundle: Path, outputs: Sequence[str]) -> StubbedPackage:
        """The package of a bundle, with stubs and the sample app's tests; the stubs of the models negate their inputs.

        Args:
            bundle: Is copied.
            outputs: The native names of the models' outputs.
        """
        folder = self.new_folder()
        shutil.copytree(HERE / "package", folder, dirs_exist_ok=True)
        shutil.copytree(bundle, folder / "bundle")
        made = StubbedPackage(self, folder, module_name(read_bundle(bundle).name))
        description = folder / "Package.swift"
        description.write_text(description.read_text().replace('"BundleModel"', f'"{made.module}"'))
        for suite in (self.sample_apps / "ios" / "Tests" / "EdgeKitBundleTests").iterdir():
            made.add(suite)
        self.stub_models(made.bundle, outputs)
        return made


@dataclass(frozen=True)
class StubbedPackage:
    """A bundle's Swift package with stubs in place of Apple's frameworks."""

    swift: Swift
    folder: Path
    module: str

    @property
    def bundle(self) -> Path:
        """The copy of the bundle in it."""
        return self.folder / "bundle"

    def add(self, suite: Path) -> None:
        """Add a file of tests, written for the module ``EdgeKitBundle``."""
        text = suite.read_text().replace("import EdgeKitBundle", f"import {self.module}")
        tests = self.folder / "EdgeKitBundleTests"
        tests.mkdir(exist_ok=True)
        (tests / suite.name).write_text(text)

    def test(self, *suites: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run suites of tests, those in the folder ``suites`` among them."""
        for suite in suites:
            if (file := HERE / "suites" / f"{suite}.swift").exists():
                self.add(file)
        command = ["swift", "test", "--package-path", self.swift.path(self.folder), "--filter", "|".join(suites)]
        return self.swift.run(*command, **environment)

    def passes(self, *suites: str, **environment: str) -> None:
        """Run suites, and see that each of them passed."""
        done = self.test(*suites, **environment)
        assert done.returncode == 0, done.stdout + done.stderr
        for suite in suites:
            assert f"Test Suite '{suite}' passed" in done.stdout


@pytest.fixture(scope="session")
def swift() -> Iterator[Swift]:
    """Swift 6 or later."""
    inside = shutil.which("swift") is None
    if inside and not ((ROOT / "usr" / "bin" / "swiftc").exists() and os.geteuid() == 0):
        pytest.skip("Swift is not installed (`make swift` installs it)")
    prefix = ["unshare", "--mount", "sh", "-c", ENTER, str(ROOT)] if inside else []
    programs = "/usr/libexec/swift/bin:/usr/bin:/bin" if inside else os.environ["PATH"]
    with tempfile.TemporaryDirectory(dir=ROOT / "tmp" if inside else None) as scratch:
        found = Swift(Path(scratch), prefix, programs)
        version = re.search(r"Swift version (\d+)", found.run("swiftc", "--version").stdout)
        if version is None or int(version[1]) < OLDEST:
            pytest.skip(f"Swift {OLDEST} or later is not installed (`make swift` installs it)")
        yield found


@pytest.fixture
def packaged(tmp_path: Path) -> Callable[..., Path]:
    """Packages a model of two negations for targets, and returns the bundle."""

    def made(target: str, *also: str, name: str = "model") -> Path:
        model = onnx.parser.parse_model(
            '<ir_version: 9, opset_import: ["": 17]> g (float[1, 2, 3] x, float[4] u) => (float[1, 2, 3] y, float[4] v)'
            " { y = Neg(x) v = Neg(u) }"
        )
        folder = tmp_path / name
        folder.mkdir()
        onnx.save(model, folder / f"{name}.onnx")
        request = PackageRequest(folder / f"{name}.onnx", target, folder / "bundle", precision="float32", also=also)
        return package(request, Progress()).path

    return made


@pytest.fixture
def bundle(packaged: Callable[..., Path]) -> Path:
    """A bundle for iOS 18."""
    return packaged("ios18")
