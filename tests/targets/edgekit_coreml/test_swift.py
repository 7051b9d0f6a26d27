"""The Swift sources, compiled by Swift 6 and run with stubs in place of Apple's frameworks."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

from edgekit.bundle import read_bundle
from edgekit.bundle_checks.verification import verify_bundle
from edgekit.comparison.detectors import recognised
from edgekit.devices.results import ResultsDevice
from edgekit.model import ValueSpec
from edgekit.pipeline import PackageRequest, package
from edgekit.preprocessing.image import ImagePreprocessing
from edgekit.progress import Progress
from edgekit_mlprogram.app_package import module_name

pytestmark = [pytest.mark.slow, pytest.mark.swift, pytest.mark.xdist_group("swift")]

HERE = Path(__file__).parent
SAMPLE_TESTS = HERE.parents[2] / "sample_apps" / "ios" / "Tests" / "EdgeKitBundleTests"
ROOT = Path(os.environ.get("EDGEKIT_SWIFT_ROOT") or Path.home() / ".cache" / "edgekit-swift" / "root")
OLDEST = 6
ENTER = 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'
"""Swift's programs look for themselves in /proc; the mount is gone with the command."""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def swift() -> Iterator[tuple[Path, Run]]:
    """A folder for packages, and what runs a command of Swift's in it: the system's, or the one in :data:`ROOT`."""
    inside = shutil.which("swift") is None
    if inside and not ((ROOT / "usr" / "bin" / "swiftc").exists() and os.geteuid() == 0):
        pytest.skip("Swift is not installed (`make swift` installs it)")
    prefix = ["unshare", "--mount", "sh", "-c", ENTER, str(ROOT)] if inside else []
    programs = "/usr/libexec/swift/bin:/usr/bin:/bin" if inside else os.environ["PATH"]
    path = f"{programs}:{os.environ['PATH']}"

    with tempfile.TemporaryDirectory(dir=ROOT / "tmp" if inside else None) as temporary:

        def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [*prefix, "env", f"PATH={programs}", *command],
                env={**os.environ, "PATH": path, "HOME": "/tmp", **environment},
                capture_output=True,
                text=True,
                check=False,
            )

        version = re.search(r"Swift version (\d+)", run("swiftc", "--version").stdout)
        if version is None or int(version[1]) < OLDEST:
            pytest.skip(f"Swift {OLDEST} or later is not installed (`make swift` installs it)")
        yield Path(temporary), run


def place_of(folder: Path) -> str:
    """The path by which Swift knows a folder."""
    return f"/{folder.relative_to(ROOT)}" if folder.is_relative_to(ROOT) else str(folder)


def packaged(folder: Path, target: str, *also: str, name: str = "model") -> Path:
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 17]> g (float[1, 2, 3] x, float[4] u) => (float[1, 2, 3] y, float[4] v)'
        " { y = Neg(x) v = Neg(u) }"
    )
    onnx.save(model, folder / f"{name}.onnx")
    request = PackageRequest(folder / f"{name}.onnx", target, folder / "bundle", precision="float32", also=also)
    return package(request, Progress()).path


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return packaged(tmp_path, "ios18")


def stubbed(bundle: Path, folder: Path, outputs: Sequence[str]) -> Path:
    """The package of the bundle, with stubs and further tests; the stubs of the models negate their inputs."""
    package_folder = Path(tempfile.mkdtemp(dir=folder))
    shutil.copytree(HERE / "swift", package_folder, dirs_exist_ok=True)
    shutil.copytree(SAMPLE_TESTS, package_folder / "EdgeKitBundleTests")
    module = module_name(read_bundle(bundle).name)
    description = package_folder / "Package.swift"
    description.write_text(description.read_text().replace('"BundleModel"', f'"{module}"'))
    for tests in (package_folder / "EdgeKitBundleTests").iterdir():
        tests.write_text(tests.read_text().replace("import EdgeKitBundle", f"import {module}"))
    shutil.copytree(bundle, package_folder / "bundle")
    stub_models(package_folder / "bundle", outputs)
    return package_folder


