import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import edgekit
from edgekit.bundle import check_integrity, is_bundle, read_bundle, validate_manifest
from edgekit.errors import InputError, InternalError, RequirementError

SCHEMA = json.loads(Path(edgekit.__file__).with_name("manifest.schema.json").read_text())


def manifest_of(bundle: Path) -> dict[str, Any]:
    return dict(read_bundle(bundle).manifest)


def test_the_schema_is_one_and_the_manifest_is_valid(packaged_digits: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(manifest_of(packaged_digits), SCHEMA, jsonschema.Draft202012Validator)


def test_the_manifest_is_valid_as_it_lies_on_the_disk(packaged_digits: Path) -> None:
    jsonschema.validate(
        json.loads((packaged_digits / "manifest.json").read_text()), SCHEMA, jsonschema.Draft202012Validator
    )


def test_the_manifest_names_every_file_with_its_hash(packaged_digits: Path) -> None:
    found = {
        path.relative_to(packaged_digits).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in packaged_digits.rglob("*")
        if path.is_file() and path.name not in ("manifest.json", "measurements.json")
    }
    assert {file["path"]: file["sha256"] for file in manifest_of(packaged_digits)["files"]} == found
    assert {"model.onnx", "check.py", "report.md", "golden/0/inputs/0.npy", "golden/2/outputs/0.npy"} <= found.keys()


def test_the_manifest_tells_the_bundle_s_history(packaged_digits: Path, digits: Path) -> None:
    manifest = manifest_of(packaged_digits)
    assert [stage["name"] for stage in manifest["stages"]] == [
        "load",
        "fix shapes",
        "simplify",
        "pre-check",
        "quantize",
        "check operators",
        "build",
        "verify",
        "bench",
        "layers",
    ]
    (source,) = manifest["source"]["files"]
    assert source == {
        "path": digits.name,
        "bytes": digits.stat().st_size,
        "sha256": hashlib.sha256(digits.read_bytes()).hexdigest(),
    }
    assert manifest["options"] == {
        "quantize": "none",
        "also": [],
        "witness": None,
        "instruction_sets": None,
        "smallest": False,
        "max_bytes": None,
        "quantizer": None,
        "accept": False,
        "floor_db": None,
        "max_drop": None,
        "metric": None,
        "precision": "auto",
        "dims": {"batch": 1},
        "shapes": {},
        "outputs": None,
        "states": {},
        "target": {},
    }
    assert manifest["preprocessing"]["layout"] == "NCHW"
    assert manifest["inputs"][0]["shape"] == [1, 1, 28, 28]
    assert manifest["size"]["bytes"] == (packaged_digits / "model.onnx").stat().st_size


def test_golden_outputs_are_those_of_the_original_by_another_implementation(
    packaged_digits: Path, digits: Path
) -> None:
    original = ReferenceEvaluator(onnx.load(digits))
    samples = list(read_bundle(packaged_digits).golden())
    assert len(samples) == 3
    for feeds, outputs in samples:
        (expected,) = original.run(None, feeds)
        np.testing.assert_allclose(outputs["logits"], expected, rtol=1e-4, atol=1e-4)


def test_the_manifest_names_the_files_of_golden_samples(packaged_digits: Path) -> None:
    """An app's developer prepares the same file, and compares it with the golden input."""
    assert manifest_of(packaged_digits)["golden"]["names"] == ["000.png", "001.png", "002.png"]


def test_the_report_is_for_people(packaged_digits: Path) -> None:
    report = (packaged_digits / "report.md").read_text()
    assert report.startswith("# digits_torchscript for onnxruntime\n")
    assert "| input | image | float32 | 1×1×28×28 |" in report
    assert "python check.py" in report


COPY = "copy the whole bundle again, or package the model again"
REMOVE = "remove what was put into it, or package the model again"
CHECK_OUT = (
    "git converts line ends where core.autocrlf is set: a line `* -text` in a file .gitattributes beside the bundle "
    "keeps git from it; then check the bundle out again"
)


def with_crlf(name: str) -> Callable[[Path], None]:
    """Writes a text as git for Windows checks it out."""

    def convert(bundle: Path) -> None:
        (bundle / name).write_bytes((bundle / name).read_bytes().replace(b"\n", b"\r\n"))

    return convert


@pytest.mark.parametrize(
    ("change", "found", "hint"),
    [
        (lambda bundle: (bundle / "model.onnx").write_bytes(b"other"), "model.onnx is changed", COPY),
        (lambda bundle: (bundle / "report.md").unlink(), "report.md is missing", COPY),
        (lambda bundle: (bundle / "extra").touch(), "extra is not in the manifest", REMOVE),
        (lambda bundle: (bundle / "link").symlink_to("/etc"), "link is not in the manifest", REMOVE),
        (
            lambda bundle: (bundle / "golden" / "link").symlink_to("nowhere"),
            "golden/link is not in the manifest",
            REMOVE,
        ),
        (lambda bundle: os.mkfifo(bundle / "pipe"), "pipe is not in the manifest", REMOVE),
        (lambda bundle: (bundle / "Thumbs.db").symlink_to("/etc/hosts"), "Thumbs.db is not in the manifest", REMOVE),
        (with_crlf("report.md"), "report.md has CRLF line ends in place of LF", CHECK_OUT),
        (
            lambda bundle: [with_crlf("report.md")(bundle), (bundle / "check.py").unlink()],
            "check.py is missing; report.md has CRLF line ends in place of LF",
            COPY,
        ),
    ],
)
def test_a_changed_bundle_is_noticed(bundle: Path, change: Any, found: str, hint: str) -> None:
    check_integrity(read_bundle(bundle))
    change(bundle)
    with pytest.raises(RequirementError) as failure:
        check_integrity(read_bundle(bundle))
    assert str(failure.value) == (
        f"{bundle}: the bundle is not as it was written\n"
        "expected: the files and SHA-256 sums of its manifest\n"
        f"found: {found}\n"
        f"hint: {hint}"
    )


@pytest.mark.parametrize(
    "name", ["Thumbs.db", "desktop.ini", ".DS_Store", "._manifest.json", "golden/.DS_Store", "__MACOSX/._model.onnx"]
)
def test_what_systems_leave_in_folders_is_no_part_of_a_bundle(bundle: Path, name: str) -> None:
    """Explorer and Finder write it as soon as somebody looks at the folder."""
    (bundle / name).parent.mkdir(exist_ok=True)
    (bundle / name).write_bytes(b"of the system")
    check_integrity(read_bundle(bundle))


def test_a_file_that_is_linked_to_is_as_it_was_written(bundle: Path, tmp_path: Path) -> None:
    """Build systems and data versioning keep files elsewhere and link to them."""
    (bundle / "model.onnx").rename(tmp_path / "kept")
    (bundle / "model.onnx").symlink_to(tmp_path / "kept")
    check_integrity(read_bundle(bundle))


def test_a_name_that_stands_twice_in_the_manifest_is_refused(bundle: Path) -> None:
    """An app's reader may take the first of the two values, and Python's takes the last."""
    text = (bundle / "manifest.json").read_text()
    (bundle / "manifest.json").write_text(text.replace('"edgekit":', '"edgekit": "9.9", "edgekit":', 1))
    with pytest.raises(InputError) as refused:
        read_bundle(bundle)
    assert refused.value.message == "cannot be read: an object has the name 'edgekit' twice"


def test_golden_inputs_have_the_shapes_of_the_manifest(bundle: Path) -> None:
    """Apps feed what the manifest says, which nothing else holds against what the model takes."""
    manifest = manifest_of(bundle)
    manifest["inputs"][0]["shape"] = [1 << 40, 1, 28, 28]
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(RequirementError) as refused:
        list(read_bundle(bundle).golden())
    assert str(refused.value) == (
        f"{bundle / 'golden' / '0' / 'inputs' / '0.npy'}: golden data has another shape than the manifest says\n"
        "expected: image: float32 1099511627776×1×28×28\n"
        "found: 1×1×28×28\n"
        "hint: package the model again"
    )


def test_what_lies_near_a_bundle_gets_a_hint(bundle: Path, digits: Path) -> None:
    hints = {
        bundle / "manifest.json": f"give its folder, {bundle}",
        digits: "give the bundle that `edgekit package` made of it (`bench --model` compares with the model itself)",
    }
    for path, hint in hints.items():
        with pytest.raises(InputError, match="is not a bundle") as refused:
            read_bundle(path)
        assert refused.value.hint == hint


def test_a_pointer_of_git_lfs_in_place_of_a_file_is_named(bundle: Path) -> None:
    """Packaging again would not fetch it."""
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab\nsize 12345\n"
    (bundle / "model.onnx").write_text(pointer)
    with pytest.raises(RequirementError) as failure:
        check_integrity(read_bundle(bundle))
    assert failure.value.found == "model.onnx is a Git LFS pointer"
    assert failure.value.hint == "fetch the files themselves with `git lfs pull`"


def test_what_is_no_bundle(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    for name, found in (("folder", "a folder without one"), ("file", "a file"), ("nowhere", "nothing")):
        with pytest.raises(InputError) as failure:
            read_bundle(tmp_path / name)
        assert str(failure.value) == (
            f"{tmp_path / name}: is not a bundle\n"
            "expected: a folder with a manifest.json\n"
            f"found: {found}\n"
            "hint: `edgekit package` makes bundles"
        )
        assert not is_bundle(tmp_path / name)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"schema_version": 2}, "schema_version: 1 was expected, not 2"),
        ({"files": [{"path": "../x", "bytes": 1, "sha256": "0" * 64}]}, "files[0].path"),
        ({"inputs": 3}, "inputs: 3 is not a list"),
        ({"surprise": 3}, "unknown key 'surprise'"),
        ({"preprocessing": {}}, "preprocessing: 'kind' is missing"),
        ({"candidates": [{"candidate": "c", "fate": "ships", "reason": "", "weight_bytes": -1}]}, "weight_bytes: -1"),
        (
            {"model": {"main": "m", "files": ["m"], "alternatives": ["m"], "kind": "float32", "precision": "float32"}},
            "model.files: nothing but alternatives",
        ),
    ],
)
def test_a_manifest_that_is_none(bundle: Path, change: dict[str, Any], found: str) -> None:
    (bundle / "manifest.json").write_text(json.dumps(manifest_of(bundle) | change))
    with pytest.raises(InputError, match="is not a manifest of a bundle") as failure:
        read_bundle(bundle)
    assert found in str(failure.value)
    assert is_bundle(bundle)


