"""Swift packages as Swift's package manager reads and builds them."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from edgekit.bundle import read_bundle
from edgekit_mlprogram.app_package import module_name

if TYPE_CHECKING:
    from .conftest import Swift

pytestmark = [pytest.mark.slow, pytest.mark.swift, pytest.mark.xdist_group("swift")]


def test_the_package_s_resources_keep_the_model_s_folders(swift: Swift, bundle: Path) -> None:
    """As ``swift build`` puts them where ``Bundle.module`` looks, with sources that need none of Apple's frameworks."""
    copy = swift.new_folder() / "package"
    shutil.copytree(bundle, copy)
    for sources in ("EdgeKitBundle", "PackagedBundle"):
        shutil.rmtree(copy / "swift" / sources)
        (copy / "swift" / sources).mkdir()
        text = "import Foundation\npublic let folder = Bundle.module.bundleURL\n" if sources == "PackagedBundle" else ""
        (copy / "swift" / sources / f"{sources}.swift").write_text(text)
    module = module_name(read_bundle(bundle).name)
    done = swift.run("swift", "build", "--package-path", swift.path(copy), "--target", module)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in done.stdout + done.stderr
    (resources,) = (copy / ".build" / "debug").resolve().glob(f"{module}_{module}.resources")
    shipped = {path.relative_to(resources).as_posix() for path in resources.rglob("*") if path.is_file()}
    model = {path.relative_to(bundle).as_posix() for path in (bundle / "model.mlpackage").rglob("*") if path.is_file()}
    assert shipped == {"manifest.json", *model}


@pytest.mark.parametrize(
    ("target", "also", "models"),
    [
        ("ios18", [], {"model.mlpackage"}),
        ("ios18", ["ios27"], {"model.mlpackage", "ios27"}),
        ("ios27", [], {"model.aimodel"}),
    ],
)
def test_the_bundles_own_package_is_one(
    swift: Swift, packaged: Callable[..., Path], target: str, also: list[str], models: set[str]
) -> None:
    if "ios27" in (target, *also):
        pytest.importorskip("coreai")
    bundle = packaged(target, *also)
    copy = swift.new_folder() / "any-name"
    shutil.copytree(bundle, copy)
    done = swift.run("swift", "package", "--package-path", swift.path(copy), "describe", "--type", "json")
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr
    targets = {target["name"]: target for target in json.loads(done.stdout)["targets"]}
    module = module_name(read_bundle(bundle).name)
    assert set(targets) == {module, f"{module}Golden", f"{module}Tests"}
    resources = {
        name: {Path(resource["path"]).name for resource in target.get("resources", ())}
        for name, target in targets.items()
    }
    assert resources == {module: {"manifest.json", *models}, f"{module}Golden": {"golden"}, f"{module}Tests": set()}
    folders = ("EdgeKitBundle", "PackagedBundle")
    sources = {f"swift/{folder}/{file.name}" for folder in folders for file in (copy / "swift" / folder).iterdir()}
    assert set(targets[module]["sources"]) == sources


APP = """// swift-tools-version: 5.9
import PackageDescription

let package = Package(
    name: "App",
    platforms: [.iOS("18.0"), .macOS("15.0")],
    dependencies: [.package(path: "cats"), .package(path: "dogs")],
    targets: [
        .target(name: "App", dependencies: [
            .product(name: "CatsModel", package: "cats"), .product(name: "DogsModel", package: "dogs"),
        ]),
    ]
)
"""


def test_an_app_holds_two_bundles(swift: Swift, packaged: Callable[..., Path]) -> None:
    """Packages whose targets have the same names are refused when Swift puts an app together."""
    app = swift.new_folder()
    for name in ("cats", "dogs"):
        shutil.copytree(packaged("ios18", name=name), app / name)
    (app / "Package.swift").write_text(APP)
    (app / "Sources" / "App").mkdir(parents=True)
    (app / "Sources" / "App" / "App.swift").write_text("import CatsModel\nimport DogsModel\n")
    done = swift.run("swift", "package", "--package-path", swift.path(app), "show-dependencies", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert [one["name"] for one in json.loads(done.stdout)["dependencies"]] == ["CatsModel", "DogsModel"]
    planned = swift.run("swift", "build", "--package-path", swift.path(app), "--target", "App")
    assert "conflict" not in planned.stdout + planned.stderr
    assert "Emitting module CatsModel" in planned.stdout
    assert "Emitting module DogsModel" in planned.stdout
    missing = set(re.findall(r"no such module '(\w+)'", planned.stdout + planned.stderr))
    assert missing <= {"CoreGraphics", "CoreML", "CoreVideo", "CryptoKit"}, "as far as a system without them comes"