def stub_models(bundle: Path, outputs: Sequence[str], constants: Mapping[str, Sequence[float]] | None = None) -> None:
    """Describes the models of a bundle to the stubs: their outputs by native name, and what is to come out of them."""
    for build in read_bundle(bundle).builds:
        inputs: list[object] = [feature.native_name for feature in build.inputs]
        if build.main.suffix == ".mlpackage":
            inputs = [{"name": feature.native_name, "shape": feature.native_shape} for feature in build.inputs]
        stub = {"inputs": inputs, "outputs": outputs, "constants": constants or {}}
        (build.main / "stub.json").write_text(json.dumps(stub))


def test_the_check_writes_results_that_are_judged(swift: tuple[Path, Run], bundle: Path) -> None:
    folder, run = swift
    opened = read_bundle(bundle)
    natives = [feature.native_name for feature in opened.outputs]
    stub = stubbed(bundle, folder, natives)
    done = run("swift", "test", "--package-path", place_of(stub), EDGEKIT_RESULTS=place_of(stub))
    assert done.returncode == 0, done.stdout + done.stderr
    suites = {f"{file.stem}" for file in SAMPLE_TESTS.glob("*.swift")}
    assert {
        "BoxReadingTests",
        "GoldenResultsTests",
        "NumPyArrayTests",
        "OutputTallyTests",
        "PictureInputTests",
    } == suites
    for suite in suites | {"GoldenCheckTests"}:
        assert f"Test Suite '{suite}' passed" in done.stdout
    results = ResultsDevice(stub / f"{opened.name}.results.json")
    verification = verify_bundle(opened, device=results)
    assert verification.executed_by.startswith("Core ML, ")
    assert all(output.exact for output in verification.golden)

    model = stub / "bundle" / "model.mlpackage" / "stub.json"
    model.write_text(json.dumps(json.loads(model.read_text()) | {"outputs": natives[::-1]}))
    wrong = run("swift", "test", "--package-path", place_of(stub), EDGEKIT_RESULTS=place_of(stub))
    assert wrong.returncode != 0
    assert "4 elements instead of 6" in wrong.stdout


@pytest.mark.parametrize(
    ("target", "also", "system", "executed"),
    [
        ("ios18", "ios27", {"STUB_CORE_AI": "1"}, "ios27"),
        ("ios18", "ios27", {}, "ios18"),
        ("ios27", None, {"STUB_CORE_AI": "1"}, "ios27"),
    ],
)
def test_each_system_takes_its_build(
    swift: tuple[Path, Run], tmp_path: Path, target: str, also: str | None, system: dict[str, str], executed: str
) -> None:
    pytest.importorskip("coreai")
    folder, run = swift
    bundle = packaged(tmp_path, target, *([also] if also else []))
    opened = read_bundle(bundle)
    stub = stubbed(bundle, folder, [feature.native_name for feature in opened.outputs])
    holds = {"MAIN_MODEL": opened.main.name, **({"FURTHER_BUILD": also} if also else {})}
    done = run("swift", "test", "--package-path", place_of(stub), EDGEKIT_RESULTS=place_of(stub), **system, **holds)
    assert done.returncode == 0, done.stdout + done.stderr
    results = stub / f"{opened.name}.results.json"
    assert json.loads(results.read_text())["profile"] == executed
    verification = verify_bundle(opened, device=ResultsDevice(results))
    assert verification.executed_by.startswith("Core AI, " if system else "Core ML, ")
    assert all(output.exact for output in verification.golden)


def test_a_system_that_loads_none_of_the_builds_says_so(swift: tuple[Path, Run], tmp_path: Path) -> None:
    pytest.importorskip("coreai")
    folder, run = swift
    stub = stubbed(packaged(tmp_path, "ios27"), folder, ["y", "v"])
    done = run("swift", "test", "--package-path", place_of(stub), MAIN_MODEL="model.aimodel")
    assert done.returncode != 0
    assert 'noBuild(["model.aimodel"])' in done.stdout