def test_an_archive_of_a_bundle_is_told_to_be_unpacked(bundle: Path, tmp_path: Path) -> None:
    archive = Path(shutil.make_archive(str(tmp_path / "packed"), "zip", bundle))
    with pytest.raises(InputError) as failure:
        read_bundle(archive)
    assert str(failure.value) == (
        f"{archive}: is not a bundle\n"
        "expected: a folder with a manifest.json\n"
        "found: a file\n"
        "hint: unpack the archive first, and give the bundle's folder"
    )


def test_a_manifest_of_a_later_version_names_both(bundle: Path) -> None:
    later = manifest_of(bundle) | {"edgekit": "7.0.0", "schema_version": 2}
    (bundle / "manifest.json").write_text(json.dumps(later))
    with pytest.raises(InputError) as failure:
        read_bundle(bundle)
    assert str(failure.value) == (
        f"{bundle}/manifest.json: is not a manifest of a bundle\n"
        "expected: what schema version 1 describes\n"
        "found: schema_version: 1 was expected, not 2\n"
        f"hint: EdgeKit 7.0.0 wrote the bundle, and this is {edgekit.__version__}: package the model again"
    )


@pytest.mark.parametrize("text", ["", "{", "[1]", "\xff"])
def test_a_manifest_that_is_no_json_object(bundle: Path, text: str) -> None:
    (bundle / "manifest.json").write_text(text, encoding="latin-1")
    with pytest.raises(InputError):
        read_bundle(bundle)
    assert not is_bundle(bundle)


def test_a_wrong_manifest_is_not_written(packaged_digits: Path) -> None:
    manifest = manifest_of(packaged_digits)
    validate_manifest(manifest)
    with pytest.raises(InternalError, match="the manifest breaks its own schema: golden"):
        validate_manifest(manifest | {"golden": {}})


def test_damaged_golden_data(bundle: Path) -> None:
    (bundle / "golden" / "1" / "outputs" / "0.npy").write_bytes(b"")
    with pytest.raises(RequirementError, match="golden data cannot be read"):
        list(read_bundle(bundle).golden())


def test_what_a_device_loads(packaged_digits: Path) -> None:
    bundle = read_bundle(packaged_digits)
    assert list(bundle.loaded_files) == [bundle.main.name]  # not the model in the other format
    files = [{"path": path, "sha256": path} for path in ("m.pkg/a/b.bin", "m.pkg/c", "m.pkg2/d", "golden/0.npy")]
    packed = replace(bundle, manifest={"model": {"main": "m.pkg", "files": ["m.pkg"]}, "files": files})
    assert packed.loaded_files == {"m.pkg/a/b.bin": "m.pkg/a/b.bin", "m.pkg/c": "m.pkg/c"}
