"""Swift sources beside the bundles' packages: the compiler takes them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import Swift

pytestmark = [pytest.mark.slow, pytest.mark.swift, pytest.mark.xdist_group("swift")]


def test_the_sample_app_is_well_formed(swift: Swift) -> None:
    """As far as can be told without SwiftUI."""
    sources = swift.new_folder() / "Sources"
    shutil.copytree(swift.sample_apps / "ios" / "Digits.swiftpm" / "Sources", sources)
    files = [swift.path(file) for file in sorted(sources.glob("*.swift"))]
    assert files
    done = swift.run("swiftc", "-frontend", "-parse", *files)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_sources_of_the_other_sample_apps_compile(swift: Swift) -> None:
    place = swift.new_folder()
    apps = swift.sample_apps
    sources = {name: swift.stubs / name for name in ("CoreVideo", "CoreGraphics", "CoreML", "CryptoKit")}
    sources["EdgeKitBundle"] = apps / "ios" / "Sources" / "EdgeKitBundle"
    common = ["-parse-as-library", "-I", swift.path(place)]
    strict = [*common, "-swift-version", "6", "-warnings-as-errors"]
    for name, origin in sources.items():
        shutil.copytree(origin, place / name)
        files = [swift.path(file) for file in sorted((place / name).glob("*.swift"))]
        module = ["-emit-module", "-emit-module-path", f"{swift.path(place)}/{name}.swiftmodule", "-module-name", name]
        done = swift.run("swiftc", *(strict if name == "EdgeKitBundle" else common), *module, *files)
        assert done.returncode == 0, done.stderr
    for app, name in (("expressions", "ExpressionReader.swift"), ("super_resolution", "Upscaler.swift")):
        shutil.copy(apps / app / "ios" / name, place)
        done = swift.run("swiftc", *strict, "-typecheck", swift.path(place / name))
        assert (done.returncode, done.stderr) == (0, "")


def test_the_session_of_onnx_runtimes_core_ml_provider_compiles(swift: Swift, packaged: Callable[..., Path]) -> None:
    """Against what its Objective-C headers declare: the package itself is for Apple's systems."""
    place = swift.new_folder()
    shutil.copy(packaged("coreml-ep") / "OpenSession.swift", place)
    shutil.copy(swift.stubs / "onnxruntime_objc" / "onnxruntime_objc.swift", place)
    module = ["-emit-module", "-emit-module-path", f"{swift.path(place)}/onnxruntime_objc.swiftmodule"]
    stub = swift.path(place / "onnxruntime_objc.swift")
    made = swift.run("swiftc", "-parse-as-library", *module, "-module-name", "onnxruntime_objc", stub)
    assert made.returncode == 0, made.stderr
    strict = ["-swift-version", "6", "-warnings-as-errors", "-parse-as-library", "-I", swift.path(place)]
    done = swift.run("swiftc", *strict, "-typecheck", swift.path(place / "OpenSession.swift"))
    assert (done.returncode, done.stderr) == (0, "")