CLASSIFIES = """
import CoreGraphics
import XCTest
@testable import MODULE

final class ClassifierTests: XCTestCase {
    func testTheClassesOfAPictureTheMostProbableFirst() async throws {
        let classifier = try await ModelBundle().classifier()
        let classes = try await classifier.predict(CGImage())
        XCTAssertEqual(classes.map(\\.label), ["cat", "dog", "bird"])
        XCTAssertEqual(classes.map(\\.index), [2, 1, 0])
        for (found, wanted) in zip(classes, [0.665241, 0.244728, 0.090031]) {
            XCTAssertEqual(found.probability, wanted, accuracy: 1e-5)
        }
        XCTAssertEqual(probabilities(of: [0.25, 0.75]), [0.25, 0.75])
    }
}
"""


def test_a_picture_is_classified(swift: tuple[Path, Run], tmp_path: Path) -> None:
    """A black picture, which the preprocessing makes -1, -2 and -3; the stub negates it; softmax by hand."""
    folder, run = swift
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 17]> g (float[1, 3, 1, 1] x) => (float[1, 3] y)'
        " { n = Neg(x) y = Flatten(n) }"
    )
    onnx.save(model, tmp_path / "model.onnx")
    preprocessing = ImagePreprocessing(scale=1.0, size=(1, 1), mean=(1.0, 2.0, 3.0), resize="stretch", layout="NCHW")
    (tmp_path / "labels.txt").write_text("bird\ndog\ncat\n")
    request = PackageRequest(
        tmp_path / "model.onnx",
        "ios18",
        tmp_path / "bundle",
        precision="float32",
        labels=tmp_path / "labels.txt",
        preprocessing=preprocessing,
        target_options={"image": "no"},
    )
    stub = stubbed(package(request, Progress()).path, folder, ["y"])
    module = module_name(read_bundle(stub / "bundle").name)
    (stub / "EdgeKitBundleTests" / "ClassifierTests.swift").write_text(CLASSIFIES.replace("MODULE", module))
    filtered = ("--filter", "ClassifierTests")
    done = run("swift", "test", "--package-path", place_of(stub), *filtered)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Test Suite 'ClassifierTests' passed" in done.stdout


HEIGHT, WIDTH, SIDE = 32, 64, 128
"""The detectors' input, and the pictures, which become 32×32 in the middle of it."""
ROWS = 400
LABELS = ("bird", "dog", "cat")


def detector(form: str) -> onnx.ModelProto:
    """Puts a bird of 12×8 pixels at the brightest place, and a cat of 6×10 beside it; both in several rows."""
    rng = np.random.default_rng(3)
    moved, sizes = rng.uniform(-16, 16, (ROWS, 2)), rng.uniform(2, 16, (ROWS, 2))
    scores = rng.uniform(0, 0.05, (ROWS, 3))
    for row in range(7):
        kind, size, away = (0, (12, 8), (0, 0)) if row < 4 else (2, (6, 10), (7, 3))
        moved[row], sizes[row] = np.array(away) + rng.uniform(-0.4, 0.4, 2), size
        scores[row, kind] = 0.9 - 0.05 * row
    constants: dict[str, np.ndarray] = {
        "columns": np.arange(WIDTH)[None, :] + 0.5,
        "lines": np.arange(HEIGHT)[:, None] + 0.5,
        "moved": moved[None],
        "half": sizes[None] / 2,
        "sizes": sizes[None],
        "scores": scores[None],
        "tiny": np.array(1e-4),
        "background": np.array([[0.9]]),
        "shares": np.array([HEIGHT, WIDTH, HEIGHT, WIDTH], float),
        "both": np.array([[0.9, 0.0], [0.7, 2.0], [0.0, 0.0]])[None],
        "chosen": np.array([0, 4, 9]),
        "turned": np.array([1, 0, 3, 2]),
        "nothing": 1 - scores.sum(axis=1, keepdims=True)[None],
    }
    text = """<ir_version: 9, opset_import: ["": 17]> g (float[1, 3, 32, 64] x) => (OUTPUTS) {
        bright = ReduceMean<axes = [1], keepdims = 0>(x)
        all = ReduceSum(bright)
        atx = Mul(bright, columns) sumx = ReduceSum(atx) cx = Div(sumx, all)
        aty = Mul(bright, lines) sumy = ReduceSum(aty) cy = Div(sumy, all)
        centre = Concat<axis = 2>(cx, cy)
        centres = Add(centre, moved)
        low = Sub(centres, half) high = Add(centres, half) corners = Concat<axis = 2>(low, high)
        little = Mul(all, tiny)
        BODY }"""
    bodies = {
        "columns": (
            "float[1, 7, 400] y",
            "told = Add(scores, little) still = Add(sizes, little) rows = Concat<axis = 2>(centres, still, told)"
            " y = Transpose<perm = [0, 2, 1]>(rows)",
        ),
        "suppressed": (
            "float[1, 3, 6] y",
            "found = Gather<axis = 1>(corners, chosen) y = Concat<axis = 2>(found, both)",
        ),
        "beside": (
            "float[1, 400, 4] places, float[1, 400, 4] chances",
            "yx = Gather<axis = 2>(corners, turned) places = Div(yx, shares) some = Add(scores, little)"
            " chances = Concat<axis = 2>(nothing, some)",
        ),
    }
    outputs, body = bodies[form]
    model = onnx.parser.parse_model(text.replace("OUTPUTS", outputs).replace("BODY", body))
    used = {name for node in model.graph.node for name in node.input}
    for name, array in constants.items():
        if name in used:
            kept = array if array.dtype.kind == "i" else array.astype(np.float32)
            model.graph.initializer.append(onnx.numpy_helper.from_array(kept, name))
    return model


def detector_bundle(folder: Path, form: str) -> Path:
    folder.mkdir()
    onnx.save(detector(form), folder / f"{form}.onnx")
    (folder / "labels.txt").write_text("".join(f"{label}\n" for label in LABELS))
    (folder / "pictures").mkdir()
    for number, (x, y) in enumerate([(30, 40), (90, 60), (50, 100), (20, 70)]):
        pixels = np.zeros((SIDE, SIDE, 3), np.uint8)
        pixels[y - 8 : y + 8, x - 8 : x + 8] = 255
        Image.fromarray(pixels).save(folder / "pictures" / f"{number}.png")
    request = PackageRequest(
        folder / f"{form}.onnx",
        "ios18",
        folder / "bundle",
        precision="float32",
        quantize="none",
        labels=folder / "labels.txt",
        data=folder / "pictures",
        preprocessing=ImagePreprocessing(scale=1 / 255, resize="pad", interpolation="box"),
        target_options={"image": "no"},
    )
    return package(request, Progress()).path


DETECTS = """
import CoreGraphics
import XCTest
import MODULE

final class DetectorTests: XCTestCase {
    func testWritesTheBoxesOfEachBundle() async throws {
        let folder = URL(fileURLWithPath: try XCTUnwrap(ProcessInfo.processInfo.environment["DETECTORS"]))
        for bundle in try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil) {
            let detector = try await ModelBundle(folder: bundle).detector()
            let found = try await detector.predict(CGImage(width: 128, height: 128), confidence: 0.5, overlap: 0.4)
            let rows = found.map { one -> [String: Any] in
                let box = [one.box.minX, one.box.minY, one.box.maxX, one.box.maxY].map { Double($0) }
                return ["label": one.label ?? "", "index": one.index, "confidence": one.confidence, "box": box]
            }
            try JSONSerialization.data(withJSONObject: rows).write(to: bundle.appendingPathComponent("found.json"))
        }
    }

    func testABundleOfAnotherKindSaysSo() async throws {
        do {
            _ = try await ModelBundle().detector()
            XCTFail("is no detector")
        } catch {
            XCTAssertEqual(error as? DetectorError, .takesNoPicture)
        }
    }
}
"""


def test_a_picture_shows_boxes(swift: tuple[Path, Run], bundle: Path, tmp_path: Path) -> None:
    """What the original computed of the first sample comes out of the stubs; the boxes are those that Python reads."""
    folder, run = swift
    stub = stubbed(bundle, folder, ["y", "v"])
    expected = {}
    for form in ("columns", "suppressed", "beside"):
        copy = stub / "detectors" / form
        shutil.copytree(detector_bundle(tmp_path / form, form), copy)
        opened = read_bundle(copy)
        golden = {
            feature.name: np.load(copy / "golden" / "0" / "outputs" / f"{place}.npy")
            for place, feature in enumerate(opened.outputs)
        }
        natives = [feature.native_name for feature in opened.outputs]
        values = [array.ravel().astype(float).tolist() for array in golden.values()]
        stub_models(copy, natives[:1], dict(zip(natives, values, strict=True)))
        picture = (ValueSpec("x", "float32", (1, 3, HEIGHT, WIDTH)),)
        reader = recognised([golden], picture, len(LABELS))
        assert reader is not None
        expected[form] = reader.read(golden)
    module = module_name(read_bundle(stub / "bundle").name)
    (stub / "EdgeKitBundleTests" / "DetectorTests.swift").write_text(DETECTS.replace("MODULE", module))
    given = {"DETECTORS": place_of(stub / "detectors")}
    done = run("swift", "test", "--package-path", place_of(stub), "--filter", "DetectorTests", **given)
    assert done.returncode == 0, done.stdout + done.stderr
    for form, boxes in expected.items():
        found = json.loads((stub / "detectors" / form / "found.json").read_text())
        assert [(one["label"], one["index"]) for one in found] == [("bird", 0), ("cat", 2)]
        strong = boxes.at(np.flatnonzero(boxes.scores >= 0.5))
        np.testing.assert_allclose([one["confidence"] for one in found], strong.scores, atol=1e-9)
        corners = strong.corners
        if form == "beside":
            corners = corners[:, [1, 0, 3, 2]] * [WIDTH, HEIGHT, WIDTH, HEIGHT]
        in_picture = np.clip((corners - [16, 0, 16, 0]) * 4, 0, SIDE)
        np.testing.assert_allclose([one["box"] for one in found], in_picture, atol=1e-9)
        bird = np.array(found[0]["box"])
        np.testing.assert_allclose((bird[:2] + bird[2:]) / 2, (30, 40), atol=0.4 * 4 + 1e-3)
        np.testing.assert_allclose(bird[2:] - bird[:2], (48, 32), atol=0.1)


HOLDS_AGAINST_THE_MANIFEST = """
import Foundation
import XCTest
import MODULE

final class IntegrityTests: XCTestCase {
    func testWritesWhatIsWrongWithEachCopy() throws {
        let folder = URL(fileURLWithPath: try XCTUnwrap(ProcessInfo.processInfo.environment["COPIES"]))
        var found: [String: [String: String]] = [:]
        for copy in try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil) {
            let digest = try? String(contentsOf: copy.appendingPathComponent("digest.txt"), encoding: .utf8)
            do {
                try ModelBundle(folder: copy).checkIntegrity(manifestDigest: digest)
                found[copy.lastPathComponent] = [:]
            } catch let error as IntegrityError {
                found[copy.lastPathComponent] = error.flaws.mapValues(\\.rawValue)
            }
        }
        try JSONSerialization.data(withJSONObject: found).write(to: folder.appendingPathExtension("json"))
    }
}
"""


def test_files_are_held_against_the_manifest(swift: tuple[Path, Run], bundle: Path) -> None:
    folder, run = swift
    stub = stubbed(bundle, folder, ["y", "v"])
    digest = hashlib.sha256((bundle / "manifest.json").read_bytes()).hexdigest()
    weights = "model.mlpackage/Data/com.apple.CoreML/model.mlmodel"
    expected: dict[str, dict[str, str]] = {
        "whole": {},
        "known": {},
        "beside": {},
        "other": {"manifest.json": "changed"},
        "changed": {weights: "changed"},
        "missing": {weights: "missing"},
        "added": {"model.mlpackage/Data/more.bin": "not in the manifest"},
    }
    copies = stub / "copies"
    for name in expected:
        shutil.copytree(bundle, copies / name)
    (copies / "known" / "digest.txt").write_text(digest.upper())
    (copies / "other" / "digest.txt").write_text(digest[::-1])
    (copies / "beside" / "report.md").write_text("is none of the model's")
    data = bytearray((copies / "changed" / weights).read_bytes())
    data[-1] ^= 1
    (copies / "changed" / weights).write_bytes(data)
    (copies / "missing" / weights).unlink()
    (copies / "added" / "model.mlpackage" / "Data" / "more.bin").write_text("")
    module = module_name(read_bundle(bundle).name)
    tests = HOLDS_AGAINST_THE_MANIFEST.replace("MODULE", module)
    (stub / "EdgeKitBundleTests" / "IntegrityTests.swift").write_text(tests)
    given = {"COPIES": place_of(copies)}
    done = run("swift", "test", "--package-path", place_of(stub), "--filter", "IntegrityTests", **given)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((stub / "copies.json").read_text()) == expected


def test_what_xcode_compiled_is_loaded_and_is_no_file_of_the_manifest(swift: tuple[Path, Run], bundle: Path) -> None:
    folder, run = swift
    opened = read_bundle(bundle)
    stub = stubbed(bundle, folder, [feature.native_name for feature in opened.outputs])
    copies = stub / "copies"
    for name in ("packaged", "compiled", "both"):
        shutil.copytree(bundle, copies / name)
    shutil.copytree(copies / "both" / "model.mlpackage", copies / "both" / "model.mlmodelc")
    (copies / "compiled" / "model.mlpackage").rename(copies / "compiled" / "model.mlmodelc")
    (stub / "bundle" / "model.mlpackage").rename(stub / "bundle" / "model.mlmodelc")
    module = module_name(opened.name)
    tests = HOLDS_AGAINST_THE_MANIFEST.replace("MODULE", module)
    (stub / "EdgeKitBundleTests" / "IntegrityTests.swift").write_text(tests)
    given = {"COPIES": place_of(copies), "MAIN_MODEL": "model.mlmodelc", "EDGEKIT_RESULTS": place_of(stub)}
    filtered = ("--filter", "IntegrityTests|GoldenCheckTests")
    done = run("swift", "test", "--package-path", place_of(stub), *filtered, **given)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((stub / "copies.json").read_text())
    assert found["packaged"] == {}
    assert found["compiled"] == {"model.mlpackage": "compiled when the app was built"}
    assert set(found["both"].values()) == {"not in the manifest"}
    assert {path.partition("/")[0] for path in found["both"]} == {"model.mlmodelc"}
    verification = verify_bundle(opened, device=ResultsDevice(stub / f"{opened.name}.results.json"))
    assert all(output.exact for output in verification.golden)


KEEPS_WHAT_IS_COMPILED = """
import CoreML
import Foundation
import XCTest
@testable import MODULE

final class CompiledModelTests: XCTestCase {
    private let files = FileManager.default
    private let scratch = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)

    private func kept(in cache: URL) throws -> [String] {
        try files.contentsOfDirectory(atPath: cache.path).sorted()
    }

    func testCompilesOnceForEachModel() async throws {
        try files.createDirectory(at: scratch, withIntermediateDirectories: true)
        defer { try? files.removeItem(at: scratch) }
        let folder = scratch.appendingPathComponent("bundle")
        try files.copyItem(at: PackagedBundle.folder, to: folder)
        let bundle = try ModelBundle(folder: folder)
        let cache = scratch.appendingPathComponent("cache")

        _ = try await bundle.loadModel(cache: nil)
        XCTAssertFalse(files.fileExists(atPath: cache.path))

        _ = try await bundle.loadModel(cache: cache)
        let first = try kept(in: cache)
        XCTAssertEqual(first.count, 1)
        let mark = cache.appendingPathComponent(first[0]).appendingPathComponent("mark")
        try Data().write(to: mark)
        _ = try await bundle.loadModel(cache: cache)
        XCTAssertEqual(try kept(in: cache), first)
        XCTAssertTrue(files.fileExists(atPath: mark.path), "compiled again")

        try Data().write(to: cache.appendingPathComponent(first[0]).appendingPathComponent("stub.json"))
        _ = try await bundle.loadModel(cache: cache)
        XCTAssertFalse(files.fileExists(atPath: mark.path), "what does not load is still there")

        try Data("changed".utf8).write(to: folder.appendingPathComponent("model.mlpackage/changed"))
        _ = try await bundle.loadModel(cache: cache)
        XCTAssertEqual(try kept(in: cache).count, 2)
        XCTAssertTrue(try kept(in: cache).contains(first[0]))

        let compiled = folder.appendingPathComponent("model.mlmodelc")
        try files.moveItem(at: folder.appendingPathComponent("model.mlpackage"), to: compiled)
        try files.removeItem(at: cache)
        _ = try await bundle.loadModel(cache: cache)
        XCTAssertFalse(files.fileExists(atPath: cache.path))
        XCTAssertThrowsError(try bundle.checkIntegrity()) { error in
            XCTAssertEqual(error as? IntegrityError, IntegrityError(flaws: ["model.mlpackage": .compiled]))
        }
        try bundle.checkIntegrity(trustsCompiled: true)
        XCTAssertThrowsError(try bundle.checkIntegrity(manifestDigest: "0", trustsCompiled: true)) { error in
            XCTAssertEqual(error as? IntegrityError, IntegrityError(flaws: ["manifest.json": .changed]))
        }

        try files.removeItem(at: compiled)
        do {
            _ = try await bundle.loadModel(cache: cache)
            XCTFail("there is no model")
        } catch {
            XCTAssertEqual(error as? ValueError, .noModel(["model.mlpackage", "model.mlmodelc"]))
        }
    }
}
"""


def test_a_model_is_compiled_once(swift: tuple[Path, Run], bundle: Path) -> None:
    folder, run = swift
    stub = stubbed(bundle, folder, ["y", "v"])
    # the stub stands beside the manifest's files: it is of the model here, as the sums are taken
    manifest = json.loads((stub / "bundle" / "manifest.json").read_text())
    added = stub / "bundle" / "model.mlpackage" / "stub.json"
    listed = {"path": "model.mlpackage/stub.json", "bytes": added.stat().st_size}
    listed["sha256"] = hashlib.sha256(added.read_bytes()).hexdigest()
    manifest["files"].append(listed)
    (stub / "bundle" / "manifest.json").write_text(json.dumps(manifest))
    module = module_name(read_bundle(bundle).name)
    tests = KEEPS_WHAT_IS_COMPILED.replace("MODULE", module)
    (stub / "EdgeKitBundleTests" / "CompiledModelTests.swift").write_text(tests)
    done = run("swift", "test", "--package-path", place_of(stub), "--filter", "CompiledModelTests")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Test Suite 'CompiledModelTests' passed" in done.stdout


def test_the_package_s_resources_keep_the_model_s_folders(swift: tuple[Path, Run], bundle: Path) -> None:
    """As ``swift build`` puts them where ``Bundle.module`` looks, with sources that need none of Apple's frameworks."""
    folder, run = swift
    copy = Path(tempfile.mkdtemp(dir=folder)) / "package"
    shutil.copytree(bundle, copy)
    for sources in ("EdgeKitBundle", "PackagedBundle"):
        shutil.rmtree(copy / "swift" / sources)
        (copy / "swift" / sources).mkdir()
        text = "import Foundation\npublic let folder = Bundle.module.bundleURL\n" if sources == "PackagedBundle" else ""
        (copy / "swift" / sources / f"{sources}.swift").write_text(text)
    module = module_name(read_bundle(bundle).name)
    done = run("swift", "build", "--package-path", place_of(copy), "--target", module)
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
    swift: tuple[Path, Run], tmp_path: Path, target: str, also: list[str], models: set[str]
) -> None:
    if "ios27" in (target, *also):
        pytest.importorskip("coreai")
    folder, run = swift
    bundle = packaged(tmp_path, target, *also)
    copy = Path(tempfile.mkdtemp(dir=folder)) / "any-name"
    shutil.copytree(bundle, copy)
    done = run("swift", "package", "--package-path", place_of(copy), "describe", "--type", "json")
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


def test_an_app_holds_two_bundles(swift: tuple[Path, Run], tmp_path: Path) -> None:
    """Packages whose targets have the same names are refused when Swift puts an app together."""
    folder, run = swift
    app = Path(tempfile.mkdtemp(dir=folder))
    for name in ("cats", "dogs"):
        (tmp_path / name).mkdir()
        shutil.copytree(packaged(tmp_path / name, "ios18", name=name), app / name)
    (app / "Package.swift").write_text(APP)
    (app / "Sources" / "App").mkdir(parents=True)
    (app / "Sources" / "App" / "App.swift").write_text("import CatsModel\nimport DogsModel\n")
    done = run("swift", "package", "--package-path", place_of(app), "show-dependencies", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert [one["name"] for one in json.loads(done.stdout)["dependencies"]] == ["CatsModel", "DogsModel"]
    planned = run("swift", "build", "--package-path", place_of(app), "--target", "App")
    assert "conflict" not in planned.stdout + planned.stderr
    assert "Emitting module CatsModel" in planned.stdout
    assert "Emitting module DogsModel" in planned.stdout
    missing = set(re.findall(r"no such module '(\w+)'", planned.stdout + planned.stderr))
    assert missing <= {"CoreGraphics", "CoreML", "CoreVideo", "CryptoKit"}, "as far as a system without them comes"


def test_the_sample_app_is_well_formed(swift: tuple[Path, Run]) -> None:
    """As far as can be told without SwiftUI."""
    folder, run = swift
    sources = Path(tempfile.mkdtemp(dir=folder)) / "Sources"
    shutil.copytree(SAMPLE_TESTS.parents[1] / "Digits.swiftpm" / "Sources", sources)
    files = [place_of(file) for file in sorted(sources.glob("*.swift"))]
    assert files
    done = run("swiftc", "-frontend", "-parse", *files)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_sources_of_the_other_sample_apps_compile(swift: tuple[Path, Run]) -> None:
    folder, run = swift
    place = Path(tempfile.mkdtemp(dir=folder))
    apps = SAMPLE_TESTS.parents[2]
    sources = {name: HERE / "swift" / "Stubs" / name for name in ("CoreVideo", "CoreGraphics", "CoreML", "CryptoKit")}
    sources["EdgeKitBundle"] = apps / "ios" / "Sources" / "EdgeKitBundle"
    common = ["-parse-as-library", "-I", place_of(place)]
    strict = [*common, "-swift-version", "6", "-warnings-as-errors"]
    for name, origin in sources.items():
        shutil.copytree(origin, place / name)
        files = [place_of(file) for file in sorted((place / name).glob("*.swift"))]
        module = ["-emit-module", "-emit-module-path", f"{place_of(place)}/{name}.swiftmodule", "-module-name", name]
        done = run("swiftc", *(strict if name == "EdgeKitBundle" else common), *module, *files)
        assert done.returncode == 0, done.stderr
    for app, name in (("expressions", "ExpressionReader.swift"), ("super_resolution", "Upscaler.swift")):
        shutil.copy(apps / app / "ios" / name, place)
        done = run("swiftc", *strict, "-typecheck", place_of(place / name))
        assert (done.returncode, done.stderr) == (0, "")


def test_the_session_of_onnx_runtimes_core_ml_provider_compiles(swift: tuple[Path, Run], tmp_path: Path) -> None:
    """Against what its Objective-C headers declare: the package itself is for Apple's systems."""
    folder, run = swift
    place = Path(tempfile.mkdtemp(dir=folder))
    shutil.copy(packaged(tmp_path, "coreml-ep") / "OpenSession.swift", place)
    shutil.copy(HERE / "swift" / "Stubs" / "onnxruntime_objc" / "onnxruntime_objc.swift", place)
    module = ["-emit-module", "-emit-module-path", f"{place_of(place)}/onnxruntime_objc.swiftmodule"]
    stub = place_of(place / "onnxruntime_objc.swift")
    made = run("swiftc", "-parse-as-library", *module, "-module-name", "onnxruntime_objc", stub)
    assert made.returncode == 0, made.stderr
    strict = ["-swift-version", "6", "-warnings-as-errors", "-parse-as-library", "-I", place_of(place)]
    done = run("swiftc", *strict, "-typecheck", place_of(place / "OpenSession.swift"))
    assert (done.returncode, done.stderr) == (0, "")
